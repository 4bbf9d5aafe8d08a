"""Readers of the local files of vector stores. Files are opened only for reading.

Chroma stores rows in `chroma.sqlite3`. Qdrant's local mode stores pickled objects of its client in
`collection/<name>/storage.sqlite`. Loading a pickle can run any code, so these are read by an
unpickler that permits one class and calls no function.
"""

import io
import pickle
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

CHROMA = "chroma.sqlite3"
_DOCUMENT = "chroma:document"


class StoredPoint(NamedTuple):
    """A record of a vector store, without its vector."""

    id: str
    payload: dict[str, Any] | None
    """None if the record cannot be read."""
    collection: str


def rows_of(file: Path, query: str) -> list[tuple[Any, ...]]:
    """Run a query on an SQLite file, which is opened only for reading.

    Raises:
        ValueError: It is not an SQLite file, is damaged, or has no such table.
    """
    address = f"file:{quote(str(file.resolve()))}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True)) as database:
            return database.execute(query).fetchall()
    except sqlite3.Error as exc:
        raise ValueError(f"{str(file)!r} cannot be read: {exc}") from None


def tables_of(file: Path) -> set[str]:
    """Return the names of the tables of an SQLite file; empty for another file."""
    try:
        return {name for (name,) in rows_of(file, "SELECT name FROM sqlite_master")}
    except ValueError:
        return set()


def chroma_points(file: Path) -> Iterator[StoredPoint]:
    """Yield the records of all collections of a Chroma database, in the order they were written.

    The payload has the record's text as `document` and the time of its writing as `written`.
    """
    rows = rows_of(
        file,
        "SELECT e.id, e.embedding_id, e.created_at, c.name, m.key,"
        " coalesce(m.string_value, m.int_value, m.float_value), m.bool_value"
        " FROM embeddings e JOIN segments s ON s.id = e.segment_id"
        " JOIN collections c ON c.id = s.collection"
        " LEFT JOIN embedding_metadata m ON m.id = e.id"
        " ORDER BY e.id, m.key",
    )
    number: int | None = None
    point: StoredPoint | None = None
    payload: dict[str, Any] = {}
    for found, name, written, collection, key, value, flag in rows:
        if found != number:
            if point is not None:
                yield point
            payload = {"written": f"{written}+00:00"}  # SQLite's CURRENT_TIMESTAMP is in UTC
            number, point = found, StoredPoint(str(name), payload, str(collection))
        if key is not None:
            held = bool(flag) if value is None and flag is not None else value
            payload["document" if key == _DOCUMENT else key] = held
    if point is not None:
        yield point


def qdrant_files(folder: Path) -> list[Path]:
    """Return the databases of the collections in a folder of Qdrant's local mode."""
    return sorted(folder.glob("collection/*/storage.sqlite"))


def qdrant_points(file: Path) -> Iterator[StoredPoint]:
    """Yield the records of a collection of Qdrant's local mode, in the order they were written."""
    for position, (data,) in enumerate(rows_of(file, "SELECT point FROM points ORDER BY rowid")):
        try:
            point = _PointUnpickler(io.BytesIO(data)).load()
            fields = point.fields if isinstance(point, _Point) else {}
            found = StoredPoint(str(fields["id"]), dict(fields["payload"] or {}), file.parent.name)
        except Exception:  # noqa: BLE001 - a damaged pickle can raise any exception
            found = StoredPoint(f"number {position}", None, file.parent.name)
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
