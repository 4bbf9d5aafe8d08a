"""The event of a recall has its cost, also after an exception."""

import json
from collections.abc import Sequence

import anyio
import pytest

from factmem.errors import MissingExtraError, StorageError
from factmem.events import MemoryEvent, MemoryOperation
from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from tests.doubles import TopicEmbedder
from tests.world import AGENT, ALICE, bare_note, recall_memory

PLAN = {"queries": ["animal"], "subjects": [], "since": None, "until": None}


class Leaving(TopicEmbedder):
    """Fails if it gets a fact, or cancels the caller."""

    def __init__(self, leave: anyio.CancelScope | Exception) -> None:
        super().__init__()
        self.leave = leave

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        given = await super().embed(texts)
        if any("Miso" in text for text in texts):
            if isinstance(self.leave, Exception):
                raise self.leave
            self.leave.cancel()
            await anyio.lowlevel.checkpoint()
        return given


class Breaking(InMemoryProvider):
    """A store that cannot be read after a model call."""

    model: ScriptedChatModel | None = None

    async def version(self, subject: MemorySubject, scope: MemoryScope) -> str:
        if self.model is not None and self.model.calls:
            raise StorageError("gone")
        return await super().version(subject, scope)


@pytest.fixture
async def store() -> Breaking:
    made = Breaking()
    await made.save(bare_note("pet", "a cat called Miso"), ALICE, AGENT)
    return made


def _told(events: list[MemoryEvent], operation: MemoryOperation) -> list[MemoryEvent]:
    return [each for each in events if each.operation is operation]


async def test_a_cancelled_recall_reports_its_calls_of_the_embedder(store: Breaking) -> None:
    events: list[MemoryEvent] = []
    with anyio.CancelScope() as scope:
        embedder = Leaving(scope)
        await recall_memory(store, embedder=embedder, listeners=[events.append]).recall(
            "any animal?"
        )

    assert scope.cancelled_caught
    (told,) = _told(events, MemoryOperation.RECALL)
    assert told.is_failed
    assert told.embedding_calls == len(_told(events, MemoryOperation.EMBED)) == 2


async def test_a_failed_recall_reports_its_calls_of_the_embedder(store: Breaking) -> None:
    events: list[MemoryEvent] = []
    embedder = Leaving(MissingExtraError("pip install it"))
    memory = recall_memory(store, embedder=embedder, listeners=[events.append])

    with pytest.raises(MissingExtraError):
        await memory.recall("any animal?")

    (told,) = _told(events, MemoryOperation.RECALL)
    assert (told.error_type, told.embedding_calls) == ("MissingExtraError", 2)


async def test_a_failed_recall_reports_its_calls_of_the_chat_model(store: Breaking) -> None:
    events: list[MemoryEvent] = []
    store.model = model = ScriptedChatModel(json.dumps(PLAN))
    memory = recall_memory(store, chat_model=model, listeners=[events.append])

    with pytest.raises(StorageError):
        await memory.recall("any animal?", depth="deep")

    (told,) = _told(events, MemoryOperation.RECALL)
    assert (told.error_type, told.llm_calls) == ("StorageError", 1)


async def test_the_cost_of_a_recall_is_reported_once(store: Breaking) -> None:
    events: list[MemoryEvent] = []
    model, embedder = ScriptedChatModel(json.dumps(PLAN)), TopicEmbedder()
    memory = recall_memory(store, chat_model=model, embedder=embedder, listeners=[events.append])

    result = await memory.recall("any animal?", depth="deep")

    (told,) = _told(events, MemoryOperation.RECALL)
    assert (told.llm_calls, told.embedding_calls) == (result.usage.calls, result.embedding_calls)
    assert (told.llm_calls, told.embedding_calls) == (1, 2)
