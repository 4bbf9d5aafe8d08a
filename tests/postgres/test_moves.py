"""Facts move between files and PostgreSQL in both directions, with their history and times."""

from pathlib import Path

import pytest

from factmem.encryption import Aes256GCMEncryptor
from factmem.models.places import MemorySubject
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import EncryptedStorage
from factmem.providers.store import FactStore
from factmem.testing._facts import AGENT, LANGUAGES, THEME, USER, languages, theme
from factmem.transfer.bundle import export_facts, import_facts
from tests.postgres.conftest import NewStore

KEY = Aes256GCMEncryptor.generate_key()
PERSON = MemorySubject("person", "", 1, per_entity=True)


async def _fill(store: FactStore) -> None:
    for number in range(20):
        person = PERSON.of(f"p{number}")
        await store.save_many([theme("dark"), languages("a", "b")], person, AGENT)
        await store.save(theme(f"theme {number}"), person, AGENT)
        await store.forget(person, AGENT, concept=LANGUAGES, value="a")
    await store.save(theme("purged"), USER, AGENT)
    await store.forget(USER, AGENT, concept=THEME, purge=True)
    await store.save(languages("kept"), USER, AGENT)


async def _all(store: FactStore) -> dict[object, object]:
    """Everything that a store holds, with histories; sizes differ between kinds of stores."""
    held: dict[object, object] = {}
    for info in await store.places():
        where = info.subject, info.scope
        held[info.place.identity] = (
            info.count,
            info.oldest,
            info.newest,
            await store.entries(*where),
            await store.load_all(*where),
            await store.history(THEME, *where),
        )
    return held


@pytest.mark.parametrize("is_sealed", [False, True], ids=["plain", "sealed"])
async def test_facts_move_to_the_database_and_back(
    new_store: NewStore, tmp_path: Path, is_sealed: bool
) -> None:
    """Nothing is lost or changed on the way, and a second import adds nothing."""
    encryption = Aes256GCMEncryptor(KEY) if is_sealed else None
    storage = EncryptedStorage(Aes256GCMEncryptor(KEY)) if is_sealed else None
    bundle, back = tmp_path / "facts.jsonl", tmp_path / "back.jsonl"
    database = new_store(encryption=encryption)
    async with (
        LocalFileMemoryProvider(tmp_path / "from", storage=storage) as source,
        LocalFileMemoryProvider(tmp_path / "to", storage=storage) as target,
    ):
        await _fill(source)

        await export_facts(source, bundle)
        await import_facts(bundle, database)
        assert await _all(database) == await _all(source)
        await import_facts(bundle, database)
        assert await _all(database) == await _all(source)

        await export_facts(database, back)
        await import_facts(back, target)
        assert await _all(target) == await _all(source)
    # The first line has the time of the export, and the last one the digest.
    assert bundle.read_bytes().splitlines()[1:-1] == back.read_bytes().splitlines()[1:-1]
