"""Vectors survive a process, and damage of their row never costs a fact or a result."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from anyio.lowlevel import checkpoint

from factmem.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.errors import StorageError, StoreBusyError
from factmem.models.facts import Concept
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import EncryptedStorage, SimpleStorage, Storage
from factmem.recall._place_vectors import PlaceVectors, VectorTable
from tests.doubles import TopicEmbedder
from tests.recall.conftest import KEY
from tests.recall.stored_indexes import change_index, index_count
from tests.world import (
    AGENT,
    ALICE,
    BOB,
    COMPANY,
    LocalStore,
    bare_note,
    found_values,
    recall_memory,
)

FACTS = [bare_note("miso", "kitten"), bare_note("mornings", "espresso"), bare_note("home", "Busan")]
QUESTION = "Any animal?"
LEFT = ["espresso", "Busan"]
"""The facts that are found after the right one was purged: no threshold hides them."""


@pytest.fixture(params=["plain", "encrypted"])
def storage(request: pytest.FixtureRequest) -> Storage:
    sealed = EncryptedStorage(Aes256GCMEncryptor(KEY))
    return SimpleStorage() if request.param == "plain" else sealed


class Process:
    """Return a new process, as a store sees it: it shares no memory."""

    def __init__(self, root: Path, storage: Storage, **embedder: Any) -> None:
        self.store = LocalFileMemoryProvider(root, storage=storage)
        self.embedder = TopicEmbedder(**embedder)
        self.memory = recall_memory(self.store, embedder=self.embedder)

    async def asks(self) -> tuple[list[Any], int]:
        """Return the results, and the number of facts embedded for them."""
        before = len(self.embedder.texts)
        result = await self.memory.recall(QUESTION)
        assert (result.is_semantic, result.failures) == (True, [])
        asked = QUESTION in self.embedder.texts[before:]
        return found_values(result), len(self.embedder.texts) - before - asked


async def filled(root: Path, storage: Storage) -> Process:
    process = Process(root, storage)
    await process.store.save_many(FACTS, ALICE, AGENT)
    assert await process.asks() == (["kitten"], 3)
    return process


async def test_each_text_is_embedded_once(tmp_path: Path, storage: Storage) -> None:
    """One process or another does it; only new texts are embedded."""
    first = await filled(tmp_path, storage)
    assert await first.asks() == (["kitten"], 0)

    second = Process(tmp_path, storage)
    assert await second.asks() == (["kitten"], 0)
    await second.store.save(bare_note("rex", "dog"), ALICE, AGENT)
    found, count = await second.asks()
    assert (sorted(found), count) == (["dog", "kitten"], 1)

    assert (await Process(tmp_path, storage).asks())[1] == 0
    assert (await first.asks())[1] == 1  # its own memory does not have it yet
    for texts in (first.embedder.texts, second.embedder.texts):
        assert len(texts) == len(set(texts))


DAMAGE = {
    "deleted": "DELETE FROM indexes",
    "truncated": "UPDATE indexes SET bytes = substr(bytes, 1, length(bytes) - 100)",
    "empty": "UPDATE indexes SET bytes = x''",
    "zeros": "UPDATE indexes SET bytes = zeroblob(length(bytes))",
    "bytes changed": (  # several: one may be that byte before
        "UPDATE indexes SET bytes = CAST(substr(bytes, 1, length(bytes) - 8)"
        " || x'9999999999999999' AS BLOB)"
    ),
    "something else": "UPDATE indexes SET bytes = CAST('my diary' AS BLOB)",
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_damaged_index_is_rebuilt_once(
    tmp_path: Path, storage: Storage, damage: str
) -> None:
    """The results are right, and the next process finds the new index."""
    await filled(tmp_path, storage)
    change_index(tmp_path, DAMAGE[damage])

    assert await Process(tmp_path, storage).asks() == (["kitten"], 3)
    assert await Process(tmp_path, storage).asks() == (["kitten"], 0)


@pytest.mark.parametrize("other", [{"model": "topics-2"}, {"dimensions": 9}])
async def test_an_index_of_another_model_is_rebuilt_once(
    tmp_path: Path, storage: Storage, other: dict[str, Any]
) -> None:
    """Its vectors cannot be compared; those of the first model are removed."""
    await filled(tmp_path, storage)

    assert await Process(tmp_path, storage, **other).asks() == (["kitten"], 3)
    assert await Process(tmp_path, storage, **other).asks() == (["kitten"], 0)
    assert await Process(tmp_path, storage).asks() == (["kitten"], 3)


async def test_a_changed_model_under_the_same_name_is_noticed(store: LocalStore) -> None:
    """The question's vector has other dimensions; every text is embedded again."""
    embedder = TopicEmbedder()
    await store.save_many(FACTS, ALICE, AGENT)
    memory = recall_memory(store, embedder=embedder)
    assert found_values(await memory.recall(QUESTION)) == ["kitten"]

    embedder.dimensions = 9
    result = await memory.recall("Which animal is there?")

    assert (found_values(result), result.is_semantic) == (["kitten"], True)
    assert result.embedded_texts == 4


async def test_two_processes_build_an_index_at_once(tmp_path: Path, storage: Storage) -> None:
    """Both get right results, the last write wins, and a third process needs no embedding."""
    one, two = Process(tmp_path, storage), Process(tmp_path, storage)
    await one.store.save_many(FACTS, ALICE, AGENT)

    async def save_in_between(texts: Any) -> Any:
        one.embedder.embed = embed  # type: ignore[method-assign]
        await two.store.save(bare_note("rex", "dog"), ALICE, AGENT)
        assert sorted((await two.asks())[0]) == ["dog", "kitten"]
        return await embed(texts)

    embed = one.embedder.embed
    await one.memory.recall("tea")  # do not interrupt the question's own call
    await one.store.save(bare_note("shiro", "cat"), ALICE, AGENT)
    one.embedder.embed = save_in_between  # type: ignore[method-assign]
    await one.memory.recall("tea")

    assert sorted((await one.asks())[0]) == ["cat", "dog", "kitten"]
    assert sorted((await two.asks())[0]) == ["cat", "dog", "kitten"]
    assert (await Process(tmp_path, storage).asks())[1] == 0


async def stored_bytes(process: Process) -> int:
    """Return the size of Alice's index; as recall made it."""
    index = await process.store.read_index(ALICE, AGENT)
    assert index is not None
    return len(index)


async def test_a_purged_text_leaves_no_vector(tmp_path: Path, storage: Storage) -> None:
    """None is on the disk, in the memory of another process, or written by a slow one."""
    one = await filled(tmp_path, storage)
    other = Process(tmp_path, storage)
    await other.asks()
    size = await stored_bytes(other)

    await one.store.forget(ALICE, AGENT, concept=Concept("miso", ""), purge=True)
    assert index_count(tmp_path) == 0

    assert await other.asks() == (LEFT, 0)
    assert await stored_bytes(other) < size
    assert (await Process(tmp_path, storage).asks()) == (LEFT, 0)


async def test_a_purge_while_facts_are_embedded(tmp_path: Path, storage: Storage) -> None:
    """The written vectors must not restore facts that were purged meanwhile."""
    process = Process(tmp_path, storage)
    await process.store.save_many(FACTS, ALICE, AGENT)
    embed = process.embedder.embed

    async def purge_meanwhile(texts: Any) -> Any:
        if len(texts) > 1:
            miso = Concept("miso", "")
            await process.store.forget(ALICE, AGENT, concept=miso, purge=True)
        return await embed(texts)

    process.embedder.embed = purge_meanwhile  # type: ignore[method-assign]
    await process.memory.recall(QUESTION)

    assert index_count(tmp_path) == 0
    assert await process.asks() == (LEFT, 0)
    assert await Process(tmp_path, storage).asks() == (LEFT, 0)


@pytest.mark.parametrize("call", ["read_index", "write_index"])
@pytest.mark.parametrize("error", [StorageError("4711"), StoreBusyError("4711")])
async def test_a_store_that_refuses_an_index_affects_no_result(
    call: str, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """The log reports it, and the work is lost."""

    class Refusing(InMemoryProvider):
        async def read_index(self, *args: Any, **options: Any) -> Any:
            if call == "read_index":
                raise error
            return await super().read_index(*args, **options)

        async def write_index(self, *args: Any, **options: Any) -> Any:
            if call == "write_index":
                raise error
            return await super().write_index(*args, **options)

    store = Refusing()
    await store.save_many(FACTS, ALICE, AGENT)
    memory = recall_memory(store, embedder=TopicEmbedder())
    caplog.set_level(logging.WARNING)

    result = await memory.recall(QUESTION)

    assert (found_values(result), result.failures) == (["kitten"], [])
    assert type(error).__name__ in caplog.text
    assert "4711" not in caplog.text


async def test_indexes_are_written_one_at_a_time(caplog: pytest.LogCaptureFixture) -> None:
    """A recall embeds several places at once, and would otherwise wait for its own lock."""

    class OneAtATime(InMemoryProvider):
        is_writing = False

        async def write_index(self, *args: Any, **options: Any) -> Any:
            if self.is_writing:
                raise StoreBusyError("somebody else writes")
            self.is_writing = True
            try:
                for _ in range(50):
                    await to_thread.run_sync(int)  # the others arrive here in the meantime
                return await super().write_index(*args, **options)
            finally:
                self.is_writing = False

    class Together(TopicEmbedder):
        async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
            vectors = await super().embed(texts)
            while len(self.calls) < 1 + len(people):
                await checkpoint()
            return vectors

        async def embed_queries(self, queries: Sequence[str]) -> Sequence[Sequence[float]]:
            return await super().embed(queries)

    store, people = OneAtATime(), [ALICE, BOB, COMPANY]
    for person in people:
        await store.save_many(FACTS, person, AGENT)

    with anyio.fail_after(60):
        await recall_memory(store, subjects=people, embedder=Together()).recall(QUESTION)

    assert None not in [await store.read_index(person, AGENT) for person in people]
    assert caplog.text == ""


class Seconds:
    """A clock that advances only when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def rows(first: int, last: int) -> dict[bytes, list[float]]:
    return {n.to_bytes(16, "big"): [1.0, float(n)] for n in range(first, last)}


def looked_up(clock: Seconds) -> PlaceVectors:
    vectors = PlaceVectors(clock)
    vectors.use("m", 2)
    vectors.take_index(None, 2)
    return vectors


def test_an_index_is_not_written_for_each_new_fact() -> None:
    """It is written when a 64th of it is new, or after a minute, with everything new."""
    clock = Seconds()
    vectors = looked_up(clock)
    vectors.add(rows(0, 640))
    first = vectors.worth_writing()
    assert first is not None
    vectors.mark_written(first[1])
    assert vectors.worth_writing() is None

    vectors.add(rows(640, 649))
    assert vectors.worth_writing() is None
    vectors.add(rows(649, 651))
    second = vectors.worth_writing()
    assert second is not None
    vectors.mark_written(second[1])
    vectors.add(rows(651, 652))
    assert vectors.worth_writing() is None
    clock.now += 60
    third = vectors.worth_writing()

    assert third is not None
    assert [len(VectorTable.load(each[0], "m")) for each in (first, second, third)] == [
        640,
        651,
        652,
    ]
    vectors.mark_written(third[1])
    clock.now += 60
    assert vectors.worth_writing() is None


def test_unwritten_vectors_are_written_later() -> None:
    """The store refused, or more vectors came during the write."""
    clock = Seconds()
    vectors = looked_up(clock)
    vectors.add(rows(0, 2))
    refused = vectors.worth_writing()
    assert refused is not None
    assert vectors.worth_writing() == refused

    vectors.add(rows(2, 3))
    vectors.keep({(1).to_bytes(16, "big"), (2).to_bytes(16, "big")}, 1)
    vectors.mark_written(refused[1])

    rest = vectors.worth_writing()
    assert rest is not None
    assert rest[1] == {(0).to_bytes(16, "big"), (2).to_bytes(16, "big")}
    vectors.mark_written(rest[1])
    vectors.add(rows(5, 6))
    vectors.keep({(1).to_bytes(16, "big"), (2).to_bytes(16, "big")}, 2)
    assert vectors.worth_writing() is None, "vectors were added and removed in between"
