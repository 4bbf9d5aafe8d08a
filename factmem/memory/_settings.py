"""MemorySettings: the validated arguments of AgentMemory."""

from collections.abc import Iterable, Sequence
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Any

from factmem._arguments import (
    expect,
    expect_all,
    expect_function,
    expect_methods,
    has_name,
    kind_of,
)
from factmem.detection.request import Detection
from factmem.embedding.base import Embedder
from factmem.events import EventListener, MemoryEvents
from factmem.llm.base import ChatModel
from factmem.models._checked import concepts_by_keyword
from factmem.models.clock import TimeProvider
from factmem.models.facts import Concept
from factmem.models.places import MemorySubject
from factmem.models.profile import Concepts
from factmem.prompt.memory_message import MemoryMessage
from factmem.prompt.message_form import MessageForm
from factmem.providers.base import AgentMemoryProvider
from factmem.recall._index_cache import IndexCache
from factmem.recall.query import RecallSettings

if TYPE_CHECKING:
    from factmem.detection._synonyms import KeywordSynonyms

_PROVIDER_METHODS = ("save", "load", "load_all", "load_by_description")
_PROVIDER = "AgentMemory(LocalFileMemoryProvider(path)) or AgentMemory(InMemoryProvider())"
_CHAT_MODEL = "chat_model=OpenAIChatModel(name), or OpenAIChatModel(name, client=client)"
_FORM = "message_form=MessageForm(max_tokens=500)"
_EMBEDDER = "embedder='ollama:nomic-embed-text', OpenAIEmbedder(name), or CallableEmbedder(function, model='my-model-v1')"


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
        self.clock: TimeProvider = _in_zone(
            expect_function(clock, "clock", "clock=lambda: datetime.now(UTC)"), self.zone
        )
        example = "recall_settings=RecallSettings(half_life=timedelta(days=90))"
        self.recall: RecallSettings = expect(
            recall_settings, RecallSettings, "recall_settings", example
        )
        self.detection: Detection = expect(
            detection, Detection, "detection", "detection=Detection()"
        )
        self.synonyms: KeywordSynonyms | None = _synonyms(self.embedder, self.events)
        self.indexes: IndexCache = IndexCache()
        self.told: set[str] = set()
        """The keywords whose concepts the store was told."""


def _in_zone(clock: TimeProvider, zone: tzinfo) -> TimeProvider:
    return clock if zone is UTC else lambda: clock().astimezone(zone)


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
