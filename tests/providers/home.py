"""A folder with a store, which can be copied, searched, and opened in other processes."""

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from factmem import MemorySubject
from factmem.models.when import TimeProvider, system_clock
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.testing._facts import AGENT, LANGUAGES, PERSON, languages
from tests.world import storage_of


@dataclass(frozen=True, slots=True)
class StoreFolder:
    """A folder, and the keys of the store in it. It can be passed to other processes."""

    path: Path
    keys: tuple[str, ...] = ()
    """The keys of an encrypted store, as base64 strings; the first one is preferred."""

    def open(self, clock: TimeProvider = system_clock) -> LocalFileMemoryProvider:
        """Return a new store on the folder."""
        return LocalFileMemoryProvider(self.path, storage=storage_of(*self.keys), clock=clock)

    def at(self, path: Path) -> "StoreFolder":
        """Return the same for another folder."""
        return replace(self, path=path)

    def files(self) -> dict[str, bytes]:
        """Return all files, by their path in the folder."""
        return {name: content for name, content in _files_in(self.path) if content is not None}

    def names_with(self, text: str) -> list[str]:
        """Return the files with a string in their name, or in their bytes as UTF-8 or JSON."""
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


ALICE, BOB = PERSON.of("alice"), PERSON.of("bob")


async def save(store: LocalFileMemoryProvider, value: str, subject: MemorySubject = ALICE) -> None:
    """Save a language."""
    await store.save(languages(value), subject, AGENT)


async def values(store: LocalFileMemoryProvider, subject: MemorySubject = ALICE) -> list[str]:
    """Return the current languages, in the order of their saves."""
    facts = await store.load(LANGUAGES, subject, AGENT)
    return [value for fact in facts for value in fact.values]
