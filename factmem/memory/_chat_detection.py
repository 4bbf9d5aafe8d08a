"""Detection of facts in chats and texts with the memory's chat model."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from logging import getLogger

from factmem._arguments import expect, expect_all
from factmem.detection.report import Detection, DetectionReport, DetectionRequest
from factmem.errors import InputValueError
from factmem.events import MemoryOperation, OperationInProgress
from factmem.llm.messages import History
from factmem.memory._parts import MemoryParts
from factmem.models.facts import FactSource, SourceKind, concepts_by_keyword
from factmem.models.places import Identity, Place
from factmem.prompt._transcript import Transcript
from factmem.providers.results import Moment

_log = getLogger("factmem.memory")


async def detect_in_chat(
    parts: MemoryParts,
    messages: Sequence[History],
    *,
    since: int,
    conversation: str | None,
    said_at: datetime | None = None,
    detection: Detection | None = None,
    read_at: Mapping[Identity, Moment] | None = None,
    dry_run: bool = False,
    numbers: Sequence[int] | None = None,
) -> DetectionReport:
    """See `AgentMemory.auto_detect_facts`; `numbers` are those of stored messages."""
    async with parts.events.operation(MemoryOperation.DETECT) as operation:
        wanted = parts.settings.detection
        if detection is not None:
            wanted = expect(detection, Detection, "detection", "detection=Detection()")
        transcript = Transcript(
            messages,
            trust=wanted.trust,
            since=since,
            said_at=_moment(parts, wanted) if said_at is None else said_at,
            numbers=numbers,
            speaker=wanted.speaker,
        )
        if since > len(messages):
            _log.warning(
                "Of %d messages none is read, because since=%d says that so many were: pass the "
                "whole chat, or since=0",
                len(messages),
                since,
            )
        places = parts.selection.detection_places()
        request = _request(parts, transcript, places, conversation, wanted)
        moments = {} if read_at is None else read_at
        request = replace(request, moments=moments, dry_run=dry_run)
        return await _detected(parts, request, operation)


async def detect_in_texts(
    parts: MemoryParts,
    texts: str | Iterable[str],
    *,
    source: FactSource | str | None,
    said_at: datetime | None,
) -> DetectionReport:
    async with parts.events.operation(MemoryOperation.REMEMBER) as operation:
        example = "memory.remember('I like tea'), or memory.auto_detect_facts(messages) for a chat"
        given = [texts] if isinstance(texts, str) else texts
        checked, origin = expect_all(given, str, "text", example), _checked_source(source)
        parts.required_model()
        transcript = Transcript(
            [{"role": "user", "content": text} for text in checked],
            written_by=origin.kind if origin else None,
            said_at=_moment(parts, parts.settings.detection) if said_at is None else said_at,
        )
        places = parts.selection.detection_places()
        conversation = origin.conversation if origin else None
        request = _request(parts, transcript, places, conversation, parts.settings.detection)
        return await _detected(parts, request, operation)


def _moment(parts: MemoryParts, wanted: Detection) -> datetime:
    zone = wanted.zone
    return parts.clock().astimezone(zone) if isinstance(zone, tzinfo) else parts.clock()


def _request(
    parts: MemoryParts,
    transcript: Transcript,
    places: Sequence[Place],
    conversation: str | None,
    wanted: Detection,
) -> DetectionRequest:
    """Return the request to detect the facts of a transcript, and save them in some places."""
    known = parts.settings.concepts
    only = () if wanted.only is None else concepts_by_keyword(wanted.only, "only").values()
    for concept in only:
        if not (concept.detect and known.get(concept.keyword, concept).detect):
            raise InputValueError(
                f"{concept.keyword!r} has detect=False and cannot be written by a model: save it "
                "with memory.store.save(fact, subject, scope)"
            )
    return DetectionRequest(
        transcript=transcript,
        places=places,
        declared=list(known.values() if wanted.only is None else only),
        is_closed=wanted.only is not None,
        followed=frozenset(parts.settings.instructions),
        conversation=conversation,
        is_verified=wanted.verify is not None,
    )


async def _detected(
    parts: MemoryParts, request: DetectionRequest, operation: OperationInProgress
) -> DetectionReport:
    chat_model = parts.required_model()
    operation.places = request.places
    report = await parts.detector.detect(chat_model, request)
    written = [*report.superseded, *report.saved, *report.confirmed]
    operation.found(placed.fact for placed in written)
    operation.count += len(report.retracted)
    operation.erased = sum(len(placed.fact.values) for placed in report.erased)
    operation.spent(report.usage)
    return report


def _checked_source(source: FactSource | str | None) -> FactSource | None:
    if isinstance(source, str):
        return FactSource(SourceKind.USER, source)
    if source is not None:
        expect(source, (FactSource, str), "source", "source='ticket-7'")
    return source
