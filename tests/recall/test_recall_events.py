"""A recall and each request to its embedder emit exactly one event."""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from factmem.errors import EmbeddingError, MissingExtraError, StorageError
from factmem.events import MemoryEvent, MemoryOperation, correlated
from factmem.providers.in_memory import InMemoryProvider
from factmem.recall import _semantic as meaning
from tests.doubles import TopicEmbedder
from tests.world import AGENT, ALICE, PRODUCT, bare_note, bare_notes, recall_memory

OP = MemoryOperation


@pytest.fixture
def events() -> list[MemoryEvent]:
    """Return the events so far."""
    return []


@pytest.fixture
async def store() -> InMemoryProvider:
    made = InMemoryProvider()
    await made.save(bare_note("pet", "a cat called Miso"), ALICE, AGENT)
    return made


def of(events: Sequence[MemoryEvent], *operations: MemoryOperation) -> list[MemoryEvent]:
    return [event for event in events if event.operation in operations]


async def test_each_request_to_the_embedder_is_an_event(
    store: InMemoryProvider, events: list[MemoryEvent]
) -> None:
    """The question comes first, then the facts; a cached vector needs no request."""
    memory = recall_memory(store, embedder=TopicEmbedder(), listeners=[events.append])

    with correlated("request-17"):
        await memory.recall("an animal")
    again = len(events)
    await memory.recall("an animal")

    question, facts = of(events, OP.EMBED)
    assert [(each.count, each.embedding_calls) for each in (question, facts)] == [(1, 1), (1, 1)]
    assert {place.scope for place in question.places} == {AGENT, PRODUCT}
    assert [place for place in facts.places if place.scope == AGENT]
    assert {each.correlation_id for each in events[:again]} == {"request-17"}
    assert all(each.milliseconds >= 0 and not each.is_failed for each in events)
    assert of(events[again:], OP.EMBED) == []
    first, second = of(events, OP.RECALL)
    assert (first.embedding_calls, second.embedding_calls) == (2, 0)


async def test_each_batch_is_an_event(
    events: list[MemoryEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier requests are reported as completed, and the broken one as failed."""
    monkeypatch.setattr(meaning, "_BATCH", 2)
    store = InMemoryProvider()
    await store.save(bare_notes("pets", "cat"), ALICE, AGENT)
    for number in range(4):
        await store.save(bare_note(f"pet-{number}", f"cat {number}"), ALICE, AGENT)

    embedder = TopicEmbedder()
    embedder.failure = lambda _: EmbeddingError("quota") if len(embedder.calls) == 3 else None
    memory = recall_memory(store, embedder=embedder, listeners=[events.append])
    result = await memory.recall("cat")

    assert [(each.count, each.error_type) for each in of(events, OP.EMBED)] == [
        (1, None),
        (2, None),
        (0, "EmbeddingError"),
    ]
    (recalled,) = of(events, OP.RECALL)
    assert (recalled.embedding_calls, result.embedding_calls) == (3, 3)


@pytest.mark.parametrize("vectors", [[], [[float("nan")] * 6]], ids=["none", "not a number"])
async def test_invalid_vectors_are_a_failure(
    store: InMemoryProvider, events: list[MemoryEvent], vectors: list[list[float]]
) -> None:
    """An answer that cannot be used is not a completed request."""

    class Wrong(TopicEmbedder):
        async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
            await super().embed(texts)
            return vectors

    await recall_memory(store, embedder=Wrong(), listeners=[events.append]).recall("cat")

    assert [each.error_type for each in of(events, OP.EMBED)] == ["EmbeddingError"]
    assert [each.error_type for each in of(events, OP.RECALL)] == [None]


async def test_a_failed_recall_is_one_failed_event(
    store: InMemoryProvider, events: list[MemoryEvent]
) -> None:
    """The cause is the store or a missing package; it has its cost."""

    class Failing(InMemoryProvider):
        async def version(self, *_: Any) -> str:
            raise StorageError("the disk refused")

    embedder = TopicEmbedder()
    embedder.failure = MissingExtraError("pip install")

    with pytest.raises(StorageError):
        await recall_memory(Failing(), listeners=[events.append]).recall("cat")
    with pytest.raises(MissingExtraError):
        await recall_memory(store, embedder=embedder, listeners=[events.append]).recall("cat")

    failed = [(each.error_type, each.embedding_calls) for each in of(events, OP.RECALL)]
    assert failed == [("StorageError", 0), ("MissingExtraError", 1)]
    assert [each.error_type for each in of(events, OP.EMBED)] == ["MissingExtraError"]


async def test_a_cancelled_recall_is_one_failed_event(
    store: InMemoryProvider, events: list[MemoryEvent]
) -> None:
    """So is the request that it waited for; async listeners get both, with the cost."""

    async def listen(event: MemoryEvent) -> None:
        await anyio.lowlevel.checkpoint()
        events.append(event)

    class Waiting(TopicEmbedder):
        async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
            given = await super().embed(texts)
            if "Miso" in texts[0]:
                scope.cancel()
                await anyio.sleep_forever()
            return given

    memory = recall_memory(store, embedder=Waiting(), listeners=[listen])
    with anyio.CancelScope() as scope:
        await memory.recall("cat")

    assert scope.cancelled_caught
    ended = of(events, OP.EMBED, OP.RECALL)
    assert [(each.operation, each.is_failed, each.embedding_calls) for each in ended] == [
        (OP.EMBED, False, 1),
        (OP.EMBED, True, 1),
        (OP.RECALL, True, 2),
    ]
