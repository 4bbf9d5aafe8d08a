"""Options of the `factmem` command: the global ones, those that commands share, typed times."""

import os
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypeAlias

import typer

from factmem._arguments import DATABASE_URL, is_folder_name
from factmem._cli.output import CommandError, ExitCode, print_error
from factmem.models._display import shown
from factmem.models.facts import Concept
from factmem.models.when import When

_UNITS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}


def parse_age(text: str) -> timedelta:
    """Parse a time span such as 30d, 12h, 45m or 10s."""
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not number.isascii() or not number.isdigit() or len(number) > 9:
        raise CommandError("A time span must be a whole number followed by d, h, m or s: 30d")
    try:
        return timedelta(seconds=int(number) * _UNITS[unit])
    except OverflowError:
        raise CommandError("The time span is too long: use one such as 30d") from None


def parse_time(text: str | None, *, is_end: bool = False) -> datetime | None:
    """Parse a time, a day in UTC, or a time span before now; None for None.

    With `is_end` a day means its last moment, because its hours belong to it.
    """
    if text is None:
        return None
    try:
        when = datetime.fromisoformat(text.replace("W", "?"))  # a week is neither
        if is_end and len(text) <= len("2026-03-01"):
            when += timedelta(days=1, microseconds=-1)
    except ValueError:
        try:
            return datetime.now(UTC) - parse_age(text)
        except (CommandError, OverflowError):
            raise CommandError(
                "A time must be a day, a time or a time span: 2026-03-01, 2026-03-01T09:30Z, 7d"
            ) from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def parse_when(text: str | None) -> When | None:
    """Parse a year, a month, a day, a moment, or a time span before now; None for None."""
    try:
        if text is not None and text[-1:] in _UNITS:
            return When.of(datetime.now(UTC) - parse_age(text), "time")
        return None if text is None else When(text)
    except (ValueError, OverflowError) as exc:
        raise CommandError(str(exc)) from None


@dataclass(frozen=True, slots=True)
class Options:
    """The global options, which precede a command."""

    store: str | None = None
    key_env: str | None = None
    key_file: str | None = None
    passphrase: bool = False
    keyring: bool = False
    store_name: str = "default"
    concepts: Mapping[str, Concept[Any, Any]] = field(default_factory=dict[str, Concept[Any, Any]])
    """The application's concepts by keyword."""
    place: str | None = None
    """The place of the project file."""
    embedder: str | None = None
    """The embedder of the project file."""
    as_json: bool = False
    """Whether the command prints JSON."""
    yes: bool = False
    """Whether the command asks for no confirmation."""

    @property
    def is_encrypted(self) -> bool:
        """Whether a key was passed."""
        return bool(self.key_env or self.key_file or self.passphrase or self.keyring)

    @property
    def is_database(self) -> bool:
        """Whether the store is in PostgreSQL."""
        return DATABASE_URL.match(self.location) is not None

    @property
    def title(self) -> str:
        """The path of the store; of a database, whose URL may be long, its kind."""
        return "PostgreSQL" if self.is_database else self.location

    @property
    def location(self) -> str:
        """The path or URL of the store."""
        if not self.store:
            raise CommandError(
                "Pass the store before the command, factmem --store PATH ..., set FACTMEM_STORE, "
                'or write it into factmem.toml: store = "PATH"'
            )
        if DATABASE_URL.match(self.store):
            return self.store
        if not is_folder_name(self.store):
            raise CommandError(
                "The store must be a folder or a URL, --store postgresql://app@db1/app; write ./ "
                "before the name of a folder that looks like something else"
            )
        return os.path.expanduser(self.store)


GIVEN: ContextVar[Options] = ContextVar("GIVEN")
"""The options of the command that runs."""

REVEAL = "Allow values of an encrypted store in a file or pipe."
Reveal: TypeAlias = Annotated[bool, typer.Option("--reveal", help=REVEAL)]
"""The option --reveal, for commands that check it themselves."""

Keyword: TypeAlias = Annotated[
    str, typer.Argument(metavar="KEYWORD", help="The keyword of a concept.")
]
"""The argument KEYWORD."""

Limit: TypeAlias = Annotated[int, typer.Option("--limit", "-n", min=1, help="The most to show.")]
"""The option --limit."""

AsOf: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="As of a day, a time or a time span ago: 2026-03-01, 7d."),
]
"""The option --as-of."""

Period: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="WHEN", help="A year, a month, a day or a moment: 2026, 2026-03."),
]
"""The options --since, --until and --valid-at."""

EmbedderName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        metavar="NAME",
        help="Embedder: ollama:MODEL, openai:MODEL, sentence-transformers:MODEL or MODULE:NAME.",
    ),
]
"""The option --embedder."""


def confirm(question: str) -> None:
    """Ask for confirmation of a destructive command."""
    if GIVEN.get().yes:
        return
    if not _can_ask():
        raise CommandError(
            f"{question} There is no terminal to ask on: pass --yes", ExitCode.REFUSED
        )
    if not typer.confirm(shown(question), err=True):
        print_error("Nothing was changed")
        raise typer.Exit(ExitCode.REFUSED)


def _can_ask() -> bool:
    return sys.stdin.isatty()
