"""Imports from JetBrains Koog's AgentMemory.

Koog 1.0 removed AgentMemory, and the files of its users remain. `_koog_files` finds and reads them,
plain or encrypted, and `_koog_facts` converts their contents to ledger entries. This module writes
the entries of each file in one step. Koog's folder is not changed.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from unicodedata import normalize

from anyio.to_thread import run_sync

from factmem._arguments import expect_path
from factmem.encryption._ciphers import NONCE_BYTES, open_sealed
from factmem.encryption.key import Key
from factmem.ledger.entries import Entry
from factmem.models._checked import checked_subjects
from factmem.models.places import LOWEST_PRIORITY, Identity, MemorySubject, Place
from factmem.providers.base import FactStore
from factmem.transfer._checks import check_store
from factmem.transfer._koog_facts import entries_of
from factmem.transfer._koog_files import Unseal, content_of, paths_in, place_names, store_in
from factmem.transfer.reports import ImportProblem, ImportReport

__all__ = ["import_koog"]


async def import_koog(
    root: str | os.PathLike[str],
    into: FactStore,
    *,
    subjects: Iterable[MemorySubject] | Mapping[str, MemorySubject] = (),
    key: str | bytes | Key | None = None,
) -> ImportReport:
    """Import the facts in a folder of Koog's AgentMemory into a store.

    Facts keep their timestamps and Koog's order, so the last fact of a list becomes the current
    one. A value that was saved again becomes a confirmation. Each fact counts as recorded when Koog
    saved it, so `as_of` finds it from then on. A `SingleFact` under a MULTIPLE concept becomes a
    `MultipleFacts`. Existing facts of a place stay and count as older: import before the
    application saves. The source of every fact is `FactSource(SourceKind.DOCUMENT, "koog")`, with
    which you can forget them together.

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

    Raises:
        TypeError: `into` is not a `FactStore`, or an argument is of the wrong type.
        ValueError: `root` contains no store of Koog, the key is invalid, or two subjects have the
            same name.
        UnboundSubjectError: A per-entity subject is not bound.
        StorageError: The store failed.
    """
    check_store(into, "into")
    expect_path(root, "root", "import_koog('koog-memory', store)")
    unseal, known = _unseal(key), _by_name(subjects)
    folder = await run_sync(store_in, Path(root))

    def read(path: Path) -> tuple[Place, list[Entry], list[str]]:
        content = content_of(path, unseal)
        scope, name = place_names(path.relative_to(folder).parts)
        subject = known.get(normalize("NFC", name)) or MemorySubject(name, "", LOWEST_PRIORITY)
        place = Place(scope, subject)
        return place, *entries_of(content, place.identity)

    places: dict[Identity, Place] = {}
    problems: list[ImportProblem] = []
    new = total = 0
    for path in await run_sync(lambda: [*paths_in(folder)]):
        try:
            place, entries, flaws = await run_sync(read, path)
        except ValueError as exc:
            problems.append(ImportProblem(str(path), str(exc)))
            continue
        problems += [ImportProblem(str(path), flaw) for flaw in flaws]
        if entries:
            held = await into.entries(place.subject, place.scope)
            ids = {fact["id"] for entry in held for fact in entry.get("facts", ())}
            unknown = [
                entry
                for entry in entries
                if ids.isdisjoint(fact["id"] for fact in entry.get("facts", ()))
            ]
            new += await into.replay(unknown, place.subject, place.scope)
            total += len(entries)
            places[place.identity] = place
    return ImportReport(tuple(places.values()), total, new, tuple(problems))


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
        names = [str(name) for name in subjects]
    else:
        given = checked_subjects(subjects)
        names = [subject.name for subject in given]
    found: dict[str, MemorySubject] = {}
    for name, subject in zip(names, given, strict=True):
        subject.check_bound()
        if found.setdefault(normalize("NFC", name), subject) != subject:
            raise ValueError(
                f"subjects contains two subjects for Koog's {name!r}: pass one, as its file has "
                f"the facts of one subject"
            )
    return {MemorySubject.EVERYTHING.name: MemorySubject.EVERYTHING, **found}
