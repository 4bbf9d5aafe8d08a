"""Changes of concepts over all users: rename and convert, with their report."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from factmem._arguments import kind_of
from factmem.events import MemoryOperation
from factmem.ledger.entries import Entry, StoredFact
from factmem.memory._parts import MemoryParts
from factmem.models._checked import checked_concept
from factmem.models._display import Displayed, Sheet
from factmem.models._names import checked_name
from factmem.models.clock import stamp
from factmem.models.facts import Concept
from factmem.models.places import Place
from factmem.providers.base import FactStore, fact_store

__all__: list[str] = []


BothRule: TypeAlias = Literal["later", "both"] | Callable[[list[Any], list[Any]], Any]
Conversion: TypeAlias = Callable[[Any], Any]
Progress: TypeAlias = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class PlaceChange(Displayed):
    """What `rename` or `convert` did in one place, or would do. It contains no value."""

    place: Place
    values: int
    """The number of values that were changed: current ones, of a conversion also those of history."""
    has_both: bool = False
    """Whether the place had current values under several of the keywords."""
    problem: str | None = None
    """Why nothing was changed here; None if it was."""
    failed: tuple[str, ...] = ()
    """The ids of facts with a value that cannot be converted."""


@dataclass(frozen=True, slots=True)
class ChangeReport(Displayed):
    """The result of `rename` or `convert`: the places that had something to change."""

    changes: list[PlaceChange]
    is_dry_run: bool = False

    @property
    def places(self) -> list[Place]:
        """The places that were changed, or would be."""
        return [each.place for each in self.changes if each.problem is None]

    @property
    def values(self) -> int:
        """The number of changed values."""
        return sum(each.values for each in self.changes if each.problem is None)

    @property
    def refused(self) -> list[PlaceChange]:
        """The places that were left as they are; repeat the call for them."""
        return [each for each in self.changes if each.problem is not None]

    def _sheet(self) -> Sheet:
        rows = [(each.place, each.values, each.has_both, each.problem) for each in self.changes]
        return Sheet("ChangeReport", ("place", "values", "has both", "problem"), rows)


class ConceptChanges:
    """The methods of `MemoryContents` that change concepts."""

    def __init__(self, parts: MemoryParts) -> None:
        self._parts = parts
        self._provider = parts.provider
        self._selection = parts.selection
        self._events = parts.events
        self._clock = parts.clock

    async def rename(
        self,
        keywords: str | Iterable[str],
        concept: Concept[Any, Any],
        *,
        if_both: BothRule | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> ChangeReport:
        """Store the facts of a keyword, or of several, with their history, as facts of one concept.

        Each place is changed in atomic steps that lose no value. To finish a call that was killed,
        that failed or that refused places, repeat it: a place without facts of the keywords is
        skipped. Values are not changed; see `convert`. If the history of a place with both would
        change what is current, it stays under its keyword, where `Concept(was=)` finds it.

        Args:
            keywords: The former keyword, or several.
            concept: The concept that the facts get.
            if_both: Which current values a place keeps that has them under several keywords:
                `"later"` those of the keyword that was said last, `"both"` all of a concept with
                many values. A function takes the former values and those of the concept as lists
                of plain JSON, and returns the value, or the values. It runs while the store is
                locked, possibly in a worker thread, and must be fast. Without it such a place is
                refused, and all others are renamed.
            dry_run: Whether to only report what would be changed.
            progress: Is called after each place with the number of places so far, and of all.

        Raises:
            ValueError: One of `keywords` is that of the concept, or `"both"` was passed for a concept with one
                value.
            MemoryAccessError: The view is read-only.
        """
        async with self._events.before(MemoryOperation.SAVE):
            store = fact_store(self._provider)
            from factmem.memory import _keyword_merge  # needless without a merge

            several = [keywords] if isinstance(keywords, str) else keywords
            former = _keyword_merge.checked_former(several, concept, if_both)
        merge = _keyword_merge.KeywordMerge(former, concept, if_both, stamp(self._clock()))

        async def change(place: Place) -> PlaceChange | None:
            made = await _keyword_merge.merge_in_place(store, place, merge, dry_run=dry_run)
            if made is None:
                return None
            return PlaceChange(place, made.values, made.has_both, made.problem)

        return await self._each(store, change, progress, dry_run=dry_run)

    async def convert(
        self,
        concept: Concept[Any, Any],
        function: Callable[[Any], Any],
        *,
        operation: str,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> ChangeReport:
        """Convert the stored values of a concept and its history to the concept's type.

            report = await memory.contents.convert(PRICE, to_cents, operation="cents", dry_run=True)
            if not report.refused:
                await memory.contents.convert(PRICE, to_cents, operation="cents")

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
        async with self._events.before(MemoryOperation.SAVE):
            store = fact_store(self._provider)
            checked_concept(concept)
            checked_name(operation, "operation")
            if not callable(function):
                raise TypeError(f"function must be a function, not {kind_of(function)}: int")
        until = None if dry_run else stamp(await store.begin(operation))

        async def change(place: Place) -> PlaceChange | None:
            return await convert_place(
                store, place, concept, function, operation=operation, until=until
            )

        return await self._each(store, change, progress, dry_run=dry_run)

    async def _each(
        self,
        store: FactStore,
        change: Callable[[Place], Awaitable[PlaceChange | None]],
        progress: Progress | None,
        *,
        dry_run: bool,
    ) -> ChangeReport:
        """Change one place after the other."""
        places = await store.list_places()
        found: list[PlaceChange] = []
        for number, place in enumerate(places, 1):
            if made := await change(place):
                found.append(made)
            if progress is not None:
                progress(number, len(places))
        return ChangeReport(found, dry_run)


async def convert_place(
    store: FactStore,
    place: Place,
    concept: Concept[Any, Any],
    function: Conversion,
    *,
    operation: str,
    until: str | None,
) -> PlaceChange | None:
    """Convert the values of a concept in one place and its history, recorded until a time.

    Each converted entry is marked with the operation, and skipped if the operation is repeated.
    Without a time nothing is written. Nothing is written either if a value cannot be converted.
    """
    counted, failed = 0, list[str]()

    def edit(entries: Sequence[Entry]) -> Sequence[Entry | None]:
        nonlocal counted
        counted = 0
        failed.clear()
        after: list[Entry] = []
        for entry in entries:
            copy = deepcopy(entry)
            facts = [each for each in copy.get("facts", ()) if each["keyword"] == concept.keyword]
            done = copy.get("operations", [])
            is_due = operation not in done and (until is None or entry["at"] <= until)
            if facts and is_due:
                counted += sum(_convert(fact, concept, function, failed) for fact in facts)
                copy["operations"] = [*done, operation]
            after.append(copy)
        return entries if failed or not counted else after

    edit(await store.entries(place.subject, place.scope))
    if counted and not failed and until is not None:
        await store.rewrite(edit, place.subject, place.scope)
    if not counted:
        return None
    problem = "It has values that cannot be converted" if failed else None
    return PlaceChange(place, counted, problem=problem, failed=tuple(dict.fromkeys(failed)))


def _convert(
    fact: StoredFact, concept: Concept[Any, Any], function: Conversion, failed: list[str]
) -> int:
    """Convert the values of one stored fact in place; return their number."""
    values = fact["values"] if "values" in fact else [fact["value"]] if "value" in fact else []
    try:
        new = [
            concept.codec.dump(
                concept.codec.check(function(value), concept.keyword), concept.keyword
            )
            for value in values
        ]
    except Exception:  # noqa: BLE001 - the function is the application's; the report has the id
        failed.append(fact["id"])
        return len(values)
    if "values" in fact:
        fact["values"] = new
    elif new:
        fact["value"] = new[0]
    fact["description"] = concept.description
    return len(values)
