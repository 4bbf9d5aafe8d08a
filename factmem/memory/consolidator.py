"""MemoryConsolidation: merges values of a concept that mean the same."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any

from pydantic import JsonValue

from factmem._arguments import expect
from factmem.detection.report import RejectedItem
from factmem.events import MemoryOperation, OperationInProgress
from factmem.llm.base import ChatModel
from factmem.memory._parts import MemoryParts
from factmem.memory.consolidation import (
    ConsolidationReport,
    Merge,
    MergeAnswer,
    consolidation_messages,
    merging,
    propose_merges,
)
from factmem.models._checked import checked_concept
from factmem.models._values import canonical
from factmem.models.actors import acting_unless_named
from factmem.models.boundary import check_writable
from factmem.models.facts import Concept, FactType
from factmem.models.places import Identity, Place
from factmem.prompt._quotes import folded
from factmem.providers.base import fact_store
from factmem.usage import Usage

__all__ = ["MemoryConsolidation"]


MAX_VALUES = 200
"""The number of values in one prompt."""

_LONGEST_VALUE = 1_000


class MemoryConsolidation:
    """Merges values of a concept that mean the same, in the places of a memory.

        proposal = await memory.consolidation.propose(LANGUAGES)  # one call to the model
        report = await memory.consolidation.merge(proposal)
        await memory.review.undo(report.merges[0].change)

    The model only selects values: one is kept, the others are forgotten, and nothing is invented.
    """

    def __init__(self, parts: MemoryParts) -> None:
        self._parts = parts
        self._instructions = parts.settings.instructions

    async def propose(self, concept: Concept[Any, Any]) -> ConsolidationReport:
        """Ask the model which values of a concept mean the same. Nothing is written.

        Makes one call to the model for each 200 values of a place with at least two values; values
        of two places are never in the same call. Check `merges` of the report, then pass the report
        to `merge`. For instructions `ValueError` is raised.
        """
        async with self._parts.events.operation(MemoryOperation.CONSOLIDATE) as operation:
            _check_multiple(concept)
            _check_mergeable([concept.keyword], self._instructions)
            chat_model = self._parts.chat_model
            if chat_model is None:
                raise ValueError("propose needs a chat model: AgentMemory(..., chat_model=...)")
            operation.places = self._parts.selection.places()
            report = await self._propose(concept, operation, chat_model)
            operation.count = report.count
            return report

    async def merge(self, report: ConsolidationReport) -> ConsolidationReport:
        """Apply the merges of a report. No call to a model. Places are written in sequence.

        Each merge is one atomic entry in the history of its place. The kept value is confirmed and
        gets the sources of the others, their greatest importance and their latest expiry. Only
        current values are merged: if the kept value was forgotten since, it is not restored, and
        the merge is in `outdated` of the returned report. A failed call can be repeated: a merge
        that was applied before is not written again, unless it was undone: see `Merge.change`.
        """
        async with self._parts.events.operation(MemoryOperation.CONSOLIDATE) as operation:
            example = "memory.consolidation.merge(await memory.consolidation.propose(concept))"
            expect(report, ConsolidationReport, "report", example)
            _check_mergeable([merge.keyword for merge in report.merges], self._instructions)
            operation.places = self._writable(report.merges)
            merged = await self._apply_merges(report)
            operation.count = merged.count
            return merged

    async def _propose(
        self, concept: Concept[Any, Any], operation: OperationInProgress, chat_model: ChatModel
    ) -> ConsolidationReport:
        merges: list[Merge] = []
        rejected: list[RejectedItem] = []
        usage, not_shown = Usage(), 0
        for place in operation.places:
            facts = await self._parts.provider.load(concept, place.subject, place.scope)
            values = _values(concept, facts)
            shown = [value for value in values if len(str(value)) <= _LONGEST_VALUE]
            not_shown += len(values) - len(shown)
            for batch in _batches(shown):
                asked = consolidation_messages(concept, batch)
                extraction = await chat_model.extract(asked, MergeAnswer)
                found, refused = propose_merges(extraction.value, batch, place, concept.keyword)
                merges += found
                rejected += refused
                usage += extraction.usage
                operation.spent(extraction.usage)
        return ConsolidationReport(
            merges, [], rejected, not_shown=not_shown, usage=usage, is_dry_run=True
        )

    async def _apply_merges(self, report: ConsolidationReport) -> ConsolidationReport:
        store = fact_store(self._parts.provider)
        held: dict[str, Merge] = {}
        for merges in _by_place(report.merges):
            place = merges[0].place
            done: list[Merge] = []
            with acting_unless_named("consolidation"):
                await store.amend(merging(merges, done), place.subject, place.scope)
            held |= {merge.id: merge for merge in done}
        return ConsolidationReport(
            [held[merge.id] for merge in report.merges if merge.id in held],
            [*report.outdated, *(merge for merge in report.merges if merge.id not in held)],
            report.rejected,
            not_shown=report.not_shown,
            usage=report.usage,
        )

    def _writable(self, merges: Sequence[Merge]) -> list[Place]:
        """Return the places of merges; raise `MemoryAccessError` if one is not writable."""
        fact_store(self._parts.provider)
        places = [found[0].place for found in _by_place(merges)]
        for place in places:
            check_writable(place, self._parts.selection.boundary)
        return places


def _check_multiple(concept: Concept[Any, Any]) -> None:
    checked_concept(concept)
    if concept.fact_type is not FactType.MULTIPLE:
        raise ValueError(
            f"{concept.keyword!r} has one value, so nothing can be merged: propose needs a "
            "concept of FactType.MULTIPLE"
        )


def _values(concept: Concept[Any, Any], facts: Iterable[Any]) -> list[JsonValue]:
    """Return the values of facts as plain JSON, sorted by spelling."""
    plain = [concept.codec.dump(value, concept.keyword) for fact in facts for value in fact.values]
    unique = {canonical(value): value for value in plain}
    return sorted(unique.values(), key=_spelling)


def _batches(values: Sequence[JsonValue]) -> Iterator[Sequence[JsonValue]]:
    """Yield values in batches of about equal size, at most `MAX_VALUES` each."""
    if len(values) < 2:
        return
    size = ceil(len(values) / ceil(len(values) / MAX_VALUES))
    for start in range(0, len(values), size):
        yield values[start : start + size]


def _spelling(value: JsonValue) -> str:
    return folded(str(value))


def _by_place(merges: Iterable[Merge]) -> list[list[Merge]]:
    """Group merges by place, in their order."""
    places: dict[Identity, list[Merge]] = {}
    for merge in merges:
        places.setdefault(merge.place.identity, []).append(merge)
    return list(places.values())


def _check_mergeable(keywords: Iterable[str], followed: Mapping[str, Concept[Any, Any]]) -> None:
    """Raise for instructions: a value from a page would get the user's message as a source."""
    named = next((keyword for keyword in keywords if keyword in followed), None)
    if named is not None:
        raise ValueError(
            f"{named!r} is one of the memory's instructions, whose values cannot be merged: update "
            "one with memory.contents.update and forget the others"
        )
