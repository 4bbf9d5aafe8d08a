"""rename, merge and convert over many users, in a process that is killed again and again."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from factmem import (
    AgentMemory,
    Concept,
    LocalFileMemoryProvider,
    MemoryScope,
    MultipleFacts,
    SingleFact,
)
from factmem.memory.concept_changes import ChangeReport
from factmem.models import FactType
from tests.processes import Process, Tell
from tests.world import USER

USERS, KILLS = 80, 2
MANY_USERS, MANY_KILLS = 1000, 20
"""With `--thorough`."""
APP = MemoryScope.Product("app")
PRICE = Concept("price", "What it costs, in cents", value_type=int)
CITY = Concept("city", "The city where the user lives")
HOME = Concept("home", "The user's home")
PETS = Concept("pets", "The user's pets", FactType.MULTIPLE)
PET = Concept("pet", "The user's pet")
ANIMALS = Concept("animals", "Animals of the user", FactType.MULTIPLE)

pytestmark = pytest.mark.storm


def _joined(former: list[str], new: list[str]) -> str:
    return f"{new[0]} after {former[0]}"


Change = Callable[[AgentMemory, Callable[[int, int], object] | None], Awaitable[ChangeReport]]

CHANGES: dict[str, Change] = {
    "rename": lambda memory, told: memory.contents.rename(
        "home", CITY, if_both=_joined, progress=told
    ),
    "merge": lambda memory, told: memory.contents.rename(
        ["pet", "animals"], PETS, if_both="both", progress=told
    ),
    "convert": lambda memory, told: memory.contents.convert(
        PRICE, lambda price: price * 100, operation="cents", progress=told
    ),
}


async def fill(folder: Path, users: int) -> None:
    """Save the facts of all users; each third has values under both keywords."""
    async with LocalFileMemoryProvider(folder) as store:
        for number in range(users):
            facts: list[Any] = [
                SingleFact(PRICE, number + 1),
                SingleFact(HOME, f"home-{number}"),
                SingleFact(PET, f"pet-{number}"),
                MultipleFacts(ANIMALS, [f"pet-{number}", f"animal-{number}"]),
            ]
            if number % 3 == 0:
                facts.append(SingleFact(CITY, f"city-{number}"))
                facts.append(MultipleFacts(PETS, [f"pets-{number}"]))
            await store.save_many(facts, USER.of(f"u{number}"), APP)


def wanted(number: int) -> dict[str, set[Any]]:
    """Return what a user has when all three changes are done."""
    pets = {f"pet-{number}", f"animal-{number}"}
    if number % 3:
        return {"price": {100 * (number + 1)}, "city": {f"home-{number}"}, "pets": pets}
    return {
        "price": {100 * (number + 1)},
        "city": {f"city-{number} after home-{number}"},
        "pets": {*pets, f"pets-{number}"},
    }


def work(tell: Tell, wait: Callable[[], None], folder: Path, name: str) -> None:
    """Do a change, and tell each place."""

    async def main() -> None:
        async with LocalFileMemoryProvider(folder) as store:
            report = await CHANGES[name](
                AgentMemory(store), lambda done, of: tell(f"{done} of {of}")
            )
            tell(f"refused {len(report.refused)}")

    wait()
    anyio.run(main)


def run_once(folder: Path, name: str, kill_at: int | None) -> bool:
    """Run a change; kill it some time after it told of a number of places. True if it ended."""
    process = Process(work, folder, name)
    told: list[str] = []
    while not process.is_over:
        told += process.lines()
        if told == ["ready"]:
            process.go()
        if kill_at is not None and any(line.startswith(f"{kill_at} of") for line in told):
            process.kill()
            kill_at = None
    process.end()
    if not process.was_killed:
        assert told[-1] == "refused 0", told[-3:]
    return told[-1].startswith("refused")


def test_changes_that_are_killed_are_finished_by_repeating_them(
    tmp_path: Path, thorough: bool
) -> None:
    """Each user once, and no value lost."""
    random = Random(27)
    users, times = (MANY_USERS, MANY_KILLS) if thorough else (USERS, KILLS)
    anyio.run(fill, tmp_path, users)

    kills = 0
    for name in CHANGES:
        for _ in range(times):
            kills += not run_once(tmp_path, name, random.randint(1, users * 3 // 4))
        assert run_once(tmp_path, name, None)

    assert kills == times * len(CHANGES)
    anyio.run(check, tmp_path, users)


async def check(folder: Path, users: int) -> None:
    """Compare every user, and find every old value in the history."""
    async with LocalFileMemoryProvider(folder) as store:
        assert len(await store.list_places()) == users
        for number in range(users):
            who = USER.of(f"u{number}")
            found: dict[str, set[Any]] = {}
            for fact in await store.load_all(who, APP):
                found.setdefault(fact.concept.keyword, set()).update(fact.values)
            assert found == wanted(number)
            kept = str(await store.entries(who, APP))
            assert f"home-{number}" in kept
            assert number % 3 or f"city-{number}" in kept
        await store.verify()
        for change in CHANGES.values():
            assert (await change(AgentMemory(store), None)).changes == []
