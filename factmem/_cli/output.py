"""Output of commands: JSON, tables, and lines without characters that control a terminal."""

import json
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from factmem.models._display import is_active, shown

__all__ = [
    "counted",
    "is_terminal",
    "print_error",
    "print_json",
    "print_line",
    "print_table",
    "shown",
    "time",
]

_ASCII = re.compile(r"[ -~]*")
_UNLIMITED = 100_000


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: 1 place, 2 places, 3 entries."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def is_terminal() -> bool:
    """Return whether the output goes to a terminal."""
    return sys.stdout.isatty()


def time(when: datetime | None) -> str:
    """Return a time for tables, in UTC; empty for None."""
    return "" if when is None else when.strftime("%Y-%m-%d %H:%MZ")


def print_json(data: object) -> None:
    """Print a JSON document. Characters that control a terminal are written as JSON escapes."""
    text = json.dumps(data, ensure_ascii=False, indent=2)
    if not _ASCII.fullmatch(text):
        text = "".join(
            json.dumps(each)[1:-1] if each != "\n" and is_active(each) else each for each in text
        )
    sys.stdout.write(f"{text}\n")


def print_line(text: str) -> None:
    """Print a line; characters that control a terminal are escaped."""
    sys.stdout.write(f"{shown(text)}\n")


def print_error(text: str) -> None:
    """Print a line on stderr; characters that control a terminal are escaped."""
    sys.stderr.write(f"{shown(text)}\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table, as wide as the terminal; without a terminal its width is not limited.

    Cells are never parsed as markup. Numbers are right-aligned.
    """
    cells = [tuple(row) for row in rows]
    table = Table(box=None, pad_edge=False, header_style="bold" if is_terminal() else "")
    for index, column in enumerate(columns):
        is_number = bool(cells) and all(isinstance(row[index], int) for row in cells)
        table.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(f"{c:,}" if isinstance(c, int) else shown(str(c))) for c in row))
    if is_terminal():
        Console(highlight=False, emoji=False, markup=False).print(table)
        return
    console = Console(
        width=_UNLIMITED, color_system=None, highlight=False, emoji=False, markup=False
    )
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        sys.stdout.write(f"{line.rstrip()}\n")
