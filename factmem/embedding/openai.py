"""An embedder behind any endpoint that speaks OpenAI's embeddings.

The `openai` package is imported on the first call, not with this module.
"""

from collections.abc import Sequence
from json import JSONDecodeError
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio

from factmem.concurrency.per_loop import PerLoopResource
from factmem.embedding.vectors import (
    batches,
    checked_dimensions,
    checked_name,
    checked_vectors,
)
from factmem.errors import EmbeddingError, MissingExtraError
from factmem.llm.api_errors import repeats

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["OpenAIEmbedder"]


_LONGEST_REQUEST = 200_000
"""Characters in one request: OpenAI takes 300,000 tokens, and a character is seldom more than one."""

_BY_STATUS = {
    400: ("refused the request", "check the model's name and dimensions"),
    401: ("refused the credentials", "check api_key or OPENAI_API_KEY"),
    403: ("does not allow this", "check what the API key may do"),
    404: ("was not found", "check the model's name and base_url"),
    413: ("was given too much at once", "give a smaller batch_size"),
    422: ("refused the request", "check the model's name and dimensions"),
    429: ("limits the rate or has used up its quota", "wait, or ask less often"),
}


class OpenAIEmbedder:
    """An embedding model of OpenAI, Azure, Ollama, vLLM, LM Studio or another compatible endpoint.

        embedder = OpenAIEmbedder("text-embedding-3-small")
        embedder = OpenAIEmbedder("nomic-embed-text", base_url="http://localhost:11434/v1", api_key="-")

    An instance serves any number of tasks, threads and event loops at once. The client that it
    opens for itself is opened once in each event loop, on first use; `aclose`, or leaving
    `async with`, closes the one of the running loop, and the next call opens another. A client
    that is passed in is used as it is, in the event loop that it belongs to, and stays open.

    Rate limits, server errors and broken connections are retried by the client alone, as often as
    its `max_retries` says. Cancelling a call closes its connection.

    Args:
        model: The model's name at the endpoint; on Azure the deployment's.
        client: An `AsyncOpenAI`, or one of its subclasses such as `AsyncAzureOpenAI`.
        dimensions: Asks for vectors of so many numbers, which some models can; also checked. If
            not given it is what the model gives.
        base_url: The endpoint, when no client is passed in; else `OPENAI_BASE_URL`, else OpenAI.
        api_key: Its key, when no client is passed in; else `OPENAI_API_KEY`. A local server takes
            any text.
        max_retries: The client's retries, when no client is passed in; 2 if not given.
        timeout: Seconds that one request may take, the client's retries included. Without it the
            client's own time-outs hold.
        batch_size: How many texts one request holds at most.

    Raises:
        ValueError: A name that is empty, a number that is not positive, or options of a client
            beside a client.
    """

    def __init__(
        self,
        model: str,
        *,
        client: "AsyncOpenAI | None" = None,
        dimensions: int | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        max_retries: int | None = None,
        timeout: float | None = None,
        batch_size: int = 256,
    ) -> None:
        if client is not None and (base_url, api_key, max_retries) != (None, None, None):
            raise ValueError("a client was given: give base_url, api_key and max_retries to it")
        if timeout is not None and not timeout > 0:
            raise ValueError("timeout must be more than 0 seconds, or None for the client's own")
        if batch_size < 1:
            raise ValueError("batch_size must be 1 or more")
        self._model = checked_name(model)
        self._dimensions = checked_dimensions(dimensions)
        self._parameters: dict[str, Any] = {"model": model, "encoding_format": "float"}
        if dimensions is not None:
            self._parameters["dimensions"] = dimensions
        self._options = {"base_url": base_url, "api_key": api_key, "max_retries": max_retries}
        self._client = client
        self._own_clients = PerLoopResource(self._opened_client, _close)
        self._timeout = timeout
        self._batch_size = batch_size

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self._model!r})"

    @property
    def model(self) -> str:
        """See `Embedder.model`."""
        return self._model

    @property
    def dimensions(self) -> int | None:
        """See `Embedder.dimensions`."""
        return self._dimensions

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
        """Close the client that this embedder opened in the running event loop, if it did."""
        await self._own_clients.aclose()

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """See `Embedder.embed`. One request for each batch, one after the other.

        Raises:
            EmbeddingError: The endpoint refused, failed, could not be reached, or gave no vectors.
            ValueError: A text, or the API key, holds characters that cannot be sent.
        """
        vectors: list[Sequence[float]] = []
        for batch in batches(texts, most=self._batch_size, characters=_LONGEST_REQUEST):
            given = await self._request(batch)
            checked = checked_vectors(
                given, count=len(batch), dimensions=self._dimensions, model=self._model
            )
            self._dimensions = len(checked[0])
            vectors += checked
        return vectors

    def _opened_client(self) -> "AsyncOpenAI":
        try:
            import openai
        except ImportError as exc:
            message = "the openai package is not installed: pip install openai"
            raise MissingExtraError(message) from exc
        given: dict[str, Any] = {
            name: value for name, value in self._options.items() if value is not None
        }
        try:
            client = openai.AsyncOpenAI(**given)
        except openai.OpenAIError as exc:
            message = (
                "there are no credentials for the endpoint: give api_key, or set OPENAI_API_KEY; "
                "a local server takes any text"
            )
            raise EmbeddingError(message) from exc
        _ = client.embeddings  # the package puts off imports to the first use of this
        return client

    async def _request(self, batch: Sequence[str]) -> object:
        client = self._client or await self._own_clients.get()
        import openai

        answer: object = None
        failure: Exception | None = None
        is_sendable = True
        with anyio.move_on_after(self._timeout):
            try:
                answer = await client.embeddings.create(input=list(batch), **self._parameters)
            except UnicodeEncodeError:
                is_sendable = False  # and the error, which holds the whole request, is dropped
            except (openai.OpenAIError, JSONDecodeError, UnicodeError, ValueError) as exc:
                failure = exc
        if not is_sendable:
            raise ValueError("a text or the API key holds characters that cannot be sent")
        if failure is not None:
            raise self._failed(failure) from self._cause(failure, [client.api_key, *batch])
        if answer is None:
            raise EmbeddingError(f"{self._model!r} did not answer within {self._timeout} seconds")
        return self._vectors(answer)

    def _failed(self, exc: Exception) -> EmbeddingError:
        import openai

        status = None
        if isinstance(exc, openai.APIStatusError):
            status = exc.status_code
            what, advice = _BY_STATUS.get(status, ("failed", "try again later"))
            happened = f"{what} (HTTP {status}): {advice}"
        elif isinstance(exc, openai.APITimeoutError):
            happened = "did not answer within the client's time-out"
        elif isinstance(exc, openai.APIConnectionError):
            happened = "could not be reached, or broke off its answer: check base_url and network"
        else:
            happened = "gave an answer that holds no embeddings"
        return EmbeddingError(f"{self._model!r} {happened}", status=status)

    @staticmethod
    def _cause(exc: Exception, secrets: Sequence[str]) -> Exception | None:
        """Return the cause to show; None where the endpoint's words repeat what it was sent."""
        import openai

        told = isinstance(exc, openai.APIStatusError | openai.APIConnectionError)
        return exc if told and not repeats(f"{exc}\n{exc.__cause__}", secrets) else None

    def _vectors(self, answer: object) -> object:
        """Return the vectors of an answer in the order of the texts."""
        data = getattr(answer, "data", None)
        if not isinstance(data, list):
            raise EmbeddingError(f"{self._model!r} gave an answer that holds no embeddings")
        places = [getattr(item, "index", None) for item in data]
        vectors = [getattr(item, "embedding", None) for item in data]
        if all(place is None for place in places):  # some servers do not number them
            return vectors
        if set(places) != set(range(len(data))):
            raise EmbeddingError(f"{self._model!r} gave embeddings of texts that were not sent")
        return [vectors[places.index(place)] for place in range(len(data))]


async def _close(client: "AsyncOpenAI") -> None:
    await client.close()
