"""Commands that serve a store: browse and mcp."""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Annotated, Any

import anyio
import typer

from factmem.cli.exits import CommandError, ExitCode
from factmem.cli.named_objects import load_embedder
from factmem.cli.opening import open_store, run, storage_of
from factmem.cli.options import EmbedderName, Options, options_of
from factmem.cli.output import is_terminal
from factmem.embedding.base import Embedder

__all__ = ["app"]

app: typer.Typer = typer.Typer()
"""The commands of this module."""


@app.command()
def browse(
    ctx: typer.Context,
    embedder: EmbedderName = None,
    web: Annotated[bool, typer.Option("--web", help="Serve it to a web browser.")] = False,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "localhost",
    port: Annotated[int, typer.Option(min=1, max=65_535)] = 8734,
) -> None:
    """Browse the store, and edit and forget values: in the terminal or in a web browser."""
    if missing := [name for name in ("textual", "textual_serve") if find_spec(name) is None]:
        raise CommandError(
            f"browse needs {' and '.join(missing)}: pip install 'factmem[tui]'", ExitCode.FAILED
        )
    options = options_of(ctx)
    if web:
        _serve(options, ctx.find_root().params, embedder, host, port)
    elif (
        not is_terminal() and "TEXTUAL_DRIVER" not in os.environ
    ):  # the process of a web page has no terminal
        raise CommandError("browse needs a terminal: pass --web for a browser", ExitCode.REFUSED)
    else:
        anyio.run(_browse, options, load_embedder(embedder))


async def _browse(options: Options, embedder: Embedder | None) -> None:
    from factmem.cli.browse.browser import Browser
    from factmem.cli.browse.session import BrowserSession

    storage = None if options.is_database else storage_of(options)
    async with open_store(options, storage=storage) as store:
        session = BrowserSession(store, options, embedder=embedder)
        await Browser(session).run_async()


def _serve(
    options: Options, given: Mapping[str, Any], embedder: str | None, host: str, port: int
) -> None:
    if options.passphrase:
        raise CommandError(
            "Each page opens the store itself and cannot ask for a passphrase: use --key-env, "
            "--key-file or --keyring"
        )
    open_store(options)  # raises here, not in the web page, if there is no store or no key
    from factmem.cli.browse.web import WebBrowser

    arguments: list[str] = []
    for name in ("store", "key_env", "key_file", "store_name", "concepts"):
        if given[name]:
            arguments += [f"--{name.replace('_', '-')}", given[name]]
    arguments += ["--keyring"] * bool(given["keyring"])
    arguments += ["browse"] if embedder is None else ["browse", "--embedder", embedder]
    WebBrowser(arguments, host, port).serve()


@app.command()
def mcp(
    ctx: typer.Context,
    product: Annotated[str, typer.Option(metavar="NAME", help="The scope of the facts.")] = "mcp",
    user: Annotated[str, typer.Option(metavar="NAME", help="The user of the facts.")] = "me",
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65_535, help="Serve HTTP on this port, to this machine only."),
    ] = None,
    read_only: Annotated[bool, typer.Option(help="Offer only tools that do not write.")] = False,
) -> None:
    """Serve one user's facts to MCP clients, over stdio or HTTP, like `factmem-mcp`."""
    # Imported here: it takes as long as all other imports, and no other command needs it.
    from factmem.integrations.mcp_program import serve_user

    run(
        ctx,
        lambda store: serve_user(store, product=product, user=user, port=port, read_only=read_only),
        creates=True,
    )
