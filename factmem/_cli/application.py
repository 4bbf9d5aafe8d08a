"""The `factmem` command with all of its commands: the options before a command."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from factmem._cli.commands import ASK, ENV, FILE, TEXT, app, option, with_options
from factmem._cli.opening import load_concepts, project_of
from factmem._cli.options import GIVEN, Options
from factmem._cli.output import print_line
from factmem._cli.reads import overview

__all__ = ["app"]

for _module in ("changes", "evaluating", "maintenance", "reads", "serving", "transfers"):
    import_module(f"factmem._cli.{_module}")  # registers its commands

_STORE, _STORE_NAME = "A folder or postgresql:// URL.", "The name of the store in a database."
_CONCEPTS = "The application's concepts, with their value types."
_VERSION = "Print the version."


def _version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata  # slow import

        print_line(f"factmem {metadata.version('factmem')}")
        raise typer.Exit


@app.callback()
@with_options(
    option("store", TEXT, "--store", metavar="PATH", envvar="FACTMEM_STORE", help=_STORE),
    option("key_env", TEXT, "--key-env", metavar="NAME", help=ENV),
    option("key_file", TEXT, "--key-file", metavar="PATH", help=FILE),
    option("passphrase", bool, "--passphrase", help=ASK),
    option("keyring", bool, "--keyring", help="Use the key in the system's keyring."),
    option("store_name", TEXT, "--store-name", metavar="NAME", help=_STORE_NAME),
    option("concepts", TEXT, "--concepts", metavar="MODULE:NAME", help=_CONCEPTS),
    option("version", bool, "--version", callback=_version, is_eager=True, help=_VERSION),
)
def _options(ctx: typer.Context, **given: Any) -> None:
    """Show, change and move the facts of AI agents, and maintain their store."""
    try:
        project = project_of(Path.cwd())
    except FileNotFoundError:  # the current folder was removed
        project = Options()
    keys = {each: given[each] for each in ("key_env", "key_file", "passphrase", "keyring")}
    if not any(keys.values()):
        keys = {each: getattr(project, each) for each in keys}
    ctx.obj = replace(
        project,
        store=given["store"] or project.store,
        store_name=given["store_name"] or project.store_name,
        concepts=load_concepts(given["concepts"]),
        # A file that comes with a clone must not send the facts of another store to its embedder.
        embedder=project.embedder if project.store and not given["store"] else None,
        **keys,
    )
    if ctx.invoked_subcommand is None:
        GIVEN.set(ctx.obj)
        overview().show(as_json=False)
