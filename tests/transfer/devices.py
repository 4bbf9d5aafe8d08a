"""Devices that share a folder, and random histories of them."""

from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from factmem import FactType, LocalFileMemoryProvider, MemoryScope, MemorySubject
from factmem.encryption.key import Key
from factmem.ledger.entries import Entry
from factmem.models.facts import Concept, FactState, MultipleFacts, SingleFact
from factmem.models.places import Place
from factmem.providers.conversations import NewTurn, new_turn
from factmem.transfer._device_files import SealedFiles
from factmem.transfer.bundle import conversations_of
from factmem.transfer.devices import SyncReport, key_of_phrase, new_phrase, sync_devices
from tests.world import storage_of

CITY = Concept("city", "Where the user lives")
PETS_NAME = Concept("pets-name", "The name of the pet")
PETS = Concept("pets", "The pets", FactType.MULTIPLE)
USER = MemorySubject("user", "The user", 1, per_entity=True)
APP = MemoryScope.Product("app")
PLACES = [Place(APP, USER.of(name)) for name in ("alice", "bob")]
ALICE = PLACES[0]
ALICES: Any = (ALICE.subject, ALICE.scope)
"""The place of Alice, as the methods of a store take it."""


class Clock:
    """One clock of all devices, which often stands still."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@dataclass
class Device:
    """A device, with its store and what it keeps of the folder."""

    name: str
    store: Any
    secret: str | None
    """The key of the store, if it is encrypted."""
    path: Path
    folder: Path
    state: Path
    key: Key
    clock: Clock
    has_chats: bool = False
    is_restored: bool = False
    """Whether its store was restored since the last sync."""

    async def sync(self, **options: Any) -> SyncReport:
        given: Any = {"key": self.key, "state": self.state, "clock": self.clock}
        options = {"conversations": self.has_chats, **options}
        self.is_restored = False
        return await sync_devices(self.store, self.folder, **given, **options)

    async def entries(self) -> list[list[Entry]]:
        return [await self.store.entries(place.subject, place.scope) for place in PLACES]

    async def chats(self) -> list[dict[str, list[Any]]]:
        """Return the messages of each conversation of each place."""
        return [
            {
                name: [(turn.id, turn.message, turn.said_at) for turn in turns]
                for name, turns in await conversations_of(self.store, place)
            }
            for place in PLACES
        ]


@dataclass
class World:
    """Some devices that share a folder."""

    root: Path
    stack: AsyncExitStack
    clock: Clock = field(default_factory=Clock)
    key: Key = field(default_factory=lambda: key_of_phrase(new_phrase()))
    devices: list[Device] = field(default_factory=list)

    async def add(self, name: str = "", clock: Clock | None = None) -> Device:
        name = name or f"device-{len(self.devices)}"
        folder = self.root / "shared"
        folder.mkdir(exist_ok=True)
        secret = Key.generate().to_base64() if len(self.devices) % 2 else None
        storage = storage_of(*filter(None, [secret]))
        path, state = self.root / name, self.root / f"{name}.sync"
        provider = LocalFileMemoryProvider(path, clock=clock or self.clock, storage=storage)
        store = await self.stack.enter_async_context(provider)
        device = Device(name, store, secret, path, folder, state, self.key, self.clock)
        self.devices.append(device)
        return device

    async def restore(self, device: Device, backup: Path) -> None:
        """Let a device go on with a backup of its store."""
        provider = LocalFileMemoryProvider(
            backup, clock=self.clock, storage=storage_of(*filter(None, [device.secret]))
        )
        device.is_restored = True
        device.path, device.store = backup, await self.stack.enter_async_context(provider)

    @property
    def files(self) -> list[Path]:
        return sorted((self.root / "shared").iterdir())

    def opened(self, key: Key | None = None) -> bytes:
        """Return the content of all files of the folder."""
        files = SealedFiles(self.root / "shared", key or self.key)
        return b"".join(files.read(path.name)[1] for path in self.files)

    async def settle(self, **options: Any) -> None:
        """Sync all devices until nothing is left to do."""
        for _ in range(6):
            before = [path.name for path in self.files]
            reports = [await device.sync(**options) for device in self.devices]
            assert not any(report.problems for report in reports), reports
            if before == [path.name for path in self.files]:
                return
        raise AssertionError("the devices never come to rest")


def is_told_once(entries: list[Entry]) -> bool:
    """Whether each fact is there once."""
    ids = [fact["id"] for entry in entries for fact in entry.get("facts", ())]
    return len(ids) == len(set(ids))


async def faults_of(world: World, said: set[str]) -> list[str]:
    """Return what differs between the devices, and what they lost, doubled or invented."""
    first, *others = [await device.entries() for device in world.devices]
    wrong = [f"device {n} differs" for n, each in enumerate(others, 1) if each != first]
    wrong += ["a fact is doubled" for each in first if not is_told_once(each)]
    facts = [fact for each in first for entry in each for fact in entry.get("facts", ())]
    known = {str(value) for fact in facts for value in fact.get("values", [fact.get("value")])}
    mine, *chats = [await device.chats() for device in world.devices]
    wrong += [f"chats of device {n} differ" for n, each in enumerate(chats, 1) if each != mine]
    turns = [turn for each in mine for chat in each.values() for turn in chat]
    wrong += ["a message is doubled"] * (len(turns) - len({each[0] for each in turns}))
    known |= {str(message["content"]) for _, message, _ in turns}
    return [*wrong, *(f"{value} is lost" for value in said - known), *sorted(known - said)]


class History:
    """Random operations on the devices of a world."""

    def __init__(self, world: World, seed: int, *, chats: bool = False) -> None:
        self.world = world
        self.options = {"conversations": chats}
        self.chance = Random(seed)
        self.made = 0
        self.removed: dict[str, datetime] = {}
        """When each value was purged or erased."""
        self.said: dict[str, datetime] = {}
        """When each value was saved last."""
        self.backups: list[tuple[Device, Path]] = []

    def value(self) -> str:
        self.made += 1
        return f"canary{self.made:04}x"

    async def step(self) -> None:
        chance, clock = self.chance, self.world.clock
        clock.now += timedelta(seconds=chance.choice([0, 0, 1, 60]))
        device, place = chance.choice(self.world.devices), chance.choice(PLACES)
        where: Any = (place.subject, place.scope)
        kinds = "ssssmmmrfpPebyyyy" + ("ccccdtxyy" if self.options["conversations"] else "")
        match chance.choice(kinds):
            case "s":
                await self._save(device, SingleFact(CITY, self.value(), **self._times()), where)
            case "m":
                values = [self.value() for _ in range(chance.randint(1, 3))]
                state = chance.choice([FactState.STATED, FactState.PROPOSED, FactState.CONFIRMED])
                fact = MultipleFacts(PETS, values, state=state, **self._times())
                await self._save(device, fact, where)
            case "r":  # say again what another device may have removed
                if pets := await device.store.load(PETS, *where):
                    again = chance.choice(pets).values[0]
                    await self._save(device, MultipleFacts(PETS, [str(again)]), where)
            case "f" | "p" | "P" as kind:
                concept: Any = chance.choice([CITY, PETS])
                known = await device.store.load(concept, *where)
                values = [str(value) for fact in known for value in fact.values]
                purge: Any = {"f": False, "p": True, "P": "quotes"}[kind]
                if values and (value := chance.choice(values)):
                    await device.store.forget(*where, concept=concept, value=value, purge=purge)
                    if purge:
                        self.removed[value] = clock.now
            case "e":
                held = str(await device.store.entries(*where))
                await device.store.erase(*where)
                held += str(await conversations_of(device.store, place))
                gone = [value for value in self.said if value in held]
                self.removed |= dict.fromkeys(gone, clock.now)
            case "b":
                await self._restore_or_copy(device)
            case "c":
                await self._talk(device, place)
            case "d" | "t" | "x" as kind:
                await self._remove(device, place, kind)
            case _:
                await device.sync(**self.options)

    async def _talk(self, device: Device, place: Place) -> None:
        """Append messages, which may contain a value that is known or be of an id that is known."""
        chance, known = self.chance, await device.store.load(PETS, place.subject, place.scope)
        turns: list[NewTurn] = []
        for _ in range(chance.randint(1, 3)):
            text = self.value()
            self.said[text] = self.world.clock.now
            if known and chance.random() < 0.5:
                value = str(chance.choice(known).values[0])
                text, self.said[value] = f"{text} and {value}", self.world.clock.now
            name = f"{device.name} {chance.randint(0, 9)}" if chance.random() < 0.3 else None
            turns.append(new_turn({"role": "user", "content": text}, None, name))
        await device.store.conversations.append(turns, chance.choice(["one", "two"]), place)

    async def _remove(self, device: Device, place: Place, kind: str) -> None:
        """Remove a message, those before a time, or a whole conversation."""
        if device.is_restored:  # what is removed from a restored store before its sync returns
            await device.sync(**self.options)
        talks, chance = device.store.conversations, self.chance
        if chats := await conversations_of(device.store, place):
            name, turns = chance.choice(chats)
            some: Any = {
                "d": {"ids": [each.id for each in chance.sample(turns, 1)]},
                "t": {"before": self.world.clock.now - timedelta(seconds=chance.randint(0, 60))},
                "x": {},
            }[kind]
            await talks.remove(name, place, **some)
            left = str(await talks.turns(name, place))
            words = str([each.message["content"] for each in turns if str(each.id) not in left])
            gone = [value for value in self.said if value in words and value not in left]
            facts = str(await device.store.entries(place.subject, place.scope))
            self.removed |= {value: self.world.clock.now for value in gone if value not in facts}

    async def _restore_or_copy(self, device: Device) -> None:
        """Make a backup, or go on with an older one after all is in the folder."""
        if self.backups and self.chance.random() < 0.5:
            device, path = self.backups.pop()
            await device.sync(**self.options)
            await self.world.restore(device, path)
            return
        await device.sync(**self.options)
        path = self.world.root / f"backup-{self.made}-{len(self.backups)}-{device.name}"
        if device.path.exists() and not path.exists():
            await device.store.backup(path)
            self.backups.append((device, path))

    def _times(self) -> dict[str, Any]:
        back = timedelta(seconds=self.chance.choice([0, 0, 30, 3600]))
        return {"timestamp": self.world.clock.now - back}

    async def _save(self, device: Device, fact: Any, where: Any) -> None:
        await device.store.save(fact, *where)
        self.said |= dict.fromkeys(map(str, fact.values), self.world.clock.now)


async def differences(world: World, seed: int) -> list[str]:
    """Return what is wrong after a random history whose devices have all synced."""
    history = History(world, seed, chats=seed % 2 == 1)
    for _ in range(history.chance.randint(2, 5)):
        await world.add()
    for _ in range(history.chance.randint(5, 30)):
        await history.step()
    world.clock.now += timedelta(seconds=1)
    await world.settle(**history.options)
    first, *others = [await device.entries() for device in world.devices]
    wrong = [f"{seed}: device {n} differs" for n, each in enumerate(others, 1) if each != first]
    if history.options["conversations"]:
        first_chats, *chats = [await device.chats() for device in world.devices]
        wrong += [
            f"{seed}: chats of device {n} differ"
            for n, each in enumerate(chats, 1)
            if each != first_chats
        ]
    # What was said after its removal, on a device that did not know of it, is a new statement.
    gone = [value for value, at in history.removed.items() if history.said[value] < at]
    stores = b"".join(
        path.read_bytes() for device in world.devices for path in device.path.glob("*")
    )
    folder = world.opened()
    wrong += [
        f"{seed}: {value} is left in the folder" for value in gone if value.encode() in folder
    ]
    wrong += [f"{seed}: {value} is left in a store" for value in gone if value.encode() in stores]
    return wrong
