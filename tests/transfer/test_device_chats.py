"""Conversations on several devices: what one appends, edits or removes is so on all of them."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from factmem import AgentMemory, InMemoryProvider, MemoryScopesProfile, MultipleFacts
from factmem.ledger._purging import REMOVED
from factmem.providers.conversations import new_turn
from factmem.transfer._device_state import Rules
from tests.tables import table
from tests.transfer.devices import ALICE, ALICES, PETS, USER, Device, World


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World]:
    async with AsyncExitStack() as stack:
        yield World(tmp_path, stack)


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
