"""An agent that is killed at a given point of its background work.

python -m tests.agent.killed FOLDER POINT LOOP
"""

import os
import signal
import sys
from pathlib import Path

import anyio

from factmem.agent.agent import Agent
from factmem.memory.agent_memory import AgentMemory
from factmem.models.scopes import MemoryScopesProfile
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from tests.doors import watched
from tests.world import ALICE, found_facts, theme_item

FIRST = [theme_item("dark", "I like it dark")]
SECOND = [theme_item(f"v{n}", "three more things", keyword=f"thing-{n}") for n in range(3)]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying(*_: object) -> str:
    die()
    raise AssertionError


class Killer:
    """Ends the process before the first statement of SQLite that begins with `at`."""

    at = "-"

    def __call__(self, sql: str) -> None:
        if sql.lstrip().startswith(self.at):
            die()


async def main(folder: Path, point: str) -> None:
    found: object = dying if point == "extraction" else found_facts(*SECOND)
    model = ScriptedChatModel("Noted.", found_facts(*FIRST), "Noted.", found)
    killer = Killer()
    with watched(killer):
        await work(folder, model, killer, point)


async def work(folder: Path, model: ScriptedChatModel, killer: Killer, point: str) -> None:
    async with LocalFileMemoryProvider(folder) as store, Agent(model) as agent:
        agent.install(
            AgentMemory,
            provider=store,
            scopes=MemoryScopesProfile(product="my-app"),
            subjects=[ALICE],
            auto_detect=True,
            background=True,
        )
        await agent.run("I like it dark.")
        await agent.drain()
        os.write(1, b"acknowledged\n")
        # The answer is printed in one write before the background work can begin, because that work
        # starts without a checkpoint.
        result = await agent.run("And three more things.")
        os.write(1, f"{result.text}\n".encode())
        killer.at = {"write": "INSERT", "commit": "COMMIT"}.get(point, "-")
        await agent.drain()
        os.write(1, b"saved\n")
        die()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), sys.argv[2], backend=sys.argv[3])
