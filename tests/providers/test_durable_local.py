"""The store in local files passes the contract of durable stores, plain and encrypted."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import tests.processes  # noqa: F401 - its server has imported what the other processes need
from factmem.models.clock import TimeProvider, system_clock
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.storage.encrypted import EncryptedStorage
from factmem.storage.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.storage.simple import SimpleStorage
from factmem.testing.durable import (
    Damage,
    DurableStoreContract,
    EncryptedStoreContract,
    StoreFolder,
)
from factmem.testing.facts import PERSON

PLACES = [PERSON.of(name) for name in ("alice", "bob", "carol")]

POSITIONS = 5
"""The positions of a file that are damaged."""


class LocalStores:
    """Opens local stores, and damages them."""

    def open_store(
        self, folder: Path, keys: Sequence[str], clock: TimeProvider = system_clock
    ) -> LocalFileMemoryProvider:
        storage = EncryptedStorage(Aes256GCMEncryptor(*keys)) if keys else SimpleStorage()
        return LocalFileMemoryProvider(folder, storage=storage, clock=clock)

    def tampered(self, home: StoreFolder, older: StoreFolder) -> Iterator[Damage]:
        """Damage each file in some ways; put back a journal, with and without its end mark."""
        files = home.files()
        for name, content in files.items():
            if name == "lock":
                continue
            place = next((each for each in PLACES if f"-{each.entity}-" in name), None)
            for at in range(0, len(content), max(1, len(content) // POSITIONS)):
                yield Damage(f"{name}, a bit at {at}", partial(_flip, name, at), place)
                yield Damage(f"{name}, cut at {at}", partial(_cut, name, at), place)
            yield Damage(f"{name}, deleted", partial(_put, {name: None}), place)
        journals = [name for name in files if name.startswith("journals")]
        swapped = dict(zip(journals, (files[name] for name in reversed(journals)), strict=True))
        yield Damage("the journals swapped", partial(_put, swapped))
        for name in journals:
            past = {each: older.files().get(each) for each in files if Path(each).stem in name}
            alone = {name: past[name]}
            yield Damage(f"{name}, put back", partial(_put, alone))
            yield Damage(f"{name}, put back with its end", partial(_put, past), by_anchor_only=True)


def _flip(name: str, at: int, folder: Path) -> None:
    content = bytearray((folder / name).read_bytes())
    content[at] ^= 1
    (folder / name).write_bytes(content)


def _cut(name: str, at: int, folder: Path) -> None:
    (folder / name).write_bytes((folder / name).read_bytes()[:at])


def _put(contents: Mapping[str, bytes | None], folder: Path) -> None:
    for name, content in contents.items():
        if content is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(content)


class TestPlain(LocalStores, DurableStoreContract):
    pass


class TestEncrypted(LocalStores, EncryptedStoreContract):
    pass
