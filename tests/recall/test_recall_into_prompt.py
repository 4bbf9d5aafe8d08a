"""Facts about the question in the prompt, instead of all facts."""

import json
from threading import get_ident
from typing import Any

import pytest

from factmem._text import analysis
from factmem._text.analysis import sentences
from factmem.agent.agent import Agent
from factmem.agent.nodes import (
    Node,
    Strategy,
    node_llm_request,
    node_load_from_memory,
    node_recall_from_memory,
)
from factmem.errors import EmbeddingError, StorageError, UnboundSubjectError
from factmem.events import MemoryEvent, MemoryOperation
from factmem.models.facts import Concept
from factmem.models.recall_filter import RecallFilter
from factmem.prompt.memory_message import LoadReport, MessageForm
from factmem.providers.in_memory import InMemoryProvider
from factmem.recall.match import RecallReport
from factmem.testing.chat import ScriptedChatModel
from tests.doubles import TopicEmbedder
from tests.tables import table
from tests.world import (
    AGENT,
    ALICE,
    BOB,
    COMPANY,
    PRODUCT,
    PROFILE,
    USER,
    bare_note,
    installed,
    recall_memory,
)

PET = Concept("pet", "")
Chat = list[dict[str, Any]]


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def memory_lines(messages: Chat) -> list[str]:
    """Return the lines of the memory message about concepts, without the frame."""
    texts = [each["content"] for each in messages if each.get("name") == "factmem_memory"]
    assert len(texts) < 2
    return [line for text in texts for line in text.splitlines()[2:-1]]


def values(messages: Chat) -> list[Any]:
    decode = json.JSONDecoder().raw_decode
    return [decode(line, 2)[0] for line in memory_lines(messages) if line.startswith("- ")]


@pytest.fixture
async def store() -> InMemoryProvider:
    made = InMemoryProvider()
    await made.save_many(
        [
            bare_note("pet", "a cat called Miso"),
            bare_note("film", "about a cat"),
            bare_note("router", "X200"),
            *(bare_note(f"ticket-{number}", f"closed {number}") for number in range(100)),
        ],
        ALICE,
        AGENT,
    )
    await made.save(bare_note("pet", "the cat of Bob"), BOB, AGENT)
    return made


async def test_facts_about_the_question_are_in_the_prompt(store: InMemoryProvider) -> None:
    """The default question is the last message; the result replaces the message of all facts."""
    everything: Chat = [{"role": "system", "content": "Be kind."}, said("What is my cat called?")]
    asked = list(everything)
    memory = recall_memory(store)

    report = await memory.recall_facts_to_agent(asked)
    await memory.load_facts_to_agent(everything)

    assert memory_lines(asked) == [
        'film: ""',
        '- "about a cat" (user, 2025-09-27)',
        'pet: ""',
        '- "a cat called Miso" (user, 2025-09-27)',
    ]
    assert set(memory_lines(asked)) < set(memory_lines(everything))
    assert [message.get("name") for message in asked] == [None, "factmem_memory", None]
    assert {key: asked[1][key] for key in ("role", "name")} == {
        key: everything[1][key] for key in ("role", "name")
    }
    assert [fact.values for fact in report.facts] == [m.fact.values for m in report.matches]
    assert (report.left_out, report.unreadable, report.matches.failures) == (0, [], [])


async def test_each_question_replaces_the_facts_of_the_last_one(store: InMemoryProvider) -> None:
    """A long chat has only the last question's facts, or none if nothing was found."""
    memory = recall_memory(store)
    messages: Chat = []
    for question, found in (
        ("The cat?", {"a cat called Miso", "about a cat"}),
        ("The router?", {"X200"}),
        ("Kumquats?", set()),
        ("The router?", {"X200"}),
        ("   ", set()),
    ):
        messages.append(said(question))
        await memory.recall_facts_to_agent(messages)
        assert set(values(messages)) == found

    assert [message["role"] for message in messages] == ["user"] * 5


async def test_a_budget_keeps_the_best_matches(store: InMemoryProvider) -> None:
    """Relevance counts here; importance counts only when all facts are loaded."""
    await store.save(
        bare_note("other", "a cat in a very long story " * 3, importance=1.0), ALICE, AGENT
    )
    memory = recall_memory(store, message_form=MessageForm(max_tokens=110))
    messages: Chat = [said("Is the cat called Miso?")]

    report = await memory.recall_facts_to_agent(messages)

    assert report.matches[0].fact.values == ("a cat called Miso",)
    assert values(messages) == ["a cat called Miso"]
    assert report.left_out == len(report.facts) - 1 == 2
    assert "Left out for lack of room: 2" in memory_lines(messages)[-1]


async def test_it_has_the_options_of_recall(store: InMemoryProvider) -> None:
    """The facts are the same, with the same filters."""
    await store.save(bare_note("mascot", "an office cat"), COMPANY, PRODUCT)
    memory = recall_memory(store, subjects=[ALICE, COMPANY])
    narrowings: list[dict[str, Any]] = [
        {},
        {"limit": 1},
        {"subjects": [COMPANY]},
        {"subjects": (each for each in [COMPANY])},
        {"scopes": [PRODUCT]},
        {"where": RecallFilter(concepts=["film"])},
        {"subjects": []},
    ]
    for narrow in narrowings:
        again = {**narrow, "subjects": [COMPANY]} if "subjects" in narrow else narrow
        again = narrow if narrow.get("subjects") == [] else again
        messages: Chat = []
        report = await memory.recall_facts_to_agent(messages, "a cat", **narrow)
        wanted = await memory.recall("a cat", **{"limit": 20, **again})
        assert [m.fact for m in report.matches] == [m.fact for m in wanted]
        assert set(values(messages)) == {value for m in wanted for value in m.fact.values}

    with pytest.raises(ValueError, match="limit"):
        await memory.recall_facts_to_agent([], "a cat", limit=0)
    with pytest.raises(UnboundSubjectError):
        await memory.recall_facts_to_agent([], "a cat", subjects=[USER])
    with pytest.raises(UnboundSubjectError):
        await memory.recall_facts_to_agent([], "", subjects=[USER])


async def test_a_long_message_is_searched_by_its_sentences(store: InMemoryProvider) -> None:
    """A greeting and a story before the request do not hide its topic."""
    text = (
        "Hello there! I hope that you had a pleasant weekend. Mine was spent in the mountains, "
        "where it rained from morning to evening. How are you?\nNow something is wrong with my "
        "router again. Could you look into that, please?"
    )
    embedder = TopicEmbedder()
    messages: Chat = [said(text)]

    await recall_memory(store).recall_facts_to_agent(messages)
    await recall_memory(store, embedder=embedder).recall_facts_to_agent([said(text)])

    assert values(messages) == ["X200"]
    assert embedder.calls[0] == sentences(text)


@table(
    ("text", "parts"),
    [
        ("router", ["router"]),
        ("How are you? Who was that?", ["How are you? Who was that?"]),
        ("How are you? The router!", ["The router!"]),
        ("Version 1.9.2 is in. What now?", ["Version 1.9.2 is in.", "What now?"]),
        ("라우터가 안 돼요。 고양이는?", ["라우터가 안 돼요。", "고양이는?"]),
        ("我的路由器坏了。猫呢\uff1f", ["我的路由器坏了。", "猫呢\uff1f"]),
        ("one\n\n two \r\nthree", ["one", "two", "three"]),
        ("Same. Same. Same.", ["Same."]),
        (" ".join(f"Item{n}." for n in range(20)), [f"Item{n}." for n in range(12, 20)]),
        ("...", ["..."]),
    ],
)
def test_sentences(text: str, parts: list[str]) -> None:
    """Those with content words, the last eight, in their order; in any script."""
    assert sentences(text) == parts


async def test_failures_do_not_damage_the_chat(store: InMemoryProvider) -> None:
    """If the embedder fails, words are searched; if the store fails, the chat does not change."""
    embedder = TopicEmbedder()
    embedder.failure = EmbeddingError("down")
    messages: Chat = [said("The router?")]

    report = await recall_memory(store, embedder=embedder).recall_facts_to_agent(messages)
    assert values(messages) == ["X200"]
    assert report.matches.failures == [embedder.failure]

    class Failing(InMemoryProvider):
        async def load_all(self, *_: Any, **__: Any) -> Any:
            raise StorageError("the disk refused")

    before = json.dumps(messages)
    with pytest.raises(StorageError):
        await recall_memory(Failing()).recall_facts_to_agent(messages)
    assert json.dumps(messages) == before


async def test_it_is_reported_as_one_recall(store: InMemoryProvider) -> None:
    """A message without words is not an operation."""
    events: list[MemoryEvent] = []
    memory = recall_memory(store, listeners=[events.append])

    await memory.recall_facts_to_agent([said("The router? The cat?")])
    await memory.recall_facts_to_agent([said("")])
    await memory.recall_facts_to_agent([{"role": "user", "content": [{"type": "image_url"}]}])

    recalls = [event for event in events if event.operation is MemoryOperation.RECALL]
    assert [event.count for event in recalls] == [3]


# Installed in an agent


def agent_of(store: InMemoryProvider, model: ScriptedChatModel, **options: Any) -> Agent:
    """Return an agent with a memory of all users."""
    agent = Agent(model, strategy=options.pop("strategy", None))
    installed(agent, store, scopes=PROFILE, subjects=[USER], **options)
    return agent


async def run(agent: Agent, model: ScriptedChatModel, text: str, **options: Any) -> Any:
    result = await agent.run(text, subjects=[ALICE], **options)
    shown: Any = model.calls[-1]
    return result, values(shown)


async def test_an_agent_recalls_facts_about_the_input(store: InMemoryProvider) -> None:
    """Each run does, instead of loading all, without a further chat model call."""
    model = ScriptedChatModel("X200.", "Miso.", "Hm.")
    agent = agent_of(store, model, recall=1)

    first, shown = await run(agent, model, "Which router do I have?")
    assert shown == ["X200"]
    [report] = first.reports_of(LoadReport)
    assert isinstance(report, RecallReport)
    assert first.usage.calls == 1
    second, shown = await run(agent, model, "And my cat?", messages=first.messages)
    assert len(shown) == 1
    assert "cat" in shown[0]
    _, shown = await run(agent, model, " ", messages=second.messages)
    assert shown == []


async def test_a_long_question_is_split_outside_of_the_loop(
    store: InMemoryProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pasted page of a megabyte takes half a second; a short question uses no thread."""
    threads: list[int] = []

    def recorded(text: str) -> list[str]:
        threads.append(get_ident())
        return sentences(text)

    monkeypatch.setattr(analysis, "sentences", recorded)
    memory = recall_memory(store)

    await memory.recall_facts_to_agent([], "The router is down. " * 9)
    await memory.recall_facts_to_agent([], "The router is down. " * 9_000)

    here, elsewhere = threads
    assert here == get_ident() != elsewhere


async def test_a_node_of_a_strategy_can_recall(store: InMemoryProvider) -> None:
    """It also loads required concepts; or the installation recalls, if configured."""
    always = node_load_from_memory([PET], subjects=[USER])
    nodes: list[Node] = [node_recall_from_memory(5, subjects=[USER]), always, node_llm_request()]
    cases: list[tuple[list[Node], dict[str, Any], list[str]]] = [
        (nodes, {}, ["a cat called Miso", "X200"]),
        ([node_llm_request()], {}, []),
        ([node_llm_request()], {"recall": 5}, ["X200"]),
        ([always, node_llm_request()], {"recall": 5}, ["a cat called Miso", "X200"]),
    ]
    for strategy, options, found in cases:
        model = ScriptedChatModel("Here.")
        agent = agent_of(store, model, strategy=Strategy("answer", strategy), **options)
        _, shown = await run(agent, model, "The router?")
        assert shown == found
