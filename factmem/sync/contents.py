"""The contents of a memory without await.

Written by tests/sync/generate.py: change the async class.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import EllipsisType
from typing import Any

from pydantic import JsonValue
from typing_extensions import TypeVar

from factmem.ledger.history import History
from factmem.ledger.resolution import PlacedFact
from factmem.memory.concept_changes import BothRule, ChangeReport, Progress
from factmem.memory.contents import MemoryContents
from factmem.memory.listing import ConceptInfo, MemoryStats, MemoryTree, RecordPage, ResetReport
from factmem.memory.upkeep import MoveReport, TidyReport
from factmem.models.facts import Concept
from factmem.models.places import MemorySubject, Place
from factmem.models.scopes import ScopeChoice
from factmem.models.sources import FactSource
from factmem.providers.results import Forgotten, PlaceInfo, Purge
from factmem.sync._wrapping import Wraps

__all__ = ["ContentsSync"]
T = TypeVar("T")


class ContentsSync(Wraps[MemoryContents]):
    """The contents of a memory for code that does not use `await`."""

    def places(self, *, within: Sequence[str] | None = None) -> list[PlaceInfo]:
        """Return the places that are not empty, ordered by identity.

        Args:
            within: Only entities with these first levels, such as `["acme"]` for a tenant:
                `USER.of("acme")` and `USER.of("acme", "alice")`, but not `USER.of("acme2")`.

        Raises:
            TypeError: The provider is not a `FactStore`, as in every method here.
            StorageError: A place could not be read, as in every method here.
        """
        return self._portal.call(self._wrapped.places, within=within)

    def tree(self, depth: int | None = None) -> MemoryTree:
        """Return all places as a tree: scopes, subjects, entities. `print` shows it.

        The tree of a view is a subtree: `memory.view(scopes=[...]).contents.tree()`.

        Args:
            depth: The number of levels to return: 1 for scopes, 2 for scopes and subjects; all by
                default. The counts always include all levels.

        Raises:
            ValueError: `depth` is negative.
        """
        return self._portal.call(self._wrapped.tree, depth)

    def info(self, place: Place) -> PlaceInfo | None:
        """Return the counts and the size of a place; None if it is empty.

        Raises:
            TypeError: `place` is not a `Place`.
        """
        return self._portal.call(self._wrapped.info, place)

    def concepts(self) -> list[ConceptInfo]:
        """Return the concepts that have current values, ordered by keyword."""
        return self._portal.call(self._wrapped.concepts)

    def stats(self) -> MemoryStats:
        """Return the number of places, entities and values, and their size.

        The facts are not loaded. In a view of `USER.every()` the numbers cover all entities.
        """
        return self._portal.call(self._wrapped.stats)

    def records(
        self,
        limit: int = 50,
        offset: int = 0,
        *,
        concepts: Iterable[Concept[Any, Any]] | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> RecordPage:
        """Return current facts of all places, last confirmed first.

        The result is a list. Its `total` is the number of all facts that meet the conditions,
        `is_last` is true on the last page, and `to_rows()` returns rows for a data frame.

        Values of the memory's `concepts` have their types if they fit; all others are plain JSON.
        Facts of several places are not resolved: a concept with facts in two places appears twice.
        The order of facts with the same time is stable.

        Args:
            limit: The maximum of facts to return.
            offset: The number of facts to skip.
            concepts: Only facts of these concepts.
            metadata: Only facts whose metadata has all of these keys, with equal values.

        Raises:
            TypeError: `limit` or `offset` is not an integer.
            ValueError: `limit` or `offset` is negative.
        """
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
    ) -> PlacedFact | None:
        """Change a fact in one atomic step and return it; None if no current fact has the id.

        The fact keeps its id, and its history contains each version. Omitted fields do not change,
        but new values remove the old source, because it does not prove them.

        Args:
            fact_id: The id of the fact, as `records` returns it.
            value: The new value, for a concept with one value.
            values: The new values, for a concept with many values; all others are forgotten.
            metadata: The new metadata, which replaces the old; `{}` removes it.
            importance: From 0 to 1.
            expires_at: When the fact expires; None for never.
            source: The source of the new values.

        Raises:
            ValueError: A value does not fit the concept, or no change was passed.
            MemoryAccessError: The view is read-only.
        """
        return self._portal.call(
            self._wrapped.update,
            fact_id,
            value=value,
            values=values,
            metadata=metadata,
            importance=importance,
            expires_at=expires_at,
            source=source,
        )

    def delete(self, *fact_ids: str, purge: Purge = False) -> Forgotten:
        """Forget facts by their ids, in all places of the memory.

        Returns the number of forgotten values. `purge` also removes them from history; see
        `forget`.
        """
        return self._portal.call(self._wrapped.delete, *fact_ids, purge=purge)

    def history(self, fact_id: str) -> History:
        """Return the history of one record, oldest first; empty if no place ever had it.

        It contains saves and updates, confirmations of its values, and deletions. Values are plain
        JSON. A deleted record is found as long as its history is stored.
        """
        return self._portal.call(self._wrapped.history, fact_id)

    def forget(
        self,
        *,
        concept: Concept[T, Any] | None = None,
        value: T | EllipsisType = ...,
        fact_id: str | None = None,
        source: FactSource | None = None,
        older_than: datetime | timedelta | None = None,
        concepts: Iterable[Concept[Any, Any]] | None = None,
        fact_ids: Iterable[str] | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
        purge: Purge = False,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[ScopeChoice] | None = None,
    ) -> Forgotten:
        """Forget the current values that meet all conditions, and return their number.

        It searches the places of `subjects` and `scopes`, by default the memory's own. Places are
        written in sequence: if one fails, the values forgotten in others stay forgotten, and the
        call can be repeated.

        Args:
            concept: Values of this concept.
            value: This value of `concept`.
            fact_id: Values saved as this fact.
            source: Values with this source and no other.
            older_than: Values last confirmed before this time, or longer ago than this span.
            concepts: Values of these concepts.
            fact_ids: Values saved as one of these facts.
            metadata: Values whose metadata has all of these keys, with equal values.
            purge: Also remove the values from history. `quoting` of the result lists facts whose
                quotes contain them; `purge="quotes"` removes the values from these quotes.
                `mentioning` lists facts whose keyword, description or metadata contains them.
            subjects: The subjects to search; by default those of the memory.
            scopes: The scopes to search; by default all scopes of the memory.

        Raises:
            UnboundSubjectError: A subject is per entity and has no entity. Nothing was forgotten.
            MemoryAccessError: One of the places is not writable in this view. Nothing was
                forgotten.
            ValueError: No condition was passed, `value` was passed without `concept`, or
                `older_than` is naive. Nothing was forgotten.
        """
        return self._portal.call(
            self._wrapped.forget,
            concept=concept,
            value=value,
            fact_id=fact_id,
            source=source,
            older_than=older_than,
            concepts=concepts,
            fact_ids=fact_ids,
            metadata=metadata,
            purge=purge,
            subjects=subjects,
            scopes=scopes,
        )

    def reset(self, *, confirm: bool = False, everything: bool = False) -> ResetReport:
        """Erase all places of a view, or of the whole store, with their history.

        Without `confirm` nothing is erased, and the report lists the places that would be. Places
        are erased physically, in sequence. If one fails, those before it are erased, and the call
        can be repeated. `memory.store.erase` erases a single place.

        Args:
            confirm: Whether to erase.
            everything: Whether to allow erasing the whole store, if the memory is not a view.

        Raises:
            ValueError: The memory is not a view, and `everything` is not set.
            MemoryAccessError: The view is read-only, and `confirm` is set. Nothing was read.
        """
        return self._portal.call(self._wrapped.reset, confirm=confirm, everything=everything)

    def tidy(
        self, *, expired: bool = True, history_older_than: timedelta | None = None
    ) -> TidyReport:
        """Remove expired values and old history from the disk, in every place of the memory.

        Current values do not change. Each place is rewritten in one atomic step.

        Args:
            expired: Whether to remove expired values with their history.
            history_older_than: Remove values that were replaced, forgotten or expired longer ago
                than this; None keeps them.

        Raises:
            ValueError: The time span is negative.
            MemoryAccessError: The view is read-only.
        """
        return self._portal.call(
            self._wrapped.tidy, expired=expired, history_older_than=history_older_than
        )

    def move(self, source: Place, target: Place) -> MoveReport:
        """Move a place with its history to another one, such as a guest to an account.

        The source is copied, emptied and erased. To finish an interrupted move, repeat the call:
        nothing is duplicated. Facts that are saved to the source in the meantime move as well. If
        both places have a concept with one value, the value of the source becomes the newest.
        Entries older than the target's newest entry are recorded with the time of that entry.

        Raises:
            ValueError: Source and target are the same place.
            MemoryAccessError: One of the places is not writable in this view. Nothing was moved.
        """
        return self._portal.call(self._wrapped.move, source, target)

    def export(self) -> dict[str, JsonValue]:
        """Return all data of the memory's places with their history, as plain JSON.

        Use it when a person asks for their stored data: `memory.of("alice").contents.export()`,
        then `json.dumps`. `entries` are the ledger's entries: saves with value, dates, source,
        quote and metadata, and deletions. To move facts, use `export_facts`.
        """
        return self._portal.call(self._wrapped.export)

    def rename(
        self,
        keyword: str,
        concept: Concept[Any, Any],
        *,
        if_both: BothRule | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> ChangeReport:
        """Store the facts of a keyword, with their history, as facts of another concept.

        Like `merge` of one keyword. Without `if_both`, a user with values under both keywords is
        refused, and all others are renamed.
        """
        return self._portal.call(
            self._wrapped.rename,
            keyword,
            concept,
            if_both=if_both,
            dry_run=dry_run,
            progress=progress,
        )

    def merge(
        self,
        keywords: Iterable[str],
        concept: Concept[Any, Any],
        *,
        if_both: BothRule | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> ChangeReport:
        """Store the facts of several keywords, with their history, as facts of one concept.

        Each place is changed in atomic steps that lose no value. To finish a call that was killed,
        that failed or that refused places, repeat it: a place without facts of the keywords is
        skipped. Values are not changed; see `convert`. If the history of a place with both would
        change what is current, it stays under its keyword, where `Concept(was=)` finds it.

        Args:
            keywords: The former keywords.
            concept: The concept that the facts get.
            if_both: Which current values a place keeps that has them under several keywords:
                `"later"` those of the keyword that was said last, `"both"` all of a concept with
                many values. A function takes the former values and those of the concept as lists
                of plain JSON, and returns the value, or the values. It runs while the store is
                locked, possibly in a worker thread, and must be fast.
            dry_run: Whether to only report what would be changed.
            progress: Is called after each place with the number of places so far, and of all.

        Raises:
            ValueError: One of `keywords` is that of the concept, or `"both"` was passed for a concept with one
                value.
            MemoryAccessError: The view is read-only.
        """
        return self._portal.call(
            self._wrapped.merge,
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
        """Convert the stored values of a concept and its history to the concept's type.

            report = memory.contents.convert(PRICE, to_cents, operation="cents", dry_run=True)
            if not report.refused:
                memory.contents.convert(PRICE, to_cents, operation="cents")

        Each place is rewritten in one atomic step. A place with a value that cannot be converted is
        not changed, and is in `refused` with the fact. To finish a call that was killed or refused
        places, repeat it with the same `operation`: no value is converted twice. Values that were
        saved after the first call are new ones, and are not converted.

        Args:
            concept: The concept with its new value type.
            function: Takes a stored value as plain JSON and returns a value of the concept's type.
                It runs while the store is locked, possibly in a worker thread, and must be fast.
            operation: The application's name for this conversion, which marks what it has
                converted.
            dry_run: Whether to only report what would be converted.
            progress: Is called after each place with the number of places so far, and of all.

        Raises:
            MemoryAccessError: The view is read-only.
        """
        return self._portal.call(
            self._wrapped.convert,
            concept,
            function,
            operation=operation,
            dry_run=dry_run,
            progress=progress,
        )
