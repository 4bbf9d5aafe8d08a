"""The store that keeps nothing: what an agent without a memory has."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from logging import getLogger
from typing import Any, Self, TypeVar

from anyio.lowlevel import checkpoint

from factmem.ledger.entries import Amendment, Entry, moment
from factmem.ledger.history import HistoryEntry
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
    MemoryScope,
    MemorySubject,
    Place,
)
from factmem.models.sources import FactSource
from factmem.providers._description import phrase_of
from factmem.providers._ledger_store import (
    StoreClock,
    condition_of,
    stamp_of,
    stored_facts,
)
from factmem.providers.base import ErasureReceipt, PlaceInfo

__all__ = ["NoMemory"]


L = TypeVar("L", bound="SingleFact[Any] | MultipleFacts[Any]")

_logger = getLogger(__name__)


class NoMemory:
    """A `FactStore` that keeps nothing and returns nothing.

    It refuses what every other store refuses, so that an application that runs with it also runs
    with memory. At debug level it logs what it was asked for, by the names of places and concepts.
    Safe for any number of tasks and threads.

    Args:
        clock: Tells the time that a receipt of `erase` shows; this machine's by default.
    """

    def __init__(self, *, clock: TimeProvider = system_clock) -> None:
        self._clock = StoreClock(clock)
        self._is_closed = False

    async def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        """Check the fact and let it go. Raises as `AgentMemoryProvider.save` does."""
        await self.save_many([fact], subject, scope)

    async def save_many(
        self, facts: Iterable[AnyFact], subject: MemorySubject, scope: MemoryScope
    ) -> None:
        """Check the facts and let them go. Raises as `FactStore.save_many` does."""
        keywords = [fact["keyword"] for fact in stored_facts(facts)]
        await self._enter("save", subject, scope, *keywords)

    async def load(
        self,
        concept: Concept[Any, L],
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        as_of: datetime | None = None,
    ) -> list[L]:
        """Return nothing."""
        stamp_of(as_of)
        await self._enter("load", subject, scope, checked_concept(concept).keyword)
        return []

    async def load_all(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        concepts: Iterable[Concept[Any, Any]] = (),
        as_of: datetime | None = None,
    ) -> list[AnyFact]:
        """Return nothing."""
        stamp_of(as_of)
        keywords = [concept.keyword for concept in checked_concepts(concepts)]
        await self._enter("load_all", subject, scope, *keywords)
        return []

    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> list[AnyFact]:
        """Return nothing."""
        phrase_of(description)
        await self._enter("load_by_description", subject, scope)
        return []

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
        """Forget nothing, as nothing is there. Raises as `FactStore.forget` does."""
        condition = condition_of(
            self._clock.now(),
            concept=concept,
            value=value,
            fact_id=fact_id,
            source=source,
            older_than=older_than,
        )
        named = [] if condition.keyword is None else [condition.keyword]
        await self._enter("purge" if purge else "forget", subject, scope, *named)
        return 0

    async def history(
        self, concept: Concept[Any, Any], subject: MemorySubject, scope: MemoryScope
    ) -> list[HistoryEntry]:
        """Return nothing."""
        await self._enter("history", subject, scope, checked_concept(concept).keyword)
        return []

    async def erase(self, subject: MemorySubject, scope: MemoryScope) -> ErasureReceipt:
        """Return the receipt of a place that did not exist."""
        await self._enter("erase", subject, scope)
        return ErasureReceipt(
            scope=scope,
            subject=subject,
            erased_at=moment(self._clock.now()),
            count=0,
            bytes=0,
            key_destroyed=False,
        )

    async def places(
        self,
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[MemoryScope] | None = None,
    ) -> list[PlaceInfo]:
        """Return nothing. Raises as `FactStore.places` does."""
        UNBOUNDED.narrowed(subjects=subjects, scopes=scopes)
        self._check_open()
        await checkpoint()
        return []

    async def entries(self, subject: MemorySubject, scope: MemoryScope) -> list[Entry]:
        """Return nothing."""
        await self._enter("entries", subject, scope)
        return []

    async def replay(
        self, entries: Sequence[Entry], subject: MemorySubject, scope: MemoryScope
    ) -> int:
        """Check the entries and let them go: none of them is kept, so none is new."""
        unknown_entries([], entries)
        await self._enter("replay", subject, scope)
        return 0

    async def amend(self, change: Amendment, subject: MemorySubject, scope: MemoryScope) -> int:
        """Check what `change` makes of nothing and let it go."""
        amended([], self._clock.now(), change)
        await self._enter("amend", subject, scope)
        return 0

    async def aclose(self) -> None:
        """Refuse later calls; closing twice is no error."""
        await checkpoint()
        self._is_closed = True

    async def __aenter__(self) -> Self:
        self._check_open()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def _enter(
        self, action: str, subject: MemorySubject, scope: MemoryScope, *keywords: str
    ) -> None:
        place = Place(scope, subject)
        self._check_open()
        await checkpoint()
        _logger.debug("NoMemory: %s", " ".join((action, str(place), *keywords)))

    def _check_open(self) -> None:
        if self._is_closed:
            raise ValueError("This NoMemory is closed: make a new one")
