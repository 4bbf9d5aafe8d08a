"""WebBrowser: the store browser as a web page on localhost, protected by a token."""

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
"""Blocks all requests to other hosts: textual-serve's page loads a font from one."""


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    return host in {"localhost", "::1"} or re.fullmatch(r"127(\.\d{1,3}){3}", host) is not None


class WebBrowser(Server):
    """Serves `factmem browse`, with one process for each open page.

    The first request must contain the token; afterwards it is in a cookie. Pages from other sites
    and ports cannot connect, because their origin differs.

    Args:
        arguments: The arguments of `factmem` to browse the store in a terminal.
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
            print=lambda *_: self.announce(),  # called when the server listens
            access_log=None,  # it would contain the token
        )

    async def on_startup(self, app: web.Application) -> None:
        """Do not print textual-serve's banner."""

    def announce(self) -> None:
        """Print the address, and a warning if other machines can reach it."""
        if not is_loopback(self.host):
            print_error(
                f"Warning: other machines can reach {self.host}. The connection is not encrypted: "
                "anyone on the network path can read the facts and the token"
            )
        print_line(f"Browse the store at {self.address}")
        print_line("Press Ctrl+C to stop")
        sys.stdout.flush()

    async def _make_app(self) -> web.Application:
        app: web.Application = await super()._make_app()
        app.middlewares.append(self._guard)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Reject requests without the token."""
        if self._is_token(request.query.get("token")):
            # The redirect removes the token from the address bar and the history.
            moved = web.HTTPFound("/")
            moved.set_cookie(self._cookie, self.token, httponly=True, samesite="Strict")
            raise moved
        own = f"{request.scheme}://{request.host}"
        is_own = request.headers.get("Origin", own) == own
        if not is_own or not self._is_token(request.cookies.get(self._cookie)):
            raise web.HTTPForbidden(text="Open the address that `factmem browse --web` printed.")
        # The page contains this address. It must be the one in the user's browser, which differs
        # from the address of the server if the port is forwarded.
        self.public_url = own
        response = await handler(request)
        if not response.prepared:
            response.headers["Content-Security-Policy"] = _POLICY
            response.headers["Referrer-Policy"] = "no-referrer"
        return response

    def _is_token(self, given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode(), self.token.encode())
