"""Results of a store's calls: places, erasure receipts and counts of forgotten values."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Self, TypeAlias

from factmem.models.display import Displayed
from factmem.models.places import MemoryScope, MemorySubject, Place

__all__ = ["ErasureReceipt", "Forgotten", "PlaceInfo", "Purge"]


@dataclass(frozen=True, slots=True)
class PlaceInfo(Displayed):
    """A place that holds something, and how much.

    `erase(info.subject, info.scope)` and `load_all(info.subject, info.scope)` take it as it is. A
    store keeps no descriptions of subjects, so this one's is empty and its priority the lowest.
    """

    scope: MemoryScope
    subject: MemorySubject
    count: int
    """How many values are current."""
    bytes: int
    """What it takes on disk or in memory, history included."""
    oldest: datetime | None
    """When the oldest current value was last confirmed; None where nothing is current."""
    newest: datetime | None
    concepts: tuple[str, ...] = ()
    """The keywords with a current value, sorted."""

    @property
    def place(self) -> Place:
        """The place itself."""
        return Place(self.scope, self.subject)


@dataclass(frozen=True, slots=True)
class ErasureReceipt(Displayed):
    """The result of `erase`, to keep as evidence. It holds no value."""

    scope: MemoryScope
    subject: MemorySubject
    erased_at: datetime
    count: int | None
    """How many values were current when they were erased; 0 where the place did not exist, None
    where it was damaged and could not be counted."""
    bytes: int
    """How many bytes of storage were removed."""
    key_destroyed: bool
    """Whether the key of the place's file was destroyed with it (encrypted stores)."""
    copies_remain: bool = False
    """Whether the storage itself keeps copies for now, as a database does in its logs and standbys.
    Backups that others make are never known here."""


Purge: TypeAlias = bool | Literal["quotes"]
"""Whether forgotten values are removed from history too; with "quotes" also from the quotes of all
other facts of the place."""


class Forgotten(int):
    """How many values `forget` found, and what a purge left. It is an `int`."""

    quoting: tuple[str, ...]
    """The ids of facts that are still stored and whose quotes contain a purged value. `forget` it
    again with `purge="quotes"`, or forget these facts."""
    mentioning: tuple[str, ...]
    """The ids of facts that are still stored and whose keyword, description or metadata contains a
    purged value. No purge changes these: purge the facts, or save other ones."""

    def __new__(
        cls, count: int, quoting: Iterable[str] = (), mentioning: Iterable[str] = ()
    ) -> Self:
        """Make a count; see the class."""
        made = super().__new__(cls, count)
        made.quoting = tuple(quoting)
        made.mentioning = tuple(mentioning)
        return made

    @classmethod
    def total(cls, counts: Iterable[int]) -> Self:
        """Return the sum of the results of several calls of `forget`."""
        given = list(counts)
        left = [
            [each for count in given for each in getattr(count, name, ())]
            for name in ("quoting", "mentioning")
        ]
        return cls(sum(given), *left)
