"""LiteLLMEmbedder: an embedder for every service that LiteLLM supports.

Azure, Bedrock, Cohere, Gemini, Hugging Face, Jina, Mistral, Vertex, Voyage, WatsonX and more. The
`litellm` package (`pip install 'factmem[litellm]'`) is imported on the first call.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from factmem._concurrency import Workers
from factmem.embedding.base import EmbeddingModel, batches
from factmem.errors import EmbeddingError, MissingExtraError

__all__ = ["LiteLLMEmbedder"]

_LONGEST_REQUEST = 100_000
"""The maximum of characters in one request: below the lowest limit of the services."""

_MOST_STRINGS = 96
"""The maximum of strings in one request: Cohere accepts no more."""


class LiteLLMEmbedder(EmbeddingModel):
    """An embedding model by its LiteLLM name, such as "voyage/voyage-3.5".

        embedder = LiteLLMEmbedder(
            "cohere/embed-multilingual-v3.0",
            document_options={"input_type": "search_document"},
            query_options={"input_type": "search_query"},
        )

    LiteLLM handles credentials: pass them in `options`, or set the environment variables that its
    documentation lists for each service. Calls run in worker threads, on asyncio and trio. If a
    call is cancelled, its request finishes and its result is discarded. Any number of tasks,
    threads and event loops may use an instance at once.

    Args:
        model: The name of the model, prefixed with the service.
        dimensions: The length of vectors to request, if the model supports that; it is also
            checked. By default the model's own.
        options: Further arguments of `litellm.embedding`: `api_key`, `api_base`, `timeout`,
            `num_retries` and so on.
        document_options: Further arguments for documents only.
        query_options: Further arguments for questions only.

    Raises:
        ValueError: `model` is empty, or `dimensions` is not positive.
    """

    def __init__(
        self,
        model: str,
        *,
        dimensions: int | None = None,
        options: Mapping[str, Any] | None = None,
        document_options: Mapping[str, Any] | None = None,
        query_options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(model, dimensions)
        shared: dict[str, Any] = dict(options or {})
        if dimensions is not None:
            shared["dimensions"] = dimensions
        self._for_documents: dict[str, Any] = {**shared, **(document_options or {})}
        self._for_queries: dict[str, Any] = {**shared, **(query_options or {})}
        self._workers = Workers(abandon=True)

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """See `Embedder.embed`. One request for each batch, in sequence.

        Raises:
            EmbeddingError: The service rejected the request, failed, could not be reached, or
                returned no vectors.
            MissingExtraError: `litellm` is not installed.
        """
        return await self._embed(texts, self._for_documents)

    async def embed_queries(self, queries: Sequence[str]) -> Sequence[Sequence[float]]:
        """See `QueryEmbedder.embed_queries`."""
        return await self._embed(queries, self._for_queries)

    async def _embed(
        self, texts: Sequence[str], options: Mapping[str, Any]
    ) -> Sequence[Sequence[float]]:
        vectors: list[Sequence[float]] = []
        for batch in batches(texts, most=_MOST_STRINGS, characters=_LONGEST_REQUEST):
            given = await self._workers.run(partial(self._request, list(batch), options))
            vectors += self._validated(given, len(batch))
        return vectors

    def _request(self, batch: list[str], options: Mapping[str, Any]) -> object:
        try:
            litellm: Any = import_module("litellm")
        except ImportError as exc:
            raise MissingExtraError(
                "Embedding with LiteLLM needs its package: pip install 'factmem[litellm]'"
            ) from exc
        try:
            answer = litellm.embedding(model=self._model, input=batch, **options)
        except Exception as exc:  # noqa: BLE001 - each service raises different errors
            # The message may quote the request: no cause.
            status = getattr(exc, "status_code", None)
            raise EmbeddingError(
                f"{self._model!r} could not be called through LiteLLM ({type(exc).__name__}): "
                "check the model's name, its credentials and the network",
                status=status if isinstance(status, int) else None,
            ) from None
        return self._vectors(answer)

    def _vectors(self, answer: Any) -> object:
        try:
            return [_member(item, "embedding") for item in answer.data]
        except (TypeError, AttributeError, KeyError):
            raise EmbeddingError(f"{self._model!r} returned an answer without embeddings") from None


def _member(item: Any, name: str) -> object:
    """Return a member of an item; some services return dicts, others objects."""
    found: object = item[name] if isinstance(item, Mapping) else getattr(item, name)
    return found
