"""A store in this process's memory, for tests and for agents that are thrown away."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, Self, TypeVar

from anyio.lowlevel import checkpoint

from factmem.entries import Entry, ForgottenItem, StoredFact, decoded, encoded, moment, stamped
from factmem.ledger import Condition, Ledger
from factmem.models import (
    AnyFact,
    Concept,
    FactSource,
    Identity,
    MemoryScope,
    MemorySubject,
    MultipleFacts,
    SingleFact,
    identity_of,
)
from factmem.provider import ErasureReceipt, TimeProvider
from factmem.providers._arguments import checked_concept, condition_of, stamp_of, stored_facts
from factmem.providers._clock import StoreClock, system_clock
from factmem.providers._description import described, phrase_of

__all__ = ["InMemoryProvider"]

L = TypeVar("L", bound="SingleFact[Any] | MultipleFacts[Any]")


class _Shelf:
    """One place: its entries as a file would hold them, and what is current."""

    __slots__ = ("ledger", "lines")

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.ledger = Ledger()

    def append(
        self, now: str, facts: Iterable[StoredFact] = (), forget: Iterable[ForgottenItem] = ()
    ) -> None:
        line = stamped(encoded(facts, forget), now)
        self.ledger.apply(decoded(line))
        self.lines.append(line)

    def entries(self) -> list[Entry]:
        return [decoded(line) for line in self.lines]

    @property
    def size(self) -> int:
        return sum(map(len, self.lines))


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
        identity = await self._enter(subject, scope)
        if stored := stored_facts(facts):
            with self._lock:
                shelf = self._shelves.setdefault(identity, _Shelf())
                shelf.append(self._clock.now(shelf.ledger.recorded_at), stored)

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
        with self._lock:
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
        named = [checked_concept(concept) for concept in concepts]
        until = stamp_of(as_of)
        identity = await self._enter(subject, scope)
        with self._lock:
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
        with self._lock:
            return self._forget(identity, condition)

    def _forget(self, identity: Identity, condition: Condition) -> int:
        shelf = self._shelves.get(identity)
        if shelf is None:
            return 0
        now = self._clock.now(shelf.ledger.recorded_at)
        if forgotten := shelf.ledger.matching(condition, now):
            shelf.append(now, forget=forgotten)
        return len(forgotten)

    async def erase(self, subject: MemorySubject, scope: MemoryScope) -> ErasureReceipt:
        """See `FactStore.erase`. There is no key to destroy."""
        identity = await self._enter(subject, scope)
        with self._lock:
            shelf = self._shelves.pop(identity, None) or _Shelf()
            now = self._clock.now(shelf.ledger.recorded_at)
            return ErasureReceipt(
                scope=scope,
                subject=subject,
                erased_at=moment(now),
                count=len(shelf.ledger.matching(Condition(), now)),
                bytes=shelf.size,
                key_destroyed=False,
            )

    async def entries(self, subject: MemorySubject, scope: MemoryScope) -> list[Entry]:
        """See `FactStore.entries`."""
        identity = await self._enter(subject, scope)
        with self._lock:
            lines = list(self._shelves[identity].lines) if identity in self._shelves else []
        return [decoded(line) for line in lines]

    async def aclose(self) -> None:
        """Let go of everything that is held; closing twice is no error."""
        await checkpoint()
        self._is_closed = True
        with self._lock:
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

    def _check_open(self) -> None:
        if self._is_closed:
            raise ValueError("This InMemoryProvider is closed: make a new one")

    def _ledger(self, identity: Identity, until: str | None) -> tuple[Ledger, str]:
        """Return a place's ledger as it is, or was at `until`, and the time to judge expiry by."""
        shelf = self._shelves.get(identity)
        if shelf is None:
            return Ledger(), until or self._clock.now()
        if until is None:
            return shelf.ledger, self._clock.now(shelf.ledger.recorded_at)
        return Ledger(shelf.entries(), until=until), until
