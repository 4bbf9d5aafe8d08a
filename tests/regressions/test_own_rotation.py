"""A provider goes on through its own key rotations."""

from collections.abc import Awaitable, Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest
from factmem.storage import _listing

from factmem.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.encryption.key import Key
from factmem.models.facts import Concept, SingleFact
from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import EncryptedStorage
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


async def test_a_rotation_between_the_listing_and_the_reading_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files are sealed with a newer key than the listing began with: it begins again."""
    key = Key.generate()
    storage = EncryptedStorage(Aes256GCMEncryptor(key))
    async with LocalFileMemoryProvider(tmp_path / "store", storage=storage) as store:
        for place in PLACES:
            await store.save(SingleFact(PETS, "a dog"), place, AGENT)
    listed, is_rotated = _listing.page_of_files, False

    def then_rotated(*arguments: Any) -> list[str]:
        nonlocal is_rotated
        files = listed(*arguments)
        if not is_rotated:
            is_rotated = True
            anyio.from_thread.run(rotating.keys.rotate, Key.generate())
        return files

    monkeypatch.setattr(_listing, "page_of_files", then_rotated)
    async with LocalFileMemoryProvider(tmp_path / "store", storage=storage) as rotating:
        assert len(await rotating.places()) == len(PLACES)
    assert is_rotated
