"""Imports from JetBrains Koog's AgentMemory.

Koog 1.0 removed AgentMemory, and the files of its users remain: `_koog_files` finds and reads them,
plain or encrypted. This module converts their facts to ledger entries, and writes the entries of each
file in one step. Koog's folder is not changed. A file maps each keyword to the facts that were saved
under it, oldest first:

    {"ide-theme": [{"type": "ai.koog.agents.memory.model.SingleFact",
                    "concept": {"keyword": "ide-theme", "description": "...",
                                "factType": "SINGLE"},
                    "timestamp": 1748000000000, "value": "dark"}]}

Koog's versions differ in the package before the type's name, so it is ignored.
"""

import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any
from unicodedata import normalize

import orjson
from anyio.to_thread import run_sync

from factmem._arguments import expect_path
from factmem.encryption._ciphers import NONCE_BYTES, Aead
from factmem.encryption.key import Key
from factmem.ledger.entries import Entry, stored
from factmem.models._checked import checked_subjects
from factmem.models._names import checked_name
from factmem.models.clock import stamp
from factmem.models.facts import AnyFact, Concept, FactType, MultipleFacts, SingleFact
from factmem.models.places import LOWEST_PRIORITY, Identity, MemorySubject, Place
from factmem.models.sources import FactSource, SourceKind
from factmem.providers.base import FactStore
from factmem.transfer._checks import check_store
from factmem.transfer._koog_files import Unseal, content_of, paths_in, place_names, store_in
from factmem.transfer.reports import ImportProblem, ImportReport

__all__ = ["import_koog"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SOURCE = FactSource(SourceKind.DOCUMENT, "koog")

_NOTHING_FOUND = "No facts extracted"
"""The marker that Koog saved when its model found no fact. Imported, it would replace the value."""


async def import_koog(
    root: str | os.PathLike[str],
    into: FactStore,
    *,
    subjects: Iterable[MemorySubject] = (),
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
        subjects: The application's subjects, matched by name. A per-entity subject must be bound:
            `USER.of("alice")`. Any other name becomes a subject of that name with the lowest
            priority.
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
    unseal, known = _unseal(key), {MemorySubject.EVERYTHING.name: MemorySubject.EVERYTHING}
    for subject in checked_subjects(subjects):
        subject.check_bound()
        if known.setdefault(normalize("NFC", subject.name), subject) != subject:
            raise ValueError(
                f"subjects contains two subjects for Koog's {subject.name!r}: pass one"
            )
    folder = await run_sync(store_in, Path(root))

    def read(path: Path) -> tuple[Place, list[Entry], list[str]]:
        content = content_of(path, unseal)
        scope, name = place_names(path.relative_to(folder).parts)
        subject = known.get(normalize("NFC", name)) or MemorySubject(name, "", LOWEST_PRIORITY)
        place = Place(scope, subject)
        return place, *_entries(content, place.identity)

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
            # A replay skips the entries whose facts the place has.
            new += await into.replay(entries, place.subject, place.scope)
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
    aead = Aead(secret)
    return lambda sealed: aead.open(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], None)


def _entries(content: object, identity: Identity) -> tuple[list[Entry], list[str]]:
    """Return the facts of a file as entries, one for each save, and the reasons for invalid ones.

    Facts of one keyword keep Koog's order. Facts of different keywords are ordered by time. Each
    entry counts as recorded when Koog saved it, but not later than now: otherwise no later save
    could be recorded before it.

    Raises:
        ValueError: The content does not map keywords to lists.
    """
    saved = content.items() if isinstance(content, dict) else [("", None)]
    if not all(isinstance(saves, list) for _, saves in saved):
        raise ValueError("is JSON, but does not map keywords to lists of facts")
    facts: list[AnyFact] = []
    flaws: list[str] = []
    for keyword, saves in saved:
        for index, save in enumerate(saves or ()):
            what = "records that the model found nothing; it was skipped"
            try:
                fact = _fact(checked_name(keyword, "keyword"), index, save, identity)
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
                fact, what = None, "is not a valid fact of Koog's memory"
            if fact is None:
                flaws.append(f"fact {index} of {keyword!r} {what}")
            else:
                facts.append(fact)
    facts.sort(key=lambda fact: fact.timestamp)
    now = datetime.now(UTC)
    return [{"at": stamp(min(f.timestamp, now)), "facts": [stored(f)]} for f in facts], flaws


def _fact(keyword: str, index: int, save: Any, identity: Identity) -> AnyFact | None:
    """Convert a fact of Koog; None if the model had found nothing. Raises if it is invalid."""
    kind, about, moment = save["type"].rpartition(".")[2], save["concept"], save["timestamp"]
    values = {"SingleFact": [save.get("value")], "MultipleFacts": save.get("values")}[kind]
    if not isinstance(values, list) or type(moment) is not int:
        raise TypeError
    texts = [each for each in values if isinstance(each, str)]
    if len(texts) < len(values):
        raise TypeError
    if texts in ([], [_NOTHING_FOUND]):
        return None
    # Several values make a concept MULTIPLE whatever its factType, so that none is lost.
    is_single = FactType(about["factType"]) is FactType.SINGLE and len(texts) == 1
    fact_type = FactType.SINGLE if is_single else FactType.MULTIPLE
    concept: Concept[Any, Any] = Concept(keyword, about["description"], fact_type)
    timestamp = _EPOCH + timedelta(milliseconds=moment)
    content = [*identity, keyword, index, stamp(timestamp), texts]
    known: dict[str, Any] = {
        "timestamp": timestamp,
        "source": _SOURCE,
        # Of facts of one time the last in the list counts.
        "id": f"{index:08x}{sha256(orjson.dumps(content)).hexdigest()[:24]}",
    }
    return (
        SingleFact(concept, texts[0], **known)
        if is_single
        else MultipleFacts(concept, texts, **known)
    )
