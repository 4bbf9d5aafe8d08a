"""OpenAIEmbedder: a client of any endpoint with OpenAI's embeddings API.

The `openai` package is imported on the first call, not with this module.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from factmem._arguments import expect_within
from factmem.errors import EmbeddingError
from factmem.llm.openai import CallFailure, ClientOptions, OpenAIClient, OpensClients, complaint

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["OpenAIEmbedder"]


class EmbeddingModel:
    """The name and the dimensions of an embedding model, and the validation of its vectors.

    Args:
        model: The name under which vectors are stored.
        dimensions: The expected length of a vector; by default that of the first one.

    Raises:
        TypeError: `dimensions` is not an int.
        ValueError: `model` is empty or not a string, or `dimensions` is less than 1.
    """

    def __init__(self, model: str, dimensions: int | None) -> None:
        given: object = model
        if not isinstance(given, str) or not given.strip():
            message = "model must be a non-empty string: its vectors are stored under this name"
            raise ValueError(message)
        if dimensions is not None:
            expect_within(dimensions, int, "dimensions", "dimensions=384", least=1)
        self._model = model
        self._dimensions = dimensions

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model!r})"

    @property
    def model(self) -> str:
        """The name of the model. Only vectors of the same model are compared."""
        return self._model

    @property
    def dimensions(self) -> int | None:
        """The length of a vector; None while it is unknown."""
        return self._dimensions

    def _validated(self, given: object, count: int) -> "list[array[float]]":
        """Validate the vectors of `count` strings, and keep their length for later ones."""
        vectors = checked_vectors(
            given, count=count, dimensions=self._dimensions, model=self._model
        )
        self._dimensions = len(vectors[0])
        return vectors


def checked_vectors(
    given: object, *, count: int, dimensions: int | None, model: str
) -> "list[array[float]]":
    """Validate the vectors of `count` strings and convert them to single precision.

    Accepts lists, tuples, numpy arrays and torch tensors.

    Raises:
        EmbeddingError: The number of vectors is wrong, the length of a vector differs from
            `dimensions` or from the first one, or a number is not finite. The last may be caused by
            one string, because models in half precision return NaN for some; then the cause is a
            `ValueError`.
    """
    vectors = [_vector(row, model) for row in _items(given, model)]
    if len(vectors) != count:
        raise EmbeddingError(f"{model!r} returned {len(vectors)} vectors for {count} strings")
    for vector in vectors:
        dimensions = dimensions or len(vector)
        if len(vector) != dimensions:
            raise EmbeddingError(
                f"{model!r} returned a vector of {len(vector)} dimensions instead of {dimensions}: "
                f"check the model's name and its dimensions"
            )
    return vectors


def _vector(row: object, model: str) -> "array[float]":
    try:
        vector = array("f", _items(row, model))
    except (TypeError, ValueError, OverflowError):
        vector = array("f")
    # The sum of single-precision numbers cannot overflow a double: it is finite if they all are.
    if not vector or not isfinite(sum(vector)):
        failure = EmbeddingError(
            f"{model!r} returned a vector that is not a list of finite numbers"
        )
        raise failure from ValueError("The model may have no vector for one of the strings")
    return vector


def _items(given: object, model: str) -> Iterable[float]:
    as_list = getattr(given, "tolist", None)
    items: object = as_list() if callable(as_list) else given
    if not isinstance(items, Sequence) or isinstance(items, str | bytes):
        raise EmbeddingError(
            f"{model!r} returned {type(given).__name__} instead of a list of vectors"
        )
    return items


def batches(texts: Sequence[str], *, most: int, characters: int) -> Iterator[Sequence[str]]:
    """Split strings into batches of at most `most` strings and about `characters` characters."""
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and (len(batch) == most or size + len(text) > characters):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch


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
