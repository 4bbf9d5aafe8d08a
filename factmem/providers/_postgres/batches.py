"""Batches of saves, and the rows that they become."""

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
"""When nothing was recorded: before every time."""

MADE_BITS = 36
"""Random bits in the number of a place; above them is how many anchors came before it."""

NO_MARK = 0
"""Leaves the mark of a place as it is."""


class Save(NamedTuple):
    """A save that waits for its commit: an encoded entry without its time."""

    identity: Identity
    body: bytes
    since: Moment | None = None
    """A moment of the place after which it must not have been erased."""


class Line(NamedTuple):
    """A row of the table of entries."""

    key: str
    number: int
    at: int
    mark: int
    stored: bytes


class End(NamedTuple):
    """What the row of a place gets when lines were added; None leaves a column as it is."""

    key: str
    tail: bytes | None = None
    names: bytes | None = None
    data_key: bytes | None = None


class Locked(NamedTuple):
    """The row of a place, whose lock the transaction holds."""

    extent: Extent
    names: bytes
    data_key: bytes | None


class Saved(NamedTuple):
    """What a batch added to one place."""

    position: Position
    tag: bytes
    """The tag of the line before the added ones."""
    at: int
    """When they were recorded, in microseconds."""
    folded: int
    """The number of the last line that is in a chunk; 0 where none is."""


class Appended(NamedTuple):
    """What became of a batch."""

    saved: dict[Identity, Saved]
    late: set[Save]
    """The saves whose places were erased before they came."""
    committed: int = NO_MARK
    """The mark of the earlier attempt that was committed; nothing was added then."""


@dataclass(slots=True)
class BegunSave:
    """The first attempt of a batch, which was sent and may not be answered yet."""

    session: Session
    exchange: Exchange
    mark: int
    appended: Callable[[], Appended]
    """Returns what became of it; waits for the answer."""
    left: Callable[[], None] | None = None
    """What is left to do after the commit."""


def new_mark() -> int:
    """Return a random mark: 62 bits, so that two alike are not met."""
    return randbits(62)


def made_number(anchors: int) -> int:
    """Return the number of a place that is made now, after so many anchors of its store.

    It is another one for each place of the same name, and larger than that of every place that was
    made before an anchor.
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
