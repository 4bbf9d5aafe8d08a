"""The public methods that read a `FactStore`, written once over a backend.

A read of the present first asks the backend for what is in memory (`warm`), on the event loop and
without waiting; if that fails, or the place is large, `Backend.present` may use a worker thread.
What is returned is made by a pure function of a ledger. Questions about the past do not use the
cached ledger: `as_of` and `valid_at` fold the entries again. `LedgerStore` adds the writes; neither
knows where the entries are.
"""

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, Self, TypeVar

from anyio.lowlevel import checkpoint_if_cancelled
from anyio.to_thread import run_sync
from typing_extensions import override

from factmem._concurrency.garbage import paused_collection
from factmem.ledger.entries import Entry
from factmem.ledger.history import Histories, History, history
from factmem.ledger.ledger import Ledger
from factmem.ledger.proposals import Proposal
from factmem.models._checked import checked_concept, checked_concepts
from factmem.models.boundary import UNBOUNDED
from factmem.models.clock import moment
from factmem.models.concepts import ConceptDefinition
from factmem.models.facts import AnyFact, Concept, L
from factmem.models.places import (
    DEFINITIONS,
    Identity,
    MemoryScope,
    MemorySubject,
    Place,
    identity_of,
)
from factmem.models.when import When, WhenLike
from factmem.providers._arguments import stamp_of
from factmem.providers._backend import Backend, Change, Present
from factmem.providers._place_lists import checked_page, in_order
from factmem.providers.base import FactStore
from factmem.providers.results import PlaceChanges, PlaceInfo

R = TypeVar("R")

_FEW = 1000
"""The most values of a place that is presented on the event loop, about 4 ms."""


class _Asked(NamedTuple):
    """The place whose history was asked for last."""

    identity: Identity | None = None
    version: str = ""
    histories: Histories | None = None
    """Read when a second history of the place is asked for."""


class LedgerReader(FactStore):
    """The reading half of a `LedgerStore`.

    The contract of each method is the docstring that it inherits from `FactStore`.

    Args:
        backend: Stores the entries. Closing the store closes it.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._is_closed = False
        self._asked = _Asked()

    @override
    async def load(
        self,
        concept: Concept[Any, L],
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        as_of: datetime | None = None,
        valid_at: WhenLike | None = None,
    ) -> list[L]:
        if type(concept) is not Concept:
            checked_concept(concept)
        until = None if as_of is None else stamp_of(as_of)
        identity = self._enter(subject, scope)

        def present(ledger: Ledger, now: str) -> list[L]:
            return ledger.load(concept, now)

        await checkpoint_if_cancelled()
        if valid_at is not None:
            return await self._held(identity, until, valid_at, present)
        if until is None:
            facts = self._backend.warm(identity, present)
            if facts is not None:
                return facts
        keyword = None if concept.was else concept.keyword
        return await self._backend.present(identity, present, until=until, keyword=keyword)

    @override
    async def load_all(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        concepts: Iterable[Concept[Any, Any]] = (),
        as_of: datetime | None = None,
        valid_at: WhenLike | None = None,
    ) -> list[AnyFact]:
        named = checked_concepts(concepts)
        until = None if as_of is None else stamp_of(as_of)
        identity = self._enter(subject, scope)

        def present(ledger: Ledger, now: str) -> list[AnyFact]:
            return ledger.load_all(named, now)

        if valid_at is not None:
            return await self._held(identity, until, valid_at, present)
        if until is None:
            return await self._presented(identity, present, most=_FEW)
        return await self._backend.present(identity, present, until=until)

    async def _presented(
        self, identity: Identity, present: Present[R], *, most: int | None = None
    ) -> R:
        """Present a place as it is now, on the event loop if it has at most so many values."""

        def present_few(ledger: Ledger, now: str) -> R | None:
            return present(ledger, now) if most is None or ledger.is_small(most) else None

        await checkpoint_if_cancelled()
        found = self._backend.warm(identity, present_few)
        return await self._backend.present(identity, present) if found is None else found

    async def _held(
        self, identity: Identity, until: str | None, valid_at: WhenLike, present: Present[R]
    ) -> R:
        """Present what held at a time, by the entries recorded until another one."""
        from factmem.ledger._validity import held_at  # few reads ask about another time

        when = When.of(valid_at, "valid_at")
        known = until
        if known is None:
            # The backend has the clock, and its time is never before the last entry.
            known = await self._backend.present(identity, lambda _, now: now)
        held = partial(held_at, when=when, known=known)
        return await self._backend.entries(identity, lambda entries: present(held(entries), ""))

    @override
    async def history(
        self, concept: Concept[Any, Any], subject: MemorySubject, scope: MemoryScope
    ) -> History:
        checked_concept(concept)
        identity = self._enter(subject, scope)
        asked, kept = self._asked, None
        if asked.identity == identity:  # a series of histories of one place
            version = await self.version(subject, scope)
            kept = asked.histories if asked.version == version else None
            if kept is None:
                kept = await self._backend.entries(identity, Histories)
                self._asked = _Asked(identity, version, kept)
            if kept.size(concept) <= _FEW:
                return kept.of(concept)
            return await run_sync(kept.of, concept)
        self._asked = _Asked(identity)
        return await self._backend.entries(identity, lambda entries: history(entries, concept))

    @override
    async def places(
        self,
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[MemoryScope] | None = None,
    ) -> list[PlaceInfo]:
        wanted = UNBOUNDED.narrowed(subjects=subjects, scopes=scopes)
        self._check_open()
        return in_order(await self._backend.places(wanted))

    @override
    async def list_places(
        self,
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[MemoryScope] | None = None,
        after: Place | None = None,
        limit: int | None = None,
    ) -> list[Place]:
        wanted = UNBOUNDED.narrowed(subjects=subjects, scopes=scopes)
        identity, most = checked_page(after, limit)
        self._check_open()
        found = await self._backend.identities(wanted, identity, most)
        if len(found) <= _FEW:
            return list(map(Place.of_identity, found))
        return await run_sync(_places_of, found)

    @override
    async def concepts(self) -> list[ConceptDefinition]:
        from factmem.providers._definitions import definitions_in  # needless for facts

        self._check_open()
        known = await self._backend.present(DEFINITIONS, definitions_in)
        return [known[keyword] for keyword in sorted(known)]

    @override
    async def define(self, concepts: Iterable[Concept[Any, Any]]) -> None:
        from factmem.providers._definitions import new_definitions  # needless for facts

        told = checked_concepts(concepts)
        self._check_open()

        def present(ledger: Ledger, now: str) -> list[Entry]:
            return new_definitions(ledger, told, now)

        # Mostly all are known, and a read takes no lock.
        if await self._backend.present(DEFINITIONS, present):
            await self._backend.extend(
                DEFINITIONS, lambda known, now: Change(entries=present(Ledger(known), now))
            )

    @override
    async def begin(self, operation: str) -> datetime:
        self._check_open()
        begun: list[str] = []

        def extend(known: list[Entry], now: str) -> Change:
            marked = [each["at"] for each in known if operation in each.get("operations", ())]
            begun[:] = marked or [now]
            return Change(entries=[] if marked else [{"at": now, "operations": [operation]}])

        await self._backend.extend(DEFINITIONS, extend)
        return moment(begun[0])

    @override
    async def entries(self, subject: MemorySubject, scope: MemoryScope) -> list[Entry]:
        return await self._backend.entries(self._enter(subject, scope), list)

    @override
    async def version(self, subject: MemorySubject, scope: MemoryScope) -> str:
        return await self._presented(self._enter(subject, scope), Ledger.version)

    @override
    async def proposals(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        concepts: Iterable[Concept[Any, Any]] = (),
    ) -> list[Proposal]:
        named, identity = checked_concepts(concepts), self._enter(subject, scope)

        def present(ledger: Ledger, now: str) -> list[Proposal]:
            return ledger.proposals(named, now)

        return await self._presented(identity, present)

    @override
    async def changes(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        since: str,
        concepts: Iterable[Concept[Any, Any]] = (),
    ) -> PlaceChanges | None:
        named = checked_concepts(concepts)
        identity = self._enter(subject, scope)

        def present(ledger: Ledger, now: str) -> PlaceChanges | None:
            changes = ledger.changes(since, named, now)
            return None if changes is None else PlaceChanges(ledger.version(now), changes)

        return await self._presented(identity, present, most=_FEW)

    @override
    async def read_index(self, subject: MemorySubject, scope: MemoryScope) -> bytes | None:
        index = await self._backend.read_index(self._enter(subject, scope))
        return None if index is None else bytes(index)

    @override
    async def aclose(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            await self._backend.close()

    @override
    async def __aenter__(self) -> Self:
        self._check_open()
        return self

    def _enter(self, subject: MemorySubject, scope: MemoryScope) -> Identity:
        if self._is_closed:
            self._check_open()
        return identity_of(subject, scope)

    def _enter_place(self, place: Place) -> Identity:
        return self._enter(place.subject, place.scope)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ValueError(f"This {type(self).__name__} is closed: make a new one")


def _places_of(identities: list[Identity]) -> list[Place]:
    with paused_collection(len(identities)):
        return list(map(Place.of_identity, identities))
