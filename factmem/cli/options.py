"""Options of the `factmem` command: those before a command, and those that commands share."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import typer

from factmem.cli.exits import CommandError, ExitCode
from factmem.cli.output import is_terminal, print_error, shown
from factmem.models.facts import Concept

__all__ = [
    "EmbedderName",
    "Json",
    "Options",
    "Reveal",
    "Yes",
    "confirm",
    "options_of",
]


@dataclass(frozen=True, slots=True)
class Options:
    """The options that stand before a command."""

    store: str | None
    key_env: str | None = None
    key_file: str | None = None
    passphrase: bool = False
    keyring: bool = False
    store_name: str = "default"
    concepts: Sequence[Concept[Any, Any]] = ()

    @property
    def is_encrypted(self) -> bool:
        """Whether a key was given."""
        return bool(self.key_env or self.key_file or self.passphrase or self.keyring)

    @property
    def is_database(self) -> bool:
        """Whether the store is in PostgreSQL."""
        return self.location.startswith(("postgresql://", "postgres://"))

    @property
    def location(self) -> str:
        """The path or URL of the store.

        Raises:
            CommandError: None was given.
        """
        if not self.store:
            raise CommandError(
                "Name the store before the command: factmem --store PATH ..., or set FACTMEM_STORE"
            )
        return self.store

    def concept(self, keyword: str) -> Concept[Any, Any] | None:
        """Return the application's own concept of a keyword, if it was given."""
        return next((each for each in self.concepts if each.keyword == keyword), None)

    def check_revealed(self, reveal: bool) -> None:
        """Raise unless values may be printed: of an encrypted store only where a person reads.

        Raises:
            CommandError: The output is no terminal, and `--reveal` was not given.
        """
        if self.is_encrypted and not reveal and not is_terminal():
            raise CommandError(
                "The store is encrypted, and its values would be written in the clear to a file "
                "or a pipe: pass --reveal if that is wanted",
                ExitCode.REFUSED,
            )


Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
"""The option --json."""
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
"""The option --yes."""
Reveal: TypeAlias = Annotated[
    bool, typer.Option("--reveal", help="Print values of an encrypted store to a file or pipe.")
]
"""The option --reveal."""

EmbedderName: TypeAlias = Annotated[
    str | None,
    typer.Option("--embedder", metavar="MODULE:NAME", help="Compare meanings too, by this one."),
]
"""The option --embedder."""


def options_of(ctx: typer.Context) -> Options:
    """Return the options that stand before the command."""
    found = ctx.find_root().obj
    assert isinstance(found, Options)  # noqa: S101 - the callback of the application sets it
    return found


def confirm(question: str, yes: bool) -> None:
    """Ask before a destructive command.

    Raises:
        CommandError: The answer is no, or there is no terminal to ask on and no `--yes`.
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
