"""Reading a chat completion as endpoints really send them."""

from secrets import token_hex

from pydantic_core import to_json

from factmem.llm.base import ChatResponse, ToolCall
from factmem.llm.lenient_json import count_in, items_in, members_in, text_in
from factmem.usage import Usage


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
    if not isinstance(completion, dict):
        raise MalformedCompletionError("is no JSON object")
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
        usage=_usage(members_in(body.get("usage"))),
    )


def _text(content: object) -> str:
    """Return the text of a content, which a few endpoints give in parts."""
    parts = map(members_in, items_in(content))
    texts = [text_in(part.get("text")) for part in parts if part.get("type") == "text"]
    return text_in(content) or "".join(texts)


def _call(call: dict[str, object]) -> tuple[ToolCall, dict[str, object]]:
    """Return a tool call, and the same as a message holds it."""
    function = members_in(call.get("function"))
    name = text_in(function.get("name"))
    if not name:
        raise MalformedCompletionError("calls a tool that is no function with a name")
    arguments = function.get("arguments") or "{}"
    if not isinstance(arguments, str):
        arguments = to_json(arguments).decode()
    # Its answer must name a call, and a few endpoints leave the id out.
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


def _usage(usage: dict[str, object]) -> Usage:
    return Usage(
        count_in(usage.get("prompt_tokens")), count_in(usage.get("completion_tokens")), calls=1
    )
