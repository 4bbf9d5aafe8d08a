"""The backend protocol: the few operations that a store of ledgers needs from its storage.

`LedgerStore` writes the public methods of a `FactStore` over it. A backend keeps the entries of each
place in order, follows them into a `Ledger` (what is current), and hands that ledger to pure
functions. Files, a database and a dictionary differ in nothing else.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from factmem.ledger.entries import Edit, Entry, ForgottenItem, StoredFact
from factmem.ledger.ledger import Ledger
from factmem.models.boundary import Boundary
from factmem.models.places import Identity
from factmem.providers.results import PlaceInfo

R = TypeVar("R")

Present: TypeAlias = Callable[[Ledger, str], R]
"""A pure function of what is current in a place and of the time to judge expiry by, as a stamp."""

Extension: TypeAlias = Callable[[list[Entry], str], Sequence[Entry]]
"""A pure function that makes new entries of those of a place and the time to record them at."""


class ErasedSinceError(Exception):
    """A place was erased after the moment on which an append rests; it never leaves a store."""


class Change(NamedTuple):
    """The outcome of a decision about a place: what to append, and how to edit the history."""

    facts: Sequence[StoredFact] = ()
    forget: Sequence[ForgottenItem] = ()
    """Appended with `facts` as one entry; nothing is appended where both are empty."""
    edit: Edit | None = None
    """Applied to all entries, the new one included, and written in the place of them."""


Decision: TypeAlias = Callable[[Ledger, str], Change]
"""A pure function that decides on a change by what is current. A backend may call it again."""


@dataclass(frozen=True, slots=True)
class Erased:
    """What an erasure removed."""

    at: str
    """When, as a stamp."""
    count: int | None
    """How many values were current; None where the place was damaged and could not be counted."""
    bytes: int
    key_destroyed: bool
    copies_remain: bool = False


class Backend(Protocol):
    """Where a `LedgerStore` keeps the entries of its places.

    The functions that a backend is handed are pure and quick. They may run in a worker thread, with
    a lock or a transaction held, and again if a transaction is repeated. What they raise is raised
    to the caller, and nothing is written.

    A backend has the clock: it stamps what it appends, no earlier than the entry before. Arguments
    were checked, and the store is open. Each method is a checkpoint for cancellation. All raise
    `StorageError` where the storage refuses.
    """

    def warm(self, identity: Identity, present: Present[R | None]) -> R | None:
        """Present a place if that takes no I/O and no waiting, for microseconds on an event loop.

        Return None otherwise, and where `present` returned None; then `present` below is called. A
        backend that must always ask its storage returns None.
        """
        ...

    async def present(
        self,
        identity: Identity,
        present: Present[R],
        *,
        until: str | None = None,
        keyword: str | None = None,
    ) -> R:
        """Present a place as it is now, or as it was at `until`, which then is the time too.

        A place that does not exist is an empty ledger, the same one at each call. Where `keyword`
        is given, `present` reads nothing but its items, and the ledger may hold no others.
        """
        ...

    async def entries(self, identity: Identity, use: Callable[[list[Entry]], R]) -> R:
        """Return what `use` makes of all entries, in order, at the times they count as recorded."""
        ...

    async def moment(self, identity: Identity) -> object:
        """Return what `append` tells erasures from that come after now; opaque."""
        ...

    def append(self, identity: Identity, body: bytes, *, since: object = None) -> Awaitable[None]:
        """Append an entry, encoded without its time; return when it is as durable as promised.

        If it raises, the entry is not acknowledged and is kept whole or not at all.

        Args:
            identity: The place.
            body: The entry.
            since: A moment of that place; None appends in any case.

        Raises:
            ErasedSinceError: The place may have been erased or purged since then. Nothing is kept.
        """
        ...

    async def change(self, identity: Identity, decide: Decision) -> int:
        """Change a place by what is current in it, and return how many values that forgets.

        Nothing else is written to the place between what `decide` sees and its change. `decide` is
        not called for a place that does not exist. An edit removes the index and leaves no copy of
        what it took out.
        """
        ...

    async def extend(self, identity: Identity, extend: Extension) -> int:
        """Append what `extend` makes of all entries, each at its own time; return how many.

        Nothing else is written to the place in between. A place that does not exist has none.
        """
        ...

    async def erase(self, identity: Identity, *, only_empty: bool = False) -> Erased:
        """Remove a place physically with its history and its index, also where it is damaged.

        With `only_empty` a place that holds an entry, or is damaged, is left as it is.
        """
        ...

    async def places(self, wanted: Boundary) -> list[PlaceInfo]:
        """Return the places inside a boundary that hold anything, in any order; read no others."""
        ...

    async def identities(
        self, wanted: Boundary, after: Identity | None, limit: int | None
    ) -> list[Identity]:
        """Return the places inside a boundary, in an order of the backend's own; read none.

        Those that come after a place in that order, and so many at most.
        """
        ...

    async def read_index(self, identity: Identity) -> bytes | memoryview | None:
        """Return the index of a place; None without a whole one."""
        ...

    async def write_index(self, identity: Identity, index: bytes, version: str) -> bool:
        """Keep an index and return True, if the place exists and its ledger has this version."""
        ...

    async def close(self) -> None:
        """Finish what was accepted and let go of everything; called once."""
        ...
