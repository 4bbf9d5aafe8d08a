"""Tokens and time of detection: bounded prompts, truncated answers, linear work."""

import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from factmem._text.spelling import Keywords, tidy_keyword
from factmem.detection._question import whole_items
from factmem.llm.base import ChatResponse, estimate_tokens
from factmem.models.facts import Concept, FactType, MultipleFacts
from factmem.models.places import MemoryScopesProfile
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from tests.detection.judging import SUNDAY, judge
from tests.world import AGENT, ALICE, Chat, answer, assistant, item, memory_of, user

SAID = (
    "I have been thinking about the garden, the roof and the trip to the lake with Anna, which we "
    "planned for the summer because the children asked for it."
)


def talk(count: int) -> Chat:
    """Return messages of about 75 tokens."""
    return [(assistant if i % 2 else user)(f"{SAID} {SAID} ({i})") for i in range(count)]


async def full_store() -> InMemoryProvider:
    """Return 200 concepts with 20 values each, which all share a word with the chat."""
    store = InMemoryProvider()
    for i in range(200):
        topic = Concept(f"topic-{i}", f"What the user said about topic {i}", FactType.MULTIPLE)
        values = [f"value {j} of topic {i} in the garden" for j in range(20)]
        await store.save(MultipleFacts(topic, values), ALICE, AGENT)
    return store


class SchemaRecorder(ScriptedChatModel):
    """A scripted model that records the schema of the requested answer."""

    schema: object = None

    async def extract(self, messages: Any, output_type: Any) -> Any:
        self.schema = output_type.model_json_schema()
        return await super().extract(messages, output_type)


def tokens(messages: Any) -> int:
    return sum(estimate_tokens(str(message["content"])) for message in messages)


@pytest.mark.parametrize("is_full", [False, True])
async def test_one_more_message_of_a_long_chat_costs_little(*, is_full: bool) -> None:
    store = await full_store() if is_full else InMemoryProvider()
    model = SchemaRecorder(answer())
    memory = memory_of(store, model, scopes=MemoryScopesProfile(agent="support-bot"))

    await memory.auto_detect_facts(talk(501), since=500, said_at=SUNDAY)

    assert tokens(model.calls[0]) + estimate_tokens(json.dumps(model.schema)) <= 3_100


async def test_values_related_to_the_messages_come_first() -> None:
    store = await full_store()
    sails = Concept("sails", "Sails of the user's boat", FactType.MULTIPLE)
    await store.save(MultipleFacts(sails, ["red genoa"]), ALICE, AGENT)
    for i in range(50):
        other = Concept(f"later-{i}", "Something", FactType.MULTIPLE)
        await store.save(MultipleFacts(other, ["later on"]), ALICE, AGENT)
    model = ScriptedChatModel(answer())

    await memory_of(store, model).auto_detect_facts([user("I sold the genoa")])

    assert '"red genoa"' in str(model.calls[0][0]["content"])


# Truncated answers


def test_complete_items_of_a_truncated_answer_are_saved() -> None:
    text = answer(item(value="a"), item(value="}{[")) + " "

    assert [each["value"] for each in whole_items(text[:-20]) if isinstance(each, dict)] == ["a"]
    assert len(whole_items(text[:-3])) == 2
    assert whole_items(text[:30]) == whole_items("") == whole_items("no JSON") == []
    assert whole_items("```json\n" + text[:-20])
    assert whole_items("[" + json.dumps(item()) + ', {"mess')


async def test_the_rest_of_a_truncated_answer_is_requested() -> None:
    whole = answer(
        item(quote="dark", value="dark"), item(quote="large", keyword="font", value="large")
    )
    first = ChatResponse(whole[:-30], finish_reason="length")
    model = ScriptedChatModel(first, answer(item(quote="large", keyword="font", value="large")))

    report = await memory_of(model=model).auto_detect_facts([user("I like it dark and large")])

    assert [each.fact.values for each in report.saved] == [("dark",), ("large",)]
    assert report.usage.calls == 2
    assert "cut off" in str(model.calls[1][-1]["content"])
    assert '"dark"' in str(model.calls[1][-2]["content"])


# Time


def seconds(work: Any) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


@pytest.mark.storm
def test_many_retractions_of_many_values_take_little_time() -> None:
    """There are 500 x 3,000: folding every value for each comparison took minutes."""
    known = [("tools", f"tool number {i}") for i in range(3_000)]
    items = [
        {
            "quote": "no longer use",
            "keyword": "tools",
            "value": f"Tool Nummer {i}",
            "action": "retract",
        }
        for i in range(500)
    ]

    assert seconds(lambda: judge("I no longer use it", *items, known=known)) < 30


@pytest.mark.storm
@pytest.mark.parametrize(
    "text", ["k" * 200_000, "k-" * 100_000, "K k" * 70_000, "\u0301" * 200_000]
)
def test_long_keywords_take_little_time(text: str) -> None:
    known = Keywords([Concept(f"keyword-{i}", "") for i in range(300)])

    def work() -> None:
        for _ in range(100):
            assert known.known(text) is None
            with pytest.raises(ValueError, match="longer"):
                tidy_keyword(text)

    assert seconds(work) < 10


@pytest.mark.storm
@pytest.mark.parametrize(
    "text", ["if " * 20_000, '"' * 60_000, "not " * 15_000, "1" * 60_000, "1 " * 30_000,
             "> \n" * 20_000,
             "일" * 50_000, "password " * 7_000, "vor ein tag " * 5_000, "<<" * 30_000,
             "-" * 60_000, "my brother is " * 4_000, "says " * 12_000,
             "'a " * 20_000, "a: b, c, d\n" * 5_000, "<a " * 20_000, "explain " * 7_000]
)  # fmt: skip
def test_long_messages_take_little_time(text: str) -> None:
    """Patterns that read a message are linear: 60 KB of one shape."""
    items = [
        {"quote": "I live in Bonn", "keyword": "x", "value": f"Bonn {i}, 2019, {text[:300]}"}
        for i in range(20)
    ]

    followed = frozenset({"x"})

    assert seconds(lambda: judge(f"{text} I live in Bonn {text}", *items, followed=followed)) < 30


async def test_a_short_chat_costs_what_the_documentation_says() -> None:
    """The rules take about 600 tokens, a chat of one message with its schema under 1,400."""
    store = InMemoryProvider()
    pets = Concept("pets", "Pets of the user", FactType.MULTIPLE)
    january = datetime(2024, 1, 5, tzinfo=UTC)
    await store.save(MultipleFacts(pets, ["Miso"], timestamp=january), ALICE, AGENT)
    model = SchemaRecorder(answer())
    memory = memory_of(store, model, scopes=MemoryScopesProfile(agent="support-bot"))
    said = "I ran my first marathon yesterday, and Miso cheered."

    await memory.auto_detect_facts([user(said)], said_at=SUNDAY)

    rules, _, _ = str(model.calls[0][0]["content"]).partition("\n\nThe subject")
    assert 550 <= estimate_tokens(rules) <= 650
    assert tokens(model.calls[0]) + estimate_tokens(json.dumps(model.schema)) < 1400
