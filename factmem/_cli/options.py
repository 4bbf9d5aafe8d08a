"""Options of the `factmem` command: the global ones, and those that commands share."""

import os
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import typer

from factmem._arguments import DATABASE_URL, is_folder_name
from factmem._cli.exits import CommandError, ExitCode
from factmem._cli.output import print_error
from factmem.models._display import shown
from factmem.models.facts import Concept


@dataclass(frozen=True, slots=True)
class Options:
    """The global options, which precede a command."""

    store: str | None
    key_env: str | None = None
    key_file: str | None = None
    passphrase: bool = False
    keyring: bool = False
    store_name: str = "default"
    concepts: Sequence[Concept[Any, Any]] = ()
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
                "Pass the store before the command, factmem --store PATH ..., set FACTMEM_STORE, or "
                'write it into factmem.toml: store = "PATH"'
            )
        if DATABASE_URL.match(self.store):
            return self.store
        if not is_folder_name(self.store):
            raise CommandError(
                "The store must be a folder or a URL, --store postgresql://app@db1/app; write ./ before "
                "the name of a folder that looks like something else"
            )
        return os.path.expanduser(self.store)

    def concept(self, keyword: str) -> Concept[Any, Any] | None:
        """Return the application's concept of a keyword, if there is one."""
        return next((each for each in self.concepts if each.keyword == keyword), None)


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
        help="The embedder: ollama:MODEL, openai:MODEL, sentence-transformers:MODEL or MODULE:NAME.",
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
