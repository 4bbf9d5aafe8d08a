"""FactDetector: asks a model for the facts of a chat, validates its answer and saves the facts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC

from pydantic import JsonValue
from typing_extensions import TypeForm, TypeVar

from factmem._concurrency import Workers
from factmem.detection._candidates import Rules
from factmem.detection._question import (
    DetectedFacts,
    continuation,
    detection_question,
    offered_concepts,
    verified,
    whole_items,
)
from factmem.detection._reconciliation import (
    CurrentValues,
    EarlierStatements,
    ReadItems,
    Synonym,
    fact_of,
    join_keywords,
    new_items,
    read_items,
    reconcile,
)
from factmem.detection._synonyms import KeywordSynonyms
from factmem.detection.report import DetectionReport, DetectionRequest, Retraction
from factmem.errors import ChatModelError, ExtractionError
from factmem.ledger.resolution import PlacedFact
from factmem.llm.base import ChatModel, Message
from factmem.models.facts import AnyFact
from factmem.models.places import Identity, Place, acting_unless_named
from factmem.prompt._transcript import SaidMessage, Transcript
from factmem.providers._view import FactReader
from factmem.providers.provider import is_complete
from factmem.providers.results import Learned, Moment, RetractedFact
from factmem.providers.store import FactStore
from factmem.usage import Usage

T = TypeVar("T")

PIECE_TOKENS = 6_000
"""The most tokens of messages in one call: a longer chat is read in several pieces."""

_MOST_CONTINUED = 8
"""The most calls for one piece whose answers are truncated at the output limit."""

_MUCH_TEXT = 20_000
"""Messages of at least this many characters are processed in a worker thread."""


@dataclass(slots=True)
class _Answers:
    """The answers to the pieces of a chat so far, and the facts and rules to validate them."""

    found: Sequence[PlacedFact]
    rules: Rules
    read: ReadItems = field(default_factory=ReadItems)
    count: int = 0
    """The number of items."""
    usage: Usage = field(default_factory=Usage)


class FactDetector:
    """Asks a model for the facts of a chat, validates the answer and writes the result.

    A `store` of a provider with four methods rejects retractions. Without `synonyms` only keywords
    of the same words are joined.
    """

    def __init__(
        self, store: FactStore, reader: FactReader, synonyms: KeywordSynonyms | None = None
    ) -> None:
        self._store = store
        self._reader = reader
        self._synonyms = synonyms
        self._workers = Workers()

    async def detect(self, chat_model: ChatModel, request: DetectionRequest) -> DetectionReport:
        """Find and save the facts of a chat, and return the report.

        One call to the model for each 6,000 tokens of messages, in order; each call sees what the
        earlier ones found. No call if the transcript has no message that may be cited. Everything
        is written at the end: the facts of one place in one batch, before its retractions. A failed
        call saves nothing. A failed write raises; places that were written before keep their facts.
        """
        entities = [place.subject.entity for place in request.places]
        subjects = [place.subject.name for place in request.places]
        transcript = request.transcript.of_entities(entities, subjects=subjects)
        request = replace(request, transcript=transcript)
        if not request.transcript:
            return _about(transcript, DetectionReport(is_dry_run=request.dry_run))
        # Read before the facts, so that an erasure during the calls to the model is noticed.
        unread = [each for each in request.places if each.identity not in request.moments]
        moments = {**request.moments, **await self.moments(unread)}
        found = await self._known(request)
        model = getattr(chat_model, "model", None)
        known = [placed.fact.concept for placed in found]
        rules = Rules(request, known, model if isinstance(model, str) else None)
        answers = _Answers(found, rules)
        current = CurrentValues(found)
        try:
            size = sum(len(each.text) for each in transcript.messages)
            for piece in await self._run(size, lambda: transcript.pieces(PIECE_TOKENS)):
                await self._read_piece(chat_model, request, piece, answers)
            synonyms = await self._synonyms_in(answers, request)
            read = answers.read
            read.candidates, joined = join_keywords(read.candidates, rules, synonyms, current)
            earlier = await self._earlier(request, answers)
            if request.is_verified:
                new = new_items(read, current, earlier)
                read, usage = await verified(read, new, request.transcript, chat_model)
                answers.usage += usage
        except (ChatModelError, ExtractionError) as exc:
            exc.usage += answers.usage
            raise
        verdict = reconcile(read, current, earlier=earlier, can_forget=is_complete(self._store))
        report = verdict.report
        report.joined.extend(joined)
        if not request.dry_run:
            await self._write(report, moments)
        report.confirmed.extend(verdict.repeated)
        report.proposed.extend(verdict.pasted)
        report = replace(report, usage=answers.usage, is_dry_run=request.dry_run)
        return _about(transcript, report)

    async def _earlier(
        self, request: DetectionRequest, answers: _Answers
    ) -> EarlierStatements | None:
        """Return what was learnt from these messages before; None if the store has no history."""
        if request.conversation is None or not is_complete(self._store):
            return None
        places = {each.place.identity: each.place for each in answers.read.candidates}
        entries = {
            identity: await self._store.entries(place.subject, place.scope)
            for identity, place in places.items()
        }
        digests = answers.rules.digests.values()
        return EarlierStatements(entries, digests, request.transcript.first)

    async def _run(self, size: int, work: Callable[[], T]) -> T:
        """Run work on texts of `size` characters, in a worker thread if they are long."""
        return await self._workers.run(work) if size > _MUCH_TEXT else work()

    async def moments(self, places: Sequence[Place]) -> dict[Identity, Moment]:
        """Return the present moment of each place; facts of places erased later are not saved."""
        return {
            place.identity: await self._store.moment(place.subject, place.scope) for place in places
        }

    async def _known(self, request: DetectionRequest) -> list[PlacedFact]:
        """Load the current facts of the places; for a closed request, those of its concepts."""
        found, _ = await self._reader.found(request.places, request.declared)
        if not request.is_closed:
            return found
        wanted = {concept.keyword for concept in request.declared}
        return [placed for placed in found if placed.fact.concept.keyword in wanted]

    async def _read_piece(
        self,
        chat_model: ChatModel,
        request: DetectionRequest,
        piece: Sequence[SaidMessage],
        answers: _Answers,
    ) -> None:
        """Ask about one piece of the chat and add its items to the answers."""
        text = "\n".join(each.text for each in piece if each.kind is not None)
        earlier = [
            PlacedFact(each.place, fact_of(each, each.importance))
            for each in answers.read.candidates
            if not each.is_retraction
        ]
        zone = piece[-1].said_at.tzinfo or UTC

        def ask() -> tuple[list[Message], TypeForm[DetectedFacts]]:
            known, with_place = [*answers.found, *earlier], len(request.places) > 1
            offered = offered_concepts(request.declared, known, text, zone, with_place=with_place)
            return detection_question(request, piece, offered)

        items = await _ask(chat_model, await self._run(len(text), ask), answers)
        # An item counts as 200 characters of work.
        size, first = len(text) + 200 * len(items), answers.count
        more = await self._run(size, lambda: read_items(items, answers.rules, first=first))
        answers.read.candidates += more.candidates
        answers.read.rejected += more.rejected
        answers.count += len(items)

    async def _synonyms_in(self, answers: _Answers, request: DetectionRequest) -> Sequence[Synonym]:
        """Return the new keywords of an answer that mean a known concept."""
        if self._synonyms is None:
            return ()
        keywords = (each.concept.keyword for each in answers.read.candidates)
        new = answers.rules.new_concepts(keywords)
        return await self._synonyms.find(new, answers.rules.given_concepts, request.places)

    async def _write(self, report: DetectionReport, moments: Mapping[Identity, Moment]) -> None:
        """Write the facts and retractions, those of one place at once."""
        places: dict[Identity, Place] = {}
        facts: dict[Identity, list[AnyFact]] = {}
        ended: dict[Identity, list[RetractedFact]] = {}
        stated = (*report.superseded, *report.saved, *report.confirmed, *report.proposed)
        for placed in stated:
            places[placed.place.identity] = placed.place
            facts.setdefault(placed.place.identity, []).append(placed.fact)
        for each in report.retracted:
            places[each.place.identity] = each.place
            waits = each.concept.review or each.is_proposed
            retracted = RetractedFact(each.concept, each.value, each.said_at, each.source, waits)
            ended.setdefault(each.place.identity, []).append(retracted)
        for identity, place in places.items():
            with acting_unless_named("detection"):
                learned = await self._store.learn(
                    facts.get(identity, []),
                    place.subject,
                    place.scope,
                    retracted=ended.get(identity, []),
                    since=moments.get(identity),
                )
            _settle(report, place, learned)


def _about(transcript: Transcript, report: DetectionReport) -> DetectionReport:
    """Return a report that names the speakers and roles whose messages did not count."""
    return replace(report, others=transcript.others, unknown_roles=transcript.unknown_roles)


def _settle(report: DetectionReport, place: Place, learned: Learned) -> None:
    """Update the report with the result of one place's write."""
    if learned.is_erased:
        listings = (report.saved, report.confirmed, report.superseded, report.proposed)
        for listed in listings:
            report.erased.extend(e for e in listed if e.place.identity == place.identity)
            listed[:] = [e for e in listed if e.place.identity != place.identity]
        _refuse(report, lambda each: each.place.identity == place.identity)
        return
    for listed in (report.saved, report.confirmed):
        report.superseded.extend(each for each in listed if each.fact.id in learned.superseded)
        report.proposed.extend(each for each in listed if each.fact.id in learned.proposed)
        moved = learned.superseded | learned.proposed
        listed[:] = [each for each in listed if each.fact.id not in moved]
    undone = (*learned.refused, *learned.disputed)
    # By `id`, because values may be unhashable; `_write` passed the same objects.
    refused = {(each.concept.keyword, id(each.value)) for each in undone}
    _refuse(
        report,
        lambda each: (
            each.place.identity == place.identity
            and (each.concept.keyword, id(each.value)) in refused
        ),
    )


def _refuse(report: DetectionReport, is_refused: Callable[[Retraction], bool]) -> None:
    """Move retractions that were not recorded."""
    report.refused.extend(filter(is_refused, report.retracted))
    report.retracted[:] = [each for each in report.retracted if not is_refused(each)]


async def _ask(
    chat_model: ChatModel,
    question: tuple[list[Message], TypeForm[DetectedFacts]],
    answers: _Answers,
) -> list[JsonValue]:
    """Ask a model about one piece, and return the items of its answer.

    If an answer was truncated, its complete items are kept and the rest is requested.
    """
    messages, output_type = question
    items: list[JsonValue] = []
    for _ in range(_MOST_CONTINUED):
        try:
            extraction = await chat_model.extract(messages, output_type)
        except ExtractionError as exc:
            whole = whole_items(exc.raw) if exc.is_cut_off else []
            if not whole:
                raise
            answers.usage += exc.usage
            items += whole
            messages = [*messages, *continuation(whole)]
        else:
            answers.usage += extraction.usage
            return items + extraction.value.facts
    return items
