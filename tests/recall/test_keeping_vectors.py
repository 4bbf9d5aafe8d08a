"""Vectors that could not be written at once are written when a memory is closed."""

import fcntl
from pathlib import Path
from typing import Any

import anyio
import pytest

from factmem.errors import StorageError, StoreBusyError
from factmem.models.facts import AnyFact
from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.local_file import LocalFileMemoryProvider
from tests.doubles import BareProvider, TopicEmbedder
from tests.recall.stored_indexes import index_count
from tests.world import AGENT, ALICE, BOB, bare_note, found_values, recall_memory


class Busy(InMemoryProvider):
    """Refuses an index while it is busy."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.error = error or StoreBusyError("later")
        self.is_busy = True

    async def write_index(self, *args: Any, **options: Any) -> bool:
        if self.is_busy:
            raise self.error
        return await super().write_index(*args, **options)

    async def embedded(self, *subjects: MemorySubject) -> int:
        """Return the number of facts that a new process embeds."""
        memory = recall_memory(self, embedder=TopicEmbedder(), subjects=subjects)
        return (await memory.recall("any animal?")).embedded_texts - 1


class _locked:  # noqa: N801 - reads like a function, as `suppress` does
    """Hold the lock of a local store like another process."""

    def __init__(self, root: Path) -> None:
        self._file = (root / "lock").open("r+")

    def __enter__(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self._file.close()


@pytest.fixture
async def store() -> Busy:
    made = Busy()
    await made.save(bare_note("pet", "cat"), ALICE, AGENT)
    await made.save(bare_note("pet", "dog"), BOB, AGENT)
    return made


@pytest.mark.parametrize("leaves", ["aclose", "async with"])
async def test_closing_a_memory_writes_its_vectors(store: Busy, leaves: str) -> None:
    """This holds for a place that changed since: its embedded facts are not embedded again."""
    memory = recall_memory(store, embedder=TopicEmbedder(), subjects=[ALICE, BOB])
    await memory.recall("any animal?")
    await store.save(bare_note("desk", "tea"), ALICE, AGENT)
    store.is_busy = False

    if leaves == "aclose":
        await memory.aclose()
    else:
        async with memory:
            assert found_values(await memory.recall("any animal?", subjects=[BOB])) == ["dog"]

    assert await store.embedded(ALICE, BOB) == 1
    assert (await memory.recall("any animal?")).is_semantic


async def test_closing_a_view_writes_vectors_of_its_places(store: Busy) -> None:
    """It does not write those that other memories recalled."""
    memory = recall_memory(store, embedder=TopicEmbedder(), subjects=[ALICE, BOB])
    await memory.recall("any animal?")
    store.is_busy = False

    await memory.view(subjects=[BOB], read_only=True).aclose()

    assert await store.read_index(ALICE, AGENT) is None
    assert await store.embedded(BOB) == 0


@pytest.mark.parametrize("error", [StoreBusyError("busy"), StorageError("full"), OSError("odd")])
async def test_a_store_that_refuses_vectors_raises_nothing(store: Busy, error: Exception) -> None:
    """It also hides no other error."""
    memory = recall_memory(store, embedder=TopicEmbedder())
    await memory.recall("any animal?")
    store.error = error

    await memory.aclose()
    with pytest.raises(KeyError):
        async with memory:
            raise KeyError


async def test_a_closed_store_raises_nothing(tmp_path: Path) -> None:
    """It gets no vectors any more."""
    async with LocalFileMemoryProvider(tmp_path) as store:
        await store.save(bare_note("pet", "cat"), ALICE, AGENT)
        memory = recall_memory(store, embedder=TopicEmbedder())
        with _locked(tmp_path):
            await memory.recall("any animal?")
    await memory.aclose()
    assert index_count(tmp_path) == 0


async def test_a_cancelled_memory_writes_them_too(store: Busy) -> None:
    """The error that ended it is not replaced by the cancellation."""
    memory = recall_memory(store, embedder=TopicEmbedder())
    await memory.recall("any animal?")
    store.is_busy = False

    async def fail() -> None:
        with anyio.CancelScope() as scope:
            async with memory:
                scope.cancel()
                raise KeyError

    with pytest.raises(KeyError):
        await fail()

    assert await store.embedded(ALICE) == 0


async def test_a_store_that_never_answers_is_abandoned(
    store: Busy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing a memory takes no longer than its limit."""

    class Hanging(Busy):
        async def write_index(self, *args: Any, **options: Any) -> bool:
            if self.is_busy:
                raise self.error
            scopes[-1].cancel()
            await anyio.sleep_forever()
            return False

    def move_on_after(seconds: float, *, shield: bool) -> anyio.CancelScope:
        assert 0 < seconds < 60
        scopes.append(anyio.CancelScope(shield=shield))
        return scopes[-1]

    scopes: list[anyio.CancelScope] = []
    monkeypatch.setattr("factmem.recall._search.move_on_after", move_on_after)
    hanging = Hanging()
    await hanging.save(bare_note("pet", "cat"), ALICE, AGENT)
    memory = recall_memory(hanging, embedder=TopicEmbedder())
    await memory.recall("any animal?")
    hanging.is_busy = False

    await memory.aclose()

    assert scopes[0].cancelled_caught


async def test_a_busy_store_gets_them_later(tmp_path: Path) -> None:
    """A recall returns while another process holds the lock; vectors wait in memory."""
    async with LocalFileMemoryProvider(tmp_path) as store:
        await store.save(bare_note("pet", "cat"), ALICE, AGENT)
        memory = recall_memory(store, embedder=TopicEmbedder())
        with _locked(tmp_path):
            found = await memory.recall("any animal?")
            await memory.aclose()
        assert (found_values(found), found.is_semantic, found.failures) == (["cat"], True, [])
        assert index_count(tmp_path) == 0

        await store.save(bare_note("desk", "tea"), ALICE, AGENT)
        assert (await memory.recall("any animal?")).embedded_texts == 1

    async with LocalFileMemoryProvider(tmp_path) as again:
        found = await recall_memory(again, embedder=TopicEmbedder()).recall("any animal?")
        assert found.embedded_texts == 1


class _Counting(BareProvider):
    """Counts its readings."""

    readings = 0

    async def load_all(self, subject: MemorySubject, scope: MemoryScope) -> list[AnyFact]:
        self.readings += 1
        return await super().load_all(subject, scope)


@pytest.mark.parametrize("is_view", [False, True])
async def test_closing_reads_nothing_without_an_index(is_view: bool) -> None:
    store = InMemoryProvider()
    await store.save(bare_note("pet", "a cat called Miso"), ALICE, AGENT)
    provider = _Counting(store)
    memory = recall_memory(provider, embedder=TopicEmbedder())
    if is_view:
        memory = memory.view(subjects=[ALICE])
    assert (await memory.recall("any animal?")).is_semantic
    before = provider.readings

    await memory.aclose()

    assert provider.readings == before > 0
