"""OpenAIChatModel: a client of any endpoint with OpenAI's chat completions API, and its parser.

`OpenAIClient` is shared with the embedder. It opens a client per event loop, limits the time of a
call and describes failures without quoting the request. The package is imported on the first call,
because the import takes a second. Versions from 2.30 on are supported, built on httpx or on httpx2:
nothing here imports either.

Structured output with fallbacks: JSON schema, then JSON mode, then an instruction in words.

Errors have no common format: OpenAI returns a code and a parameter, FastAPI servers a location,
most others only a sentence. Only fields that the endpoint writes itself are read, because several
servers return the whole request with the error.

Chat models by name, and the address of Ollama.
"""

import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from json import JSONDecodeError
from secrets import token_hex
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeAlias
from urllib.parse import urlsplit

import anyio
from pydantic_core import to_json
from typing_extensions import TypeForm, TypeVar

from factmem._arguments import expect, expect_all, expect_within, has_name, kind_of
from factmem._concurrency import PerLoopResource
from factmem.errors import ChatModelError, MissingExtraError
from factmem.llm.base import (
    ChatModel,
    ChatResponse,
    Extraction,
    Message,
    ToolCall,
    ToolDefinition,
    dicts_of,
)
from factmem.llm.extraction import (
    AnswerType,
    Problem,
    converse,
    items_in,
    members_in,
    strict_schema,
    text_in,
    with_words,
)
from factmem.usage import Usage

__all__ = ["OpenAIChatModel"]

Concern: TypeAlias = Literal["format", "schema", "length", "other"]
"""Why a request was rejected: the response format, this schema, too many tokens, or another."""

_PLAIN_CODE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_LENGTH = re.compile(
    r"context.?length|context.?window|context.?size|maximum.?context|prompt.?is.?too.?long"
    r"|too.?many.?tokens|input.?length|max_model_len|string_above_max_length"
)
_SCHEMA = re.compile(
    r"invalid.?json.?schema|invalid.?schema|schema.?is.?(?:invalid|not)|json.?schema.?contains"
    r"|json.?schema.?(?:is.?too|conversion|error)|grammar|xgrammar|outlines|guidance"
)
_FORMAT = re.compile(
    r"response.?format|json.?schema|json.?object|json.?mode|structured.?output|guided.?json"
    r"|handle.the.requested.parameters"  # OpenRouter's message, with status 404
)
_BY_CONCERN: dict[Concern, tuple[str, str]] = {
    "length": ("got more tokens than fit its context window", "send fewer or shorter messages"),
    "format": ("does not support this response format", "use another model"),
    "schema": ("does not support this JSON schema", "use another type"),
}
_BY_STATUS = {
    401: ("refused the credentials", "check api_key or OPENAI_API_KEY"),
    403: ("does not allow this", "check the permissions of the API key"),
    404: ("was not found", "check the model's name and base_url"),
    408: ("timed out", "try again later"),
    429: ("limits the rate, or its quota is used up", "wait, or send fewer requests"),
}
_OWN_WORDS = ("error", "message", "code", "param", "type", "msg", "loc", "detail", "title")
_NO_TEXTS = frozenset({"role", "type", "id", "tool_call_id"})
_DEEPEST = 8
_RUN = 12
_STRIDE = 4
_LONGEST_ERROR = 4_000


def concern_of(status: int, body: object) -> Concern:
    if status == 413:
        return "length"
    if status not in {400, 404, 422}:
        return "other"
    words = " ".join(_own_words(body)).lower()
    if _LENGTH.search(words):
        return "length"
    if _SCHEMA.search(words):
        return "schema"
    return "format" if _FORMAT.search(words) else "other"


def complaint(
    status: int, body: object, concern: Concern = "other", *, check: str = "messages and extra_body"
) -> str:
    """Describe how an endpoint rejected a request, and what to do.

    Of its answer, `body`, the description contains only the code. `check` names the arguments to
    check if the reason is not known.
    """
    code = members_in(body).get("code")
    is_plain = isinstance(code, str) and _PLAIN_CODE.fullmatch(code) is not None
    where = f"HTTP {status}, {code}" if is_plain else f"HTTP {status}"
    if concern != "other":
        what, advice = _BY_CONCERN[concern]
    elif status >= 500:
        what, advice = "failed", "try again later"
    else:
        what, advice = _BY_STATUS.get(status, ("refused the request", f"check {check}"))
    return f"{what} ({where}): {advice}"


def repeats(text: str, secrets: Iterable[str]) -> bool:
    """Return whether `text` may quote a part of one of `secrets`.

    It detects any 16 consecutive bytes of a long secret, and a secret shorter than 12 bytes as a
    whole word. A string longer than 4,000 characters is not a plain error message: True.
    """
    if len(text) > _LONGEST_ERROR:
        return True
    haystack = text.encode("utf-8", "replace")
    runs = {haystack[start : start + _RUN] for start in range(len(haystack) - _RUN + 1)}
    for secret in secrets:
        needle = secret.strip().encode("utf-8", "replace")
        if len(needle) < _RUN:
            if needle and re.search(rb"(?<!\w)%b(?!\w)" % re.escape(needle), haystack):
                return True
        elif any(needle[at : at + _RUN] in runs for at in range(0, len(needle), _STRIDE)):
            return True
    return False


def texts_of(value: object, key: str = "") -> Iterator[str]:
    """Yield the strings in a message or another part of a request, without images."""
    if isinstance(value, str):
        if key not in _NO_TEXTS and not value.startswith("data:"):
            yield value
        return
    for item in items_in(value):
        yield from texts_of(item)
    for name, item in members_in(value).items():
        yield from texts_of(item, name)


def _own_words(value: object, depth: int = 0) -> Iterator[str]:
    """Yield the fields that the endpoint writes itself; `input` and `ctx` contain the request."""
    if isinstance(value, str | int):
        yield str(value)
    if depth == _DEEPEST:
        return
    for item in items_in(value):
        yield from _own_words(item, depth + 1)
    mapping = members_in(value)
    for key in _OWN_WORDS:
        if key in mapping:
            yield from _own_words(mapping[key], depth + 1)


if TYPE_CHECKING:
    from openai import AsyncOpenAI


R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CallFailure:
    """A failed call, described without any part of the request."""

    reason: str
    """What to write after the model's name; empty with `status` or `unreadable`."""
    status: int | None = None
    body: object = None
    """The endpoint's error; it may quote the request."""
    unreadable: Exception | None = None
    """The error from parsing an answer with status 200."""
    cause: Exception | None = None
    """The cause to show; None if its text quotes the request."""
    omission: str = ""
    """The end of the message if there is a cause that is not shown."""


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """The validated connection arguments of a chat model or an embedder."""

    client: "AsyncOpenAI | None"
    base_url: str | None
    api_key: str | None
    max_retries: int | None
    timeout: float | None

    def __post_init__(self) -> None:
        client: object = self.client
        sync = getattr(sys.modules.get("openai"), "OpenAI", None)
        is_sync = isinstance(sync, type) and isinstance(client, sync)
        is_wrong = is_sync or isinstance(client, type) or not has_name(client, "api_key")
        if client is not None and is_wrong:
            raise TypeError(
                f"client must be an AsyncOpenAI, not {kind_of(client)}: client=AsyncOpenAI(...)"
            )
        key: object = self.api_key
        if key is not None and not isinstance(key, str) and not callable(key):
            raise TypeError(f"api_key must be a string, not {kind_of(key)}: api_key='sk-...'")
        if self.timeout is not None:
            expect_within(self.timeout, float, "timeout", "timeout=60.0", above=0)
        if self.client is not None and self._for_client():
            raise ValueError(
                "base_url, api_key and max_retries must be set on the client that is passed: "
                "client=AsyncOpenAI(base_url=..., api_key=...)"
            )

    def open(self, error: Callable[[str], Exception], resource: str) -> "AsyncOpenAI":
        """Open a client and load its `resource`."""
        try:
            import openai
        except ImportError as exc:
            message = "The openai package is not installed: pip install openai"
            raise MissingExtraError(message) from exc
        try:
            client = openai.AsyncOpenAI(**self._for_client())
        except openai.OpenAIError as exc:
            raise error(
                "The endpoint needs credentials: pass api_key or set OPENAI_API_KEY; a local "
                "server accepts any string"
            ) from exc
        # The package defers more slow imports to the first use of a resource.
        getattr(client, resource)
        return client

    def _for_client(self) -> dict[str, Any]:
        options = {
            "base_url": self.base_url,
            "api_key": self.api_key,
            "max_retries": self.max_retries,
        }
        return {name: value for name, value in options.items() if value is not None}


class OpenAIClient(Generic[R]):
    """Calls one resource of an endpoint: `chat` or `embeddings`.

    A client that was passed in is never closed. Otherwise one is opened per event loop, on first
    use.
    """

    def __init__(
        self, options: ClientOptions, resource: str, error: Callable[[str], Exception]
    ) -> None:
        self._options = options
        self._opened = PerLoopResource(lambda: options.open(error, resource), _close)

    async def aclose(self) -> None:
        """Close the client that was opened in the running event loop, if there is one."""
        await self._opened.aclose()

    async def call(
        self, request: Callable[["AsyncOpenAI"], Awaitable[R]], sent: Iterable[str]
    ) -> R | CallFailure:
        """Make one call, with the client's retries.

        Args:
            request: Makes the call and parses its answer. It raises `ValueError` if the answer
                cannot be parsed.
            sent: The strings in the request; no error may quote them.

        Raises:
            ValueError: The request contains characters that cannot be sent.
        """
        client = self._options.client or await self._opened.get()
        import openai

        failure: Exception | None = None
        is_sendable = True
        with anyio.move_on_after(self._options.timeout):
            try:
                return await request(client)
            except UnicodeEncodeError:
                is_sendable = False  # the error contains the whole request and is dropped
            except (openai.OpenAIError, ValueError, RecursionError) as exc:
                failure = exc
        if not is_sendable:
            raise ValueError("The request or the API key contains characters that cannot be sent")
        if failure is None:
            return CallFailure(f"did not answer within {self._options.timeout} seconds")
        return _described(failure, [client.api_key, *sent])


class OpensClients:
    """A context manager that closes the client which it opened in the running event loop."""

    _client: OpenAIClient[Any]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the client that was opened in the running event loop, if there is one."""
        await self._client.aclose()


async def _close(client: "AsyncOpenAI") -> None:
    await client.close()


def _described(exc: Exception, secrets: Iterable[str]) -> CallFailure:
    import openai

    if not isinstance(exc, openai.OpenAIError):
        return CallFailure("", unreadable=exc)
    is_repeating = repeats(_shown(exc), secrets)
    cause = None if is_repeating else exc
    omission = "; its message is left out, because it quotes the request" if is_repeating else ""
    if isinstance(exc, openai.APIStatusError):
        return CallFailure("", exc.status_code, exc.body, None, cause, omission)
    reason = "could not be called"
    if isinstance(exc, openai.APITimeoutError):
        reason = "did not answer within the client's timeout"
    elif isinstance(exc, openai.APIConnectionError):
        url = exc.request.url
        where = f"{url.host}:{url.port or url.scheme}"  # the rest of it may have a key
        reason = f"could not be reached at {where}, or closed the connection: "
        reason += "check base_url and network"
    return CallFailure(reason, cause=cause, omission=omission)


def _shown(exc: BaseException) -> str:
    """Return the messages of an error and of its causes, as a traceback shows them."""
    shown: list[str] = []
    seen: set[int] = set()
    rest: list[BaseException | None] = [exc]
    while rest:
        error = rest.pop()
        if error is not None and id(error) not in seen:
            seen.add(id(error))
            shown.append(str(error))
            rest += [error.__cause__, error.__context__]
    return "\n".join(shown)


_IGNORED_OFTEN = 2


class Format(IntEnum):
    """The formats to request, the most binding first."""

    STRICT_SCHEMA = 0
    SCHEMA = 1
    JSON_OBJECT = 2
    TEXT = 3


@dataclass(frozen=True, slots=True)
class Failure:
    """The error of a failed call, not raised yet."""

    error: ChatModelError
    cause: BaseException | None
    """The error's cause; None if its text would quote the prompt."""
    concern: Concern = "other"


Complete: TypeAlias = Callable[
    [Sequence[Message], dict[str, object]], Awaitable[ChatResponse | Failure]
]
"""Makes one call with these messages and these fields of the request."""


class Ladder:
    """The best format that an endpoint is known to support.

    It only descends, so concurrent tasks cannot undo each other's result.
    """

    def __init__(self) -> None:
        self.format: Format = Format.STRICT_SCHEMA
        self._ignored = 0

    def descend(self, to: Format) -> None:
        """Use `to` as the first format from now on."""
        self.format = max(self.format, to)

    def note_ignored(self, *, was_ignored: bool) -> None:
        """Count consecutive answers without any JSON, and descend to words after the second.

        An endpoint that ignores the response format returns such answers every time; any other
        endpoint does so only occasionally.
        """
        self._ignored = self._ignored + 1 if was_ignored else 0
        if self._ignored >= _IGNORED_OFTEN:
            self.descend(Format.TEXT)


class Asking(Generic[T]):
    """The calls of one extraction; uses the next format if the endpoint rejects one."""

    def __init__(self, ladder: Ladder, wanted: AnswerType[T], complete: Complete) -> None:
        self._ladder = ladder
        self._wanted = wanted
        self._complete = complete
        self._strict = strict_schema(wanted.schema)
        least = Format.STRICT_SCHEMA if self._strict is not None else Format.SCHEMA
        self._format = max(ladder.format, least)
        self.was_ignored: bool = False
        """Whether a request for JSON got an answer without any JSON."""

    async def __call__(self, messages: Sequence[Message], problem: Problem | None) -> ChatResponse:
        """Ask with the strictest format that the endpoint accepts."""
        if problem is not None and not problem.has_json:
            self.was_ignored = self._format is not Format.TEXT
            self._format = Format.TEXT
        refused = Usage()
        is_schema_refused = False
        while True:
            outcome = await self._complete(self._messages(messages, problem), self._request())
            if isinstance(outcome, ChatResponse):
                break
            is_of_format = outcome.concern in {"format", "schema"}
            if not is_of_format or self._format is Format.TEXT:
                outcome.error.usage += refused
                raise outcome.error from outcome.cause
            refused += Usage(calls=1)
            # Rejecting this schema does not mean that the endpoint rejects the next one.
            is_schema_refused = is_schema_refused or outcome.concern == "schema"
            below = Format(self._format + 1)
            # A loose schema is another schema, and no other format.
            self._format = below if outcome.concern == "schema" else max(below, Format.JSON_OBJECT)
        if refused.calls and not is_schema_refused:
            self._ladder.descend(self._format)
        return replace(outcome, usage=refused + outcome.usage)

    def _messages(self, messages: Sequence[Message], problem: Problem | None) -> Sequence[Message]:
        """Append the instruction in words, unless the endpoint enforces the schema.

        After an answer that does not fit they are always appended: it might not enforce it.
        """
        if self._format is Format.STRICT_SCHEMA and problem is None:
            return messages
        return with_words(messages, self._wanted.instruction())

    def _request(self) -> dict[str, object]:
        match self._format:
            case Format.TEXT:
                return {}
            case Format.JSON_OBJECT:
                return {"response_format": {"type": "json_object"}}
            case Format.STRICT_SCHEMA | Format.SCHEMA:
                is_strict = self._format is Format.STRICT_SCHEMA
                described = {
                    "name": self._wanted.name,
                    "schema": self._strict or self._wanted.schema,
                    "strict": is_strict,
                }
                return {"response_format": {"type": "json_schema", "json_schema": described}}


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


_PORT = 11434
_ANY = {"0.0.0.0", "::"}  # noqa: S104
"""Addresses that a server listens on, and that no client can call."""


def named_chat_model(name: str) -> ChatModel:
    """Return the chat model of a name such as `openai:gpt-4o-mini` or `ollama:qwen3`."""
    provider, _, model = name.partition(":")
    if model and provider == "openai":
        return OpenAIChatModel(model)
    if model and provider == "ollama":
        return OpenAIChatModel(model, base_url=ollama_url(), api_key="ollama")
    raise ValueError(
        "The name of a chat model must have provider and model: openai:gpt-4o-mini or ollama:qwen3"
    )


def ollama_url() -> str:
    """Return the address of Ollama's OpenAI interface.

    That of `OLLAMA_HOST`, else this machine's.
    """
    host = os.environ.get("OLLAMA_HOST") or "localhost"
    parts = urlsplit(host if "://" in host else f"http://{host}")
    name = parts.hostname or "localhost"
    if name in _ANY:
        name = "localhost"
    port = parts.port or (None if "://" in host else _PORT)
    address = f"[{name}]" if ":" in name else name
    return f"{parts.scheme}://{address}{'' if port is None else f':{port}'}/v1"
