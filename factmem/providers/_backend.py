"""The backend protocol: the operations that `FactStore` needs from its storage.

A backend stores the entries of each place in order, applies them to a `Ledger`, which has the
current values, and passes that ledger to pure functions.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from factmem.ledger.entries import Edit, Entry, encoded_entry
from factmem.ledger.ledger import Ledger
from factmem.models.places import UNBOUNDED, Boundary, Identity, Place
from factmem.providers.results import PlaceInfo, PlaceLimit

R = TypeVar("R")

FEW = 1000
"""The most values of a place that is presented on the event loop, which takes 4 ms."""

Present: TypeAlias = Callable[[Ledger, str], R]
"""A pure function of the ledger of a place and the time for expiry, as a stamp."""


class ErasedSinceError(Exception):
    """A place was erased after the moment given to `append`. Stores do not raise it to callers."""


class Change(NamedTuple):
    """A change of a place: an entry to append, and an edit of the history."""

    entry: Mapping[str, Any] | None = None
    """The entry to append, without its time; None appends nothing."""
    edit: Edit | None = None
    """Applied to all entries, including the new ones. The result replaces them."""
    turns: Edit | None = None
    """Applied after `edit` to the messages of each conversation of the place."""
    entries: Sequence[Entry] = ()
    """Of an `Extension`: appended before `edit`, each at its own time."""

    @property
    def forgotten(self) -> int:
        """How many values the entry forgets."""
        return len((self.entry or {}).get("forget", ()))


Decision: TypeAlias = Callable[[Ledger, str], Change]
"""A pure function that computes a change from a ledger. A backend may call it again."""

Extension: TypeAlias = Callable[[list[Entry], str], Change]
"""A pure function of the entries of a place and the recording time, which returns new `entries`."""


@dataclass(frozen=True, slots=True)
class Erased:
    """The result of an erasure."""

    at: str
    """The time of the erasure, as a stamp."""
    count: int | None
    """How many values were current; None if the place was too damaged to count them."""
    bytes: int
    copies_remain: bool = False
    is_shreddable: bool = False
    conversations: int = 0


class Unread(NamedTuple):
    """What is new in a place since a position."""

    position: object
    """The position now."""
    is_from_start: bool
    """Whether these are all entries, as history was removed or nothing was known."""
    entries: list[Entry]
    """The new entries, with the times at which they were imported."""


class Backend(Protocol):
    """The storage of a `FactStore`: the entries of its places.

    The functions passed to a backend are pure and quick. They may run in a worker thread, while a
    lock or a transaction is held, and again if a transaction is repeated. Their exceptions are
    raised to the caller, and nothing is written.

    A backend has the clock: it stamps each entry that it appends, no earlier than the entry before.
    Arguments are already checked, and the store is open. Each method is a checkpoint for
    cancellation. All methods raise `StorageError` if the storage fails.
    """

    def warm(self, identity: Identity, present: Present[R | None]) -> R | None:
        """Return the result of `present` if that needs no I/O and no waiting; None otherwise.

        It takes microseconds on the event loop. After None, also from `present` itself, the store
        calls the method `present`. A backend that always has to query its storage returns None.
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
        """Return the result of `present` for a place now, or at the time `until`.

        The ledger of a place that does not exist is empty, and is the same object at each call. If
        `keyword` is given, `present` reads only its items, and the ledger may lack all others.
        """
        ...

    async def entries(self, identity: Identity, use: Callable[[list[Entry]], R]) -> R:
        """Return the result of `use` for all entries, in order, with the times of recording."""
        ...

    async def unread(
        self, known: Mapping[Identity, object], use: Callable[[Mapping[Identity, Unread]], R]
    ) -> R:
        """Return the result of `use` for what is new in places, all read in one snapshot.

        Args:
            known: The places, each with the position of an earlier answer, or None.
            use: Gets the places that exist.
        """
        ...

    async def moment(self, identity: Identity) -> object:
        """Return an opaque marker from which `append` can detect later erasures."""
        ...

    def append(
        self, identity: Identity, entry: dict[str, Any], *, since: object = None
    ) -> Awaitable[None]:
        """Append an entry; return when it is as durable as promised.

        If it raises, the entry is not acknowledged, and is stored completely or not at all.

        Args:
            identity: The place.
            entry: The entry without its time, for `encoded_entry`.
            since: A moment of that place; None appends in any case.

        Raises:
            ErasedSinceError: The place may have been erased or purged since then. Nothing was
                stored.
        """
        ...

    async def change(self, identity: Identity, decide: Decision) -> int:
        """Apply the change that `decide` computes, and return how many values it forgets.

        No other write to the place happens between the call of `decide` and its change. `decide` is
        not called for a place that does not exist. An edit removes the index and all copies of
        removed values; if copies remain, the result is a `Forgotten` that says so.
        """
        ...

    async def extend(
        self, identity: Identity, extend: Extension, *, since: str | None = None
    ) -> int:
        """Append the `entries` that `extend` returns, apply its edits, and return how many entries.

        No other write to the place happens in between. A place that does not exist has no entries.
        An edit with `turns` is a purge, and leaves no copy of removed values. With `since`,
        `extend` may get no entries if all of them were recorded before that time.
        """
        ...

    async def erase(self, identity: Identity, *, only_empty: bool = False) -> Erased:
        """Remove a place physically, with its history and its index, even if it is damaged.

        With `only_empty`, do nothing to a place that has an entry or is damaged.
        """
        ...

    async def places(self, wanted: Boundary) -> list[PlaceInfo]:
        """Return the places inside a boundary that are not empty, in any order; read no others."""
        ...

    async def identities(
        self, wanted: Boundary, after: Identity | None, limit: int | None
    ) -> list[Identity]:
        """Return places inside a boundary without reading them, in the backend's own order.

        Return the places after `after` in that order, and at most `limit` of them.
        """
        ...

    async def read_index(self, identity: Identity) -> bytes | memoryview | None:
        """Return the index of a place; None if there is no complete one."""
        ...

    async def write_index(self, identity: Identity, index: bytes, version: str) -> bool:
        """Store an index and return True, if the place exists and its ledger has this version."""
        ...

    async def close(self) -> None:
        """Finish accepted calls and release all resources. Called once."""
        ...


async def check_room(
    limit: PlaceLimit, backend: Backend, identity: Identity, entry: dict[str, Any]
) -> None:
    """Raise `PlaceFullError` if a place has no room for an entry; retractions always fit."""
    facts = entry.get("facts", ())
    if limit.values is not None:
        await backend.present(
            identity, lambda ledger, now: limit.check_values(identity, ledger, facts, now)
        )
    if limit.bytes is not None:
        boundary = UNBOUNDED.narrowed(places=[Place.of_identity(identity)])
        size = sum(info.bytes for info in await backend.places(boundary))
        limit.check_bytes(identity, size + len(encoded_entry(entry)))


def check_fitting(
    limit: PlaceLimit | None, identity: Identity, known: list[Entry], new: list[Entry], now: str
) -> None:
    """Raise `PlaceFullError` if a place has no room for new entries; forgettings always fit."""
    facts = [fact for entry in new for fact in entry.get("facts", ())]
    if limit is None or not facts:
        return
    forget = [name for entry in new for name in entry.get("forget", ())]
    ledger = Ledger([*known, {"at": now, "forget": forget}])
    limit.check_values(identity, ledger, facts, now)
    limit.check_bytes(identity, sum(len(encoded_entry(entry)) for entry in (*known, *new)))
