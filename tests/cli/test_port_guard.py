"""The guard of a port: a token that expires, and requests of this machine only."""

import sys
from typing import Any

import anyio
import pytest

from factmem._cli.output import CommandError
from factmem._cli.port_guard import PortGuard, guarded, listening
from tests.tables import table

TOKEN = "t" * 40
BEARER = b"Bearer " + TOKEN.encode()
HOST = (b"host", b"127.0.0.1:8000")
AUTHORIZATION = (b"authorization", BEARER)


async def _application(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


def status(
    guard: PortGuard, headers: list[tuple[bytes, bytes]], kind: str = "http", method: str = "GET"
) -> int:
    """Return the status of the guard's answer to a request."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError

    anyio.run(guard, {"type": kind, "method": method, "headers": headers}, receive, send)
    found: int = sent[0]["status"]
    return found


def _guard() -> PortGuard:
    return PortGuard(_application, port=8000, admits={TOKEN}.__contains__)


@table(
    ("headers", "expected"),
    [
        ([HOST, AUTHORIZATION], 200),
        ([(b"Host", b"LOCALHOST:8000"), AUTHORIZATION], 200),
        ([HOST, AUTHORIZATION, (b"origin", b"http://127.0.0.1:8000")], 200),
        ([HOST], 401),
        ([HOST, (b"authorization", b"Bearer ")], 401),
        ([HOST, (b"authorization", BEARER[:-1])], 401),
        ([HOST, (b"authorization", BEARER + b"t")], 401),
        ([HOST, (b"authorization", b"Basic " + TOKEN.encode())], 401),
        ([HOST, (b"authorization", "Bearer \u00e9".encode())], 401),
        ([HOST, AUTHORIZATION, AUTHORIZATION], 401),
        ([HOST, AUTHORIZATION, (b"origin", b"https://evil.example")], 403),
        ([HOST, AUTHORIZATION, (b"origin", b"null")], 403),
        ([HOST, AUTHORIZATION, (b"origin", b"http://127.0.0.1:9000")], 403),
        ([HOST, AUTHORIZATION, *[(b"origin", o) for o in (b"http://127.0.0.1:8000", b"x")]], 403),
        ([AUTHORIZATION], 421),
        ([(b"host", b"evil.example:8000"), AUTHORIZATION], 421),
        ([(b"host", b"127.0.0.1"), AUTHORIZATION], 421),
        ([(b"host", b"127.0.0.1:8000.evil.example"), AUTHORIZATION], 421),
        ([HOST, HOST, AUTHORIZATION], 421),
    ],
)
def test_only_clients_with_the_token_pass(
    headers: list[tuple[bytes, bytes]], expected: int
) -> None:
    """Other accounts of the machine and pages in its browsers reach the port too."""
    assert status(_guard(), headers) == expected


def test_a_token_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server has to be started again."""
    monkeypatch.setenv("TOKEN", TOKEN)
    for hours, expected in [(0, 401), (1, 200)]:
        guard = guarded(_application, port=8000, token_env="TOKEN", hours=hours)
        assert status(guard, [HOST, AUTHORIZATION]) == expected


@table(
    ("headers", "method", "expected"),
    [
        ([(b"cookie", b"other=1; at=" + TOKEN.encode())], "GET", 200),
        ([(b"cookie", b"other=1; at=" + TOKEN.encode())], "POST", 403),
        (
            [(b"cookie", b"at=" + TOKEN.encode()), (b"origin", b"http://localhost:8000")],
            "POST",
            200,
        ),
        ([(b"cookie", b"at=" + TOKEN.encode()), (b"cookie", b"at=x")], "GET", 401),
        ([(b"cookie", b"at=x; at=" + TOKEN.encode())], "GET", 401),
        ([(b"cookie", "at=\u00e9".encode())], "GET", 401),
        ([(b"cookie", b"=;;at")], "GET", 401),
    ],
)
def test_a_browser_has_the_token_in_a_cookie(
    headers: list[tuple[bytes, bytes]], method: str, expected: int
) -> None:
    """It sends the cookie with the forms of other pages too: a change names its origin."""
    guard = PortGuard(_application, port=8000, admits={TOKEN}.__contains__, cookie="at")
    assert status(guard, [HOST, *headers], method=method) == expected


def test_sockets_of_the_web_are_guarded_too() -> None:
    """Every kind of request is."""
    assert status(_guard(), [HOST], "websocket") == 401


def test_a_token_is_never_printed_to_a_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a terminal it has to be given; a short one is refused."""
    monkeypatch.setenv("TOKEN", TOKEN)
    monkeypatch.setenv("SHORT", "secret")
    guarded(_application, port=8000, token_env="TOKEN", hours=1)
    with pytest.raises(CommandError, match="--token-env"):
        guarded(_application, port=8000, token_env=None, hours=1)
    for name in ("SHORT", "MISSING"):
        with pytest.raises(CommandError, match=f"{name} must have a token of at least 32"):
            guarded(_application, port=8000, token_env=name, hours=1)
    assert TOKEN not in capsys.readouterr().err

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    guarded(_application, port=8000, token_env=None, hours=1)
    assert "Authorization: Bearer " in capsys.readouterr().err


def test_a_port_in_use_is_an_error_before_a_token_is_printed() -> None:
    """A link of a server that does not run is of no use."""
    with listening(0) as opened, pytest.raises(CommandError, match="pass another --port"):
        listening(opened.getsockname()[1])
