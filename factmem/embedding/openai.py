"""An embedder behind any endpoint that speaks OpenAI's embeddings.

The `openai` package is imported on the first call, not with this module.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from factmem.embedding.vectors import batches, checked_dimensions, checked_name, checked_vectors
from factmem.errors import EmbeddingError
from factmem.llm.api_errors import complaint
from factmem.llm.openai_client import CallFailure, ClientOptions, OpenAIClient

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["OpenAIEmbedder"]


_LONGEST_REQUEST = 200_000
"""Characters in one request: OpenAI takes 300,000 tokens, and a character is seldom more than one."""


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
        options = ClientOptions(client, base_url, api_key, max_retries, timeout)
        if batch_size < 1:
            raise ValueError("batch_size must be 1 or more")
        self._model = checked_name(model)
        self._dimensions = checked_dimensions(dimensions)
        self._parameters: dict[str, Any] = {"model": model, "encoding_format": "float"}
        if dimensions is not None:
            self._parameters["dimensions"] = dimensions
        self._client: OpenAIClient[object] = OpenAIClient(options, "embeddings", EmbeddingError)
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
        await self._client.aclose()

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

    async def _request(self, batch: Sequence[str]) -> object:
        async def ask(client: "AsyncOpenAI") -> object:
            return await client.embeddings.create(input=list(batch), **self._parameters)

        outcome = await self._client.call(ask, batch)
        if isinstance(outcome, CallFailure):
            raise self._failed(outcome) from outcome.cause
        return self._vectors(outcome)

    def _failed(self, failure: CallFailure) -> EmbeddingError:
        reason, status = failure.reason, failure.status
        if failure.unreadable is not None:
            reason = "gave an answer that holds no embeddings"
        elif status == 413:
            reason = "was given too much at once (HTTP 413): pass a smaller batch_size"
        elif status is not None:
            reason = complaint(status, failure.body, check="the model's name and dimensions")
        return EmbeddingError(f"{self._model!r} {reason}{failure.omission}", status=status)

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
