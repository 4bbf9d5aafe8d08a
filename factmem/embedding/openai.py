"""OpenAIEmbedder: a client of any endpoint with OpenAI's embeddings API.

The `openai` package is imported on the first call, not with this module.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from factmem._arguments import expect_within
from factmem.embedding.base import EmbeddingModel, batches
from factmem.errors import EmbeddingError
from factmem.llm.openai import CallFailure, ClientOptions, OpenAIClient, OpensClients, complaint

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["OpenAIEmbedder"]


_LONGEST_REQUEST = 200_000
"""The maximum of characters in one request: OpenAI accepts 300,000 tokens, and a character is
rarely more than one."""


class OpenAIEmbedder(OpensClients, EmbeddingModel):
    """An embedding model of OpenAI, Azure, Ollama, vLLM, LM Studio or another compatible endpoint.

        embedder = OpenAIEmbedder("text-embedding-3-small")
        ollama = "http://localhost:11434/v1"
        embedder = OpenAIEmbedder("nomic-embed-text", base_url=ollama, api_key="-")

    Clients, event loops and retries are those of `OpenAIChatModel`, and so are `client`,
    `base_url`, `api_key`, `max_retries` and `timeout`. Cancelling a call closes its connection.

    Args:
        model: The model's name at the endpoint; on Azure the name of the deployment.
        dimensions: The length of vectors to request, if the model supports that; it is also
            checked. By default the model's own.
        batch_size: The maximum of strings in one request.

    Raises:
        ValueError: `model` is empty, a number is not positive, or options of a client are passed
            with a client.
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
        super().__init__(model, dimensions)
        self._parameters: dict[str, Any] = {"model": model, "encoding_format": "float"}
        if dimensions is not None:
            self._parameters["dimensions"] = dimensions
        self._client = OpenAIClient(options, "embeddings", EmbeddingError)
        self._batch_size = expect_within(batch_size, int, "batch_size", "batch_size=32", least=1)

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """See `Embedder.embed`. One request for each batch, in sequence.

        Raises:
            EmbeddingError: The endpoint rejected the request, failed, could not be reached, or
                returned no vectors.
            ValueError: A string or the API key contains characters that cannot be sent.
        """
        vectors: list[Sequence[float]] = []
        for batch in batches(texts, most=self._batch_size, characters=_LONGEST_REQUEST):
            given = await self._request(batch)
            vectors += self._validated(given, len(batch))
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
            reason = "returned an answer without embeddings"
        elif status == 413:
            reason = "got too much at once (HTTP 413): pass a smaller batch_size"
        elif status is not None:
            reason = complaint(status, failure.body, check="the model's name and dimensions")
        return EmbeddingError(f"{self._model!r} {reason}{failure.omission}", status=status)

    def _vectors(self, answer: object) -> object:
        data = getattr(answer, "data", None)
        if not isinstance(data, list):
            raise EmbeddingError(f"{self._model!r} returned an answer without embeddings")
        places = [getattr(item, "index", None) for item in data]
        vectors = [getattr(item, "embedding", None) for item in data]
        if all(place is None for place in places):  # some servers return no index
            return vectors
        if set(places) != set(range(len(data))):
            raise EmbeddingError(
                f"{self._model!r} returned embeddings of strings that were not sent"
            )
        return [vectors[places.index(place)] for place in range(len(data))]
