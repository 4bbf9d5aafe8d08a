"""Recall: the returned facts, the hidden ones, and changes of the store."""

import threading
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import anyio
import pytest

from factmem.errors import EmbeddingError
from factmem.events import MemoryEvent, MemoryOperation
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import Concept, FactSource, SourceKind
from factmem.models.places import MemoryScopeType
from factmem.models.recall_filter import RecallFilter
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.no_memory import NoMemory
from factmem.recall import _semantic as meaning
from factmem.recall.match import RecallSettings, RecallWeights
from factmem.testing.clock import SettableClock
from tests.doubles import BareProvider, TopicEmbedder
from tests.world import (
    AGENT,
    ALICE,
    BOB,
    COMPANY,
    NOW,
    PRODUCT,
    LocalStore,
    bare_note,
    bare_notes,
    found_values,
    recall_memory,
)

PET = Concept("pet", "")
AGES = Concept("ages", "Ages of the children", value_type=list[int])


async def test_the_relevant_fact_is_returned(store: LocalStore) -> None:
    """It has its place and its score; unrelated facts are not returned."""
    await store.save(bare_note("pet", "a cat called Miso"), ALICE, AGENT)
    await store.save(bare_note("allergy", "hazelnuts"), ALICE, PRODUCT)

    result = await recall_memory(store).recall("What is the name of the cat?")

    (match,) = result
    assert match.fact.values == ("a cat called Miso",)
    assert (match.place.scope, match.place.subject) == (AGENT, ALICE)
    assert 0 < match.relevance <= 1
    assert (result.is_semantic, result.failures) == (False, [])
    assert await recall_memory(store).recall("How about kumquats?") == []


async def test_outdated_facts_are_never_returned(store: LocalStore, clock: SettableClock) -> None:
    """They are replaced, forgotten, expired or overridden; with vectors and without."""
    soon = clock.now + timedelta(hours=1)
    await store.save(bare_note("pet", "a dog called Rex"), ALICE, AGENT)
    await store.save(bare_note("pet", "a cat called Miso"), ALICE, AGENT)
    await store.save(bare_notes("drinks", "tea with Rex", "coffee"), ALICE, AGENT)
    await store.forget(ALICE, AGENT, concept=Concept("drinks", ""), value="tea with Rex")
    await store.save(bare_note("visit", "Rex comes along", expires_at=soon), ALICE, AGENT)
    await store.save(bare_note("pet", "company dog Rex"), COMPANY, PRODUCT)
    embedder = TopicEmbedder()
    memories = [
        recall_memory(store, subjects=[ALICE, COMPANY], embedder=e) for e in (None, embedder)
    ]

    async def found(memory: AgentMemory) -> list[Any]:
        return [v for v in found_values(await memory.recall("Rex")) if "Rex" in v]

    assert [await found(memory) for memory in memories] == [["Rex comes along"]] * 2
    clock.now = soon
    assert [await found(memory) for memory in memories] == [[], []]
    assert await found(recall_memory(store, subjects=[COMPANY])) == ["company dog Rex"]


async def test_a_recall_sees_every_earlier_save(store: LocalStore) -> None:
    """The change may come from this instance of the memory or another one."""
    memories = [recall_memory(store), recall_memory(store, embedder=TopicEmbedder())]

    async def found() -> list[list[Any]]:
        return [found_values(await memory.recall("a cat as a pet")) for memory in memories]

    assert await found() == [[], []]
    await store.save(bare_note("pet", "cat"), ALICE, AGENT)
    assert await found() == [["cat"], ["cat"]]
    await store.save(bare_note("pet", "big cat"), ALICE, AGENT)
    assert await found() == [["big cat"], ["big cat"]]
    await store.forget(ALICE, AGENT, concept=PET)
    assert await found() == [[], []]
    await store.save_many(
        [bare_note("pet", "third cat"), bare_note("nothing", "else")], ALICE, PRODUCT
    )
    assert await found() == [["third cat"], ["third cat", "else"]]
    await store.erase(ALICE, PRODUCT)
    assert await found() == [[], []]


async def test_a_confirmation_makes_a_fact_recent(store: LocalStore, clock: SettableClock) -> None:
    """Its importance is that of the last save."""
    memory = recall_memory(store, clock=clock)
    await store.save(bare_note("pet", "cat"), ALICE, AGENT)
    clock.advance(timedelta(days=60))
    (before,) = await memory.recall("cat")

    await store.save(bare_note("pet", "cat", importance=1.0), ALICE, AGENT)
    (after,) = await memory.recall("cat")

    assert before.recency == pytest.approx(0.25, abs=0.001)
    assert after.recency == pytest.approx(1.0, abs=0.001)
    assert (before.importance, after.importance) == (0.5, 1.0)


async def test_unchanged_places_are_not_read_again(store: LocalStore) -> None:
    """Events show the reads: each place once, then the changed one."""
    events: list[MemoryEvent] = []
    memory = recall_memory(store, listeners=[events.append])
    for scope in (AGENT, PRODUCT):
        await store.save(bare_note("pet", "cat"), ALICE, scope)

    def read() -> list[MemoryScopeType]:
        loads = [event for event in events if event.operation is MemoryOperation.LOAD]
        events.clear()
        return [place.scope.type for event in loads for place in event.places]

    await memory.recall("cat")
    assert sorted(read()) == ["agent", "product"]
    await memory.recall("dog")
    assert read() == []
    await store.save(bare_note("other", "thing"), ALICE, PRODUCT)
    await memory.recall("cat")
    assert read() == ["product"]


async def test_values_of_any_type_are_found(store: LocalStore) -> None:
    """The words of their JSON match; declared types are returned as such."""
    ages = Concept("ages", "Ages of the children", value_type=list[int])
    fact: Any = bare_note("ages", "x")
    typed = type(fact)(ages, [7, 11], timestamp=NOW)
    await store.save(typed, ALICE, AGENT)
    await store.save(bare_note("house", {"rooms": 4, "colour": "teal"}), ALICE, AGENT)

    assert found_values(await recall_memory(store).recall("colour of the house")) == [
        {"rooms": 4, "colour": "teal"}
    ]
    assert found_values(
        await recall_memory(store, concepts=[AGES]).recall("ages of the children")
    ) == [[7, 11]]
    assert found_values(await recall_memory(store).recall("who is 11 of the children")) == [[7, 11]]


async def test_a_value_of_a_wrong_type_is_left_out_and_reported(store: LocalStore) -> None:
    """It hides no other fact, and stays stored."""
    await store.save_many(
        [bare_note("ages", "seven"), bare_note("pet", "a cat aged seven")], ALICE, AGENT
    )
    await store.save(bare_note("ages", "seven again"), COMPANY, AGENT)
    memory = recall_memory(store, concepts=[AGES], subjects=[ALICE, COMPANY])

    result = await memory.recall("seven")

    assert found_values(result) == ["a cat aged seven"]
    told = [(each.keyword, each.place.subject) for each in result.unreadable]
    assert ("ages", ALICE) in told
    nothing = await recall_memory(store, concepts=[AGES], subjects=[COMPANY]).recall("seven")
    assert (list(nothing), len(nothing.unreadable)) == ([], 1)


async def test_quotes_and_days_are_found_too(store: LocalStore) -> None:
    """A user may ask for what was said, and when."""
    source = FactSource(SourceKind.USER, quote="I grew up near the lighthouse")
    said = datetime.fromisoformat("2023-05-17T10:00:00+00:00")
    await store.save(bare_note("home", "Pohang", source=source, timestamp=said), ALICE, AGENT)

    for question in ("the lighthouse", "what was said in May 2023?", "2023년 5월"):
        assert found_values(await recall_memory(store).recall(question)) == ["Pohang"]


async def test_a_call_can_narrow_places_and_facts(store: LocalStore) -> None:
    """It filters by subject, scope, concept and time, and never widens the memory."""
    early, late = NOW - timedelta(days=20), NOW - timedelta(days=2)
    await store.save(bare_note("pet", "a cat since long", timestamp=early), ALICE, AGENT)
    await store.save(bare_note("film", "about a cat", timestamp=late), ALICE, PRODUCT)
    await store.save(bare_note("pet", "the cat of Bob"), BOB, AGENT)
    memory = recall_memory(store)
    between = NOW - timedelta(days=10)

    async def found(**narrow: Any) -> set[Any]:
        return set(found_values(await memory.recall("a cat", **narrow)))

    assert await found() == {"a cat since long", "about a cat"}
    assert await found(scopes=[PRODUCT]) == {"about a cat"}
    assert await found(subjects=[BOB]) == {"the cat of Bob"}
    assert await found(where=RecallFilter(concepts=[PET])) == {"a cat since long"}
    assert await found(where=RecallFilter(concepts=["film", "none"])) == {"about a cat"}
    assert await found(where=RecallFilter(concepts=[])) == set()
    assert await found(where=RecallFilter(since=between)) == {"about a cat"}
    assert await found(where=RecallFilter(until=between)) == {"a cat since long"}
    assert await found(where=RecallFilter(since=early, until=late)) == {"a cat since long"}
    assert await found(where=RecallFilter(since=late)) == {"about a cat"}
    assert await found(where=RecallFilter(until=late)) == {"a cat since long"}
    assert await found(limit=1) < {"a cat since long", "about a cat"}
    assert await found(subjects=[]) == set()


async def test_a_view_of_a_users_own_backend(store: LocalStore) -> None:
    """Four methods are enough: it is read each time, and nothing outdated returns."""
    bare = BareProvider(store)
    for memory in (recall_memory(bare), recall_memory(bare).view(subjects=[ALICE])):
        await store.save(bare_note("pet", "cat"), ALICE, AGENT)
        assert found_values(await memory.recall("a pet")) == ["cat"]
        assert found_values(await memory.recall("a pet")) == ["cat"]
        await store.save(bare_note("pet", "dog"), ALICE, AGENT)
        assert found_values(await memory.recall("a pet")) == ["dog"]
        await store.erase(ALICE, AGENT)
        assert await memory.recall("a pet") == []


async def test_without_a_memory_nothing_is_found() -> None:
    """Nothing is embedded either."""
    embedder = TopicEmbedder()

    assert await recall_memory(NoMemory(), embedder=embedder).recall("cat") == []
    assert await recall_memory(InMemoryProvider(), embedder=embedder).recall("cat") == []
    nowhere = recall_memory(InMemoryProvider(), embedder=embedder).view(scopes=[])
    assert await nowhere.recall("cat") == []
    assert embedder.calls == []


async def test_a_memory_has_its_own_weights(store: LocalStore) -> None:
    """By default words and meaning decide."""
    await store.save(bare_note("pet", "cat cat cat", importance=0.0), ALICE, AGENT)
    await store.save(bare_note("film", "about a cat and more", importance=1.0), ALICE, AGENT)
    important = RecallWeights(importance=100)
    loose = RecallSettings(weights=important, half_life=timedelta(days=1))

    usual = await recall_memory(store).recall("cat")
    of_memory = await recall_memory(store, recall_settings=loose).recall("cat")

    assert found_values(usual)[0] == "cat cat cat"
    assert found_values(of_memory)[0] == "about a cat and more"


async def test_with_a_failing_embedder_words_are_searched(
    store: LocalStore, caplog: pytest.LogCaptureFixture
) -> None:
    """The result and the log report it, without the words of the question."""
    await store.save(bare_note("pet", "a cat called Miso"), ALICE, AGENT)
    embedder = TopicEmbedder()
    embedder.failure = EmbeddingError("the quota is used up: 4711")
    memory = recall_memory(store, embedder=embedder)

    result = await memory.recall("Miso the cat")

    assert found_values(result) == ["a cat called Miso"]
    assert not result.is_semantic
    assert result.failures == [embedder.failure]
    assert "EmbeddingError" in caplog.text
    assert "Miso" not in caplog.text
    assert "4711" not in caplog.text
    embedder.failure = None
    assert (await memory.recall("Miso the cat")).is_semantic


async def test_many_concurrent_tasks(store: LocalStore) -> None:
    """While others save: each finds what was saved before it asked, and every text is embedded
    once.
    """
    embedder = TopicEmbedder()
    memory = recall_memory(store, embedder=embedder)

    async def save_and_ask(number: int) -> None:
        await store.save(bare_notes("pets", f"cat{number}"), ALICE, AGENT)
        result = await memory.recall(f"cat{number}", limit=99)
        assert f"cat{number}" in found_values(result)

    async with anyio.create_task_group() as tasks:
        for number in range(12):
            tasks.start_soon(save_and_ask, number)

    assert len(embedder.texts) == len(set(embedder.texts)) == 24


async def test_a_cancelled_recall_does_not_affect_the_next_one(store: LocalStore) -> None:
    """It may be cancelled anywhere; nothing stays locked."""
    await store.save(bare_note("pet", "cat"), ALICE, AGENT)
    memory = recall_memory(store, embedder=TopicEmbedder())
    for delay in range(12):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(memory.recall, f"cat {delay}"))
            for _ in range(delay):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()

    with anyio.fail_after(60):
        assert found_values(await memory.recall("cat")) == ["cat"]


@pytest.mark.parametrize("embeds", [False, True])
def test_threads_with_loops_of_their_own(embeds: bool) -> None:
    """One memory serves all of them, on both kinds of event loop."""
    store = InMemoryProvider()
    memory = recall_memory(store, embedder=TopicEmbedder() if embeds else None)
    failures: list[BaseException] = []

    async def work(name: str) -> None:
        for number in range(8):
            await store.save(bare_notes("pets", f"cat{name}x{number}"), ALICE, AGENT)
            result = await memory.recall(f"cat{name}x{number}", limit=99)
            assert f"cat{name}x{number}" in found_values(result)

    def run(name: str, backend: str) -> None:
        try:
            anyio.run(work, name, backend=backend)
        except BaseException as exc:
            failures.append(exc)

    kinds = ["asyncio", "trio"] * 2
    threads = [threading.Thread(target=run, args=(str(n), kind)) for n, kind in enumerate(kinds)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []


async def test_a_repeated_question_makes_no_request(store: LocalStore) -> None:
    """Each view embeds its own questions, also one of the same places."""
    await store.save(bare_note("pet", "cat"), ALICE, AGENT)
    memory = recall_memory(store, embedder=TopicEmbedder())
    one, another = memory.view(subjects=[ALICE]), memory.view(subjects=[ALICE])
    calls: list[int] = []

    for asked in (memory, memory, one, one, another, another):
        result = await asked.recall("any animal?")
        assert result.is_semantic
        calls.append(result.embedding_calls)

    assert calls == [2, 0, 1, 0, 1, 0]  # the first view also had the fact embedded


async def test_only_the_last_questions_are_cached(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The least recently used ones are removed."""
    monkeypatch.setattr(meaning, "_MOST_QUESTIONS", 2)
    await store.save(bare_note("pet", "cat"), ALICE, AGENT)
    memory = recall_memory(store, embedder=TopicEmbedder())

    costs = [(await memory.recall(question)).embedding_calls for question in "abcbca"]

    assert costs == [2, 1, 1, 0, 0, 1]
