"""Keys that were removed from a local store open none of its files."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from factmem.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.encryption.key import Key
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import EncryptedStorage
from factmem.testing._facts import AGENT, PERSON, theme

ALICE = PERSON.of("alice")


def _wraps(root: Path) -> list[bytes]:
    """Return the key ring as each of the keys wraps it."""
    with closing(sqlite3.connect(root / "facts.db")) as database:
        ((slots,),) = database.execute("SELECT slots FROM stores")
    return [slot["wrap"].encode() for slot in json.loads(slots)]


def _disk(root: Path) -> bytes:
    return b"".join(path.read_bytes() for path in root.iterdir())


async def test_a_removed_key_opens_nothing_in_the_log(tmp_path: Path) -> None:
    """A thief with that key and a copy of all files, while the store is open, reads nothing."""
    storage = EncryptedStorage(Aes256GCMEncryptor(Key.generate()))
    spare = Key.generate()
    async with LocalFileMemoryProvider(tmp_path, storage=storage) as store:
        await store.save(theme("dark"), ALICE, AGENT)
        await store.keys.add(spare)
        first, second = _wraps(tmp_path)
        assert second in _disk(tmp_path)

        await store.keys.remove(spare)
        assert second not in _disk(tmp_path)
        await store.keys.rotate(Key.generate())
        assert first not in _disk(tmp_path)
