"""The `factmem` command with all of its commands: the options before a command."""

from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from factmem._cli import (  # noqa: F401 - they register their commands
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
from factmem._cli.commands import app
from factmem._cli.named_objects import load_concepts
from factmem._cli.options import Options
from factmem._cli.output import print_line
from factmem._cli.project import project_of

__all__ = ["app"]


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
