"""Arguments and results of a store's methods: places, receipts, changes and statements."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Self, TypeAlias

from factmem.models._display import Displayed
from factmem.models.facts import AnyFact, Concept
from factmem.models.places import MemoryScope, MemorySubject, Place
from factmem.models.sources import FactSource

__all__ = [
    "ErasureReceipt",
    "Forgotten",
    "Learned",
    "Moment",
    "PlaceChanges",
    "PlaceInfo",
    "RetractedFact",
]


@dataclass(frozen=True, slots=True)
class PlaceInfo(Displayed):
    """A place that is not empty, with its number of values and its size.

    Pass its parts to other methods: `erase(info.subject, info.scope)`. Stores do not keep the
    descriptions and priorities of subjects, so this subject's description is empty and its priority
    is the lowest.
    """

    scope: MemoryScope
    subject: MemorySubject
    count: int
    """How many values are current."""
    bytes: int
    """Its size on disk or in memory, history included."""
    oldest: datetime | None
    """When the oldest current value was last confirmed; None if no value is current."""
    newest: datetime | None
    concepts: tuple[str, ...] = ()
    """The keywords with a current value, sorted."""
    conversations: int = 0
    """How many conversations it has; their messages are part of its size."""

    @property
    def place(self) -> Place:
        """The place itself."""
        return Place(self.scope, self.subject)


@dataclass(frozen=True, slots=True)
class ErasureReceipt(Displayed):
    """The result of `erase`, to keep as evidence. It contains no values."""

    scope: MemoryScope
    subject: MemorySubject
    erased_at: datetime
    count: int | None
    """How many current values were erased; 0 if the place did not exist, None if it was too damaged
    to count them."""
    bytes: int
    """How many bytes of storage were removed."""
    copies_remain: bool = False
    """Whether the store itself still has copies, such as a database in its logs and standbys."""
    is_shreddable: bool = False
    """Whether `shred` makes the place unreadable in all copies made before it: in backups, logs and
    standbys. Otherwise they can be read until they are deleted, if encrypted by the store's key."""
    conversations: int = 0
    """How many conversations of the place were erased with it."""

    @property
    def place(self) -> Place:
        """The place itself."""
        return Place(self.scope, self.subject)


Purge: TypeAlias = bool | Literal["quotes"]
"""Whether forgotten values are also removed from the history; with "quotes" also from the quotes of
all other facts of the place."""


class Forgotten(int):
    """The number of forgotten values as an `int`, with the remains that a purge found."""

    quoting: tuple[str, ...]
    """The ids of stored facts whose quotes contain a purged value. `forget` the value again with
    `purge="quotes"`, or forget these facts."""
    mentioning: tuple[str, ...]
    """The ids of stored facts whose keyword, description or metadata contains a purged value. A
    purge does not change these: purge the facts, or save others."""

    def __new__(
        cls, count: int, quoting: Iterable[str] = (), mentioning: Iterable[str] = ()
    ) -> Self:
        """Create a count; see the class."""
        made = super().__new__(cls, count)
        made.quoting = tuple(quoting)
        made.mentioning = tuple(mentioning)
        return made

    @classmethod
    def total(cls, counts: Iterable[int]) -> Self:
        """Return the sum of the results of several calls to `forget`."""
        given = list(counts)
        left = [
            [each for count in given for each in getattr(count, name, ())]
            for name in ("quoting", "mentioning")
        ]
        return cls(sum(given), *left)


@dataclass(frozen=True, slots=True)
class PlaceChanges:
    """The current facts of the keywords that have changed since a version."""

    version: str
    """The present version of the place, for the next call."""
    facts: Mapping[str, Sequence[AnyFact | str]]
    """The current facts of each changed keyword, in the order of `load_all`. A fact that is
    unchanged in every field may be represented by its id. A keyword without current facts has an
    empty sequence; absent keywords are unchanged."""


@dataclass(frozen=True, slots=True)
class RetractedFact:
    """A statement that a value is no longer true."""

    concept: Concept[Any, Any]
    value: Any = field(repr=False)
    said_at: datetime
    """When it was said, as an aware datetime."""
    source: FactSource | None = None
    """Where it was said. Its words are not stored."""
    is_proposed: bool = False
    """Whether a person or the application has to decide."""


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """An opaque marker for the state of a place, as one process saw it."""

    state: object = field(repr=False)


@dataclass(frozen=True, slots=True)
class Learned:
    """The result of recording statements."""

    superseded: frozenset[str] = frozenset()
    """The ids of facts that are only in the history, because of a statement that was said later."""
    refused: tuple[RetractedFact, ...] = ()
    """The retractions without effect, because their values were said later."""
    is_erased: bool = False
    """Whether nothing was recorded, because the place was erased after the chat was read."""
    proposed: frozenset[str] = frozenset()
    """The ids of facts with a value that waits for a decision; see `FactStore.proposals`."""
    disputed: tuple[RetractedFact, ...] = ()
    """The retractions that wait for a decision, as a person confirmed their values."""


@dataclass(frozen=True, slots=True)
class ShredReceipt:
    """The result of `shred`. Keep it with the receipts of erasures, which it makes final."""

    began_at: datetime
    """Data that was erased or purged before this time is now unreadable in all copies of the store
    made before."""
    places: int
    """The number of remaining places. The data key of each is now encrypted under a new key."""


@dataclass(frozen=True, slots=True)
class StoreStatus(Displayed):
    """The result of `ping`."""

    id: str
    """The random id that the store got when it was created."""
    version: int
    """The version of its tables."""
    is_encrypted: bool
