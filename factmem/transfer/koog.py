"""Bringing over what JetBrains Koog's AgentMemory has kept.

Koog removed AgentMemory in 1.0 and left its users with files. This reads them, plain or encrypted,
and changes nothing in their folder.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from unicodedata import normalize

from anyio.to_thread import run_sync

from factmem._arguments import expect_function, expect_path
from factmem.ledger.entries import Entry
from factmem.models.checked import checked_subjects
from factmem.models.clock import TimeProvider, system_clock, utc
from factmem.models.display import Displayed
from factmem.models.places import LOWEST_PRIORITY, Identity, MemoryScope, MemorySubject, Place
from factmem.models.sources import FactSource
from factmem.providers.base import FactStore
from factmem.storage.encryption.ciphers import NONCE_BYTES, open_sealed
from factmem.storage.encryption.key import Key
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
    """Something of Koog's that was not taken over. It stays where it is, as it is."""

    path: Path
    reason: str
    """What is wrong; never what it holds."""
    keyword: str | None = None
    """The concept it is about; None for a whole file, or where the keyword is no valid name."""
    index: int | None = None
    """Which of the facts under the keyword, from 0; None for a whole file."""

    def __str__(self) -> str:
        of = "" if self.index is None else f", fact {self.index} of {self.keyword or '?'!r}"
        return f"{str(self.path)!r}{of} {self.reason}"


@dataclass(frozen=True, slots=True)
class KoogReport(Displayed):
    """What came over from Koog, and what did not."""

    places: tuple[Place, ...]
    """The places that facts were read for, in the order of Koog's paths."""
    new: int
    """How many facts the store did not hold yet."""
    known: int
    """How many it held already, from an import before."""
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
    """Bring the facts in a folder of Koog's AgentMemory into a store.

    Facts come over in Koog's order, so the last one of a list is the current one, and with their
    timestamps; a value saved again is a confirmation. Each counts as recorded when Koog saved it,
    so `as_of` goes back into Koog's time. A `SingleFact` under a MULTIPLE concept becomes a
    `MultipleFacts`. What the place holds already stays and counts as older: import before the
    application saves.

    Each file is one write, whole or not at all. Importing again changes nothing, or adds what
    Koog has saved since; so it can be repeated after a failure or a cancellation, which leave the
    files before it imported. What cannot be read is in the report and stops nothing: another key,
    a damaged file, a name or a type that factmem does not know, a symbolic link (none is
    followed). Left out and reported as well: what Koog saved where its model had found nothing.

    Koog's files are only read, in worker threads, one at a time; memory: the largest file. No LLM
    calls.

    Args:
        root: The folder that holds `agent`, `feature`, `product` or `organization`, or its
            parent: Koog's root.
        into: Where the facts go.
        subjects: The application's subjects, found by their names; or a mapping from Koog's names
            to them. A per-entity subject must be bound: `USER.of("alice")`. A name that is not
            among them becomes a subject of that name with the lowest priority.
        key: For encrypted files: the base64 text that Koog had, 32 bytes, or a `Key`.
        organization: The name for the scope that Koog calls CrossProduct, which has none there.
        source: What all imported facts get as their source; so that they can be forgotten by it.
        clock: Tells the time: no fact counts as recorded later.

    Raises:
        TypeError: `into` is no `FactStore`, or an argument is of the wrong kind.
        ValueError: `root` holds nothing of Koog's, the key is invalid, two subjects have one name, or
            `organization` is no valid name.
        UnboundSubjectError: A per-entity subject is not bound.
        StorageError: The store refused.
    """
    if not isinstance(into, FactStore):
        raise TypeError(
            f"{type(into).__name__} is no FactStore: it needs replay, as factmem's have"
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
        raise ValueError("Koog's files have a key of 32 bytes: a passphrase opens none of them")
    return lambda sealed: open_sealed(secret, sealed[:NONCE_BYTES], sealed[NONCE_BYTES:])


def _by_name(
    subjects: Iterable[MemorySubject] | Mapping[str, MemorySubject],
) -> dict[str, MemorySubject]:
    """Return the subjects by Koog's names for them, each bound."""
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
                f"Two subjects are given for Koog's {name!r}: its file holds the facts of one"
            )
    return found


@dataclass(frozen=True, slots=True)
class _Reading:
    """How Koog's files are read in one import. Runs in worker threads."""

    unseal: Unseal | None
    subjects: dict[str, MemorySubject]
    source: FactSource | None
    now: datetime

    def read(
        self, file: KoogFile | UnreadableError
    ) -> tuple[Place | None, list[Entry], list[KoogProblem]]:
        """Return where a file's facts belong, the entries that they become, and what is wrong."""
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
