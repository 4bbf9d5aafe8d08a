"""PortGuard: the check of every request to a port that a command opens.

Used by `review`, where links have signed tokens, and by `mcp`, where one token serves all. It wraps
the whole application, so that no route can be reached without it. A request with a wrong `Host` or
`Origin` is refused before its token is read; a browser, which sends the cookie by itself, has to
name an allowed origin for every change. The application gets the token and decides what its owner
may do.

A token of `review` is signed: it says who it lets in, with which role and until when. No list of
tokens is stored: the secret is enough to issue them, and a new secret ends all of them.
"""

import hashlib
import hmac
import json
import os
import sys
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import astuple, dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from secrets import token_urlsafe
from socket import create_server, socket
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

from factmem._cli.output import CommandError, ExitCode, print_error, time_words

_Message: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[_Message]]
_Send: TypeAlias = Callable[[_Message], Awaitable[None]]
_App: TypeAlias = Callable[[_Message, _Receive, _Send], Awaitable[None]]

_LEAST_TOKEN = 32
"""Characters of a token that a user chooses: shorter ones could be guessed."""

_SAFE = frozenset({"GET", "HEAD"})


class PortGuard:
    """An ASGI application that passes on only requests with a valid token.

    Other accounts of the machine can reach the port too, and pages in a browser can send requests
    to it: so the token is required, and `Host` and `Origin` must be those of this machine. A
    browser has the token in a cookie, and must also name the origin of every change.

    Args:
        app: The application to protect. It finds the token in `scope["state"]`.
        port: The port that it is served on.
        admits: Returns whether a token is valid now.
        address: The address at which a proxy serves the port, such as "https://review.example.com".
        cookie: The name of the cookie that may have the token; None for clients that send a header.
        entrance: The path of a link, whose query may have the token.
    """

    def __init__(
        self,
        app: _App,
        *,
        port: int,
        admits: Callable[[str], bool],
        address: str | None = None,
        cookie: str | None = None,
        entrance: str | None = None,
    ) -> None:
        self._app = app
        hosts = [f"{name}:{port}" for name in ("127.0.0.1", "localhost")]
        self._origins = {f"http://{host}".encode() for host in hosts}
        self._hosts = {host.encode() for host in hosts}
        if address is not None:
            self._origins.add(address.rstrip("/").lower().encode())
            self._hosts.add(urlsplit(address).netloc.lower().encode())
        self._admits, self._cookie, self._entrance = admits, cookie, entrance

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
        # A page may let its own name point at this machine: then its requests have no foreign
        # origin.
        if len(hosts := given.get(b"host", [])) != 1 or hosts[0].lower() not in self._hosts:
            return 421, "The host must be 127.0.0.1 or localhost, with the port"
        origins = given.get(b"origin", [])
        if any(origin.lower() not in self._origins for origin in origins):
            return 403, "Pages of other sites may not use this server"
        token = self._token(scope, given)
        if token is None or not self._admits(token):
            return 401, "The token is missing, wrong or has expired: ask for a new one"
        is_browser = not given.get(b"authorization")
        if is_browser and scope.get("method") not in _SAFE and not origins:
            return 403, "A change must name its origin"
        scope["state"] = {**scope.get("state", {}), "token": token}
        return None

    def _token(self, scope: _Message, given: Mapping[bytes, list[bytes]]) -> str | None:
        """Return the only token of a request; None if there is none, or more than one."""
        try:
            headers = [value.decode("ascii") for value in given.get(b"authorization", [])]
            cookies = [value.decode("ascii") for value in given.get(b"cookie", [])]
            query = parse_qs(scope.get("query_string", b"").decode("ascii"))
        except UnicodeDecodeError:
            return None
        if headers:
            is_bearer = len(headers) == 1 and headers[0].lower().startswith("bearer ")
            return headers[0][len("Bearer ") :] if is_bearer else None
        if self._entrance is not None and scope.get("path") == self._entrance:
            tokens = query.get("token", [])
        else:
            tokens = [] if self._cookie is None else _cookies(cookies, self._cookie)
        return tokens[0] if len(tokens) == 1 else None


def _cookies(headers: list[str], name: str) -> list[str]:
    """Return all cookies of a name.

    A parser keeps the last one only, which another page may set.
    """
    from http.cookies import CookieError, SimpleCookie  # slow import

    found: list[str] = []
    for each in ";".join(headers).split(";"):
        try:
            cookie = SimpleCookie(each.strip()).get(name)
        except CookieError:
            continue
        if cookie is not None:
            found.append(cookie.value)
    return found


def secret_of(token_env: str | None) -> str:
    """Return the secret in an environment variable, or a new one to print on the terminal."""
    token = token_urlsafe(32) if token_env is None else os.environ.get(token_env, "")
    if len(token) < _LEAST_TOKEN or not token.isascii():
        raise CommandError(
            f"The variable {token_env} must have a token of at least {_LEAST_TOKEN} ASCII "
            "characters: python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    if token_env is None and not sys.stderr.isatty():
        raise CommandError(
            "There is no terminal to print a new token on: pass --token-env NAME", ExitCode.REFUSED
        )
    return token


def guarded(app: _App, *, port: int, token_env: str | None, hours: int) -> PortGuard:
    """Return an application with a guard, and tell the user its token and when it expires."""
    token = secret_of(token_env)
    expires = datetime.now(UTC) + timedelta(hours=hours)
    print_error(f"Serving on http://127.0.0.1:{port} until {time_words(expires)}")
    if token_env is None:
        print_error(f"Clients must send the header Authorization: Bearer {token}")
    end = expires.timestamp()
    return PortGuard(
        app, port=port, admits=lambda given: hmac.compare_digest(given, token) and time.time() < end
    )


def listening(port: int) -> socket:
    """Return a socket that listens on a port of this machine."""
    try:
        return create_server(("127.0.0.1", port))
    except OSError as exc:
        raise CommandError(
            f"Port {port} cannot be used ({exc.strerror}): pass another --port", ExitCode.FAILED
        ) from None


async def serve_http(app: PortGuard, opened: socket) -> None:
    """Serve an application on an open port until the process is interrupted."""
    import uvicorn  # slow import, of an extra

    # It would log a line for each request: any account can send them, and links have tokens.
    config = uvicorn.Config(app, log_level="warning", access_log=False)
    await uvicorn.Server(config).serve([opened])


class Role(StrEnum):
    """What a visitor may do; each role may also do what the ones before it may."""

    READER = "reader"
    """Read."""
    REVIEWER = "reviewer"
    """Accept, correct, reject and undo."""
    ADMINISTRATOR = "administrator"
    """Issue links for others."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who sends a request."""

    name: str
    """The actor of the visitor's changes."""
    role: Role
    expires: float
    """The Unix time at which the token expires."""
    place: str | None = None
    """The name of the only place that the visitor sees; None for all."""

    @classmethod
    def for_hours(cls, hours: int, name: str, role: Role, place: str | None = None) -> "Visitor":
        """Return a visitor whose token expires after some hours."""
        return cls(name, role, time.time() + hours * 3600, place)

    def may(self, role: Role) -> bool:
        """Return whether the visitor has a role, or one that includes it."""
        return [*Role].index(self.role) >= [*Role].index(role)


class Tokens:
    """Issues and checks the tokens of a page, which its links contain.

    Args:
        secret: The key of the signatures.
        port: The port of the page.
        proxy: The address at which a proxy serves it. The links of another address with the same
            secret open nothing here.
    """

    def __init__(self, secret: str, port: int, proxy: str | None = None) -> None:
        self._key, self.port, self.proxy = secret.encode(), port, proxy
        self.address: str = (proxy or f"http://127.0.0.1:{port}").rstrip("/")
        """The address that browsers open."""

    def link(self, visitor: Visitor) -> str:
        """Return the link of a visitor."""
        return f"{self.address}/enter?token={self.issued(visitor)}"

    def issued(self, visitor: Visitor) -> str:
        """Return a token for a visitor."""
        body = urlsafe_b64encode(json.dumps(astuple(visitor)).encode()).decode().rstrip("=")
        return f"{body}.{self._signature('token', body)}"

    def visitor(self, token: str) -> Visitor | None:
        """Return who a token is for; None if it was not issued with this secret or has expired."""
        body, _, signature = token.partition(".")
        if not hmac.compare_digest(signature.encode(), self._signature("token", body).encode()):
            return None
        name, role, expires, place = json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        return Visitor(name, Role(role), expires, place) if time.time() < expires else None

    def form_token(self, token: str) -> str:
        """Return what each form of the holder of a token must contain.

        Other pages cannot know it.
        """
        return self._signature("form", token)

    def _signature(self, purpose: str, text: str) -> str:
        return hmac.new(
            self._key, f"{purpose} {self.address} {text}".encode(), hashlib.sha256
        ).hexdigest()
