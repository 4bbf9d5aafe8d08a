"""Any function from strings to vectors is an embedder."""

import threading
from array import array
from collections.abc import Sequence
from functools import partial
from typing import Any

import anyio
import numpy as np
import pytest

from factmem.embedding.base import CallableEmbedder, Embedder
from factmem.errors import EmbeddingError
from tests.tables import table


def lengths(texts: list[str]) -> list[list[float]]:
    return [[float(len(text)), 1.0] for text in texts]


async def lengths_awaited(texts: list[str]) -> list[list[float]]:
    await anyio.lowlevel.checkpoint()
    return lengths(texts)


class Awaited:
    async def __call__(self, texts: list[str]) -> list[list[float]]:
        return await lengths_awaited(texts)


class Plain:
    def __call__(self, texts: list[str]) -> list[list[float]]:
        return lengths(texts)


@table(
    "function",
    [
        lengths,
        lengths_awaited,
        Awaited(),
        Plain(),
        partial(lengths),
        partial(lengths_awaited),
        lambda texts: lengths_awaited(texts),  # noqa: PLW0108 - no coroutine function
    ],
    ids=["plain", "awaited", "awaiting object", "object", "partial", "partial awaited", "lambda"],
)
async def test_any_function_is_accepted(function: Any) -> None:
    """It may be sync or async, and a partial or an object."""
    embedder = CallableEmbedder(function, model="lengths")

    vectors = await embedder.embed(("a", "bb"))

    assert [list(each) for each in vectors] == [[1, 1], [2, 1]]
    assert (embedder.model, embedder.dimensions) == ("lengths", 2)
    assert isinstance(embedder, Embedder)
    assert repr(embedder) == "CallableEmbedder('lengths')"


@pytest.mark.parametrize(
    "vectors",
    [
        [[1, 2], [3, 4]],
        ((1.0, 2.0), (3.0, 4.0)),
        [array("d", [1, 2]), array("f", [3, 4])],
        np.array([[1, 2], [3, 4]], np.float16),
        [np.array([1.0, 2.0]), np.array([3.0, 4.0])],
    ],
    ids=["lists", "tuples", "arrays", "matrix", "rows"],
)
async def test_any_form_of_vector_is_accepted(vectors: Any) -> None:
    """Libraries return all of these."""
    found = await CallableEmbedder(lambda _: vectors, model="test").embed(["a", "b"])

    assert [list(each) for each in found] == [[1, 2], [3, 4]]


@table("vectors", [None, "ab", 3, [1.0, 2.0], [[1.0], "a"], [[1.0], [None]], {}])
async def test_a_result_that_is_not_a_list_of_vectors_raises(vectors: Any) -> None:
    """The error names the model and shows none of the result."""
    with pytest.raises(EmbeddingError, match=r"^'test' returned"):
        await CallableEmbedder(lambda _: vectors, model="test").embed(["a", "b"])


async def test_a_sync_function_does_not_block_the_loop() -> None:
    """It runs in a thread, and other tasks continue."""
    is_running, may_end = threading.Event(), threading.Event()
    threads: set[int] = set()

    def slow(texts: list[str]) -> list[list[float]]:
        threads.add(threading.get_ident())
        is_running.set()
        assert may_end.wait(60)
        return lengths(texts)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(CallableEmbedder(slow, model="slow").embed, ["a"])
        while not is_running.is_set():
            await anyio.lowlevel.checkpoint()
        may_end.set()

    assert threading.get_ident() not in threads


async def test_a_failure_is_raised_with_its_cause() -> None:
    """For any exception of the function."""

    def fail(texts: list[str]) -> list[list[float]]:
        raise RuntimeError("out of memory")

    with pytest.raises(EmbeddingError, match="of 'test' raised RuntimeError") as caught:
        await CallableEmbedder(fail, model="test").embed(["a"])

    assert isinstance(caught.value.__cause__, RuntimeError)


async def test_an_embedding_error_is_not_wrapped() -> None:
    """An `EmbeddingError` of the function is complete; nothing is added."""
    error = EmbeddingError("the quota is used up", status=429)

    async def fail(texts: list[str]) -> list[list[float]]:
        raise error

    with pytest.raises(EmbeddingError) as caught:
        await CallableEmbedder(fail, model="test").embed(["a"])

    assert caught.value is error


async def test_dimensions_are_checked() -> None:
    """They are compared with the declared or with the learned dimensions."""
    calls: list[Sequence[str]] = []

    def growing(texts: list[str]) -> list[list[float]]:
        calls.append(texts)
        return [[1.0] * len(calls) for _ in texts]

    with pytest.raises(EmbeddingError, match="1 dimensions instead of 2"):
        await CallableEmbedder(growing, model="test", dimensions=2).embed(["a"])
    learning = CallableEmbedder(growing, model="test")
    await learning.embed(["a"])
    with pytest.raises(EmbeddingError, match="3 dimensions instead of 2"):
        await learning.embed(["a"])


async def test_an_empty_list_makes_no_call() -> None:
    """The function is not called."""
    assert await CallableEmbedder(lambda _: 1 / 0, model="test").embed([]) == []  # type: ignore[arg-type,return-value]


def test_a_name_is_required() -> None:
    """Vectors are stored under it."""
    with pytest.raises(ValueError, match="model must be a non-empty string"):
        CallableEmbedder(lengths, model="")


def test_a_function_is_required() -> None:
    """A model's name is refused at once, not by each recall."""
    with pytest.raises(TypeError, match="function must be a function, not"):
        CallableEmbedder("all-minilm", model="test")  # type: ignore[arg-type]
