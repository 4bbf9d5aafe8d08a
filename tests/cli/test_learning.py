"""The command `learn`: a worker in a process of its own."""

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from factmem import AgentMemory, LocalFileMemoryProvider, MemoryScopesProfile
from factmem._cli.exits import ExitCode
from tests.cli.test_commands import call
from tests.world import AGENT, ALICE, THEME, USER

APP = """
from factmem import AgentMemory, LocalFileMemoryProvider, MemoryScopesProfile
from factmem.testing.chat import ScriptedChatModel
from tests.world import USER, item

memory = AgentMemory(
    LocalFileMemoryProvider("memory"),
    chat_model=ScriptedChatModel({"facts": [item()]}),
    scopes=MemoryScopesProfile(agent="support-bot"),
    subjects=[USER],
)
"""


@pytest.mark.storm
async def test_a_process_learns_what_another_stored(tmp_path: Path) -> None:
    """And prints how many, and what is left."""
    (tmp_path / "worker_app.py").write_text(APP)
    async with LocalFileMemoryProvider(tmp_path / "memory") as store:
        memory = AgentMemory(
            store, scopes=MemoryScopesProfile(agent="support-bot"), subjects=[USER]
        )
        chat = memory.of("alice").conversation("chat", learn_after=timedelta(microseconds=1))
        await chat.append({"role": "user", "content": "I prefer the dark theme."})

        learnt = _learn(tmp_path, "--json", "--retry")
        again = _learn(tmp_path)

        assert json.loads(learnt) == {
            "learnt": 1,
            "postponed": 0,
            "given_up": 0,
            "pending": 0,
            "failed": 0,
            "oldest": None,
            "failures": [],
        }
        assert again == "Learnt 0 conversations\nPending: 0, given up: 0\n"
        assert [fact.value for fact in await store.load(THEME, ALICE, AGENT)] == ["dark"]


def _learn(folder: Path, *options: str) -> str:
    root = Path(__file__).parents[2]
    program = f"import sys; sys.path.append({str(root)!r}); from factmem._cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "learn", "worker_app:memory", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("named", ["nothing", "json:dumps", "no_such_module:memory"])
def test_it_needs_a_memory(named: str) -> None:
    """Anything else is named."""
    assert named in call("learn", named, code=ExitCode.USAGE) or named == "nothing"


def test_a_failure_has_its_cause_and_doctor_knows_of_it(tmp_path: Path) -> None:
    """An endpoint that nobody reaches: it named a class, and ended with 0."""
    app = APP.replace('ScriptedChatModel({"facts": [item()]})', "FAILING").replace(
        "memory = ",
        "from factmem.errors import ChatModelError\n"
        "FAILING = ScriptedChatModel(ChatModelError('m could not be reached at db:1'))\nmemory = ",
    )
    (tmp_path / "worker_app.py").write_text(app)

    async def append() -> None:
        async with LocalFileMemoryProvider(tmp_path / "memory") as store:
            scopes = MemoryScopesProfile(agent="support-bot")
            memory = AgentMemory(store, scopes=scopes, subjects=[USER])
            chat = memory.of("alice").conversation("chat", learn_after=timedelta(microseconds=1))
            await chat.append({"role": "user", "content": "I prefer the dark theme."})

    anyio.run(append)
    root = Path(__file__).parents[2]
    program = f"import sys; sys.path.append({str(root)!r}); from factmem._cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "learn", "worker_app:memory"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (
        1,
        "Learnt 0 conversations\nPending: 1, given up: 0\n",
    )
    assert "factmem: ChatModelError: m could not be reached at db:1" in done.stderr
    printed = call("--store", str(tmp_path / "memory"), "doctor")
    assert "1 conversation to be learnt" in printed
