"""Readers of the memory files and exports of CrewAI. Files are opened only for reading.

memories.lance                              LanceDB, the default since the unified memory
short_term/**/chroma.sqlite3, entities/**   Chroma, in older versions
long_term_memory_storage.db                 SQLite, in older versions
<file>.json                                 records as JSON
"""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from factmem.errors import MissingExtraError
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
from factmem.transfer._vector_files import CHROMA, chroma_points, rows_of, tables_of

_LANCE = "memories.lance"
_LONG_TERM = "long_term_memory_storage.db"
_COLUMNS = [
    *("id", "content", "scope", "categories_str", "metadata_str", "importance", "created_at"),
    *("source", "private"),
]
"""The columns of CrewAI's table, without the vectors, which take most of the space."""
_BATCH = 10_000


def is_crewai(path: Path) -> bool:
    """Whether a path looks like a store of CrewAI, or an export of its records."""
    if path.is_dir():
        return bool(_stores(path))
    if path.suffix == ".json":
        return has_field(path, "content")
    return "long_term_memories" in tables_of(path)


def crewai_records(path: Path) -> list[Record]:
    """Return the records of a store or an export.

    Raises:
        ValueError: The path contains no memories of CrewAI, or is damaged.
        MissingExtraError: It is a LanceDB table, and lancedb is not installed.
        OSError: It cannot be read.
    """
    stores = files_of(path, _stores)
    if not stores:
        raise ValueError(
            f"{str(path)!r} contains no memories of CrewAI: expected {_LANCE}, {_LONG_TERM}, or "
            f"folders short_term and entities. For another storage, pass a JSON file of "
            f"[record.model_dump(mode='json') for record in memory.list_records(limit=...)]"
        )
    return [record for store in stores for record in _records_in(store)]


def _stores(folder: Path) -> list[Path]:
    """Return the stores in a folder, or one level below."""
    if folder.name == _LANCE:
        return [folder]
    found = [
        each / name
        for each in folders_of(folder)
        for name in (_LANCE, _LONG_TERM)
        if (each / name).exists()
    ]
    for name in ("short_term", "entities", "entity"):
        if (folder / name).is_dir():
            found += sorted((folder / name).rglob(CHROMA))
    return found


def _records_in(store: Path) -> Iterator[Record]:
    if store.name == _LANCE:
        yield from _lance_records(store)
    elif store.name == CHROMA:
        yield from _chroma_records(store)
    elif store.suffix in {".json", ".jsonl"}:
        yield from json_records(store)
    else:
        yield from _long_term_records(store)


def _lance_records(store: Path) -> Iterator[Record]:
    try:
        import lancedb  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError:
        raise MissingExtraError(
            "CrewAI stores its memories in LanceDB, and reading them needs the package lancedb: "
            "pip install 'factmem[lancedb]', or import where CrewAI is installed"
        ) from None
    table = lancedb.connect(str(store.parent)).open_table(store.stem)
    columns = [name for name in _COLUMNS if name in table.schema.names]
    for start in range(0, table.count_rows(), _BATCH):
        rows = table.search().select(columns).limit(_BATCH).offset(start).to_list()
        for row in rows:
            row["categories"] = _json(row.pop("categories_str", None), list)
            row["metadata"] = _json(row.pop("metadata_str", None), dict)
            yield Record(str(row.pop("id")), row)


def _chroma_records(file: Path) -> Iterator[Record]:
    for point in chroma_points(file):
        payload = {**(point.payload or {})}
        text, written = payload.pop("document", None), payload.pop("written", None)
        yield Record(
            point.id,
            {
                "content": text,
                "created_at": written,
                "categories": [point.collection],
                "metadata": payload,
            },
        )


def _long_term_records(file: Path) -> Iterator[Record]:
    """Yield the task notes of crews. Their time is a number of seconds since 1970."""
    query = "SELECT id, task_description, metadata, datetime, score FROM long_term_memories"
    for number, task, metadata, when, score in rows_of(file, f"{query} ORDER BY id"):
        yield Record(
            f"long-term-{number}",
            {
                "content": task,
                "created_at": _moment(when),
                "categories": ["long_term"],
                "metadata": {**_json(metadata, dict), "score": score},
            },
            is_numbered=True,
        )


def _moment(when: object) -> str:
    try:
        return datetime.fromtimestamp(float(str(when)), UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return str(when)


def _json(text: object, kind: type[Any]) -> Any:
    """Parse a JSON column; return an empty `kind` if it contains anything else."""
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        found = None
    return found if isinstance(found, kind) else kind()


def crewai_memory(record: Record, user_field: str | None) -> ForeignMemory:
    """Convert a record of CrewAI.

    Raises:
        ValueError: A field is missing or of the wrong type.
    """
    fields = record.checked()
    own = fields.get("metadata")
    metadata = {**own} if isinstance(own, Mapping) else {}
    for name in ("scope", "source"):
        if (value := string_of(fields, name)) is not None and value != "/":
            metadata.setdefault(name, value)
    if fields.get("private"):
        metadata.setdefault("private", True)
    given = fields.get("importance")
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    return ForeignMemory(
        id=record.memory_id(),
        text=text_of(fields, "content"),
        said=datetime_of(fields, "created_at"),
        user=_user(fields, metadata, user_field),
        categories=categories_of(fields),
        source=FactSource(SourceKind.DOCUMENT, "crewai"),
        importance=float(min(max(given, 0), 1)) if given is not None and is_number else 0.5,
        metadata={name: value for name, value in metadata.items() if value is not None},
    )


def _user(
    fields: Mapping[str, Any], metadata: Mapping[str, Any], user_field: str | None
) -> str | None:
    """Return the user in a field. For the scope, which is a path, this is its last part."""
    if user_field is None:
        return None
    user = user_of({**metadata, **fields}, user_field)
    if user_field == "scope" and user is not None:
        return user.strip("/").rpartition("/")[2] or None
    return user
