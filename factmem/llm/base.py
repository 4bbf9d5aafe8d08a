"""The ChatModel protocol and its results.

A chat history is a list of OpenAI chat-completions message dicts; there is no message class.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeAlias

from typing_extensions import TypeForm, TypeVar

from factmem.usage import ONE_CALL, Usage

__all__ = ["ChatModel", "ChatResponse", "Extraction", "Message", "ToolCall", "ToolDefinition"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Message: TypeAlias = Mapping[str, object]
"""One message in the format of OpenAI's chat completions: `{"role": "user", "content":
"Hello"}`."""

ToolDefinition: TypeAlias = Mapping[str, object]
"""One tool in the format of OpenAI's chat completions: `{"type": "function", "function":
{...}}`."""


class DefinedTool:
    """The name and the definition of a tool; the base of `Tool` and `MemoryTool`."""

    def __init__(self, name: str, description: str, schema: Mapping[str, object]) -> None:
        self._name = name
        texts = {"name": name, "description": description}
        function = {key: text for key, text in texts.items() if text} | {"parameters": schema}
        self._definition: ToolDefinition = {"type": "function", "function": function}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"

    @property
    def name(self) -> str:
        """The name that the model calls."""
        return self._name

    @property
    def definition(self) -> ToolDefinition:
        """Name, description and the JSON schema of the arguments."""
        return self._definition


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's request to run a tool."""

    id: str
    """The `tool_call_id` of the tool's answer."""
    name: str
    arguments: str
    """The arguments as the model wrote them, not validated: usually a JSON object."""


@dataclass(frozen=True, slots=True)
class ChatResponse:
    """One answer of a model: text, tool calls, or both."""

    text: str = ""
    """The text of the answer; empty if the model only calls tools."""
    tool_calls: tuple[ToolCall, ...] = ()
    message: dict[str, object] = field(default_factory=dict[str, object])
    """The answer as a message for the history; built from text and tool calls by default."""
    finish_reason: str | None = None
    """Why the model stopped: `stop`, `tool_calls`, `length` (cut off), `content_filter`."""
    refusal: str | None = None
    """The model's explanation if it refused to answer and the endpoint reports that."""
    usage: Usage = ONE_CALL

    def __post_init__(self) -> None:
        if not self.message:
            object.__setattr__(self, "message", _assistant_message(self.text, self.tool_calls))


@dataclass(frozen=True, slots=True)
class Extraction(Generic[T_co]):
    """A typed value from a model."""

    value: T_co
    raw: str
    """The answer that the value was parsed from."""
    usage: Usage
    """The sum over all calls, including rejected ones."""


class ChatModel(Protocol):
    """A language model behind chat completions.

    Implement these two methods; no base class is needed. `factmem.llm.extraction.extract_by_asking`
    implements `extract` with `respond` for a model without structured output.

    Any number of tasks may use an instance at once. Neither method changes `messages`. A call that
    is cancelled or fails leaves nothing running.
    """

    async def respond(
        self, messages: Sequence[Message], *, tools: Sequence[ToolDefinition] = ()
    ) -> ChatResponse:
        """Answer the last message. One call to the model.

        Args:
            messages: The conversation, oldest first.
            tools: The tools that the model may call; this method does not run them.

        Raises:
            ChatModelError: The endpoint rejected the request, failed or could not be reached.
        """
        ...

    async def extract(self, messages: Sequence[Message], output_type: TypeForm[T]) -> Extraction[T]:
        """Answer the last message with a value of `output_type`. One call, rarely more.

        If an answer does not fit the type, the model is asked once more. If the endpoint rejects a
        response format, another one is used. `Extraction.usage` counts all calls.

        Args:
            messages: The conversation, oldest first.
            output_type: Any type that pydantic can validate and has a JSON schema for.

        Raises:
            ChatModelError: The endpoint rejected the request, failed or could not be reached.
            ExtractionError: The model refused, or its answer was cut off or did not fit the type in
                two attempts; `raw` is its text.
            TypeError: There is no JSON schema for `output_type`.
        """
        ...


def _assistant_message(text: str, tool_calls: tuple[ToolCall, ...]) -> dict[str, object]:
    if not tool_calls:
        return {"role": "assistant", "content": text}
    return {
        "role": "assistant",
        "content": text or None,
        "tool_calls": [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in tool_calls
        ],
    }
