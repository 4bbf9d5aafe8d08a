"""Stores that were rolled back or replaced: an anchor detects it."""

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from factmem.errors import CorruptJournalError, TamperedError
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.testing._facts import AGENT, LANGUAGES, theme
from tests.providers.home import ALICE, BOB, StoreFolder, save


async def test_an_anchor_stays_true(home: StoreFolder) -> None:
    """After any later save, forgetting, purge and compaction, in a new instance too."""
    async with home.open() as store:
        empty = await store.anchor()
        await _grow(store)
        anchor = await store.anchor()
        await store.verify(anchor)
        await store.save(theme("dim"), ALICE, AGENT)
        await store.forget(BOB, AGENT, concept=LANGUAGES, value="light")
        await store.verify(anchor)
        await store.compact(ALICE, AGENT)
        await store.forget(BOB, AGENT, concept=LANGUAGES, purge=True)
        await store.verify(anchor)
    async with home.open() as store:
        await store.verify(anchor)
        await store.verify(empty)
        await store.verify()


async def test_an_anchor_detects_an_older_copy(home: StoreFolder, tmp_path: Path) -> None:
    """Of the whole folder. Without the anchor it is a store like any other."""
    async with home.open() as store:
        await _grow(store)
    home.copy_to(tmp_path / "older")
    async with home.open() as store:
        await save(store, "newest")
        anchor = await store.anchor()
    home.copy_to(tmp_path / "newer")

    home.replace_by(tmp_path / "older")
    async with home.open() as store:
        with detected(home):
            await store.verify(anchor)
    home.replace_by(tmp_path / "newer")
    async with home.open() as store:
        await store.verify(anchor)


async def test_an_anchor_detects_another_store(home: StoreFolder) -> None:
    """With the same facts, saved in the same order, under the same key."""
    async with home.open() as store:
        await _grow(store)
        anchor = await store.anchor()
    shutil.rmtree(home.path)
    async with home.open() as store:
        await _grow(store)

        with detected(home):
            await store.verify(anchor)


async def test_an_anchor_detects_a_place_that_is_gone(home: StoreFolder) -> None:
    """Also after a regular erasure: take a new anchor then."""
    async with home.open() as store:
        await _grow(store)
        anchor = await store.anchor()
        await store.erase(ALICE, AGENT)

        with detected(home):
            await store.verify(anchor)

        await store.verify(await store.anchor())


async def test_a_string_that_is_no_anchor_is_refused(home: StoreFolder) -> None:
    """It is the caller's mistake."""
    async with home.open() as store:
        await _grow(store)

        with pytest.raises(ValueError, match="anchor"):
            await store.verify("no anchor")


@contextmanager
def detected(home: StoreFolder) -> Generator[None]:
    with pytest.raises(TamperedError if home.keys else CorruptJournalError):
        yield


async def _grow(store: LocalFileMemoryProvider) -> None:
    for value in ("light", "dark"):
        await store.save(theme(value), ALICE, AGENT)
        await save(store, value, BOB)
