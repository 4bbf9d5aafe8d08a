"""The Embedder protocol, one vector for each string; the base of embedders; CallableEmbedder."""

from array import array
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from inspect import isawaitable, iscoroutinefunction
from math import isfinite
from typing import Protocol, TypeAlias, runtime_checkable

from factmem._arguments import expect_function, expect_within
from factmem._concurrency import Workers
from factmem.errors import EmbeddingError

__all__ = ["CallableEmbedder", "Embedder", "QueryEmbedder"]


@runtime_checkable
class Embedder(Protocol):
    """Converts strings to vectors; strings with similar meaning get vectors of similar direction.

    Implement these members; no base class is needed. Any number of tasks may call an instance at
    once. `factmem.embedding.base.CallableEmbedder` is an embedder for a plain function.
    """

    @property
    def model(self) -> str:
        """The name of the model. Only vectors of the same model are compared."""
        ...

    @property
    def dimensions(self) -> int | None:
        """The length of a vector; None while it is unknown."""
        ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector for each string, in order, all of one length.

        factmem passes up to 512 strings at a time, none of them empty or longer than 4,000
        characters. Only the direction of a vector counts, not its norm.

        Raises:
            EmbeddingError: The request was rejected or failed, or the model could not be reached. A
                `status` of 400, 413 or 422, or a `ValueError` as its cause, means that one of the
                strings is invalid: factmem finds it and embeds the others.
        """
        ...


@runtime_checkable
class QueryEmbedder(Embedder, Protocol):
    """An embedder whose model embeds questions differently from documents."""

    async def embed_queries(self, queries: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector for each question. Raises the errors of `embed`."""
        ...


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


EmbeddingFunction: TypeAlias = Callable[
    [list[str]], Sequence[Sequence[float]] | Awaitable[Sequence[Sequence[float]]]
]
"""Takes strings and returns one vector for each, directly or as an awaitable. Vectors may be lists,
tuples, numpy arrays or torch tensors, even where a type checker rejects these."""


class CallableEmbedder(EmbeddingModel):
    """An `Embedder` that calls a function from strings to vectors.

        embedder = CallableEmbedder(my_function, model="my-model-v2")

    A plain function runs in a worker thread and may block; several calls may run at once. A
    coroutine function is awaited. If a call is cancelled, a plain function finishes in its thread
    and its result is discarded.

    Args:
        function: Takes a list of strings and returns one vector for each, in order.
        model: The name under which vectors are stored and compared. Change it when the function
            starts to return different vectors.
        dimensions: The expected length of a vector; by default that of the first one.

    Raises:
        ValueError: `model` is empty, or `dimensions` is not positive.
        TypeError: `function` is not a function.
    """

    def __init__(
        self, function: EmbeddingFunction, *, model: str, dimensions: int | None = None
    ) -> None:
        example = "CallableEmbedder(function, model='my-model-v1')"
        self._function = expect_function(function, "function", example)
        super().__init__(model, dimensions)
        self._workers = Workers(abandon=True)

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """See `Embedder.embed`. An exception of the function is the cause of the error."""
        if not texts:
            return []
        try:
            given = await self._call(list(texts))
        except EmbeddingError:
            raise
        except Exception as exc:
            message = f"The embedding function of {self._model!r} raised {type(exc).__name__}"
            raise EmbeddingError(message) from exc
        return self._validated(given, len(texts))

    async def _call(self, texts: list[str]) -> object:
        function = self._function
        given: object
        if iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__):
            given = function(texts)
        else:
            # In a list, because trio rejects a coroutine as the result of a thread.
            given, *_ = await self._workers.run(lambda: [function(texts)])
        return await given if isawaitable(given) else given
