"""A store in memory, for tests and short-lived agents.

`Shelves` is a backend like those of databases, without I/O: each call is a checkpoint, then one
step under the lock. Entries are kept as bytes, and the ledger beside them is folded from these
bytes, so that reads return what a durable store would. Conversations are in an SQLite database in
memory, which is created when they are first used.
"""

from collections.abc import Callable
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from anyio.lowlevel import checkpoint

from factmem.ledger.entries import Edit, Entry, decoded, encoded_entry, stamped
from factmem.ledger.ledger import Ledger
from factmem.models.boundary import Boundary
from factmem.models.clock import TimeProvider, system_clock
from factmem.models.places import Identity
from factmem.providers._backend import (
    Change,
    Decision,
    Erased,
    ErasedSinceError,
    Extension,
    Present,
)
from factmem.providers._clock import StoreClock
from factmem.providers._conversations import ConversingStore
from factmem.providers._place_lists import page_of, place_info
from factmem.providers.limits import PlaceLimit
from factmem.providers.results import PlaceInfo

if TYPE_CHECKING:
    from factmem.providers._memory_conversations import MemoryConversations

__all__ = ["InMemoryProvider"]


R = TypeVar("R")


class _Shelf:
    """One place: its encoded entries, and its current facts."""

    __slots__ = ("index", "ledger", "life", "lines")

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.ledger: Ledger = Ledger()
        self.index: bytes | None = None
        self.life: object = object()
        """Replaced by a new object whenever entries are physically removed."""

    def append(self, line: bytes) -> None:
        self.ledger.apply(decoded(line))
        self.lines.append(line)

    def edit(self, edit: Edit) -> None:
        entries = self.entries()
        after = zip(self.lines, entries, edit(entries), strict=True)
        self.lines = [
            line if new is old else _line(new) for line, old, new in after if new is not None
        ]
        self.ledger = Ledger(self.entries())
        self.index = None

    def entries(self) -> list[Entry]:
        return [decoded(line) for line in self.lines]

    @property
    def size(self) -> int:
        return sum(map(len, self.lines))


def _line(entry: Entry) -> bytes:
    return stamped(encoded_entry(entry), entry["at"])


class InMemoryProvider(ConversingStore):
    """A `FactStore` in a dictionary. Its facts are lost with the instance.

    Safe for any number of tasks and threads, each with its own event loop. Every call is one
    checkpoint followed by one uninterrupted step, so a save that is cancelled at the checkpoint is
    not stored at all. Facts are stored as the bytes of a local file, so that no object is shared
    with the caller. The size of a place is that of its entries, `erase` has no key to destroy, and
    the function passed to `amend` runs on the event loop.

    Args:
        clock: Returns the time, as an aware datetime; the system clock by default.
        limit: The limit of each place; a save beyond it raises `PlaceFullError`.
    """

    def __init__(
        self, *, clock: TimeProvider = system_clock, limit: PlaceLimit | None = None
    ) -> None:
        super().__init__(Shelves(StoreClock(clock)), limit)


class Shelves:
    """The backend of an `InMemoryProvider`. Its lock is held only for work without I/O."""

    def __init__(self, clock: StoreClock) -> None:
        self.clock = clock
        self.by_place: dict[Identity, _Shelf] = {}
        self._lock = Lock()
        self.erasures: int = 0
        self._nothing = _Shelf()
        """The contents of a place that does not exist. Nothing is ever appended to it."""

    @property
    def conversations(self) -> "MemoryConversations":
        return self._conversations

    @cached_property
    def _conversations(self) -> "MemoryConversations":
        from factmem.providers._memory_conversations import MemoryConversations  # a database

        return MemoryConversations(self.clock)

    def _chats(self) -> dict[Identity, tuple[int, int]]:
        """Return the places that have conversations, with their number and size."""
        # Without conversations there is no database, and none is created to ask it.
        return self.conversations.places() if "_conversations" in vars(self) else {}

    def warm(self, identity: Identity, present: Present[R | None]) -> R | None:
        return None  # each call is a checkpoint: a loop of loads must let other tasks run

    async def present(
        self,
        identity: Identity,
        present: Present[R],
        *,
        until: str | None = None,
        keyword: str | None = None,
    ) -> R:
        await checkpoint()
        with self._lock:
            shelf = self.by_place.get(identity, self._nothing)
            if until is not None:
                return present(Ledger(shelf.entries(), until=until), until)
            return present(shelf.ledger, self.now(shelf))

    async def entries(self, identity: Identity, use: Callable[[list[Entry]], R]) -> R:
        await checkpoint()
        with self._lock:
            lines = list(self.by_place.get(identity, self._nothing).lines)
        return use([decoded(line) for line in lines])

    async def moment(self, identity: Identity) -> object:
        await checkpoint()
        with self._lock:
            shelf = self.by_place.get(identity)
            return self.erasures, None if shelf is None else shelf.life

    async def append(self, identity: Identity, body: bytes, *, since: object = None) -> None:
        await checkpoint()
        with self._lock:
            if since is not None and self._is_erased(identity, since):
                raise ErasedSinceError
            shelf = self.by_place.get(identity)
            if shelf is None:
                shelf = self.by_place[identity] = _Shelf()
            shelf.append(stamped(body, self.clock.recording(shelf.ledger.recorded_at)))

    async def change(self, identity: Identity, decide: Decision) -> int:
        await checkpoint()
        with self._lock:
            shelf = self.by_place.get(identity)
            if shelf is None:
                return 0
            change = decide(shelf.ledger, self.now(shelf))
            if (body := change.body()) is not None:
                shelf.append(stamped(body, self.clock.recording(shelf.ledger.recorded_at)))
            if change.edit is not None:
                self._edit(identity, shelf, change, is_purge=True)
            return len(change.forget)

    async def extend(self, identity: Identity, extend: Extension) -> int:
        await checkpoint()
        with self._lock:
            shelf = self.by_place.get(identity, _Shelf())
            change = extend(shelf.entries(), self.clock.recording(shelf.ledger.recorded_at))
            for entry in change.entries:
                shelf.append(_line(entry))
            if change.entries:
                self.by_place[identity] = shelf
            if change.edit is not None:
                self._edit(identity, shelf, change, is_purge=change.turns is not None)
            return len(change.entries)

    def _edit(self, identity: Identity, shelf: _Shelf, change: Change, *, is_purge: bool) -> None:
        if is_purge:
            self.erasures += 1
            shelf.life = object()
        if change.edit is not None:
            shelf.edit(change.edit)
        if change.turns is not None and self._chats():
            self.conversations.edit(identity, change.turns)
        if not shelf.lines:
            del self.by_place[identity]

    async def erase(self, identity: Identity, *, only_empty: bool = False) -> Erased:
        await checkpoint()
        with self._lock:
            count, size = self._chats().get(identity, (0, 0))
            if only_empty and (count or self.by_place.get(identity, self._nothing).lines):
                return Erased(self.now(self._nothing), 0, 0)
            self.erasures += 1
            shelf = self.by_place.pop(identity, self._nothing)
            if count:
                self.conversations.erase(identity)
            now = self.now(shelf)
            return Erased(
                now,
                len(shelf.ledger.confirmations(now)),
                shelf.size + size,
                conversations=count,
            )

    async def places(self, wanted: Boundary) -> list[PlaceInfo]:
        await checkpoint()
        with self._lock:
            chats = self._chats()
            named = wanted.identities(most=len(self.by_place))
            if named is None:
                named = list(filter(wanted.allows, self.by_place | chats))
            return [
                self._info(identity, *chats.get(identity, (0, 0)))
                for identity in named
                if identity in self.by_place or identity in chats
            ]

    async def identities(
        self, wanted: Boundary, after: Identity | None, limit: int | None
    ) -> list[Identity]:
        await checkpoint()
        with self._lock:
            found = {*self.by_place, *self._chats()}
            return page_of(filter(wanted.allows, found), after, limit)

    async def read_index(self, identity: Identity) -> bytes | None:
        await checkpoint()
        return self.by_place.get(identity, self._nothing).index

    async def write_index(self, identity: Identity, index: bytes, version: str) -> bool:
        await checkpoint()
        with self._lock:
            shelf = self.by_place.get(identity)
            if shelf is None or shelf.ledger.version(self.now(shelf)) != version:
                return False
            shelf.index = bytes(index)
            return True

    async def converse(self, call: "Callable[[MemoryConversations], R]") -> R:
        await checkpoint()
        with self._lock:
            return call(self.conversations)

    async def close(self) -> None:
        await checkpoint()
        with self._lock:
            self.by_place.clear()

    def _info(self, identity: Identity, chats: int, size: int) -> PlaceInfo:
        shelf = self.by_place.get(identity, self._nothing)
        now = self.now(shelf)
        return place_info(identity, shelf.ledger, shelf.size + size, now, conversations=chats)

    def _is_erased(self, identity: Identity, since: object) -> bool:
        shelf = self.by_place.get(identity)
        erasures, life = since if isinstance(since, tuple) else (None, None)
        # If the place did not exist then, any erasure in the store counts.
        return erasures != self.erasures and (shelf is None or shelf.life is not life)

    def now(self, shelf: _Shelf) -> str:
        return self.clock.now(shelf.ledger.recorded_at)
