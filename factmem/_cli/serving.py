"""Commands that serve a store: browse and mcp."""

from importlib.util import find_spec
from typing import Annotated

import anyio
import typer

from factmem._cli.exits import CommandError, ExitCode
from factmem._cli.named_objects import load_embedder
from factmem._cli.opening import open_store, run, storage_of
from factmem._cli.options import EmbedderName, Options, options_of
from factmem._cli.output import is_terminal
from factmem.embedding.base import Embedder

__all__ = ["app"]

app: typer.Typer = typer.Typer()
"""The commands of this module."""


@app.command()
def browse(
    ctx: typer.Context,
    embedder: EmbedderName = None,
) -> None:
    """Browse the store in the terminal, and edit and forget values."""
    if find_spec("textual") is None:
        raise CommandError("browse needs textual: pip install 'factmem[tui]'", ExitCode.FAILED)
    if not is_terminal():
        raise CommandError("browse needs a terminal: use `show` or `recall`", ExitCode.REFUSED)
    anyio.run(_browse, options_of(ctx), load_embedder(embedder))


async def _browse(options: Options, embedder: Embedder | None) -> None:
    from factmem._cli.browse.browser import Browser
    from factmem._cli.browse.session import BrowserSession

    storage = None if options.is_database else storage_of(options)
    async with open_store(options, storage=storage) as store:
        session = BrowserSession(store, options, embedder=embedder)
        await Browser(session).run_async()


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
    from factmem.integrations._mcp_program import serve_user

    run(
        ctx,
        lambda store: serve_user(store, product=product, user=user, port=port, read_only=read_only),
        creates=True,
    )
