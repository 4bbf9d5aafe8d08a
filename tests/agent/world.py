"""The people, models and answers that the tests of the agent share."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from anyio.lowlevel import checkpoint
from typing_extensions import TypeForm, TypeVar

from factmem.agent.context import AgentContext
from factmem.llm.base import (
    ChatResponse,
    Extraction,
    Message,
    ToolCall,
    ToolDefinition,
)
from factmem.llm.extraction import extract_by_asking
from factmem.models.facts import Concept, FactType
from factmem.models.places import MemoryScope, MemorySubject

T = TypeVar("T")

USER = MemorySubject("user", "The person who talks to the agent", 1, per_entity=True)
COMPANY = MemorySubject("company", "The company that the user works for", 3)
ALICE = USER.of("alice")
BOB = USER.of("bob")

APP = MemoryScope.Product("my-app")

THEME = Concept("ide-theme", "The IDE theme that the user prefers")
LANGUAGES = Concept("languages", "Languages that the user speaks", FactType.MULTIPLE)

Responding = Callable[[Sequence[Message], Sequence[ToolDefinition]], Awaitable[ChatResponse]]


class FunctionModel:
    """A chat model that is a function; `extract` asks it as `respond` does."""

    def __init__(self, responding: Responding) -> None:
        self._responding = responding

    async def respond(
        self, messages: Sequence[Message], *, tools: Sequence[ToolDefinition] = ()
    ) -> ChatResponse:
        await checkpoint()
        return await self._responding(messages, tools)

    async def extract(self, messages: Sequence[Message], output_type: TypeForm[T]) -> Extraction[T]:
        return await extract_by_asking(self.respond, messages, output_type)


def is_detection(messages: Sequence[Message]) -> bool:
    """Whether these messages ask for facts."""
    return "You extract facts" in str(messages[0].get("content"))


def calls(*wanted: tuple[str, object]) -> ChatResponse:
    """An answer that calls tools, each by its name and arguments."""
    return ChatResponse(
        tool_calls=tuple(
            ToolCall(f"call-{number}", name, given if isinstance(given, str) else json.dumps(given))
            for number, (name, given) in enumerate(wanted)
        )
    )


def item(value: str, quote: str, message: int = 0, **fields: Any) -> dict[str, Any]:
    """An item of a model's answer about the theme that the user prefers."""
    return {
        "message": message,
        "quote": quote,
        "action": "assert",
        "subject": "user",
        "scope": "product",
        "keyword": "ide-theme",
        "description": "The IDE theme that the user prefers",
        "fact_type": "SINGLE",
        "value": value,
        "importance": 0.5,
        **fields,
    }


def facts(*items: object) -> dict[str, object]:
    return {"facts": items}


def results(messages: Sequence[Mapping[str, object]]) -> list[str]:
    """What tools told the model, in the order of the conversation."""
    return [str(message["content"]) for message in messages if message["role"] == "tool"]


def memory_texts(messages: Sequence[Mapping[str, object]]) -> list[str]:
    return [str(each["content"]) for each in messages if each.get("name") == "factmem_memory"]


def assert_paired(messages: Sequence[Mapping[str, Any]]) -> None:
    """Every tool call stands before exactly its own results."""
    position = 0
    while position < len(messages):
        message = messages[position]
        asked = [call["id"] for call in message.get("tool_calls", ())]
        given = [each.get("tool_call_id") for each in messages[position + 1 :][: len(asked)]]
        assert given == asked
        position += 1 + len(asked)
        rest = messages[position : position + 1]
        assert not rest or rest[0]["role"] != "tool"


def context_of(chat_model: FunctionModel | Any, text: str = "Hello", **fields: Any) -> AgentContext:
    return AgentContext(text, chat_model=chat_model, **fields)
