"""Conversion of the records of mem0, CrewAI and Graphiti to memories.

A field of the wrong type raises `ValueError` with its name. Ignoring it could lose a time, or show
a memory to all users.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from pydantic import JsonValue

from factmem.models.places import MemoryScope
from factmem.models.sources import FactSource, SourceKind
from factmem.models.when import When

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
    """Convert an item of `get_all()`.

    Raises:
        ValueError: A field is missing or of the wrong type.
    """
    metadata = _metadata(fields)
    metadata.update({name: value for name, value in fields.items() if name not in _RENAMED})
    categories = _categories(fields)
    if not categories and isinstance(metadata.get("category"), str):  # as in mem0's documentation
        categories = [metadata.pop("category")]
    agent, app = _string(fields, "agent_id"), _string(fields, "app_id")
    return Memory(
        _id(fields),
        _text(fields, "memory"),
        _datetime(fields, "updated_at", "created_at"),
        FactSource(SourceKind.DOCUMENT, _string(fields, "run_id") or "mem0"),
        _user({**metadata, **fields}, "user_id"),
        categories,
        _present(metadata),
        scope=MemoryScope.Agent(agent) if agent else MemoryScope.Product(app) if app else None,
        expires_at=_end_of_day(_string(fields, "expiration_date")),
    )


def memory_of_crewai(fields: Mapping[str, Any], user_field: str | None) -> Memory:
    """Convert a `MemoryRecord` as JSON; without `user_field` it has no user.

    Raises:
        ValueError: A field is missing or of the wrong type.
    """
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
        _text(fields, "content"),
        _datetime(fields, "created_at"),
        FactSource(SourceKind.DOCUMENT, "crewai"),
        user,
        _categories(fields),
        _present(metadata),
        importance=float(min(max(importance, 0), 1)),
    )


def memories_of_graphiti(fields: Mapping[str, Any], user_field: str) -> list[Memory]:
    """Convert an `EntityEdge` as JSON: what was said first, and what was said when it ended.

    Raises:
        ValueError: A field is missing or of the wrong type.
    """
    said = _moment(fields, "reference_time") or _datetime(fields, "created_at")
    begin, expired = _moment(fields, "valid_at"), _moment(fields, "expired_at")
    end = _moment(fields, "invalid_at") or expired
    as_when = datetime.date if begin == end else datetime.astimezone  # an event has its day
    metadata = _metadata({"metadata": fields.get("attributes")})
    metadata.update({name: value for name, value in fields.items() if name not in _OF_EDGES})
    episode = next(iter(fields.get("episodes") or ()), "graphiti")
    memory = Memory(
        _id({"id": fields.get("uuid"), **fields}),
        _text(fields, "fact"),
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
    return {**own} if isinstance(own, Mapping) else {}


def _categories(fields: Mapping[str, Any]) -> list[str]:
    given = fields.get("categories")
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
        raise ValueError(f"{name!r} is not the name of one user")
    return user


def _text(fields: Mapping[str, Any], name: str) -> str:
    if (text := _string(fields, name)) is None:
        raise ValueError(f"has no text in {name!r}")
    return text


def _datetime(fields: Mapping[str, Any], *names: str) -> datetime:
    """Return the first of the named fields that is an ISO 8601 time; UTC if it has no time zone."""
    for name in names:
        if (text := _string(fields, name)) is not None:
            try:
                return _utc(datetime.fromisoformat(text))
            except (ValueError, OverflowError):  # not a time, or outside the years 1 to 9999 in UTC
                continue
    raise ValueError(f"has no time in {' or '.join(map(repr, names))}")


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
        raise ValueError("has an 'expiration_date' that is not a date") from None
    except OverflowError:  # 9999-12-31, which some applications write for "never"
        return None
