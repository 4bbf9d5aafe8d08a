"""MemoryParts: the store, models and settings of a memory or a view; detection with them."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from logging import getLogger
from typing import TYPE_CHECKING, Any

from typing_extensions import TypeForm, TypeVar

from factmem._arguments import (
    expect,
    expect_all,
    expect_function,
    expect_methods,
    has_name,
    kind_of,
)
from factmem._concurrency import Workers
from factmem.detection.report import Detection, DetectionReport, DetectionRequest
from factmem.embedding.base import Embedder
from factmem.errors import InputValueError, StorageError
from factmem.events import EventListener, MemoryEvents, MemoryOperation, OperationInProgress
from factmem.llm.base import ChatModel, ChatResponse, Extraction, History, Message, ToolDefinition
from factmem.memory._selection import PlaceSelection
from factmem.models._definition_changes import compared
from factmem.models.facts import (
    Concept,
    ConceptDefinition,
    FactSource,
    SourceKind,
    concepts_by_keyword,
)
from factmem.models.places import Boundary, Identity, MemoryScope, MemorySubject, Place
from factmem.models.profile import Concepts
from factmem.models.when import TimeProvider
from factmem.prompt.memory_message import MemoryMessage, MessageForm
from factmem.providers._view import FactReader, view_of
from factmem.providers.provider import AgentMemoryProvider, is_complete
from factmem.providers.results import Moment
from factmem.providers.store import FactStore
from factmem.recall._place_cache import IndexCache
from factmem.recall.match import RecallSettings

if TYPE_CHECKING:
    from factmem.detection._detector import FactDetector
    from factmem.detection._synonyms import KeywordSynonyms
    from factmem.prompt._transcript import Transcript
    from factmem.recall._search import FactSearch, TurnSearch


T = TypeVar("T")

_PROVIDER_METHODS = ("save", "load", "load_all", "load_by_description")
_PROVIDER = "AgentMemory(LocalFileMemoryProvider(path)) or AgentMemory(InMemoryProvider())"
_CHAT_MODEL = "chat_model=OpenAIChatModel(name), or OpenAIChatModel(name, client=client)"
_FORM = "message_form=MessageForm(max_tokens=500)"
_EMBEDDER = "embedder='ollama:nomic-embed-text', or CallableEmbedder(function, model='my-v1')"


class MemorySettings:
    """The checked arguments of a memory, which its views share, with recall indexes and events."""

    def __init__(
        self,
        provider: AgentMemoryProvider,
        subjects: Sequence[MemorySubject],
        *,
        chat_model: ChatModel | None,
        embedder: Embedder | str | None,
        concepts: Concepts,
        instructions: Concepts,
        message_form: MessageForm,
        clock: TimeProvider,
        recall_settings: RecallSettings,
        detection: Detection,
        listeners: Iterable[EventListener],
    ) -> None:
        self.instructions: dict[str, Concept[Any, Any]] = concepts_by_keyword(
            instructions, "instructions"
        )
        """The concepts whose values a model is asked to follow."""
        declared = [*concepts_by_keyword(concepts).values(), *self.instructions.values()]
        self.events: MemoryEvents = MemoryEvents(_checked_listeners(listeners))
        self.embedder: Embedder | None = _checked_embedder(embedder)
        self.provider: AgentMemoryProvider = expect_methods(
            provider, _PROVIDER_METHODS, "provider", _PROVIDER
        )
        """The store, without access checks: only `MemoryParts` and checks may use it."""
        self.chat_model: ChatModel | None = chat_model
        if chat_model is not None:
            expect_methods(chat_model, ("respond", "extract"), "chat_model", _CHAT_MODEL)
        self.concepts: dict[str, Concept[Any, Any]] = concepts_by_keyword(declared)
        """The concepts that the application declared, by keyword."""
        form = expect(message_form, MessageForm, "message_form", _FORM)
        self.message: MemoryMessage = MemoryMessage(subjects, form)
        self.zone: tzinfo = form.zone if isinstance(form.zone, tzinfo) else UTC
        """The time zone in which days are shown, and "tomorrow" is understood."""
        expect_function(clock, "clock", "clock=lambda: datetime.now(UTC)")
        is_local = self.zone is not UTC
        self.clock: TimeProvider = (lambda: clock().astimezone(self.zone)) if is_local else clock
        example = "recall_settings=RecallSettings(half_life=timedelta(days=90))"
        self.recall: RecallSettings = expect(
            recall_settings, RecallSettings, "recall_settings", example
        )
        self.detection: Detection = expect(
            detection, Detection, "detection", "detection=Detection()"
        )
        self.synonyms: KeywordSynonyms | None = _synonyms(self.embedder, self.events)
        self.indexes: IndexCache = IndexCache()
        self.is_looked = False
        """Whether a first empty load has looked for facts in other places of the store."""
        self.aside: set[MemoryScope] = set()
        """The scopes of documents, which such a load does not name."""
        self.elsewhere = ""
        """The subjects and scopes that have facts, if none of the memory's has any."""
        self.defined: set[str] = set()
        """The keywords whose definitions were passed to the store."""


def _synonyms(embedder: Embedder | None, events: MemoryEvents) -> "KeywordSynonyms | None":
    if embedder is None:
        return None
    from factmem.detection._synonyms import KeywordSynonyms  # needless without an embedder

    return KeywordSynonyms(embedder, events)


def _checked_embedder(embedder: Embedder | str | None) -> Embedder | None:
    """Return an embedder or None. Its properties are not read, because they may load a model."""
    if embedder is None:
        return None
    if isinstance(embedder, str):
        from factmem.embedding._named import named_embedder  # most memories have none

        return named_embedder(embedder)
    expect_methods(embedder, ("embed",), "embedder", _EMBEDDER)
    lacking = [name for name in ("model", "dimensions") if not has_name(embedder, name)]
    if lacking:
        raise TypeError(
            f"embedder must have embed, model and dimensions; {kind_of(embedder)} has no "
            f"{' and '.join(lacking)}: {_EMBEDDER}"
        )
    return embedder


def _checked_listeners(listeners: Iterable[EventListener]) -> tuple[EventListener, ...]:
    """Return the listeners; a class is rejected, because calling it only creates an object."""
    example = "listeners=[print]"
    functions: tuple[Any, ...] = expect_all(listeners, object, "listeners", example)
    for listener in functions:
        expect_function(listener, "Each of listeners", example)
    return functions


class MemoryParts:
    """The store, models and settings of a memory or a view, for its methods.

    `provider` is restricted to the boundary of the view and reports its operations, `reader` reads
    from it, `selection` has the places of calls, and `events` reports what the provider does not:
    calls that are refused, detections and recalls.
    """

    def __init__(
        self, settings: MemorySettings, selection: PlaceSelection, boundary: Boundary | None
    ) -> None:
        self.settings: MemorySettings = settings
        self.selection: PlaceSelection = selection
        self.events: MemoryEvents = settings.events
        self.clock: TimeProvider = settings.clock
        self.provider: FactStore = view_of(settings.provider, boundary, settings.events)
        self.reader: FactReader = FactReader(self.provider, settings.concepts.values())
        self.workers: Workers = Workers()

    # These import half of the package, so they are created at first use: a program that only loads
    # facts does not need them.

    @cached_property
    def chat_model(self) -> ChatModel | None:
        model, events = self.settings.chat_model, self.events
        return model if model is None or not events.listeners else ObservedChatModel(model, events)

    def required_model(self) -> ChatModel:
        if self.chat_model is None:
            raise ValueError("Detecting facts needs a chat model: AgentMemory(..., chat_model=...)")
        return self.chat_model

    @cached_property
    def detector(self) -> "FactDetector":
        from factmem.detection._detector import FactDetector

        return FactDetector(self.provider, self.reader, self.settings.synonyms)

    @cached_property
    def search(self) -> "FactSearch":
        return self.searching(self.settings.indexes)

    @cached_property
    def turn_search(self) -> "TurnSearch":
        from factmem.recall._search import TurnSearch

        return TurnSearch(self.provider, self.settings.indexes, self.clock)

    def searching(self, indexes: IndexCache) -> "FactSearch":
        from factmem.recall._search import FactSearch

        return FactSearch(
            self.provider,
            self.reader,
            indexes,
            self.events,
            embedder=self.settings.embedder,
            clock=self.clock,
        )


class ObservedChatModel:
    def __init__(self, model: ChatModel, events: MemoryEvents) -> None:
        self._model = model
        self._events = events
        self.model: object = getattr(model, "model", None)
        """The name of the model, which facts record."""

    async def respond(
        self, messages: Sequence[Message], *, tools: Sequence[ToolDefinition] = ()
    ) -> ChatResponse:
        return await self._model.respond(messages, tools=tools)

    async def extract(self, messages: Sequence[Message], output_type: TypeForm[T]) -> Extraction[T]:
        async with self._events.operation(MemoryOperation.CHAT) as operation:
            extraction = await self._model.extract(messages, output_type)
            operation.spent(extraction.usage)
            operation.count = 1
            return extraction


async def store_definitions(parts: MemoryParts) -> None:
    """Pass the declared concepts to the store once; an event names those that differ.

    A failure of the store is only reported in the event, as no other call depends on it.
    """
    declared, defined = parts.settings.concepts, parts.settings.defined
    is_read_only = parts.selection.boundary.is_read_only
    if defined >= set(declared) or is_read_only or not is_complete(parts.provider):
        return
    defined.update(declared)
    with suppress(StorageError):
        async with parts.events.operation(MemoryOperation.DEFINE) as operation:
            await parts.provider.define(declared.values())
            if parts.events.listeners:
                found = await compared_definitions(parts)
                operation.count = len(found)
                operation.concepts = tuple(each.keyword for each in found if each.differs)


async def compared_definitions(parts: MemoryParts) -> list[ConceptDefinition]:
    """Return the definitions in the store, each with how the declared concept differs."""
    known = {each.keyword: each for each in await parts.provider.concepts()}
    return compared(known, parts.settings.concepts)


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
        from factmem.prompt._transcript import Transcript  # slow import

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
        from factmem.prompt._transcript import Transcript  # slow import

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
    transcript: "Transcript",
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
