"""An embedder made of a plain function."""

from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable, iscoroutinefunction
from typing import TypeAlias

from factmem.concurrency.workers import Workers
from factmem.embedding.vectors import checked_dimensions, checked_name, checked_vectors
from factmem.errors import EmbeddingError

__all__ = ["CallableEmbedder", "EmbeddingFunction"]


EmbeddingFunction: TypeAlias = Callable[
    [list[str]], Sequence[Sequence[float]] | Awaitable[Sequence[Sequence[float]]]
]
"""Takes texts and gives one vector for each, at once or awaited. Lists, tuples, numpy's arrays and
torch's tensors are taken for vectors, whatever a type checker says."""


class CallableEmbedder:
    """An `Embedder` over any function from texts to vectors.

        embedder = CallableEmbedder(my_function, model="my-model-v2")

    A plain function runs in a worker thread, so that it may block; several calls may run at once.
    A coroutine function is awaited. When a call is cancelled a plain function runs on to its end,
    and what it gives is dropped.

    Args:
        function: Takes a list of texts and gives one vector for each, in their order.
        model: Names what the vectors are made by. Give another name whenever the function would
            give other vectors: those of one name are compared with one another, and kept.
        queries: Another function for questions, for models that tell them from what is to be found.
        dimensions: How many numbers a vector has, to be checked; learnt from the first one if not
            given.

    Raises:
        ValueError: `model` is empty, or `dimensions` is not positive.
        TypeError: `function` or `queries` is no function.
    """

    def __init__(
        self,
        function: EmbeddingFunction,
        *,
        model: str,
        queries: EmbeddingFunction | None = None,
        dimensions: int | None = None,
    ) -> None:
        for each in (function, queries or function):
            if not callable(each):
                raise TypeError(
                    f"An embedder is made of a function from texts to vectors, not of "
                    f"{type(each).__name__}"
                )
        self._function = function
        self._queries = queries or function
        self._model = checked_name(model)
        self._dimensions = checked_dimensions(dimensions)
        self._workers = Workers(abandon=True)

    def __repr__(self) -> str:
        return f"CallableEmbedder(model={self._model!r})"

    @property
    def model(self) -> str:
        """See `Embedder.model`."""
        return self._model

    @property
    def dimensions(self) -> int | None:
        """See `Embedder.dimensions`."""
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """See `Embedder.embed`. What the function raises is the error's cause."""
        return await self._call(self._function, texts)

    async def embed_queries(self, queries: Sequence[str]) -> Sequence[Sequence[float]]:
        """See `QueryEmbedder.embed_queries`."""
        return await self._call(self._queries, queries)

    async def _call(
        self, function: EmbeddingFunction, texts: Sequence[str]
    ) -> Sequence[Sequence[float]]:
        if not texts:
            return []
        try:
            given = await self._called(function, list(texts))
        except EmbeddingError:
            raise
        except Exception as exc:
            message = f"the function that embeds for {self._model!r} raised {type(exc).__name__}"
            raise EmbeddingError(message) from exc
        vectors = checked_vectors(
            given, count=len(texts), dimensions=self._dimensions, model=self._model
        )
        self._dimensions = len(vectors[0])
        return vectors

    async def _called(self, function: EmbeddingFunction, texts: list[str]) -> object:
        """Call a function where it does not block the event loop."""
        given: object
        if iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__):
            given = function(texts)
        else:
            # In a list, since trio lets no coroutine out of a thread: the function may make one.
            given, *_ = await self._workers.run(lambda: [function(texts)])
        return await given if isawaitable(given) else given
