"""A store in this process's memory, for tests and for agents that are thrown away."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, Self, TypeVar

from anyio.lowlevel import checkpoint

from factmem.ledger.entries import (
    Amendment,
    Entry,
    decoded,
    encoded,
    encoded_entry,
    moment,
    stamped,
)
from factmem.ledger.history import HistoryEntry, history, purged
from factmem.ledger.ledger import Condition, Ledger
from factmem.ledger.replay import amended, unknown_entries
from factmem.models.boundary import UNBOUNDED
from factmem.models.checked import checked_concept, checked_concepts
from factmem.models.clock import TimeProvider, system_clock
from factmem.models.facts import (
    AnyFact,
    Concept,
    MultipleFacts,
    SingleFact,
)
from factmem.models.places import (
    Identity,
    MemoryScope,
    MemorySubject,
    identity_of,
)
from factmem.models.sources import FactSource
from factmem.providers._description import described, phrase_of
from factmem.providers._ledger_store import (
    StoreClock,
    changes_of,
    condition_of,
    in_order,
    place_info,
    stamp_of,
    stored_facts,
)
from factmem.providers.base import ErasureReceipt, PlaceInfo
from factmem.providers.indexed import PlaceChanges

__all__ = ["InMemoryProvider"]


L = TypeVar("L", bound="SingleFact[Any] | MultipleFacts[Any]")


class _Shelf:
    """One place: its entries as a file would hold them, and what is current."""

    __slots__ = ("index", "ledger", "lines")

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.ledger = Ledger()
        self.index: bytes | None = None

    def append(self, line: bytes) -> None:
        self.ledger.apply(decoded(line))
        self.lines.append(line)

    def purge(self, condition: Condition, now: str) -> None:
        """Take out of history what meets a condition; what is current stays as it is."""
        entries = self.entries()
        left = [
            line if after is before else _line(after)
            for line, before, after in zip(
                self.lines, entries, purged(entries, condition, now), strict=True
            )
            if after is not None
        ]
        self.ledger = Ledger(map(decoded, left))
        self.lines = left
        self.index = None

    def entries(self) -> list[Entry]:
        return [decoded(line) for line in self.lines]

    @property
    def size(self) -> int:
        return sum(map(len, self.lines))


def _line(entry: Entry) -> bytes:
    return stamped(encoded_entry(entry), entry["at"])


class InMemoryProvider:
    """A `FactStore` in a dictionary: everything is gone with the instance.

    Safe for any number of tasks and threads, each with its own event loop. Every call is one
    checkpoint and then one step that nothing interrupts: cancelled at the checkpoint, a save is
    not kept at all. Facts are held as the bytes that a local file would hold, so that nothing
    is shared with the caller.

    Args:
        clock: Tells the time, as an aware datetime; this machine's by default.
    """

    def __init__(self, *, clock: TimeProvider = system_clock) -> None:
        self._clock = StoreClock(clock)
        self._lock = Lock()
        self._shelves: dict[Identity, _Shelf] = {}
        self._is_closed = False

    async def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        """See `AgentMemoryProvider.save`."""
        await self.save_many([fact], subject, scope)

    async def save_many(
        self, facts: Iterable[AnyFact], subject: MemorySubject, scope: MemoryScope
    ) -> None:
        """See `FactStore.save_many`."""
        stored = stored_facts(facts)
        identity = await self._enter(subject, scope)
        with self._open():
            if stored:
                shelf = self._shelves.setdefault(identity, _Shelf())
                shelf.append(stamped(encoded(stored), self._told(shelf)))

    async def load(
        self,
        concept: Concept[Any, L],
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        as_of: datetime | None = None,
    ) -> list[L]:
        """See `FactStore.load`."""
        checked_concept(concept)
        until = stamp_of(as_of)
        identity = await self._enter(subject, scope)
        with self._open():
            ledger, now = self._ledger(identity, until)
            return ledger.load(concept, now)

    async def load_all(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        concepts: Iterable[Concept[Any, Any]] = (),
        as_of: datetime | None = None,
    ) -> list[AnyFact]:
        """See `FactStore.load_all`."""
        named = checked_concepts(concepts)
        until = stamp_of(as_of)
        identity = await self._enter(subject, scope)
        with self._open():
            ledger, now = self._ledger(identity, until)
            return ledger.load_all(named, now)

    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> list[AnyFact]:
        """See `AgentMemoryProvider.load_by_description`."""
        phrase = phrase_of(description)
        return described(await self.load_all(subject, scope), phrase)

    async def forget(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        concept: Concept[Any, Any] | None = None,
        value: object = ...,
        fact_id: str | None = None,
        source: FactSource | None = None,
        older_than: datetime | timedelta | None = None,
        purge: bool = False,
    ) -> int:
        """See `FactStore.forget`."""
        condition = condition_of(
            self._clock.now(),
            concept=concept,
            value=value,
            fact_id=fact_id,
            source=source,
            older_than=older_than,
        )
        identity = await self._enter(subject, scope)
        with self._open():
            shelf = self._shelves.get(identity)
            if shelf is None:
                return 0
            now = self._now(shelf)
            if forgotten := shelf.ledger.matching(condition, now):
                shelf.append(stamped(encoded(forget=forgotten), self._told(shelf)))
            if purge:
                shelf.purge(condition, now)
                if not shelf.lines:
                    del self._shelves[identity]
            return len(forgotten)

    async def history(
        self, concept: Concept[Any, Any], subject: MemorySubject, scope: MemoryScope
    ) -> list[HistoryEntry]:
        """See `FactStore.history`."""
        checked_concept(concept)
        return history(await self.entries(subject, scope), concept)

    async def erase(self, subject: MemorySubject, scope: MemoryScope) -> ErasureReceipt:
        """See `FactStore.erase`. There is no key to destroy."""
        identity = await self._enter(subject, scope)
        with self._open():
            shelf = self._shelves.pop(identity, None) or _Shelf()
            now = self._now(shelf)
            return ErasureReceipt(
                scope=scope,
                subject=subject,
                erased_at=moment(now),
                count=len(shelf.ledger.confirmations(now)),
                bytes=shelf.size,
                key_destroyed=False,
            )

    async def places(
        self,
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[MemoryScope] | None = None,
    ) -> list[PlaceInfo]:
        """See `FactStore.places`. The bytes are those of the entries."""
        wanted = UNBOUNDED.narrowed(subjects=subjects, scopes=scopes)
        self._check_open()
        await checkpoint()
        with self._open():
            named = wanted.identities(most=len(self._shelves))
            if named is None:
                named = [identity for identity in self._shelves if wanted.allows(identity)]
            found = [
                place_info(identity, shelf.ledger, shelf.size, self._now(shelf))
                for identity in named
                if (shelf := self._shelves.get(identity)) is not None
            ]
        return in_order(found)

    async def entries(self, subject: MemorySubject, scope: MemoryScope) -> list[Entry]:
        """See `FactStore.entries`."""
        identity = await self._enter(subject, scope)
        with self._open():
            shelf = self._shelves.get(identity)
            lines = [] if shelf is None else list(shelf.lines)
        return [decoded(line) for line in lines]

    async def replay(
        self, entries: Sequence[Entry], subject: MemorySubject, scope: MemoryScope
    ) -> int:
        """See `FactStore.replay`."""
        identity = await self._enter(subject, scope)
        with self._open():
            shelf = self._shelves.get(identity, _Shelf())
            new = unknown_entries(shelf.entries(), entries)
            for entry in new:
                shelf.append(_line(entry))
            if new:
                self._shelves[identity] = shelf
            return len(new)

    async def amend(self, change: Amendment, subject: MemorySubject, scope: MemoryScope) -> int:
        """See `FactStore.amend`. `change` runs on the event loop."""
        identity = await self._enter(subject, scope)
        with self._open():
            shelf = self._shelves.get(identity, _Shelf())
            new = amended(list(shelf.entries()), self._told(shelf), change)
            for entry in new:
                shelf.append(_line(entry))
            if new:
                self._shelves[identity] = shelf
            return len(new)

    async def version(self, subject: MemorySubject, scope: MemoryScope) -> str:
        """See `IndexedStore.version`."""
        identity = await self._enter(subject, scope)
        with self._open():
            shelf = self._shelves.get(identity)
            return "" if shelf is None else shelf.ledger.version(self._now(shelf))

    async def changes(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        since: str,
        concepts: Iterable[Concept[Any, Any]] = (),
    ) -> PlaceChanges | None:
        """See `FollowedStore.changes`."""
        named = checked_concepts(concepts)
        identity = await self._enter(subject, scope)
        with self._open():
            shelf = self._shelves.get(identity)
            if shelf is None:
                return None
            return changes_of(shelf.ledger, since, named, self._now(shelf))

    async def read_index(self, subject: MemorySubject, scope: MemoryScope) -> bytes | None:
        """See `IndexedStore.read_index`."""
        identity = await self._enter(subject, scope)
        with self._open():
            shelf = self._shelves.get(identity)
            return None if shelf is None else shelf.index

    async def write_index(
        self, subject: MemorySubject, scope: MemoryScope, index: bytes, *, version: str
    ) -> bool:
        """See `IndexedStore.write_index`."""
        identity = await self._enter(subject, scope)
        with self._open():
            shelf = self._shelves.get(identity)
            is_same = shelf is not None and shelf.ledger.version(self._now(shelf)) == version
            if shelf is not None and is_same:
                shelf.index = bytes(index)
            return is_same

    async def aclose(self) -> None:
        """Let go of everything that is held; closing twice is no error."""
        await checkpoint()
        with self._lock:
            self._is_closed = True
            self._shelves.clear()

    async def __aenter__(self) -> Self:
        self._check_open()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def _enter(self, subject: MemorySubject, scope: MemoryScope) -> Identity:
        identity = identity_of(subject, scope)
        self._check_open()
        await checkpoint()
        return identity

    @contextmanager
    def _open(self) -> Generator[None]:
        """Hold the lock of the open store, for pure work only."""
        with self._lock:
            self._check_open()
            yield

    def _check_open(self) -> None:
        if self._is_closed:
            raise ValueError("This InMemoryProvider is closed: make a new one")

    def _now(self, shelf: _Shelf) -> str:
        return self._clock.now(shelf.ledger.recorded_at)

    def _told(self, shelf: _Shelf) -> str:
        return self._clock.told(shelf.ledger.recorded_at)

    def _ledger(self, identity: Identity, until: str | None) -> tuple[Ledger, str]:
        """Return a place's ledger as it is, or was at `until`, and the time to judge expiry by."""
        shelf = self._shelves.get(identity)
        if shelf is None:
            return Ledger(), until or self._clock.now()
        if until is None:
            return shelf.ledger, self._now(shelf)
        return Ledger(shelf.entries(), until=until), until
