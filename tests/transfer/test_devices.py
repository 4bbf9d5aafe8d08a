"""One memory on several devices over a shared folder: facts, and conversations if they wish."""

import os
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Literal

import pytest

from factmem import (
    AgentMemory,
    InMemoryProvider,
    LocalFileMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MultipleFacts,
)
from factmem._concurrency import try_lock
from factmem.errors import StoreBusyError
from factmem.ledger._purging import REMOVED
from factmem.ledger.entries import Entry
from factmem.models.facts import Concept, SingleFact
from factmem.models.places import Place
from factmem.providers.conversations import new_turn
from factmem.sync import LocalStoreSync, MemorySync
from factmem.sync import sync_devices as sync_without_await
from factmem.transfer._device_state import Rules
from factmem.transfer.devices import SyncReport, key_of_phrase, new_phrase
from tests.properties import examples
from tests.tables import table
from tests.transfer.devices import (
    ALICE,
    ALICES,
    CITY,
    PETS,
    PETS_NAME,
    PLACES,
    USER,
    Clock,
    Device,
    World,
    differences,
)

HISTORIES = int(os.environ.get("HISTORIES", examples(60)))
"""The random histories; `HISTORIES=3000` looks harder."""


@pytest.fixture
async def world(tmp_path: Path) -> Any:
    async with AsyncExitStack() as stack:
        yield World(tmp_path, stack)


@pytest.mark.parametrize("part", range(4))
async def test_devices_converge(part: int, tmp_path: Path) -> None:
    """Whatever they did and whenever they synced; removed values are nowhere."""
    wrong: list[str] = []
    for seed in range(part, HISTORIES, 4):
        async with AsyncExitStack() as stack:
            root = tmp_path / str(seed)
            root.mkdir()
            wrong += await differences(World(root, stack), seed)

    assert not wrong, f"{len(wrong)} in {HISTORIES} histories, the first: {wrong[0]}"


async def test_a_sync_without_changes_writes_nothing(world: World) -> None:
    one, other = await world.add(), await world.add()
    await one.store.save(SingleFact(CITY, "Busan"), *ALICES)
    await world.settle()
    before = [(path.name, path.stat().st_mtime_ns) for path in world.files]

    reports = [await device.sync() for device in (one, other, one)]

    assert [(each.sent, each.received, each.problems) for each in reports] == [(0, 0, ())] * 3
    assert [(path.name, path.stat().st_mtime_ns) for path in world.files] == before


class Reads(LocalFileMemoryProvider):
    """A store that counts the entries that are read."""

    count = 0

    async def entries(self, *where: Any) -> list[Entry]:
        found = await super().entries(*where)
        self.count += len(found)
        return found

    async def entries_since(self, place: Place, state: str) -> list[Entry] | None:
        found = await super().entries_since(place, state)
        self.count += len(found or ())
        return found


async def test_a_sync_reads_what_is_new(world: World) -> None:
    """Of a large place the new entries, and of one without changes none, in any process."""
    one, other = await world.add(), await world.add()
    for device in (one, other):
        for number in range(20):
            world.clock.now += timedelta(seconds=1)
            await device.store.save(SingleFact(CITY, f"city {number}"), *ALICES)
        await device.sync()
    await world.settle()
    reader = Reads(world.root / one.name, clock=world.clock)
    one.store = await world.stack.enter_async_context(reader)

    await one.sync()
    assert reader.count == 0
    world.clock.now += timedelta(seconds=1)
    await one.store.save(SingleFact(CITY, "Busan"), *ALICES)
    assert (await one.sync()).sent == 1
    assert reader.count == 1
    world.clock.now += timedelta(seconds=1)
    await other.store.save(SingleFact(CITY, "Seoul"), *ALICES)
    await other.sync()
    assert ((await one.sync()).received, reader.count) == (1, 1)
    assert await one.entries() == await other.entries()


async def test_many_syncs_fold_small_files_only(world: World) -> None:
    """A large file is not written again for the few entries of each sync."""
    one, late = await world.add(), await world.add()
    texts = [Random(number).randbytes(40_000).hex() for number in range(30)]
    await one.store.save_many([MultipleFacts(PETS, [text]) for text in texts], *ALICES)
    await one.sync()
    (large,) = world.files
    for number in range(40):
        world.clock.now += timedelta(seconds=1)
        await one.store.save(SingleFact(CITY, f"city {number}"), *ALICES)
        assert (await one.sync()).sent == 1

    assert large in world.files
    assert len(world.files) <= 18
    await world.settle()
    assert await late.entries() == await one.entries()


async def test_a_purge_replaces_only_the_files_with_the_value(world: World) -> None:
    """A service would send all others again."""
    one = await world.add()
    for concept, value in ((PETS_NAME, "Rex"), (CITY, "canary")):
        world.clock.now += timedelta(seconds=1)
        await one.store.save(SingleFact(concept, value), *ALICES)
        await one.sync()
    kept, replaced = sorted(world.files, key=lambda path: path.name.split("-")[1])
    world.clock.now += timedelta(seconds=1)
    await one.store.forget(*ALICES, concept=CITY, value="canary", purge=True)

    await one.sync()

    assert kept in world.files
    assert replaced not in world.files
    assert b"canary" not in world.opened()


async def test_definitions_of_concepts_are_shared(world: World) -> None:
    """Of two, all devices take the one that was changed more often."""
    one, other = await world.add(), await world.add()
    await one.store.define([CITY, PETS])
    await other.store.define([Concept("city", "A city", value_type=Literal["Busan"])])
    await other.store.define([CITY])

    await world.settle()

    known = await one.store.concepts()
    assert [(each.keyword, each.version) for each in known] == [("city", 2), ("pets", 1)]
    assert await other.store.concepts() == known


async def test_more_places_can_be_synced_later(world: World) -> None:
    """What was left out of a file is taken from it then."""
    one, other = await world.add(), await world.add()
    for place in PLACES:
        await one.store.save(SingleFact(CITY, "Busan"), place.subject, place.scope)
    await one.sync()

    assert (await other.sync(places=[ALICE])).received == 1
    assert [len(each) for each in await other.entries()] == [1, 0]
    assert (await other.sync()).received == 1
    assert await one.entries() == await other.entries()


async def test_a_dry_run_writes_nothing(world: World) -> None:
    one = await world.add()
    await one.store.save(SingleFact(CITY, "Busan"), *ALICES)

    assert (await one.sync(dry_run=True)).sent == 1
    assert world.files == []
    assert (await one.sync()).sent == 1


async def test_the_folder_tells_no_words(world: World) -> None:
    """Neither names nor contents, and sizes in steps only."""
    one, other = await world.add("laptop-of-canary"), await world.add()
    canaries = [f"canary{n}" for n in range(10)]
    place = Place(MemoryScope.Product(canaries[0]), USER.of(canaries[1]))
    fact = SingleFact(
        Concept(canaries[2], canaries[3]), canaries[4], metadata={canaries[5]: canaries[6]}
    )
    await one.store.save(fact, place.subject, place.scope)
    await one.store.save(SingleFact(CITY, canaries[7]), place.subject, place.scope)
    await one.store.forget(place.subject, place.scope, concept=CITY)
    turn = new_turn({"role": "user", "content": canaries[8]})
    await one.store.conversations.append([turn], canaries[9], place)
    await one.sync(conversations=True)
    await other.sync(conversations=True)

    everything = b"".join(path.name.encode() + path.read_bytes() for path in world.files)
    assert b"canary" not in everything
    assert all((path.stat().st_size - 43) % 4096 == 0 for path in world.files)
    assert await other.store.load_all(place.subject, place.scope) != []


@pytest.mark.parametrize("is_own", [True, False])
async def test_a_purged_value_leaves_all_devices_and_the_folder(
    world: World, *, is_own: bool
) -> None:
    """The device that purged says who may still have it, also if another one has written it."""
    one, other = await world.add(), await world.add()
    await (one if is_own else other).store.save(SingleFact(CITY, "canary"), *ALICES)
    await world.settle()
    world.clock.now += timedelta(hours=1)
    await one.store.forget(*ALICES, concept=CITY, value="canary", purge=True)

    first = await one.sync()

    assert [at for _, at in first.behind] == [datetime(2026, 1, 1, tzinfo=UTC)]
    assert (b"canary" in world.opened()) != is_own, "a device replaces its own files only"
    await other.sync()
    assert (await one.sync()).behind == ()
    assert b"canary" not in world.opened()
    assert "canary" not in str([await other.entries(), await one.entries()])


async def test_an_erased_place_is_erased_on_all_devices(world: World) -> None:
    """What another device has recorded since then stays, whoever syncs first."""
    one, other, late = await world.add(), await world.add(), await world.add()
    await one.store.save(SingleFact(CITY, "canary"), *ALICES)
    await world.settle()
    world.clock.now += timedelta(hours=1)
    await one.store.erase(*ALICES)
    world.clock.now += timedelta(hours=1)
    await late.store.save(SingleFact(CITY, "Busan", timestamp=world.clock.now), *ALICES)

    assert (await one.sync()).erased == 0
    assert (await other.sync()).erased == 1
    await world.settle()

    for device in world.devices:
        assert [fact.values for fact in await device.store.load_all(*ALICES)] == [("Busan",)]
    assert b"canary" not in world.opened()


async def test_a_restored_store_gets_back_what_it_had_published(world: World) -> None:
    """Its files are read before they are replaced: nobody else may have read them yet."""
    one = await world.add("one")
    await one.store.save(SingleFact(CITY, "Busan", timestamp=world.clock.now), *ALICES)
    await one.sync()
    older = await one.store.entries(*ALICES)
    world.clock.now += timedelta(hours=1)
    await one.store.save(SingleFact(CITY, "Seoul", timestamp=world.clock.now), *ALICES)
    await one.sync()
    backup = await world.add("older")
    backup.state = one.state
    await backup.store.replay(older, *ALICES)
    world.devices.remove(one)

    await backup.sync()

    (fact,) = await backup.store.load(CITY, *ALICES)
    assert fact.value == "Seoul"


async def test_a_restored_store_that_was_written_to_loses_neither(world: World) -> None:
    """Though it has as many entries as before, or more of them, some are others."""
    for more in (1, 2, 3):
        one = await world.add(f"one {more}")
        where: Any = (PLACES[more % 2].subject, MemoryScope.Product(f"app {more}"))
        await one.store.save(SingleFact(PETS_NAME, "Rex"), *where)
        backup = world.root / f"backup {more}"
        await one.store.backup(backup)
        for city in ("Busan", "Seoul"):
            world.clock.now += timedelta(seconds=1)
            await one.store.save(SingleFact(CITY, city, timestamp=world.clock.now), *where)
        await one.sync()
        await world.restore(one, backup)
        for number in range(more):
            world.clock.now += timedelta(seconds=1)
            await one.store.save(MultipleFacts(PETS, [f"pet {number}"]), *where)

        await one.sync()

        late = await world.add(f"late {more}")
        await late.sync()
        for store in (one.store, late.store):
            assert len(await store.entries(*where)) == 3 + more


async def test_a_device_that_is_restored_whole_publishes_what_only_its_files_had(
    world: World,
) -> None:
    """Also with an older state, as after the restore of a disk."""
    one = await world.add()
    await one.store.save(SingleFact(PETS_NAME, "Rex"), *ALICES)
    await one.sync()
    backup, state = world.root / "backup", (one.state / "state.json").read_bytes()
    await one.store.backup(backup)
    world.clock.now += timedelta(seconds=1)
    await one.store.save(SingleFact(CITY, "Seoul"), *ALICES)
    await one.sync()
    await world.restore(one, backup)
    (one.state / "state.json").write_bytes(state)

    assert any("older ones" in problem for problem in (await one.sync()).problems)

    late = await world.add()
    await late.sync()
    for device in (one, late):
        assert [fact.value for fact in await device.store.load(CITY, *ALICES)] == ["Seoul"]


async def test_a_device_that_lost_its_state_loses_and_doubles_nothing(world: World) -> None:
    one, other = await world.add(), await world.add()
    await one.store.save(SingleFact(CITY, "Busan"), *ALICES)
    await world.settle()
    (one.state / "state.json").write_bytes(b"not a state")
    await one.store.save(SingleFact(CITY, "Seoul"), *ALICES)

    await world.settle()

    assert await one.entries() == await other.entries()
    assert len((await one.entries())[0]) == 2


def test_a_program_without_await_syncs(tmp_path: Path) -> None:
    """It calls the same function, in the loop of its stores."""
    key, shared = key_of_phrase(new_phrase()), tmp_path / "shared"
    shared.mkdir()
    seen: list[tuple[int, int]] = []

    def sync(store: LocalStoreSync, name: str) -> SyncReport:
        given: Any = {"progress": lambda *done: seen.append(done), "conversations": True}
        return sync_without_await(store, shared, key=key, state=tmp_path / f"{name}.sync", **given)

    one, other = (LocalFileMemoryProvider(tmp_path / name) for name in ("one", "other"))
    scopes = MemoryScopesProfile(product="app")
    memory = MemorySync(AgentMemory(one, scopes=scopes, subjects=[USER]))
    with LocalStoreSync(one) as first, LocalStoreSync(other) as second:
        first.save(SingleFact(CITY, "Busan"), *ALICES)
        memory.of("alice").conversation("chat").append({"role": "user", "content": "hello"})
        reports = sync(first, "one"), sync(second, "other")
        (fact,) = second.load(CITY, *ALICES)

    assert [(each.sent, each.received) for each in reports] == [(2, 0), (0, 2)]
    assert (fact.value, seen) == ("Busan", [(1, 1)])


async def test_only_one_sync_of_a_device_runs(world: World) -> None:
    one = await world.add()
    one.state.mkdir()
    fd = os.open(one.state / "lock", os.O_RDWR | os.O_CREAT)
    try_lock(fd)

    with pytest.raises(StoreBusyError, match="another sync"):
        await one.sync()
    os.close(fd)


async def test_a_clock_that_is_ahead_is_reported(world: World) -> None:
    """Its entries are taken when that time has come."""
    one, other = await world.add(), await world.add(clock=Clock())
    world.clock.now += timedelta(hours=1)
    await one.store.save(SingleFact(CITY, "Busan"), *ALICES)
    await one.sync()

    report = await other.sync()

    (problem,) = report.problems
    assert problem.startswith("Files that a wrong clock or another")
    assert problem.endswith(": 1")
    assert await other.entries() == [[], []]


class TestPhrase:
    def test_it_is_nine_words_and_makes_one_key(self) -> None:
        phrase = new_phrase()

        assert [len(word) for word in phrase.split()] == [5] * 9
        assert key_of_phrase(phrase) == key_of_phrase(f"  {phrase.upper()}\n")
        assert phrase != new_phrase()

    def test_a_mistyped_word_is_noticed(self) -> None:
        """And the error does not repeat it."""
        words = new_phrase().split()
        for at, word in enumerate(words):
            other = "bobab" if word != "bobab" else "dodad"
            wrong = [*words[:at], other, *words[at + 1 :]]
            with pytest.raises(ValueError, match=r"mistyped") as caught:
                key_of_phrase(" ".join(wrong))
            assert other not in str(caught.value)

    @pytest.mark.parametrize("text", ["", "one two", "lusab " * 8, "aaaaa " * 9])
    def test_another_text_is_no_phrase(self, text: str) -> None:
        with pytest.raises(ValueError, match="9 words"):
            key_of_phrase(text)


async def say(device: Device, *texts: str, chat: str = "chat", learn: bool = False) -> list[str]:
    """Append messages, each in a second of its own; return their ids."""
    ids: list[str] = []
    for text in texts:
        device.clock.now += timedelta(seconds=1)
        turn = new_turn({"role": "user", "content": text})
        rest = timedelta(seconds=1) if learn else None
        (new,) = await device.store.conversations.append([turn], chat, ALICE, learn_after=rest)
        ids.append(new.id)
    return ids


async def said(device: Device, chat: str = "chat") -> dict[int, str]:
    turns = await device.store.conversations.turns(chat, ALICE)
    return {turn.number: turn.text for turn in turns}


async def settle(world: World) -> None:
    await world.settle(conversations=True)


async def test_conversations_go_along_if_they_are_wanted(world: World) -> None:
    """Of devices that want them; the messages keep their numbers, times and ids."""
    one, other, third = [await world.add() for _ in range(3)]
    await say(one, "zero", "one", "two")
    await world.settle()
    assert await said(other) == {}

    await one.sync(conversations=True)
    await other.sync(conversations=True)
    await third.sync()

    assert await said(other) == {0: "zero", 1: "one", 2: "two"}
    assert await other.chats() == await one.chats()
    assert await said(third) == {}
    await say(other, "three")
    await other.sync()  # once wanted, they stay wanted
    assert (await one.sync()).received == 1
    assert await said(one) == await said(other)


async def test_numbers_that_facts_cite_are_the_same_on_all_devices(world: World) -> None:
    """Also after messages that others never saw."""
    one, other = await world.add(), await world.add()
    (first,) = await say(one, "zero")
    await settle(world)
    lost = await say(one, "never seen", "nor this")
    await one.store.conversations.remove("chat", ALICE, ids=lost)
    await say(one, "three")

    await settle(world)

    assert await said(other) == await said(one) == {0: "zero", 3: "three"}
    await one.store.conversations.remove("chat", ALICE, ids=[first])
    await say(one, "four")
    await settle(world)
    assert await said(other) == await said(one) == {3: "three", 4: "four"}


async def test_messages_of_two_devices_come_in_the_order_of_their_times(world: World) -> None:
    one, other, late = [await world.add() for _ in range(3)]
    await say(one, "a")
    await settle(world)
    for device, text in [(other, "b"), (one, "c"), (other, "d"), (one, "e")]:
        await say(device, text)

    await settle(world)

    for device in (one, other, late):
        assert list((await said(device)).values()) == ["a", "b", "c", "d", "e"]


async def test_a_removed_message_does_not_return_from_a_device_without_state(world: World) -> None:
    one, other = await world.add(), await world.add()
    (name,) = await say(one, "canary")
    await settle(world)
    await one.store.conversations.remove("chat", ALICE, ids=[name])
    await one.sync()
    (other.state / "state.json").unlink()

    for device in (other, one, other):
        await device.sync(conversations=True)

    assert await said(one) == await said(other) == {}
    assert b"canary" not in world.opened()


async def test_an_edited_message_replaces_the_old_one(world: World) -> None:
    """On whichever device it was edited last."""
    one, other = await world.add(), await world.add()

    async def edit(device: Device, text: str) -> None:
        world.clock.now += timedelta(seconds=1)
        memory = AgentMemory(
            device.store, scopes=MemoryScopesProfile(product="app"), subjects=[USER]
        )
        chat = memory.of("alice").conversation("chat", learn=False)
        await chat.append({"role": "user", "content": text}, ids=["1"])

    await edit(one, "canary")
    await settle(world)
    await edit(one, "I live in Busan")
    await edit(other, "I live in Seoul")

    await settle(world)

    for device in world.devices:
        assert list((await said(device)).values()) == ["I live in Seoul"]
    assert b"canary" not in world.opened()


async def test_a_purged_value_leaves_the_messages_of_all_devices(world: World) -> None:
    """Of two devices that purge different values, no copy keeps either."""
    one, other, third = [await world.add() for _ in range(3)]
    await say(one, "Rex and Kim and Tom")
    for name in ("Rex", "Kim"):
        await one.store.save(MultipleFacts(PETS, [name]), *ALICES)
    await settle(world)
    world.clock.now += timedelta(seconds=1)
    await one.store.forget(*ALICES, concept=PETS, value="Rex", purge=True)
    await third.store.forget(*ALICES, concept=PETS, value="Kim", purge=True)

    await settle(world)

    for device in (one, other, third):
        assert list((await said(device)).values()) == [f"{REMOVED} and {REMOVED} and Tom"]
    assert b"Rex" not in world.opened()


async def test_a_restored_store_loses_no_messages(world: World) -> None:
    """What it does not have was not removed."""
    one, other = await world.add(), await world.add()
    await say(one, "a")
    await settle(world)
    backup = world.root / "backup"
    await one.store.backup(backup)
    await say(one, "b")
    await say(one, "new", chat="another")
    await settle(world)
    await world.restore(one, backup)
    await say(one, "c")

    await settle(world)

    for device in (one, other):
        assert list((await said(device)).values()) == ["a", "b", "c"]
        assert list((await said(device, "another")).values()) == ["new"]


async def test_a_restored_store_gets_back_messages_that_nobody_else_has_read(world: World) -> None:
    one = await world.add()
    await say(one, "a")
    await settle(world)
    backup = world.root / "backup"
    await one.store.backup(backup)
    await say(one, "b")
    await settle(world)
    await world.restore(one, backup)

    await settle(world)

    assert await said(one) == {0: "a", 1: "b"}
    assert b'"b"' in world.opened()


async def test_a_removed_message_does_not_return_with_a_file_that_was_written_again(
    world: World,
) -> None:
    one, other = await world.add(), await world.add()
    ids = await say(one, "canary", "kept")
    await settle(world)
    for path in world.files:
        path.unlink()
    await one.sync()
    await other.store.conversations.remove("chat", ALICE, ids=ids[:1])
    await other.sync()

    await settle(world)

    assert await said(one) == await said(other) == {1: "kept"}
    assert b"canary" not in world.opened()


async def test_a_restored_store_gets_back_no_removed_message(world: World) -> None:
    one, other = await world.add(), await world.add()
    ids = await say(one, "canary", "kept")
    await settle(world)
    backup = world.root / "backup"
    await one.store.backup(backup)
    await one.store.conversations.remove("chat", ALICE, ids=ids[:1])
    await settle(world)
    await world.restore(one, backup)

    await settle(world)

    assert await said(one) == await said(other) == {1: "kept"}
    assert b"canary" not in world.opened()


async def test_a_message_of_another_device_is_not_queued_and_queues_stay(world: World) -> None:
    one, other = await world.add(), await world.add()
    await say(one, "hello", learn=True)
    await settle(world)
    await say(other, "of the other")
    await settle(world)

    states = [await device.store.conversations.state() for device in (one, other)]

    assert [each.pending for each in states] == [1, 0]
    assert await one.chats() == await other.chats()


async def test_stores_in_memory_share_conversations(world: World) -> None:
    one, other = await world.add(), await world.add()
    async with InMemoryProvider(clock=world.clock) as memory:
        other.store = memory
        await say(one, "a")
        await settle(world)
        await say(other, "b")
        await settle(world)

        assert await said(one) == await said(other) == {0: "a", 1: "b"}


@table(
    ("one", "other", "left"),
    [
        (f"a {REMOVED} c", "a b c", f"a {REMOVED} c"),
        (f"{REMOVED} b c", f"a b {REMOVED}", REMOVED),
        (f"{REMOVED} c", f"a {REMOVED} c", f"{REMOVED} c"),
        (REMOVED, "a b", REMOVED),
    ],
)
def test_of_two_copies_the_one_without_the_value_is_taken(one: str, other: str, left: str) -> None:
    """Where each copy has lost another value, its words are those of neither."""
    at = "2026-01-01T00:00:00.000000Z"
    copies: list[Any] = [
        {"at": at, "turn": {"id": "1", "message": {"role": "user", "content": text}}, "number": 0}
        for text in (one, other)
    ]
    for pair in (copies, copies[::-1]):
        found: Any = Rules("chat", set()).merged({}, 0, pair)
        assert found[0]["turn"]["message"]["content"] == left
