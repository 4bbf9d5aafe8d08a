"""Devices whose syncs are killed, and whose folder is late, half there, or changed by others.

The environment variables `KILLS`, `DELIVERIES` and `CHANGES` set how long each test looks.
"""

import multiprocessing
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from datetime import timedelta
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

from factmem import Key, MultipleFacts, SingleFact
from factmem.providers.conversations import new_turn
from tests.properties import examples
from tests.transfer.devices import CITY, PETS, PLACES, World, faults_of
from tests.transfer.killed_sync import killed_sync


def many(name: str, count: int) -> int:
    """Return how often a test tries something."""
    return int(os.environ.get(name, examples(count)))


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World]:
    async with AsyncExitStack() as stack:
        made = World(tmp_path, stack)
        for _ in range(3):
            (await made.add()).has_chats = True
        yield made


async def say(world: World, chance: Random, said: set[str]) -> None:
    """Let a device record something."""
    world.clock.now += timedelta(seconds=chance.choice([0, 1, 60]))
    device, place = chance.choice(world.devices), chance.choice(PLACES)
    where: Any = (place.subject, place.scope)
    value = f"canary{len(said):05}x"
    said.add(value)
    if chance.random() < 0.3:
        turn = new_turn({"role": "user", "content": value})
        await device.store.conversations.append([turn], chance.choice(["one", "two"]), place)
        return
    fact: Any = SingleFact(CITY, value, timestamp=world.clock.now)
    if chance.random() < 0.5:
        fact = MultipleFacts(PETS, [value], timestamp=world.clock.now)
    await device.store.save(fact, *where)
    if chance.random() < 0.1:
        await device.store.forget(*where, concept=PETS)


@pytest.mark.storm
async def test_a_killed_process_loses_and_doubles_nothing(world: World) -> None:
    """Killed at each file that it opens for writing, flushes, renames or removes."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.transfer.killed_sync"])
    chance, said, kills, left = Random(1), set[str](), 0, 0
    for _ in range(2 * many("KILLS", 60)):
        for _ in range(chance.choice([1, 1, 3])):
            await say(world, chance, said)
        device = chance.choice(world.devices)
        options = {"folder": device.folder, "state": device.state, "key": device.key.to_base64()}
        child = context.Process(
            target=killed_sync,
            args=(device.path, device.secret),
            kwargs={**options, "now": world.clock.now, "left": left},
        )
        child.start()
        child.join()
        assert child.exitcode in {0, -signal.SIGKILL}
        is_killed = child.exitcode != 0
        kills, left = kills + is_killed, left + 1 if is_killed else 0
    for device in world.devices:  # it tells of the files of a killed sync, and replaces them
        await device.sync()

    await world.settle()

    assert kills >= many("KILLS", 60)
    assert await faults_of(world, said) == []
    assert all(path.suffix == ".factmem" for path in world.files)


class Couriers:
    """A file service: each device has a copy of the folder, and files arrive as they like."""

    def __init__(self, world: World, chance: Random) -> None:
        self.chance = chance
        self.world = world
        self.old: list[tuple[Path, bytes]] = []
        """Files as they were at some time."""
        for number, device in enumerate(world.devices):
            device.folder = world.root / f"folder-{number}"
            device.folder.mkdir(exist_ok=True)

    def own(self, number: int) -> dict[str, bytes]:
        """Return the files that a device wrote, in its copy."""
        device = self.world.devices[number]
        names = {path.name for path in device.folder.glob("*.factmem")}
        others = {path.name for path, _ in self.received(number)}
        return {name: (device.folder / name).read_bytes() for name in names - others}

    def received(self, number: int) -> list[tuple[Path, bytes]]:
        folder = self.world.devices[number].folder
        return [each for each in self.old if each[0].parent == folder]

    def deliver(self) -> None:
        """Deliver a file: whole, half, again, or as it was before its device removed it."""
        chance, count = self.chance, len(self.world.devices)
        source, target = chance.sample(range(count), 2)
        folder, files = self.world.devices[target].folder, self.own(source)
        match chance.choice(["whole", "whole", "half", "removed", "again"]):
            case "whole" if files:
                name = chance.choice(sorted(files))
                self._put(folder / name, files[name])
            case "half" if files:
                name = chance.choice(sorted(files))
                self._put(folder / name, files[name][: chance.randint(0, len(files[name]))])
            case "removed":
                for path, _ in self.received(target):
                    if all(path.name not in self.own(n) for n in range(count) if n != target):
                        path.unlink(missing_ok=True)
            case "again" if known := self.received(target):
                self._put(*chance.choice(known))
            case _:
                pass

    def _put(self, path: Path, data: bytes) -> None:
        path.write_bytes(data)
        self.old.append((path, data))

    def finish(self) -> None:
        """Deliver all that is missing."""
        for target, device in enumerate(self.world.devices):
            wanted: dict[str, bytes] = {}
            for source in range(len(self.world.devices)):
                if source != target:
                    wanted |= self.own(source)
            for path, _ in self.received(target):
                if path.name not in wanted:
                    path.unlink(missing_ok=True)
            for name, data in wanted.items():
                if not (path := device.folder / name).exists() or path.read_bytes() != data:
                    self._put(path, data)


async def test_files_that_arrive_late_half_or_twice_lose_nothing(world: World) -> None:
    """In any order; what one sync refuses, a later one takes."""
    chance, said = Random(2), set[str]()
    couriers = Couriers(world, chance)
    for _ in range(many("DELIVERIES", 600)):
        if chance.random() < 0.3:
            await say(world, chance, said)
        if chance.random() < 0.3:
            await chance.choice(world.devices).sync()
        couriers.deliver()
    for _ in range(4):
        couriers.finish()
        for device in world.devices:
            await device.sync()
    couriers.finish()

    reports = [await device.sync() for device in world.devices]

    assert [each.problems for each in reports] == [()] * 3
    assert await faults_of(world, said) == []


def change(files: list[Path], old: dict[Path, bytes], chance: Random) -> bool:
    """Change a folder as one without the key can; return whether it must be told."""
    path = chance.choice(files)
    data = path.read_bytes()
    kinds = ["flip", "cut", "grow", "rename", "swap", "remove", "foreign", "link", "copy", "old"]
    name = f"{chance.randbytes(8).hex()}-{chance.randrange(99):08}-01234567.factmem"
    match chance.choice(kinds):
        case "flip":
            at = chance.randrange(len(data))
            path.write_bytes(
                data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
            )
        case "cut":
            path.write_bytes(data[: chance.randrange(len(data))])
        case "grow":
            path.write_bytes(data + chance.randbytes(chance.randint(1, 5000)))
        case "rename":
            path.rename(path.with_name(f"{chance.randbytes(8).hex()}{path.name[16:]}"))
        case "swap":
            other = chance.choice(files)
            path.write_bytes(other.read_bytes())
            other.write_bytes(data)
            return other != path
        case "remove":
            path.unlink()
        case "foreign":
            path.with_name(name).write_bytes(chance.randbytes(4139))
        case "link":
            path.with_name(name).symlink_to(path.with_name("no file"))
            path.with_name(name[1:].replace("-", "0-", 1)).mkdir()
        case "copy":
            path.with_name(f"{name} in conflict.factmem").write_bytes(data)
        case _:
            back, content = chance.choice(sorted(old.items()))
            is_new = not back.exists()
            back.write_bytes(content)
            return is_new
    return True


async def test_changes_of_the_folder_are_told_and_not_taken(world: World) -> None:
    """Whoever has no key can make a device do more work, and no more than that."""
    chance, said, old, untold = Random(3), set[str](), dict[Path, bytes](), 0
    await world.settle()
    for _ in range(many("CHANGES", 200)):
        await say(world, chance, said)
        for device in chance.sample(world.devices, 2):
            await device.sync()
        before = [(await device.sync()).problems for device in world.devices]
        names = tuple(device_ids(world))
        files = [path for path in world.files if path.name.startswith(names)]
        old |= {path: path.read_bytes() for path in files if path not in old}
        is_change = change(files, old, chance)
        after = [(await device.sync()).problems for device in world.devices]
        untold += is_change and not {*chain(*after)} - {*chain(*before)}
    for _ in range(3):
        for device in world.devices:
            await device.sync()

    assert untold == 0
    assert await faults_of(world, said) == []


async def test_a_removed_device_writes_in_vain(world: World) -> None:
    """With the old key it reads nothing new, and nothing that it writes is taken."""
    chance, said = Random(4), set[str]()
    *others, removed = world.devices
    await say(world, chance, said)
    await world.settle()
    world.devices, key = others, Key.generate()
    for device in others:
        device.key = key
        await device.sync()
    where: Any = (PLACES[0].subject, PLACES[0].scope)
    for number in range(many("CHANGES", 200)):
        await say(world, chance, said)
        await removed.store.save(SingleFact(CITY, f"forged {number}"), *where)
        if number % 3 == 2:
            await removed.store.erase(*where)
        for device in (removed, *others):
            report = await device.sync()
            assert report.problems
    late = await world.add("late")
    late.key, late.has_chats = key, True
    for device in world.devices:
        await device.sync()

    assert await faults_of(world, said) == []  # the late one has what the removed one had written
    known = str(await removed.entries())
    assert [value for value in said if value in known and value != min(said)] == []


def device_ids(world: World) -> list[str]:
    """Return the names under which the devices write."""
    states = [orjson.loads((each.state / "state.json").read_bytes()) for each in world.devices]
    return [state["device"] for state in states]
