"""Display of reports and facts: tables for notebooks and `rich`, rows for data frames, escapes.

A class inherits `Displayed` and describes itself as a `Sheet`; HTML and rich's table are made from
that. Everything shown passes `shown`, because a value may contain markup or control characters.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, NamedTuple

_JOINERS = "\u200c\u200d"
"""Needed by Persian, Hindi and emoji, and harmless; all other invisible characters are escaped."""

_ASCII = re.compile(r"[ -~]*")
_ACTIVE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_MOST = 20
"""Items of a list that a cell shows."""
_CELL = 'style="text-align: left; white-space: pre-wrap" dir="auto"'


def is_active(character: str) -> bool:
    """Return whether a character is a control, direction or private-use character."""
    return unicodedata.category(character) in _ACTIVE and character not in _JOINERS


def shown(text: str) -> str:
    """Escape the control and direction characters of a string, in Python's notation."""
    if _ASCII.fullmatch(text):
        return text
    return "".join(
        each.encode("unicode_escape", "surrogatepass").decode() if is_active(each) else each
        for each in text
    )


class Sheet(NamedTuple):
    """A table: its title, the names of its columns, its rows."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[object, ...]]


class Displayed:
    """Mixin for objects that notebooks and `rich` display as a table of the fields in `repr`.

    Strings are escaped: markup in a value is shown as text. `_sheet` may be overridden.
    """

    __slots__ = ()

    def _sheet(self) -> Sheet:
        report: Any = self
        named = ((each.name, getattr(report, each.name)) for each in fields(report) if each.repr)
        return Sheet(type(self).__name__, ("field", "value"), [*named])

    def _repr_html_(self) -> str:
        sheet = self._sheet()
        lines = [f"<table><caption>{_html(sheet.title)}</caption>", "<thead>"]
        lines.append(f"<tr>{''.join(f'<th>{_html(each)}</th>' for each in sheet.columns)}</tr>")
        lines.append("</thead><tbody>")
        for row in sheet.rows:
            cells = (f"<td {_CELL}>{_html(words(each))}</td>" for each in row)
            lines.append(f"<tr>{''.join(cells)}</tr>")
        return "\n".join([*lines, "</tbody></table>"])

    def __rich__(self) -> object:
        """Return the table as a renderable; `rich` calls this."""
        from rich.table import Table
        from rich.text import Text

        sheet = self._sheet()
        table = Table(*sheet.columns, title=Text(shown(sheet.title)), title_justify="left")
        for row in sheet.rows:
            table.add_row(*(Text(_lines(words(each))) for each in row))
        return table


def _lines(text: str) -> str:
    return "\n".join(map(shown, text.split("\n")))


def _html(text: str) -> str:
    from html import escape  # a seventh of the import time, and only notebooks need it

    return escape(_lines(text))


def words(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%MZ")
    if isinstance(value, list | tuple | set | frozenset):
        items = [words(each) for each in [*value][:_MOST]]
        more = len(value) - len(items)
        return "\n".join([*items, f"and {more:,} more"] if more > 0 else items)
    if isinstance(value, Mapping):
        return json.dumps(dict(value), ensure_ascii=False, default=str) if value else ""
    return _fact_words(value) or str(value)


def _fact_words(value: Any) -> str:
    """Return keyword, values and place of a fact or of an object with a `fact`; else empty."""
    fact = getattr(value, "fact", value)
    if not (hasattr(fact, "concept") and hasattr(fact, "values")):
        return ""
    said = f"{fact.concept.keyword}: {', '.join(words(each) for each in fact.values)}"
    return f"{said}, in {value.place}" if hasattr(value, "place") else said


CELLS = (
    "keyword", "value", "said", "confirmed", "expires", "since", "until", "importance", "source",
    "conversation", "quote", "state", "actor", "reason", "id",
)  # fmt: skip
"""The columns of a fact."""


def fact_cells(fact: Any, position: int | None = None) -> dict[str, Any]:
    """Return the fields of a fact as columns, with the value at `position` or with all values."""
    source = fact.source
    return {
        "keyword": fact.concept.keyword,
        "value": fact.values if position is None else fact.values[position],
        "said": fact.timestamp,
        "confirmed": fact.confirmed_at,
        "expires": fact.expires_at,
        "since": None if fact.since is None else fact.since.text,
        "until": None if fact.until is None else fact.until.text,
        "importance": fact.importance,
        "source": None if source is None else source.kind.value,
        "conversation": None if source is None else source.conversation,
        "quote": None if source is None else source.quote,
        "state": fact.state.value,
        "actor": fact.actor,
        "reason": fact.reason,
        "id": fact.id,
    }


def fact_text(fact: Any) -> str:
    about = fact.concept.description or fact.concept.keyword
    return f"{about}: {', '.join(map(words, fact.values))}"


def summary(fact: Any) -> str:
    """Return type, keyword, values and day of a fact in under 100 characters, for cells."""
    said = ", ".join(
        repr(each[:40] if isinstance(each, str) else each) for each in fact.values[:_MOST]
    )
    keyword, day = _cut(fact.concept.keyword, 28), fact.timestamp.date().isoformat()
    return f"<{type(fact).__name__} {keyword}: {_cut(said, 38)} ({day})>"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."


def one_kind(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Convert the values of all rows to one type, as the columns of data frames require.

    Values that are all strings, all numbers or all booleans stay; otherwise each becomes JSON.
    """
    found = [*rows]
    kinds = {type(row["value"]) for row in found if row["value"] is not None}
    if kinds <= {str} or kinds <= {bool} or kinds <= {int, float}:
        if kinds == {int, float}:
            return [{**row, "value": _float(row["value"])} for row in found]
        return found
    return [{**row, "value": _json(row["value"])} for row in found]


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)


def _json(value: object) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, default=str)
