"""Rows of CSV and JSON Lines as ledger entries, with ids that make an import idempotent."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import orjson

from factmem.cli.exits import CommandError
from factmem.cli.opening import Store
from factmem.cli.options import Options
from factmem.cli.place_names import parse_place, place_name
from factmem.cli.targets import Target, held_anywhere, held_in, target_of
from factmem.cli.value_kinds import Kind, kind_of
from factmem.ledger.entries import Entry, StoredFact, stamp, stored
from factmem.models.facts import AnyFact, FactType, MultipleFacts, SingleFact
from factmem.models.names import is_text
from factmem.models.places import Place
from factmem.models.sources import FactSource, SourceKind

__all__ = ["Row", "RowReader", "csv_rows", "json_rows"]

COLUMNS = (
    "place",
    "keyword",
    "value",
    "type",
    "fact_type",
    "description",
    "timestamp",
    "importance",
    "expires_at",
)
"""The columns of a row; `keyword` and `value` are required."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a file: its number and its columns."""

    line: int
    columns: Mapping[str, Any]
    is_typed: bool
    """Whether the value is JSON already; otherwise it is a string to parse."""


def csv_rows(path: str) -> Iterator[Row]:
    """Yield the rows of a CSV file; the first line has the names of the columns."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file, strict=True)
        try:
            for columns in reader:
                if None in columns or None in columns.values():
                    raise CommandError(f"Line {reader.line_num} must have one cell for each column")
                given = {name: cell for name, cell in columns.items() if cell or name == "value"}
                yield Row(reader.line_num, given, is_typed=False)
        except csv.Error as exc:
            raise CommandError(f"Line {reader.line_num} is not CSV ({exc})") from None


def json_rows(path: str) -> Iterator[Row]:
    """Yield the rows of a JSON Lines file, which has an object on each line."""
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                columns = json.loads(line)
            except (ValueError, RecursionError):
                raise CommandError(f"Line {number} is not JSON") from None
            if not isinstance(columns, dict):
                raise CommandError(f"Line {number} must be a JSON object")
            yield Row(number, columns, is_typed=True)


class RowReader:
    """Converts rows to entries, and checks them against the facts of the store. Writes nothing.

    Args:
        store: The store that the rows are for.
        options: The options before the command.
        place: The place of rows without a column `place`.
        kind: The JSON type of new keywords.
    """

    def __init__(
        self, store: Store, options: Options, place: Place | None, kind: Kind | None
    ) -> None:
        self._store = store
        self._options = options
        self._kind = kind
        self._now = datetime.now(UTC)
        self._held: dict[str, dict[str, list[AnyFact]]] = {}
        self._targets: dict[tuple[str, str], Target] = {}
        self._new_targets: dict[tuple[Any, ...], Target] = {}
        self._places: dict[str | None, tuple[Place, str]] = {}
        if place is not None:
            self._places[None] = place, place_name(place)
        self._kinds: dict[str, Kind] = {}
        self._stamps: dict[str | None, str] = {}
        self._elsewhere: dict[str, list[AnyFact]] | None = None

    async def entries(self, rows: Iterable[Row]) -> dict[Place, list[Entry]]:
        """Return an entry for each row, by place, in the order of the file.

        Raises:
            CommandError: A row is invalid; the message contains its line number and no value.
        """
        found: dict[str, tuple[Place, dict[str, Entry]]] = {}
        now = stamp(self._now)
        for row in rows:
            try:
                _check_columns(row.columns)
                place, name = self._place_of(row.columns)
                target = self._known_target(row.columns, name)
                if target is None:
                    target = await self._target(row, place, name)
                row_id = _row_id(place, row.columns)
                fact = self._plain_fact(row, target, row_id) or self._fact(row, target, row_id)
            except (CommandError, ValueError, TypeError) as exc:
                raise CommandError(f"Line {row.line}: {exc}; nothing was imported") from None
            _, entries = found.setdefault(name, (place, {}))
            if row_id not in entries:
                entries[row_id] = {"at": now, "facts": [fact]}
        return {place: [*entries.values()] for place, entries in found.values()}

    def _plain_fact(self, row: Row, target: Target, row_id: str) -> StoredFact | None:
        """Return the result of `_fact` for a string or a boolean, in a quarter of the time.

        None for any other row.
        """
        columns = row.columns
        if target.is_own or not columns.keys() <= _PLAIN:
            return None
        value = self._value(row, target)
        if type(value) is not bool and not (type(value) is str and is_text(value)):
            return None
        concept = target.concept
        fact: StoredFact = {
            "id": row_id,
            "keyword": concept.keyword,
            "description": concept.description,
            "type": "SINGLE" if concept.fact_type is FactType.SINGLE else "MULTIPLE",
            "timestamp": self._stamp(columns),
            "source": {"kind": _SOURCE.kind.value},
        }
        if fact["type"] == "SINGLE":
            fact["value"] = value
        else:
            fact["values"] = [value]
        return fact

    def _stamp(self, columns: Mapping[str, Any]) -> str:
        """Return the time of a row; cached, because many rows have the same time."""
        said = columns.get("timestamp")
        text = None if said is None else str(said)
        if text not in self._stamps:
            self._stamps[text] = stamp(self._fields(columns)["timestamp"])
        return self._stamps[text]

    def _value(self, row: Row, target: Target) -> Any:
        value = row.columns["value"]
        return target.json_value(value) if row.is_typed else target.value(value)

    def _fact(self, row: Row, target: Target, row_id: str) -> StoredFact:
        fields: dict[str, Any] = {**self._fields(row.columns), "id": row_id}
        value = self._value(row, target)
        if target.concept.fact_type is FactType.SINGLE:
            return stored(SingleFact(target.concept, value, **fields))
        return stored(MultipleFacts(target.concept, [value], **fields))

    def _place_of(self, columns: Mapping[str, Any]) -> tuple[Place, str]:
        word = columns.get("place")
        if word not in self._places:
            if word is None:
                raise CommandError("the row has no place: add a column 'place', or pass --place")
            place = parse_place(str(word))
            self._places[word] = place, place_name(place)
        return self._places[word]

    def _known_target(self, columns: Mapping[str, Any], name: str) -> Target | None:
        """Return the target of a keyword if an earlier row of the place had the keyword."""
        return self._targets.get((name, str(columns["keyword"])))

    async def _target(self, row: Row, place: Place, name: str) -> Target:
        columns = row.columns
        keyword = str(columns["keyword"])
        if name not in self._held:
            self._held[name] = await held_in(self._store, place)
        if self._elsewhere is None:  # read only once: a file may have thousands of new keywords
            self._elsewhere = await held_anywhere(self._store)
        held = self._held[name].get(keyword, [])
        # In a place without the keyword, the columns and other places decide what it is.
        said = (keyword, *map(columns.get, ("type", "description", "fact_type")))
        if not held and said in self._new_targets:
            return self._new_targets[said]
        kind = Kind(columns["type"]) if "type" in columns else self._kind
        began = self._kinds.get(keyword, kind)
        if not held and kind is not began:
            raise CommandError(f"{keyword!r} has {began} values, not {kind}")
        target = await target_of(
            self._store,
            self._options,
            keyword,
            held,
            elsewhere=self._elsewhere,
            kind=kind,
            kind_if_new=self._kind_if_new(row, keyword),
            description=columns.get("description"),
            multiple=columns.get("fact_type") == FactType.MULTIPLE,
        )
        if held:
            self._targets[name, keyword] = target
        else:
            self._new_targets[said] = target
        if len(target.held) == 1:
            self._kinds.setdefault(keyword, min(target.held))
        return target

    def _kind_if_new(self, row: Row, keyword: str) -> Kind | None:
        """Return the kind of a keyword that is not in the store: that of its first row."""
        if keyword in self._kinds:
            return self._kinds[keyword]
        return kind_of(row.columns["value"]) if row.is_typed else None

    def _fields(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        fields: dict[str, Any] = {"timestamp": self._now, "source": _SOURCE}
        for name in ("timestamp", "expires_at"):
            if columns.get(name) is not None:
                try:
                    when = datetime.fromisoformat(str(columns[name]))
                except ValueError:
                    raise CommandError(f"{name} must be a time: 2026-03-01T12:00:00Z") from None
                fields[name] = when if when.tzinfo else when.replace(tzinfo=UTC)
        if columns.get("importance") is not None:
            fields["importance"] = float(columns["importance"])
        return fields


_NAMES = frozenset(COLUMNS)
_PLAIN = _NAMES - {"importance", "expires_at"}
_SOURCE = FactSource(SourceKind.DOCUMENT)
_NEEDED = frozenset({"keyword", "value"})


def _check_columns(columns: Mapping[str, Any]) -> None:
    if unknown := columns.keys() - _NAMES:
        raise CommandError(f"unknown column {min(unknown)!r}: the columns are {', '.join(COLUMNS)}")
    if missing := _NEEDED - columns.keys():
        raise CommandError(f"the column {min(missing)!r} is missing")


def _row_id(place: Place, columns: Mapping[str, Any]) -> str:
    """Return an id that is a hash of the row, with which a second import recognises it."""
    said = [place.identity, {name: columns[name] for name in sorted(columns) if name != "place"}]
    try:
        plain = orjson.dumps(said)
    except TypeError:  # a whole number of more than 64 bits
        plain = json.dumps(said).encode()
    return f"row-{sha256(plain).hexdigest()[:32]}"
