"""The contents and the tools of a memory without await.

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
from factmem.llm.base import ToolDefinition
from factmem.memory.contents import MemoryContents
from factmem.memory.listing import ConceptInfo, MemoryStats, MemoryTree, RecordPage, ResetReport
from factmem.memory.tools import MemoryTool
from factmem.memory.upkeep import ConversionReport, MoveReport, TidyReport
from factmem.models.facts import Concept
from factmem.models.places import MemorySubject, Place
from factmem.models.scopes import ScopeChoice
from factmem.models.sources import FactSource
from factmem.providers.results import Forgotten, PlaceInfo, Purge
from factmem.sync._wrapping import Wraps

__all__ = ["ContentsSync", "ToolSync"]
T = TypeVar("T")


class ContentsSync(Wraps[MemoryContents]):
    """The contents of a memory for code that does not use `await`."""

    def places(self, *, within: Sequence[str] | None = None) -> list[PlaceInfo]:
        """Return the places that hold anything, ordered by identity.

        Args:
            within: Only entities whose first levels are these, such as `["acme"]` for all of a
                tenant: `USER.of("acme")` and `USER.of("acme", "alice")`, but not `USER.of("acme2")`.

        Raises:
            TypeError: The provider is no `FactStore`, as in every method here.
            StorageError: A place could not be read, as in every method here.
        """
        return self._portal.call(self._wrapped.places, within=within)

    def tree(self, depth: int | None = None) -> MemoryTree:
        """Return all places as a tree: scopes, subjects, entities. `print` shows it.

        The tree of a view is a subtree: `memory.view(scopes=[...]).contents.tree()`.

        Args:
            depth: How many levels to return: 1 for scopes, 2 with subjects; all by default. The
                counts are those of all levels.

        Raises:
            ValueError: `depth` is negative.
        """
        return self._portal.call(self._wrapped.tree, depth)

    def info(self, place: Place) -> PlaceInfo | None:
        """Return the counts and size of a place, or None if it is empty.

        Raises:
            TypeError: `place` is not a `Place`.
        """
        return self._portal.call(self._wrapped.info, place)

    def concepts(self) -> list[ConceptInfo]:
        """Return the concepts that have current values, ordered by keyword."""
        return self._portal.call(self._wrapped.concepts)

    def stats(self) -> MemoryStats:
        """Return the number of places, entities and values, and their size.

        The facts are not read. In a view of `USER.every()` these are the figures of all entities.
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
        """Return current facts of all places, the last confirmed first.

        The result is a list; its `total` counts all facts that meet the conditions, and `is_last`
        says whether any come after these. `to_rows()` of it goes into a data frame.

        Values of the memory's `concepts` have their types, as far as they fit them; all others are
        plain JSON. Facts of several places are not resolved: a concept with facts in two places
        appears twice. The order of facts that were confirmed at one moment is stable.

        Args:
            limit: How many to return at most.
            offset: How many of the newest to skip.
            concepts: Only facts about these concepts.
            metadata: Only facts whose metadata has all of these keys, with equal values.

        Raises:
            TypeError: `limit` or `offset` is no whole number.
            ValueError: `limit` or `offset` is negative.
        """
        return self._portal.call(
            self._wrapped.records, limit, offset, concepts=concepts, metadata=metadata
        )

    def get(self, fact_id: str) -> PlacedFact | None:
        """Return the current fact with an id from any place of the memory, or None."""
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

        The fact keeps its id, and its history shows each version. Omitted arguments change nothing;
        new values drop the old source, because it does not prove them.

        Args:
            fact_id: The id of the fact, as `records` returns it.
            value: The new value, for a concept of one value.
            values: The new values, for a concept of many; others are forgotten.
            metadata: The new metadata in place of the old; `{}` removes it.
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

        Returns how many values were forgotten. `purge` removes them from history too; see `forget`.
        """
        return self._portal.call(self._wrapped.delete, *fact_ids, purge=purge)

    def history(self, fact_id: str) -> History:
        """Return the history of one record, oldest first; empty if no place ever had it.

        Saves and updates, confirmations of its values, and forgettings. Values are plain JSON. A
        deleted record is found as long as its history is kept.
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

        Only in the places of `subjects` and `scopes`, or else of the memory's own; never in a
        place with a similar name. Places are written one after the other: if one fails, the values
        forgotten in others stay forgotten, and the call can be repeated.

        Args:
            concept: Values of this concept.
            value: This value of `concept`.
            fact_id: Values saved as this fact.
            source: Values with this source and no other.
            older_than: Values last confirmed before this moment, or longer ago than this.
            concepts: Values of these concepts.
            fact_ids: Values saved as one of these facts.
            metadata: Values whose metadata has all of these keys, with equal values.
            purge: Also remove the values from history. `quoting` of the result names facts whose
                quotes contain them; `purge="quotes"` takes the values out of these quotes.
                `mentioning` names facts whose keyword, description or metadata contains them.
            subjects: The subjects to search; those of the memory by default.
            scopes: The scopes to search; all scopes of the memory by default.

        Raises:
            UnboundSubjectError: A subject is per entity and names none. Nothing was forgotten.
            MemoryAccessError: The view may not write one of the places. Nothing was forgotten.
            ValueError: No condition was given, `value` came without `concept`, or `older_than` is
                naive. Nothing was forgotten.
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
        """Erase all places of a view, or of the whole store, with their history, or say what that would remove.

        Without `confirm` nothing is removed, and the report shows what would be. Places are erased
        physically, one after the other; if one fails, those before it are gone, and the call can be
        repeated. `memory.store.erase` erases a single place.

        Args:
            confirm: Whether to erase.
            everything: Whether a memory that is not a view may clear the whole store.

        Raises:
            ValueError: The memory is not a view, and `everything` is not set.
            MemoryAccessError: The view is read-only, and `confirm` is set. Nothing was read.
        """
        return self._portal.call(self._wrapped.reset, confirm=confirm, everything=everything)

    def tidy(
        self, *, expired: bool = True, history_older_than: timedelta | None = None
    ) -> TidyReport:
        """Remove expired values and old history from the disk, in every place of the memory.

        What is current does not change. Each place is rewritten in one atomic step.

        Args:
            expired: Whether values that have expired are removed with their history.
            history_older_than: Remove what was replaced, forgotten or expired longer ago than
                this; None keeps it.

        Raises:
            ValueError: The span is negative.
            MemoryAccessError: The view is read-only.
        """
        return self._portal.call(
            self._wrapped.tidy, expired=expired, history_older_than=history_older_than
        )

    def move(self, source: Place, target: Place) -> MoveReport:
        """Move a place with its history to another one, such as a guest to an account.

        The source is copied, emptied and erased. A move that was interrupted is finished by the
        same call, and nothing is doubled. What is saved to the source meanwhile moves too. Where both places hold a concept
        of one value, the value of the source is the newest. Entries that are older than the
        target's newest entry count as recorded at that time.

        Raises:
            ValueError: Both are one place.
            MemoryAccessError: The view does not let both be written. Nothing was moved.
        """
        return self._portal.call(self._wrapped.move, source, target)

    def rename(self, keyword: str, concept: Concept[Any, Any]) -> int:
        """Store the facts of a keyword under another concept's keyword and description.

        History is renamed too. Each place is rewritten in one atomic step; when one fails, call
        again. Values stay as they are: see `convert`.

        Returns:
            How many places were changed.

        Raises:
            ValueError: A place has facts about the new keyword already; places before it are done.
            MemoryAccessError: The view is read-only.
        """
        return self._portal.call(self._wrapped.rename, keyword, concept)

    def convert(
        self, concept: Concept[Any, Any], function: Callable[[Any], Any], *, dry_run: bool = True
    ) -> ConversionReport:
        """Convert the stored values of a concept to its type, history included.

            report = memory.contents.convert(AGE, int)
            if not report.failed:
                memory.contents.convert(AGE, int, dry_run=False)

        Each place is rewritten in one atomic step. A place with a value that cannot be converted
        stays as it is, and `failed` names the fact.

        Args:
            concept: The concept with its new value type.
            function: Takes a stored value as plain JSON, and returns a value of the concept's type.
                It runs with the store held, maybe in a worker thread, and must be quick.
            dry_run: Write nothing, only report.

        Raises:
            MemoryAccessError: The view is read-only, and `dry_run` is not set.
        """
        return self._portal.call(self._wrapped.convert, concept, function, dry_run=dry_run)

    def export(self) -> dict[str, JsonValue]:
        """Return everything that the memory's places hold, history included, as plain JSON.

        For a person who asks which data is stored about them: `memory.of("alice").contents.export()`
        and then `json.dumps`. `entries` are the lines of the ledger: each save with value, dates,
        source, quote and metadata, and each forgetting. To move facts, use `export_facts`.
        """
        return self._portal.call(self._wrapped.export)


class ToolSync(Wraps[MemoryTool]):
    """A tool of a memory for code that does not use `await`."""

    def call(
        self, arguments: str | Mapping[str, object] | None = None, context: object = None
    ) -> str:
        """Run the tool and return the text for the model: JSON, or a line that starts with `Error:`.

        Arguments are parsed leniently: a string for a list, a number for a string and the reverse,
        JSON in a string or in a code fence, a bare string for the first argument. JSON that is cut
        off is an error. Unknown arguments are ignored; `forget` refuses them, because they may
        have meant to forget less.

        Args:
            arguments: The JSON object that the model wrote, as a string or parsed by a framework;
                None for no arguments.
            context: Passed to the function `of` of `AgentMemory.tools`; ignored otherwise.

        Raises:
            StorageError: A place could not be read or written.
            UnboundSubjectError: `of` returned no user, and a per-entity subject has no entity.
        """
        return self._portal.call(self._wrapped.call, arguments, context)

    @property
    def name(self) -> str:
        """The name that the model calls."""
        return self._wrapped.name

    @property
    def definition(self) -> ToolDefinition:
        """Name, description and the JSON schema of the arguments."""
        return self._wrapped.definition
