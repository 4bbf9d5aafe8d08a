"""Values, and structured output for a user's own chat model."""

from typing import Any

import pytest
from pydantic import BaseModel

from factmem.errors import ChatModelError, ExtractionError
from factmem.llm.base import ChatResponse, Extraction, ToolCall
from factmem.llm.extraction import extract_by_asking
from factmem.testing.chat import ScriptedChatModel
from factmem.usage import Usage

HELLO: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]


class Theme(BaseModel):
    name: str


def talker(*texts: str) -> ScriptedChatModel:
    """Return a model of which only `respond` is called; it is gone after its texts."""
    answers = [ChatResponse(text, usage=Usage(3, 2, calls=1)) for text in texts]
    return ScriptedChatModel(*answers, ChatModelError("gone"))


async def test_a_model_without_structured_output_can_extract() -> None:
    """The prompt describes the schema; the caller's messages do not change."""
    model = talker('Well: {"name": "Darcula"}')

    extraction = await extract_by_asking(model.respond, HELLO, Theme)

    assert extraction == Extraction(
        Theme(name="Darcula"), 'Well: {"name": "Darcula"}', Usage(3, 2, calls=1)
    )
    assert extraction.usage.calls == 1
    ((message,),) = model.calls
    assert str(message["content"]).startswith("Hello\n\nAnswer with one JSON object")
    assert HELLO == [{"role": "user", "content": "Hello"}]


async def test_a_bad_answer_is_repaired_once() -> None:
    """The model reads what was wrong; the usage of both calls is summed."""
    model = talker("Darcula", '{"name": "Darcula"}')

    extraction = await extract_by_asking(model.respond, HELLO, Theme)

    assert extraction.usage == Usage(6, 4, calls=2)
    question, answer, correction = model.calls[1]
    assert (question, answer) == (HELLO[0], {"role": "assistant", "content": "Darcula"})
    assert "it contains no JSON" in str(correction["content"])
    assert "schema" in str(correction["content"])


async def test_two_bad_answers_raise() -> None:
    """A model's own error is passed on."""
    with pytest.raises(ExtractionError, match=r"Asked twice.*contains no JSON") as caught:
        await extract_by_asking(talker("Darcula", "Monokai").respond, HELLO, Theme)
    with pytest.raises(ChatModelError, match="gone") as gone:
        await extract_by_asking(talker("Darcula").respond, HELLO, Theme)

    assert caught.value.raw == "Monokai"
    assert caught.value.usage == Usage(6, 4, calls=2)
    assert gone.value.usage == Usage(3, 2, calls=2)


async def test_a_type_without_a_schema_raises_before_a_request() -> None:
    """The caller has to fix the type."""
    model = talker("{}")

    with pytest.raises(TypeError, match="schema"):
        await extract_by_asking(model.respond, HELLO, object.__new__)  # type: ignore[arg-type]

    assert model.calls == []


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
