"""Descriptions are stored once, and every read restores them."""

from pathlib import Path

import pytest

from factmem.models.facts import Concept, SingleFact
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import Storage
from factmem.providers.storages import SimpleStorage
from factmem.testing.facts import AGENT
from tests.providers.local_stores import ALICE, journal_of

OLD = Concept("theme", "Which colours the user likes to see on the screen")
NEW = Concept("theme", "Which colours the user likes, on any device")
OTHER = Concept("city", "Where the user lives")


async def described(root: Path, storage: Storage) -> list[str]:
    """Return the descriptions of all saves as a new process reads them."""
    store = LocalFileMemoryProvider(root, storage=storage)
    entries = await store.entries(ALICE, AGENT)
    return [fact["description"] for entry in entries for fact in entry.get("facts", ())]


async def saved(root: Path, storage: Storage) -> LocalFileMemoryProvider:
    store = LocalFileMemoryProvider(root, storage=storage)
    await store.save(SingleFact(OLD, "dark"), ALICE, AGENT)
    await store.load_all(ALICE, AGENT)
    for concept, value in ((OLD, "light"), (OTHER, "Busan"), (NEW, "grey"), (NEW, "red")):
        await store.save(SingleFact(concept, value), ALICE, AGENT)
    return store


async def test_a_repeated_description_is_written_once(root: Path) -> None:
    """The store has the place in memory."""
    await saved(root, SimpleStorage())

    content = journal_of(root).read_text()

    assert content.count(OLD.description) == content.count(NEW.description) == 1


async def test_all_reads_return_it(root: Path, storage: Storage) -> None:
    """Current facts, history, the past and entries have it, in this and in another process."""
    store = await saved(root, storage)
    cold = LocalFileMemoryProvider(root, storage=storage)

    for each in (store, cold):
        facts = {fact.concept.keyword: fact for fact in await each.load_all(ALICE, AGENT)}
        assert facts["theme"].concept.description == NEW.description
        history = await each.history(NEW, ALICE, AGENT)
        assert [entry.fact.concept.description for entry in history if entry.fact] == [
            OLD.description,
            OLD.description,
            NEW.description,
            NEW.description,
        ]
    two, three = [OLD.description] * 2, [NEW.description] * 2
    assert await described(root, storage) == [*two, OTHER.description, *three]


async def test_another_process_can_change_it(root: Path, storage: Storage) -> None:
    """The journal decides if a description is omitted, not this process's last write."""
    store = await saved(root, storage)
    other = LocalFileMemoryProvider(root, storage=storage)

    await other.save(SingleFact(OLD, "blue"), ALICE, AGENT)
    await store.save(SingleFact(NEW, "green"), ALICE, AGENT)

    assert (await described(root, storage))[-2:] == [OLD.description, NEW.description]


@pytest.mark.parametrize("how", ["purge", "compact", "rewrite"])
async def test_it_survives_the_save_that_contained_it(
    root: Path, storage: Storage, how: str
) -> None:
    """Later facts keep the description when the save that stored it is removed."""
    store = await saved(root, storage)
    if how == "purge":
        await store.forget(ALICE, AGENT, concept=NEW, value="grey", purge=True)
        await store.rewrite(lambda entries: [None, *entries[1:]], ALICE, AGENT)
    elif how == "rewrite":
        await store.rewrite(lambda entries: [*entries[:3], None, entries[4]], ALICE, AGENT)
    else:
        await store.compact(ALICE, AGENT)

    assert (await described(root, storage))[-1] == NEW.description


async def test_a_salvage_may_lose_it(root: Path) -> None:
    """The keyword then replaces it, and the value stays."""
    store = await saved(root, SimpleStorage())
    journal = journal_of(root)
    lines = journal.read_bytes().split(b"\n")
    lines[4] = lines[4].replace(b"grey", b"gray")
    journal.write_bytes(b"\n".join(lines))

    await store.salvage(ALICE, AGENT)

    found = await described(root, SimpleStorage())
    assert found == [OLD.description, OLD.description, OTHER.description, OLD.description]
    (fact,) = await LocalFileMemoryProvider(root).load(NEW, ALICE, AGENT)
    assert fact.value == "red"
