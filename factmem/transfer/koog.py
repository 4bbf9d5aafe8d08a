"""Imports from JetBrains Koog's AgentMemory.

Koog 1.0 removed AgentMemory, and the files of its users remain, plain or encrypted. Their facts
become ledger entries, and those of each file are written in one step. Koog's folder is not changed.
A file maps each keyword to the facts that were saved under it, oldest first:

    {"ide-theme": [{"type": "ai.koog.agents.memory.model.SingleFact",
                    "concept": {"keyword": "ide-theme", "description": "...",
                                "factType": "SINGLE"},
                    "timestamp": 1748000000000, "value": "dark"}]}

Koog's versions differ in the package before the type's name, so it is ignored. The file tree:

    <root>/<storageDirectory>/agent/<name>/subject/<subject>
                              feature/<name>/subject/<subject>
                              product/<name>/subject/<subject>
                              organization/subject/<subject>

The last part is the file; it has no extension. Koog does not escape names, so a name that contains
a slash spans several folders. Each error is a `ValueError` with a reason that contains nothing of
a file's content.
"""

import binascii
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from errno import ELOOP
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import orjson
from anyio.to_thread import run_sync

from factmem._arguments import expect_path
from factmem._concurrency import ORDINARY
from factmem.encryption._ciphers import NONCE_BYTES, Aead
from factmem.encryption.key import Key
from factmem.errors import InputValueError
from factmem.ledger.entries import MOST_BYTES, Entry, stored
from factmem.models._values import checked_name, normalized
from factmem.models.facts import (
    AnyFact,
    Concept,
    FactSource,
    FactType,
    MultipleFacts,
    SingleFact,
    SourceKind,
)
from factmem.models.places import (
    LOWEST_PRIORITY,
    Identity,
    MemoryScope,
    MemoryScopeType,
    MemorySubject,
    Place,
    checked_subjects,
)
from factmem.models.when import stamp
from factmem.providers.store import FactStore
from factmem.transfer._rows import check_store, parsed_json
from factmem.transfer.reports import ImportReport, Problems

__all__ = ["import_koog"]

Unseal: TypeAlias = Callable[[bytes], bytes]
"""Decrypts a nonce of 12 bytes, a ciphertext and a tag of 16 bytes."""

_READ = os.O_RDONLY | ORDINARY


def store_in(root: Path) -> Path:
    """Return the folder with Koog's scope folders: `root` itself, or the only such folder in it."""
    if not root.is_dir():
        raise InputValueError(
            f"{str(root)!r} is not a folder: pass the root of Koog's LocalFileMemoryProvider"
        )
    children = [child for child in sorted(root.iterdir()) if not child.is_symlink()]
    found = [root] if _is_store(root) else [child for child in children if _is_store(child)]
    if len(found) != 1:
        raise InputValueError(
            f"{str(root)!r} contains {'several stores' if found else 'no store'} of Koog: pass the "
            f"folder with the folders agent, feature, product or organization"
        )
    return found[0]


def _is_store(folder: Path) -> bool:
    return any((folder / kind).is_dir() for kind in MemoryScopeType)


def paths_in(store: Path) -> Iterator[Path]:
    """Yield the path of everything in a store but its folders, sorted; no link is followed.

    A folder that cannot be listed is among them, so that reading it reports the reason.
    """
    kinds = [store / kind for kind in MemoryScopeType]
    left = [folder for folder in reversed(kinds) if os.path.lexists(folder)]
    while left:
        path = left.pop()
        try:
            names = os.listdir(path) if stat.S_ISDIR(path.lstat().st_mode) else None
        except OSError:
            names = None
        if names is None:
            yield path
        else:
            left += [path / name for name in sorted(names, reverse=True)]


def place_names(parts: tuple[str, ...]) -> tuple[MemoryScope, str]:
    """Return the scope and the subject's name that the path of a file names."""
    kind, *rest = parts
    if kind == MemoryScopeType.ORGANIZATION:
        marks = [0] if len(rest) > 1 and rest[0] == "subject" else []
    else:
        marks = [at for at in range(1, len(rest) - 1) if rest[at] == "subject"]
    if len(marks) != 1:
        raise InputValueError(
            "names no place, or several: Koog writes .../<name>/subject/<subject>"
        )
    # Koog's CrossProduct scope has no name.
    name, subject = "/".join(rest[: marks[0]]) or "default", "/".join(rest[marks[0] + 1 :])
    try:
        return MemoryScope(MemoryScopeType(kind), name), subject
    except ValueError as exc:
        raise InputValueError(f"has an invalid name: {exc}") from None


def content_of(path: Path, unseal: Unseal | None) -> object:
    """Return the parsed JSON of a file, which must be encrypted exactly if `unseal` is given."""
    try:
        with open(path, "rb", opener=lambda name, _: os.open(name, _READ)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InputValueError("is not a regular file")
            data = file.read(MOST_BYTES + 1).strip()
    except OSError as exc:
        if exc.errno == ELOOP:
            raise InputValueError("is a symbolic link, which is not followed") from None
        raise InputValueError(f"cannot be read: {exc.strerror or type(exc).__name__}") from None
    if unseal is not None:
        try:
            data = unseal(binascii.a2b_base64(data, strict_mode=True))
        except ValueError:  # binascii.Error is one too
            raise InputValueError(
                "cannot be decrypted with this key: the key is wrong, or the file is not "
                "encrypted, truncated or damaged"
            ) from None
    try:
        return parsed_json(data)
    except ValueError as exc:
        or_sealed = "" if unseal else ", or encrypted: pass its key then"
        raise InputValueError(f"{exc}: it is empty, truncated or damaged{or_sealed}") from None


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SOURCE = FactSource(SourceKind.DOCUMENT, "koog")

_NOTHING_FOUND = "No facts extracted"
"""The marker that Koog saved when its model found no fact. Imported, it would replace the value."""
_SKIPPED = "records that the model found nothing; it was skipped"


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
        if known.setdefault(normalized("NFC", subject.name), subject) != subject:
            raise InputValueError(
                f"subjects contains two subjects for Koog's {subject.name!r}: pass one"
            )
    folder = await run_sync(store_in, Path(root))

    def read(path: Path) -> tuple[Place, list[Entry], list[str]]:
        content = content_of(path, unseal)
        scope, name = place_names(path.relative_to(folder).parts)
        subject = known.get(normalized("NFC", name)) or MemorySubject(name, "", LOWEST_PRIORITY)
        place = Place(scope, subject)
        return place, *_entries(content, place.identity)

    places: dict[Identity, Place] = {}
    problems = Problems()
    new = total = 0
    for path in await run_sync(lambda: [*paths_in(folder)]):
        try:
            place, entries, flaws = await run_sync(read, path)
        except ValueError as exc:
            problems.add(str(path), str(exc))
            continue
        for flaw in flaws:
            problems.add(str(path), flaw, is_failure=not flaw.endswith(_SKIPPED))
        if entries:
            # A replay skips the entries whose facts the place has.
            new += await into.replay(entries, place.subject, place.scope)
            total += len(entries)
            places[place.identity] = place
    found = tuple(places.values())
    return ImportReport(found, total, new, problems.kept, failed=problems.failed)


def _unseal(key: str | bytes | Key | None) -> Unseal | None:
    if key is None:
        return None
    if not isinstance(key, Key):
        key = Key.from_base64(key) if isinstance(key, str) else Key(key)
    secret = key.secret(None)
    if secret is None:
        raise InputValueError(
            "key must be the 32-byte key of Koog's files, not a passphrase: Key(key)"
        )
    aead = Aead(secret)
    return lambda sealed: aead.open(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], None)


def _entries(content: object, identity: Identity) -> tuple[list[Entry], list[str]]:
    """Return the facts of a file as entries, one for each save, and the reasons for invalid ones.

    Facts of one keyword keep Koog's order. Facts of different keywords are ordered by time. Each
    entry counts as recorded when Koog saved it, but not later than now: otherwise no later save
    could be recorded before it.
    """
    saved = content.items() if isinstance(content, dict) else [("", None)]
    if not all(isinstance(saves, list) for _, saves in saved):
        raise InputValueError("is JSON, but does not map keywords to lists of facts")
    facts: list[AnyFact] = []
    flaws: list[str] = []
    for keyword, saves in saved:
        for index, save in enumerate(saves or ()):
            what = _SKIPPED
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
