"""The contents of a memory without await.

Written by tests/sync/generate.py: change the async class.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import EllipsisType
from typing import Any

from pydantic import JsonValue
from typing_extensions import TypeVar, Unpack

from factmem.ledger.history import History
from factmem.ledger.resolution import PlacedFact
from factmem.memory._statements import Expected
from factmem.memory.concept_changes import BothRule, ChangeReport, Progress
from factmem.memory.contents import MemoryContents, MoveReport, TidyReport
from factmem.memory.listing import ConceptInfo, MemoryStats, MemoryTree, RecordPage, ResetReport
from factmem.models.facts import Concept, ConceptDefinition, FactSource
from factmem.models.places import MemorySubject, Place, ScopeChoice
from factmem.providers.results import ForgetConditions, Forgotten, PlaceInfo, Purge
from factmem.sync._wrapping import Wraps

T = TypeVar("T")


class ContentsSync(Wraps[MemoryContents]):
    """The contents of a memory for code that does not use `await`.

    Each method is that of `MemoryContents` with its name, which says more.
    """

    def places(self, *, within: Sequence[str] | None = None) -> list[PlaceInfo]:
        """Return the places that are not empty, ordered by identity."""
        return self._portal.call(self._wrapped.places, within=within)

    def tree(self) -> MemoryTree:
        """Return all places as a tree: scopes, subjects, entities. `print` shows it."""
        return self._portal.call(self._wrapped.tree)

    def concepts(self) -> list[ConceptInfo]:
        """Return the concepts that have current values, ordered by keyword."""
        return self._portal.call(self._wrapped.concepts)

    def definitions(self) -> list[ConceptDefinition]:
        """Return the definitions of concepts that programs have stored, by keyword."""
        return self._portal.call(self._wrapped.definitions)

    def stats(self) -> MemoryStats:
        """Return the number of places, entities and values, and their size."""
        return self._portal.call(self._wrapped.stats)

    def records(
        self,
        limit: int = 50,
        offset: int = 0,
        *,
        concepts: Iterable[Concept[Any, Any]] | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> RecordPage:
        """Return current facts of all places, last confirmed first."""
        return self._portal.call(
            self._wrapped.records, limit, offset, concepts=concepts, metadata=metadata
        )

    def get(self, fact_id: str) -> PlacedFact | None:
        """Return the current fact with this id, from any place of the memory; or None."""
        return self._portal.call(self._wrapped.get, fact_id)

    def update(
        self,
        fact_id: str,
        *,
        value: Any = ...,
        values: Iterable[Any] | EllipsisType = ...,
        metadata: Mapping[str, JsonValue] | EllipsisType = ...,
        importance: float | EllipsisType = ...,
        expires_at: datetime | EllipsisType | None = ...,
        source: FactSource | EllipsisType | None = ...,
        if_unchanged: Expected | None = None,
    ) -> PlacedFact | None:
        """Change a fact in one atomic step and return it; None if no current fact has the id."""
        return self._portal.call(
            self._wrapped.update,
            fact_id,
            value=value,
            values=values,
            metadata=metadata,
            importance=importance,
            expires_at=expires_at,
            source=source,
            if_unchanged=if_unchanged,
        )

    def delete(
        self, *fact_ids: str, purge: Purge = False, if_unchanged: Expected | None = None
    ) -> Forgotten:
        """Forget facts by their ids, in all places of the memory."""
        return self._portal.call(
            self._wrapped.delete, *fact_ids, purge=purge, if_unchanged=if_unchanged
        )

    def history(self, fact_id: str) -> History:
        """Return the history of one record, oldest first; empty if no place ever had it."""
        return self._portal.call(self._wrapped.history, fact_id)

    def forget(
        self,
        *,
        purge: Purge = False,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[ScopeChoice] | None = None,
        **conditions: Unpack[ForgetConditions[T]],
    ) -> Forgotten:
        """Forget the current values that meet all conditions; return their number. See `delete`."""
        return self._portal.call(
            lambda: self._wrapped.forget(
                purge=purge, subjects=subjects, scopes=scopes, **conditions
            )
        )

    def reset(self, *, confirm: bool = False, everything: bool = False) -> ResetReport:
        """Erase all places of a view, or of the whole store, with their history."""
        return self._portal.call(self._wrapped.reset, confirm=confirm, everything=everything)

    def tidy(
        self, *, expired: bool = True, history_older_than: timedelta | None = None
    ) -> TidyReport:
        """Remove expired values and old history from the disk, in every place of the memory."""
        return self._portal.call(
            self._wrapped.tidy, expired=expired, history_older_than=history_older_than
        )

    def move(self, source: Place, target: Place) -> MoveReport:
        """Move a place with its history to another one, such as a guest to an account."""
        return self._portal.call(self._wrapped.move, source, target)

    def export(self) -> dict[str, JsonValue]:
        """Return all data of the memory's places with their history, as plain JSON."""
        return self._portal.call(self._wrapped.export)

    def rename(
        self,
        keywords: str | Iterable[str],
        concept: Concept[Any, Any],
        *,
        if_both: BothRule | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> ChangeReport:
        """Store the facts of one or more keywords, with history, as facts of one concept."""
        return self._portal.call(
            self._wrapped.rename,
            keywords,
            concept,
            if_both=if_both,
            dry_run=dry_run,
            progress=progress,
        )

    def convert(
        self,
        concept: Concept[Any, Any],
        function: Callable[[Any], Any],
        *,
        operation: str,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> ChangeReport:
        """Convert the stored values of a concept and its history to the concept's type."""
        return self._portal.call(
            self._wrapped.convert,
            concept,
            function,
            operation=operation,
            dry_run=dry_run,
            progress=progress,
        )
