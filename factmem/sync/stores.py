"""Fact stores without await: any provider, any FactStore.

Written by tests/sync/generate.py: change the async class.
"""

from collections.abc import Generator, Iterable, Sequence
from datetime import datetime
from typing import Any

from typing_extensions import TypeVar, Unpack

from factmem._arguments import expect_methods
from factmem.ledger._merging import CurrentChange
from factmem.ledger.entries import Amendment, Edit, Entry
from factmem.ledger.history import FactChange, History
from factmem.models.facts import AnyFact, Concept, ConceptDefinition, L
from factmem.models.places import UNBOUNDED, Boundary, MemoryScope, MemorySubject, Place
from factmem.models.when import WhenLike
from factmem.providers.provider import AgentMemoryProvider
from factmem.providers.results import (
    ErasureReceipt,
    ForgetConditions,
    Forgotten,
    PlaceInfo,
    Purge,
    SearchQuestion,
    ShredReceipt,
    TurnCandidate,
)
from factmem.providers.store import FactStore
from factmem.sync._wrapping import Wraps, WrapsContext
from factmem.sync.portal import SHARED_PORTAL, Portal

__all__ = ["StoreSync"]
S = TypeVar("S", bound=FactStore, default=FactStore)
T = TypeVar("T")


class ProviderSync(Wraps[AgentMemoryProvider]):
    """A provider for code that does not use `await`.

    Each method is that of `AgentMemoryProvider` with its name, which says more.
    """

    def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        """Store `fact` as a statement about its concept, said at its `timestamp`."""
        return self._portal.call(self._wrapped.save, fact, subject, scope)

    def load(self, concept: Concept[Any, L], subject: MemorySubject, scope: MemoryScope) -> list[L]:
        """Return the current facts of a concept; empty if it has none."""
        return self._portal.call(self._wrapped.load, concept, subject, scope)

    def load_all(self, subject: MemorySubject, scope: MemoryScope) -> list[AnyFact]:
        """Return all current facts, each concept with the type it was last saved with."""
        return self._portal.call(self._wrapped.load_all, subject, scope)

    def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> list[AnyFact]:
        """Return the current facts that match a few words."""
        return self._portal.call(self._wrapped.load_by_description, description, subject, scope)


class StoreSync(WrapsContext[S]):
    """A `FactStore` for code that does not use `await`.

        with StoreSync(InMemoryProvider()) as store:
            store.save(fact, subject, scope)

    Each method is that of `FactStore` with its name, which says more.

    Args:
        store: The store to call. Leaving the `with` block closes it.
        portal: Where it runs; one loop that all twins share by default.
    """

    def __init__(self, store: S, portal: Portal = SHARED_PORTAL) -> None:
        example = "StoreSync(InMemoryProvider())"
        needed = ("save", "load", "history", "forget", "aclose")
        super().__init__(expect_methods(store, needed, "store", example), portal)

    def watch(
        self,
        places: Iterable[Place],
        *,
        since: datetime | str | None = None,
        concepts: Iterable[Concept[Any, Any]] = (),
    ) -> Generator[FactChange]:
        """See `FactStore.watch`. It blocks between two changes; `close()` ends it."""
        changes = self._wrapped.watch(places, since=since, concepts=concepts)
        try:
            while True:
                yield self._portal.call(changes.__anext__)
        finally:
            self._portal.call(changes.aclose)

    def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        """Store a fact as a statement about its concept; see `AgentMemoryProvider.save`."""
        return self._portal.call(self._wrapped.save, fact, subject, scope)

    def save_many(
        self, facts: Iterable[AnyFact], subject: MemorySubject, scope: MemoryScope
    ) -> None:
        """Store several facts of one place in one durable write, all or none."""
        return self._portal.call(self._wrapped.save_many, facts, subject, scope)

    def load(
        self,
        concept: Concept[Any, L],
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        as_of: datetime | None = None,
        valid_at: WhenLike | None = None,
    ) -> list[L]:
        """Return the facts of a concept that are current, or were at `as_of`."""
        return self._portal.call(
            self._wrapped.load, concept, subject, scope, as_of=as_of, valid_at=valid_at
        )

    def load_all(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        concepts: Iterable[Concept[Any, Any]] = (),
        as_of: datetime | None = None,
        valid_at: WhenLike | None = None,
    ) -> list[AnyFact]:
        """Return all facts that are current, or were at `as_of`, or held at `valid_at`."""
        return self._portal.call(
            self._wrapped.load_all,
            subject,
            scope,
            concepts=concepts,
            as_of=as_of,
            valid_at=valid_at,
        )

    def find(
        self, fact_id: str, place: Place, *, concepts: Iterable[Concept[Any, Any]] = ()
    ) -> AnyFact | None:
        """Return the fact of `load_all` with this id; None if there is none."""
        return self._portal.call(self._wrapped.find, fact_id, place, concepts=concepts)

    def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> list[AnyFact]:
        """Return the current facts that match a few words; see `AgentMemoryProvider`."""
        return self._portal.call(self._wrapped.load_by_description, description, subject, scope)

    def history(
        self, concept: Concept[Any, Any], subject: MemorySubject, scope: MemoryScope
    ) -> History:
        """Return every save, confirmation and forget of a concept, oldest first."""
        return self._portal.call(self._wrapped.history, concept, subject, scope)

    def forget(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        purge: Purge = False,
        **conditions: Unpack[ForgetConditions[T]],
    ) -> Forgotten:
        """Forget the current values that meet all given conditions, and return their number."""
        return self._portal.call(
            lambda: self._wrapped.forget(subject, scope, purge=purge, **conditions)
        )

    def erase(
        self, subject: MemorySubject, scope: MemoryScope, *, only_empty: bool = False
    ) -> ErasureReceipt:
        """Remove a place with its whole history, physically, and return a receipt."""
        return self._portal.call(self._wrapped.erase, subject, scope, only_empty=only_empty)

    def places(
        self,
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[MemoryScope] | None = None,
        within: Boundary = UNBOUNDED,
    ) -> list[PlaceInfo]:
        """Return the places that are not empty, ordered by identity."""
        return self._portal.call(
            self._wrapped.places, subjects=subjects, scopes=scopes, within=within
        )

    def entries(self, subject: MemorySubject, scope: MemoryScope) -> list[Entry]:
        """Return the ledger of a place as plain JSON, oldest first, in the form of `replay`."""
        return self._portal.call(self._wrapped.entries, subject, scope)

    def replay(self, entries: Sequence[Entry], subject: MemorySubject, scope: MemoryScope) -> int:
        """Append entries recorded elsewhere, with their own times, and return how many were new."""
        return self._portal.call(self._wrapped.replay, entries, subject, scope)

    def amend(self, change: Amendment, subject: MemorySubject, scope: MemoryScope) -> int:
        """Append the entries that `change` computes from a place's ledger; return their number."""
        return self._portal.call(self._wrapped.amend, change, subject, scope)

    def amend_current(
        self, change: CurrentChange, subject: MemorySubject, scope: MemoryScope
    ) -> int:
        """Append what `change` computes from the current facts; `amend` without history."""
        return self._portal.call(self._wrapped.amend_current, change, subject, scope)

    def rewrite(self, edit: Edit, subject: MemorySubject, scope: MemoryScope) -> int:
        """Rewrite the ledger of a place, history included; return how many entries changed."""
        return self._portal.call(self._wrapped.rewrite, edit, subject, scope)

    def concepts(self) -> list[ConceptDefinition]:
        """Return the definition of each concept, by keyword, as the store was given it."""
        return self._portal.call(self._wrapped.concepts)

    def list_places(
        self,
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[MemoryScope] | None = None,
        within: Boundary = UNBOUNDED,
        after: Place | None = None,
        limit: int | None = None,
    ) -> list[Place]:
        """Return the places that are not empty, in the store's own order, without reading them."""
        return self._portal.call(
            self._wrapped.list_places,
            subjects=subjects,
            scopes=scopes,
            within=within,
            after=after,
            limit=limit,
        )

    def version(self, subject: MemorySubject, scope: MemoryScope) -> str:
        """Return a string that changes whenever the result of `load_all` may have changed."""
        return self._portal.call(self._wrapped.version, subject, scope)

    def replay_erasures(self, erased: Iterable[ErasureReceipt]) -> int:
        """Erase again what an older copy of the store brought back; return the number of places."""
        return self._portal.call(self._wrapped.replay_erasures, erased)

    def turn_candidates(
        self, places: Sequence[Place], question: SearchQuestion
    ) -> Sequence[TurnCandidate] | None:
        """Return the messages that may answer a question; None if the recall is to read them."""
        return self._portal.call(self._wrapped.turn_candidates, places, question)

    def shred(self) -> ShredReceipt:
        """Destroy the keys of all facts that were erased or purged before now."""
        return self._portal.call(self._wrapped.shred)
