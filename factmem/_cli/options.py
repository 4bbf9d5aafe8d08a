"""Options of the `factmem` command: the global ones, and those that commands share."""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import typer

from factmem._cli.exits import CommandError, ExitCode
from factmem._cli.output import is_terminal, print_error
from factmem.models._display import shown
from factmem.models.actors import acting
from factmem.models.facts import Concept

__all__ = [
    "AsOf",
    "EmbedderName",
    "Json",
    "Name",
    "Options",
    "Reason",
    "Reveal",
    "Yes",
    "confirm",
    "named",
    "options_of",
]


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

    @property
    def is_encrypted(self) -> bool:
        """Whether a key was passed."""
        return bool(self.key_env or self.key_file or self.passphrase or self.keyring)

    @property
    def is_database(self) -> bool:
        """Whether the store is in PostgreSQL."""
        return self.location.startswith(("postgresql://", "postgres://"))

    @property
    def location(self) -> str:
        """The path or URL of the store.

        Raises:
            CommandError: No store was passed.
        """
        if not self.store:
            raise CommandError(
                "Pass the store before the command, factmem --store PATH ..., set FACTMEM_STORE, or "
                'write it into factmem.toml: store = "PATH"'
            )
        return self.store

    def concept(self, keyword: str) -> Concept[Any, Any] | None:
        """Return the application's concept of a keyword, if there is one."""
        return next((each for each in self.concepts if each.keyword == keyword), None)

    def check_revealed(self, reveal: bool) -> None:
        """Check that values may be printed: those of an encrypted store only to a terminal.

        Raises:
            CommandError: The output is not a terminal, and `--reveal` was not passed.
        """
        if self.is_encrypted and not reveal and not is_terminal():
            raise CommandError(
                "The store is encrypted, and its values would be written unencrypted to a file or "
                "a pipe: pass --reveal to allow that",
                ExitCode.REFUSED,
            )


Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
"""The option --json."""
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
"""The option --yes."""
Reveal: TypeAlias = Annotated[
    bool, typer.Option("--reveal", help="Allow values of an encrypted store in a file or pipe.")
]
"""The option --reveal."""

Name: TypeAlias = Annotated[
    str | None,
    typer.Option("--name", envvar="FACTMEM_ACTOR", help="Your name, kept with the change."),
]
"""The option --name."""
Reason: TypeAlias = Annotated[
    str | None,
    typer.Option("--reason", envvar="FACTMEM_REASON", help="The reason, kept with the change."),
]
"""The option --reason."""

AsOf: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="As of a day, a time or a time span ago: 2026-03-01, 7d."),
]
"""The option --as-of."""

EmbedderName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        metavar="NAME",
        help="The embedder: ollama:MODEL, openai:MODEL, sentence-transformers:MODEL or MODULE:NAME.",
    ),
]
"""The option --embedder."""


def options_of(ctx: typer.Context) -> Options:
    """Return the global options of a command."""
    found = ctx.find_root().obj
    assert isinstance(found, Options)  # noqa: S101 - the callback of the application sets it
    return found


def named(name: str | None, reason: str | None, command: str) -> AbstractContextManager[None]:
    """Return a context whose changes name a person, or the command if there is no name."""
    return acting(name or f"factmem {command}", reason=reason or None)


def confirm(question: str, yes: bool) -> None:
    """Ask for confirmation of a destructive command.

    Raises:
        CommandError: There is no terminal to ask on and no `--yes`.
        typer.Exit: The answer is no.
    """
    if yes:
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
