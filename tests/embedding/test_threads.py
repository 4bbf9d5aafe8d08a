"""A call that hangs occupies a thread of the embedder only."""

import sys
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import anyio
import pytest
from anyio.to_thread import current_default_thread_limiter

from factmem.embedding.base import CallableEmbedder
from factmem.embedding.sentence_transformer import SentenceTransformerEmbedder


class Hanging:
    """Answers when it is released."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.may_end = threading.Event()

    def encode(self, sentences: list[str], **_: Any) -> list[list[float]]:
        self.calls.append(sentences)
        self.may_end.wait(60)
        return [[1.0, 2.0] for _ in sentences]


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    made = Hanging()
    yield made
    made.may_end.set()


async def given_up(embedder: Any, hanging: Hanging, text: str, *, calls: int) -> None:
    """Embed, and cancel once so many calls have started."""
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(embedder.embed, [text])
            await anyio.wait_all_tasks_blocked()
            while len(hanging.calls) < calls:
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()


async def test_a_cancelled_caller_leaves_the_other_threads_alone(hanging: Hanging) -> None:
    embedder = CallableEmbedder(hanging.encode, model="test")
    for number in range(3):
        await given_up(embedder, hanging, "a", calls=number + 1)
    assert current_default_thread_limiter().borrowed_tokens == 0


async def test_a_cancelled_call_is_not_computed(
    hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queued call is dropped once its caller has gone."""
    package: Any = ModuleType("sentence_transformers")
    package.SentenceTransformer = lambda _: hanging
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)
    embedder = SentenceTransformerEmbedder("test")
    await given_up(embedder, hanging, "first", calls=1)
    await given_up(embedder, hanging, "second", calls=1)
    hanging.may_end.set()

    assert [list(each) for each in await embedder.embed(["third"])] == [[1, 2]]
    assert hanging.calls == [["first"], ["third"]]
