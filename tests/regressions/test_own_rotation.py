"""A provider goes on through its own key rotations."""

import threading
from collections.abc import Awaitable, Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from factmem.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.encryption.key import Key
from factmem.models.facts import Concept, SingleFact
from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import EncryptedStorage
from factmem.transfer.bundle import export_facts
from tests.doors import watched

AGENT = MemoryScope.Agent("desk")
PETS = Concept("pets", "The user's pets")
USER = MemorySubject("user", "The user", 1, per_entity=True)
PLACES = [USER.of(str(number)) for number in range(8)]

CALLS: dict[str, Callable[[Any], Awaitable[object]]] = {
    "places": lambda store: store.places(),
    "erase": lambda store: store.erase(USER.of("nobody"), AGENT),
    "export_facts": lambda store: export_facts(store, BytesIO()),
    "load_all": lambda store: store.load_all(PLACES[0], AGENT),
    "entries": lambda store: store.entries(PLACES[0], AGENT),
    "version": lambda store: store.version(PLACES[0], AGENT),
    "read_index": lambda store: store.read_index(PLACES[0], AGENT),
    "anchor": lambda store: store.anchor(),
}


@pytest.mark.parametrize("rotations", [1, pytest.param(6, marks=pytest.mark.storm)])
@pytest.mark.parametrize("call", CALLS)
async def test_calls_during_a_rotation(tmp_path: Path, call: str, rotations: int) -> None:
    """None of them ever reads a file whose key it does not have."""
    storage = EncryptedStorage(Aes256GCMEncryptor(Key.generate()))
    async with LocalFileMemoryProvider(tmp_path / "store", storage=storage) as store:
        for place in PLACES:
            await store.save(SingleFact(PETS, "a dog"), place, AGENT)
        is_over = anyio.Event()

        async def rotate() -> None:
            for _ in range(rotations):
                await store.keys.rotate(Key.generate())
            is_over.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(rotate)
            while not is_over.is_set():
                await CALLS[call](store)
                await anyio.lowlevel.checkpoint()  # a warm load does not yield

        assert len(await store.places()) == len(PLACES)


async def test_a_rotation_between_two_reads_of_a_listing(tmp_path: Path) -> None:
    """The rows are sealed with newer keys than the listing began with: it begins again."""
    key = Key.generate()
    storage = EncryptedStorage(Aes256GCMEncryptor(key))
    async with LocalFileMemoryProvider(tmp_path / "store", storage=storage) as rotating:
        for place in PLACES:
            await rotating.save(SingleFact(PETS, "a dog"), place, AGENT)
        news = [Key.generate() for _ in range(2)]
        todo = list(news)

        def look(sql: str) -> None:
            if todo and sql == "BEGIN":  # a snapshot, after the reader has opened its keys
                thread = threading.Thread(
                    target=anyio.run, args=(rotating.keys.rotate, todo.pop(0))
                )
                thread.start()
                thread.join()

        keys = EncryptedStorage(Aes256GCMEncryptor(*reversed(news), key))
        with watched(look):
            async with LocalFileMemoryProvider(tmp_path / "store", storage=keys) as reading:
                for _ in range(2):
                    assert len(await reading.places()) == len(PLACES)
        assert not todo
