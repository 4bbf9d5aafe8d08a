"""Imports of memories that mem0, CrewAI, Graphiti and the memory server of MCP return.

Each record is converted to a memory, and the memories of each place are written as facts. A field
of the wrong type raises `ValueError` with its name: if it were ignored, a memory could lose its
time, or be shown to all users.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import orjson
from pydantic import JsonValue

from factmem._arguments import expect, expect_all, kind_of
from factmem.errors import InputTypeError, InputValueError
from factmem.ledger._items import digest_of, values_of
from factmem.ledger.entries import Entry, StoredFact, stored
from factmem.models._values import canonical, checked_name, checked_text
from factmem.models.facts import (
    AnyFact,
    Concept,
    FactSource,
    FactType,
    MultipleFacts,
    SingleFact,
    SourceKind,
    checked_metadata,
)
from factmem.models.places import Identity, MemoryScope, MemorySubject, Place
from factmem.models.when import When, stamp
from factmem.providers.store import FactStore
from factmem.transfer._rows import check_store
from factmem.transfer.reports import ImportProblem, ImportReport, Problems

__all__ = ["import_crewai", "import_graphiti", "import_mcp", "import_mem0"]

_RENAMED = frozenset(
    {
        *("id", "memory", "hash", "score", "metadata"),
        *("created_at", "updated_at", "expiration_date", "categories"),
        *("user_id", "agent_id", "app_id", "run_id"),
    }
)
"""mem0's fields that a fact has under another name, or that can be derived from others."""

_OF_EDGES = frozenset(
    {
        *("uuid", "name", "fact", "fact_embedding", "episodes", "attributes"),
        *("created_at", "reference_time", "valid_at", "invalid_at", "expired_at"),
    }
)
"""Graphiti's fields that a fact has under another name, or does not need."""


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory of another library."""

    id: str
    text: str
    said: datetime
    source: FactSource
    user: str | None
    """The library's name for the user that the memory is about."""
    categories: Sequence[str]
    """The first one becomes the concept; the others are stored as metadata."""
    metadata: dict[str, JsonValue]
    scope: MemoryScope | None = None
    """Its scope, if the library has one for it; None for the scope of the import."""
    importance: float = 0.5
    expires_at: datetime | None = None
    since: When | None = None
    until: When | None = None


def memory_of_mem0(fields: Mapping[str, Any]) -> Memory:
    """Convert an item of `get_all()`."""
    metadata = _metadata(fields)
    metadata.update({name: value for name, value in fields.items() if name not in _RENAMED})
    categories = _categories(fields)
    if not categories and isinstance(metadata.get("category"), str):  # as in mem0's documentation
        categories = [metadata.pop("category")]
    agent, app = _string(fields, "agent_id"), _string(fields, "app_id")
    return Memory(
        _id(fields),
        _required(fields, "memory"),
        _datetime(fields, "updated_at", "created_at"),
        FactSource(SourceKind.DOCUMENT, _string(fields, "run_id") or "mem0"),
        _user({**metadata, **fields}, "user_id"),
        categories,
        _present(metadata),
        scope=MemoryScope.Agent(agent) if agent else MemoryScope.Product(app) if app else None,
        expires_at=_end_of_day(_string(fields, "expiration_date")),
    )


def memory_of_crewai(fields: Mapping[str, Any], user_field: str | None) -> Memory:
    """Convert a `MemoryRecord` as JSON; without `user_field` it has no user."""
    metadata = _metadata(fields)
    for name in ("scope", "source"):
        if (value := _string(fields, name)) is not None and value != "/":
            metadata.setdefault(name, value)
    if fields.get("private"):
        metadata.setdefault("private", True)
    user = None if user_field is None else _user({**metadata, **fields}, user_field)
    if user_field == "scope" and user is not None:  # a path, with the user as its last part
        user = user.strip("/").rpartition("/")[2] or None
    importance = fields.get("importance")
    if not isinstance(importance, int | float) or isinstance(importance, bool):
        importance = 0.5
    return Memory(
        _id(fields),
        _required(fields, "content"),
        _datetime(fields, "created_at"),
        FactSource(SourceKind.DOCUMENT, "crewai"),
        user,
        _categories(fields),
        _present(metadata),
        importance=float(min(max(importance, 0), 1)),
    )


def memories_of_graphiti(fields: Mapping[str, Any], user_field: str) -> list[Memory]:
    """Convert an `EntityEdge` as JSON: what was said first, and what was said when it ended."""
    said = _moment(fields, "reference_time") or _datetime(fields, "created_at")
    begin, expired = _moment(fields, "valid_at"), _moment(fields, "expired_at")
    end = _moment(fields, "invalid_at") or expired
    as_when = datetime.date if begin == end else datetime.astimezone  # an event has its day
    metadata = _metadata({"metadata": fields.get("attributes")})
    metadata.update({name: value for name, value in fields.items() if name not in _OF_EDGES})
    episode = next(iter(fields.get("episodes") or ()), "graphiti")
    memory = Memory(
        _id({"id": fields.get("uuid"), **fields}),
        _required(fields, "fact"),
        said,
        FactSource(SourceKind.DOCUMENT, str(episode)),
        _user({**metadata, **fields}, user_field),
        [(_string(fields, "name") or "").lower()],  # LIVES_IN
        _present(metadata),
        since=None if begin is None else When.of(as_when(begin), "valid_at"),
        until=None if end is None else When.of(as_when(end), "invalid_at"),
    )
    if expired is None or end is None or end <= said:
        return [memory]
    return [replace(memory, until=None), replace(memory, said=max(expired, said))]


def _parts_of_mcp(record: Any) -> Iterator[Any]:
    """Yield the observations of an entity, each with its name; a relation is one."""
    if not isinstance(record, Mapping) or "relationType" in record:
        yield record
        return
    given = record.get("observations")
    observations = [given] if isinstance(given, str) else given or [record.get("entityType")]
    name, kind = record.get("name"), record.get("entityType")
    if not isinstance(observations, list):
        yield {"item": name, "name": name}
        return
    for number, text in enumerate(observations, 1):
        item = f"{name}, observation {number}"
        yield {"item": item, "name": name, "entityType": kind, "text": text}


def memory_of_mcp(fields: Mapping[str, Any], said: datetime) -> Memory:
    """Convert an observation or a relation."""
    if "relationType" in fields:
        name, to = _required(fields, "from"), _required(fields, "to")
        kind = _required(fields, "relationType")
        text = f"{kind.replace('_', ' ')} {to}"
        metadata: dict[str, Any] = {"relation": kind, "to": to}
    else:
        name, text = _required(fields, "name"), _required(fields, "text")
        metadata = {"entity_type": _string(fields, "entityType")}
    source = FactSource(SourceKind.DOCUMENT, "mcp")
    fact_id = _id({"name": name, "text": text})
    return Memory(fact_id, text, said, source, None, [name], _present(metadata))


def _id(fields: Mapping[str, Any]) -> str:
    """Return a unique id: the record's own, or a digest of its fields."""
    if fields.get("id") is not None:
        return str(fields["id"])
    # Not orjson, which rejects wide integers and lone surrogates that other libraries store.
    return sha256(json.dumps(fields, default=str, sort_keys=True).encode()).hexdigest()[:32]


def _present(metadata: dict[str, Any]) -> dict[str, JsonValue]:
    return {name: value for name, value in metadata.items() if value is not None}


def _metadata(fields: Mapping[str, Any]) -> dict[str, Any]:
    own = fields.get("metadata")
    if isinstance(own, str):  # some exports have it as JSON
        try:
            own = json.loads(own)
        except (ValueError, RecursionError):
            own = {"metadata": own}
    return {**own} if isinstance(own, Mapping) else {}


def _categories(fields: Mapping[str, Any]) -> list[str]:
    given = fields.get("categories")
    given = [given] if isinstance(given, str) else given
    return [each for each in given if isinstance(each, str)] if isinstance(given, list) else []


def _string(fields: Mapping[str, Any], name: str) -> str | None:
    """Return a field as a string if it is a number or a string that is not blank; else None."""
    value = fields.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value.strip() else None


def _user(fields: Mapping[str, Any], name: str) -> str | None:
    user, given = _string(fields, name), fields.get(name)
    if user is None and given is not None and not isinstance(given, str):
        raise InputValueError(f"{name!r} is not the name of one user")
    return user


def _required(fields: Mapping[str, Any], name: str) -> str:
    if (text := _string(fields, name)) is None:
        raise InputValueError(f"has no text in {name!r}")
    return text


def _datetime(fields: Mapping[str, Any], *names: str) -> datetime:
    """Return the first of the named fields that is an ISO 8601 time; UTC if it has no time zone."""
    for name in names:
        if (text := _string(fields, name)) is not None:
            try:
                return _utc(datetime.fromisoformat(text))
            except (ValueError, OverflowError):  # not a time, or outside the years 1 to 9999 in UTC
                continue
    raise InputValueError(f"has no time in {' or '.join(map(repr, names))}")


def _moment(fields: Mapping[str, Any], name: str) -> datetime | None:
    return None if fields.get(name) is None else _datetime(fields, name)


def _utc(when: datetime) -> datetime:
    return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)


def _end_of_day(day: str | None) -> datetime | None:
    """Return when a memory expires: at the end of its last day, on which mem0 still shows it."""
    if day is None:
        return None
    try:
        return _utc(datetime.fromisoformat(day) + timedelta(days=1))
    except ValueError:
        raise InputValueError("has an 'expiration_date' that is not a date") from None
    except OverflowError:  # 9999-12-31, which some applications write for "never"
        return None


_AT_A_TIME = 10_000
"""Entries per call of the store. A call first reads the whole place, so small batches would be
slow. An import that was killed continues after the last completed batch."""

_KEYWORD = "notes"
"""The keyword of memories without a category."""
_VERSION = "~"
"""In the ids of a memory's later texts, separates the memory's id from a digest of the text."""


async def import_mem0(
    memories: Iterable[Mapping[str, Any]],
    into: FactStore,
    *,
    scope: MemoryScope,
    subject: MemorySubject,
    concepts: Iterable[Concept[Any, Any]] = (),
) -> ImportReport:
    """Import the memories of mem0 into a store.

    Each memory becomes a value of a concept, whose keyword is the memory's first category or else
    "notes". The memory's `user_id` becomes the entity of its subject; without a user the subject
    is `MemorySubject.EVERYTHING`. An `agent_id` selects the scope of that agent, an `app_id` that
    of the product. The `run_id` becomes the conversation of the source. Metadata is imported too.

    A memory counts as said at its last update: in a SINGLE concept the latest memory is current,
    whatever the order of imports. A second import adds what mem0 has saved since and replaces
    memories that mem0 has updated since, so an import can be repeated after a failure or a kill. It
    does not remove memories that mem0 has deleted since. All memories are read before the first is
    written. No LLM calls.

    Args:
        memories: The memories, as in `get_all(...)["results"]`.
        into: The store to import into.
        scope: The scope of memories without `agent_id` and `app_id`.
        subject: The subject of the facts: an unbound per-entity subject such as `USER`, which is
            bound to each memory's user, or one subject for all, such as `USER.of("alice")`.
        concepts: The application's concepts, matched by keyword. Other keywords become concepts of
            many strings.

    Raises:
        TypeError: `into` is not a `FactStore`, or an argument is of the wrong type.
        StorageError: The store failed.
    """
    return await _Import(into, scope, subject, concepts).run(
        memories, lambda fields: [memory_of_mem0(fields)]
    )


async def import_crewai(
    memories: Iterable[Mapping[str, Any]],
    into: FactStore,
    *,
    scope: MemoryScope,
    subject: MemorySubject,
    user_field: str | None = None,
    concepts: Iterable[Concept[Any, Any]] = (),
) -> ImportReport:
    """Import the memories of CrewAI into a store.

    Keywords, times and repeated imports work as in `import_mem0`. CrewAI's metadata, scope, source
    and private flag become metadata of the fact.

    Args:
        memories: The records as JSON: `record.model_dump(mode="json")` for each record of
            `memory.list_records(limit=...)`.
        into: The store to import into.
        scope: Where the facts are visible.
        subject: The subject of the facts: one subject for all, such as `USER.of("alice")`, or an
            unbound per-entity subject, which is bound to the user in `user_field`.
        user_field: The field of a memory, or of its metadata, that names its user: "source", or
            "scope" for the last part of the path.
        concepts: The application's concepts, as in `import_mem0`.

    Raises:
        UnboundSubjectError: `subject` is not bound, and no `user_field` names the users.
        TypeError, StorageError: As `import_mem0`.
    """
    importing = _Import(into, scope, subject, concepts)
    if user_field is None:
        subject.check_bound()
    return await importing.run(memories, lambda fields: [memory_of_crewai(fields, user_field)])


async def import_graphiti(
    edges: Iterable[Mapping[str, Any]],
    into: FactStore,
    *,
    scope: MemoryScope,
    subject: MemorySubject,
    user_field: str = "group_id",
    concepts: Iterable[Concept[Any, Any]] = (),
) -> ImportReport:
    """Import the edges of a graph of Graphiti into a store.

    The `fact` of an edge becomes a value of the concept with the edge's `name` in small letters,
    such as "lives_in". It holds from `valid_at` until `invalid_at`, or `expired_at`; an edge that
    began and ended at one moment holds on that day. It counts as said at `reference_time`, else
    `created_at`, and its end at `expired_at`: `as_of` before that does not know the end. The first
    episode is the conversation of the source, and nodes and attributes become metadata. Repeated
    imports work as in `import_mem0`, and add the ends of edges that are over since.

    Args:
        edges: The edges as JSON: `edge.model_dump(mode="json")`.
        into: The store to import into.
        scope: Where the facts are visible.
        subject: The subject of the facts, as in `import_crewai`.
        user_field: The field of an edge, or of its attributes, that names its user.
        concepts: The application's concepts, as in `import_mem0`.

    Raises:
        TypeError, StorageError: As `import_mem0`.
    """
    importing = _Import(into, scope, subject, concepts)
    return await importing.run(edges, lambda fields: memories_of_graphiti(fields, user_field))


async def import_mcp(
    records: Iterable[Mapping[str, Any]],
    into: FactStore,
    *,
    scope: MemoryScope,
    subject: MemorySubject,
    concepts: Iterable[Concept[Any, Any]] = (),
) -> ImportReport:
    """Import the knowledge graph of the memory server of MCP into a store.

    Each observation of an entity, and each of its relations, becomes a value of a concept whose
    keyword is the entity's name. An entity with neither has its type as the only value. The graph
    has no times: what is new counts as said now. Repeated imports add what is new.

    Args:
        records: The lines of the server's `memory.jsonl`, or the entities and relations of
            `read_graph`.
        into: The store to import into.
        scope: Where the facts are visible.
        subject: The subject of the facts, such as `USER.of("alice")`.
        concepts: The application's concepts, as in `import_mem0`.

    Raises:
        UnboundSubjectError: `subject` is per entity and has no entity.
        TypeError, StorageError: As `import_mem0`.
    """
    importing = _Import(into, scope, subject, concepts)
    subject.check_bound()
    now = datetime.now(UTC)
    return await importing.run(
        (part for each in records for part in _parts_of_mcp(each)),
        lambda fields: [memory_of_mcp(fields, now)],
    )


class _Import:
    """One import of memories: the arguments of the call, and what it has done so far."""

    def __init__(
        self,
        into: FactStore,
        scope: MemoryScope,
        subject: MemorySubject,
        concepts: Iterable[Concept[Any, Any]],
    ) -> None:
        check_store(into, "into")
        self._into = into
        self._scope = expect(scope, MemoryScope, "scope", 'MemoryScope.Product("my-app")')
        self._subject = expect(subject, MemorySubject, "subject", 'USER.of("alice")')
        given = expect_all(concepts, Concept, "concepts", "concepts=[NOTES]")
        self._concepts = {concept.keyword: concept for concept in given}
        self._new = self._known = 0
        self._problems = Problems()

    async def run(
        self,
        records: Iterable[Mapping[str, Any]],
        memories_of: Callable[[Mapping[str, Any]], list[Memory]],
    ) -> ImportReport:
        """Convert the records of a library and write them, place by place."""
        by_place = self._by_place(records, memories_of)
        for place, memories in by_place:
            await self._write(place, memories)
        places = tuple(place for place, _ in by_place)
        problems = self._problems
        read = self._new + self._known
        return ImportReport(places, read, self._new, problems.kept, failed=problems.failed)

    def _by_place(
        self,
        records: Iterable[Mapping[str, Any] | ImportProblem],
        memories_of: Callable[[Mapping[str, Any]], list[Memory]],
    ) -> list[tuple[Place, list[Memory]]]:
        """Return the memories of each place, ordered by the time they were said."""
        found: dict[Identity, tuple[Place, list[Memory]]] = {}
        for number, fields in enumerate(records, 1):
            if isinstance(fields, ImportProblem):  # a line of a file that could not be read
                self._problems.add(fields.item, fields.reason)
                continue
            if not isinstance(fields, Mapping):
                raise InputTypeError(
                    f"memories must be mappings, not {kind_of(fields)}: [{{'id': ...}}]"
                )
            try:
                converted = memories_of(fields)
                place = self._place_of(converted[0])
            except (ValueError, TypeError, AttributeError) as exc:
                given = map(fields.get, ("item", "id", "uuid", "name", "from"))
                named = next((each for each in given if each is not None), f"number {number}")
                is_told = isinstance(exc, ValueError)
                reason = str(exc) if is_told else "has a field of the wrong type"
                self._problems.add(str(named), reason)
            else:
                found.setdefault(place.identity, (place, []))[1].extend(converted)
        for _, memories in found.values():  # entries of a place are recorded in order of time
            memories.sort(key=lambda memory: memory.said)
        return [*found.values()]

    def _place_of(self, memory: Memory) -> Place:
        subject = self._subject
        if subject.per_entity and subject.entity is None:
            user = memory.user  # without a user the memory is about nobody in particular
            subject = MemorySubject.EVERYTHING if user is None else subject.of(user)
        return Place(memory.scope or self._scope, subject)

    async def _write(self, place: Place, memories: Iterable[Memory]) -> None:
        """Write the memories that a place does not have yet."""
        held: dict[str, list[StoredFact]] = {}
        for known in await self._into.entries(place.subject, place.scope):
            for fact in known.get("facts", ()):
                held.setdefault(fact["id"].partition(_VERSION)[0], []).append(fact)
        entries: list[Entry] = []
        for memory in memories:
            try:
                entry = self._entry_of(memory, held)
            except (ValueError, TypeError) as exc:
                self._problems.add(memory.id, str(exc))
                continue
            if entry is None:
                self._known += 1
            else:
                entries.append(entry)
        for start in range(0, len(entries), _AT_A_TIME):
            part = entries[start : start + _AT_A_TIME]
            self._new += await self._into.replay(part, place.subject, place.scope)

    def _entry_of(self, memory: Memory, held: dict[str, list[StoredFact]]) -> Entry | None:
        """Return the entry that adds a memory to the place; None if the place has its text.

        The entry is a statement with the time of the memory, so in a SINGLE concept an old memory
        never replaces a newer value. Other texts of the same memory in the place are forgotten.
        """
        first = _fact_id(memory.id)
        fact = stored(self._fact_of(memory, first))
        older = held.setdefault(first, [])
        if any(_said(each) == _said(fact) for each in older):
            return None
        if older:
            fact["id"] = f"{first}{_VERSION}{_digest(repr(_said(fact)))}"
        fact["stated"] = True  # ordered by the time of the statement, not by that of the import
        # No fact is recorded in the future: otherwise no later save could be recorded before it.
        entry: Entry = {"at": min(fact["timestamp"], stamp(datetime.now(UTC))), "facts": [fact]}
        replaced = [each for each in older if _text(each) != _text(fact)]
        if replaced:
            entry["forget"] = [
                (each["keyword"], each["id"], digest_of(canonical(value)))
                for each in replaced
                for _, value in values_of(each)
            ]
        older.append(fact)
        return entry

    def _fact_of(self, memory: Memory, fact_id: str) -> AnyFact:
        keyword, metadata = self._keyword_of(memory)
        concept: Any = self._concepts.get(keyword) or self._concept(keyword)
        value = concept.codec.load(checked_text(memory.text, "memory"))
        given: dict[str, Any] = {
            "timestamp": memory.said,
            "importance": memory.importance,
            "source": memory.source,
            "expires_at": memory.expires_at,
            "since": memory.since,
            "until": memory.until,
            "id": fact_id,
            "metadata": checked_metadata(metadata),
        }
        if concept.fact_type is FactType.SINGLE:
            return SingleFact(concept, value, **given)
        return MultipleFacts(concept, [value], **given)

    def _concept(self, keyword: str) -> Concept[Any, Any]:
        """Return a concept of many strings, for a keyword without a concept of the application."""
        words = keyword.replace("_", " ").replace("-", " ")
        about = "" if keyword == _KEYWORD else f" about {words}"
        return Concept(keyword, f"What was noted{about}", FactType.MULTIPLE)

    def _keyword_of(self, memory: Memory) -> tuple[str, dict[str, JsonValue]]:
        """Return the keyword of a memory, and its metadata with the remaining categories."""
        categories = [each for each in memory.categories if each.strip()]
        keyword = _KEYWORD
        is_listed = len(categories) > 1
        if categories:
            try:
                keyword = checked_name(categories[0], "keyword")
            except ValueError:  # a category may be longer than a name
                is_listed = True
        listed: dict[str, JsonValue] = {"categories": [*categories]} if is_listed else {}
        return keyword, {**listed, **memory.metadata}


def _text(fact: StoredFact) -> JsonValue:
    values = fact.get("values")
    return fact.get("value") if not values else values[0]


def _said(fact: StoredFact) -> tuple[JsonValue, str | None, str | None]:
    """Return what an import compares: the text, and from when until when it holds."""
    return _text(fact), fact.get("since"), fact.get("until")


def _fact_id(memory_id: str) -> str:
    """Return the id of a memory's first fact: the memory's own if that is valid, or a digest."""
    is_plain = memory_id.isascii() and memory_id.isprintable() and 0 < len(memory_id) <= 100
    return memory_id if is_plain and _VERSION not in memory_id else _digest(memory_id)


def _digest(text: str) -> str:
    return sha256(orjson.dumps(text)).hexdigest()[:32]
