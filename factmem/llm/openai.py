"""OpenAIChatModel: a client of any endpoint with OpenAI's chat completions API, and its parser of answers.

The `openai` package is imported on the first call, not with this module.
"""

from collections.abc import Mapping, Sequence
from json import JSONDecodeError
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json
from typing_extensions import TypeForm, TypeVar

from factmem._arguments import expect, expect_all
from factmem.errors import ChatModelError
from factmem.llm._answer import AnswerType
from factmem.llm._api_errors import complaint, concern_of, texts_of
from factmem.llm._lenient_json import items_in, members_in, text_in
from factmem.llm._openai_client import CallFailure, ClientOptions, OpenAIClient, OpensClients
from factmem.llm._structured_output import Asking, Failure, Ladder
from factmem.llm.base import ChatResponse, Extraction, Message, ToolCall, ToolDefinition
from factmem.llm.extraction import converse
from factmem.llm.messages import dicts_of
from factmem.usage import Usage

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["OpenAIChatModel"]


T = TypeVar("T")

_MAPPING: Any = Mapping  # mypy rejects an abstract class as an argument of type `type`


class OpenAIChatModel(OpensClients):
    """A model of OpenAI, Azure, Ollama, vLLM, LM Studio or another compatible endpoint.

        model = OpenAIChatModel("gpt-4o-mini")
        model = OpenAIChatModel("qwen3", base_url="http://localhost:11434/v1", api_key="none")

    Any number of tasks, threads and event loops may use an instance at once. It opens one client
    per event loop, on first use. `aclose` or the end of `async with` closes the client of the
    running loop; the next call opens another. A client that you pass is used in its own event loop
    and is not closed.

    Only the client retries: after rate limits, server errors and broken connections, up to its
    `max_retries`. Retries do not count as calls. Cancelling a call closes its connection.

    Args:
        model: The model's name at the endpoint; on Azure the name of the deployment.
        client: An `AsyncOpenAI`, or one of its subclasses such as `AsyncAzureOpenAI`.
        base_url: The endpoint; by default `OPENAI_BASE_URL`, else OpenAI. Not with `client`.
        api_key: Its key; by default `OPENAI_API_KEY`. A local server accepts any string. Not with
            `client`.
        max_retries: The client's retries; 2 by default. Not with `client`.
        timeout: The limit for one call with its retries, in seconds. By default the client's own
            timeouts apply: 10 minutes without data for each attempt.
        extra_body: Further fields of each request: `{"max_completion_tokens": 4000}`.

    Raises:
        TypeError: An argument has the wrong type, such as a client instead of the name.
        ValueError: `model` is empty, `timeout` is not positive, or options of a client are passed
            with a client.
    """

    def __init__(
        self,
        model: str,
        *,
        client: "AsyncOpenAI | None" = None,
        base_url: str | None = None,
        api_key: str | None = None,
        max_retries: int | None = None,
        timeout: float | None = None,
        extra_body: Mapping[str, object] | None = None,
    ) -> None:
        if not expect(model, str, "model", "OpenAIChatModel('gpt-4o-mini')").strip():
            raise ValueError("model must not be empty: OpenAIChatModel('gpt-4o-mini')")
        options = ClientOptions(client, base_url, api_key, max_retries, timeout)
        self.model = model
        self._client = OpenAIClient(
            options, "chat", lambda message: ChatModelError(message, usage=Usage())
        )
        self._parameters: dict[str, object] = {"model": model}
        if extra_body:
            example = "extra_body={'max_completion_tokens': 4000}"
            self._parameters["extra_body"] = dict(
                expect(extra_body, _MAPPING, "extra_body", example)
            )
        self._ladder = Ladder()

    def __repr__(self) -> str:
        return f"OpenAIChatModel({self.model!r})"

    async def respond(
        self, messages: Sequence[Message], *, tools: Sequence[ToolDefinition] = ()
    ) -> ChatResponse:
        """See `ChatModel.respond`. A cut-off answer has the finish reason `length`."""
        offered = expect_all(tools, _MAPPING, "tools", "tools=[tool.definition]")
        request: dict[str, object] = {"tools": [dict(tool) for tool in offered]} if offered else {}
        outcome = await self._complete(messages, request)
        if isinstance(outcome, Failure):
            raise outcome.error from outcome.cause
        return outcome

    async def extract(self, messages: Sequence[Message], output_type: TypeForm[T]) -> Extraction[T]:
        """See `ChatModel.extract`. One call, one for a repair, and one for each rejected format.

        The schema is sent; if the endpoint rejects it, JSON mode is used, then words only. The
        instance remembers what worked.
        """
        wanted = AnswerType(output_type)
        asking = Asking(self._ladder, wanted, self._complete)
        extraction = await converse(asking, messages, wanted)
        self._ladder.note_ignored(was_ignored=asking.was_ignored)
        return extraction

    async def _complete(
        self, messages: Sequence[Message], request: Mapping[str, object]
    ) -> ChatResponse | Failure:
        """Make one call. A failure is returned, because another format may work."""
        sent = dicts_of(messages)
        if not sent:
            raise ValueError("messages must contain at least one message")
        parameters: dict[str, Any] = {**self._parameters, **request, "messages": sent}

        async def ask(client: "AsyncOpenAI") -> ChatResponse:
            return _response(await client.chat.completions.create(**parameters))

        outcome = await self._client.call(ask, texts_of(sent))
        return outcome if isinstance(outcome, ChatResponse) else self._failed(outcome)

    def _failed(self, failure: CallFailure) -> Failure:
        if failure.unreadable is not None:
            message = f"{self.model!r} returned no chat completion: {_why(failure.unreadable)}"
            return Failure(ChatModelError(message), None)
        if failure.status is None:
            message = f"{self.model!r} {failure.reason}{failure.omission}"
            return Failure(ChatModelError(message), failure.cause)
        concern = concern_of(failure.status, failure.body)
        reason = complaint(failure.status, failure.body, concern)
        message = f"{self.model!r} {reason}{failure.omission}"
        return Failure(ChatModelError(message, status=failure.status), failure.cause, concern)


def _why(exc: Exception) -> str:
    is_json = not isinstance(exc, JSONDecodeError | UnicodeError | RecursionError)
    if isinstance(exc, MalformedCompletionError):
        return f"it {exc}"
    return f"the openai package raised {type(exc).__name__}" if is_json else "it is not JSON"


def _response(completion: object) -> ChatResponse:
    from openai import BaseModel

    if isinstance(completion, BaseModel):
        return chat_response(completion.to_dict(mode="python", warnings=False))
    return chat_response(completion)


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
