"""Cancellation at any moment: a call is complete or has no effect, and others continue."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from factmem import Key, LocalFileMemoryProvider
from factmem.errors import WrongKeyError
from factmem.testing._facts import AGENT, LANGUAGES, THEME, languages, theme
from tests.doors import watched
from tests.providers.local_stores import ALICE, KEY, current, opened

NEW = Key.generate()
STOP = 20
"""More steps of an event loop than any call takes."""


class Canceller:
    """Cancels a scope from the worker thread that runs the n-th statement."""

    def __init__(self, scope: anyio.CancelScope, after: int) -> None:
        self._scope = scope
        self._loop = anyio.lowlevel.current_token()
        self._thread = threading.get_ident()
        self.left = after

    def __call__(self, sql: str) -> None:
        if threading.get_ident() == self._thread:
            return  # a warm read of the loop's own thread
        if self.left == 0:
            anyio.from_thread.run_sync(self._scope.cancel, token=self._loop)
        self.left -= 1


Call = Callable[[LocalFileMemoryProvider], Awaitable[object]]

DONE: dict[str, tuple[Call, list[str]]] = {
    "save": (lambda store: store.save(theme("light"), ALICE, AGENT), ["light", "java", "c"]),
    "save_many": (
        lambda store: store.save_many([theme("light"), languages("a", "b")], ALICE, AGENT),
        ["light", "java", "c", "a", "b"],
    ),
    "load": (lambda store: store.load(THEME, ALICE, AGENT), ["dark", "java", "c"]),
    "history": (lambda store: store.history(THEME, ALICE, AGENT), ["dark", "java", "c"]),
    "places": (lambda store: store.places(), ["dark", "java", "c"]),
    "forget": (lambda store: store.forget(ALICE, AGENT, concept=LANGUAGES), ["dark"]),
    "purge": (
        lambda store: store.forget(ALICE, AGENT, concept=LANGUAGES, value="c", purge=True),
        ["dark", "java"],
    ),
    "compact": (lambda store: store.compact(ALICE, AGENT), ["dark", "java", "c"]),
    "erase": (lambda store: store.erase(ALICE, AGENT), []),
    "anchor": (lambda store: store.anchor(), ["dark", "java", "c"]),
    "rotate": (lambda store: store.keys.rotate(NEW), ["dark", "java", "c"]),
    "aclose": (lambda store: store.aclose(), ["dark", "java", "c"]),
}
"""A call, and the current values after it."""


async def _found(root: Path, *keys: Key) -> list[str]:
    """Return the current values; the store opens with the first key that fits."""
    try:
        return await current(opened(root, keys[0]))
    except WrongKeyError:
        return await _found(root, *keys[1:])


@pytest.mark.parametrize("call", DONE)
async def test_cancelled_at_every_statement(root: Path, call: str, stride: int) -> None:
    """From then on it cannot be cancelled, so its effect is complete."""
    act, wanted = DONE[call]
    for after in range(0, 1000, stride):
        folder = root / str(after)
        filled = opened(folder)
        await filled.save_many([theme("light"), languages("java", "c")], ALICE, AGENT)
        await filled.save(theme("dark"), ALICE, AGENT)
        scope = anyio.CancelScope()
        canceller = Canceller(scope, after)
        with watched(canceller), scope:
            store = opened(folder)
            await act(store)

        assert await _found(folder, KEY, NEW) == wanted
        if call != "aclose":
            store = filled if call != "rotate" else opened(folder, NEW)
            await store.save(languages("after"), ALICE, AGENT)
            assert await _found(folder, KEY, NEW) == [*wanted, "after"]
        if canceller.left >= 0:
            return
    pytest.fail("A call runs fewer than a thousand statements")


@pytest.mark.parametrize("call", DONE)
async def test_cancelled_at_every_step_of_the_loop(root: Path, call: str, stride: int) -> None:
    """The call is complete or has no effect."""
    act, wanted = DONE[call]
    for steps in range(0, STOP, stride):
        folder = root / str(steps)
        store = opened(folder)
        await store.save_many([theme("light"), languages("java", "c")], ALICE, AGENT)
        await store.save(theme("dark"), ALICE, AGENT)
        is_done = False

        async def run(store: LocalFileMemoryProvider = store) -> None:
            nonlocal is_done
            await act(store)
            is_done = True

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()

        found = await _found(folder, KEY, NEW)
        assert found == wanted if is_done else found in (wanted, ["dark", "java", "c"])


async def test_one_of_many_saves_can_be_cancelled(root: Path, stride: int) -> None:
    """It may lead, follow or wait: the others are stored, and none hangs."""
    store = opened(root)
    kept: list[str] = []
    tried: list[str] = []

    async def save(value: str, scope: anyio.CancelScope) -> None:
        tried.append(value)
        with scope:
            await store.save(languages(value), ALICE, AGENT)
            kept.append(value)

    for doomed in range(12):
        for steps in range(0, STOP, stride):
            scopes = [anyio.CancelScope() for _ in range(12)]
            async with anyio.create_task_group() as tasks:
                for number, scope in enumerate(scopes):
                    tasks.start_soon(save, f"{doomed}.{steps}.{number}", scope)
                for _ in range(steps):
                    await anyio.lowlevel.checkpoint()
                scopes[doomed].cancel()
                scopes[doomed // 2].cancel()

    found = await _found(root, KEY)
    rounds = 12 * len(range(0, STOP, stride))
    assert len(tried) == rounds * 12
    assert len(kept) >= rounds * 10
    assert set(kept) <= set(found) <= set(tried)
    assert len(found) == len(set(found))


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_cancelled_by_asyncio_blocks_no_other(root: Path) -> None:
    """No task waits for its save, and later saves do not wait forever."""
    hangs, goes_on = threading.Event(), threading.Event()
    is_slow = False

    def look(sql: str) -> None:
        if sql == "COMMIT" and is_slow:
            hangs.set()
            goes_on.wait(60)

    store = opened(root)
    with watched(look):
        await store.save(languages("java"), ALICE, AGENT)
    is_slow = True
    first = asyncio.ensure_future(store.save(languages("first"), ALICE, AGENT))
    await anyio.to_thread.run_sync(hangs.wait)
    first.cancel()
    await asyncio.wait([first])
    second = asyncio.ensure_future(store.save(languages("second"), ALICE, AGENT))
    for _ in range(STOP):
        await anyio.lowlevel.checkpoint()  # its thread waits for that of the first
    second.cancel()
    await asyncio.wait([second])
    goes_on.set()

    with anyio.fail_after(60):
        await store.save(languages("third"), ALICE, AGENT)
        await store.aclose()

    assert await _found(root, KEY) == ["java", "first", "third"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_asyncio_may_cancel_at_every_step(root: Path) -> None:
    """Acknowledged saves are stored, others completely or not at all, and none hangs."""
    store = opened(root)
    kept: list[str] = []

    async def save(value: str) -> None:
        await store.save(languages(f"{value} a", f"{value} b"), ALICE, AGENT)
        kept.append(value)

    for steps in range(STOP):
        for doomed in range(8):
            saves = [
                asyncio.ensure_future(save(f"{steps}.{doomed}.{number}")) for number in range(8)
            ]
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            saves[doomed].cancel()
            with anyio.fail_after(60):
                await asyncio.wait(saves)

    found = await _found(root, KEY)
    assert {f"{value} {half}" for value in kept for half in "ab"} <= set(found)
    assert {value.replace(" a", " b") for value in found} <= set(found)
    assert len(kept) >= STOP * 8 * 7
