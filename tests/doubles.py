"""Models, embedders and stores that stand in for real ones."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio.lowlevel
from anyio.lowlevel import checkpoint
from typing_extensions import TypeForm, TypeVar

from factmem.errors import StorageError
from factmem.llm.base import ChatResponse, Extraction, Message, ToolDefinition
from factmem.llm.extraction import extract_by_asking
from factmem.models.facts import AnyFact, Concept
from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.provider import AgentMemoryProvider
from factmem.testing.chat import ScriptedChatModel

T = TypeVar("T")
L = TypeVar("L", bound="AnyFact")
Responding = Callable[[Sequence[Message], Sequence[ToolDefinition]], Awaitable[ChatResponse]]
TOPICS = [
    {"cat", "dog", "pet", "animal", "miso", "kitten"},
    {"car", "bicycle", "drives", "rides", "vehicle", "commute"},
    {"tea", "coffee", "drink", "espresso", "beverage"},
    {"flat", "house", "lives", "city", "home", "busan", "seoul"},
    {"python", "kotlin", "programming", "language", "code", "rust"},
]


class FunctionModel:
    """A chat model that calls a function, also for `extract`."""

    def __init__(self, responding: Responding) -> None:
        self._responding = responding

    async def respond(
        self, messages: Sequence[Message], *, tools: Sequence[ToolDefinition] = ()
    ) -> ChatResponse:
        await checkpoint()
        return await self._responding(messages, tools)

    async def extract(self, messages: Sequence[Message], output_type: TypeForm[T]) -> Extraction[T]:
        return await extract_by_asking(self.respond, messages, output_type)


class MeanwhileModel(ScriptedChatModel):
    """A model during whose request for values something else happens."""

    def __init__(self, meanwhile: Callable[[], Awaitable[object]], *answers: object) -> None:
        super().__init__(*answers)
        self._meanwhile = meanwhile

    async def extract(self, messages: Sequence[Message], output_type: TypeForm[T]) -> Extraction[T]:
        await self._meanwhile()
        return await super().extract(messages, output_type)


class TopicEmbedder:
    """Counts the words of each topic in a text, and records its requests."""

    def __init__(self, model: str = "topics", dimensions: int = len(TOPICS) + 1) -> None:
        self.model = model
        self.dimensions: int | None = dimensions
        self.calls: list[list[str]] = []
        self.failure: BaseException | Callable[[Sequence[str]], BaseException | None] | None = None
        """Raised after a request is recorded, if it is not None for the texts."""

    @property
    def texts(self) -> list[str]:
        """All texts that were embedded, in their order."""
        return [text for call in self.calls for text in call]

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        self.calls.append(list(texts))
        failure = self.failure(texts) if callable(self.failure) else self.failure
        if failure is not None:
            raise failure
        assert self.dimensions is not None
        return [self._vector(text, self.dimensions) for text in texts]

    @staticmethod
    def _vector(text: str, dimensions: int) -> list[float]:
        words = "".join(char if char.isalnum() else " " for char in text.lower()).split()
        counts = [float(sum(word in topic for word in words)) for topic in TOPICS]
        return [*counts, 0.1, *[0.0] * dimensions][:dimensions]


class BreakableProvider(InMemoryProvider):
    """A store that fails while `is_broken` is set."""

    is_broken = False

    def _check(self) -> None:
        if self.is_broken:
            raise StorageError("The disk refused")

    async def save(self, *args: Any, **options: Any) -> None:
        self._check()
        await super().save(*args, **options)

    async def load(self, *args: Any, **options: Any) -> Any:
        self._check()
        return await super().load(*args, **options)

    async def load_all(self, *args: Any, **options: Any) -> Any:
        self._check()
        return await super().load_all(*args, **options)

    async def places(self, **options: Any) -> Any:
        self._check()
        return await super().places(**options)

    async def version(self, *args: Any) -> Any:
        self._check()
        return await super().version(*args)


class BareProvider:
    """Has only the four methods that every provider needs."""

    def __init__(self, store: AgentMemoryProvider | None = None) -> None:
        self.store: AgentMemoryProvider = store or InMemoryProvider()

    async def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        await self.store.save(fact, subject, scope)

    async def load(
        self, concept: Concept[Any, L], subject: MemorySubject, scope: MemoryScope
    ) -> list[L]:
        return await self.store.load(concept, subject, scope)

    async def load_all(self, subject: MemorySubject, scope: MemoryScope) -> list[AnyFact]:
        return await self.store.load_all(subject, scope)

    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> list[AnyFact]:
        return await self.store.load_by_description(description, subject, scope)


class FailingProvider(BareProvider):
    """Fails in one scope; reads of the other places wait and must be cancelled."""

    def __init__(self, scope: MemoryScope) -> None:
        super().__init__()
        self.scope = scope
        self.finished = 0

    async def load_all(self, subject: MemorySubject, scope: MemoryScope) -> list[AnyFact]:
        await anyio.lowlevel.checkpoint()
        if scope == self.scope:
            try:
                raise OSError(28, "No space left on device")
            except OSError as exc:
                raise StorageError("The disk refused") from exc
        await anyio.sleep_forever()
        self.finished += 1
        return []
