"""A text that the embedder refuses does not affect others; other failures are not bisected."""

from collections.abc import Callable, Sequence
from math import nan
from pathlib import Path

import pytest

from factmem.errors import EmbeddingError
from factmem.providers.local_file import LocalFileMemoryProvider
from tests.doubles import TopicEmbedder
from tests.world import AGENT, ALICE, LocalStore, bare_note, found_values, recall_memory


class Refusing(TopicEmbedder):
    """Raises an error if a text contains one of these words."""

    def __init__(self, *words: str, error: Callable[[], Exception]) -> None:
        super().__init__()
        self.words = words
        self.error = error

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        given = await super().embed(texts)
        if any(word in text for word in self.words for text in texts):
            raise self.error()
        return given

    async def embed_queries(self, queries: Sequence[str]) -> Sequence[Sequence[float]]:
        return await super().embed(queries)


class BadRequestError(Exception):
    """An error with a status, like those of client packages."""

    status_code = 400


def caused() -> EmbeddingError:
    error = EmbeddingError("the function raised")
    error.__cause__ = ValueError("too long")
    return error


REFUSALS: dict[str, Callable[[], Exception]] = {
    "bad request": lambda: EmbeddingError("refused", status=400),
    "too large": lambda: EmbeddingError("refused", status=413),
    "unprocessable": lambda: EmbeddingError("refused", status=422),
    "a function's ValueError": caused,
    "a class's ValueError": lambda: ValueError("content filter"),
    "a package's error": BadRequestError,
    "a server's crash": lambda: EmbeddingError("crashed", status=500),
    "a model's crash": lambda: RuntimeError("sizes differ"),
    "a table that is too short": lambda: IndexError("index out of range"),
}


async def filled(store: LocalStore, count: int, *refused: str) -> None:
    facts = [bare_note(f"k{n}", f"dog {n}") for n in range(count)]
    facts[count // 3 : count // 3] = [bare_note(word, f"{word} kitten") for word in refused]
    await store.save_many(facts, ALICE, AGENT)


@pytest.mark.parametrize("error", REFUSALS.values(), ids=REFUSALS)
async def test_one_refused_text_affects_no_other(
    store: LocalStore, error: Callable[[], Exception]
) -> None:
    """The others are compared by meaning; it is found by its words and not sent again."""
    embedder = Refusing("poison", error=error)
    await filled(store, 400 if error is REFUSALS["bad request"] else 60, "poison")
    memory = recall_memory(store, embedder=embedder)

    first = await memory.recall("any pet?")
    assert (first.is_semantic, first.refused_texts, len(first.failures)) == (True, 1, 1)
    assert first.embedding_calls <= 2 + 1 + 20
    assert all("dog" in value for value in found_values(first))

    second = await memory.recall("the poison")
    assert (second.is_semantic, second.refused_texts, second.failures) == (True, 1, [])
    assert (second.embedding_calls, second.embedded_texts) == (1, 1)
    assert found_values(second)[0] == "poison kitten"


async def test_a_new_fact_beside_a_refused_one_is_sent_alone(store: LocalStore) -> None:
    """A changed text is a new one, which may be accepted."""
    embedder = Refusing("poison", error=REFUSALS["bad request"])
    await filled(store, 3, "poison")
    memory = recall_memory(store, embedder=embedder)
    await memory.recall("any pet?")
    embedder.calls.clear()

    await store.save(bare_note("new", "kitten"), ALICE, AGENT)
    result = await memory.recall("any pet?")
    assert [len(call) for call in embedder.calls] == [1]
    assert result.refused_texts == 1

    await store.forget(ALICE, AGENT, concept=bare_note("poison", "").concept)
    assert (await memory.recall("any pet?")).refused_texts == 0


async def test_the_search_for_refused_texts_has_a_budget(store: LocalStore) -> None:
    """A recall stops there, falls back to words and reports it; the next one continues."""
    words = [f"poison{n}" for n in range(24)]
    embedder = Refusing("poison", error=REFUSALS["bad request"])
    await filled(store, 90, *words)
    memory = recall_memory(store, embedder=embedder)

    results = [await memory.recall("any pet?")]
    assert (results[0].is_semantic, len(results[0].failures)) == (False, 1)
    while not results[-1].is_semantic:
        results.append(await memory.recall("any pet?"))
        assert len(results) < 6

    assert max(result.embedding_calls for result in results) <= 2 + 32
    assert results[-1].refused_texts == 24
    assert (await memory.recall("any pet?")).embedding_calls == 0


async def test_a_temporary_failure_refuses_no_text(store: LocalStore) -> None:
    """A server fails once: the new text is sent again before it counts as refused."""

    embedder, crash = TopicEmbedder(), EmbeddingError("crashed", status=500)
    embedder.failure = lambda _: crash if len(embedder.calls) == 2 else None
    await filled(store, 1)

    result = await recall_memory(store, embedder=embedder).recall("any pet?")

    assert (result.is_semantic, result.refused_texts, result.failures) == (True, 0, [])
    assert [len(call) for call in embedder.calls] == [1, 1, 1, 1]


@pytest.mark.parametrize("status", [None, 401, 404, 408, 429, 502, 503])
async def test_other_failures_are_not_bisected(store: LocalStore, status: int | None) -> None:
    """A quota, a timeout, a failing server: one request for the facts, then words."""
    embedder = Refusing("dog", error=lambda: EmbeddingError("no", status=status))
    await filled(store, 20)
    memory = recall_memory(store, embedder=embedder)

    for question in ("any pet?", "which animal?"):
        result = await memory.recall(question)
        assert (result.is_semantic, result.refused_texts) == (False, 0)
        assert result.embedding_calls == 2


async def test_an_embedder_that_refuses_everything_gets_one_more_request(store: LocalStore) -> None:
    """It has a harmless string, which shows that the facts are not the cause."""
    embedder = Refusing("", error=REFUSALS["bad request"])
    await filled(store, 20)
    memory = recall_memory(store, embedder=embedder)

    for question in ("any pet?", "which animal?"):
        result = await memory.recall(question)
        assert (result.is_semantic, result.refused_texts) == (False, 0)
        assert result.embedding_calls == 3


async def test_a_request_that_is_too_large_refuses_no_text(store: LocalStore) -> None:
    """Its halves are accepted, so nothing is reported."""

    embedder, refusal = TopicEmbedder(), EmbeddingError("too much at once", status=413)
    embedder.failure = lambda texts: refusal if len(texts) > 10 else None
    await filled(store, 30)
    memory = recall_memory(store, embedder=embedder)

    result = await memory.recall("any pet?")

    assert (result.is_semantic, result.refused_texts, result.failures) == (True, 0, [])
    assert [len(call) for call in embedder.calls] == [1, 30, 1, 15, 7, 8, 15, 7, 8]


async def test_the_next_process_sends_only_the_refused_text(tmp_path: Path) -> None:
    """The others have vectors in the index; another model may accept what this one refuses."""
    async with LocalFileMemoryProvider(tmp_path) as store:
        await filled(store, 20, "poison")
        first = recall_memory(store, embedder=Refusing("poison", error=REFUSALS["bad request"]))
        assert (await first.recall("any pet?")).refused_texts == 1

    async with LocalFileMemoryProvider(tmp_path) as store:
        embedder = Refusing("poison", error=REFUSALS["bad request"])
        result = await recall_memory(store, embedder=embedder).recall("any pet?")
        assert (result.is_semantic, result.refused_texts) == (True, 1)
        assert [len(call) for call in embedder.calls] == [1, 1, 1]

        taking = recall_memory(store, embedder=TopicEmbedder(model="another"))
        assert (await taking.recall("any pet?")).refused_texts == 0


class NotANumber(TopicEmbedder):
    """Returns NaN for texts with one of these words, as half-precision models sometimes do."""

    def __init__(self, word: str) -> None:
        super().__init__()
        self.word = word

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        given = await super().embed(texts)
        return [
            [nan] * len(vector) if self.word in text else vector
            for text, vector in zip(texts, given, strict=True)
        ]

    async def embed_queries(self, queries: Sequence[str]) -> Sequence[Sequence[float]]:
        return await super().embed(queries)


async def test_a_text_whose_vector_is_not_a_number_costs_only_itself(store: LocalStore) -> None:
    """Else one text would have words answer alone, for good."""
    embedder = NotANumber("poison")
    await filled(store, 20, "poison")
    memory = recall_memory(store, embedder=embedder)

    result = await memory.recall("any pet?")

    assert (result.is_semantic, result.refused_texts, len(result.failures)) == (True, 1, 1)
    assert all("dog" in value for value in found_values(result))
    assert (await memory.recall("the poison")).embedded_texts == 1
