"""Batches of saves, and the results of writing them."""

from collections.abc import Sequence
from secrets import randbits
from typing import NamedTuple

from factmem.models.places import Identity
from factmem.providers._sql.erasures import Moment
from factmem.providers._sql.lines import Part, split
from factmem.providers._sql.places import PlaceReader, Position
from factmem.providers._sql.session import Head

EMPTY_AT = -(2**62)
"""The time of an empty place: before every other."""

MADE_BITS = 36
"""Random bits in the number of a place; the number of earlier anchors is above them."""

NO_MARK = 0
"""Does not change the mark of a place."""


class Save(NamedTuple):
    """A save that waits for its commit: an encoded entry without its time."""

    identity: Identity
    body: bytes
    since: Moment | None = None
    """If the place was erased after this moment, the save is refused."""


class Saved(NamedTuple):
    """The result of a batch for one place."""

    position: Position
    tag: bytes
    """The tag of the line before the added ones."""
    at: int
    """When they were recorded, in microseconds."""
    bodies: Sequence[bytes]
    """The added lines, before they were sealed."""


class Appended(NamedTuple):
    """The result of a batch."""

    saved: dict[Identity, Saved]
    late: set[Save]
    """The saves that were refused because their places had been erased."""
    committed: int = NO_MARK
    """The mark of the earlier attempt that was committed; nothing was added then."""


def new_mark() -> int:
    """Return a random mark of 62 bits, so that collisions are negligible."""
    return randbits(62)


def made_number(anchors: int) -> int:
    """Return the number of a new place, given the number of anchors of its store.

    It differs between places of the same name, and is larger than that of every place that was
    created before an anchor.
    """
    return anchors << MADE_BITS | randbits(MADE_BITS)


class Batch:
    """Entries that share a commit, by place, in the order in which their rows are locked.

    Args:
        saves: The entries, oldest first.
        reader: Knows the keys of places.
        now: The time to record them at, in microseconds.
        times: The time of each entry, if they have times of their own.
    """

    def __init__(
        self, saves: Sequence[Save], reader: PlaceReader, now: int, times: Sequence[int] = ()
    ) -> None:
        self.now = now
        self.identities: dict[bytes, Identity] = {}
        self.times: list[int] = []
        """The time of each part of an only place, if the entries have times of their own."""
        by_key: dict[bytes, list[Part]] = {}
        for index, (identity, body, _) in enumerate(saves):
            key = reader.key(identity)
            parts = split(body, is_sealed=reader.store.is_sealed)
            by_key.setdefault(key, []).extend(parts)
            self.identities[key] = identity
            if times:
                self.times += [times[index]] * len(parts)
        self.parts = {key: by_key[key] for key in sorted(by_key)}
        self._reader = reader

    def heads(self, *, is_empty: bool = False) -> list[Head]:
        """Return the rows of the places, with what the batch adds to them.

        With `is_empty` nothing is added: the rows are only locked, or created.
        """
        made = made_number(self._reader.store.anchors)
        heads: list[Head] = []
        for key, parts in self.parts.items():
            row = self._reader.new_row(self.identities[key])
            count, size = len(parts), sum(len(part.body) for part in parts)
            heads.append(Head(key, *row, made, *((0, 0) if is_empty else (count, size))))
        return heads
