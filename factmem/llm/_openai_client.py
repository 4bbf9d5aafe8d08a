"""The client of the `openai` package, shared by the chat model and the embedder.

It opens a client per event loop, limits the time of a call and describes failures without quoting
the request. The package is imported on the first call, because the import takes a second. Versions
from 2.30 on are supported, built on httpx or on httpx2: nothing here imports either.
"""

import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self

import anyio
from typing_extensions import TypeVar

from factmem._arguments import expect_within, has_name, kind_of
from factmem._concurrency.per_loop import PerLoopResource
from factmem.errors import MissingExtraError
from factmem.llm._api_errors import repeats

if TYPE_CHECKING:
    from openai import AsyncOpenAI

R = TypeVar("R")


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
    """The validated connection arguments of a chat model or an embedder.

    Raises:
        TypeError: `client` is not an `AsyncOpenAI`, or another argument has the wrong type.
        ValueError: `timeout` is not positive, or options of a client are passed with a client.
    """

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
        """Open a client and load its `resource`.

        Raises:
            MissingExtraError: The package is not installed.
        """
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

    Args:
        options: The connection arguments.
        resource: The attribute of the client to use.
        error: Creates the error for missing credentials.
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
        reason = "could not be reached, or closed the connection: check base_url and network"
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
