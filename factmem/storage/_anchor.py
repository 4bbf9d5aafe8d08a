"""Anchors: how far each journal had come, to be kept elsewhere, against rollback.

Nothing in a folder can tell that the whole of it was put back to an older copy. As numbers never
go back, an anchor stays true for ever: a journal that has come less far was rolled back.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

import orjson

from factmem.errors import CorruptJournalError, TamperedError
from factmem.storage._journal import Damage, Place
from factmem.storage._plain_codec import Codec, compact
from factmem.storage._reader import FolderReader


@dataclass(frozen=True, slots=True)
class Anchor:
    """A store's id, and how far each journal file had come."""

    store: str
    journals: Mapping[str, "_End"]


class _End(NamedTuple):
    """How far a journal's file had come."""

    digest: str
    """Of its first line."""
    following: int
    """Its first line's `next`, which rises whenever it is rewritten after a save."""
    last: int
    tag: str
    """Of the last record."""


def without_store() -> str:
    """Return the anchor of a folder without a store."""
    return _dumped(None, {})


def taken(reader: FolderReader) -> str:
    """Return how far every journal has come; under the lock."""
    codec = reader.codec()
    if codec is None:
        return without_store()
    journals: dict[str, Any] = {}
    for file in reader.journal_files(codec):
        place = _end(reader, codec, file)
        journals[file] = _End(_digest(place), place.following, place.last, place.tag.hex())
    return _dumped(reader.manifest.fields["store"], journals)


def verify(reader: FolderReader, anchor: Anchor) -> None:
    """Raise unless every journal has come as far as the anchor says; under the lock."""
    codec = reader.codec()
    if codec is None or reader.manifest.fields["store"] != anchor.store:
        raise of_another(reader)
    known = set(reader.journal_files(codec))
    for file, expected in anchor.journals.items():
        with reader.errors.of(file):
            if file not in known:
                raise Damage(
                    "it is gone, and the anchor knows it (take a new anchor after an erasure)",
                    is_forged=True,
                )
            _verify_journal(reader, codec, file, expected)


def of_another(reader: FolderReader) -> Exception:
    """Return the error for a folder that is not the one the anchor was taken from."""
    what = (
        f"{reader.files.path('')!r} is not the store that the anchor was taken from: give an anchor "
        f"of this store, or put back the one that it is of"
    )
    return (TamperedError if reader.manifest.is_sealed else CorruptJournalError)(what)


def _verify_journal(reader: FolderReader, codec: Codec, file: str, expected: _End) -> None:
    digest, following, last, tag = expected
    place = _end(reader, codec, file)
    if place.last < last:
        raise Damage(f"it ends at record {place.last} and had come to {last}", is_forged=True)
    if place.following < following:
        raise Damage("it is a copy from before it was rewritten", is_forged=True)
    if _digest(place) != digest or last < place.following:
        return  # rewritten since: numbers are all that stays
    lines = (reader.journal(file)).split(b"\n")[1:]
    if not any(_is_record(place, line, last, tag) for line in lines):
        raise Damage(f"record {last} is not the one that it was", is_forged=True)


def _is_record(place: Place, line: bytes, number: int, tag: str) -> bool:
    try:
        found, _, _, found_tag, _ = place.sealer.unseal(line)
    except ValueError:
        return False
    return found == number and found_tag.hex() == tag


def _end(reader: FolderReader, codec: Codec, file: str) -> Place:
    with reader.errors.of(file):
        place = reader.end_of(codec, file)
        if damage := place.damage():
            raise damage
        return place


def _digest(place: Place) -> str:
    return sha256(place.header).hexdigest()[:32]


def _dumped(store: str | None, journals: dict[str, Any]) -> str:
    text = compact({"anchor": 1, "store": store, "journals": journals})
    return base64.urlsafe_b64encode(text).decode()


def parsed(text: str) -> Anchor | None:
    """Return what the text of an anchor says; None if it was taken before there was a store.

    Raises:
        ValueError: It is no anchor.
    """
    try:
        fields = orjson.loads(base64.urlsafe_b64decode(text.encode()))
        if fields["anchor"] != 1:
            raise ValueError("another version")
        journals = {
            str(file): _End(str(digest), int(following), int(last), str(tag))
            for file, (digest, following, last, tag) in fields["journals"].items()
        }
        store = fields["store"]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError("The anchor cannot be read: pass the text that anchor() gave") from None
    return None if store is None else Anchor(str(store), journals)
