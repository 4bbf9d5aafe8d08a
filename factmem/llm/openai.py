"""A chat model behind any endpoint that speaks OpenAI's chat completions.

The `openai` package is imported on the first call, not with this module.
"""

import sys
from collections.abc import Mapping, Sequence
from json import JSONDecodeError
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, get_args

import anyio
from typing_extensions import TypeForm, TypeVar

from factmem._arguments import (
    has_name,
    kind_of,
    listed,
)
from factmem.concurrency.per_loop import PerLoopResource
from factmem.errors import ChatModelError, MissingExtraError
from factmem.llm._completion import MalformedCompletionError, chat_response
from factmem.llm._structured_output import (
    Asking,
    Failure,
    Ladder,
)
from factmem.llm.answer import AnswerType
from factmem.llm.api_errors import (
    complaint,
    concern_of,
    repeats,
    texts_of,
)
from factmem.llm.base import (
    ChatResponse,
    Extraction,
    Message,
    ToolDefinition,
)
from factmem.llm.extraction import converse
from factmem.llm.messages import dicts_of
from factmem.usage import Usage

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["OpenAIChatModel", "StructuredOutput"]


T = TypeVar("T")

StructuredOutput: TypeAlias = Literal["auto", "json_schema", "json_object", "text"]
"""How to ask for JSON: with its schema, in JSON mode, in words, or as far up as is taken."""

_UNREADABLE = (MalformedCompletionError, JSONDecodeError, UnicodeError, RecursionError)


class OpenAIChatModel:
    """A model of OpenAI, Azure, Ollama, vLLM, LM Studio or another compatible endpoint.

        model = OpenAIChatModel("gpt-4o-mini")
        model = OpenAIChatModel("qwen3", base_url="http://localhost:11434/v1", api_key="none")

    An instance serves any number of tasks, threads and event loops at once. The client that it
    opens for itself is opened once in each event loop, on first use; `aclose`, or leaving
    `async with`, closes the one of the running loop, and the next call opens another. A client
    that is passed in is used as it is, in the event loop that it belongs to, and stays open.

    Rate limits, server errors and broken connections are retried by the client alone, as often as
    its `max_retries` says; none of it counts as a call. Cancelling a call closes its connection.

    Args:
        model: The model's name at the endpoint; on Azure the deployment's.
        client: An `AsyncOpenAI`, or one of its subclasses such as `AsyncAzureOpenAI`.
        structured_output: How `extract` asks for JSON. `auto` sends the schema, and where the
            endpoint refuses that, asks for any JSON, then in words only; a refusal costs a call,
            and what worked is remembered for the life of the instance.
        base_url: The endpoint, when no client is passed in; else `OPENAI_BASE_URL`, else OpenAI.
        api_key: Its key, when no client is passed in; else `OPENAI_API_KEY`. A local server takes
            any text.
        max_retries: The client's retries, when no client is passed in; 2 if not given.
        timeout: Seconds that one call may take, the client's retries included. Without it the
            client's own time-outs hold: 10 minutes of silence for each attempt.
        temperature: Sent with each call if given; some models refuse it.
        extra_body: More fields of each request: `{"max_completion_tokens": 4000}`.

    Raises:
        TypeError: An argument is of the wrong kind, such as a client in the place of the name.
        ValueError: A name that is empty, an unknown `structured_output`, a time-out that is not
            positive, or options of a client beside a client.
    """

    def __init__(
        self,
        model: str,
        *,
        client: "AsyncOpenAI | None" = None,
        structured_output: StructuredOutput = "auto",
        base_url: str | None = None,
        api_key: str | None = None,
        max_retries: int | None = None,
        timeout: float | None = None,
        temperature: float | None = None,
        extra_body: Mapping[str, object] | None = None,
    ) -> None:
        _check(model, structured_output, timeout)
        _check_client(client, api_key)
        if client is not None and (base_url, api_key, max_retries) != (None, None, None):
            raise ValueError("a client was given: give base_url, api_key and max_retries to it")
        self._base_url = base_url
        self._api_key = api_key
        self._max_retries = max_retries
        self.model = model
        self._client = client
        self._own_clients = PerLoopResource(self._opened_client, _close)
        self._timeout = timeout
        self._parameters: dict[str, object] = {"model": model}
        if temperature is not None:
            self._parameters["temperature"] = temperature
        if extra_body is not None and not isinstance(extra_body, Mapping):
            raise TypeError(
                f"extra_body is a dict of fields, not {kind_of(extra_body)}: "
                f"extra_body={{'max_completion_tokens': 4000}}"
            )
        if extra_body:
            self._parameters["extra_body"] = dict(extra_body)
        self._ladder = Ladder(
            "json_schema" if structured_output == "auto" else structured_output,
            is_fixed=structured_output != "auto",
        )

    def __repr__(self) -> str:
        return f"OpenAIChatModel({self.model!r})"

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
        """Close the client that this model opened in the running event loop, if it did."""
        await self._own_clients.aclose()

    async def respond(
        self, messages: Sequence[Message], *, tools: Sequence[ToolDefinition] = ()
    ) -> ChatResponse:
        """See `ChatModel.respond`. An answer that was cut off has the finish reason `length`."""
        offered = listed(tools, "tools are a list of definitions", "tools=[tool.definition]")
        for tool in offered:
            if not isinstance(tool, Mapping):
                raise TypeError(
                    f"A tool is told by its definition, a dict, not {kind_of(tool)}: "
                    f"tools=[tool.definition]"
                )
        request: dict[str, object] = {"tools": [dict(tool) for tool in offered]} if offered else {}
        outcome = await self._complete(messages, request)
        if isinstance(outcome, Failure):
            raise outcome.error from outcome.cause
        return outcome

    async def extract(self, messages: Sequence[Message], output_type: TypeForm[T]) -> Extraction[T]:
        """See `ChatModel.extract`. One call; one more for a repair, and for each refusal."""
        wanted = AnswerType(output_type)
        asking = Asking(self._ladder, wanted, self._complete)
        extraction = await converse(asking, messages, wanted)
        self._ladder.note_ignored(was_ignored=asking.was_ignored)
        return extraction

    def _opened_client(self) -> "AsyncOpenAI":
        try:
            import openai
        except ImportError as exc:
            message = "the openai package is not installed: pip install openai"
            raise MissingExtraError(message) from exc
        retries = openai.DEFAULT_MAX_RETRIES if self._max_retries is None else self._max_retries
        try:
            client = openai.AsyncOpenAI(
                base_url=self._base_url, api_key=self._api_key, max_retries=retries
            )
        except openai.OpenAIError as exc:
            message = (
                "there are no credentials for the endpoint: give api_key, or set OPENAI_API_KEY; "
                "a local server takes any text"
            )
            raise ChatModelError(message, usage=Usage()) from exc
        # The package puts off more imports, which take long too, to the first use of this.
        _ = client.chat.completions
        return client

    async def _complete(
        self, messages: Sequence[Message], request: Mapping[str, object]
    ) -> ChatResponse | Failure:
        """Make one call. A failure is returned, for the ladder to judge before it is raised."""
        sent = dicts_of(messages)
        if not sent:
            raise ValueError("there are no messages: give at least one")
        client = self._client or await self._own_clients.get()
        import openai

        parameters: dict[str, Any] = {**self._parameters, **request, "messages": sent}
        outcome: ChatResponse | Exception | None = None
        is_sendable = True
        with anyio.move_on_after(self._timeout):
            try:
                outcome = _response(await client.chat.completions.create(**parameters))
            except UnicodeEncodeError:
                is_sendable = False  # and the error, which holds the whole request, is dropped
            except (openai.OpenAIError, *_UNREADABLE) as exc:
                outcome = exc
        if isinstance(outcome, ChatResponse):
            return outcome
        if not is_sendable:
            raise ValueError("a message or the API key holds characters that cannot be sent")
        if outcome is None:
            message = f"{self.model!r} did not answer within {self._timeout} seconds"
            return Failure(ChatModelError(message), None)
        return self._failed(outcome, [client.api_key, *texts_of(sent)])

    def _failed(self, exc: Exception, secrets: Sequence[str]) -> Failure:
        import openai

        if not isinstance(exc, openai.OpenAIError):
            why = f"it {exc}" if isinstance(exc, MalformedCompletionError) else "it is no JSON"
            message = f"what {self.model!r} answered is no chat completion: {why}"
            return Failure(ChatModelError(message), None)
        is_repeating = repeats(_shown(exc), secrets)
        cause = None if is_repeating else exc
        omission = "; its own words repeat the messages and are left out" if is_repeating else ""
        if isinstance(exc, openai.APIStatusError):
            concern = concern_of(exc.status_code, exc.body)
            happened = complaint(exc.status_code, exc.body, concern)
            error = ChatModelError(f"{self.model!r} {happened}{omission}", status=exc.status_code)
            return Failure(error, cause, concern)
        happened = "could not be asked"
        if isinstance(exc, openai.APITimeoutError):
            happened = "did not answer within the client's time-out"
        elif isinstance(exc, openai.APIConnectionError):
            happened = "could not be reached, or broke off its answer: check base_url and network"
        return Failure(ChatModelError(f"{self.model!r} {happened}{omission}"), cause)


def _check(model: str, structured_output: str, timeout: float | None) -> None:
    if not isinstance(model, str):
        raise TypeError(
            f"model is a name, a text, not {kind_of(model)}: OpenAIChatModel('gpt-4o-mini')"
        )
    if not model.strip():
        raise ValueError("model is empty: name one that the endpoint knows")
    if structured_output not in get_args(StructuredOutput):
        allowed = ", ".join(get_args(StructuredOutput))
        message = f"unknown structured_output {structured_output!r}: use one of {allowed}"
        raise ValueError(message)
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if timeout is not None and not is_number:
        raise TypeError(f"timeout is a number of seconds, not {kind_of(timeout)}: timeout=60.0")
    if timeout is not None and not timeout > 0:
        raise ValueError("timeout must be more than 0 seconds, or None for the client's own")


def _check_client(client: object, api_key: object) -> None:
    sync = getattr(sys.modules.get("openai"), "OpenAI", None)
    is_sync = isinstance(sync, type) and isinstance(client, sync)
    if client is not None and (is_sync or isinstance(client, type) or not has_name(client, "chat")):
        raise TypeError(
            f"client is an AsyncOpenAI, not {kind_of(client)}: "
            f"OpenAIChatModel(name, client=AsyncOpenAI(...))"
        )
    if api_key is not None and not isinstance(api_key, str) and not callable(api_key):
        raise TypeError(f"api_key is a text, not {kind_of(api_key)}")


async def _close(client: "AsyncOpenAI") -> None:
    await client.close()


def _response(completion: object) -> ChatResponse:
    from openai import BaseModel

    if isinstance(completion, BaseModel):
        return chat_response(completion.to_dict(mode="python", warnings=False))
    return chat_response(completion)


def _shown(exc: BaseException) -> str:
    """Return what a traceback shows of an error and of all that led to it."""
    texts: list[str] = []
    seen: set[int] = set()
    rest: list[BaseException | None] = [exc]
    while rest:
        error = rest.pop()
        if error is not None and id(error) not in seen:
            seen.add(id(error))
            texts.append(str(error))
            rest += [error.__cause__, error.__context__]
    return "\n".join(texts)
