"""The command mcp: one user's facts as an MCP server, from any store that the command line opens."""

from typing import Annotated

import typer

from factmem.cli.opening import run

__all__ = ["app"]

app: typer.Typer = typer.Typer()
"""The commands of this module."""


@app.command()
def mcp(
    ctx: typer.Context,
    product: Annotated[str, typer.Option(metavar="NAME", help="The scope of the facts.")] = "mcp",
    user: Annotated[str, typer.Option(metavar="NAME", help="The user they are about.")] = "me",
    port: Annotated[
        int | None, typer.Option(min=1, max=65_535, help="Serve HTTP on this port of this machine.")
    ] = None,
    read_only: Annotated[bool, typer.Option(help="Offer no tools that write.")] = False,
) -> None:
    """Serve one user's facts to MCP clients, over stdio or HTTP, as `factmem-mcp` does."""
    # No other command needs the memory, whose import takes as long as the rest together.
    from factmem.integrations.mcp_program import serve_user

    run(
        ctx,
        lambda store: serve_user(store, product=product, user=user, port=port, read_only=read_only),
        creates=True,
    )
