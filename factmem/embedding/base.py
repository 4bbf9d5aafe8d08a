"""The Embedder protocol: one vector for each string."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

__all__ = ["Embedder", "QueryEmbedder"]


@runtime_checkable
class Embedder(Protocol):
    """Converts strings to vectors; strings with similar meaning get vectors of similar direction.

    Implement these members; no base class is needed. Any number of tasks may call an instance at
    once. `factmem.embedding.callable.CallableEmbedder` is an embedder for a plain function.
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
