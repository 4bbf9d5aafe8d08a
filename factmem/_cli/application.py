"""The `factmem` command: its options, groups of commands and error handling."""

import os
import sys
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from factmem._cli import (
    backups,
    changes,
    concept_changes,
    decisions,
    doctor,
    evaluating,
    keys,
    learning,
    maintenance,
    reads,
    serving,
    statistics,
    timeline,
    transfers,
)
from factmem._cli.exits import CommandError, ExitCode, code_of, message_of
from factmem._cli.guide import GROUPS, examples_of
from factmem._cli.named_objects import load_concepts
from factmem._cli.options import Options
from factmem._cli.output import print_error, print_line
from factmem._cli.project import project_of
from factmem.errors import FactmemError

__all__ = ["app"]


class _Commands(TyperGroup):
    """Commands that report errors as one line on stderr and an exit code."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands in groups."""
        for title, names in GROUPS.items():
            with formatter.section(title):
                rows = [(name, self.commands[name].get_short_help_str(66)) for name in names]
                formatter.write_dl(rows)

    def invoke(self, ctx: Any) -> Any:
        """Run the selected command."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # detects a closed pipe before the exit code is decided
        except (typer.Exit, typer.Abort):
            raise
        except BrokenPipeError:
            # Python flushes stdout again at exit and would print a second error.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(ExitCode.BROKEN_PIPE) from None
        except KeyboardInterrupt:
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        except (CommandError, FactmemError, ValueError, OSError) as exc:
            print_error(f"factmem: {message_of(exc)}")
            raise typer.Exit(code_of(exc)) from None
        return result


# Tracebacks with local variables would print values and keys: no pretty exceptions.
app: typer.Typer = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
"""The whole command line."""

_GROUPS = (
    reads,
    decisions,
    timeline,
    changes,
    concept_changes,
    transfers,
    serving,
    learning,
    statistics,
    maintenance,
    keys,
    backups,
    doctor,
    evaluating,
)

for _group in _GROUPS:
    for _command in _group.app.registered_commands:
        _command.epilog = examples_of(_command, _group.app.info.name)
    app.add_typer(_group.app)


def _version(wanted: bool) -> None:
    if wanted:
        print_line(f"factmem {metadata.version('factmem')}")
        raise typer.Exit


@app.callback()
def _options(
    ctx: typer.Context,
    store: Annotated[
        str | None,
        typer.Option(metavar="PATH", envvar="FACTMEM_STORE", help="A folder or postgresql:// URL."),
    ] = None,
    key_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="The environment variable with the key.")
    ] = None,
    key_file: Annotated[
        str | None, typer.Option(metavar="PATH", help="The file with the key.")
    ] = None,
    passphrase: Annotated[
        bool, typer.Option("--passphrase", help="Ask for a passphrase on the terminal.")
    ] = False,
    keyring: Annotated[
        bool, typer.Option("--keyring", help="Use the key in the system's keyring.")
    ] = False,
    store_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name of the store in a database.")
    ] = None,
    concepts: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME", help="The application's concepts, with their value types."
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Show, change and move the facts of AI agents, and maintain their store."""
    del version  # handled by its callback
    project = project_of(Path.cwd())
    if not (key_env or key_file or passphrase or keyring):
        key_env, key_file, keyring = project.key_env, project.key_file, project.keyring
    ctx.obj = Options(
        store or project.store,
        key_env,
        key_file,
        passphrase,
        keyring,
        store_name or project.store_name or "default",
        load_concepts(concepts),
        project.place,
        project.embedder,
    )
