"""The part of a memory that tidies up: values that mean the same become one."""

from collections.abc import Iterable, Iterator, Sequence
from math import ceil
from typing import Any

from pydantic import JsonValue

from factmem.detection.candidates import RejectedItem
from factmem.events import MemoryOperation, OperationInProgress
from factmem.llm.base import ChatModel
from factmem.memory._core import MemoryCore, store_of
from factmem.memory.consolidation import (
    ConsolidationReport,
    Merge,
    MergeAnswer,
    consolidation_messages,
    merging,
    proposed,
    restoring,
)
from factmem.models.boundary import check_writable
from factmem.models.facts import Concept, FactType
from factmem.models.places import (
    Identity,
    MemorySubject,
    Place,
)
from factmem.models.scopes import ScopeChoice
from factmem.models.values import canonical
from factmem.prompt.transcript import folded
from factmem.usage import Usage

MAX_VALUES = 200
"""How many values a model is shown at once."""

_LONGEST_VALUE = 1_000


class ConsolidatesFacts(MemoryCore):
    """Merges near-equal values of a concept that holds many, and undoes it."""

    async def consolidate(
        self,
        concept: Concept[Any, Any],
        *,
        scopes: Iterable[ScopeChoice] | None = None,
        subjects: Iterable[MemorySubject] | None = None,
        dry_run: bool = True,
    ) -> ConsolidationReport:
        """Ask the model which values of a concept mean the same, and merge them if told to.

        One call to the model for each place that holds two values or more, and for each 200 values
        that it holds; values of two places are never in one call. The model only points at values
        that it was shown: one of them is kept, the others are forgotten, and nothing is made up.

        By default nothing is written. Look at `merges` of the report, and hand it to `merge`; with
        `dry_run=False` the same is done at once. Each merge is one entry in the history of its
        place, written whole or not at all. The value that is kept gains the sources of the others,
        and has the greatest importance and the latest expiry among them; it counts as confirmed.

        Args:
            concept: What to tidy up; it holds many values.
            scopes: Where; all scopes of the profile by default.
            subjects: For whom; those of the memory by default.
            dry_run: Write nothing, only report.

        Raises:
            ValueError: The concept holds one value, or there is no chat model. No model was asked.
            TypeError: `concept` is none; or `dry_run` is not set, and the provider is no
                `FactStore`. No model was asked.
            UnboundSubjectError: A subject is per entity and names none. No model was asked.
            MemoryAccessError: A view does not let this be written. No model was asked.
            StoredFactError: A stored value does not fit the concept's `value_type`.
            ChatModelError: The model's endpoint failed. Nothing was merged.
            ExtractionError: The model's answer could not be used. Nothing was merged.
            StorageError: A place could not be read or written; what was merged before stays.
        """
        async with self._events.operation(MemoryOperation.CONSOLIDATE) as seen:
            _check_concept(concept)
            chat_model = self._model()
            if dry_run:
                seen.places = self._places(subjects, scopes)
            else:
                store_of(self._provider)
                seen.places = self._reach.writable_places(subjects, scopes)
            await self._caught_up()
            report = await self._proposal(concept, seen, chat_model)
            if not dry_run:
                report = await self._merged(report)
            seen.count = report.count
            return report

    async def merge(self, report: ConsolidationReport) -> ConsolidationReport:
        """Merge what a report of a dry run proposes. No call to a model.

        What it proposes holds as far as the values are current still: a kept value that was
        forgotten since does not come back, and such merges are in `outdated` of the report that is
        returned. A merge that was done before is not written again, so that a call that failed can
        be repeated; one that was undone is done again. Places are written one after the other.

        Raises:
            TypeError: `report` is none, or the provider is no `FactStore`.
            MemoryAccessError: A view does not let one of the places be written. Nothing was merged.
            StorageError: A place could not be written; what was merged before stays.
        """
        async with self._events.operation(MemoryOperation.CONSOLIDATE) as seen:
            _check_report(report)
            seen.places = self._writable(report.merges)
            merged = await self._merged(report)
            seen.count = merged.count
            return merged

    async def restore(self, report: ConsolidationReport) -> int:
        """Undo the merges of a report, and return how many values came back. No call to a model.

        Each dropped value comes back as it was: when it was said, who said it, how important it
        was and when it expires; history shows a new save. Where the value that was kept is not
        current any more, nothing comes back: whoever had it forgotten meant the others as well. Nor
        does what was purged or erased since, has expired, or is beyond the history that the store
        keeps. The values that were kept are not touched: what the merge gave them, they keep.

        Raises:
            TypeError: `report` is none, or the provider is no `FactStore`.
            MemoryAccessError: A view does not let one of the places be written. Nothing came back.
            StorageError: A place could not be written; what came back before stays.
        """
        async with self._events.operation(MemoryOperation.RESTORE) as seen:
            _check_report(report)
            seen.places = self._writable(report.merges)
            store = self.store
            for merges in _by_place(report.merges):
                place = merges[0].place
                restored: list[JsonValue] = []
                change = restoring(merges, restored)
                await store.amend(change, place.subject, place.scope)
                seen.count += len(restored)
            return seen.count

    async def _proposal(
        self, concept: Concept[Any, Any], seen: OperationInProgress, chat_model: ChatModel
    ) -> ConsolidationReport:
        merges: list[Merge] = []
        rejected: list[RejectedItem] = []
        usage, not_shown = Usage(), 0
        for place in seen.places:
            facts = await self._provider.load(concept, place.subject, place.scope)
            values = _values(concept, facts)
            shown = [value for value in values if len(str(value)) <= _LONGEST_VALUE]
            not_shown += len(values) - len(shown)
            for batch in _batches(shown):
                asked = consolidation_messages(concept, batch)
                extraction = await chat_model.extract(asked, MergeAnswer)
                found, refused = proposed(extraction.value, batch, place, concept.keyword)
                merges += found
                rejected += refused
                usage += extraction.usage
                seen.spent(extraction.usage)
        return ConsolidationReport(
            merges, [], rejected, not_shown=not_shown, usage=usage, is_dry_run=True
        )

    async def _merged(self, report: ConsolidationReport) -> ConsolidationReport:
        store = self.store
        held: set[str] = set()
        for merges in _by_place(report.merges):
            place = merges[0].place
            done: list[Merge] = []
            await store.amend(merging(merges, done), place.subject, place.scope)
            held.update(merge.id for merge in done)
        return ConsolidationReport(
            [merge for merge in report.merges if merge.id in held],
            [*report.outdated, *(merge for merge in report.merges if merge.id not in held)],
            report.rejected,
            not_shown=report.not_shown,
            usage=report.usage,
        )

    def _writable(self, merges: Sequence[Merge]) -> list[Place]:
        """Return the places of merges, all of which may be written."""
        store_of(self._provider)
        places = [found[0].place for found in _by_place(merges)]
        for place in places:
            check_writable(place, self._reach.boundary)
        return places


def _check_concept(concept: Concept[Any, Any]) -> None:
    if not isinstance(concept, Concept):
        raise TypeError(
            f"consolidate takes a Concept, not {type(concept).__name__}: the one that the values "
            f"were saved under"
        )
    if concept.fact_type is not FactType.MULTIPLE:
        raise ValueError(
            f"{concept.keyword!r} holds one value, so there is nothing to merge: consolidate takes "
            f"a concept of FactType.MULTIPLE"
        )


def _check_report(report: ConsolidationReport) -> None:
    if not isinstance(report, ConsolidationReport):
        raise TypeError(
            f"This takes the report that consolidate or merge returned, not {type(report).__name__}"
        )


def _values(concept: Concept[Any, Any], facts: Iterable[Any]) -> list[JsonValue]:
    """Return the values of facts as plain JSON, those that are written alike side by side."""
    plain = [concept.codec.dump(value, concept.keyword) for fact in facts for value in fact.values]
    unique = {canonical(value): value for value in plain}
    return sorted(unique.values(), key=_spelling)


def _batches(values: Sequence[JsonValue]) -> Iterator[Sequence[JsonValue]]:
    """Give values in parts of about one size, none larger than a model is shown at once."""
    if len(values) < 2:
        return
    size = ceil(len(values) / ceil(len(values) / MAX_VALUES))
    for start in range(0, len(values), size):
        yield values[start : start + size]


def _spelling(value: JsonValue) -> str:
    return folded(str(value))


def _by_place(merges: Iterable[Merge]) -> list[list[Merge]]:
    """Return merges by the place that they are in, in their order."""
    places: dict[Identity, list[Merge]] = {}
    for merge in merges:
        places.setdefault(merge.place.identity, []).append(merge)
    return list(places.values())
