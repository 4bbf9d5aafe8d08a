"""Two services with different definitions of the same concepts write to one store at the same time.

Four changes: a keyword was renamed, a type was changed, one value became many, a field was removed.
Whatever a service reads of the whole memory must not raise, hide a value, or leave out an
unreadable one without a report.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from factmem import (
    Aes256GCMEncryptor,
    AgentMemory,
    Concept,
    EncryptedStorage,
    FactStore,
    InMemoryProvider,
    Key,
    LocalFileMemoryProvider,
    Profile,
    remembered,
)
from factmem.providers.postgres import PostgresMemoryProvider
from tests.world import PROFILE, USER

KINDS = ("memory", "plain", "encrypted", "postgres", "postgres-encrypted")

USERS = [USER.of(f"user-{number}") for number in range(4)]


def years(text: Any) -> int:
    """Read the older type."""
    return int(str(text).removesuffix(" years"))


class Old(Profile):
    """The older version."""

    home_city: str | None = remembered("The city where the user lives")
    age: str | None = remembered("The user's age")
    pet: str | None = remembered("The user's pet")
    plan: str | None = remembered("The plan that the user pays for")


class New(Profile):
    """The newer one: renamed, another type, many values, a field less."""

    city: str | None = remembered("The city where the user lives", was=["home-city"])
    age: int | None = remembered("The user's age", read=years)
    pet: list[str] = remembered("The user's pets")


class Service:
    """One service: its version of the profile, on a store."""

    def __init__(self, store: FactStore, profile: type[Profile]) -> None:
        self.profile = profile
        self.memory = AgentMemory(
            store, concepts=[profile], scopes=PROFILE, subjects=[USER.every()]
        )

    def of(self, user: Any) -> AgentMemory:
        """Return the memory of one user."""
        return self.memory.view(subjects=[user])


class Run:
    """A run: writers of both versions, readers of both, and what must hold."""

    def __init__(self, old: FactStore, new: FactStore) -> None:
        self.old, self.new = Service(old, Old), Service(new, New)
        self.reads = self.unreadable = 0
        self.faults: list[str] = []
        self.pets: dict[str, set[str]] = {user.entity or "": set() for user in USERS}
        """The pets that must be visible: what the newer version saved, and what came after it."""

    async def write_old(self, number: int) -> None:
        """Save everything in the older way."""
        user = USERS[number % len(USERS)]
        pet = f"old-{number}"
        is_wide = bool(self.pets[user.entity or ""])
        age = "unknown" if number % 9 == 0 else f"{number} years"
        await self.old.of(user).save(Old(home_city=f"old-{number}", age=age, pet=pet, plan="gold"))
        if is_wide:
            self.pets[user.entity or ""].add(pet)

    async def write_new(self, number: int) -> None:
        """Save everything in the newer way; an edit changes one field."""
        user = USERS[number * 3 % len(USERS)]
        memory, pet = self.new.of(user), f"new-{number}"
        if number % 5:
            await memory.save(New(city=f"new-{number}", age=number, pet=[pet]))
        else:
            async with memory.edit(New) as me:
                me.pet.append(pet)
        self.pets[user.entity or ""].add(pet)

    async def look(self, service: Service, user: Any) -> None:
        """Read the whole memory of a user in every way."""
        memory, name = service.of(user), f"{service.profile.__name__} of {user.entity}"
        expected = set(self.pets[user.entity or ""])
        try:
            stored = await memory.store.load_all(user, PROFILE.scopes()[0])
            facts = await memory.current()
            report = await memory.load_facts_to_agent([])
            me = await memory.current(service.profile)
            records = await memory.contents.records(limit=10_000)
            await memory.contents.concepts()
        except Exception as exc:
            self.faults.append(f"{name}: {type(exc).__name__}: {exc}")
            return
        self.reads += 6
        self.unreadable += sum(each.count for each in facts.unreadable)
        stored_pets = {v for f in stored if f.concept.keyword == "pet" for v in f.values}
        if missing := expected - stored_pets:
            self.faults.append(f"{name}: the store hides {sorted(missing)[:3]}")
        if isinstance(me, New) and (missing := expected - set(me.pet)):
            self.faults.append(f"{name}: the profile hides {sorted(missing)[:3]}")
        keywords = {fact.concept.keyword for fact in facts}
        keywords |= {each.keyword for each in facts.unreadable}
        if not {fact.concept.keyword for fact in stored if fact.concept.keyword != "home-city"} <= (
            keywords | {"city"}
        ):
            self.faults.append(f"{name}: a concept is neither shown nor reported")
        if facts.unreadable and not report.facts:
            self.faults.append(f"{name}: one unreadable value emptied the prompt")
        if len(records) == 0 and stored:
            self.faults.append(f"{name}: no records")

    async def settle(self) -> None:
        """Check what must hold when nobody writes."""
        for user in USERS:
            for service in (self.old, self.new):
                await self.look(service, user)
            await self.check_unreadable(user)
        for each in await self.old.memory.contents.definitions():
            if (each.differs is not None) != (each.keyword in {"home-city", "age", "pet"}):
                self.faults.append(f"the older version is told {each.differs!r} of {each}")

    async def check_unreadable(self, user: Any) -> None:
        """Each service reports the value that it cannot read, and reads all others."""
        (age,) = await self.new.memory.store.load(
            Concept("age", "Any", value_type=Any), user, PROFILE.scopes()[0]
        )
        old = {each.keyword for each in (await self.old.of(user).current()).unreadable}
        new = {each.keyword for each in (await self.new.of(user).current()).unreadable}
        if ("age" in old) != (type(age.value) is int) or ("age" in new) != (age.value == "unknown"):
            self.faults.append(f"{user.entity}: {type(age.value)} age, {old}, {new}")
        city = await self.new.of(user).current(New.profile_concepts()["city"])
        if len(city) != 1:
            self.faults.append(f"{user.entity}: {len(city)} cities")


async def run(old: FactStore, new: FactStore, writes: int) -> Run:
    """Let both services write so often, and read all the time; return what was found."""
    this = Run(old, new)
    writing = 2

    async def write(save: Callable[[int], Any]) -> None:
        nonlocal writing
        for number in range(1, writes + 1):
            await save(number)
            await checkpoint()
        writing -= 1

    async def read(service: Service) -> None:
        while writing:
            for user in USERS:
                await this.look(service, user)
                await checkpoint()

    async with this.old.memory, this.new.memory:
        async with anyio.create_task_group() as tasks:
            for service in (this.old, this.new):
                tasks.start_soon(read, service)
            for save in (this.write_old, this.write_new):
                tasks.start_soon(write, save)
        await this.settle()
    return this


def stores(kind: str, folder: Path, dsn: str) -> tuple[FactStore, FactStore]:
    """Return two instances of a store, as two services have it; one of a store in memory."""
    if kind == "memory":
        store = InMemoryProvider()
        return store, store
    key = Aes256GCMEncryptor(Key.generate()) if kind.endswith("encrypted") else None

    def instance() -> FactStore:
        if dsn:
            return PostgresMemoryProvider(dsn, store=folder.name, encryption=key)
        storage = None if key is None else EncryptedStorage(key)
        return LocalFileMemoryProvider(folder, storage=storage)

    return instance(), instance()
