"""Door: the address of the page, and the links that let people in."""

import time
from dataclasses import dataclass

import uvicorn

from factmem._cli.opening import Store
from factmem._cli.options import Options
from factmem._cli.port_guard import PortGuard, Role, Tokens, Visitor
from factmem._cli.review.desk import PageDesk
from factmem._cli.review.pages import Pages
from factmem.embedding.base import Embedder


@dataclass(frozen=True, slots=True)
class Door:
    """Where the page is, and the secret that signs its links."""

    port: int
    proxy: str | None
    secret: str

    @property
    def address(self) -> str:
        """The address that browsers open."""
        return (self.proxy or f"http://127.0.0.1:{self.port}").rstrip("/")

    def visitor(self, name: str, role: Role, hours: int) -> Visitor:
        """Return a visitor of all places for some hours."""
        return Visitor(name, role, time.time() + hours * 3600)

    def link(self, visitor: Visitor) -> str:
        """Return the link of a visitor."""
        return f"{self.address}/enter?token={Tokens(self.secret, self.address).issued(visitor)}"


def guarded_page(desk: PageDesk, door: Door) -> PortGuard:
    """Return the page with the guard of its port."""
    tokens, cookie = Tokens(door.secret, door.address), f"factmem-review-{door.port}"
    pages = Pages(desk, tokens, cookie=cookie, address=door.address)
    return PortGuard(
        pages.app,
        port=door.port,
        admits=lambda token: tokens.visitor(token) is not None,
        address=door.proxy,
        cookie=cookie,
        entrance="/enter",
    )


async def serve(
    store: Store, options: Options, door: Door, *, embedder: Embedder | None, days: int
) -> None:
    """Serve the page until the process is interrupted."""
    app = guarded_page(PageDesk(store, options, embedder=embedder, days=days), door)
    # uvicorn would log a line for each request, and the lines of links have their tokens.
    config = uvicorn.Config(app, "127.0.0.1", door.port, log_level="warning", access_log=False)
    await uvicorn.Server(config).serve()
