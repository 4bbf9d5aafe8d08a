"""Every example runs as a user would run it: a process of its own, an empty directory, no network.

Warnings are errors, in the processes that an example starts as well.
"""

import os
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from factmem import AgentMemoryProvider
from factmem.testing.providers import ProviderContract

FOLDER = Path(__file__).parent.parent / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))

ELSEWHERE = {"crewai_crew.py": "crewai", "deepagents_files.py": "deepagents"}
"""Examples of frameworks that the test environment does not hold; `make frameworks` runs them."""

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


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A user's environment, without keys and endpoints, in which every Python refuses to dial."""
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


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda file: file.name)
def test_example_runs(example: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    """It ends well, has something to show, and has nothing to complain about."""
    framework = ELSEWHERE.get(example.name)
    if framework and find_spec(framework) is None:
        pytest.skip(f"make frameworks ONLY={framework}")
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
    left = [made.read_text() for made in empty.rglob("factmem.json")]
    assert all('"plain"' in manifest for manifest in left), "no key opens what it leaves behind"


def test_the_guard_refuses(environment: dict[str, str]) -> None:
    """The examples would be caught: the guard is in force in a process like theirs."""
    done = subprocess.run(
        [sys.executable, "-c", "import socket; socket.create_connection(('example.org', 80))"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "reached for the network" in done.stderr


class TestOwnProvider(ProviderContract):
    """The provider that users are shown how to write keeps the whole contract."""

    @pytest.fixture
    def provider(self, tmp_path: Path) -> AgentMemoryProvider:
        made: AgentMemoryProvider = OWN_PROVIDER(str(tmp_path / "facts.sqlite"))
        return made


OWN_PROVIDER = runpy.run_path(str(FOLDER / "own_provider.py"))["SqliteProvider"]
