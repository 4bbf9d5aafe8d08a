"""A process that edits one document: `python -m tests.memory.document_editor FOLDER NAME EDITS`."""

import sys
from functools import partial
from pathlib import Path

import anyio

from factmem.memory.agent_memory import AgentMemory
from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers.local_file import LocalFileMemoryProvider

USER = MemorySubject("user", "The user", 1)
NOTES = MemoryScope.Feature("notes")
PATH = "/log.md"
ROOT = Path(__file__).parent.parent.parent


async def edit(store: str, name: str, edits: int) -> None:
    """Append a line with each edit."""
    async with LocalFileMemoryProvider(store) as provider:
        notes = AgentMemory(provider, subjects=[USER]).documents(NOTES)
        for number in range(edits):
            await notes.edit(PATH, partial(_with_line, f"{name}-{number}"))


def _with_line(line: str, text: str) -> str:
    return f"{text}{line}\n"


async def check_that_no_edit_is_lost(store: str, *, processes: int = 2, edits: int = 8) -> None:
    """Let processes edit one document at the same time, and check that each line is saved."""
    async with LocalFileMemoryProvider(store) as provider:
        notes = AgentMemory(provider, subjects=[USER]).documents(NOTES)
        await notes.write(PATH, "")
        command = [sys.executable, "-m", "tests.memory.document_editor", store]
        async with anyio.create_task_group() as tasks:
            for number in range(processes):
                tasks.start_soon(
                    partial(anyio.run_process, cwd=ROOT), [*command, f"p{number}", str(edits)]
                )
        lines = (await notes.read(PATH)).split()

    wanted = {f"p{number}-{at}" for number in range(processes) for at in range(edits)}
    assert sorted(lines) == sorted(wanted)


if __name__ == "__main__":
    anyio.run(edit, sys.argv[1], sys.argv[2], int(sys.argv[3]))
