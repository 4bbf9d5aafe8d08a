"""An embedder that changes its model, exits, or is cancelled from outside during a request."""

import threading
from collections.abc import Callable, Sequence

import anyio
import pytest

from factmem.errors import EmbeddingError
from factmem.providers.in_memory import InMemoryProvider
from factmem.recall._place_vectors import PlaceVectors
from tests.doubles import TopicEmbedder
from tests.world import AGENT, ALICE, bare_note, found_values, recall_memory

NEW, OLD = b"n" * 16, b"o" * 16


class Turning(TopicEmbedder):
    """Switches to a model whose vectors have the same length."""

    is_turned = False

    def turn(self) -> None:
        self.is_turned, self.model = True, "topics, backwards"

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        given = await super().embed(texts)
        return [[*reversed(vector)] for vector in given] if self.is_turned else given


def failing(error: BaseException) -> TopicEmbedder:
    """Return an embedder that raises an error if it gets a fact."""
    embedder = TopicEmbedder()
    embedder.failure = lambda texts: error if any("Miso" in text for text in texts) else None
    return embedder


@pytest.fixture
async def store() -> InMemoryProvider:
    made = InMemoryProvider()
    await made.save(bare_note("pet", "a cat called Miso"), ALICE, AGENT)
    await made.save(bare_note("desk", "espresso"), ALICE, AGENT)
    return made


async def test_a_changed_model_embeds_questions_again(store: InMemoryProvider) -> None:
    """Vectors of two models cannot be compared, even if they have the same length."""
    embedder = Turning()
    memory = recall_memory(store, embedder=embedder)
    assert found_values(await memory.recall("any animal?")) == ["a cat called Miso"]

    embedder.turn()
    result = await memory.recall("any animal?")

    assert (found_values(result), result.embedded_texts) == (["a cat called Miso"], 3)
    assert (await memory.recall("any animal?")).embedded_texts == 0


async def test_a_model_that_changes_during_a_request_is_reported(store: InMemoryProvider) -> None:
    """Nothing is stored under the name of a model that may not have made it."""
    embedder = Turning()
    memory = recall_memory(store, embedder=embedder)
    embed = embedder.embed

    async def turned(texts: Sequence[str]) -> Sequence[Sequence[float]]:
        if "any animal?" not in texts:
            embedder.turn()
        return await embed(texts)

    embedder.embed = turned  # type: ignore[method-assign]
    result = await memory.recall("any animal?")

    assert not result.is_semantic
    assert ["another model" in str(failure) for failure in result.failures] == [True]
    assert await store.read_index(ALICE, AGENT) is None
    assert found_values(await memory.recall("any animal?")) == ["a cat called Miso"]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
async def test_an_exit_stays_unchanged(store: InMemoryProvider, error: BaseException) -> None:
    """In a group of exceptions an exit code would be lost."""
    with pytest.raises(type(error)) as caught:
        await recall_memory(store, embedder=failing(error)).recall("any animal?")

    assert caught.value is error


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_request_cancelled_from_outside_is_reported(store: InMemoryProvider) -> None:
    """A client may share one request among callers, the first of whom was cancelled."""
    memory = recall_memory(store, embedder=failing(anyio.get_cancelled_exc_class()()))

    result = await memory.recall("any animal?")

    assert not result.is_semantic
    (failure,) = result.failures
    assert isinstance(failure, EmbeddingError)
    assert "was cancelled from outside" in str(failure)


def _vectors(*digests: bytes) -> PlaceVectors:
    vectors = PlaceVectors()
    vectors.use("m", 2)
    vectors.add({each: [1.0, 0.0] for each in digests})
    return vectors


def test_a_place_is_complete_only_with_all_of_its_vectors() -> None:
    """Another event loop with an older state may have removed the new ones in the meantime."""
    vectors = _vectors(OLD, NEW)
    vectors.keep({OLD}, 1)

    vectors.keep({OLD, NEW}, 2)
    assert not vectors.are_whole(2, "m", 2)

    vectors.add({NEW: [0.0, 1.0]})
    vectors.keep({OLD, NEW}, 2)
    assert vectors.are_whole(2, "m", 2)


def test_an_index_ignores_texts_added_while_it_is_written() -> None:
    """Such a text may have been purged, which another event loop does not know yet."""

    class Lock:
        """Lets another thread add a text each time it is released."""

        def __init__(self) -> None:
            self._inner = threading.RLock()
            self._depth = 0

        def __enter__(self) -> None:
            self._inner.acquire()
            self._depth += 1

        def __exit__(self, *_: object) -> None:
            self._depth -= 1
            is_free = not self._depth
            self._inner.release()
            if is_free and not vectors.is_adding:
                vectors.is_adding = True
                vectors.add({OLD: [0.0, 1.0]})
                vectors.is_adding = False

    class Vectors(PlaceVectors):
        is_adding = False

    vectors = Vectors()
    vectors.use("m", 2)
    vectors.add({NEW: [1.0, 0.0]})
    vectors._lock = Lock()  # type: ignore[assignment]

    settled = vectors.settle({NEW}, 1)

    assert settled is not None
    index, new = settled
    assert (OLD in index, set(new)) == (False, {NEW})
    assert OLD not in vectors.missing({OLD})


@pytest.mark.parametrize(
    "ask",
    [
        lambda vectors: vectors.are_whole(0, "m", 2),
        lambda vectors: vectors.is_unsaved,
        lambda vectors: not vectors.refused,
    ],
    ids=["whole", "unsaved", "refused"],
)
def test_an_event_loop_does_not_wait_for_a_comparison(ask: Callable[[PlaceVectors], bool]) -> None:
    """A hundred thousand vectors are compared or written under a lock."""
    vectors, may_end = _vectors(NEW), threading.Event()
    is_held, is_told = threading.Event(), threading.Event()

    def hold() -> None:
        with vectors._lock:
            is_held.set()
            may_end.wait(60)

    def tell() -> None:
        if ask(vectors):
            is_told.set()

    threads = [threading.Thread(target=each, daemon=True) for each in (hold, tell)]
    threads[0].start()
    assert is_held.wait(60)
    threads[1].start()
    try:
        assert is_told.wait(60)
    finally:
        may_end.set()
        for each in threads:
            each.join(60)
