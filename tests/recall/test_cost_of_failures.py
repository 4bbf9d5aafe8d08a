"""The event of a recall has its cost, also after an exception."""

from collections.abc import Sequence

import anyio
import pytest

from factmem.errors import MissingExtraError
from factmem.events import MemoryEvent, MemoryOperation
from factmem.providers.in_memory import InMemoryProvider
from tests.doubles import TopicEmbedder
from tests.world import AGENT, ALICE, bare_note, recall_memory


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


@pytest.fixture
async def store() -> InMemoryProvider:
    made = InMemoryProvider()
    await made.save(bare_note("pet", "a cat called Miso"), ALICE, AGENT)
    return made


def _told(events: list[MemoryEvent], operation: MemoryOperation) -> list[MemoryEvent]:
    return [each for each in events if each.operation is operation]


async def test_a_cancelled_recall_reports_its_calls_of_the_embedder(
    store: InMemoryProvider,
) -> None:
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


async def test_a_failed_recall_reports_its_calls_of_the_embedder(store: InMemoryProvider) -> None:
    events: list[MemoryEvent] = []
    embedder = Leaving(MissingExtraError("pip install it"))
    memory = recall_memory(store, embedder=embedder, listeners=[events.append])

    with pytest.raises(MissingExtraError):
        await memory.recall("any animal?")

    (told,) = _told(events, MemoryOperation.RECALL)
    assert (told.error_type, told.embedding_calls) == ("MissingExtraError", 2)
