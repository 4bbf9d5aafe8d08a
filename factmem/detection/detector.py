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
from factmem.prompt.transcript import Transcript
from factmem.providers.base import AgentMemoryProvider
from factmem.providers.reader import FactReader
from factmem.usage import Usage

__all__ = ["FactDetector"]


AnyConcept: TypeAlias = Concept[Any, Any]

MAX_KNOWN = 200
"""How many known concepts a model is shown besides the declared ones: those last confirmed."""


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
    """Asks a model which facts a chat states, judges its answer, and writes what holds.

    Args:
        provider: Where facts are kept. Without `save_many` the facts of a place are saved one by
            one; without `forget` retractions are rejected.
        reader: Reads the same provider.
        clock: Tells the time that new facts carry.
    """

    def __init__(
        self, provider: AgentMemoryProvider, reader: FactReader, clock: TimeProvider
    ) -> None:
        self._provider = provider
        self._reader = reader
        self._clock = clock

    async def detect(
        self,
        chat_model: ChatModel,
        transcript: Transcript,
        places: Sequence[Place],
        *,
        declared: Sequence[AnyConcept],
        is_closed: bool = False,
        conversation: str | None = None,
        dry_run: bool = False,
    ) -> tuple[DetectionReport, str]:
        """Return what was found and saved, and the model's answer as it was.

        One call to the model; none when no message may be cited. The facts of one place are
        written at once, all or none; then come the retractions. A place whose write fails ends the
        work with its error; what was written to other places before stays.

        Args:
            chat_model: Whom to ask.
            transcript: The chat.
            places: Where facts may be saved, no two of one subject name and scope type.
            declared: The concepts whose types the application knows.
            is_closed: Whether only facts about those are wanted.
            conversation: The conversation to note as the source.
            dry_run: Write nothing, only report.
        """
        if not transcript:
            return DetectionReport([], [], [], [], Usage(), dry_run), ""
        found, _ = await self._reader.found(places, declared)
        if is_closed:
            wanted = {concept.keyword for concept in declared}
            found = [placed for placed in found if placed.fact.concept.keyword in wanted]
        extraction = await self._ask(
            chat_model, transcript, places, _offered(declared, found), is_closed=is_closed
        )
        model = getattr(chat_model, "model", None)
        rules = Rules(
            transcript,
            places,
            declared=declared,
            known=[placed.fact.concept for placed in found],
            is_closed=is_closed,
            conversation=conversation,
            model=model if isinstance(model, str) else None,
        )
        verdict = judged(
            extraction.value.facts,
            rules,
            CurrentValues(found),
            now=self._clock(),
            can_forget=isinstance(self._provider, _Forgets),
        )
        if not dry_run:
            await self._write(verdict)
        return _report(verdict, extraction.usage, dry_run=dry_run), extraction.raw

    async def _ask(
        self,
        chat_model: ChatModel,
        transcript: Transcript,
        places: Sequence[Place],
        concepts: Sequence[OfferedConcept],
        *,
        is_closed: bool,
    ) -> Extraction[Answer]:
        subjects = list({place.subject.name: place.subject for place in places}.values())
        by_type = {place.scope.type: place.scope for place in places}
        scopes = [by_type[each] for each in MemoryScopeType if each in by_type]
        messages = detection_messages(
            transcript.lines(), subjects, scopes, concepts, is_closed=is_closed
        )
        schema = answer_schema(subjects, scopes, concepts, is_closed=is_closed)
        return await chat_model.extract(messages, answer_type(schema))

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
        except ValueError:  # a provider of one's own gave what has no JSON
            continue
    return [KnownValue(place.subject.name, place.scope.type.value, each) for each in plain]


def _heard_at(placed: PlacedFact) -> datetime:
    return placed.heard_at


def _keyword(offered: OfferedConcept) -> str:
    return offered.concept.keyword
