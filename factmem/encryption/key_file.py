"""KeyFile: keys in a separate file, which can be replaced and destroyed.

Destroying a key makes every copy unreadable that was encrypted with it: in logs, on standbys, in
backups. For that, store the keys outside of the copied folder.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import orjson

from factmem._arguments import kind_of
from factmem._concurrency import FileLock, refusal, sync_folder
from factmem.encryption.aes256gcm import Aes256GCMEncryptor, Encryption, KeySlot, Unwrapped
from factmem.encryption.key import Key
from factmem.errors import StorageError, WrongKeyError

__all__ = ["KeyFile", "RenewableEncryption"]

_TIMEOUT = 10.0
"""Seconds to wait for another process that writes the file."""


@runtime_checkable
class RenewableEncryption(Encryption, Protocol):
    """An `Encryption` whose keys can be destroyed: a file, a key service.

    Each store has its own keys. The caller holds the lock of the store's key slots.
    """

    def renew(self, store: str) -> None:
        """Create a new key for a store. `wrap` uses it from now on; older keys still unwrap."""
        ...

    def destroy_unused(self, slots: Sequence[KeySlot], store: str) -> None:
        """Destroy the keys of a store that open none of its slots.

        Raises:
            WrongKeyError: No key opens a slot. Nothing was destroyed.
        """
        ...


class KeyFile:
    """An `Encryption` with random keys in a file, which is created with the first store.

    The file contains the keys of any number of stores. With it all of them can be read, and without
    it none: keep copies, but only as many as you can destroy. Keep it out of the backups of the
    database. Several hosts can share it on a network file system with locks.

    Destroyed keys are overwritten before their file is deleted. Flash memory and copy-on-write file
    systems may keep the old blocks; if that matters, use a key service.

    Args:
        path: The file. It is created with mode 600, and so is `path` + ".lock" beside it.

    Raises:
        TypeError: The path is neither a string nor path-like.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            self.path: Path = Path(path).expanduser().absolute()
            """The file."""
        except TypeError:
            raise TypeError(
                f'path must be a path, not {kind_of(path)}: KeyFile("/etc/app/factmem.keys")'
            ) from None
        self._lock = FileLock(f"{self.path}.lock", _TIMEOUT)

    def __repr__(self) -> str:
        return f"KeyFile({str(self.path)!r})"

    def wrap(self, ring: bytes, store: str) -> KeySlot:
        """See `Encryption.wrap`; creates a key for a store without one."""
        with self._lock.held():
            keys = self._read()
            if store not in keys:
                keys[store] = [Key.generate().to_base64()]
                self._write(keys)
        return Aes256GCMEncryptor(keys[store][0]).wrap(ring, store)

    def unwrap(self, slots: Sequence[KeySlot], store: str) -> Unwrapped:
        """See `Encryption.unwrap`; the file is read each time."""
        keys = self._read().get(store)
        if not keys:
            raise WrongKeyError(
                f"{str(self.path)!r} has no key of this store: it is another file, or a copy from "
                f"before the store was created"
            )
        return Aes256GCMEncryptor(*keys).unwrap(slots, store)

    def renew(self, store: str) -> None:
        """See `RenewableEncryption.renew`."""
        with self._lock.held():
            keys = self._read()
            keys[store] = [Key.generate().to_base64(), *keys.get(store, ())]
            self._write(keys)

    def destroy_unused(self, slots: Sequence[KeySlot], store: str) -> None:
        """See `RenewableEncryption.destroy_unused`."""
        with self._lock.held():
            keys = self._read()
            used = [key for key in keys.get(store, ()) if _opens(key, slots, store)]
            if not used:
                raise WrongKeyError(f"No key in {str(self.path)!r} opens the store")
            if used != keys[store]:
                self._write({**keys, store: used})

    def _read(self) -> dict[str, list[str]]:
        try:
            held: Any = orjson.loads(self._content())
            keys: dict[str, list[str]] = held["keys"]
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, KeyError):
            raise StorageError(f"{str(self.path)!r} is not a key file") from None
        except OSError as exc:
            raise StorageError(f"{str(self.path)!r} cannot be read: {refusal(exc)}") from exc
        return keys

    def _content(self) -> bytes:
        """Return the file's content, read again if it was replaced and overwritten meanwhile."""
        while True:
            with self.path.open("rb") as file:
                content = file.read()
                if os.path.samestat(os.fstat(file.fileno()), self.path.stat()):
                    return content

    def _write(self, keys: dict[str, list[str]]) -> None:
        """Replace the file, and overwrite the previous one; under the lock."""
        beside, before = self._beside(".new"), self._beside(".old")
        try:
            self._overwrite(before)  # left behind by a process that was killed here
            with suppress(FileNotFoundError):
                beside.unlink()
            _write_durably(beside, orjson.dumps({"keys": keys}), os.O_CREAT | os.O_EXCL)
            # A second name for the old keys: they are overwritten only when the new file is
            # durable.
            with suppress(FileNotFoundError):  # the first write replaces no file
                os.link(self.path, before)
            beside.replace(self.path)
            sync_folder(self.path.parent)
            self._overwrite(before)
        except OSError as exc:
            raise StorageError(f"{str(self.path)!r} cannot be written: {refusal(exc)}") from exc

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)

    def _overwrite(self, before: Path) -> None:
        """Overwrite and delete the previous file, if there is one."""
        if not before.exists():
            return
        # After a kill in between, that name may be one of the file in use, which must stay.
        if not (self.path.exists() and before.samefile(self.path)):
            _write_durably(before, bytes(before.stat().st_size), 0)
        before.unlink()
        sync_folder(self.path.parent)


def _opens(key: str, slots: Sequence[KeySlot], store: str) -> bool:
    try:
        Aes256GCMEncryptor(key).unwrap(slots, store)
    except WrongKeyError:
        return False
    return True


def _write_durably(path: Path, data: bytes, flags: int) -> None:
    fd = os.open(path, os.O_WRONLY | flags, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
