"""The manifest `factmem.json`: it marks a folder as a store, with its format, mode and key slots.

Every call reads it, because another process may have changed the keys. It is parsed only if its bytes
changed, and always replaced whole.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from factmem.errors import (
    CorruptJournalError,
    KeyRequiredError,
    StorageError,
    TamperedError,
    WrongKeyError,
)
from factmem.storage._file_calls import Files
from factmem.storage._journal import Damage
from factmem.storage._plain_codec import FORMATS, Codec, compact, new_id

MANIFEST = "factmem.json"

_MODES = ("plain", "aes-256-gcm")
"""The modes that this version supports."""
_RESERVE = 64
"""The number of files that a process may create before it writes the manifest again."""

_BOOKKEEPING = {"made", "factmem", "erased"}

_NO_STORE = "The store does not exist yet: save a fact first"


class Mode(Protocol):
    """The mode of a store in `factmem.json`, plain or encrypted."""

    name: str
    is_sealed: bool
    """Whether a failed verification counts as tampering."""

    def new_manifest(self, store: str) -> dict[str, Any]:
        """Return the fields of a new manifest besides format, store id and mode."""
        ...

    def codec(self, manifest: dict[str, Any]) -> Codec:
        """Return the codec of a store; raise if it cannot be read."""
        ...

    def refusal(self, path: str) -> Exception:
        """Return the error for a store of another mode."""
        ...

    def error_of(self, damage: Damage, path: str) -> Exception:
        """Return the error for a damaged journal."""
        ...


@dataclass(frozen=True, slots=True)
class _Opened:
    raw: bytes
    fields: dict[str, Any]
    codec: Codec


class ManifestFile:
    """The manifest of one folder, as one process sees it. `OSError` passes unchanged.

    Args:
        files: The folder.
        mode: The mode of the store.
        changed: Called after the manifest changed, before its new content is used.
    """

    def __init__(self, files: Files, mode: Mode, changed: Callable[[], None]) -> None:
        self._files = files
        self._mode = mode
        self._changed = changed
        self.forget_all()

    def forget_all(self) -> None:
        """Discard all cached state and the lock, in a forked child and on closing."""
        self.opening = threading.Lock()
        """Held while the manifest is opened, and while it and the key that opens it change."""
        self._opened: _Opened | None = None
        self._synced = b""
        self._made = self._reserved = 0

    @property
    def known_codec(self) -> Codec | None:
        """The codec of the manifest as it was last read."""
        return None if self._opened is None else self._opened.codec

    def codec(self) -> Codec | None:
        """Return the codec of the current manifest; None without a store."""
        opened = self._opened
        if opened is not None and self._files.has_content(MANIFEST, opened.raw):
            return opened.codec
        # One thread at a time, so that no thread replaces a newer manifest in memory by an older one,
        # and a passphrase is derived once.
        with self.opening:
            return self._open()

    def _open(self) -> Codec | None:
        raw, opened = self._text(), self._opened
        if opened is not None and raw == opened.raw:
            return opened.codec
        if raw is None:
            self._opened = None
            return None
        fields = self._parsed(raw)
        if opened is not None and _without_counter(fields) == _without_counter(opened.fields):
            self._opened = opened = _Opened(raw, fields, opened.codec)
            return opened.codec  # a key that is derived from a passphrase is not derived again
        try:
            opened = _Opened(raw, fields, self._mode.codec(fields))
        except (KeyRequiredError, WrongKeyError, TamperedError) as exc:
            raise type(exc)(f"At {self._files.path(MANIFEST)!r}: {exc}") from None
        self._changed()
        self._opened = opened
        return opened.codec

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the manifest as it was last read."""
        if self._opened is None:
            raise StorageError(_NO_STORE)
        return self._opened.fields

    def check_made(self) -> None:
        """Raise `StorageError` if there is no store, without needing its key."""
        if self._text() is None:
            raise StorageError(_NO_STORE)

    def _text(self) -> bytes | None:
        raw = self._files.content(MANIFEST)
        if raw is None and any(".jsonl" in name or ".fmj" in name for name in self._files.names()):
            raw = self._files.content(MANIFEST)  # another process may have just created the store
            if raw is None:
                raise CorruptJournalError(
                    f"The store has journals but no {self._files.path(MANIFEST)!r}: restore that "
                    f"file from a backup. Nothing was created over them"
                )
        return raw

    def _parsed(self, raw: bytes) -> dict[str, Any]:
        path = self._files.path(MANIFEST)
        try:
            fields: dict[str, Any] = orjson.loads(raw)
            version, mode = fields["factmem"], fields["mode"]
            if len(bytes.fromhex(fields["store"])) != 16 or not _is_number(fields.get("made", 0)):
                raise ValueError("no store id, or no counter")
        except (ValueError, KeyError, TypeError, RecursionError):
            raise CorruptJournalError(
                f"{path!r} is damaged: restore it from a backup. Nothing was changed"
            ) from None
        if version not in FORMATS or mode not in _MODES:
            raise StorageError(
                f"{path!r} was written by a newer version of factmem, or is damaged: upgrade to read "
                f"it, or restore it from a backup"
            )
        if mode != self._mode.name:
            raise self._mode.refusal(path)
        return fields

    def create(self) -> Codec:
        """Create the store if it does not exist; under the lock."""
        # The folder may be new, created by this process or by one that died. To all others a manifest
        # proves that the folder is durable.
        self._files.sync_parents()
        store = new_id()
        self._made, self._reserved = 0, _RESERVE
        self.write({"store": store, "made": _RESERVE, **self._mode.new_manifest(store)})
        codec = self.codec()
        if codec is None:
            raise StorageError(f"{self._files.path(MANIFEST)!r} was removed while it was created")
        return codec

    def write(self, fields: dict[str, Any]) -> None:
        """Replace `factmem.json` atomically and durably; under the lock."""
        text = compact({**fields, "factmem": FORMATS[-1], "mode": self._mode.name}) + b"\n"
        fd = self._files.create(f"{MANIFEST}.tmp")
        try:
            self._files.append(fd, text)
            self._files.sync(fd)
        finally:
            self._files.close(fd)
        self._files.rename(f"{MANIFEST}.tmp", MANIFEST)
        self._files.sync_folder("")
        self._synced = text

    def next_made(self, *, after: int = 0) -> int:
        """Return the number of a file that is created now, greater than `after`; under the lock.

        Numbers increase over all files and processes of the store, so its number identifies an older
        copy of a file. Processes reserve numbers in blocks in the manifest. A block that another
        process reserves ends the block of this one.
        """
        fields = self.fields
        if max(self._made, after) >= self._reserved or fields.get("made", 0) != self._reserved:
            # A manifest restored from a backup may have a count below the number of files.
            self._made = max(fields.get("made", 0), after)
            self._reserve(fields, _RESERVE)
        self._made = max(self._made, after) + 1
        return self._made

    def erasures(self) -> int:
        """Return the number of erasures by all processes. No names are stored with it."""
        if self.codec() is None:
            return 0
        count = self.fields.get("erased", 0)
        return count if type(count) is int else 0

    def count_erasure(self) -> None:
        """Increase the number of erasures, durably; under the lock, before anything is removed."""
        self.write({**self.fields, "erased": self.erasures() + 1})
        self.codec()

    def age(self, newest: int) -> int:
        """Return a number that no existing file exceeds and every later file does.

        Under the lock; see `next_made`. Files of format 1 have no numbers. `newest` is the greatest
        number of a file: a manifest restored from a backup may have a smaller count.
        """
        age: int = max(self.fields.get("made", 0), newest)
        if self.fields["factmem"] > 1:
            self._made = age
            self._reserve(self.fields, 1)
        return age

    def _reserve(self, fields: dict[str, Any], count: int) -> None:
        reserved = self._made + count
        self.write({**fields, "made": reserved})
        self.codec()
        self._reserved = reserved

    @property
    def is_sealed(self) -> bool:
        """Whether the store is to be encrypted."""
        return self._mode.is_sealed

    def settle(self) -> None:
        """Make the manifest in use durable, once; under the lock, before a file is renamed into place.

        The process that wrote it may have died before the rename was durable. If an older manifest
        came back, records under the newest keys could not be read.
        """
        if self._opened is not None and self._synced != self._opened.raw:
            self._files.sync_folder("")
            self._synced = self._opened.raw


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def _without_counter(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in _BOOKKEEPING}
