"""A slow or silent embedder: recall waits until its deadline."""

from collections.abc import Callable, Sequence

import anyio
import pytest

from factmem.errors import EmbeddingError
from factmem.memory.agent_memory import AgentMemory
from factmem.providers.in_memory import InMemoryProvider
from factmem.recall import _semantic as meaning
from factmem.recall.match import RecallResult
from tests.doubles import TopicEmbedder
from tests.world import AGENT, ALICE, PRODUCT, bare_note, found_values, recall_memory


class Time:
    """A test clock: all time limits expire when the test says so."""

    def __init__(self) -> None:
        self.scopes: list[anyio.CancelScope] = []
        self.limits: list[float] = []

    def move_on_after(self, seconds: float) -> anyio.CancelScope:
        self.limits.append(seconds)
        self.scopes.append(anyio.CancelScope())
        return self.scopes[-1]

    def is_up(self) -> None:
        for scope in self.scopes:
            scope.cancel()
        self.scopes.clear()


class Hanging(TopicEmbedder):
    """Never answers a request with one of these words, or with more texts than a limit."""

    def __init__(self, *words: str, most: int = 512) -> None:
        super().__init__()
        self.words = words
        self.most = most
        self.is_hanging = anyio.Event()

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        given = await super().embed(texts)
        if len(texts) > self.most or any(word in text for word in self.words for text in texts):
            self.is_hanging.set()
            await anyio.sleep_forever()
        return given


async def until(is_so: Callable[[], bool]) -> None:
    """Let other tasks and worker threads run until a condition holds."""
    with anyio.fail_after(60):
        while not is_so():
            await anyio.lowlevel.checkpoint()


def waiting(memory: AgentMemory) -> int:
    """Return the number of tasks that wait for one that embeds."""
    caches = memory._settings.indexes._places.values()
    return sum(cache.embedding.get().statistics().tasks_waiting for cache in caches)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(meaning, "move_on_after", made.move_on_after)
    return made


@pytest.fixture
async def store() -> InMemoryProvider:
    made = InMemoryProvider()
    await made.save(bare_note("pet", "a cat called Miso"), ALICE, AGENT)
    return made


@pytest.mark.parametrize("word", ["animal", "Miso"], ids=["question", "fact"])
async def test_a_recall_waits_until_its_deadline(
    store: InMemoryProvider, time: Time, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then it falls back to words, and the result reports what happened and what to do."""
    embedder = Hanging(word)
    monkeypatch.setattr("factmem.recall._semantic._SECONDS", 7.0)
    memory = recall_memory(store, embedder=embedder)
    results: list[RecallResult] = []

    async def recall() -> None:
        results.append(await memory.recall("the animal Miso"))

    async with anyio.create_task_group() as group:
        group.start_soon(recall)
        await embedder.is_hanging.wait()
        time.is_up()

    (result,) = results
    assert (found_values(result), result.is_semantic) == (["a cat called Miso"], False)
    (failure,) = result.failures
    assert isinstance(failure, EmbeddingError)
    assert "within 7 s" in str(failure)
    assert time.limits == [7]

    embedder.words = ()
    assert (await memory.recall("the animal Miso")).is_semantic


async def test_waiting_for_another_recall_ends_at_the_deadline_too(
    store: InMemoryProvider, time: Time
) -> None:
    """One recall embeds the place's texts and hangs; the other falls back to words as well."""
    embedder = Hanging("Miso")
    memory = recall_memory(store, embedder=embedder)
    results: list[RecallResult] = []

    async def recall(question: str) -> None:
        results.append(await memory.recall(question))

    async with anyio.create_task_group() as group:
        group.start_soon(recall, "a cat")
        await embedder.is_hanging.wait()
        first = time.scopes.pop()
        group.start_soon(recall, "which cat")
        await until(lambda: waiting(memory) == 1)
        time.is_up()
        await until(lambda: bool(results))
        assert not results[0].is_semantic
        first.cancel()

    assert [found_values(result) for result in results] == [["a cat called Miso"]] * 2
    assert [call for call in embedder.calls if "Miso" in call[0]] == [embedder.calls[1]]


async def test_a_hanging_place_does_not_delay_another(store: InMemoryProvider, time: Time) -> None:
    """Texts of the recall's other places are embedded in the meantime, and stored."""
    embedder = Hanging("Miso")
    await store.save(bare_note("desk", "espresso"), ALICE, PRODUCT)
    memory = recall_memory(store, embedder=embedder)

    async with anyio.create_task_group() as group:
        group.start_soon(memory.recall, "a cat")
        await embedder.is_hanging.wait()
        found = await memory.recall("something to drink", scopes=[PRODUCT])
        time.is_up()

    assert (found_values(found), found.is_semantic) == (["espresso"], True)
    assert len([text for text in embedder.texts if "espresso" in text]) == 1


async def test_a_batch_that_takes_too_long_is_halved(time: Time) -> None:
    """A slow machine then makes progress; what was embedded in time is stored."""
    store = InMemoryProvider()
    await store.save_many([bare_note(f"k{n}", f"dog {n}") for n in range(600)], ALICE, AGENT)
    embedder = Hanging(most=200)
    memory = recall_memory(store, embedder=embedder)

    is_semantic = False
    while not is_semantic:
        embedder.is_hanging = anyio.Event()
        async with anyio.create_task_group() as group:

            async def recall() -> None:
                nonlocal is_semantic
                is_semantic = (await memory.recall("dog")).is_semantic
                embedder.is_hanging.set()

            group.start_soon(recall)
            await embedder.is_hanging.wait()
            time.is_up()
        assert len(embedder.calls) < 30

    sizes = [len(call) for call in embedder.calls if call != ["dog"]]
    assert sizes == [512, 128, 256, 64, 128, 256, 64, 128, 88]


async def test_two_concurrent_recalls_embed_each_text_once(store: InMemoryProvider) -> None:
    """If one is cancelled while it waits, neither the other nor the work is affected."""
    embedder = TopicEmbedder()
    has_begun, may_end = anyio.Event(), anyio.Event()
    embed = embedder.embed

    async def slow(texts: Sequence[str]) -> Sequence[Sequence[float]]:
        given = await embed(texts)
        if "Miso" in texts[0]:
            has_begun.set()
            await may_end.wait()
        return given

    embedder.embed = slow  # type: ignore[method-assign]
    memory = recall_memory(store, embedder=embedder)
    results: list[RecallResult] = []

    async def recall(scope: anyio.CancelScope) -> None:
        with scope:
            results.append(await memory.recall("any animal?"))

    scopes = [anyio.CancelScope() for _ in range(3)]
    async with anyio.create_task_group() as group:
        group.start_soon(recall, scopes[0])
        await has_begun.wait()
        for scope in scopes[1:]:
            group.start_soon(recall, scope)
        await until(lambda: waiting(memory) == 2)
        scopes[1].cancel()
        await until(lambda: waiting(memory) == 1)
        may_end.set()

    assert [found_values(result) for result in results] == [["a cat called Miso"]] * 2
    assert all(result.is_semantic for result in results)
    assert len([text for text in embedder.texts if "Miso" in text]) == 1


async def test_another_recall_continues_after_a_cancelled_one(store: InMemoryProvider) -> None:
    """The request is lost, but the tasks that waited for it continue."""
    embedder = Hanging("Miso")
    memory = recall_memory(store, embedder=embedder)
    results: list[RecallResult] = []

    async def recall() -> None:
        results.append(await memory.recall("any animal?"))

    async with anyio.create_task_group() as group, anyio.create_task_group() as working:
        working.start_soon(recall)
        await embedder.is_hanging.wait()
        group.start_soon(recall)
        await until(lambda: waiting(memory) == 1)
        embedder.words = ()
        working.cancel_scope.cancel()

    assert [(found_values(result), result.is_semantic) for result in results] == [
        (["a cat called Miso"], True)
    ]
