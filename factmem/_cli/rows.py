"""Rows of CSV and JSON Lines as facts.

`csv_rows` and `json_rows` read the lines, and `records_in` the records of other libraries.
`RowReader` finds the place and the concept of each row and parses its value as the kind of that
concept. The id of a fact is a hash of its row, so that a second import recognises it.
"""

import csv
import json
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from factmem._cli.exits import CommandError
from factmem._cli.opening import Store
from factmem._cli.options import Options
from factmem._cli.place_names import parse_place
from factmem._cli.targets import held_anywhere, held_in, target_of
from factmem._cli.value_kinds import Kind, Target, kind_of
from factmem.ledger.resolution import PlacedFact
from factmem.models.facts import AnyFact, FactType, MultipleFacts, SingleFact
from factmem.models.places import Place
from factmem.models.sources import FactSource, SourceKind
from factmem.transfer._lines import lines_of, parsed_json
from factmem.transfer.reports import ImportProblem

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
    "since",
    "until",
)
"""The columns of a row; `keyword` and `value` are required."""
_MOST_ROWS = 1_000_000
"""All rows are in memory until they are checked, with 1 to 2 KB for each."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a file: its number and its columns."""

    line: int
    columns: Mapping[str, Any]
    is_typed: bool
    """Whether the value is JSON already; otherwise it is a string to parse."""


def csv_rows(path: str) -> Iterator[Row]:
    """Yield the rows of a CSV file; the first line has the names of the columns."""
    with open(path, "rb") as file:
        reader = csv.DictReader((line.decode("utf-8-sig") for line in lines_of(file)), strict=True)
        try:
            for columns in reader:
                if None in columns or None in columns.values():
                    raise CommandError(f"Line {reader.line_num} must have one cell for each column")
                given = {name: cell for name, cell in columns.items() if cell or name == "value"}
                yield Row(reader.line_num, given, is_typed=False)
        except csv.Error as exc:
            raise CommandError(f"Line {reader.line_num} is not CSV ({exc})") from None
        except UnicodeDecodeError:
            raise CommandError(f"Line {reader.line_num + 1} is not UTF-8") from None


def json_rows(path: str) -> Iterator[Row]:
    """Yield the rows of a JSON Lines file, which has an object on each line."""
    for number, columns in _json_lines(path):
        if isinstance(columns, ValueError):
            raise CommandError(f"Line {number} {columns}")
        if not isinstance(columns, dict):
            raise CommandError(f"Line {number} must be a JSON object")
        yield Row(number, columns, is_typed=True)


def records_in(path: str) -> Iterator[Mapping[str, Any] | ImportProblem]:
    """Yield the records of JSON Lines or of a JSON list, and a problem for each that is no object."""
    for number, items in _json_lines(path):
        for item in items if isinstance(items, list) else [items]:
            reason = str(item) if isinstance(item, ValueError) else "is not a JSON object"
            yield item if isinstance(item, dict) else ImportProblem(f"line {number}", reason)


def _json_lines(path: str) -> Iterator[tuple[int, Any]]:
    """Yield the number and the value of each line, or a `ValueError` for one that is not JSON."""
    with open(path, "rb") as file:
        for number, line in enumerate(lines_of(file), 1):
            try:
                if line.strip():
                    yield number, parsed_json(line.removeprefix(BOM_UTF8))
            except ValueError as exc:
                yield number, exc


class RowReader:
    """Converts rows to facts, and checks them against the facts of the store. Writes nothing.

    Args:
        store: The store that the rows are for.
        options: The options before the command.
        place: The place of rows without a column `place`.
    """

    def __init__(self, store: Store, options: Options, place: Place | None) -> None:
        self._store = store
        self._options = options
        self._place = place
        self._now = datetime.now(UTC)
        self._held: dict[Place, dict[str, list[AnyFact]]] = {}
        self._targets: dict[tuple[Any, ...], Target] = {}
        self._places: dict[str, Place] = {}
        self._kinds: dict[str, Kind] = {}
        """The kinds of new keywords, each that of its first row."""
        self._elsewhere: dict[str, list[AnyFact]] | None = None

    async def facts(self, rows: Iterable[Row]) -> list[PlacedFact[Any]]:
        """Return the fact of each row, in the order of the file.

        Raises:
            CommandError: A row is invalid; the message contains its line number and no value.
        """
        found: list[PlacedFact[Any]] = []
        for row in rows:
            if len(found) == _MOST_ROWS:
                raise CommandError(f"An import has at most {_MOST_ROWS:,} rows: split the file")
            try:
                _check_columns(row.columns)
                place = self._place_of(row.columns)
                target = await self._target(row, place)
                found.append(PlacedFact(place, self._fact(row, target, place)))
            except (CommandError, ValueError, TypeError) as exc:
                raise CommandError(f"Line {row.line}: {exc}; nothing was imported") from None
        return found

    def _fact(self, row: Row, target: Target, place: Place) -> AnyFact:
        columns = row.columns
        fields: dict[str, Any] = {
            "timestamp": _time(columns, "timestamp") or self._now,
            "expires_at": _time(columns, "expires_at"),
            "since": _period(columns, "since"),
            "until": _period(columns, "until"),
            "source": FactSource(SourceKind.DOCUMENT),
            "id": _row_id(place, columns),
        }
        if columns.get("importance") is not None:
            fields["importance"] = float(columns["importance"])
        value = columns["value"]
        value = target.json_value(value) if row.is_typed else target.value(value)
        if target.concept.fact_type is FactType.SINGLE:
            return SingleFact(target.concept, value, **fields)
        return MultipleFacts(target.concept, [value], **fields)

    def _place_of(self, columns: Mapping[str, Any]) -> Place:
        if (word := columns.get("place")) is None:
            if self._place is None:
                raise CommandError("the row has no place: add a column 'place', or pass --place")
            return self._place
        name = str(word)
        if name not in self._places:
            self._places[name] = parse_place(name)
        return self._places[name]

    async def _target(self, row: Row, place: Place) -> Target:
        """Return the concept of a row and its kinds; cached, as a file has many rows of each."""
        columns = row.columns
        keyword = str(columns["keyword"])
        if place not in self._held:
            self._held[place] = await held_in(self._store, place)
        if self._elsewhere is None:  # read only once: a file may have thousands of new keywords
            self._elsewhere = await held_anywhere(self._store)
        held = self._held[place].get(keyword, [])
        # In a place without the keyword, the columns and other places decide what it is.
        said = (place if held else None, keyword, *map(columns.get, _TARGET))
        if said in self._targets:
            return self._targets[said]
        kind = Kind(columns["type"]) if "type" in columns else None
        began = self._kinds.get(keyword, kind)
        if not held and kind not in (None, began):
            raise CommandError(f"{keyword!r} has {began} values, not {kind}")
        if began is None and row.is_typed:
            began = kind_of(columns["value"])
        known = held or self._elsewhere.get(keyword, [])
        target = self._targets[said] = target_of(
            self._options,
            keyword,
            known,
            kind=kind if known else began,
            description=columns.get("description"),
            multiple=columns.get("fact_type") == FactType.MULTIPLE,
        )
        if len(target.held) == 1:
            self._kinds.setdefault(keyword, min(target.held))
        return target


_NAMES = frozenset(COLUMNS)
_NEEDED = frozenset({"keyword", "value"})
_TARGET = ("type", "description", "fact_type")
"""The columns that say what a new keyword is."""


def _check_columns(columns: Mapping[str, Any]) -> None:
    if unknown := columns.keys() - _NAMES:
        raise CommandError(f"unknown column {min(unknown)!r}: the columns are {', '.join(COLUMNS)}")
    if missing := _NEEDED - columns.keys():
        raise CommandError(f"the column {min(missing)!r} is missing")


def _time(columns: Mapping[str, Any], name: str) -> datetime | None:
    if columns.get(name) is None:
        return None
    try:
        when = datetime.fromisoformat(str(columns[name]))
    except ValueError:
        raise CommandError(f"{name} must be a time: 2026-03-01T12:00:00Z") from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def _period(columns: Mapping[str, Any], name: str) -> str | None:
    return None if columns.get(name) is None else str(columns[name])


def _row_id(place: Place, columns: Mapping[str, Any]) -> str:
    """Return an id that is a hash of the row, with which a second import recognises it."""
    said = [place.identity, {name: columns[name] for name in sorted(columns) if name != "place"}]
    return f"row-{sha256(json.dumps(said).encode()).hexdigest()[:32]}"
