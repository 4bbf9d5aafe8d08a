"""A lenient parser of chat completions."""

from secrets import token_hex

from pydantic_core import to_json

from factmem.llm._lenient_json import items_in, members_in, text_in
from factmem.llm.base import ChatResponse, ToolCall
from factmem.usage import Usage


class MalformedCompletionError(ValueError):
    """An answer with status 200 is not a chat completion. The message contains no part of it."""


def chat_response(completion: object) -> ChatResponse:
    """Parse the first choice of a chat completion.

    A field of an unexpected type is treated as absent, except the message. With tool calls,
    `ChatResponse.message` keeps every field of the endpoint's message: some endpoints require their
    reasoning and signatures back.

    Raises:
        MalformedCompletionError: It has no message, or a tool call without a function name.
    """
    if not isinstance(completion, dict):
        raise MalformedCompletionError("is not a JSON object")
    body = members_in(completion)
    choices = items_in(body.get("choices"))
    if not choices:
        raise MalformedCompletionError(
            "reports an error" if body.get("error") else "has no choices"
        )
    choice = members_in(choices[0])
    message = members_in(choice.get("message"))
    if not message:
        raise MalformedCompletionError("has a choice without a message")
    calls = [_call(members_in(call)) for call in items_in(message.get("tool_calls"))]
    return ChatResponse(
        _text(message.get("content")),
        tuple(call for call, _ in calls),
        message=_to_append(message, [call for _, call in calls]),
        finish_reason=text_in(choice.get("finish_reason")) or None,
        refusal=text_in(message.get("refusal")) or None,
        usage=Usage.reported(members_in(body.get("usage"))),
    )


def _text(content: object) -> str:
    """Return the text of a message's content; a few endpoints send it in parts."""
    parts = map(members_in, items_in(content))
    texts = [text_in(part.get("text")) for part in parts if part.get("type") == "text"]
    return text_in(content) or "".join(texts)


def _call(call: dict[str, object]) -> tuple[ToolCall, dict[str, object]]:
    """Return a tool call, and the dict to send back in the assistant's message."""
    function = members_in(call.get("function"))
    name = text_in(function.get("name"))
    if not name:
        raise MalformedCompletionError("has a tool call without a function name")
    arguments = function.get("arguments") or "{}"
    if not isinstance(arguments, str):
        arguments = to_json(arguments).decode()
    # The tool's answer must name the call, and a few endpoints omit the id.
    tool_call = ToolCall(text_in(call.get("id")) or f"call_{token_hex(12)}", name, arguments)
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
