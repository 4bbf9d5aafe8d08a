"""The command `learn`: a worker in a process of its own."""

import json
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import anyio
import pytest

from factmem import AgentMemory, LocalFileMemoryProvider, MemoryScopesProfile
from factmem._cli.output import ExitCode
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


@asynccontextmanager
async def _waiting(folder: Path) -> AsyncGenerator[LocalFileMemoryProvider]:
    """A store with a chat to learn."""
    async with LocalFileMemoryProvider(folder / "memory") as store:
        scopes = MemoryScopesProfile(agent="support-bot")
        memory = AgentMemory(store, scopes=scopes, subjects=[USER])
        chat = memory.of("alice").conversation("chat", learn_after=timedelta(microseconds=1))
        await chat.append({"role": "user", "content": "I prefer the dark theme."})
        yield store


def _learn(folder: Path, *options: str, app: str = APP) -> subprocess.CompletedProcess[str]:
    (folder / "worker_app.py").write_text(app)
    root = Path(__file__).parents[2]
    program = f"import sys; sys.path.append({str(root)!r}); from factmem._cli import main; main()"
    command = [sys.executable, "-c", program, "learn", "worker_app:memory", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.storm
async def test_a_process_learns_what_another_stored(tmp_path: Path) -> None:
    """And prints how many, and what is left."""
    async with _waiting(tmp_path) as store:
        learnt = _learn(tmp_path, "--json", "--retry")
        again = _learn(tmp_path)

        assert json.loads(learnt.stdout) == {
            "learnt": 1,
            "postponed": 0,
            "given_up": 0,
            "pending": 0,
            "failed": 0,
            "oldest": None,
            "failures": [],
        }
        assert again.stdout == "Learnt 0 conversations\nPending: 0, given up: 0\n"
        assert [fact.value for fact in await store.load(THEME, ALICE, AGENT)] == ["dark"]


@pytest.mark.parametrize("named", ["nothing", "json:dumps", "no_such_module:memory"])
def test_it_needs_a_memory(named: str) -> None:
    """Anything else is named."""
    assert named in call("learn", named, code=ExitCode.USAGE) or named == "nothing"


async def test_a_failure_has_its_cause_and_doctor_knows_of_it(tmp_path: Path) -> None:
    """An endpoint that nobody reaches: it named a class, and ended with 0."""
    failing = "ScriptedChatModel(ChatModelError('m could not be reached at db:1'))"
    app = APP.replace('ScriptedChatModel({"facts": [item()]})', failing)
    async with _waiting(tmp_path):
        done = _learn(tmp_path, app=f"from factmem.errors import ChatModelError\n{app}")

    printed = "Learnt 0 conversations\nPending: 1, given up: 0\n"
    assert (done.returncode, done.stdout) == (1, printed)
    assert "factmem: ChatModelError: m could not be reached at db:1" in done.stderr
    doctor = partial(call, "--store", str(tmp_path / "memory"), "doctor")
    assert "1 conversation to be learnt" in await anyio.to_thread.run_sync(doctor)
