"""PortGuard: the check of every request to a port that a command opens."""

import hmac
import os
import sys
import time
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import UTC, datetime, timedelta
from secrets import token_urlsafe
from typing import Any, TypeAlias

from factmem._cli.exits import CommandError, ExitCode
from factmem._cli.output import print_error
from factmem._cli.times import time_words

__all__ = ["PortGuard", "guarded"]

_Message: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[_Message]]
_Send: TypeAlias = Callable[[_Message], Awaitable[None]]
_App: TypeAlias = Callable[[_Message, _Receive, _Send], Awaitable[None]]

_LEAST_TOKEN = 32
"""Characters of a token that a user chooses: shorter ones could be guessed."""


class PortGuard:
    """An ASGI application that passes on only requests with its token, until the token expires.

    Other accounts of the machine can reach the port too, and pages in a browser can send requests to
    it: so the token is required, and `Host` and `Origin` must be those of this machine.

    Args:
        app: The application to protect.
        port: The port that it is served on.
        token: The secret of all requests.
        expires: The Unix time at which the token expires.
    """

    def __init__(self, app: _App, *, port: int, token: str, expires: float) -> None:
        self._app = app
        self._hosts = {f"{name}:{port}".encode() for name in ("127.0.0.1", "localhost")}
        self._origins = {b"http://" + host for host in self._hosts}
        self._token = f"Bearer {token}".encode()
        self._expires = expires

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        """Handle a request, or the start and the end of the server."""
        if scope["type"] == "lifespan" or (problem := self._problem(scope)) is None:
            await self._app(scope, receive, send)
            return
        status, words = problem
        headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": words.encode()})

    def _problem(self, scope: _Message) -> tuple[int, str] | None:
        given: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            given.setdefault(name.lower(), []).append(value)
        if len(hosts := given.get(b"host", [])) != 1 or hosts[0].lower() not in self._hosts:
            return 421, "The host must be 127.0.0.1 or localhost, with the port"
        if any(origin.lower() not in self._origins for origin in given.get(b"origin", [])):
            return 403, "Pages of other sites may not use this server"
        tokens = given.get(b"authorization", [])
        if len(tokens) != 1 or not hmac.compare_digest(tokens[0], self._token):
            return 401, "Pass the token that the server was started with"
        if time.time() >= self._expires:
            return 401, "The token has expired: start the server again"
        return None


def guarded(app: _App, *, port: int, token_env: str | None, hours: int) -> PortGuard:
    """Return an application with a guard, and tell the user its token and when it expires.

    Raises:
        CommandError: The token is missing or too short, or there is no terminal to print it on.
    """
    token = token_urlsafe(32) if token_env is None else os.environ.get(token_env, "")
    if len(token) < _LEAST_TOKEN or not token.isascii():
        raise CommandError(
            f"The variable {token_env} must have a token of at least {_LEAST_TOKEN} ASCII "
            "characters: python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    if token_env is None and not sys.stderr.isatty():
        raise CommandError(
            "There is no terminal to print a new token on: pass --token-env NAME",
            ExitCode.REFUSED,
        )
    expires = datetime.now(UTC) + timedelta(hours=hours)
    print_error(f"Serving on http://127.0.0.1:{port} until {time_words(expires)}")
    if token_env is None:
        print_error(f"Clients must send the header Authorization: Bearer {token}")
    return PortGuard(app, port=port, token=token, expires=expires.timestamp())
