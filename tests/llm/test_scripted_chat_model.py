"""The chat model for tests of agents."""

import inspect
from typing import Any

import pytest
from pydantic import BaseModel

from factmem.errors import ChatModelError, ExtractionError
from factmem.llm.base import ChatModel, ChatResponse, ToolCall
from factmem.llm.openai import OpenAIChatModel
from factmem.testing.chat import ScriptedChatModel
from factmem.usage import Usage
from tests.tables import table

HELLO: list[dict[str, Any]] = [{"role": "user", "content": "Hello there"}]
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "weather"}}


class Theme(BaseModel):
    name: str


async def test_answers_come_in_order() -> None:
    """Strings, whole responses, and functions of the messages."""
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


async def test_it_records_its_requests() -> None:
    """They are copies: a history that changes later does not change them."""
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
    """Parsing is as lenient as for an endpoint."""
    model = ScriptedChatModel(answer)

    extraction = await model.extract(HELLO, Theme)

    assert extraction.value == Theme(name="Darcula")
    assert extraction.usage.calls == model.usage.calls == 1
    assert model.calls == [HELLO]


async def test_refusals_and_truncation_can_be_scripted() -> None:
    """The errors are those of an endpoint."""
    model = ScriptedChatModel(
        ChatResponse(refusal="I won't."), ChatResponse('{"name', finish_reason="length")
    )

    with pytest.raises(ExtractionError, match="refused"):
        await model.extract(HELLO, Theme)
    with pytest.raises(ExtractionError, match="cut off"):
        await model.extract(HELLO, Theme)


async def test_errors_are_raised() -> None:
    """The same object is raised, from the script or from a function, and the call counts."""
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


async def test_an_empty_script_raises_an_error_that_says_what_to_do() -> None:
    """It has the number of calls, and the reason if the last one was a repair."""
    model = ScriptedChatModel("Hi.")

    await model.respond(HELLO)
    with pytest.raises(AssertionError, match="called 2 times and has 1 answers: give it one for"):
        await model.respond(HELLO)
    with pytest.raises(AssertionError, match=r"asked again, since .* contains no JSON"):
        await ScriptedChatModel("Hi.").extract(HELLO, Theme)

    assert model.remaining == 0


async def test_usage_counts_words() -> None:
    """It is deterministic, and shows whether costs are summed."""
    model = ScriptedChatModel("One two three.", ChatResponse("x", usage=Usage(100, 50, calls=1)))

    first = await model.respond([*HELLO, {"role": "assistant", "content": None}])
    await model.respond(HELLO)

    assert first.usage == Usage(2, 3, calls=1)
    assert model.usage == Usage(102, 53, calls=2)


@pytest.mark.parametrize("method", ["respond", "extract"])
def test_it_has_the_methods_of_the_real_model(method: str) -> None:
    """Code that works with the script works with an endpoint."""
    models = (ScriptedChatModel, OpenAIChatModel, ChatModel)

    assert len({str(inspect.signature(getattr(model, method))) for model in models}) == 1
