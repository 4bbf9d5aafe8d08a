"""A provider goes on through its own key rotations."""

from collections.abc import Awaitable, Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from factmem.models.facts import Concept, SingleFact
from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.storage.encrypted import EncryptedStorage
from factmem.storage.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.storage.encryption.key import Key
from factmem.transfer.bundle import export_facts

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


@pytest.mark.parametrize("call", CALLS)
async def test_calls_during_a_rotation(tmp_path: Path, call: str) -> None:
    """None of them ever meets a file of which it does not have the key."""
    storage = EncryptedStorage(Aes256GCMEncryptor(Key.generate()))
    async with LocalFileMemoryProvider(tmp_path / "store", storage=storage) as store:
        for place in PLACES:
            await store.save(SingleFact(PETS, "a dog"), place, AGENT)
        is_over = anyio.Event()

        async def rotate() -> None:
            for _ in range(6):
                await store.keys.rotate(Key.generate())
            is_over.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(rotate)
            while not is_over.is_set():
                await CALLS[call](store)
                await anyio.lowlevel.checkpoint()  # a warm load does not yield

        assert len(await store.places()) == len(PLACES)
