"""A folder with a store, as the suites for durable stores use it."""

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import pytest

from factmem.encryption.key import Key
from factmem.models.places import MemorySubject
from factmem.models.when import TimeProvider, system_clock
from factmem.providers._sql.store import SqlStore
from factmem.testing._facts import AGENT, LANGUAGES, PERSON, languages

Opening: TypeAlias = Callable[[Path, Sequence[str], TimeProvider], SqlStore]
"""Returns a new store on a folder, its keys as base64 strings, and a clock."""


@dataclass(frozen=True, slots=True)
class StoreFolder:
    """A folder, and how to open the store in it. It can be passed to other processes."""

    path: Path
    opening: Opening
    keys: tuple[str, ...] = ()
    """The keys of an encrypted store, as base64 strings; the first one is preferred."""

    def open(self, clock: TimeProvider = system_clock) -> SqlStore:
        """Return a new store on the folder."""
        return self.opening(self.path, self.keys, clock)

    def at(self, path: Path) -> "StoreFolder":
        """Return the same for another folder."""
        return replace(self, path=path)

    def with_keys(self, *keys: str) -> "StoreFolder":
        """Return the same with other keys."""
        return replace(self, keys=keys)

    def files(self) -> dict[str, bytes]:
        """Return all files, by their path in the folder."""
        return {name: content for name, content in _files_in(self.path) if content is not None}

    def names_with(self, text: str) -> list[str]:
        """Return the files that contain a string, as UTF-8 or escaped as in JSON, or are named so."""
        spellings = {text.encode(), json.dumps(text)[1:-1].encode()}
        return [
            name
            for name, content in self.files().items()
            if text in name or any(each in content for each in spellings)
        ]

    def copy_to(self, path: Path) -> None:
        """Copy the folder."""
        shutil.copytree(self.path, path)

    def replace_by(self, path: Path) -> None:
        """Put a copy of another folder in the place of this one."""
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.copytree(path, self.path)


def _files_in(folder: Path) -> Iterable[tuple[str, bytes | None]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(folder)), _content(path)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:  # the store removed it meanwhile
        return None


class StoreFolders:
    """A new folder for each test, and stores on it."""

    is_encrypted = False
    """Whether the stores are encrypted; `open_store` then gets keys."""

    def open_store(
        self, folder: Path, keys: Sequence[str], clock: TimeProvider = system_clock
    ) -> SqlStore:
        """Return a new store on a folder; on an existing one if there is one.

        The keys of an encrypted store are base64 strings. Other processes call this method too: the
        class and its module must be importable there.
        """
        raise NotImplementedError("Override `open_store` to return a new store on a folder")

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """Return a folder that does not exist yet."""
        return tmp_path / "memory" / "store"

    @pytest.fixture
    def home(self, folder: Path) -> StoreFolder:
        """Return the folder of the test with a way to open it."""
        keys = (Key.generate().to_base64(),) if self.is_encrypted else ()
        return StoreFolder(folder, self.open_store, keys)


ALICE, BOB = PERSON.of("alice"), PERSON.of("bob")


async def save(store: SqlStore, value: str, subject: MemorySubject = ALICE) -> None:
    """Save a language."""
    await store.save(languages(value), subject, AGENT)


async def values(store: SqlStore, subject: MemorySubject = ALICE) -> list[str]:
    """Return the current languages, in the order of their saves."""
    facts = await store.load(LANGUAGES, subject, AGENT)
    return [value for fact in facts for value in fact.values]


async def save_many_times(store: SqlStore, name: str, count: int) -> list[str]:
    """Save some values one after the other, read each, and return them."""
    saved: list[str] = []
    for number in range(count):
        await save(store, f"{name}.{number}")
        saved.append(f"{name}.{number}")
        if saved[-1] not in await values(store):
            raise AssertionError(f"{saved[-1]} was saved and cannot be read")
    return saved
