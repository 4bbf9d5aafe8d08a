"""The browser of a store with 100,000 facts, in a tmux session: seconds until a person sees it.

    python -m tests.cli.measure_browser [--places 1000]

Prints the time from Return to the tree of places, from opening a place to its table, and of key
presses until the screen shows what they did; and the processor time of the browser for each, which
a busy machine does not change.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from typer.testing import CliRunner

from factmem.cli.application import app

_VALUE = "[bold]x[/] \x1b[31mred\x1b[2J 👨\u200d👩 한국 مرحبا tea"
_SESSION = "factmem-measure"
_SETTLED = 5
"""Seconds until a place of 100,000 values is completely read."""


def _tmux(*arguments: str) -> str:
    done = subprocess.run(["tmux", *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def _screen() -> str:
    """Return the screen with its colors, which show the cursor."""
    return _tmux("capture-pane", "-p", "-e", "-t", _SESSION)


def _seconds(action: Callable[[], object], is_shown: Callable[[str], bool]) -> float:
    """Return the seconds until the screen shows the result of an action."""
    start = time.perf_counter()
    action()
    while not is_shown(_screen()):
        if time.perf_counter() - start > 60:
            raise TimeoutError(_screen())
    return time.perf_counter() - start


def _processor_seconds() -> float:
    """Return the processor time that the browser in the session has used."""
    shell = _tmux("list-panes", "-t", _SESSION, "-F", "#{pane_pid}").strip()
    children = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
    if not children:
        return 0.0
    fields = Path(f"/proc/{children[0]}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _print_step(name: str, seconds: float, since: float) -> None:
    used = _processor_seconds() - since
    print(f"{name:22} {seconds:6.2f} s, {used:.2f} s of processor time")


def _keys(*keys: str) -> Callable[[], object]:
    return lambda: _tmux("send-keys", "-t", _SESSION, *keys)


def _key_press(key: str) -> float:
    before = _screen()
    return _seconds(_keys(key), lambda screen: screen != before)


def _fill(store: str, facts: int, places: int) -> None:
    rows = Path(store).with_suffix(".jsonl")
    with rows.open("w") as file:
        for number in range(facts):
            place = f"product/my-app/user/u{number % places}"
            row = {"place": place, "keyword": f"k{number // places:06}", "value": _VALUE}
            file.write(f"{json.dumps(row)}\n")
    done = CliRunner().invoke(app, ["--store", store, "import", str(rows)])
    assert done.exit_code == 0, done.output


def _measure(store: str, places: int) -> None:
    command = f"{sys.executable} -m factmem --store {store} browse"
    _tmux("new-session", "-d", "-s", _SESSION, "-x", "160", "-y", "45", "bash --norc")
    try:
        _tmux("send-keys", "-t", _SESSION, command)
        tree = _seconds(
            _keys("Enter"), lambda screen: "my-app" in screen and "Find place" in screen
        )
        _print_step("tree from Return", tree, 0.0)
        time.sleep(0.5)
        _keys("Down")()
        if places > 200:
            time.sleep(0.5)
            before = _processor_seconds()
            opened = _seconds(_keys("Enter"), lambda screen: "u0" in screen)
            _print_step("branch from Enter", opened, before)
        _keys("Down")()
        time.sleep(0.5)
        before = _processor_seconds()
        table = _seconds(_keys("Enter"), lambda screen: "k000000" in screen)
        _print_step("table from Enter", table, before)
        time.sleep(_SETTLED)
        assert "[bold]x[/] \\x1b[31mred\\x1b[2J" in _screen()
        before = _processor_seconds()
        times = [_key_press("PageDown"), *(_key_press("Down") for _ in range(30))]
        used = (_processor_seconds() - before) / len(times)
        idle = statistics.median(_seconds(lambda: None, lambda _: True) for _ in range(20))
        print(
            f"key press              {statistics.median(times) * 1000:6.1f} ms median, "
            f"{max(times) * 1000:.1f} ms worst; of these {idle * 1000:.1f} ms to read the screen; "
            f"{used * 1000:.1f} ms of processor time"
        )
    finally:
        _tmux("kill-session", "-t", _SESSION)


def main() -> None:
    """Fill a store and print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--facts", type=int, default=100_000)
    parser.add_argument("--places", type=int, default=1_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/memory"
        _fill(store, given.facts, given.places)
        _measure(store, given.places)


if __name__ == "__main__":
    main()
