"""Stores that were rolled back, replaced, damaged or tampered with."""

import shutil
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from factmem.errors import CorruptJournalError, DecryptionError, FactmemError, TamperedError
from factmem.models.facts import AnyFact
from factmem.models.places import MemorySubject
from factmem.providers._sql.store import SqlStore
from factmem.testing._facts import AGENT, LANGUAGES, PERSON, languages, theme
from tests.contracts.folders import ALICE, BOB, StoreFolder, StoreFolders, save, values

CAROL = PERSON.of("carol")

PLACES = (ALICE, BOB, CAROL)
"""The places of the store that is tampered with."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One way to damage or forge the files of a store that nobody has open."""

    name: str
    apply: Callable[[Path], None]
    """Changes the files in a folder."""
    place: MemorySubject | None = None
    """The only place that it may affect; None if it may affect all of them."""
    by_anchor_only: bool = False
    """Whether only an anchor detects it."""


class RollingBack(StoreFolders):
    """An anchor detects a store, or a place, that was replaced by an older or another one."""

    async def test_an_anchor_stays_true(self, home: StoreFolder) -> None:
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

    async def test_an_anchor_detects_an_older_copy(self, home: StoreFolder, tmp_path: Path) -> None:
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
            with self._detected():
                await store.verify(anchor)
        home.replace_by(tmp_path / "newer")
        async with home.open() as store:
            await store.verify(anchor)

    async def test_an_anchor_detects_another_store(self, home: StoreFolder) -> None:
        """With the same facts, saved in the same order, under the same key."""
        async with home.open() as store:
            await _grow(store)
            anchor = await store.anchor()
        shutil.rmtree(home.path)
        async with home.open() as store:
            await _grow(store)

            with self._detected():
                await store.verify(anchor)

    async def test_an_anchor_detects_a_place_that_is_gone(self, home: StoreFolder) -> None:
        """Also after a regular erasure: take a new anchor then."""
        async with home.open() as store:
            await _grow(store)
            anchor = await store.anchor()
            await store.erase(ALICE, AGENT)

            with self._detected():
                await store.verify(anchor)

            await store.verify(await store.anchor())

    async def test_a_string_that_is_no_anchor_is_refused(self, home: StoreFolder) -> None:
        """It is the caller's mistake."""
        async with home.open() as store:
            await _grow(store)

            with pytest.raises(ValueError, match="anchor"):
                await store.verify("no anchor")

    @pytest.mark.parametrize("is_older", [False, True], ids=["another", "older"])
    async def test_a_folder_that_is_replaced_is_noticed(
        self, home: StoreFolder, tmp_path: Path, *, is_older: bool
    ) -> None:
        """An open store reads another one, and writes to neither of them with an old view."""
        other = home.at(tmp_path / "other")
        async with (home if is_older else other).open() as store:
            await save(store, "first")
        if is_older:
            home.copy_to(other.path)
        moved = home.at(tmp_path / "moved")
        async with home.open() as store:
            await save(store, "second")
            assert "second" in await values(store)
            home.path.rename(moved.path)
            home.replace_by(other.path)
            before = moved.files()

            wanted = ["first"]
            if not is_older:  # only an anchor detects that one for certain
                assert await values(store) == wanted
            try:
                await save(store, "third")
            except FactmemError:
                assert is_older
            else:
                wanted.append("third")

        assert moved.files() == before
        async with home.open() as store:
            assert await values(store) == wanted

    async def test_a_folder_that_is_deleted_is_noticed(self, home: StoreFolder) -> None:
        """An open store reads no facts from its memory, and the next save makes a new store."""
        async with home.open() as store:
            await save(store, "first")
            assert await values(store) == ["first"]
            shutil.rmtree(home.path)

            assert await values(store) == []
            await save(store, "second")
            assert await values(store) == ["second"]

        async with home.open() as store:
            assert await values(store) == ["second"]

    @contextmanager
    def _detected(self) -> Generator[None]:
        with pytest.raises(TamperedError if self.is_encrypted else CorruptJournalError):
            yield


class Tampering(StoreFolders):
    """Damage raises an error, or does not matter; a wrong value is never returned."""

    def tampered(self, home: StoreFolder, older: StoreFolder) -> Iterable[Damage]:
        """Yield ways to damage a store that nobody has open.

        Args:
            home: A store with several places, each with a history. Each damage is applied to a new
                copy of it.
            older: A copy of it from before its last saves.
        """
        raise NotImplementedError("Override `tampered` to yield ways to damage a store")

    async def test_damage_is_never_read(self, home: StoreFolder, tmp_path: Path) -> None:
        """Each reading raises, or returns what was saved. Places beside the damage can be read."""
        older = home.at(tmp_path / "older")
        await _fill(home, older)
        assert await self.wrong_after(home, self.tampered(home, older)) == []

    async def wrong_after(self, home: StoreFolder, damages: Iterable[Damage]) -> list[str]:
        """Apply each damage to a copy of a closed store, and return a line for each wrong result."""
        copy = home.at(home.path.with_name("damaged"))
        async with home.open() as store:
            truth = {subject: await _everything(store, subject) for subject in PLACES}
            anchor = await store.anchor()
        sound, wrong, changing = home.files(), list[str](), 0
        for damage in damages:
            copy.replace_by(home.path)
            damage.apply(copy.path)
            changing += copy.files() != sound
            async with copy.open() as store:
                wrong += [f"{damage.name}: {each}" for each in await _judged(store, damage, truth)]
                if damage.by_anchor_only and not await _is_refused(store, anchor):
                    wrong.append(f"{damage.name}: it passes the anchor")
        assert changing, "No damage changed a file"
        return wrong


async def _judged(
    store: SqlStore, damage: Damage, truth: Mapping[MemorySubject, list[object]]
) -> list[str]:
    """Return what is wrong in the readings of a damaged store."""
    wrong: list[str] = []
    for subject, right in truth.items():
        is_spared = damage.place not in {None, subject}
        try:
            found = await _everything(store, subject)
        except FactmemError as exc:
            if is_spared:
                wrong.append(f"{subject.entity} cannot be read: {exc}")
        else:
            if found != right and (is_spared or not damage.by_anchor_only):
                wrong.append(f"wrong facts of {subject.entity} are read")
    return wrong


async def _is_refused(store: SqlStore, anchor: str) -> bool:
    try:
        await store.verify(anchor)
    except (CorruptJournalError, DecryptionError):
        return True
    return False


async def _fill(home: StoreFolder, older: StoreFolder) -> None:
    """Make a store with three places, and a copy of it from before its last saves."""
    async with home.open() as store:
        for value in ("java", "rust", "c"):
            for subject in PLACES:
                await save(store, value, subject)
                await store.save(theme(f"{value} theme"), subject, AGENT)
        await store.forget(ALICE, AGENT, concept=LANGUAGES, value="rust")
        await store.compact(BOB, AGENT)
    home.copy_to(older.path)
    async with home.open() as store:
        await store.save_many([languages("go", "ada"), theme("dark")], ALICE, AGENT)
        await save(store, "go", BOB)
        await store.erase(CAROL, AGENT)
        await save(store, "go", CAROL)


async def _grow(store: SqlStore) -> None:
    for value in ("light", "dark"):
        await store.save(theme(value), ALICE, AGENT)
        await save(store, value, BOB)


async def _everything(store: SqlStore, subject: MemorySubject) -> list[object]:
    """Return all that can be read of a place, after reading one concept of it."""
    facts = await store.load(LANGUAGES, subject, AGENT)
    everything: list[AnyFact] = await store.load_all(subject, AGENT)
    history = await store.history(LANGUAGES, subject, AGENT)
    return [facts, everything, history, await store.entries(subject, AGENT)]
