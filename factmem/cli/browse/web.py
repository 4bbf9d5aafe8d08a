"""The browser of a store as a page on localhost, behind a token."""

import hmac
import re
import shlex
import sys
from collections.abc import Awaitable, Callable, Sequence
from secrets import token_urlsafe
from typing import TypeAlias

from aiohttp import web
from textual_serve.server import Server

from factmem.cli.output import print_error, print_line

__all__ = ["WebBrowser", "is_loopback"]

_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "connect-src 'self' ws: wss:; img-src 'self' data:; frame-ancestors 'none'"
)
"""textual-serve's page asks for a font on another host; nothing leaves this machine."""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    return host in {"localhost", "::1"} or re.fullmatch(r"127(\.\d{1,3}){3}", host) is not None


class WebBrowser(Server):
    """Serves `factmem browse`, one process for each open page.

    The first request must carry the token; a cookie carries it from then on. Pages of other sites
    and of other ports cannot open the connection, because their origin differs.

    Args:
        arguments: The arguments of `factmem` that browse the store in a terminal.
        host: The address to listen on.
        port: The port to listen on.
    """

    def __init__(self, arguments: Sequence[str], host: str, port: int) -> None:
        command = shlex.join([sys.executable, "-m", "factmem", *arguments])
        super().__init__(command, host=host, port=port, title="factmem")
        self.token: str = token_urlsafe(24)
        self._cookie = f"factmem_{port}"

    @property
    def address(self) -> str:
        """The address of the page, with the token."""
        return f"{self.public_url}/?token={self.token}"

    def serve(self, debug: bool = False) -> None:
        """Serve until interrupted."""
        del debug  # textual-serve's logging would print local variables, values included
        web.run_app(
            self._make_app(),
            host=self.host,
            port=self.port,
            print=lambda *_: self.announce(),  # called once it listens
            access_log=None,  # it would hold the token
        )

    async def on_startup(self, app: web.Application) -> None:
        """Print no banner."""

    def announce(self) -> None:
        """Print the address, and a warning where other machines reach it."""
        if not is_loopback(self.host):
            print_error(
                f"Warning: other machines reach {self.host}. The connection is not encrypted: "
                f"whoever reads it along the way sees the facts and the token"
            )
        print_line(f"Browse the store at {self.address}")
        print_line("Ctrl+C ends it")
        sys.stdout.flush()

    async def _make_app(self) -> web.Application:
        app: web.Application = await super()._make_app()
        app.middlewares.append(self._guard)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Let in whoever has the token."""
        if self._is_token(request.query.get("token")):
            # The address bar and the history keep no token.
            moved = web.HTTPFound("/")
            moved.set_cookie(self._cookie, self.token, httponly=True, samesite="Strict")
            raise moved
        own = f"{request.scheme}://{request.host}"
        is_own = request.headers.get("Origin", own) == own
        if not is_own or not self._is_token(request.cookies.get(self._cookie)):
            raise web.HTTPForbidden(text="Open the address that `factmem browse --web` printed.")
        # Read when the page is made: it must name the address by which the user came, which
        # behind a forwarded port is another than the one listened on.
        self.public_url = own
        response = await handler(request)
        if not response.prepared:
            response.headers["Content-Security-Policy"] = _POLICY
            response.headers["Referrer-Policy"] = "no-referrer"
        return response

    def _is_token(self, given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode(), self.token.encode())
