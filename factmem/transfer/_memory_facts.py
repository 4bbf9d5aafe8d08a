"""Conversion of other libraries' memories to ledger entries."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from pydantic import JsonValue

from factmem._arguments import expect, expect_all, expect_function
from factmem.ledger.entries import Entry, StoredFact, stamp, stored
from factmem.models.clock import TimeProvider, utc
from factmem.models.facts import AnyFact, Concept, FactType, MultipleFacts, SingleFact
from factmem.models.metadata import checked_metadata
from factmem.models.names import checked_name, checked_text
from factmem.models.places import MemoryScope, MemorySubject, Place
from factmem.models.sources import FactSource


class Record(NamedTuple):
    """A record of another library: its id and its fields."""

    id: str
    fields: Mapping[str, Any] | None
    """None if it cannot be read."""
    is_numbered: bool = False
    """Whether the id is only a position in one file, and so not unique across files."""

    def memory_id(self) -> str:
        """Return a unique id: the record's own, or a digest of its fields."""
        if not self.is_numbered:
            return self.id
        # Not orjson, which rejects wide integers and lone surrogates that other libraries store.
        fields = json.dumps(self.fields, default=str, sort_keys=True)
        return sha256(fields.encode()).hexdigest()[:32]

    def checked(self) -> Mapping[str, Any]:
        """Return the fields.

        Raises:
            ValueError: The record cannot be read.
        """
        if self.fields is None:
            raise ValueError("it cannot be read")
        return self.fields


def files_of(path: Path, files_in: Callable[[Path], list[Path]]) -> list[Path]:
    """Return the files of a folder, or the path itself if it is a file.

    Raises:
        ValueError: The path does not exist.
    """
    if path.is_dir():
        return files_in(path)
    if not path.exists():
        raise ValueError(f"{str(path)!r} does not exist")
    return [path]


def folders_of(folder: Path) -> list[Path]:
    """Return a folder and those one level below."""
    return [folder, *sorted(each for each in folder.iterdir() if each.is_dir())]


def has_field(file: Path, name: str) -> bool:
    """Whether the first record of a JSON file has a field."""
    first = next(iter(json_records(file)), None)
    return first is not None and first.fields is not None and name in first.fields


def json_records(file: Path) -> list[Record]:
    """Return the records in a JSON or JSON Lines file: a list, also under "results" or "docstore".

    Raises:
        ValueError: The file is not JSON, or contains no list of objects.
    """
    data = file.read_bytes()
    try:
        content = orjson.loads(data)
    except ValueError:
        try:
            content = [orjson.loads(line) for line in data.splitlines() if line.strip()]
        except ValueError as exc:
            raise ValueError(f"{str(file)!r} is not JSON ({exc})") from None
    if isinstance(content, dict):
        if isinstance(stored := content.get("docstore"), dict):  # FAISS
            return [Record(name, _object(payload)) for name, payload in stored.items()]
        content = content.get("results", [content])
    if not isinstance(content, list):
        raise ValueError(f"{str(file)!r} contains no list of memories")  # noqa: TRY004 - data
    return [_record(number, _object(each)) for number, each in enumerate(content)]


def _record(number: int, fields: Mapping[str, Any]) -> Record:
    own = fields.get("id")
    if own is None:
        return Record(f"number {number}", fields, is_numbered=True)
    return Record(str(own), fields)


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def string_of(fields: Mapping[str, Any], name: str) -> str | None:
    """Return a field as a string if it is a number or a string that is not blank; else None."""
    value = fields.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value.strip() else None


def user_of(fields: Mapping[str, Any], name: str) -> str | None:
    """Return the name of a user; None if the field is missing.

    Raises:
        ValueError: It is of another type. Ignoring it would show the memory to all users.
    """
    user, given = string_of(fields, name), fields.get(name)
    if user is None and given is not None and not isinstance(given, str):
        raise ValueError(f"its {name!r} is not the name of one user")
    return user


def text_of(fields: Mapping[str, Any], *names: str) -> str:
    """Return the first of the named fields that `string_of` accepts.

    Raises:
        ValueError: It accepts none of them.
    """
    for name in names:
        if (text := string_of(fields, name)) is not None:
            return text
    raise ValueError(f"it has no text in {' or '.join(map(repr, names))}")


def datetime_of(fields: Mapping[str, Any], *names: str) -> datetime:
    """Return the first of the named fields that is an ISO 8601 time; UTC if it has no time zone.

    Raises:
        ValueError: None of them is a time.
    """
    for name in names:
        if (text := string_of(fields, name)) is not None:
            try:
                found = datetime.fromisoformat(text)
                return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
            except (ValueError, OverflowError):  # not a time, or outside the years 1 to 9999 in UTC
                continue
    raise ValueError(f"it has no time in {' or '.join(map(repr, names))}")


def categories_of(fields: Mapping[str, Any]) -> list[str]:
    """Return the categories of a record."""
    given = fields.get("categories")
    return [each for each in given if isinstance(each, str)] if isinstance(given, list) else []


@dataclass(frozen=True, slots=True)
class ForeignMemory:
    """A memory of another library, in a common form."""

    id: str
    text: str
    said: datetime
    user: str | None = None
    """The library's name for the user that the memory is about."""
    scope: MemoryScope | None = None
    """Its scope, if the library has one for it; None for the scope of the import."""
    categories: Sequence[str] = ()
    """The first one becomes the concept; the others are stored as metadata."""
    source: FactSource | None = None
    importance: float = 0.5
    expires_at: datetime | None = None
    metadata: dict[str, JsonValue] = field(default_factory=dict)


class MemoryImport:
    """The conversion of memories to facts in one import: their places, concepts and times.

    Args:
        scope: The scope of memories that have none of their own.
        subject: Their subject. If it is per entity and unbound, each memory's user is its entity.
        keyword: The keyword of the concept for memories without a category.
        concepts: The application's concepts, matched by keyword.
        clock: Returns the time. No fact is recorded at a later time.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: `keyword` is not a valid name.
    """

    def __init__(
        self,
        scope: MemoryScope,
        subject: MemorySubject,
        keyword: str,
        concepts: Iterable[Concept[Any, Any]],
        clock: TimeProvider,
    ) -> None:
        self._scope = expect(scope, MemoryScope, "scope", 'MemoryScope.Product("my-app")')
        self._subject = expect(subject, MemorySubject, "subject", 'USER.of("alice")')
        self._keyword = checked_name(keyword, "keyword")
        given = expect_all(concepts, Concept, "concepts", "concepts=[NOTES]")
        self._concepts = {concept.keyword: concept for concept in given}
        now = expect_function(clock, "clock", "clock=system_clock")()
        self.now = utc(now, "clock's time")

    def place_of(self, memory: ForeignMemory) -> Place:
        """Return the place of a memory.

        Raises:
            ValueError: The name of its user is not a valid name.
        """
        subject = self._subject
        if subject.per_entity and subject.entity is None:
            user = memory.user  # without a user the memory is about nobody in particular
            subject = MemorySubject.EVERYTHING if user is None else subject.of(user)
        return Place(memory.scope or self._scope, subject)

    def fact_of(self, memory: ForeignMemory, fact_id: str) -> AnyFact:
        """Convert a memory to a fact.

        Raises:
            ValueError: Its text or its metadata is invalid, or its concept is not for strings.
        """
        keyword, metadata = self._keyword_of(memory)
        concept: Any = self._concepts.get(keyword) or self._concept(keyword)
        value = concept.codec.load(checked_text(memory.text, "memory"))
        given: dict[str, Any] = {
            "timestamp": memory.said,
            "importance": memory.importance,
            "source": memory.source,
            "expires_at": memory.expires_at,
            "id": fact_id,
            "metadata": checked_metadata(metadata),
        }
        if concept.fact_type is FactType.SINGLE:
            return SingleFact(concept, value, **given)
        return MultipleFacts(concept, [value], **given)

    def _concept(self, keyword: str) -> Concept[Any, Any]:
        """Return a concept of many strings, for a keyword without a concept of the application."""
        words = keyword.replace("_", " ").replace("-", " ")
        about = "" if keyword == self._keyword else f" about {words}"
        return Concept(keyword, f"What was noted{about}", FactType.MULTIPLE)

    def _keyword_of(self, memory: ForeignMemory) -> tuple[str, dict[str, JsonValue]]:
        """Return the keyword of a memory, and its metadata with the remaining categories."""
        metadata = dict(memory.metadata)
        categories = [each for each in memory.categories if each.strip()]
        if not categories:
            return self._keyword, metadata
        if len(categories) > 1:
            metadata.setdefault("categories", [*categories])
        try:
            return checked_name(categories[0], "keyword"), metadata
        except ValueError:  # a category may be longer than a name
            metadata.setdefault("categories", [*categories])
            return self._keyword, metadata


class MemoryVersions:
    """The present and former texts of each memory in a place, by the ids of their facts."""

    def __init__(self, known: Iterable[Entry]) -> None:
        self._facts: dict[str, list[StoredFact]] = {}
        for entry in known:
            for fact in entry.get("facts", ()):
                self._facts.setdefault(_memory_of(fact["id"]), []).append(fact)

    def entry_of(self, memory: ForeignMemory, how: MemoryImport) -> Entry | None:
        """Return the entry that adds a memory to the place; None if the place has its text.

        The entry is a statement with the time of the memory, so in a SINGLE concept an old memory
        never replaces a newer value. Other texts of the same memory in the place are forgotten.

        Raises:
            ValueError: The memory is invalid: see `MemoryImport.fact_of`.
        """
        first = _fact_id(memory.id)
        fact = stored(how.fact_of(memory, first))
        older = self._facts.setdefault(first, [])
        if any(_text(each) == _text(fact) for each in older):
            return None
        if older:
            fact["id"] = f"{first}{_VERSION}{_digest(memory.text)}"
        fact["stated"] = True  # ordered by the time of the statement, not by that of the import
        entry: Entry = {"at": min(fact["timestamp"], stamp(how.now)), "facts": [fact]}
        if older:
            entry["forget"] = [(each["keyword"], each["id"], 0) for each in older]
        older.append(fact)
        return entry


_VERSION = "~"
"""In the ids of a memory's later texts, separates the memory's id from a digest of the text."""


def _memory_of(fact_id: str) -> str:
    return fact_id.partition(_VERSION)[0]


def _text(fact: StoredFact) -> JsonValue:
    values = fact.get("values")
    return fact.get("value") if not values else values[0]


def _fact_id(memory_id: str) -> str:
    """Return the id of a memory's first fact: the memory's own if that is valid, or a digest."""
    is_plain = memory_id.isascii() and memory_id.isprintable() and 0 < len(memory_id) <= 100
    return memory_id if is_plain and _VERSION not in memory_id else _digest(memory_id)


def _digest(text: str) -> str:
    return sha256(orjson.dumps(text)).hexdigest()[:32]
