"""Tests of writes whose answer is lost, and of what other processes see."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

import pytest

from factmem.errors import StorageError
from factmem.ledger.entries import stored
from factmem.models.clock import system_clock
from factmem.models.facts import MultipleFacts
from factmem.providers.base import FactStore
from factmem.testing._facts import AGENT, LANGUAGES, USER, languages

Interrupt: TypeAlias = Callable[[], None]
"""Loses the next answer of the storage, after the storage has carried out the request."""

_TIMES = 8
"""The interruptions of each write, because a write may have several answers."""


class Faults:
    """Each write is done once, or raises `StorageError` and is done once or not at all."""

    @pytest.fixture
    def interrupt(self) -> Interrupt:
        """Return a function that makes the next answer of the storage get lost."""
        raise NotImplementedError("Override the fixture `interrupt` to lose the next answer")

    async def test_a_save_is_stored_once(
        self, provider: FactStore, second: FactStore, interrupt: Interrupt
    ) -> None:
        """Also in the history. Another process sees every acknowledged save."""
        await provider.save(languages("first"), USER, AGENT)
        for number in range(_TIMES):
            before = len(await second.entries(USER, AGENT))
            interrupt()
            is_done = await _done(provider.save(languages(f"v{number}"), USER, AGENT))

            added = len(await second.entries(USER, AGENT)) - before
            assert added == 1 or (added == 0 and not is_done)
            current = _values(await second.load(LANGUAGES, USER, AGENT))
            assert (f"v{number}" in current) == (added == 1)

    async def test_a_batch_is_stored_whole(
        self, provider: FactStore, second: FactStore, interrupt: Interrupt
    ) -> None:
        """Never a part of it."""
        await provider.save(languages("first"), USER, AGENT)
        for number in range(_TIMES):
            facts = [languages(f"{number} a"), languages(f"{number} b")]
            interrupt()
            is_done = await _done(provider.save_many(facts, USER, AGENT))

            current = _values(await second.load(LANGUAGES, USER, AGENT))
            found = {f"{number} a", f"{number} b"} & current
            assert len(found) == 2 or (not found and not is_done)

    async def test_a_forgetting_is_done_once(
        self, provider: FactStore, second: FactStore, interrupt: Interrupt
    ) -> None:
        """It returns the number of forgotten values, although it was repeated."""
        for _ in range(_TIMES):
            said = languages("one", "two", timestamp=system_clock())  # after the last forgetting
            await provider.save(said, USER, AGENT)
            interrupt()
            try:
                assert await provider.forget(USER, AGENT, concept=LANGUAGES) == 2
            except StorageError:
                assert _values(await second.load(LANGUAGES, USER, AGENT)) in (set(), {"one", "two"})
            else:
                assert await second.load(LANGUAGES, USER, AGENT) == []

    async def test_an_amendment_is_done_once(
        self, provider: FactStore, second: FactStore, interrupt: Interrupt
    ) -> None:
        """The function may be called again."""
        await provider.save(languages("first"), USER, AGENT)
        for number in range(_TIMES):
            before = len(await second.entries(USER, AGENT))
            fact = stored(languages(f"v{number}"))
            interrupt()
            is_done = await _done(
                provider.amend(lambda _, at: [{"at": at, "facts": [fact]}], USER, AGENT)  # noqa: B023
            )

            added = len(await second.entries(USER, AGENT)) - before
            assert added == 1 or (added == 0 and not is_done)

    async def test_an_erasure_is_done(
        self, provider: FactStore, second: FactStore, interrupt: Interrupt
    ) -> None:
        """Its receipt has the number of removed values."""
        for _ in range(_TIMES):
            await provider.save(languages("one", "two"), USER, AGENT)
            interrupt()
            try:
                receipt = await provider.erase(USER, AGENT)
            except StorageError:
                await provider.erase(USER, AGENT)
            else:
                assert receipt.count == 2
            assert await second.entries(USER, AGENT) == []

    async def test_reads_survive(
        self, provider: FactStore, second: FactStore, interrupt: Interrupt
    ) -> None:
        """They may also raise, but never return a part."""
        await provider.save(languages("one", "two"), USER, AGENT)
        for _ in range(_TIMES):
            interrupt()
            try:
                found = await second.load(LANGUAGES, USER, AGENT)
            except StorageError:
                continue
            assert _values(found) == {"one", "two"}


async def _done(write: Awaitable[object]) -> bool:
    """Return whether a write was acknowledged."""
    try:
        await write
    except StorageError:
        return False
    return True


def _values(facts: Iterable[MultipleFacts[str]]) -> set[str]:
    return {value for fact in facts for value in fact.values}
