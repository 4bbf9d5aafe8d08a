"""The ChatModel protocol and its results, chat histories, and estimates of their tokens.

A history is a list of OpenAI chat-completions message dicts; there is no message class. factmem
recognises its own messages by their `name` and a role of instructions (system or developer), and
changes no other message.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from math import isfinite
from string import ascii_letters
from typing import Any, Generic, Protocol, TypeAlias

from typing_extensions import TypeForm, TypeVar

from factmem._arguments import kind_of
from factmem.errors import InputTypeError
from factmem.models._values import sendable
from factmem.usage import ONE_CALL, Usage

__all__ = [
    "ChatModel",
    "ChatResponse",
    "Extraction",
    "History",
    "Message",
    "ToolCall",
    "ToolDefinition",
]


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
History = TypeVar("History", bound=Mapping[str, object])
"""A message of a history, of the application's own type."""
Messages = TypeVar("Messages", bound=Iterable[Mapping[str, object]])
"""A whole history, of the application's own type."""

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


MEMORY_MESSAGE = "factmem_memory"
"""The name of the message with facts of earlier conversations."""

HISTORY_MESSAGE = "factmem_history"
"""The name of the message that replaces removed messages of this conversation."""

STEP_MESSAGE = "factmem_step"
"""The name of the later questions of an agent's run. They contain the result of a step, not the
user's words."""

OWN_MESSAGES = frozenset({MEMORY_MESSAGE, HISTORY_MESSAGE, STEP_MESSAGE})
"""The names of all messages that factmem writes. They are never a source of facts."""

_Found: TypeAlias = list[int]
INSTRUCTIONS = frozenset({"system", "developer"})
"""The roles of the application's own instructions."""
_RESULTS = frozenset({"tool", "function"})
ROLES = INSTRUCTIONS | _RESULTS | {"user", "assistant"}
"""All roles. No fact is learnt from a message of another role, such as "human"."""
_FUNCTION = "the last function call"
_TIMES = ("timestamp", "created_at")
_LONGEST_TIME = 40
_MILLISECONDS = 100_000_000_000
"""Epochs from this number on are in milliseconds: in seconds it is the year 5138."""
_MICROSECONDS = 100_000_000_000_000


def checked_messages(messages: Messages) -> Messages:
    """Check that messages are an iterable; each message is checked when it is read."""
    given: object = messages
    is_one = isinstance(given, str | bytes | Mapping | type)
    if is_one or not (_has(given, "__iter__") or _has(given, "__getitem__")):
        raise InputTypeError(
            f"messages must be a list of dicts, not {kind_of(given)}: "
            f'[{{"role": "user", "content": text}}], or memory.remember(text) for a string'
        )
    return messages


def dicts_of(messages: Iterable[Mapping[str, object]]) -> list[dict[str, object]]:
    """Copy messages as plain dicts."""
    copies: list[dict[str, object]] = []
    for message in checked_messages(messages):
        _check(message)
        copies.append(dict(message))
    return copies


def checked_history(messages: list[History]) -> list[History]:
    """Check that messages can be changed in place."""
    if not _has(checked_messages(messages), "insert"):
        raise InputTypeError(
            "messages must be a list, because they are changed in place, not "
            f"{type(messages).__name__}: messages = list(messages)"
        )
    return messages


def _has(given: object, method: str) -> bool:
    return callable(getattr(given, method, None))


def content_text(message: Mapping[str, object]) -> str:
    """Return the text of a message; several text parts are joined.

    Lone surrogates are replaced, because no endpoint accepts them.
    """
    _check(message)
    content = message.get("content")
    if isinstance(content, str):
        text = content
    elif isinstance(content, list | tuple):
        texts = [part.get("text") for part in content if isinstance(part, Mapping)]
        text = "\n".join(text for text in texts if isinstance(text, str))
    else:
        text = ""
    return sendable(text)


def is_instruction(message: Mapping[str, object]) -> bool:
    """Return whether a message has the role system or developer."""
    _check(message)
    return message.get("role") in INSTRUCTIONS


def is_result(message: Mapping[str, object]) -> bool:
    """Return whether a message is the result of a tool call."""
    return message.get("role") in _RESULTS


def called_ids(message: Mapping[str, object]) -> list[str]:
    """Return the ids of the calls in a message; calls of older functions have no id."""
    found = [_FUNCTION] if message.get("function_call") else []
    calls = message.get("tool_calls")
    if isinstance(calls, list | tuple):
        found += [str(call.get("id")) for call in calls if isinstance(call, Mapping)]
    return found


def answered_id(message: Mapping[str, object]) -> str:
    """Return the id of the call whose result a message is."""
    return str(message.get("tool_call_id") or _FUNCTION)


def last_said(messages: Sequence[Mapping[str, object]]) -> str:
    """Return the text of the user's last message; empty if there is none."""
    for message in reversed(messages):
        text = content_text(message)
        if message.get("role") == "user" and message.get("name") not in OWN_MESSAGES:
            return text
    return ""


def own_text(messages: Sequence[Mapping[str, object]], name: str) -> str:
    """Return the text of factmem's message with this name; empty if there is none."""
    found = _own(messages, name)
    return content_text(messages[found[0]]) if found else ""


def put_own_text(messages: list[History], name: str, text: str) -> None:
    """Set the text of factmem's message with this name, in place; an empty text removes it.

    A new message is inserted after the leading instructions. An existing one keeps its position; if
    its text is the same, the message object is kept.
    """
    history: list[Any] = messages
    found = _own(messages, name)
    for index in reversed(found[1:] if text else found):
        del history[index]
    if not text:
        return
    if not found:
        start = next((i for i, each in enumerate(messages) if not is_instruction(each)), None)
        index = len(messages) if start is None else start
        role = history[index - 1]["role"] if index else "system"
        history.insert(index, {"role": role, "name": name, "content": text})
    elif content_text(messages[found[0]]) != text:
        history[found[0]] = {**history[found[0]], "content": text}


def _own(messages: Sequence[Mapping[str, object]], name: str) -> _Found:
    return [
        index
        for index, message in enumerate(messages)
        if is_instruction(message) and message.get("name") == name
    ]


def _check(message: object) -> None:
    if not isinstance(message, Mapping):
        instead = "append message.model_dump(exclude_none=True) instead"
        if isinstance(message, str | bytes):
            instead = '{"role": "user", "content": text}'
        raise InputTypeError(
            f"messages must contain dicts, not {type(message).__name__}: {instead}"
        )


def message_time(message: Mapping[str, object], zone: tzinfo) -> datetime | None:
    """Return the time in a message's own fields, or None.

    It is parsed from `timestamp`, then from `created_at`: a datetime, an ISO 8601 string, or
    seconds, milliseconds or microseconds since 1970. A time without a zone, or in UTC, is read in
    `zone`: programs write UTC because they do not know where the user was. Anything else is
    ignored: histories come from many programs, and a wrong field must not stop detection.
    """
    for given in map(message.get, _TIMES):
        read: object = given
        if isinstance(given, str) and len(given) <= _LONGEST_TIME:
            read = _read_time(given.strip())
        if isinstance(read, int | float) and not isinstance(read, bool):
            read = _from_epoch(read)
        if isinstance(read, datetime):
            with suppress(OverflowError):  # before the year 1 or after 9999: no fact can have it
                moment = read if read.utcoffset() is not None else read.replace(tzinfo=zone)
                in_utc = moment.astimezone(UTC)
                return in_utc.astimezone(zone) if moment.tzinfo is UTC else moment
    return None


def _read_time(text: str) -> datetime | float | None:
    for parse in (float, datetime.fromisoformat):
        with suppress(ValueError):
            return parse(text)
    return None


def _from_epoch(number: float) -> datetime | None:
    try:
        if not isfinite(number) or number <= 0:
            return None
        if number >= _MICROSECONDS:
            number /= 1_000_000
        elif number >= _MILLISECONDS:
            number /= 1_000
        return datetime.fromtimestamp(number, UTC)
    except (OverflowError, OSError, ValueError):
        return None


_LETTERS = ascii_letters.encode()
_DIGITS = b"0123456789"
_BLANKS = b" \n\t\r"
_LEAD_OF_2 = bytes(range(0xC2, 0xE0))
_LEAD_OF_3 = bytes(range(0xE0, 0xF0))
_LEAD_OF_4 = bytes(range(0xF0, 0xF5))


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens of a string for current models; overestimates slightly.

    It is made for budgets. On memory messages in ten languages and scripts and one of identifiers
    it gave from 3 percent too few to 16 percent too many tokens against cl100k_base, and from 0 to
    58 percent too many against o200k_base (8 in English, 20 in Korean, 58 in Hindi);
    `benchmarks/token_estimate.py` measures it. It takes about 2 microseconds for 60 characters.

    Each character has a weight by its kind: an English letter a quarter of a token, a Chinese or
    Korean character a little more than one, an emoji three.
    """
    data = text.encode("utf-8", "surrogatepass")
    size = len(data)
    letters = size - len(data.translate(None, _LETTERS))
    digits = size - len(data.translate(None, _DIGITS))
    blanks = size - len(data.translate(None, _BLANKS))
    if text.isascii():
        marks = size - letters - digits - blanks
        return -(-(23 * letters + 60 * digits + 30 * blanks + 85 * marks) // 100)
    twos = size - len(data.translate(None, _LEAD_OF_2))
    threes = size - len(data.translate(None, _LEAD_OF_3))
    fours = size - len(data.translate(None, _LEAD_OF_4))
    marks = size - letters - digits - blanks - 2 * twos - 3 * threes - 4 * fours
    weight = 23 * letters + 60 * digits + 30 * blanks + 85 * marks
    return -(-(weight + 60 * twos + 120 * threes + 300 * fours) // 100)
