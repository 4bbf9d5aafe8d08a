"""Values, and structured output for a user's own chat model."""

from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from factmem.errors import ChatModelError, ExtractionError
from factmem.llm.base import ChatModel, ChatResponse, Extraction, Message, ToolCall, ToolDefinition
from factmem.llm.extraction import extract_by_asking
from factmem.usage import Usage

HELLO: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]


class Theme(BaseModel):
    name: str


class Talker:
    """A user's chat model without structured output."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)
        self.heard: list[list[Message]] = []

    async def respond(
        self, messages: Sequence[Message], *, tools: Sequence[ToolDefinition] = ()
    ) -> ChatResponse:
        self.heard.append(list(messages))
        if not self.texts:
            raise ChatModelError("gone")
        return ChatResponse(self.texts.pop(0), usage=Usage(3, 2, calls=1))

    async def extract(self, messages: Sequence[Message], output_type: Any) -> Extraction[Any]:
        return await extract_by_asking(self.respond, messages, output_type)


async def test_a_model_without_structured_output_can_extract() -> None:
    """The prompt describes the schema; the caller's messages do not change."""
    talker = Talker('Well: {"name": "Darcula"}')
    model: ChatModel = talker

    extraction = await model.extract(HELLO, Theme)

    assert extraction == Extraction(
        Theme(name="Darcula"), 'Well: {"name": "Darcula"}', Usage(3, 2, calls=1)
    )
    assert extraction.usage.calls == 1
    ((message,),) = talker.heard
    assert str(message["content"]).startswith("Hello\n\nAnswer with one JSON object")
    assert HELLO == [{"role": "user", "content": "Hello"}]


async def test_a_bad_answer_is_repaired_once() -> None:
    """The model reads what was wrong; the usage of both calls is summed."""
    talker = Talker("Darcula", '{"name": "Darcula"}')

    extraction = await talker.extract(HELLO, Theme)

    assert extraction.usage == Usage(6, 4, calls=2)
    question, answer, correction = talker.heard[1]
    assert (question, answer) == (HELLO[0], {"role": "assistant", "content": "Darcula"})
    assert "it contains no JSON" in str(correction["content"])
    assert "schema" in str(correction["content"])


async def test_two_bad_answers_raise() -> None:
    """A model's own error is passed on."""
    with pytest.raises(ExtractionError, match=r"Asked twice.*contains no JSON") as caught:
        await Talker("Darcula", "Monokai").extract(HELLO, Theme)
    with pytest.raises(ChatModelError, match="gone") as gone:
        await Talker("Darcula").extract(HELLO, Theme)

    assert caught.value.raw == "Monokai"
    assert caught.value.usage == Usage(6, 4, calls=2)
    assert gone.value.usage == Usage(3, 2, calls=2)


async def test_a_type_without_a_schema_raises_before_a_request() -> None:
    """The caller has to fix the type."""
    talker = Talker("{}")

    with pytest.raises(TypeError, match="schema"):
        await talker.extract(HELLO, object.__new__)

    assert talker.heard == []


def test_usage_adds_up() -> None:
    """Tokens and calls are summed."""
    assert sum([Usage(1, 2, 3), Usage(10, 20, 30)], Usage()) == Usage(11, 22, 33)


def test_a_response_makes_its_own_message() -> None:
    """Tests and users' own chat models build responses this way."""
    call = ToolCall("call_1", "weather", "{}")

    assert ChatResponse("Hi").message == {"role": "assistant", "content": "Hi"}
    assert ChatResponse(tool_calls=(call,)).message == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
        ],
    }
    given: dict[str, object] = {"role": "assistant", "content": "Hi", "reasoning": "Hm"}
    assert ChatResponse("Hi", message=given).message is given
