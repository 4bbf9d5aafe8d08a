"""Erased facts do not come back through a detection that read its chat before."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from factmem.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.encryption.key import Key
from factmem.events import MemoryEvent
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import EncryptedStorage
from tests.doubles import BareProvider
from tests.memory.test_remembering import remembered_while
from tests.world import AGENT, ALICE, THEME, USER, theme

BOB = USER.of("bob")


@dataclass
class Workers:
    """A function that opens the store for each process."""

    opened: Callable[[], Any]


@pytest.fixture(params=["memory", "plain", "encrypted"])
def workers(request: pytest.FixtureRequest, tmp_path: Path) -> Workers:
    """Processes that share a store."""
    if request.param == "memory":
        store = InMemoryProvider()
        return Workers(lambda: store)
    storage = None
    if request.param == "encrypted":
        storage = EncryptedStorage(Aes256GCMEncryptor(Key.generate()))
    return Workers(lambda: LocalFileMemoryProvider(tmp_path, storage=storage))


async def _remembered(workers: Workers, meanwhile: Callable[[Any], Any]) -> tuple[Any, list[str]]:
    """Remember a text, do something in another process before the model answers."""
    events: list[MemoryEvent] = []
    report = await remembered_while(
        workers.opened(), lambda: meanwhile(workers.opened()), listeners=[events.append]
    )
    assert sum(event.erased for event in events) == len(report.erased)
    current = await workers.opened().load(THEME, ALICE, AGENT)
    return report, [fact.value for fact in current]


async def test_an_erased_place_stays_erased(workers: Workers) -> None:
    """The report has what was found."""
    await workers.opened().save(theme("light"), ALICE, AGENT)

    report, current = await _remembered(workers, lambda store: store.erase(ALICE, AGENT))

    assert (current, report.saved) == ([], [])
    assert [placed.fact.value for placed in report.erased] == ["dark"]
    assert await workers.opened().places() == []


async def test_so_does_one_that_was_empty(workers: Workers) -> None:
    """Its erasure counts although there was nothing to remove."""
    await workers.opened().save(theme("light"), BOB, AGENT)

    report, current = await _remembered(workers, lambda store: store.erase(ALICE, AGENT))

    assert (current, len(report.erased)) == ([], 1)


async def test_one_that_was_saved_to_again_does_not_take_it(workers: Workers) -> None:
    """Only facts saved after the erasure are there."""
    await workers.opened().save(theme("light"), ALICE, AGENT)

    async def erase_and_save(store: Any) -> None:
        await store.erase(ALICE, AGENT)
        await store.save(theme("blue"), ALICE, AGENT)

    report, current = await _remembered(workers, erase_and_save)

    assert (current, len(report.erased)) == (["blue"], 1)


async def test_the_erasure_of_another_place_keeps_nothing_away(workers: Workers) -> None:
    """From a place that was there before and still is."""
    await workers.opened().save(theme("light"), ALICE, AGENT)
    await workers.opened().save(theme("light"), BOB, AGENT)

    async def erase_another(store: Any) -> None:
        await store.erase(BOB, AGENT)

    report, current = await _remembered(workers, erase_another)

    assert (current, report.erased) == (["dark"], [])


async def test_a_purged_value_is_not_learned_again(workers: Workers) -> None:
    """By a detection that read its chat before."""
    await workers.opened().save(theme("dark"), ALICE, AGENT)

    report, current = await _remembered(
        workers, lambda store: store.forget(ALICE, AGENT, concept=THEME, purge=True)
    )

    assert (current, report.saved) == ([], [])


async def test_four_methods_that_lost_all_facts_take_nothing() -> None:
    """The provider erased by a method that factmem does not know."""
    provider = BareProvider(store := InMemoryProvider())
    await provider.save(theme("light"), ALICE, AGENT)

    report = await remembered_while(provider, lambda: store.erase(ALICE, AGENT))

    assert await provider.load_all(ALICE, AGENT) == []
    assert (report.saved, len(report.erased)) == ([], 1)


async def test_four_methods_learn_as_ever() -> None:
    """Where nothing was erased."""
    provider = BareProvider()

    report = await remembered_while(provider, lambda: provider.save(theme("light"), ALICE, AGENT))

    assert [placed.fact.values for placed in report.saved] == [("dark",)]
    [fact] = await provider.load(THEME, ALICE, AGENT)
    assert fact.values == ("dark",)


async def test_an_erasure_counts_where_no_store_was_yet(tmp_path: Path) -> None:
    """The first process read the chat; the second erased; nothing was saved before."""

    async def erase() -> None:
        async with LocalFileMemoryProvider(tmp_path) as other:
            await other.erase(ALICE, AGENT)

    report = await remembered_while(LocalFileMemoryProvider(tmp_path), erase)

    assert (report.saved, len(report.erased)) == ([], 1)
    assert await LocalFileMemoryProvider(tmp_path).places() == []
