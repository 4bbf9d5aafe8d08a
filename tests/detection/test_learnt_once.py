"""A statement is learnt once: whoever reads its chat again, and whatever has become of it."""

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from benchmarks.detection.rereading import chats, others_kept, saved_again
from factmem.detection._reconciliation import Said
from factmem.detection.report import DetectionReport
from factmem.llm.base import ChatModel
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import Concept, FactType
from factmem.providers.store import FactStore
from factmem.testing.chat import ScriptedChatModel
from factmem.testing.clock import SettableClock
from tests.tables import table
from tests.world import AGENT, ALICE, KINDS, PROFILE, assistant, item, memory_of, store_of, user

CITY = Concept("city", "The city where the user lives")
LIKES = Concept("likes", "What the user likes", FactType.MULTIPLE)
CITIES = ["Busan", "Lyon", "Oslo", "Quito"]
DRINKS = ["mint tea", "cocoa", "kefir", "cider"]


SOON = timedelta(microseconds=1)


async def learn_due(memory: AgentMemory) -> None:
    """Learn what is queued."""
    with anyio.fail_after(60):
        while (await memory.conversations.pending()).pending:
            await memory.conversations.learn()


def chat_of(random_: random.Random) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return a chat, and the items of an honest answer about it."""
    messages: list[dict[str, Any]] = []
    items: list[dict[str, Any]] = []
    for city, drink in zip(random_.sample(CITIES, 3), random_.sample(DRINKS, 3), strict=True):
        is_city = random_.random() < 0.5
        text = f"I moved to {city}." if is_city else f"I love {drink}."
        given = (
            {"keyword": "city", "value": city} if is_city else {"keyword": "likes", "value": drink}
        )
        kind = "SINGLE" if is_city else "MULTIPLE"
        items.append(item(message=len(messages), quote=text[:-1], fact_type=kind, **given))
        messages += [user(text), assistant("Noted.")]
    return messages, items


class Story:
    """One user, one chat, and everything that happens to what was learnt from it."""

    def __init__(self, store: FactStore, seed: int) -> None:
        self.store, self.random, self.clock = store, random.Random(seed), SettableClock()
        self.messages, self.items = chat_of(self.random)

    def memory(self) -> AgentMemory:
        """Return a new memory, as another process would make it."""
        model: ChatModel = ScriptedChatModel(*[{"facts": self.items}] * 3)
        return AgentMemory(
            self.store, chat_model=model, scopes=PROFILE, subjects=[ALICE], concepts=[CITY, LIKES]
        )

    async def learn_all(self) -> None:
        """Learn the whole chat for the first time."""
        await self.memory().auto_detect_facts(self.messages, conversation="c")

    async def learn(self) -> None:
        """Learn the chat by one of four ways."""
        way = self.random.randrange(4)
        memory = self.memory()
        if way == 0:
            await memory.auto_detect_facts(self.messages, conversation="c")
        elif way == 1:
            start = self.random.randrange(len(self.messages))  # a host that shows the end only
            await memory.auto_detect_facts(self.messages[start:], conversation="c")
        elif way == 2:
            moment = self.clock()
            timed = [{**each, "timestamp": moment.isoformat()} for each in self.messages]
            await memory.auto_detect_facts(timed, conversation="c")
        else:
            chat = memory.conversation("c", learn_after=SOON)
            ids = [str(number) for number, _ in enumerate(self.messages)]
            await chat.append(*self.messages, ids=ids)
            await learn_due(memory)

    async def change(self) -> None:
        """Forget, purge or correct something, as a person or the application does."""
        memory, facts = self.memory(), await self.memory().current()
        kind = self.random.randrange(4)
        if facts and kind == 0:
            fact = self.random.choice(facts)
            await memory.contents.forget(concept=fact.concept, value=fact.values[0])
        elif facts and kind == 1:
            fact = self.random.choice(facts)
            await memory.contents.forget(concept=fact.concept, value=fact.values[0], purge=True)
        elif kind == 2:
            await memory.save(CITY, self.random.choice([*CITIES, "Rome"]))
        elif facts:
            await memory.contents.forget(concept=self.random.choice(facts).concept)

    async def held(self) -> list[tuple[str, Any]]:
        """Return the current values."""
        facts = await self.memory().current()
        return sorted((each.concept.keyword, value) for each in facts for value in each.values)


async def run(store: FactStore, seed: int) -> None:
    """Run one random history, and check that learning again changes nothing."""
    story = Story(store, seed)
    await story.learn_all()
    for _ in range(4):
        if story.random.random() < 0.6:
            await story.change()
        before, entries = await story.held(), await store.entries(ALICE, AGENT)
        await story.learn()
        assert await story.held() == before, seed
        assert await store.entries(ALICE, AGENT) == entries, seed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
async def test_learning_again_changes_nothing(
    kind: str, seed: int, tmp_path: Path, thorough: bool
) -> None:
    """With or without times, by any way, after a forgetting, a purge or a correction."""
    for number in range(85 if thorough else 5):
        await run(store_of(kind, tmp_path / f"{number}"), 100 * seed + number)


SECOND = [
    ("the same words", "I moved to Busan", "city", "Busan"),
    ("a shorter quote", "moved to Busan", "city", "Busan"),
    ("a longer value", "I moved to Busan", "city", "moved to Busan"),
    ("another keyword", "I moved to Busan", "residence", "Busan"),
    ("an inexact quote", "I've moved to Busan", "city", "Busan"),
]


async def twice(second: dict[str, Any], conversation: str | None) -> tuple[DetectionReport, Any]:
    """Learn a chat, and again as a model words it the second time."""
    first = item(quote="I moved to Busan", keyword="city", value="Busan")
    model = ScriptedChatModel({"facts": [first]}, {"facts": [second]})
    memory = memory_of(model=model, concepts=[CITY])
    chat = [user("I moved to Busan.")]
    await memory.auto_detect_facts(chat, conversation=conversation)
    report = await memory.auto_detect_facts(chat, conversation=conversation)
    return report, [each.values for each in await memory.current()]


@table(("name", "quote", "keyword", "value"), SECOND, ids=[name for name, *_ in SECOND])
async def test_other_words_for_it_are_a_confirmation(
    name: str, quote: str, keyword: str, value: str
) -> None:
    """Models word a chat anew each time; also where the chat has no name."""
    for conversation in ("monday", None):
        second = item(quote=quote, keyword=keyword, value=value)
        report, current = await twice(second, conversation)

        assert name
        assert (report.saved, report.rejected) == ([], [])
        assert current == [("Busan",)]


@pytest.mark.storm
async def test_a_chat_read_twice_in_other_words_is_saved_once() -> None:
    """By two readings of twenty chats in eight languages."""
    total, added = await saved_again()

    assert len(chats()) == 20
    assert (total["first"], total["second"]) == (90, 91)
    assert total["saved"] >= 0.95 * total["first"]
    assert len(added) <= 0.05 * total["second"], added


@pytest.mark.storm
async def test_different_statements_of_one_message_are_all_kept() -> None:
    pairs, merged = await others_kept()

    assert pairs >= 120
    assert len(merged) <= 0.03 * pairs, merged


TWO = [
    ("husband", "Karl, a teacher", "spouse", "Karl teaches"),
    ("daughter", "Lina, seven", "children", "has a daughter Lina"),
    ("commute", "6:40 train every day", "routine", "takes the 6:40 train"),
    ("smoking", "quit in 2019", "habit", "quit smoking in 2019"),
    ("job", "杭州一家医院的护士", "occupation", "护士，在杭州的医院"),  # noqa: RUF001 - full width
    ("pets", "猫のミケ", "cat", "ミケという猫を飼っている"),
    ("hobbies", "играет на гитаре", "music", "Играет на гитаре по вечерам"),
    ("employer", "삼성SDI", "company", "삼성SDI에서 일함"),
    ("diet", "sin lactosa", "dietary-restriction", "No toma lactosa"),
    ("car", "alter Fiat Panda", "vehicle", "Fiat Panda, bald zum TÜV"),
]
OTHER = [
    ("city", "Hamburg", "employer", "Airbus"),
    ("languages", "English", "hobby", "chess"),
    ("husband", "Karl", "age", "41"),
    ("pets", "고양이 나비", "city", "대전"),
    ("job", "护士", "city", "杭州"),
    ("budget", "12,000 euros", "deadline", "Christmas"),
]


@table(("keyword", "value", "other", "its_value"), TWO + OTHER)
def test_values_in_other_words_are_one_statement(
    keyword: str, value: str, other: str, its_value: str
) -> None:
    is_one = (keyword, value, other, its_value) in TWO
    quote = "What both readings quote from the message"
    one, two = Said(keyword, value, quote), Said(other, its_value, quote[:30])
    elsewhere = Said(other, its_value, "Another part of it")

    assert one.is_reworded(two) is two.is_reworded(one) is is_one
    assert not one.is_reworded(elsewhere)


async def test_what_was_purged_does_not_return_under_another_keyword() -> None:
    """Its value is not known any more, but the id of the fact has a digest of it."""
    first = item(quote="I moved to Busan", keyword="city", value="Busan")
    second = {"facts": [{**first, "keyword": "residence"}]}
    model = ScriptedChatModel({"facts": [first]}, second)
    memory = memory_of(model=model, concepts=[CITY])
    await memory.auto_detect_facts([user("I moved to Busan.")], conversation="c")
    await memory.contents.forget(concept=CITY, purge=True)
    await memory.auto_detect_facts([user("I moved to Busan.")], conversation="c")

    assert await memory.current() == []


MORE = [
    ("I like tea and cake", "likes", "tea", "cake"),
    ("I speak German and Thai", "languages", "German", "Thai"),
    ("I run 5 km on Mondays and 10 km on Sundays", "sport", "runs 5 km", "runs 10 km"),
    ("저는 커피와 녹차를 좋아해요", "likes", "커피", "녹차"),
    ("Mia is 7 and Tom is 9", "children", "Mia, 7", "Tom, 9"),
]


@table(("said", "keyword", "value", "other"), MORE)
async def test_a_second_reading_adds_what_the_first_one_missed(
    said: str, keyword: str, value: str, other: str
) -> None:
    """Also where both quote the whole message; what was forgotten stays so."""
    items = [
        item(quote=said, keyword=keyword, value=each, fact_type="MULTIPLE")
        for each in (value, other)
    ]
    answers = [{"facts": [items[0]]}, {"facts": items}]
    memory = memory_of(model=ScriptedChatModel(*answers, {"facts": items}))
    await memory.auto_detect_facts([user(said)], conversation="c")
    await memory.auto_detect_facts([user(said)], conversation="c")
    assert sorted(each.values[0] for each in await memory.current()) == sorted([value, other])

    for fact in await memory.current():
        await memory.contents.forget(concept=fact.concept)
    await memory.auto_detect_facts([user(said)], conversation="c")
    assert await memory.current() == []


async def test_a_later_message_of_the_same_words_is_another_statement() -> None:
    """Who moves back says so again."""
    home, away = "I moved to Busan.", "I moved to Oslo."
    items = [
        item(message=number, quote=text[:-1], keyword="city", value=text.split()[-1][:-1])
        for number, text in enumerate([home, away, home])
    ]
    model = ScriptedChatModel({"facts": items[:2]}, {"facts": items})
    memory = memory_of(model=model, concepts=[CITY])
    await memory.auto_detect_facts([user(home), user(away)], conversation="c")
    await memory.auto_detect_facts([user(home), user(away), user(home)], conversation="c")

    assert [each.values for each in await memory.current()] == [("Busan",)]


async def test_a_retraction_is_learnt_once() -> None:
    """The application saved the value again since then."""
    said = item(quote="I no longer live in Busan", keyword="city", value="Busan", action="retract")
    model = ScriptedChatModel({"facts": [said]}, {"facts": [said]})
    memory = memory_of(model=model, concepts=[CITY])
    chat = [user("I no longer live in Busan.")]
    await memory.save(CITY, "Busan")
    await memory.auto_detect_facts(chat, conversation="c")
    assert await memory.current() == []
    await memory.save(CITY, "Busan")
    report = await memory.auto_detect_facts(chat, conversation="c")

    assert [each.reason for each in report.rejected] == ["learnt"]
    assert [each.values for each in await memory.current()] == [("Busan",)]


async def test_an_edited_message_replaces_what_it_taught() -> None:
    """An unchanged one is left out, and what others have said as well stays."""
    items = [
        item(message=number, quote=quote, keyword=keyword, value=value, fact_type="MULTIPLE")
        for number, quote, keyword, value in (
            (0, "I moved to Busan", "city", "Busan"),
            (1, "I love mint tea", "likes", "mint tea"),
        )
    ]
    new = item(message=2, quote="I moved to Seoul", keyword="city", value="Seoul")
    model = ScriptedChatModel({"facts": items}, {"facts": [new]})
    memory = memory_of(model=model, concepts=[CITY, LIKES])
    chat = memory.conversation("c", learn_after=SOON)
    first, second = user("I moved to Busan"), user("I love mint tea")
    await chat.append(first, second, ids=["0", "1"])
    await learn_due(memory)

    edited = user("I moved to Seoul")
    added = await chat.append(edited, second, ids=["0", "1"])
    assert [each.values for each in await memory.current()] == [("mint tea",)]
    await learn_due(memory)

    assert [each.message for each in added] == [edited]
    assert await chat.messages() == [second, edited]
    assert sorted(each.values for each in await memory.current()) == [("Seoul",), ("mint tea",)]
