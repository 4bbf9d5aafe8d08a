"""Moving a place: interrupted at every step, killed, and during saves."""

from collections.abc import Callable
from typing import Any

import anyio

from factmem.memory.contents import move_place
from factmem.models.facts import SingleFact
from factmem.models.places import Place
from factmem.providers.store import FactStore
from tests.world import AGENT, ALICE, LANGUAGES, THEME, USER, languages, theme

GUEST, ACCOUNT = Place(AGENT, USER.of("guest-1")), Place(AGENT, ALICE)


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
