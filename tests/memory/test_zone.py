"""Days and words such as "tomorrow" are those of the application's time zone."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from factmem import AgentMemory, InMemoryProvider, MultipleFacts
from factmem.models import Concept, FactType, SingleFact, When
from factmem.prompt import MessageForm
from factmem.testing.chat import ScriptedChatModel
from factmem.testing.clock import SettableClock
from tests.world import AGENT, ALICE, PROFILE, item

NIGHT = datetime(2026, 11, 24, 16, 30, tzinfo=UTC)
"""Half past one in Seoul, on the 25th."""

CITY = Concept("city", "The city where the user lives")
VISITS = Concept("visits", "The places that the user visited", FactType.MULTIPLE)


def memory_in_seoul(store: InMemoryProvider, clock: SettableClock, *answers: Any) -> AgentMemory:
    return AgentMemory(
        store,
        chat_model=ScriptedChatModel(*answers) if answers else None,
        scopes=PROFILE,
        subjects=[ALICE],
        message_form=MessageForm(zone="Asia/Seoul"),
        clock=clock,
    )


async def called(memory: AgentMemory, name: str, **given: Any) -> Any:
    tools = {each.name: each for each in memory.tools(save=True)}
    answer = await tools[f"memory_{name}"].call(given)
    return answer if answer.startswith("Error") else json.loads(answer)


async def test_tomorrow_is_that_of_the_user() -> None:
    found = item(quote="I move to Busan tomorrow", value="Busan", since="2026-11-26")
    store = InMemoryProvider(clock=(clock := SettableClock(NIGHT)))
    report = await memory_in_seoul(store, clock, {"facts": [found]}).remember(found["quote"])

    [placed] = report.saved
    assert placed.fact.since == When("2026-11-26[Asia/Seoul]")


async def test_messages_with_times_in_utc_are_read_in_the_zone() -> None:
    """Logs, exports and stored conversations say when it was, not where the user was."""
    found = item(quote="I move to Busan tomorrow", value="Busan", since="2026-11-26")
    message = {"role": "user", "content": found["quote"]}
    store = InMemoryProvider(clock=(clock := SettableClock(NIGHT)))
    memory = memory_in_seoul(store, clock, {"facts": [found]}, {"facts": [found]})

    stamped = {**message, "timestamp": "2026-11-24T16:30:00Z"}
    [placed] = (await memory.auto_detect_facts([stamped], dry_run=True)).saved
    assert placed.fact.since == When("2026-11-26[Asia/Seoul]")

    chat = memory.conversation("chat", learn_after=timedelta(seconds=1))
    await chat.append(message, said_at=NIGHT)
    clock.advance()
    [report] = (await memory.conversations.learn()).reports
    assert report.saved[0].fact.since == When("2026-11-26[Asia/Seoul]")


async def test_yesterday_in_a_question_is_that_of_the_user() -> None:
    store = InMemoryProvider(clock=(clock := SettableClock(NIGHT)))
    for day, place in ((22, "Jeju"), (23, "Busan")):
        said = datetime(2026, 11, day, 18, tzinfo=UTC)
        await store.save(MultipleFacts(VISITS, [place], timestamp=said), ALICE, AGENT)
    found = await memory_in_seoul(store, clock).recall("Which places did she visit yesterday?")

    assert {each.fact.values[0]: each.support > 0 for each in found} == {
        "Busan": True,
        "Jeju": False,
    }


async def test_answers_of_tools_have_the_days_of_the_prompt() -> None:
    store = InMemoryProvider(clock=(clock := SettableClock(NIGHT)))
    memory = memory_in_seoul(store, clock)
    await store.save(SingleFact(CITY, "Busan", since=NIGHT, timestamp=NIGHT), ALICE, AGENT)
    await memory.conversation("chat").append({"role": "user", "content": "Busan is my city"})

    answer = await called(memory, "recall", query="city")
    assert [(row["said"], row["since"]) for row in answer["facts"]] == [("2026-11-25",) * 2]
    assert [each["said"] for each in answer["quotes"]] == ["2026-11-25"]
    assert "2026-11-25, since 2026-11-25" in await memory.text()


async def test_a_model_saves_what_begins_later() -> None:
    """It is no current value before, and the days are those of the user."""
    store = InMemoryProvider(clock=(clock := SettableClock(NIGHT)))
    memory = memory_in_seoul(store, clock)
    await called(memory, "save", concept="city", value="Seoul", about="Where the user lives")
    await called(memory, "save", concept="city", value="Busan", since="2026-12", until="2027")

    assert [fact.value for fact in await memory.current(CITY)] == ["Seoul"]
    [row] = (await called(memory, "recall", query="city", valid_at="2026-12-24"))["facts"]
    assert (row["values"], row["since"], row["until"]) == (["Busan"], "2026-12", "2027")
    clock.now = datetime(2026, 11, 30, 15, tzinfo=UTC)  # midnight in Seoul
    assert [fact.value for fact in await memory.current(CITY)] == ["Busan"]


async def test_a_time_that_a_model_misspells_saves_nothing() -> None:
    store = InMemoryProvider(clock=(clock := SettableClock(NIGHT)))
    memory = memory_in_seoul(store, clock)
    for given in ({"since": "tomorrow"}, {"until": 7}, {"since": "2027", "until": "2026"}):
        answer = await called(memory, "save", concept="city", value="Busan", **given)
        assert answer.startswith("Error: nothing was")
        assert "since" in answer or "until" in answer
    assert await memory.current() == []
