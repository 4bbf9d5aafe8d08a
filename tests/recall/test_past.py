"""Questions about other times find what held then."""

from datetime import UTC, datetime
from typing import Any

import pytest

from factmem.models.facts import Concept, FactType, MultipleFacts, SingleFact
from factmem.models.places import MemoryScope, MemorySubject
from factmem.models.recall_filter import RecallFilter
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.clock import SettableClock
from tests.doubles import BareProvider, TopicEmbedder
from tests.world import AGENT, ALICE, BOB, NOW, PRODUCT, LocalStore, found_values, recall_memory

CITY = Concept("city", "The city in which the user lives")
GYM = Concept("gyms", "Gyms of the user", FactType.MULTIPLE)


async def say(
    store: LocalStore,
    concept: Concept[Any, Any],
    value: str,
    subject: MemorySubject = ALICE,
    scope: MemoryScope = AGENT,
    **times: Any,
) -> None:
    times = {"timestamp": NOW, **times}
    if concept.fact_type is FactType.MULTIPLE:
        await store.save(MultipleFacts(concept, [value], **times), subject, scope)
    else:
        await store.save(SingleFact(concept, value, **times), subject, scope)


async def moved_twice(store: LocalStore) -> None:
    await say(store, CITY, "Busan", since="2019", timestamp=datetime(2019, 2, 1, tzinfo=UTC))
    await say(store, CITY, "Hamburg", since="2022", timestamp=datetime(2022, 2, 1, tzinfo=UTC))
    await say(store, CITY, "York", since="2024", timestamp=datetime(2024, 2, 1, tzinfo=UTC))
    await say(store, GYM, "the gym Iron Harbour", since="2020", until="2021")
    await say(store, GYM, "the gym Alsterfit", since="2022", until="2023")
    await say(store, GYM, "the gym York Lifts", since="2024-02")


@pytest.mark.parametrize("embedder", [None, TopicEmbedder()])
async def test_a_question_about_the_past_finds_what_held_then(
    store: LocalStore, embedder: TopicEmbedder | None
) -> None:
    """The time is named, or the fact that held then; values that were replaced have their end."""
    await moved_twice(store)
    memory = recall_memory(store, embedder=embedder)

    async def first(question: str) -> Any:
        return (await memory.recall(question))[0]

    assert (await first("In which city did I live in 2020?")).fact.values == ("Busan",)
    assert (await first("Which gym did I use in 2022?")).fact.values == ("the gym Alsterfit",)
    matches = await memory.recall("When I lived in Busan, which gym did I use?")
    [gym] = [each for each in matches[:5] if each.fact.values == ("the gym Iron Harbour",)]
    assert gym.text == 'Gyms of the user: "the gym Iron Harbour", since 2020, until 2021'
    city = (await first("Which city did I live in in 2023?")).fact
    assert (city.values, str(city.since), city.until.begin.year) == (("Hamburg",), "2022", 2024)


async def test_other_questions_find_only_what_is_current(store: LocalStore) -> None:
    await moved_twice(store)
    memory = recall_memory(store)

    for question in ("Which gym do I use?", "Which gym do I use today?"):
        assert found_values(await memory.recall(question))[0] == "the gym York Lifts"
    assert found_values(await memory.recall("Which city?")) == ["York"]
    assert "the gym Alsterfit" not in found_values(await memory.recall("Which gym in 2020?"))


async def test_other_questions_read_nothing_more(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await moved_twice(store)
    memory, asked = recall_memory(store), list[object]()
    await memory.recall("warm")
    load_all = type(store).load_all

    async def counted(self: Any, *args: Any, **given: Any) -> Any:
        asked.append(given.get("valid_at"))
        return await load_all(self, *args, **given)

    monkeypatch.setattr(type(store), "load_all", counted)
    await memory.recall("Which gym do I use?")
    assert asked == []
    long = " ".join(f"Which gym did I use in {year}?" for year in range(2000, 2020))
    await memory.recall_facts_to_agent([{"role": "user", "content": long}])
    assert 0 < len(asked) <= 4


async def test_a_user_whose_facts_have_all_ended_is_answered(store: LocalStore) -> None:
    await say(store, GYM, "the gym Iron Harbour", since="2020", until="2021")
    memory = recall_memory(store)
    assert found_values(await memory.recall("Which gym in 2020?")) == ["the gym Iron Harbour"]
    assert await memory.recall("Which gym?") == []


async def test_a_plan_is_found_by_a_question_about_the_future(store: LocalStore) -> None:
    await say(store, CITY, "York")
    await say(store, CITY, "Jeju", since="2027-03")
    found = await recall_memory(store).recall("In which city do I live in 2027?")
    assert set(found_values(found)) == {"York", "Jeju"}


async def test_what_was_forgotten_or_belongs_to_others_is_not_found(store: LocalStore) -> None:
    await say(store, GYM, "the gym Iron Harbour", since="2020", until="2021")
    await say(store, GYM, "the gym of Bob", BOB, since="2020", until="2021")
    await say(store, GYM, "the gym of all", scope=PRODUCT, since="2020", until="2021")
    await say(store, GYM, "the gym by mistake", since="2020")
    await store.forget(ALICE, AGENT, concept=GYM, value="the gym by mistake")
    memory = recall_memory(store)

    found = await memory.recall("Which gym did I use in 2020?", scopes=[AGENT])
    assert found_values(found) == ["the gym Iron Harbour"]
    found = await memory.recall("Which gym did I use in 2020?")
    assert set(found_values(found)) == {"the gym Iron Harbour", "the gym of all"}
    where = RecallFilter(concepts=["city"])
    assert await memory.recall("Which gym did I use in 2020?", where=where) == []


async def test_a_filter_asks_what_held_then(store: LocalStore) -> None:
    """Typed as the concept, and without a time in the question."""
    await moved_twice(store)
    memory = recall_memory(store, concepts=[CITY])

    async def found(when: Any) -> list[Any]:
        return found_values(await memory.recall("city", where=RecallFilter(valid_at=when)))

    assert await found("2020-06") == ["Busan"]
    assert await found("2022-06-01") == ["Hamburg"]
    assert await found(NOW) == ["York"]
    assert await found("2018") == []
    with pytest.raises(ValueError, match="A time must be"):
        RecallFilter(valid_at="June")


async def test_the_prompt_shows_when_it_held(store: LocalStore) -> None:
    await moved_twice(store)
    messages = [{"role": "user", "content": "Which city did I live in in 2020?"}]
    report = await recall_memory(store).recall_facts_to_agent(messages)
    assert "Busan" in report.text
    assert "since 2019, until 2022-01-01" in report.text


async def test_a_provider_that_knows_no_times_is_searched_as_before() -> None:
    inner = InMemoryProvider(clock=SettableClock(NOW))
    await say(inner, GYM, "the gym York Lifts")

    found = await recall_memory(BareProvider(inner)).recall("Which gym did I use in 2020?")
    assert found_values(found) == ["the gym York Lifts"]
