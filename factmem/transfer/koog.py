"""Imports from JetBrains Koog's AgentMemory.

Koog 1.0 removed AgentMemory, and the files of its users remain. This module reads them, plain or
encrypted, and does not change their folder.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from unicodedata import normalize

from anyio.to_thread import run_sync

from factmem._arguments import expect_function, expect_path, kind_of
from factmem.encryption.ciphers import NONCE_BYTES, open_sealed
from factmem.encryption.key import Key
from factmem.ledger.entries import Entry
from factmem.models.checked import checked_subjects
from factmem.models.clock import TimeProvider, system_clock, utc
from factmem.models.display import Displayed
from factmem.models.places import LOWEST_PRIORITY, Identity, MemoryScope, MemorySubject, Place
from factmem.models.sources import FactSource
from factmem.providers.base import FactStore
from factmem.transfer._koog_facts import entries_of
from factmem.transfer._koog_files import (
    KoogFile,
    UnreadableError,
    Unseal,
    content_of,
    files_in,
    store_in,
)

__all__ = ["KoogProblem", "KoogReport", "import_koog"]


@dataclass(frozen=True, slots=True)
class KoogProblem:
    """A file or fact of Koog that was not imported. It is left unchanged."""

    path: Path
    reason: str
    """The reason, without any content of the file."""
    keyword: str | None = None
    """The keyword of the fact; None for a whole file, or if the keyword is not a valid name."""
    index: int | None = None
    """The position of the fact under its keyword, from 0; None for a whole file."""

    def __str__(self) -> str:
        of = "" if self.index is None else f", fact {self.index} of {self.keyword or '?'!r}"
        return f"{str(self.path)!r}{of} {self.reason}"


@dataclass(frozen=True, slots=True)
class KoogReport(Displayed):
    """The result of an import from Koog."""

    places: tuple[Place, ...]
    """The places of the facts that were read, in the order of Koog's paths."""
    new: int
    """How many of the facts were not in the store before."""
    known: int
    """How many of the facts were skipped, because an earlier import had added them."""
    problems: tuple[KoogProblem, ...]


async def import_koog(
    root: str | os.PathLike[str],
    into: FactStore,
    *,
    subjects: Iterable[MemorySubject] | Mapping[str, MemorySubject] = (),
    key: str | bytes | Key | None = None,
    organization: str = "default",
    source: FactSource | None = None,
    clock: TimeProvider = system_clock,
) -> KoogReport:
    """Import the facts in a folder of Koog's AgentMemory into a store.

    Facts keep their timestamps and Koog's order, so the last fact of a list becomes the current
    one. A value that was saved again becomes a confirmation. Each fact counts as recorded when Koog
    saved it, so `as_of` finds it from then on. A `SingleFact` under a MULTIPLE concept becomes a
    `MultipleFacts`. Existing facts of a place stay and count as older: import before the
    application saves.

    Each file is imported in one write, completely or not at all. A second import adds only what
    Koog has saved since, so an import can be repeated after a failure or a cancellation. The files
    before the failure stay imported. What cannot be read is reported and does not stop the import:
    a file under another key, a damaged file, an invalid name, an unknown type, a symbolic link
    (none is followed). The markers that Koog saved when its model found nothing are skipped and
    reported too.

    Koog's files are opened only for reading, in worker threads, one at a time. Uses as much memory
    as the largest file. No LLM calls.

    Args:
        root: The folder that contains `agent`, `feature`, `product` or `organization`, or its
            parent, which is Koog's root.
        into: The store to import into.
        subjects: The application's subjects, matched by name; or a mapping from Koog's names to
            subjects. A per-entity subject must be bound: `USER.of("alice")`. Any other name becomes
            a subject of that name with the lowest priority.
        key: The key of encrypted files: Koog's base64 string, 32 bytes, or a `Key`.
        organization: A name for the scope that Koog calls CrossProduct, which has no name there.
        source: The source of all imported facts. It lets you forget them together later.
        clock: Returns the time. No fact is recorded at a later time.

    Raises:
        TypeError: `into` is not a `FactStore`, or an argument is of the wrong type.
        ValueError: `root` contains no store of Koog, the key is invalid, two subjects have the same
            name, or `organization` is not a valid name.
        UnboundSubjectError: A per-entity subject is not bound.
        StorageError: The store failed.
    """
    if not isinstance(into, FactStore):
        raise TypeError(
            f"into must be a FactStore, not {kind_of(into)}: LocalFileMemoryProvider(path)"
        )
    expect_path(root, "root", "import_koog('koog-memory', store)")
    importing = _Reading(
        _unseal(key),
        _by_name(subjects),
        source,
        utc(expect_function(clock, "clock", "clock=system_clock")(), "clock's time"),
    )
    scope = MemoryScope.CrossProduct(organization)
    store = await run_sync(store_in, Path(root))
    places: dict[Identity, Place] = {}
    problems: list[KoogProblem] = []
    new = read = 0
    for file in await run_sync(lambda: list(files_in(store, scope.name))):
        place, entries, flaws = await run_sync(importing.read, file)
        problems += flaws
        if place is not None and entries:
            new += await into.replay(entries, place.subject, place.scope)
            read += len(entries)
            places[place.identity] = place
    return KoogReport(tuple(places.values()), new, read - new, tuple(problems))


def _unseal(key: str | bytes | Key | None) -> Unseal | None:
    if key is None:
        return None
    if not isinstance(key, Key):
        key = Key.from_base64(key) if isinstance(key, str) else Key(key)
    secret = key.secret(None)
    if secret is None:
        raise ValueError("key must be the 32-byte key of Koog's files, not a passphrase: Key(key)")
    return lambda sealed: open_sealed(secret, sealed[:NONCE_BYTES], sealed[NONCE_BYTES:])


def _by_name(
    subjects: Iterable[MemorySubject] | Mapping[str, MemorySubject],
) -> dict[str, MemorySubject]:
    """Return the subjects by Koog's names for them, and check that each one is bound."""
    if isinstance(subjects, Mapping):
        given = checked_subjects(subjects.values())
        names = [normalize("NFC", str(name)) for name in subjects]
    else:
        given = checked_subjects(subjects)
        names = [subject.name for subject in given]
    named = [*zip(names, given, strict=True)]
    found = {MemorySubject.EVERYTHING.name: MemorySubject.EVERYTHING, **dict(named)}
    for name, subject in named:
        subject.check_bound()
        if found[name] != subject:
            raise ValueError(
                f"subjects contains two subjects for Koog's {name!r}: pass one, as its file has "
                f"the facts of one subject"
            )
    return found


@dataclass(frozen=True, slots=True)
class _Reading:
    """The reader of Koog's files in one import. Runs in worker threads."""

    unseal: Unseal | None
    subjects: dict[str, MemorySubject]
    source: FactSource | None
    now: datetime

    def read(
        self, file: KoogFile | UnreadableError
    ) -> tuple[Place | None, list[Entry], list[KoogProblem]]:
        """Return the place of a file's facts, their entries, and the problems found."""
        if isinstance(file, UnreadableError):
            return None, [], [KoogProblem(file.path, file.reason)]
        try:
            place = Place(file.scope, self._subject(file.subject))
            content = content_of(file, self.unseal)
            entries, flaws = entries_of(content, place.identity, source=self.source, now=self.now)
        except (UnreadableError, ValueError) as exc:
            return None, [], [KoogProblem(file.path, str(exc))]
        return place, entries, [KoogProblem(file.path, *each) for each in flaws]

    def _subject(self, name: str) -> MemorySubject:
        known = self.subjects.get(normalize("NFC", name))
        return known or MemorySubject(name, "", LOWEST_PRIORITY)
