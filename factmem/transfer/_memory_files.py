"""Readers of the files in which mem0 and CrewAI store memories. Files are opened only for reading.

    mem0    collection/<name>/storage.sqlite    Qdrant's local mode, the default
            chroma.sqlite3                      Chroma
            <name>.json                         FAISS, or a result of `get_all()`
            history.db                          texts and times, without users
    CrewAI  memories.lance                      LanceDB, the default since the unified memory
            short_term/**/chroma.sqlite3        Chroma, in older versions; also in entities
            long_term_memory_storage.db         SQLite, in older versions
            <name>.json                         records as JSON

`records_of` finds the files and yields their records as they are; `_memory_records` converts their
fields. Qdrant's points are pickles, and loading a pickle can run any code: an unpickler that
permits one class and calls no function reads them.
"""

import io
import json
import os
import pickle
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import quote

import orjson

from factmem._arguments import expect_path
from factmem.errors import MissingExtraError

Library: TypeAlias = Literal["mem0", "crewai"]

_FILES: dict[Library, tuple[str, ...]] = {
    "crewai": (
        "memories.lance",
        "long_term_memory_storage.db",
        *(f"{name}/**/chroma.sqlite3" for name in ("short_term", "entities", "entity")),
    ),
    "mem0": ("collection/*/storage.sqlite", "chroma.sqlite3", "*.faiss"),
}
"""The files of each library in its folder. A store may be both, so the more special one is first."""
_HISTORY = "history.db"
"""mem0's history, which is read if the vectors are on a server."""
_EXPECTED: dict[Library, str] = {
    "mem0": "pass the folder of its vector store, its history.db, or a JSON file with the result "
    "of get_all()",
    "crewai": "expected memories.lance, long_term_memory_storage.db, or folders short_term and "
    "entities. For another storage, pass a JSON file of [record.model_dump(mode='json') for record "
    "in memory.list_records(limit=...)]",
}
_TABLES: dict[str, Library] = {"long_term_memories": "crewai", "history": "mem0", "points": "mem0"}

_COLUMNS = [
    *("id", "content", "scope", "categories_str", "metadata_str", "importance", "created_at"),
    *("source", "private"),
]
"""The columns of CrewAI's table, without the vectors, which take most of the space."""
_BATCH = 10_000


class Record(NamedTuple):
    """A record of another library."""

    name: str
    """Its id, or its position in its file if it has none."""
    fields: Mapping[str, Any] | None
    """None if it cannot be read."""
    is_numbered: bool = False
    """Whether the name is only a position, and so not unique across files."""

    @property
    def id(self) -> str:
        """A unique id: the record's own, or a digest of its fields."""
        if not self.is_numbered:
            return self.name
        # Not orjson, which rejects wide integers and lone surrogates that other libraries store.
        fields = json.dumps(self.fields, default=str, sort_keys=True)
        return sha256(fields.encode()).hexdigest()[:32]


def library_of(path: str | os.PathLike[str]) -> Library | None:
    """Return the library that a folder or file of memories belongs to; None if it is unknown.

    Raises:
        ValueError: A JSON file is damaged.
        OSError: It cannot be read.
    """
    where = Path(expect_path(path, "path", "library_of('memory')"))
    if where.is_dir():
        return next((library for library in _FILES if _files_in(where, library)), None)
    if where.suffix != ".json":
        tables = _tables_of(where)
        return next((library for table, library in _TABLES.items() if table in tables), None)
    fields = next((record.fields or {} for record in _json_records(where)), {})
    if "content" in fields:
        return "crewai"
    return "mem0" if "memory" in fields else None


def records_of(path: Path, library: Library) -> list[Record]:
    """Return the records of a store or an export.

    Raises:
        ValueError: The path contains no memories of the library, or is damaged.
        MissingExtraError: It is a LanceDB table, and lancedb is not installed.
        OSError: It cannot be read.
    """
    if not path.exists():
        raise ValueError(f"{str(path)!r} does not exist")
    found = [_records_in(file, library) for file in _files_in(path, library)]
    if not found or None in found:
        raise ValueError(f"{str(path)!r} contains no memories of {library}: {_EXPECTED[library]}")
    records = [record for each in found for record in each or ()]
    # mem0 also stores a record for each entity, with the ids of the memories that mention it.
    return [each for each in records if "linked_memory_ids" not in (each.fields or {})]


def _files_in(path: Path, library: Library) -> list[Path]:
    """Return the files of a library in a folder, or one level below; or the path itself."""
    if not path.is_dir() or path.suffix == ".lance":  # a table of LanceDB is a folder
        return [path]
    folders = [path, *sorted(each for each in path.iterdir() if each.is_dir())]
    found = [
        file.with_suffix(".json") if file.suffix == ".faiss" else file
        for folder in folders
        for pattern in _FILES[library]
        for file in sorted(folder.glob(pattern))
        if folder.name != "mem0migrations"  # mem0's telemetry
    ]
    if not found and library == "mem0" and (path / _HISTORY).is_file():
        return [path / _HISTORY]
    return [*dict.fromkeys(file for file in found if file.exists())]


def _records_in(file: Path, library: Library) -> Iterable[Record] | None:
    """Return the records of a file; None if it has none of the tables that are known here."""
    if file.suffix in {".json", ".jsonl"}:
        return _json_records(file)
    if file.suffix == ".lance":
        return [*_lance_records(file)]
    tables = _tables_of(file)
    if "embedding_metadata" in tables:
        return [*_chroma_records(file, library)]
    if "points" in tables:
        return [*_qdrant_records(file)]
    if "history" in tables:
        return [*_history_records(file)]
    return [*_long_term_records(file)] if "long_term_memories" in tables else None


def _json_records(file: Path) -> list[Record]:
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


def _rows_of(file: Path, query: str) -> list[tuple[Any, ...]]:
    """Run a query on an SQLite file.

    Raises:
        ValueError: It is not an SQLite file, is damaged, or has no such table.
    """
    address = f"file:{quote(str(file.resolve()))}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True)) as database:
            return database.execute(query).fetchall()
    except sqlite3.Error as exc:
        raise ValueError(f"{str(file)!r} cannot be read: {exc}") from None


def _tables_of(file: Path) -> set[str]:
    """Return the names of the tables of an SQLite file; empty for another file."""
    try:
        return {name for (name,) in _rows_of(file, "SELECT name FROM sqlite_master")}
    except ValueError:
        return set()


def _chroma_records(file: Path, library: Library) -> Iterator[Record]:
    """Yield the records of all collections of a Chroma database, in the order they were written.

    mem0 stores a memory in the metadata of a record. CrewAI stores its text as the document.
    """
    rows = _rows_of(
        file,
        "SELECT e.id, e.embedding_id, e.created_at, c.name, m.key,"
        " coalesce(m.string_value, m.int_value, m.float_value), m.bool_value"
        " FROM embeddings e JOIN segments s ON s.id = e.segment_id"
        " JOIN collections c ON c.id = s.collection"
        " LEFT JOIN embedding_metadata m ON m.id = e.id"
        " ORDER BY e.id, m.key",
    )
    for (_, name, written, collection), cells in groupby(rows, key=lambda row: row[:4]):
        metadata = {
            key: bool(flag) if value is None and flag is not None else value
            for *_, key, value, flag in cells
            if key is not None
        }
        document = metadata.pop("chroma:document", None)
        if library == "mem0":
            yield Record(str(name), metadata)
            continue
        fields = {
            "content": document,
            "created_at": f"{written}+00:00",  # SQLite's CURRENT_TIMESTAMP is in UTC
            "categories": [str(collection)],
            "metadata": metadata,
        }
        yield Record(str(name), fields)


def _qdrant_records(file: Path) -> Iterator[Record]:
    """Yield the records of a collection of Qdrant's local mode, in the order they were written."""
    for number, (data,) in enumerate(_rows_of(file, "SELECT point FROM points ORDER BY rowid")):
        try:
            point = _PointUnpickler(io.BytesIO(data)).load()
            fields = point.fields if isinstance(point, _Point) else {}
            found = Record(str(fields["id"]), dict(fields["payload"] or {}))
        except Exception:  # noqa: BLE001 - a damaged pickle can raise any exception
            found = Record(f"number {number}", None)
        yield found


class _Point:
    """The fields of a pickled point. A substitute for the class of Qdrant's client."""

    fields: dict[str, Any]

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.fields = state.get("__dict__", state)


class _PointUnpickler(pickle.Unpickler):
    """An unpickler that permits only the class `PointStruct`.

    It rejects functions and other classes, so that loading calls nothing that the pickle names.
    """

    def find_class(self, module: str, name: str) -> Any:
        if name == "PointStruct" and module.startswith("qdrant_client."):
            return _Point
        raise pickle.UnpicklingError("A point contains an object of another class")


def _history_records(file: Path) -> Iterator[Record]:
    """Yield the latest version of each memory that mem0 has not deleted."""
    rows = _rows_of(
        file,
        "SELECT memory_id, new_memory, event, created_at, updated_at FROM history ORDER BY rowid",
    )
    for memory, text, event, created, updated in {row[0]: row for row in rows}.values():
        if event != "DELETE":
            fields = {"memory": text, "created_at": created, "updated_at": updated}
            yield Record(str(memory), fields)


def _long_term_records(file: Path) -> Iterator[Record]:
    """Yield the task notes of crews. Their time is a number of seconds since 1970."""
    query = "SELECT id, task_description, metadata, datetime, score FROM long_term_memories"
    for number, task, metadata, when, score in _rows_of(file, f"{query} ORDER BY id"):
        try:
            written = datetime.fromtimestamp(float(when), UTC).isoformat()
        except (TypeError, ValueError, OverflowError, OSError):
            written = str(when)
        fields = {
            "content": task,
            "created_at": written,
            "categories": ["long_term"],
            "metadata": {**_json(metadata, dict), "score": score},
        }
        yield Record(f"long-term-{number}", fields, is_numbered=True)


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


def _json(text: object, kind: type[Any]) -> Any:
    """Parse a JSON column; return an empty `kind` if it contains anything else."""
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        found = None
    return found if isinstance(found, kind) else kind()
