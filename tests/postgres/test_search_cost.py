"""What a recall in the database costs: statements, threads and requests to the embedder."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from factmem import CallableEmbedder, MultipleFacts
from factmem._text import analysis
from factmem.providers._postgres.driver import Session
from factmem.providers._sql.stored_places import StoredPlaces
from factmem.recall import _store_search as store_search
from tests.postgres.conftest import NewStore
from tests.postgres.test_search import ANN, APP, FUSED, NOTES, USER, fill, memory_of, values_in


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the statements that are sent."""
    sent: list[str] = []
    rows = Session._rows

    def _rows(self: Session, query: str, *args: Any, **options: Any) -> Any:
        sent.append(query)
        return rows(self, query, *args, **options)

    monkeypatch.setattr(Session, "_rows", _rows)
    return sent


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Return an item for each time that a worker thread takes over."""
    begun: list[None] = []
    work = StoredPlaces.work

    async def _work(self: StoredPlaces, given: Any) -> Any:
        begun.append(None)
        return await work(self, given)

    monkeypatch.setattr(StoredPlaces, "work", _work)
    return begun


@pytest.mark.parametrize("embedder", [None, FUSED], ids=["words", "fused"])
async def test_a_warm_recall_takes_some_statements_and_two_threads(
    new_store: NewStore, statements: list[str], threads: list[None], embedder: Any
) -> None:
    """Four ask whether the index is current, the others find candidates and load them."""
    store = new_store(search_from=1)
    await fill(store, 30)
    memory = memory_of(store, embedder)
    await memory.recall("the first one makes the rows")
    del statements[:], threads[:]

    assert "number7" in str(values_in(await memory.recall("number7")))

    assert len(statements) <= (14 if embedder else 10)
    assert len(threads) <= 4


@pytest.mark.parametrize("embedder", [None, FUSED], ids=["words", "fused"])
async def test_a_question_with_thousands_of_words_is_answered(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch, embedder: Any
) -> None:
    """The server limits an expression's size; the event loop does not analyse the words."""
    store = new_store(search_from=1)
    words = [f"{number}st" for number in range(6000)]
    await store.save(MultipleFacts(NOTES, [" ".join(words[:300])]), ANN, APP)
    await fill(store, 30)
    memory = memory_of(store, embedder)
    used: list[threading.Thread] = []
    analyse = analysis.words

    def analysed(text: str) -> Any:
        used.append(threading.current_thread())
        return analyse(text)

    monkeypatch.setattr(store_search, "words", analysed)

    found = await memory.recall(" ".join(words))

    assert " 3st " in str(values_in(found))
    assert threading.main_thread() not in used
    assert used


async def test_a_recall_after_a_save_finds_it_by_meaning(new_store: NewStore) -> None:
    """The store names the places whose facts lack vectors, and is asked again."""
    store = new_store(search_from=1)
    await fill(store, 10)
    memory = memory_of(store, FUSED)
    await memory.recall("the first one makes the rows")
    await store.save(MultipleFacts(NOTES, ["kilimanjaro spices"]), ANN, APP)

    result = await memory.recall("kilimanjaro")

    assert result.is_semantic
    assert values_in(result)[0] == "kilimanjaro spices"
    assert result[0].semantic > 0
    assert result.embedded_texts == 2


async def test_a_search_in_the_store_asks_a_failing_embedder_once(new_store: NewStore) -> None:
    """The words of the question still find the fact."""
    store = new_store(search_from=1)
    await fill(store, 10)
    calls: list[int] = []

    def failing(texts: Sequence[str]) -> list[list[float]]:
        calls.append(len(texts))
        raise OSError("unreachable")

    memory = memory_of(store, CallableEmbedder(failing, model="down"))

    result = await memory.recall("What was number7?")

    assert "number7" in str(values_in(result))
    assert calls == [1]
    assert len(result.failures) == 1


async def test_a_recall_in_memory_asks_about_all_places_together(
    new_store: NewStore, statements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight places take as many statements as one: two for the facts, one for the messages."""
    monkeypatch.setattr("factmem.recall._search._FAR", 0.0)
    store = new_store()
    people = [USER.of(f"person{number}") for number in range(8)]
    for person in people:
        await fill(store, 3, person)
    memory = memory_of(store, None, *people)
    await memory.recall("number1")
    del statements[:]

    assert len(await memory.recall("number1", limit=20)) >= 8

    assert len(statements) == 3
