"""Anchors: the last record number of each journal, stored elsewhere to detect rollback.

A folder cannot reveal that all of it was replaced by an older copy. Record numbers never decrease,
so an anchor never expires: a journal with a smaller number was rolled back.
"""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from factmem.errors import CorruptJournalError, StorageError, TamperedError
from factmem.storage._journal import Damage, Place, journal_path
from factmem.storage._listing import reported
from factmem.storage._manifest import MANIFEST
from factmem.storage._plain_codec import Codec, compact
from factmem.storage._reader import FolderReader
from factmem.storage.base import Progress


@dataclass(frozen=True, slots=True)
class Anchor:
    """A store's id and age, and the end of each journal file."""

    store: str
    journals: Mapping[str, "_End"]
    age: int
    """The number of files that the store had created. A later file has a greater number."""


class _End(NamedTuple):
    """The end of a journal's file."""

    digest: str
    """Of its first line."""
    following: int
    """The `next` of its first line, which rises with each rewrite that follows a save."""
    last: int
    tag: str
    """Of the last line."""
    made: int = 0
    """The number of the file in the store; 0 in format 1."""


def without_store() -> str:
    """Return the anchor of a folder without a store."""
    return _AnchorText(None).ended(0)


def taken(
    reader: FolderReader,
    settle: Callable[[Codec, str], None],
    age: Callable[[int], int] | None,
    progress: Progress | None = None,
) -> str:
    """Return the end of every journal as an anchor; under the lock.

    Args:
        reader: The folder.
        settle: Makes a journal's file durable, or raises: a power cut must not remove what an anchor
            names.
        age: Returns the number of files that the store has created, given the greatest number of a
            file; see `ManifestFile.age`. None if the counter cannot be raised. Another process may
            have reserved numbers that it has not used, so the anchor then names the greatest number
            of a file.
        progress: Called after each file.
    """
    codec = reader.codec()
    if codec is None:
        return without_store()
    text, newest = _AnchorText(reader.manifest.fields["store"]), 0
    for file in reported(reader, codec, progress):
        settle(codec, file)
        place = _end(reader, codec, file)
        end = _End(_digest(place), place.following, place.last, place.tag.hex(), place.made)
        text.add(file, end)
        newest = max(newest, place.made)
    return text.ended(newest if age is None else age(newest))


def check_settled(reader: FolderReader, codec: Codec, file: str) -> None:
    """Raise if a file may have records that are not durable, in a store that is not writable."""
    with reader.errors.of(file):
        fd = reader.files.open(journal_path(file))
        try:
            if reader.read_through(codec, file, fd).version > 1 and not reader.files.is_vouched(fd):
                raise StorageError(
                    f"The journal {reader.files.path(journal_path(file))!r} may have records that a "
                    f"power cut removes, and the file system is read-only: mount it writable and "
                    f"call again"
                )
        finally:
            reader.files.close(fd)


def verify(
    reader: FolderReader, anchor: Anchor | None, progress: Progress | None = None
) -> list[str]:
    """Raise unless every journal is whole and has come as far as the anchor says; under the lock.

    Reads every journal whole, because its cached state may come from a summary. Return the paths of
    journals that end in a write that was never acknowledged, and of end marks that cannot be read.
    """
    found: list[str] = []
    codec = reader.codec()
    if codec is None or (anchor and reader.manifest.fields["store"] != anchor.store):
        raise of_another(reader)
    for file in reader.marks.without_journal(codec):
        with reader.errors.of(file):
            reader.marks.check_gone(codec, file)
    expected = 0
    for file in reported(reader, codec, progress):
        with reader.errors.of(file):
            end = anchor.journals.get(file) if anchor else None
            if end is None:
                place = _end(reader, codec, file, is_uncached=True)
                if anchor:
                    _verify_unknown(place, anchor)
            else:
                expected += 1
                place = _verify_journal(reader, codec, file, end)
            found += _doubtful(reader, codec, place)
    if anchor is None:
        return found
    if expected < len(anchor.journals):
        _report_gone(reader, anchor)
    if reader.manifest.fields.get("made", 0) < anchor.age:
        raise (TamperedError if reader.manifest.is_sealed else CorruptJournalError)(
            f"{reader.files.path(MANIFEST)!r} was put back to an older copy: it counts fewer files "
            f"than the anchor. Restore it from a newer backup"
        )
    return found


def _report_gone(reader: FolderReader, anchor: Anchor) -> None:
    """Raise for a journal of the anchor that has no file."""
    for file in anchor.journals:
        if not reader.has_journal(file):
            with reader.errors.of(file):
                raise Damage(
                    "it is gone, and the anchor knows it (take a new anchor after an erasure)",
                    is_forged=True,
                )


def _doubtful(reader: FolderReader, codec: Codec, place: Place) -> list[str]:
    """Return the paths of a torn journal and of an unreadable end mark; neither is damage."""
    torn = [journal_path(place.file)] if place.has_tail() else []
    return torn + ([reader.marks.path(codec, place.file)] if place.has_bad_mark else [])


def of_another(reader: FolderReader) -> Exception:
    """Return the error for a folder that is not the one the anchor was taken from."""
    what = (
        f"{reader.files.path('')!r} is not the store that the anchor was taken from: pass an anchor "
        f"of this store, or restore the other one"
    )
    return (TamperedError if reader.manifest.is_sealed else CorruptJournalError)(what)


def _verify_unknown(place: Place, anchor: Anchor) -> None:
    """Raise if a file that is not in the anchor is older than the anchor."""
    if anchor.age and place.made <= anchor.age:
        raise Damage(
            "it is older than the anchor and not in it: it was erased and put back",
            is_forged=True,
        )


def _verify_journal(reader: FolderReader, codec: Codec, file: str, expected: _End) -> Place:
    digest, following, last, tag, made = expected
    place = _end(reader, codec, file, is_uncached=True)
    if place.made < made:
        raise Damage("it is a copy from before it was rewritten", is_forged=True)
    if place.last < last:
        raise Damage(f"it ends at record {place.last} and had come to {last}", is_forged=True)
    if place.following < following:
        raise Damage("it is a copy from before it was rewritten", is_forged=True)
    if place.made == made > 0 and _digest(place) != digest:  # no two files of a store share it
        raise Damage("it is a file of another store", is_forged=True)
    for which, first in place.losses:
        if made < which and first <= last:
            raise Damage(
                f"record {first} was lost with the end of the file, and its number was given to "
                f"another record",
                is_forged=True,
            )
    for first, _, line in place.gaps:
        if first <= last:
            raise Damage(f"line {line}: record {first} is missing", is_forged=True)
    if _digest(place) != digest or last < place.following:
        return place  # rewritten since: only the numbers stay the same
    lines = (reader.journal(file)).split(b"\n")[1:]
    if not any(_is_record(place, line, last, tag) for line in lines):
        raise Damage(f"record {last} is not the one that it was", is_forged=True)
    return place


def _is_record(place: Place, line: bytes, number: int, tag: str) -> bool:
    try:
        found, _, _, found_tag, _ = place.sealer.unseal(line)
    except ValueError:
        return False
    return found == number and found_tag.hex() == tag


def _end(reader: FolderReader, codec: Codec, file: str, *, is_uncached: bool = False) -> Place:
    with reader.errors.of(file):
        place = reader.end_of(codec, file, is_uncached=is_uncached)
        if damage := place.damage():
            raise damage
        return place


def _digest(place: Place) -> str:
    return place.digest()[:32]


class _AnchorText:
    """The string of an anchor, encoded as it grows: it has each place of the store."""

    def __init__(self, store: str | None) -> None:
        head = compact({"anchor": 2, "store": store})
        self._json = bytearray(b'%b,"journals":{' % head[:-1])
        self._encoded: list[bytes] = []
        self._between = b""

    def add(self, file: str, end: _End) -> None:
        """Name a journal."""
        self._json += b"%b%b:%b" % (self._between, compact(file), compact(end))
        self._between = b","
        if len(self._json) >= _ENCODED_AT_A_TIME:
            self._encode(len(self._json) // 3 * 3)

    def ended(self, made: int) -> str:
        """Return the whole text."""
        self._json += b'},"made":%d}' % made
        self._encode(len(self._json))
        return b"".join(self._encoded).decode()

    def _encode(self, count: int) -> None:
        self._encoded.append(base64.urlsafe_b64encode(self._json[:count]))
        del self._json[:count]


_ENCODED_AT_A_TIME = 1 << 16


def parsed(text: str) -> Anchor | None:
    """Return the anchor of a string; None if it was taken before there was a store.

    Raises:
        ValueError: The string is no anchor.
    """
    try:
        # Not by orjson, whose tree of a large anchor takes four times the memory of the result.
        fields = json.loads(base64.urlsafe_b64decode(text.encode()))
        if fields["anchor"] not in (1, 2):
            raise ValueError("another version")
        journals: dict[str, _End] = fields["journals"]
        # In place: a second dictionary would be as large as the anchor itself.
        for file, (digest, following, last, tag, *made) in journals.items():
            journals[file] = _End(str(digest), int(following), int(last), str(tag), *map(int, made))
        store, age = fields["store"], int(fields.get("made", 0))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(
            "The anchor cannot be read: pass the string that anchor() returned"
        ) from None
    return None if store is None else Anchor(str(store), journals, age)
