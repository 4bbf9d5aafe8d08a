"""Compression of a long chat, which never separates a tool call from its result."""

import copy
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factmem.detection.compression import RetrieveFactsFromHistory, _last_exchange
from factmem.errors import ChatModelError, ExtractionError
from factmem.models.facts import Concept, FactType
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from factmem.testing.clock import SettableClock
from tests.properties import examples
from tests.tables import table
from tests.world import (
    AGE,
    AGENT,
    ALICE,
    LANGUAGES,
    THEME,
    Chat,
    answer,
    assistant,
    memory_of,
    theme,
    user,
)

CLOCK = SettableClock()


def call(*ids: str) -> dict[str, Any]:
    calls = [{"id": each, "type": "function", "function": {"name": "f"}} for each in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id: str, content: str = "done") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


LONG: Chat = [
    {"role": "system", "content": "You help."},
    user("I prefer the dark theme, and I speak Korean."),
    call("1"),
    result("1", "The user's age is 36."),
    assistant("Noted."),
    {"role": "system", "content": "Be brief."},
    user("No, the dim theme. And I speak English too."),
    assistant("Sure."),
    user("What now?"),
    call("2", "3"),
    result("2"),
    result("3"),
    assistant("Done."),
]


def found(message: int, quote: str, keyword: str, value: object) -> dict[str, object]:
    return {"message": message, "quote": quote, "keyword": keyword, "value": value}


FOUND = [
    found(1, "dark theme", "ide-theme", "dark"),
    found(1, "speak Korean", "languages", "Korean"),
    found(3, "age is 36", "age", 36),
    found(6, "dim theme", "ide-theme", "dim"),
    found(6, "speak English", "languages", "English"),
]

CONCEPTS = (THEME, LANGUAGES, AGE)


def history_text(messages: Chat) -> str:
    [text] = [m["content"] for m in messages if m.get("name") == "factmem_history"]
    return str(text)


async def test_a_long_chat_becomes_its_facts() -> None:
    """One call is made; instructions and the last exchange stay, with its tool calls."""
    messages = copy.deepcopy(LONG)
    model = ScriptedChatModel(answer(*FOUND))

    report = await RetrieveFactsFromHistory(*CONCEPTS).compress(messages, model, said_at=CLOCK())

    assert [m for m in messages if m.get("name") is None] == [LONG[0], LONG[5], *LONG[8:]]
    assert messages[2]["name"] == "factmem_history"
    lines = history_text(messages).splitlines()[2:-1]
    assert lines == [
        'age: "The user\'s age in years"',
        "- 36 (tool, 2001-02-03)",
        'ide-theme: "The IDE theme that the user prefers"',
        '- "dim" (user, 2001-02-03)',
        'languages: "Languages that the user speaks"',
        '- "English" (user, 2001-02-03)',
        '- "Korean" (user, 2001-02-03)',
    ]
    assert report.removed == 6
    assert report.rejected == []
    assert (len(model.calls), report.usage.calls) == (1, 1)


async def test_the_model_reads_only_what_is_removed() -> None:
    model = ScriptedChatModel(answer(*FOUND))

    await RetrieveFactsFromHistory(*CONCEPTS).compress(copy.deepcopy(LONG), model)

    message = str(model.calls[0])
    assert '"text": "The user\'s age is 36."' in model.calls[0][1]["content"]  # type: ignore[operator]
    assert "What now?" not in message
    assert "You help." not in message


async def test_the_memory_message_stays() -> None:
    store = InMemoryProvider()
    await store.save(theme("solarized"), ALICE, AGENT)
    messages = copy.deepcopy(LONG)
    await memory_of(store).load_facts_to_agent(messages, THEME)
    before = copy.deepcopy(messages[1])
    model = ScriptedChatModel(answer(*FOUND))

    await RetrieveFactsFromHistory(*CONCEPTS).compress(messages, model)

    assert messages[1] == before
    assert [m.get("name") for m in messages[:4]] == [
        None, "factmem_memory", None, "factmem_history",
    ]  # fmt: skip
    assert "solarized" not in str(model.calls)


async def test_compressing_again_adds_facts() -> None:
    messages = copy.deepcopy(LONG)
    strategy = RetrieveFactsFromHistory(*CONCEPTS)
    await strategy.compress(messages, ScriptedChatModel(answer(*FOUND)))
    messages += [user("I speak German as well, and like it light."), assistant("Ok."), user("So?")]
    said = next(
        i
        for i, m in enumerate(messages)
        if m["content"] == "I speak German as well, and like it light."
    )
    more = [
        found(said - 1, "German", "languages", "German"),
        found(said - 1, "light", "ide-theme", "light"),
    ]

    await strategy.compress(messages, ScriptedChatModel(answer(*more)))

    text = history_text(messages)
    assert re.findall(r"^- (\S+)", text, flags=re.MULTILINE) == [
        "36", '"light"', '"English"', '"German"', '"Korean"',
    ]  # fmt: skip
    assert messages[-1] == user("So?")


async def test_without_facts_nothing_is_removed() -> None:
    """An empty message instead of a chat would lose everything."""
    for said in (answer(), answer(found(1, "invented", "ide-theme", "x"))):
        messages = copy.deepcopy(LONG)

        report = await RetrieveFactsFromHistory(*CONCEPTS).compress(
            messages, ScriptedChatModel(said)
        )

        assert messages == LONG
        assert (report.removed, report.facts) == (0, [])


@table(
    "messages",
    [
        [],
        LONG[:1],
        LONG[:2],
        [user("Hello"), call("1"), result("1")],
        [call("1"), result("1")],
        [assistant("Hello")],
    ],
)
async def test_a_short_chat_is_left_alone(messages: Chat) -> None:
    """There is no model call."""
    model = ScriptedChatModel()
    short = copy.deepcopy(messages)

    report = await RetrieveFactsFromHistory(THEME).compress(short, model)

    assert short == messages
    assert (report.removed, model.calls) == (0, [])


@pytest.mark.parametrize("error", [ChatModelError("down"), ExtractionError("bad")])
async def test_an_error_leaves_the_chat_alone(error: Exception) -> None:
    messages = copy.deepcopy(LONG)

    with pytest.raises(type(error)):
        await RetrieveFactsFromHistory(THEME).compress(messages, ScriptedChatModel(error))

    assert messages == LONG


async def test_a_chat_that_changed_meanwhile_is_left_alone() -> None:
    messages = copy.deepcopy(LONG)

    def meddle(_: object) -> str:
        del messages[1]
        return answer(*FOUND)

    with pytest.raises(RuntimeError, match="changed during"):
        await RetrieveFactsFromHistory(*CONCEPTS).compress(messages, ScriptedChatModel(meddle))

    assert messages == [LONG[0], *LONG[2:]]


async def test_messages_added_meanwhile_are_kept() -> None:
    messages = copy.deepcopy(LONG)

    def add(_: object) -> str:
        messages.append(user("One more thing"))
        return answer(*FOUND)

    await RetrieveFactsFromHistory(*CONCEPTS).compress(messages, ScriptedChatModel(add))

    assert messages[-1] == user("One more thing")
    assert messages[-2] == LONG[-1]


def test_wrong_arguments_raise() -> None:
    with pytest.raises(ValueError, match="Name the concepts"):
        RetrieveFactsFromHistory()
    with pytest.raises(ValueError, match="have the keyword 'ide-theme'"):
        RetrieveFactsFromHistory(THEME, Concept("ide-theme", "", FactType.MULTIPLE))


# The last exchange


def pairs_are_whole(messages: Chat, start: int) -> bool:
    """Return True if no call and its result are on different sides of `start`."""
    called = {c["id"] for m in messages[start:] for c in m.get("tool_calls") or ()}
    results = {m["tool_call_id"] for m in messages[start:] if m["role"] == "tool"}
    before = {c["id"] for m in messages[:start] for c in m.get("tool_calls") or ()}
    answered = {m["tool_call_id"] for m in messages[:start] if m["role"] == "tool"}
    return not (results & before) and not (called & answered)


def test_old_function_results_stay_with_their_call() -> None:
    """Functions have no ids: a result belongs to the last call before it."""
    function_call = {"role": "assistant", "function_call": {"name": "f"}}
    function_result = {"role": "function", "name": "f", "content": "x"}

    assert _last_exchange([function_call, function_result]) == 0
    assert _last_exchange([user("a"), function_call, user("b"), function_result]) == 1
    assert _last_exchange([user("a"), function_call, function_result, user("b")]) == 3


def test_results_without_their_call_are_allowed() -> None:
    """The beginning of the chat was cut off."""
    assert _last_exchange([result("1"), result("2")]) == 0
    assert _last_exchange([result("1"), user("a"), result("2")]) == 1
    assert _last_exchange([]) == 0


@st.composite
def chats(draw: st.DrawFn) -> Chat:
    messages: Chat = []
    waiting: list[str] = []
    for number in range(draw(st.integers(0, 25))):
        kind = draw(st.sampled_from(["user", "assistant", "call", "result", "system"]))
        if kind == "call":
            ids = [f"{number}-{i}" for i in range(draw(st.integers(1, 3)))]
            waiting += ids
            messages.append(call(*ids))
        elif kind == "result" and waiting:
            messages.append(result(waiting.pop(draw(st.integers(0, len(waiting) - 1)))))
        elif kind in {"user", "assistant", "system"}:
            messages.append({"role": kind, "content": f"message {number}"})
    return messages


@given(chats())
@settings(max_examples=examples(300))
def test_tool_calls_are_never_separated_from_results(messages: Chat) -> None:
    """Messages of users, tools and models come in any order."""
    start = _last_exchange(messages)

    assert pairs_are_whole(messages, start)
    users = [i for i, m in enumerate(messages) if m["role"] == "user"]
    assert not users or start <= users[-1]
