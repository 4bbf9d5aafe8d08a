"""Each example runs with warnings as errors, in an empty directory, without a network.

The default run executes it in this process, whose imports are done. `make storm` runs it as a user
does: in a process of its own, where warnings of the processes that it starts are errors as well.
Its short form runs those that start processes so, and a fourth of the others.
"""

import os
import runpy
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from factmem.models.when import TimeProvider
from factmem.providers.store import FactStore
from factmem.testing.clock import SettableClock
from tests.contracts.stores import FactStoreContract

FOLDER = Path(__file__).parent.parent / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))

ELSEWHERE = {"crewai_crew.py": "crewai", "deepagents_files.py": "deepagents"}
"""Examples of frameworks that are not in the test environment; `make frameworks` runs them."""

WITH_PROCESSES = {"support_agent.py"}
"""Examples that start processes: a storm runs them, each in a process of its own."""

GUARD = """
import sys

def refuse(event, args):
    if event == "socket.getaddrinfo" or (
        event == "socket.connect"
        and isinstance(args[1], tuple)
        and args[1][0] not in ("127.0.0.1", "::1")
    ):
        raise RuntimeError("an example reached for the network")

sys.addaudithook(refuse)
"""


_refusing = False
"""True while `refuse` is active in this process."""


def refuse(event: str, args: tuple[object, ...]) -> None:
    """Refuse network access. An audit hook cannot be removed, so it has a switch."""
    if not _refusing:
        return
    address = args[1] if event == "socket.connect" else None
    is_remote = isinstance(address, tuple) and address[0] not in {"127.0.0.1", "::1"}
    if event == "socket.getaddrinfo" or is_remote:
        raise RuntimeError("an example reached for the network")


@pytest.fixture(scope="session")
def guarded() -> None:
    """Watch this process from here on: a hook takes time with every file that any test opens."""
    sys.addaudithook(refuse)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return an environment without keys and endpoints, in which Python refuses network access."""
    guard = tmp_path / "guard"
    guard.mkdir()
    (guard / "sitecustomize.py").write_text(GUARD)
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return kept | {
        "PYTHONPATH": str(guard),
        "PYTHONWARNINGS": "error",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUTF8": "1",
    }


@pytest.fixture
def alone(
    guarded: None, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """An empty directory, that environment, and no network, for this process."""
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    for name in os.environ.keys() - environment.keys():
        if not name.startswith("PYTEST"):
            monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.modules[__name__], "_refusing", True)
    return empty


def skip_elsewhere(example: Path) -> None:
    framework = ELSEWHERE.get(example.name)
    if framework and find_spec(framework) is None:
        pytest.skip(f"make frameworks ONLY={framework}")


def check_left(folder: Path) -> None:
    """Check that the remaining files can be opened without a lost key."""
    for path in folder.rglob("facts.db"):
        with closing(sqlite3.connect(path)) as database:
            modes = database.execute("SELECT mode FROM stores").fetchall()
        assert modes == [("plain",)], "no key opens the remaining files"


@pytest.mark.parametrize(
    "example",
    [each for each in EXAMPLES if each.name not in WITH_PROCESSES],
    ids=lambda file: file.name,
)
def test_example_runs(
    example: Path, alone: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It succeeds, prints something, and writes nothing to stderr."""
    skip_elsewhere(example)
    monkeypatch.setattr(sys, "argv", [str(example)])
    monkeypatch.syspath_prepend(str(FOLDER))

    runpy.run_path(str(example), run_name="__main__")

    shown = capsys.readouterr()
    assert shown.err == ""
    assert shown.out.strip()
    check_left(alone)


@pytest.mark.storm
@pytest.mark.parametrize(
    "example",
    [
        *(each for each in EXAMPLES if each.name in WITH_PROCESSES),
        *(each for each in EXAMPLES if each.name not in WITH_PROCESSES),
    ],
    ids=lambda file: file.name,
)
def test_example_runs_in_its_own_process(
    example: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    """It imports all that it needs, and returns 0."""
    skip_elsewhere(example)
    empty = tmp_path / "empty"
    empty.mkdir()

    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=empty,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.strip()
    check_left(empty)


@pytest.mark.usefixtures("alone")
def test_the_guard_of_this_process_refuses_sockets() -> None:
    """Network access of an example in this process would be noticed."""
    with pytest.raises(RuntimeError, match="reached for the network"):
        socket.create_connection(("example.org", 80))


def test_the_guard_refuses_sockets(environment: dict[str, str]) -> None:
    """Network access of the examples would be noticed: the guard works in a process like theirs."""
    done = subprocess.run(
        [sys.executable, "-c", "import socket; socket.create_connection(('example.org', 80))"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "reached for the network" in done.stderr


OWN_PROVIDER = runpy.run_path(str(FOLDER / "own_provider.py"))["SqliteProvider"]


class TestOwnProvider(FactStoreContract):
    """The documented example of a user's own store passes the contracts of factmem's stores."""

    @pytest.fixture(autouse=True)
    def without_waiting(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """No test cuts the power, and waiting for the disk took nine tenths of the suite.

        Not every test closes its stores, so their connections are closed here.
        """
        connect, opened = sqlite3.connect, list[sqlite3.Connection]()

        def connected(*args: Any, **options: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*args, **options)
            connection.execute("PRAGMA synchronous=OFF")
            opened.append(connection)
            return connection

        monkeypatch.setattr(sqlite3, "connect", connected)
        yield
        for connection in opened:
            connection.close()

    @pytest.fixture
    def provider(self, tmp_path: Path, clock: SettableClock) -> FactStore:
        made: FactStore = OWN_PROVIDER(str(tmp_path / "facts.sqlite"), clock=clock)
        return made

    @pytest.fixture
    def second(self, provider: FactStore, tmp_path: Path, clock: SettableClock) -> FactStore:
        made: FactStore = OWN_PROVIDER(str(tmp_path / "facts.sqlite"), clock=clock)
        return made

    def make_provider(self, clock: TimeProvider) -> FactStore:
        made: FactStore = OWN_PROVIDER(":memory:", clock=clock)
        return made


def test_an_example_without_its_extra_names_it(tmp_path: Path) -> None:
    """It is the first thing that a reader sees, and not a ModuleNotFoundError."""
    needed = [file for file in EXAMPLES if "find_spec(" in file.read_text()]
    program = (
        "import importlib.util, runpy, sys\n"
        "importlib.util.find_spec = lambda name: None\n"
        "for file in sys.argv[1:]:\n"
        "    try:\n"
        "        runpy.run_path(file, run_name='__main__')\n"
        "    except SystemExit as said:\n"
        "        print(said)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, needed)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    lines = done.stdout.splitlines()
    assert len(lines) == len(needed) >= 10
    assert all(line.startswith("This example needs more: pip install '") for line in lines)
