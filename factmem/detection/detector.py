"""Finding facts in a chat with one call to a model, and saving them."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeAlias, runtime_checkable

from pydantic import JsonValue

from factmem.detection.candidates import Rules
from factmem.detection.prompts import (
    KnownValue,
    OfferedConcept,
    answer_schema,
    detection_messages,
)
from factmem.detection.reconciliation import (
    Answer,
    CurrentValues,
    DetectionReport,
    Verdict,
    answer_type,
    judged,
)
from factmem.detection.request import DetectionRequest
from factmem.ledger.resolution import PlacedFact
from factmem.llm.base import ChatModel, Extraction
from factmem.models.clock import TimeProvider
from factmem.models.facts import AnyFact, Concept
from factmem.models.places import (
    Identity,
    MemoryScope,
    MemoryScopeType,
    MemorySubject,
    Place,
)
from factmem.providers.base import AgentMemoryProvider
from factmem.providers.reader import FactReader
from factmem.usage import Usage

__all__ = ["FactDetector"]


AnyConcept: TypeAlias = Concept[Any, Any]

MAX_KNOWN = 200
"""The number of undeclared concepts that the prompt shows: those confirmed last."""


@runtime_checkable
class _SavesMany(Protocol):
    async def save_many(
        self, facts: Iterable[AnyFact], subject: MemorySubject, scope: MemoryScope
    ) -> None: ...


@runtime_checkable
class _Forgets(Protocol):
    async def forget(
        self, subject: MemorySubject, scope: MemoryScope, *, concept: AnyConcept, value: object
    ) -> int: ...


class FactDetector:
    """Asks a model for the facts of a chat, validates the answer and writes the result.

    Args:
        provider: The store that is written. Without `save_many` facts are saved one by one;
            without `forget` retractions are rejected.
        reader: A reader of the same provider.
        clock: The clock that timestamps new facts.
    """

    def __init__(
        self, provider: AgentMemoryProvider, reader: FactReader, clock: TimeProvider
    ) -> None:
        self._provider = provider
        self._reader = reader
        self._clock = clock

    async def detect(
        self, chat_model: ChatModel, request: DetectionRequest
    ) -> tuple[DetectionReport, str]:
        """Find and save the facts of a chat; return the report and the model's raw answer.

        One call to the model; none when the transcript has no citable message. The facts of one
        place are written in one batch, before its retractions. A failed write raises; places that
        were written before keep their facts.
        """
        if not request.transcript:
            return DetectionReport([], [], [], [], Usage(), request.dry_run), ""
        found = await self._known(request)
        extraction = await _ask(chat_model, request, _offered(request.declared, found))
        verdict = judged(
            extraction.value.facts,
            _rules(chat_model, request, found),
            CurrentValues(found),
            now=self._clock(),
            can_forget=isinstance(self._provider, _Forgets),
        )
        if not request.dry_run:
            await self._write(verdict)
        return _report(verdict, extraction.usage, dry_run=request.dry_run), extraction.raw

    async def _known(self, request: DetectionRequest) -> list[PlacedFact]:
        """Load the current facts of the places; of a closed request, those it asks about."""
        found, _ = await self._reader.found(request.places, request.declared)
        if not request.is_closed:
            return found
        wanted = {concept.keyword for concept in request.declared}
        return [placed for placed in found if placed.fact.concept.keyword in wanted]

    async def _write(self, verdict: Verdict) -> None:
        places: dict[Identity, list[PlacedFact]] = {}
        for placed in (*verdict.saved, *verdict.confirmed):
            places.setdefault(placed.place.identity, []).append(placed)
        for facts in places.values():
            await self._save(facts[0].place, [placed.fact for placed in facts])
        if isinstance(self._provider, _Forgets):  # else there are no retractions
            for each in verdict.retracted:
                subject, scope = each.place.subject, each.place.scope
                await self._provider.forget(subject, scope, concept=each.concept, value=each.value)

    async def _save(self, place: Place, facts: list[AnyFact]) -> None:
        if isinstance(self._provider, _SavesMany):
            await self._provider.save_many(facts, place.subject, place.scope)
        else:
            for fact in facts:
                await self._provider.save(fact, place.subject, place.scope)


async def _ask(
    chat_model: ChatModel, request: DetectionRequest, concepts: Sequence[OfferedConcept]
) -> Extraction[Answer]:
    subjects = list({place.subject.name: place.subject for place in request.places}.values())
    by_type = {place.scope.type: place.scope for place in request.places}
    scopes = [by_type[each] for each in MemoryScopeType if each in by_type]
    messages = detection_messages(
        request.transcript.lines(), subjects, scopes, concepts, is_closed=request.is_closed
    )
    schema = answer_schema(subjects, scopes, concepts, is_closed=request.is_closed)
    return await chat_model.extract(messages, answer_type(schema))


def _rules(chat_model: ChatModel, request: DetectionRequest, found: Sequence[PlacedFact]) -> Rules:
    model = getattr(chat_model, "model", None)
    return Rules(
        request.transcript,
        request.places,
        declared=request.declared,
        known=[placed.fact.concept for placed in found],
        is_closed=request.is_closed,
        conversation=request.conversation,
        model=model if isinstance(model, str) else None,
    )


def _report(verdict: Verdict, usage: Usage, *, dry_run: bool) -> DetectionReport:
    confirmed = [*verdict.confirmed, *verdict.repeated]
    return DetectionReport(
        verdict.saved, verdict.retracted, confirmed, verdict.rejected, usage, dry_run
    )


def _offered(declared: Sequence[AnyConcept], found: Sequence[PlacedFact]) -> list[OfferedConcept]:
    """Return the concepts to show to a model, each with its current values."""
    values: dict[str, list[KnownValue]] = {}
    concepts: dict[str, AnyConcept] = {}
    for placed in sorted(found, key=_heard_at, reverse=True):
        concept = placed.fact.concept
        concepts.setdefault(concept.keyword, concept)
        known = values.setdefault(concept.keyword, [])
        known += _known_values(placed)
    typed = {concept.keyword: concept for concept in declared}
    others = [concept for keyword, concept in concepts.items() if keyword not in typed]
    shown = [
        OfferedConcept(concept, has_type=True, known=values.get(concept.keyword, ()))
        for concept in typed.values()
    ]
    shown += [
        OfferedConcept(concept, has_type=False, known=values[concept.keyword])
        for concept in others[:MAX_KNOWN]
    ]
    return sorted(shown, key=_keyword)


def _known_values(placed: PlacedFact) -> list[KnownValue]:
    concept, place = placed.fact.concept, placed.place
    plain: list[JsonValue] = []
    for value in placed.fact.values:
        try:
            plain.append(concept.codec.dump(value, concept.keyword))
        except ValueError:  # a user's own provider returned a value that is not JSON
            continue
    return [KnownValue(place.subject.name, place.scope.type.value, each) for each in plain]


def _heard_at(placed: PlacedFact) -> datetime:
    return placed.heard_at


def _keyword(offered: OfferedConcept) -> str:
    return offered.concept.keyword
