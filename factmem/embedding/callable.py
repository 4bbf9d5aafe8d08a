"""CallableEmbedder: an embedder that calls a function."""

from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable, iscoroutinefunction
from typing import TypeAlias

from factmem._arguments import expect_function
from factmem._concurrency.threads import Workers
from factmem.embedding.openai import EmbeddingModel
from factmem.errors import EmbeddingError

__all__ = ["CallableEmbedder"]

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
