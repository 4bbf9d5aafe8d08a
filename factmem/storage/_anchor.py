"""Anchors: how far each journal had come, to be kept elsewhere, against rollback.

Nothing in a folder can tell that the whole of it was put back to an older copy. As numbers never
go back, an anchor stays true for ever: a journal that has come less far was rolled back.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from factmem.errors import CorruptJournalError, TamperedError
from factmem.storage._journal import Damage, Place
from factmem.storage._plain_codec import Codec, compact

if TYPE_CHECKING:
    from factmem.storage._folder import JournalFolder


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


def taken(folder: "JournalFolder") -> str:
    """Return how far every journal has come; under the lock."""
    codec = folder.codec()
    if codec is None:
        return _dumped(None, {})
    journals: dict[str, Any] = {}
    for file in folder.journal_files(codec):
        place = _end(folder, codec, file)
        journals[file] = _End(_digest(place), place.following, place.last, place.tag.hex())
    return _dumped(folder.manifest.fields["store"], journals)


def verify(folder: "JournalFolder", anchor: Anchor) -> None:
    """Raise unless every journal has come as far as the anchor says; under the lock."""
    codec = folder.codec()
    if codec is None or folder.manifest.fields["store"] != anchor.store:
        raise of_another(folder)
    known = set(folder.journal_files(codec))
    for file, expected in anchor.journals.items():
        with folder.errors_of(file):
            if file not in known:
                raise Damage(
                    "it is gone, and the anchor knows it (take a new anchor after an erasure)",
                    is_forged=True,
                )
            _verify_journal(folder, codec, file, expected)


def of_another(folder: "JournalFolder") -> Exception:
    """Return the error for a folder that is not the one the anchor was taken from."""
    what = (
        f"{folder.files.path('')!r} is not the store that the anchor was taken from: give an anchor "
        f"of this store, or put back the one that it is of"
    )
    return CorruptJournalError(what) if folder.keys is None else TamperedError(what)


def _verify_journal(folder: "JournalFolder", codec: Codec, file: str, expected: _End) -> None:
    digest, following, last, tag = expected
    place = _end(folder, codec, file)
    if place.last < last:
        raise Damage(f"it ends at record {place.last} and had come to {last}", is_forged=True)
    if place.following < following:
        raise Damage("it is a copy from before it was rewritten", is_forged=True)
    if _digest(place) != digest or last < place.following:
        return  # rewritten since: numbers are all that stays
    lines = (folder.journal(file)).split(b"\n")[1:]
    if not any(_is_record(place, line, last, tag) for line in lines):
        raise Damage(f"record {last} is not the one that it was", is_forged=True)


def _is_record(place: Place, line: bytes, number: int, tag: str) -> bool:
    try:
        found, _, _, found_tag, _ = place.sealer.unseal(line)
    except ValueError:
        return False
    return found == number and found_tag.hex() == tag


def _end(folder: "JournalFolder", codec: Codec, file: str) -> Place:
    with folder.errors_of(file):
        place = folder.end_of(codec, file)
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
