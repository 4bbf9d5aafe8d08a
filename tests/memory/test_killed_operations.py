"""Operations over a whole store, killed before and after each write and repeated, end right."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from factmem.ledger.resolution import PlacedFact
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import Concept, FactType, MultipleFacts, SingleFact
from factmem.models.places import MemoryScope, MemoryScopesProfile, MemorySubject, Place
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.store import FactStore
from factmem.transfer import export_facts, import_facts, import_mem0

USER = MemorySubject("user", "The user", 1, per_entity=True)
APP, OTHER = MemoryScope.Product("app"), MemoryScope.Product("other")
PRICE: Concept[int, Any] = Concept("price", "What it costs", value_type=int)
CENTS: Concept[int, Any] = Concept("price", "What it costs, in cents", value_type=int)
TAGS = Concept("tags", "Tags", FactType.MULTIPLE)
USERS = [USER.of(f"u{number}") for number in range(6)]
GUEST = Place(APP, USERS[0])
ROWS = [
    PlacedFact(Place(OTHER, who), SingleFact(PRICE, 7, timestamp=datetime(2025, 1, 1, tzinfo=UTC)))
    for who in USERS
]
MEMORIES = [
    {"id": f"m{number}", "memory": f"Note {number}", "user_id": f"u{number % 4}", "created_at": day}
    for number, day in enumerate(["2026-03-01", "2026-03-02"] * 4)
]

WRITES = ("amend", "erase", "forget", "learn", "replay", "rewrite", "save", "save_many")

State = list[tuple[object, ...]]


class Killed(BaseException):
    """Stands for the end of the process."""


class Killer:
    """Counts the moments before and after each write, and ends the operation at one of them."""

    def __init__(self) -> None:
        self.moments = 0
        self.last = 0

    def moment(self) -> None:
        self.moments += 1
        if self.moments == self.last:
            raise Killed


@pytest.fixture
def killer(monkeypatch: pytest.MonkeyPatch) -> Killer:
    killer = Killer()

    def stopping(write: Any) -> Any:
        async def stopped(*args: Any, **kwargs: Any) -> Any:
            killer.moment()
            result = await write(*args, **kwargs)
            killer.moment()
            return result

        return stopped

    for name in WRITES:
        monkeypatch.setattr(FactStore, name, stopping(getattr(FactStore, name)))
    return killer


async def filled(store: FactStore) -> None:
    """Save two prices and some tags for each user."""
    for who in USERS:
        await store.save(SingleFact(PRICE, 3), who, APP)
        await store.save(SingleFact(PRICE, 4), who, APP)
        await store.save(MultipleFacts(TAGS, ["a", "b"]), who, APP)


async def state(store: FactStore) -> State:
    """Return all current values, and all values of the history."""
    found: State = []
    for place in sorted(await store.list_places(), key=str):
        for fact in await store.load_all(place.subject, place.scope):
            history = await store.history(fact.concept, place.subject, place.scope)
            said = {str(each.fact.values) for each in history if each.fact}
            found.append((place.identity, fact.concept.keyword, fact.values, sorted(said)))
    return sorted(found, key=str)


async def _update(memory: AgentMemory, store: FactStore) -> None:
    [fact] = await store.load(PRICE, USERS[0], APP)
    await memory.contents.update(fact.id, value=9)


async def _delete(memory: AgentMemory, store: FactStore) -> None:
    tags = [f.id for who in USERS for f in await store.load(TAGS, who, APP)]
    await memory.contents.delete(*tags)


async def _import(_: object, store: FactStore) -> None:
    source = InMemoryProvider()
    for who in USERS:
        await source.save(
            SingleFact(PRICE, 8, id=f"i{who.entity}", timestamp=datetime(2026, 1, 1, tzinfo=UTC)),
            who,
            OTHER,
        )
    await export_facts(source, "bundle.jsonl")
    await import_facts("bundle.jsonl", store)


OPERATIONS: dict[str, Callable[[AgentMemory, FactStore], Awaitable[object]]] = {
    "convert": lambda memory, _: memory.contents.convert(
        CENTS, lambda price: price * 100, operation="cents"
    ),
    "rename": lambda memory, _: memory.contents.rename("price", Concept("cost", "What it costs")),
    "merge": lambda memory, _: memory.contents.rename(
        ["price", "tags"],
        Concept("all", "Price and tags", FactType.MULTIPLE, value_type=Any),
        if_both="both",
    ),
    "move": lambda memory, _: memory.contents.move(GUEST, Place(OTHER, USER.of("account"))),
    "tidy": lambda memory, _: memory.contents.tidy(history_older_than=timedelta(0)),
    "forget": lambda memory, _: memory.contents.forget(concept=PRICE, subjects=USERS),
    "purge": lambda memory, _: memory.contents.forget(concept=PRICE, purge=True, subjects=USERS),
    "reset": lambda memory, _: memory.view(scopes=[APP]).contents.reset(confirm=True),
    "update": _update,
    "delete": _delete,
    "import of a bundle": _import,
    "import of rows": lambda _, store: import_facts(ROWS, store),
    "import of mem0": lambda _, store: import_mem0(MEMORIES, store, scope=OTHER, subject=USER),
}


async def _run(operation: str, killer: Killer, last: int) -> tuple[State, bool]:
    """Run an operation, end it at a moment, repeat it, and return the state; False at the end."""
    store = InMemoryProvider()
    killer.last = 0
    await filled(store)
    memory = AgentMemory(store, scopes=MemoryScopesProfile(product="app"), subjects=[USER.every()])
    killer.moments, killer.last = 0, last
    try:
        await OPERATIONS[operation](memory, store)
    except Killed:
        killer.last = 0
        await OPERATIONS[operation](memory, store)
        return await state(store), True
    killer.last = 0
    return await state(store), False


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_killed_operation_is_finished_by_repeating_it(
    operation: str, killer: Killer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stride: int
) -> None:
    """A conversion that was killed converted some places twice."""
    monkeypatch.chdir(tmp_path)
    expected, _ = anyio.run(_run, operation, killer, 0)
    moments = killer.moments
    assert moments >= 2
    for last in range(1, moments + 1, 1 if moments < 20 else stride):
        found, was_killed = anyio.run(_run, operation, killer, last)
        assert was_killed
        assert found == expected, f"killed at moment {last} of {moments}"
