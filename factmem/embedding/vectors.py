"""What an embedder gave, checked: as many vectors as texts, of one length, of finite numbers."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite

from factmem.errors import EmbeddingError

__all__ = ["batches", "checked_dimensions", "checked_name", "checked_vectors"]


def checked_vectors(
    given: object, *, count: int, dimensions: int | None, model: str
) -> "list[array[float]]":
    """Return the vectors that an embedder gave for `count` texts, in single precision.

    Lists, tuples, numpy's arrays and torch's tensors are taken.

    Raises:
        EmbeddingError: There are more or fewer of them, one has another length than `dimensions`
            or the first one, or something in them is no finite number. That may be the fault of a
            text, so that a `ValueError` is its cause: models in half precision give NaN for some.
    """
    vectors = [_vector(row, model) for row in _items(given, model)]
    if len(vectors) != count:
        raise EmbeddingError(f"{model!r} gave {len(vectors)} vectors for {count} texts")
    for vector in vectors:
        dimensions = dimensions or len(vector)
        if len(vector) != dimensions:
            raise EmbeddingError(
                f"{model!r} gave a vector of {len(vector)} dimensions where {dimensions} were "
                f"expected: check the model's name and its dimensions"
            )
    return vectors


def _vector(row: object, model: str) -> "array[float]":
    try:
        vector = array("f", _items(row, model))
    except (TypeError, ValueError, OverflowError):
        vector = array("f")
    # The sum of single-precision numbers fits into a double, so it is finite if they all are.
    if not vector or not isfinite(sum(vector)):
        failure = EmbeddingError(f"{model!r} gave a vector that is no list of finite numbers")
        raise failure from ValueError("one of the texts may have none by this model")
    return vector


def _items(given: object, model: str) -> Iterable[float]:
    """Return what a list, an array or a tensor holds."""
    as_list = getattr(given, "tolist", None)
    items: object = as_list() if callable(as_list) else given
    if not isinstance(items, Sequence) or isinstance(items, str | bytes):
        raise EmbeddingError(f"{model!r} gave no list of vectors but {type(given).__name__}")
    return items


def batches(texts: Sequence[str], *, most: int, characters: int) -> Iterator[Sequence[str]]:
    """Cut texts into batches of at most `most` texts and about `characters` characters in all."""
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


def checked_name(model: object) -> str:
    """Return the name of a model.

    Raises:
        ValueError: It is empty.
    """
    if not isinstance(model, str) or not model.strip():
        raise ValueError("model is empty: name the model, as its vectors are kept under its name")
    return model


def checked_dimensions(dimensions: int | None) -> int | None:
    """Return how many numbers a vector is to have, or None where that is not given.

    Raises:
        ValueError: It is no positive whole number.
    """
    if dimensions is not None and (type(dimensions) is not int or dimensions < 1):
        raise ValueError("dimensions must be a whole number from 1 on, or None for the model's own")
    return dimensions
