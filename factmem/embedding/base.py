"""What factmem asks of an embedder: a vector for each text."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

__all__ = ["Embedder", "QueryEmbedder"]


@runtime_checkable
class Embedder(Protocol):
    """Gives vectors that are near each other where texts mean about the same.

    Implement what is below; inherit from nothing. Any number of tasks may call an instance at once.
    A plain function becomes one by `factmem.embedding.callable.CallableEmbedder`.
    """

    @property
    def model(self) -> str:
        """Names the model. Vectors of one name are compared, those of another are made anew."""
        ...

    @property
    def dimensions(self) -> int | None:
        """How many numbers a vector has; None while that is not known."""
        ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector for each text, in their order, all of one length.

        factmem passes up to 512 texts at a time, none of them empty or longer than 4,000
        characters. The length of a vector means nothing: only its direction counts.

        Raises:
            EmbeddingError: The model refused, failed, or could not be reached. A `status` of 400,
                413 or 422 says that a text is at fault, as a `ValueError` does: it is looked for,
                and the others get their vectors.
        """
        ...


@runtime_checkable
class QueryEmbedder(Embedder, Protocol):
    """An embedder whose model tells questions from the texts that are to be found."""

    async def embed_queries(self, queries: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector for each question. Raises as `embed` does."""
        ...
