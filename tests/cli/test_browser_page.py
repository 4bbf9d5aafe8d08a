"""`factmem browse --web`: who has access, and what the page may load."""

import http.client
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from factmem.cli.browse.web import WebBrowser, is_loopback

_SOCKET = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, str]]:
    """Yield the port and the token of a served store."""
    store = ["--store", str(tmp_path_factory.mktemp("web") / "memory")]
    program = [sys.executable, "-m", "factmem", *store]
    place = ["product/my-app/user/alice", "theme", "dark", "--type", "text"]
    subprocess.run([*program, "set", *place], check=True, capture_output=True)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    command = [*program, "browse", "--web", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://localhost:(\d+)/\?token=(\S+)", process.stdout.readline())
        assert found is not None
        yield int(found[1]), found[2]
        process.send_signal(signal.SIGINT)


def _get(port: int, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("localhost", port, timeout=10)
    connection.request("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})
    answer = connection.getresponse()
    body = b"" if answer.status == 101 else answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), body


def test_only_the_token_gives_access(served: tuple[int, str]) -> None:
    """Without it the server returns no page and no file, and accepts no connection."""
    port, token = served
    for path in ("/", "/ws", "/static/js/textual.js", "/?token=wrong"):
        assert _get(port, path)[0] == 403
    status, headers, _ = _get(port, f"/?token={token}")
    assert (status, headers["Location"]) == (302, "/")
    assert "HttpOnly" in headers["Set-Cookie"]
    assert "SameSite=Strict" in headers["Set-Cookie"]
    cookie = headers["Set-Cookie"].partition(";")[0]

    status, headers, page = _get(port, "/", Cookie=cookie)
    assert status == 200
    assert token.encode() not in page
    assert headers["Content-Security-Policy"].startswith("default-src 'self'")
    assert f"ws://localhost:{port}/ws".encode() in page
    # The path of a forwarded port: the page uses the host that the browser requested.
    _, _, page = _get(port, "/", Cookie=cookie, Host="other:99")
    assert b"ws://other:99/ws" in page


def test_pages_of_other_origins_cannot_connect(served: tuple[int, str]) -> None:
    """Other ports of this machine are refused too, because they share its cookies."""
    port, token = served
    cookie = _get(port, f"/?token={token}")[1]["Set-Cookie"].partition(";")[0]
    for origin, status in (("http://localhost:1", 403), (f"http://localhost:{port}", 101)):
        assert _get(port, "/ws", Cookie=cookie, Origin=origin, **_SOCKET)[0] == status


def test_an_address_of_the_network_gives_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    """An address of this machine gives none."""
    for host, is_warned in (("localhost", False), ("127.0.0.1", False), ("0.0.0.0", True)):
        assert is_loopback(host) is not is_warned
        browser = WebBrowser(["browse"], host, 8734)
        browser.announce()
        output = capsys.readouterr()
        assert ("Warning" in output.err) is is_warned
        assert browser.token in output.out


def test_the_command_is_quoted(tmp_path: Path) -> None:
    """textual-serve runs the command in a shell."""
    evil = str(tmp_path / "a; touch b")

    assert f"'{evil}'" in WebBrowser(["--store", evil, "browse"], "localhost", 8734).command
