"""Reading a chat completion as endpoints really send them."""

from secrets import token_hex

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json
from typing_extensions import TypeVar

from factmem.llm.base import ChatResponse, ToolCall, Usage

__all__ = ["MalformedCompletionError", "chat_response"]

T = TypeVar("T")
D = TypeVar("D")

_MAPPING = TypeAdapter(dict[str, object])
_LIST = TypeAdapter(list[object])
_TEXT = TypeAdapter(str)
_COUNT = TypeAdapter(int)


class MalformedCompletionError(ValueError):
    """What came with status 200 is no chat completion; the message quotes nothing of it."""


def chat_response(completion: object) -> ChatResponse:
    """Read the first choice of a chat completion.

    What is absent or of a strange type is taken as absent, as long as there is a message. Beside
    calls of tools everything that the endpoint put into the message is kept in
    `ChatResponse.message`: some endpoints want their thoughts and signatures back with it.

    Raises:
        MalformedCompletionError: There is no message in it, or one that calls no known tool.
    """
    body = _as(_MAPPING, completion, None)
    if body is None:
        raise MalformedCompletionError("is no JSON object")
    choices = _as(_LIST, body.get("choices"), [])
    if not choices:
        why = "reports an error" if body.get("error") else "has no choices"
        raise MalformedCompletionError(why)
    choice = _as(_MAPPING, choices[0], {})
    message = _as(_MAPPING, choice.get("message"), {})
    if not message:
        raise MalformedCompletionError("has a choice without a message")
    calls = [_call(call) for call in _as(_LIST, message.get("tool_calls"), [])]
    return ChatResponse(
        _text(message.get("content")),
        tuple(call for call, _ in calls),
        message=_to_append(message, [call for _, call in calls]),
        finish_reason=_as(_TEXT, choice.get("finish_reason"), None),
        refusal=_as(_TEXT, message.get("refusal"), "") or None,
        usage=_usage(_as(_MAPPING, body.get("usage"), {})),
    )


def _as(kind: TypeAdapter[T], value: object, otherwise: D) -> T | D:
    try:
        return kind.validate_python(value, strict=True)
    except ValidationError:
        return otherwise


def _text(content: object) -> str:
    """Return the text of a content, which a few endpoints give in parts."""
    parts = [_as(_MAPPING, part, {}) for part in _as(_LIST, content, [])]
    texts = [_as(_TEXT, part.get("text"), "") for part in parts if part.get("type") == "text"]
    return _as(_TEXT, content, "".join(texts))


def _call(value: object) -> tuple[ToolCall, dict[str, object]]:
    """Return a tool call, and the same as a message holds it."""
    call = _as(_MAPPING, value, {})
    function = _as(_MAPPING, call.get("function"), {})
    name = _as(_TEXT, function.get("name"), "")
    if not name:
        raise MalformedCompletionError("calls a tool that is no function with a name")
    given = function.get("arguments")
    arguments = _as(_TEXT, given, "" if given is None else to_json(given).decode()) or "{}"
    # Its answer must name a call, and a few endpoints leave the id out.
    tool_call = ToolCall(_as(_TEXT, call.get("id"), "") or f"call_{token_hex(12)}", name, arguments)
    sent_back = {key: part for key, part in call.items() if key != "index"}
    sent_back |= {"id": tool_call.id, "type": "function"}
    sent_back["function"] = {**function, "name": name, "arguments": arguments}
    return tool_call, sent_back


def _to_append(message: dict[str, object], calls: list[dict[str, object]]) -> dict[str, object]:
    answer: dict[str, object] = {"role": "assistant", "content": message.get("content")}
    if not calls:
        answer["content"] = answer["content"] or ""
        if message.get("refusal"):
            answer["refusal"] = message["refusal"]
        return answer
    beside = {key: part for key, part in message.items() if part not in (None, [], {}, "")}
    return {**beside, **answer, "tool_calls": calls}


def _usage(usage: dict[str, object]) -> Usage:
    return Usage(
        max(_as(_COUNT, usage.get("prompt_tokens"), 0), 0),
        max(_as(_COUNT, usage.get("completion_tokens"), 0), 0),
        calls=1,
    )
