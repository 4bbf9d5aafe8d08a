"""Readers of the memory files and exports of mem0. Files are opened only for reading.

collection/<name>/storage.sqlite    Qdrant's local mode, mem0's default
chroma.sqlite3                      Chroma
<name>.json                         FAISS, or a result of `get_all()`
history.db                          texts and times, without users
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from factmem.models.places import MemoryScope
from factmem.models.sources import FactSource, SourceKind
from factmem.transfer._memory_facts import (
    ForeignMemory,
    Record,
    categories_of,
    datetime_of,
    files_of,
    folders_of,
    has_field,
    json_records,
    string_of,
    text_of,
    user_of,
)
from factmem.transfer._vector_files import (
    CHROMA,
    StoredPoint,
    chroma_points,
    qdrant_files,
    qdrant_points,
    rows_of,
    tables_of,
)

_HISTORY = "history.db"
_TAKEN = frozenset(
    {
        *("id", "data", "memory", "hash", "score", "text_lemmatized", "metadata", "document"),
        *("created_at", "updated_at", "written", "expiration_date", "categories"),
        *("user_id", "agent_id", "app_id", "run_id"),
    }
)
"""Fields that a fact has under another name, or that can be derived from others."""


def is_mem0(path: Path) -> bool:
    """Whether a path looks like a store of mem0, or a result of `get_all()`."""
    if path.is_dir():
        return bool(_databases(path)) or (path / _HISTORY).is_file()
    if path.suffix == ".json":
        return has_field(path, "memory")
    return "history" in tables_of(path)


def mem0_records(path: Path) -> list[Record]:
    """Return the records of a store or an export.

    Raises:
        ValueError: The path contains no memories of mem0, or is damaged.
        OSError: It cannot be read.
    """
    databases = files_of(path, _databases) or [path / _HISTORY]
    records = [record for file in databases for record in _records_in(file)]
    return [
        each for each in records if each.fields is None or "linked_memory_ids" not in each.fields
    ]


def _databases(folder: Path) -> list[Path]:
    """Return the vector stores in a folder, or one level below."""
    return [
        file
        for each in folders_of(folder)
        for file in [*qdrant_files(each), each / CHROMA, *_faiss_files(each)]
        if file.is_file() and file.parent.name != "mem0migrations"  # mem0's telemetry
    ]


def _faiss_files(folder: Path) -> list[Path]:
    return [index.with_suffix(".json") for index in sorted(folder.glob("*.faiss"))]


def _records_in(file: Path) -> Iterator[Record]:
    if file.name == CHROMA:
        yield from map(_record, chroma_points(file))
    elif file.suffix == ".json":
        yield from json_records(file)
    elif "points" in (tables := tables_of(file)):
        yield from map(_record, qdrant_points(file))
    elif "history" in tables:
        yield from _history_records(file)
    else:
        raise ValueError(
            f"{str(file)!r} contains no memories of mem0: pass the folder of its vector store, "
            f"its history.db, or a JSON file with the result of get_all()"
        )


def _record(point: StoredPoint) -> Record:
    return Record(point.id, point.payload)


def _history_records(file: Path) -> Iterator[Record]:
    """Yield the latest version of each memory that was not deleted."""
    rows = rows_of(
        file,
        "SELECT memory_id, new_memory, event, created_at, updated_at FROM history ORDER BY rowid",
    )
    for memory, text, event, created, updated in {row[0]: row for row in rows}.values():
        if event != "DELETE":
            yield Record(
                str(memory), {"memory": text, "created_at": created, "updated_at": updated}
            )


def mem0_memory(record: Record, user_field: str | None) -> ForeignMemory:
    """Convert a record of mem0.

    Raises:
        ValueError: A field is missing or of the wrong type.
    """
    fields = record.checked()
    own = fields.get("metadata")
    metadata = {**own} if isinstance(own, Mapping) else {}
    metadata.update({name: value for name, value in fields.items() if name not in _TAKEN})
    categories = categories_of(fields)
    if not categories and isinstance(metadata.get("category"), str):  # as in mem0's documentation
        categories = [metadata.pop("category")]
    run = string_of(fields, "run_id")
    return ForeignMemory(
        id=record.memory_id(),
        text=text_of(fields, "data", "memory"),
        said=datetime_of(fields, "updated_at", "created_at"),
        user=user_of({**metadata, **fields}, user_field or "user_id"),
        scope=_scope(fields),
        categories=categories,
        source=FactSource(SourceKind.DOCUMENT, run or "mem0"),
        expires_at=_expiry(fields),
        metadata={name: value for name, value in metadata.items() if value is not None},
    )


def _scope(fields: Mapping[str, Any]) -> MemoryScope | None:
    if (agent := string_of(fields, "agent_id")) is not None:
        return MemoryScope.Agent(agent)
    if (app := string_of(fields, "app_id")) is not None:
        return MemoryScope.Product(app)
    return None


def _expiry(fields: Mapping[str, Any]) -> datetime | None:
    """Return when a memory expires: at the end of its last day, on which mem0 still shows it."""
    day = string_of(fields, "expiration_date")
    if day is None:
        return None
    try:
        last = datetime.fromisoformat(day)
    except ValueError:
        raise ValueError("its 'expiration_date' is not a date") from None
    try:
        end = last + timedelta(days=1)
        return end.astimezone(UTC) if end.tzinfo else end.replace(tzinfo=UTC)
    except OverflowError:  # 9999-12-31, which some applications write for "never"
        return None
