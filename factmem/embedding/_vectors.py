"""Embedding models: their names, the validation of their vectors, and batches of strings."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite

from factmem._arguments import expect_within
from factmem.errors import EmbeddingError


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
    """Return the items of a list, an array or a tensor."""
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
