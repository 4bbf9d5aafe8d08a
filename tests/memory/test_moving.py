"""Moving a place: interrupted at every step, killed, and during saves."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from factmem import (
    Aes256GCMEncryptor,
    EncryptedStorage,
    Key,
    LocalFileMemoryProvider,
    SimpleStorage,
)
from factmem.memory.contents import move_place
from factmem.models.facts import SingleFact
from factmem.models.places import Place
from factmem.providers.store import FactStore
from tests.processes import Process, Tell
from tests.world import AGENT, ALICE, LANGUAGES, THEME, USER, languages, theme

GUEST, ACCOUNT = Place(AGENT, USER.of("guest-1")), Place(AGENT, ALICE)
SAVES = 12


class Meddler:
    """A store that runs a function before one of its calls."""

    def __init__(self, store: FactStore, meddle: Callable[[int, str], Any]) -> None:
        self._store = store
        self._meddle = meddle
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **options: Any) -> Any:
            self.calls.append(name)
            await self._meddle(len(self.calls), name)
            return await getattr(self._store, name)(*args, **options)

        return call


async def fill(store: FactStore) -> None:
    for number in range(6):
        await store.save(theme(f"shade {number}"), GUEST.subject, AGENT)
    await store.save(languages("ko", "en"), GUEST.subject, AGENT)
    await store.forget(GUEST.subject, AGENT, concept=LANGUAGES, value="ko")


async def test_a_moved_place_moves_again(store: FactStore) -> None:
    """What was moved or imported knows when it was received, which is no part of a copy."""
    await fill(store)
    between = Place(AGENT, USER.of("guest-2"))
    await move_place(store, GUEST, between)

    with anyio.fail_after(60):
        await move_place(store, between, ACCOUNT)

    assert await store.entries(between.subject, AGENT) == []
    assert [fact.value for fact in await store.load(THEME, ALICE, AGENT)] == ["shade 5"]


async def test_facts_saved_during_a_move_are_moved_too(store: FactStore) -> None:
    """They are saved before each call that writes."""
    await fill(store)

    async def save(number: int, name: str) -> None:
        if name in {"replay", "rewrite"} and number < 9:
            value = f"while moving {number}"
            await store.save(SingleFact(THEME, value), GUEST.subject, AGENT)

    meddler: Any = Meddler(store, save)
    await move_place(meddler, GUEST, ACCOUNT)

    history = await store.history(THEME, ALICE, AGENT)
    values = [entry.fact.values[0] for entry in history if entry.fact is not None]
    saved = [
        number
        for number, name in enumerate(meddler.calls, 1)
        if name in {"replay", "rewrite"} and number < 9
    ]
    assert sorted(values) == sorted(
        [
            *[f"shade {number}" for number in range(6)],
            *[f"while moving {number}" for number in saved],
        ]
    )
    assert [str(info.place) for info in await store.places()] == [str(ACCOUNT)]


async def test_facts_saved_before_the_erasure_are_not_erased(store: FactStore) -> None:
    """The source was just empty; it is moved once more."""
    await fill(store)
    late = iter(["once", "twice"])

    async def save(number: int, name: str) -> None:
        if name == "erase" and (value := next(late, None)) is not None:
            await store.save(theme(value), GUEST.subject, AGENT)

    meddler: Any = Meddler(store, save)
    await move_place(meddler, GUEST, ACCOUNT)

    history = await store.history(THEME, ALICE, AGENT)
    values = {entry.fact.values[0] for entry in history if entry.fact}
    assert values >= {"once", "twice"}
    assert meddler.calls.count("erase") == 3
    assert [str(info.place) for info in await store.places()] == [str(ACCOUNT)]


def mover(tell: Tell, wait: Callable[[], None], root: str, key: str | None) -> None:
    """Move the place, and report the start."""

    async def main() -> None:
        storage = SimpleStorage() if key is None else EncryptedStorage(Aes256GCMEncryptor(key))
        async with LocalFileMemoryProvider(root, storage=storage) as store:
            await store.load_all(ALICE, AGENT)
            tell("ready")
            wait()
            await move_place(store, GUEST, ACCOUNT)
            tell("done")

    anyio.run(main)


@pytest.mark.storm
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("key", [None, Key.generate().to_base64()], ids=["plain", "encrypted"])
async def test_repeating_a_killed_move_completes_it(tmp_path: Path, key: str | None) -> None:
    """SIGKILL comes after some milliseconds: before, during and after the move."""
    for round_number, delay in enumerate((0.001, 0.004, 0.012)):
        root = tmp_path / str(round_number)
        storage = SimpleStorage() if key is None else EncryptedStorage(Aes256GCMEncryptor(key))
        async with LocalFileMemoryProvider(root, storage=storage) as store:
            facts = [theme(f"shade {number}") for number in range(SAVES)]
            for fact in facts:
                await store.save(fact, GUEST.subject, AGENT)
            process = Process(mover, str(root), key)
            while not process.is_heard(5):
                pass
            process.go()
            await anyio.sleep(delay)
            process.kill()
            process.end()
            await move_place(store, GUEST, ACCOUNT)

            history = await store.history(THEME, ALICE, AGENT)
            assert [entry.fact for entry in history] == facts
            assert [str(info.place) for info in await store.places()] == [str(ACCOUNT)]
