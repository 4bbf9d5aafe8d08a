"""What the tests of recall share: people, places, facts, and an embedder that knows a few topics."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import (
    Concept,
    FactType,
    MultipleFacts,
    SingleFact,
)
from factmem.models.places import MemoryScope, MemorySubject
from factmem.models.scopes import MemoryScopesProfile
from factmem.providers.base import AgentMemoryProvider
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.local_file import LocalFileMemoryProvider

NOW = datetime(2026, 11, 1, tzinfo=UTC)

USER = MemorySubject("user", "The person who talks to the agent", 1, per_entity=True)
COMPANY = MemorySubject("company", "The company that the user works for", 3)
ALICE, BOB = USER.of("alice"), USER.of("bob")

AGENT = MemoryScope.Agent("support-bot")
PRODUCT = MemoryScope.Product("my-app")
PROFILE = MemoryScopesProfile(agent="support-bot", product="my-app")

Store = InMemoryProvider | LocalFileMemoryProvider

TOPICS = [
    {"cat", "dog", "pet", "animal", "miso", "kitten"},
    {"car", "bicycle", "drives", "rides", "vehicle", "commute"},
    {"tea", "coffee", "drink", "espresso", "beverage"},
    {"flat", "house", "lives", "city", "home", "busan", "seoul"},
    {"python", "kotlin", "programming", "language", "code", "rust"},
]


def note(keyword: str, value: Any, **fields: Any) -> SingleFact[Any]:
    """A fact whose description says nothing; said long ago."""
    concept: Concept[Any] = Concept(keyword, "", value_type=type(value))
    return SingleFact(concept, value, **{"timestamp": NOW - timedelta(days=400), **fields})


def notes(keyword: str, *values: Any, **fields: Any) -> MultipleFacts[Any]:
    concept: Any = Concept(keyword, "", FactType.MULTIPLE, value_type=type(values[0]))
    return MultipleFacts(concept, values, **{"timestamp": NOW - timedelta(days=400), **fields})


class TopicEmbedder:
    """Counts the words of each topic in a text; keeps what it was asked."""

    def __init__(self, model: str = "topics", dimensions: int = len(TOPICS) + 1) -> None:
        self.model = model
        self.dimensions: int | None = dimensions
        self.calls: list[list[str]] = []
        self.failure: Exception | None = None

    @property
    def texts(self) -> list[str]:
        """All texts that were embedded, in their order."""
        return [text for call in self.calls for text in call]

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        self.calls.append(list(texts))
        if self.failure is not None:
            raise self.failure
        assert self.dimensions is not None
        return [self._vector(text, self.dimensions) for text in texts]

    @staticmethod
    def _vector(text: str, dimensions: int) -> list[float]:
        words = "".join(char if char.isalnum() else " " for char in text.lower()).split()
        counts = [float(sum(word in topic for word in words)) for topic in TOPICS]
        return [*counts, 0.1, *[0.0] * dimensions][:dimensions]


def memory_of(provider: AgentMemoryProvider, **options: Any) -> AgentMemory:
    given = {"scopes": PROFILE, "subjects": [ALICE], "clock": lambda: NOW, **options}
    return AgentMemory(provider, **given)


def values(result: Any) -> list[Any]:
    """What was found, best first."""
    return [value for match in result for value in match.fact.values]
