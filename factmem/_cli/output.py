"""Output of commands: JSON, tables, lines without characters that control a terminal; exit codes.

A terminal gets tables, in which the value has at least half of the width, and relative times. A
file or a pipe gets one line for each row, without padding: cells separated by tabs, and the value
first.
"""

import json
import re
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, NamedTuple

import typer

from factmem._concurrency import refusal
from factmem.errors import (
    ChangedError,
    CorruptJournalError,
    DecryptionError,
    FactmemError,
    InputError,
    KeyRequiredError,
    StoreBusyError,
    TamperedError,
)
from factmem.models._display import is_active, shown


class ExitCode(IntEnum):
    """The exit codes of the command. Code 2 is also that of an invalid option."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOTHING = 3
    DAMAGED = 4
    KEY = 5
    REFUSED = 6
    BUSY = 7
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class CommandError(Exception):
    """Ends a command with a message and an exit code."""

    def __init__(self, message: str, code: ExitCode = ExitCode.USAGE) -> None:
        super().__init__(message)
        self.code = code


def code_of(exc: Exception) -> ExitCode:
    """Return the exit code of an error that a command raised."""
    if isinstance(exc, CommandError):
        return exc.code
    if isinstance(exc, TamperedError | CorruptJournalError):
        return ExitCode.DAMAGED
    if isinstance(exc, DecryptionError):
        return ExitCode.KEY
    if isinstance(exc, StoreBusyError):
        return ExitCode.BUSY
    # A ValueError of Python is one of a wrong argument, too.
    is_argument = isinstance(exc, InputError | ChangedError) or not isinstance(exc, FactmemError)
    is_argument = is_argument and isinstance(exc, ValueError | InputError)
    return ExitCode.USAGE if is_argument else ExitCode.FAILED


def message_of(exc: Exception) -> str:
    """Return the message to print for an error."""
    if isinstance(exc, KeyRequiredError):
        return (
            "The store is encrypted: pass --key-env, --key-file, --passphrase or --keyring before "
            "the command"
        )
    if isinstance(exc, FactmemError | ValueError | CommandError):
        return str(exc)
    if isinstance(exc, FileNotFoundError) and not exc.filename:  # of `os.getcwd`
        return "The current folder was removed: change into another one, or pass absolute paths"
    if isinstance(exc, OSError):
        reason = refusal(exc) if exc.strerror else str(exc) or type(exc).__name__
        return f"{reason}: {exc.filename}" if exc.filename else reason
    return f"{type(exc).__name__}: {exc}"


def time_words(when: datetime | None) -> str:
    """Return a time in UTC; empty for None."""
    return "" if when is None else when.strftime("%Y-%m-%d %H:%MZ")


def ago(when: datetime | None) -> str:
    """Return a time relative to now if it is less than 30 days away, otherwise its day."""
    if when is None:
        return ""
    seconds = (datetime.now(UTC) - when).total_seconds()
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if size <= abs(seconds) < 30 * 86_400:
            count = f"{int(abs(seconds) // size)} {unit}"
            return f"{count} ago" if seconds > 0 else f"in {count}"
    return "now" if abs(seconds) < 60 else when.strftime("%Y-%m-%d")


_ASCII = re.compile(r"[ -~]*")
_MOST = 200
"""The most characters of a line in a file or a pipe."""
_NARROW = 60
"""Columns of a terminal in which only two cells fit beside the value."""
_LEAST_VALUE = 40
_END = 6
"""The characters of an id that a terminal shows: `undo` takes its end."""
_COLOURS = {
    "added": "green",
    "confirmed": "green",
    "saved": "green",
    "planned": "green",
    "replaced": "green",
    "new": "cyan",
    "undone": "cyan",
    "proposed": "yellow",
    "doubtful": "yellow",
    "superseded": "dim",
    "contradiction": "red",
    "ended": "red",
    "forgotten": "red",
    "rejected": "red",
    "removed": "red",
}
"""The colours of states and changes; the variable NO_COLOR switches them off."""


class Table(NamedTuple):
    """Rows, whose first cell is the most important one."""

    columns: Sequence[str]
    rows: Iterable[Sequence[Any]]


class Cut(str):
    """A line that is cut at the usual length in a file or a pipe."""

    __slots__ = ()


class Problem(str):
    """A line on stderr."""

    __slots__ = ()


class Answer:
    """What a command prints: a record as JSON, or parts for people.

    A record is a mapping, or the objects of a list.
    """

    def __init__(
        self, record: Iterable[Any], *parts: str | Table, code: ExitCode = ExitCode.OK
    ) -> None:
        self._record, self._parts, self._code = record, parts, code

    def show(self, *, as_json: bool, is_last: bool = True) -> None:
        """Print it; what is not the last answer of a command ends nothing."""
        if as_json:
            print_json(self._record if isinstance(self._record, dict) else [*self._record])
        else:
            for part in self._parts:
                if isinstance(part, Table):
                    print_table(*part)
                elif isinstance(part, Problem):
                    print_error(part)
                else:
                    print_line(part)
        sys.stdout.flush()
        if self._code and is_last:
            raise typer.Exit(self._code)


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: 1 place, 2 places, 3 entries."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def is_terminal() -> bool:
    """Return whether the output goes to a terminal."""
    return sys.stdout.isatty()


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
    line = shown(text)
    sys.stdout.write(
        f"{_cut(line, _MOST) if isinstance(text, Cut) and not is_terminal() else line}\n"
    )


def print_error(text: str) -> None:
    """Print a line on stderr; characters that control a terminal are escaped."""
    sys.stderr.write(f"{shown(text)}\n")


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, headed: bool = True
) -> None:
    """Print rows, whose first cell is the most important one; cells are never parsed as markup.

    Rows without a head continue those that were printed before, so no empty column is left out.
    """
    if is_terminal():
        _print_for_people(columns, [*rows], headed=headed)
        return
    for row in rows:
        first, *others = (_words(cell, time_words) for cell in row)
        rest = "\t".join(others).rstrip("\t")
        room = max(_MOST - len(rest) - 1, _LEAST_VALUE)
        line = f"{_cut(first, room)}\t{rest}" if rest else first
        sys.stdout.write(f"{_cut(line, _MOST)}\n")


def _print_for_people(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], *, headed: bool
) -> None:
    """Print a table, without columns that are empty. Of an id its end is enough."""
    from rich.console import Console  # slow imports
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console(highlight=False, emoji=False, markup=False)
    table = RichTable(box=None, pad_edge=False, header_style="bold", show_header=headed)
    whole = range(len(columns))
    used = [at for at in whole if at == 0 or not headed or any(row[at] for row in rows)]
    if "value" in columns and console.width < _NARROW:
        used = used[:3]  # all others together would leave no room for the value
    most = max(6, console.width // 2 // len(used) - 1)
    for at in used:
        is_number = bool(rows) and all(isinstance(row[at], int) for row in rows)
        justify: Any = "right" if is_number else "left"
        if columns[at] == "value":
            table.add_column("value", min_width=console.width // 2, overflow="fold")
        elif columns[at] == "id":
            table.add_column("id", width=_END)
        elif "value" in columns:
            table.add_column(columns[at], justify=justify, max_width=most, no_wrap=True)
        else:
            table.add_column(columns[at], justify=justify, overflow="fold")
    for row in rows:
        cells = [_words(row[at], ago)[-_END if columns[at] == "id" else None :] for at in used]
        if "value" in columns and "place" in columns and columns.index("place") in used:
            index = used.index(columns.index("place"))  # the end of a name can be typed
            cells[index] = cells[index].rpartition("/")[2]
        table.add_row(*(Text(cell, _COLOURS.get(cell.split(" ")[-1], "")) for cell in cells))
    console.print(table)


def _words(cell: Any, time: Any) -> str:
    if isinstance(cell, datetime):
        return str(time(cell))
    return f"{cell:,}" if isinstance(cell, int) else "" if cell is None else shown(str(cell))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


@contextmanager
def progress_bar(what: str) -> Generator[Callable[[int, int], None]]:
    """Show a progress bar on a terminal; yield the function that updates it."""
    from rich.console import Console  # slow imports
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
