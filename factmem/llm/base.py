"""What factmem asks of a language model, and what it gets back.

A chat history is a list of OpenAI chat-completions message dicts; there is no message class here.
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
"""One message as OpenAI's chat completions take it: `{"role": "user", "content": "Hello"}`."""

ToolDefinition: TypeAlias = Mapping[str, object]
"""One tool as OpenAI's chat completions take it: `{"type": "function", "function": {...}}`."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to have a tool run."""

    id: str
    """What the tool's answer names as its `tool_call_id`."""
    name: str
    arguments: str
    """The arguments as the model wrote them: meant to be a JSON object, and not checked."""


@dataclass(frozen=True, slots=True)
class ChatResponse:
    """One answer of a model: text, calls of tools, or both."""

    text: str = ""
    """What the model said; empty when it only calls tools."""
    tool_calls: tuple[ToolCall, ...] = ()
    message: dict[str, object] = field(default_factory=dict[str, object])
    """The answer as a message to append to the history; built from the above when not given."""
    finish_reason: str | None = None
    """Why the model stopped: `stop`, `tool_calls`, `length` (cut off), `content_filter`."""
    refusal: str | None = None
    """The model's words when it declined to answer, where the endpoint tells them apart."""
    usage: Usage = ONE_CALL

    def __post_init__(self) -> None:
        if not self.message:
            object.__setattr__(self, "message", _assistant_message(self.text, self.tool_calls))


@dataclass(frozen=True, slots=True)
class Extraction(Generic[T_co]):
    """A typed value that a model gave."""

    value: T_co
    raw: str
    """The text of the answer that the value was read from."""
    usage: Usage
    """The sum over every call it took, refused ones included."""

    @property
    def calls(self) -> int:
        """How many calls to the model it took."""
        return self.usage.calls


class ChatModel(Protocol):
    """A language model behind chat completions.

    Implement the two methods; inherit from nothing. `factmem.llm.extraction.extract_by_asking`
    makes `extract` out of `respond` for a model that knows no structured output of its own.

    An instance serves any number of concurrent tasks. Neither method changes `messages`, and a
    call that is cancelled or fails leaves nothing running.
    """

    async def respond(
        self, messages: Sequence[Message], *, tools: Sequence[ToolDefinition] = ()
    ) -> ChatResponse:
        """Answer the last message. One call to the model.

        Args:
            messages: The conversation, oldest first.
            tools: What the model may ask to have run; it is not run here.

        Raises:
            ChatModelError: The endpoint refused, failed or could not be reached.
        """
        ...

    async def extract(self, messages: Sequence[Message], output_type: TypeForm[T]) -> Extraction[T]:
        """Answer the last message with a value of `output_type`. One call, seldom more.

        An answer that does not fit the type is asked for once more; an endpoint that refuses a way
        of asking is asked in another way. `Extraction.calls` counts both.

        Args:
            messages: The conversation, oldest first.
            output_type: Anything that pydantic can validate and write a JSON schema for.

        Raises:
            ChatModelError: The endpoint refused, failed or could not be reached.
            ExtractionError: The answer was refused, cut off, or does not fit the type, not even
                the second time; `raw` is its text.
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
