"""Batches of saves, and the rows that they write."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from secrets import randbits
from typing import NamedTuple

from factmem.models.places import Identity
from factmem.providers._postgres.driver import Session
from factmem.providers._postgres.erasures import Moment
from factmem.providers._postgres.exchanges import Exchange
from factmem.providers._postgres.places import PlaceReader, Position
from factmem.providers._postgres.sealing import Extent

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


class Line(NamedTuple):
    """A row of the table of entries."""

    key: str
    number: int
    at: int
    mark: int
    stored: bytes


class End(NamedTuple):
    """New columns of the row of a place after lines were added; None does not change a column."""

    key: str
    tail: bytes | None = None
    names: bytes | None = None
    data_key: bytes | None = None


class Locked(NamedTuple):
    """The row of a place that the transaction has locked."""

    extent: Extent
    names: bytes
    data_key: bytes | None


class Saved(NamedTuple):
    """The result of a batch for one place."""

    position: Position
    tag: bytes
    """The tag of the line before the added ones."""
    at: int
    """When they were recorded, in microseconds."""
    folded: int
    """The number of the last line in a chunk; 0 if there are no chunks."""


class Appended(NamedTuple):
    """The result of a batch."""

    saved: dict[Identity, Saved]
    late: set[Save]
    """The saves that were refused because their places had been erased."""
    committed: int = NO_MARK
    """The mark of the earlier attempt that was committed; nothing was added then."""


@dataclass(slots=True)
class BegunSave:
    """The first attempt of a batch, sent by the event loop and perhaps not answered yet."""

    session: Session
    exchange: Exchange
    mark: int
    appended: Callable[[], Appended]
    """Waits for the answer and returns the result."""
    left: Callable[[], None] | None = None
    """The remaining work after the commit."""


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
    """

    def __init__(self, saves: Sequence[Save], reader: PlaceReader, now: int) -> None:
        self.now = now
        self.identities: dict[str, Identity] = {}
        by_key: dict[str, list[bytes]] = {}
        for identity, body, _ in saves:
            key = reader.key(identity)
            by_key.setdefault(key, []).append(body)
            self.identities[key] = identity
        self.bodies = {key: by_key[key] for key in sorted(by_key)}
