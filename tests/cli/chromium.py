"""The browser page in headless Chromium: screenshots of list, value, search and edit, to look at.

    python -m tests.cli.chromium FOLDER

Fails if the page requests anything from another host or an edit does not reach the store.
"""

import argparse
import base64
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import anyio

ALICE = "product/my-app/user/alice"
FACTS = (
    ("ide-theme", "light"),
    ("ide-theme", "dark"),
    ("home", "Seoul, 서울특별시"),
    ("greeting", "مرحبا بالعالم"),
    ("family", "👨\u200d👩\u200d👧 and a dog"),
    ("markup", "[bold red]not bold[/] <b>nor here</b>"),
    ("escapes", "\x1b[31mred\x1b[2J \u202egnol"),
)


class Page:
    """A page in Chromium, driven by the DevTools protocol."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self._requests: dict[str, str] = {}

    @property
    def hosts(self) -> set[str]:
        """The hosts that received a request."""
        return {urlsplit(url).netloc for url in self._requests.values()}

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method and return its result."""
        self._number += 1
        call = {"id": self._number, "method": method, "params": parameters}
        await self._socket.send_json(call)
        while True:
            told = await self._socket.receive_json()
            self._note(told.get("method"), told.get("params", {}))
            if told.get("id") == self._number:
                result: dict[str, Any] = told.get("result", {})
                return result

    def _note(self, event: str | None, parameters: dict[str, Any]) -> None:
        if event == "Network.requestWillBeSent":
            self._requests[parameters["requestId"]] = parameters["request"]["url"]
        elif event == "Network.loadingFailed" and parameters.get("blockedReason") == "csp":
            del self._requests[parameters["requestId"]]  # announced but never sent

    async def type(self, text: str) -> None:
        """Type a string."""
        for each in text:
            await self.call("Input.dispatchKeyEvent", type="keyDown", text=each, key=each)
            await self.call("Input.dispatchKeyEvent", type="keyUp", key=each)

    async def press(self, key: str, code: int, modifiers: int = 0) -> None:
        """Press a key that enters no character."""
        given = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        text = {"text": "\r"} if key == "Enter" else {}
        await self.call("Input.dispatchKeyEvent", type="keyDown", **given, **text)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **given)
        await anyio.sleep(0.7)

    async def click(self, x: int, y: int) -> None:
        """Click at a position."""
        for event in ("mousePressed", "mouseReleased"):
            await self.call(
                "Input.dispatchMouseEvent", type=event, x=x, y=y, button="left", clickCount=1
            )
        await anyio.sleep(1)

    async def picture(self, file: Path) -> None:
        """Save a screenshot."""
        await anyio.sleep(1.5)
        shot = await self.call("Page.captureScreenshot", format="png")
        await anyio.Path(file).write_bytes(base64.b64decode(shot["data"]))


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port: int = free.getsockname()[1]
        return port


def _factmem(store: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "factmem", "--store", store, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextmanager
def _served(store: str) -> Iterator[str]:
    command = [sys.executable, "-m", "factmem", "--store", store, "browse", "--web"]
    with subprocess.Popen(
        [*command, "--port", str(_free_port())], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None
        yield found[0]
        process.terminate()


@contextmanager
def _chromium(profile: str) -> Iterator[int]:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    assert program is not None, "Chromium is not installed"
    port = _free_port()
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,800"]
    where = [f"--remote-debugging-port={port}", f"--user-data-dir={profile}"]
    with subprocess.Popen(
        [program, *options, *where, "about:blank"], stderr=subprocess.DEVNULL
    ) as process:
        yield port
        process.terminate()


async def _first_page(session: aiohttp.ClientSession, port: int) -> str:
    with anyio.fail_after(60):
        while True:
            try:
                async with session.get(f"http://localhost:{port}/json") as answer:
                    pages = [each for each in await answer.json() if each["type"] == "page"]
                if pages:
                    found: str = pages[0]["webSocketDebuggerUrl"]
                    return found
            except aiohttp.ClientConnectorError:
                pass
            await anyio.sleep(0.2)


async def _look(address: str, port: int, folder: Path) -> set[str]:
    async with aiohttp.ClientSession() as session:
        url = await _first_page(session, port)
        async with session.ws_connect(url, max_msg_size=1 << 26) as opened:
            page = Page(opened)
            await page.call("Network.enable")
            await page.call("Page.enable")
            await page.call("Page.navigate", url=address)
            await anyio.sleep(8)
            await page.click(50, 98)  # Alice's place
            await page.picture(folder / "list.png")
            await page.press("End", 35)
            for _ in range(2):
                await page.press("ArrowUp", 38)
            await page.press("Enter", 13)
            await page.picture(folder / "value.png")
            await page.press("Escape", 27)
            await page.type("/where does she live, home")
            await page.press("Enter", 13)
            await page.picture(folder / "search.png")
            await page.press("Escape", 27)
            await page.press("Home", 36)
            await page.type("e")
            await page.picture(folder / "edit.png")
            await page.type("edited: ")
            await page.press("s", 83, modifiers=2)
            await page.picture(folder / "saved.png")
            return page.hosts


def main() -> None:
    """Fill a store and take the screenshots."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made:
        store = f"{made}/memory"
        for keyword, value in FACTS:
            _factmem(store, "set", ALICE, keyword, value, "--type", "text")
        with _served(store) as address, _chromium(f"{made}/profile") as port:
            hosts = anyio.run(_look, address, port, folder)
        own = urlsplit(address).netloc
        assert hosts <= {own, ""}, f"the page sent requests to {hosts - {own}}"
        values = {
            each["keyword"]: each["value"]
            for each in json.loads(_factmem(store, "show", ALICE, "--json"))
        }
        changed = [value for value in values.values() if "edited: " in value]
        print(f"asked {own} only; edited {len(changed)} value; screenshots in {folder}")
        assert len(changed) == 1


if __name__ == "__main__":
    main()
