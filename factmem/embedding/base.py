"""The Embedder protocol: one vector for each string."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

__all__ = ["Embedder", "QueryEmbedder"]


@runtime_checkable
class Embedder(Protocol):
    """Turns strings into vectors; strings of similar meaning get vectors of similar direction.

    Implement these members; no base class is needed. Any number of tasks may call an instance at
    once. `factmem.embedding.callable.CallableEmbedder` makes one from a plain function.
    """

    @property
    def model(self) -> str:
        """The name of the model. Only vectors of one name are compared."""
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
            EmbeddingError: The model refused, failed, or could not be reached. A `status` of 400,
                413 or 422, or a `ValueError`, means that one of the strings is at fault: factmem
                finds it, and embeds the others.
        """
        ...


@runtime_checkable
class QueryEmbedder(Embedder, Protocol):
    """An embedder whose model embeds questions in another way than documents."""

    async def embed_queries(self, queries: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector for each question. Raises the errors of `embed`."""
        ...
