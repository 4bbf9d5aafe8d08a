"""The chat model that tests of agents use."""

import inspect
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from factmem.errors import ChatModelError, ExtractionError
from factmem.llm.base import (
    ChatModel,
    ChatResponse,
    ToolCall,
)
from factmem.llm.openai import OpenAIChatModel
from factmem.testing.chat import ScriptedChatModel
from factmem.usage import Usage
from tests.tables import table

HELLO: list[dict[str, Any]] = [{"role": "user", "content": "Hello there"}]
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "weather"}}


class Theme(BaseModel):
    name: str


async def test_answers_come_in_order() -> None:
    """Texts, whole responses, functions of the messages."""
    calling = ChatResponse(tool_calls=(ToolCall("1", "weather", "{}"),))
    model = ScriptedChatModel("Hi.", calling, lambda messages: f"{len(messages)} messages")
    as_protocol: ChatModel = model

    first = await as_protocol.respond(HELLO)
    second = await model.respond(HELLO, tools=[TOOL])
    third = await model.respond([*HELLO, *HELLO])

    assert first.text == "Hi."
    assert first.message == {"role": "assistant", "content": "Hi."}
    assert first.finish_reason == "stop"
    assert second is calling
    assert third.text == "2 messages"
    assert model.remaining == 0


async def test_it_keeps_what_it_was_asked() -> None:
    """As it was then: a history that grows or is mended later is no excuse."""
    model = ScriptedChatModel("Hi.", "Hi.")
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"text": "Hello"}]}]

    await model.respond(messages, tools=[TOOL])
    messages[0]["content"][0]["text"] = "Bye"
    await model.respond(messages)

    assert model.calls == [
        [{"role": "user", "content": [{"text": "Hello"}]}],
        [{"role": "user", "content": [{"text": "Bye"}]}],
    ]
    assert model.tools == [[TOOL], []]


@table(
    "answer",
    [
        Theme(name="Darcula"),
        {"name": "Darcula"},
        [{"name": "Darcula"}],
        '```json\n{"name": "Darcula",}\n```',
        ChatResponse('{"name": "Darcula"}'),
        lambda _: {"name": "Darcula"},
    ],
    ids=["instance", "data", "data in a list", "text", "response", "function"],
)
async def test_values_are_extracted_from_any_answer(answer: object) -> None:
    """Read as tolerantly as from an endpoint."""
    model = ScriptedChatModel(answer)

    extraction = await model.extract(HELLO, Theme)

    assert extraction.value == Theme(name="Darcula")
    assert extraction.calls == model.usage.calls == 1
    assert model.calls == [HELLO]


async def test_a_bad_answer_is_asked_for_once_more() -> None:
    """As from an endpoint, and the repair is a call of its own."""
    model = ScriptedChatModel({"title": "Darcula"}, {"name": "Darcula"}, "no", "no")

    extraction = await model.extract(HELLO, Theme)
    with pytest.raises(ExtractionError, match="Asked twice") as caught:
        await model.extract(HELLO, Theme)

    assert extraction.calls == 2
    assert len(model.calls) == 4
    assert "That answer cannot be used" in str(model.calls[1][-1]["content"])
    assert caught.value.raw == "no"


async def test_refusals_and_cut_offs_can_be_scripted() -> None:
    """With the errors that an endpoint's would have."""
    model = ScriptedChatModel(
        ChatResponse(refusal="I won't."), ChatResponse('{"name', finish_reason="length")
    )

    with pytest.raises(ExtractionError, match="refused"):
        await model.extract(HELLO, Theme)
    with pytest.raises(ExtractionError, match="cut off"):
        await model.extract(HELLO, Theme)


async def test_errors_are_raised() -> None:
    """The very one, from the script or from a function in it, and the call counts."""
    down = ChatModelError("down", status=503)

    def fail(_: object) -> str:
        raise down

    model = ScriptedChatModel(down, fail, down)

    for _ in range(2):
        with pytest.raises(ChatModelError, match="down") as caught:
            await model.respond(HELLO)
        assert caught.value is down
    with pytest.raises(ChatModelError, match="down"):
        await model.extract(HELLO, Theme)

    assert len(model.calls) == 3
    assert model.usage == Usage()


async def test_an_empty_script_says_what_to_do() -> None:
    """With the number of calls, and the reason where the last one asked again."""
    model = ScriptedChatModel("Hi.")

    await model.respond(HELLO)
    with pytest.raises(AssertionError, match="called 2 times and has 1 answers: give it one for"):
        await model.respond(HELLO)
    with pytest.raises(AssertionError, match=r"asked again, since .* contains no JSON"):
        await ScriptedChatModel("Hi.").extract(HELLO, Theme)

    assert model.remaining == 0


async def test_usage_is_counted_in_words() -> None:
    """Deterministic, and it shows whether costs are summed."""
    model = ScriptedChatModel("One two three.", ChatResponse("x", usage=Usage(100, 50, calls=1)))

    first = await model.respond([*HELLO, {"role": "assistant", "content": None}])
    await model.respond(HELLO)

    assert first.usage == Usage(2, 3, calls=1)
    assert model.usage == Usage(102, 53, calls=2)


async def test_tasks_share_a_script() -> None:
    """Each answer is given once."""
    model = ScriptedChatModel(*(str(number) for number in range(20)))
    texts: list[str] = []

    async def ask(messages: list[dict[str, Any]]) -> None:
        texts.append((await model.respond(messages)).text)

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(ask, [*HELLO])

    assert sorted(texts, key=int) == [str(number) for number in range(20)]


@pytest.mark.parametrize("method", ["respond", "extract"])
def test_its_methods_are_those_of_the_real_one(method: str) -> None:
    """Code that works with the script works with an endpoint."""
    models = (ScriptedChatModel, OpenAIChatModel, ChatModel)

    assert len({str(inspect.signature(getattr(model, method))) for model in models}) == 1
