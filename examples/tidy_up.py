"""Merge values with the same meaning: review the proposal, merge it, and undo it later.

python examples/tidy_up.py

If OPENAI_API_KEY or OPENAI_BASE_URL is set, that endpoint finds the values (OPENAI_MODEL is the
model); otherwise a script does.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from factmem import (
    AgentMemory,
    ChatModel,
    Concept,
    FactType,
    LocalFileMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    MultipleFacts,
    OpenAIChatModel,
)
from factmem.testing.chat import ScriptedChatModel

USER = MemorySubject("user", "The person who talks to the agent", 1, per_entity=True)
SKILLS = Concept("skills", "What the user knows how to use", FactType.MULTIPLE)
DESK = MemoryScope.Agent("desk")
SAID = ["JavaScript", "Kotlin", "JS", "PostgreSQL", "Postgres database", "PostgreSQL 18 on Debian"]

# The numbers of the six values in alphabetical order: 0 JavaScript, 1 JS, 2 Kotlin, 3 Postgres ...
SCRIPT = {"groups": [{"same": [0, 1], "keep": 0}, {"same": [3, 4], "keep": 4}]}


def chat_model() -> ChatModel:
    """Return the model of the configured endpoint, or the script without one."""
    if os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL"):
        return OpenAIChatModel(os.environ.get("OPENAI_MODEL", "gpt-4.1-mini"))
    return ScriptedChatModel(SCRIPT)


def memory_of(store: LocalFileMemoryProvider) -> AgentMemory:
    """Return the memory of one user."""
    return AgentMemory(
        store,
        chat_model=chat_model(),
        scopes=MemoryScopesProfile(agent="desk"),
        subjects=[USER.of("alice")],
    )


async def show(memory: AgentMemory) -> None:
    """Print the current values."""
    values = await memory.values(SKILLS)
    print("known:", ", ".join(values))


async def tidy_up(folder: Path) -> None:
    """Merge values with the same meaning, and save the ids of the merges for the undo."""
    async with LocalFileMemoryProvider(folder / "memory") as store:
        for value in SAID:
            await store.save(MultipleFacts(SKILLS, [value]), USER.of("alice"), DESK)
        memory = memory_of(store)
        await show(memory)
        proposal = await memory.consolidation.propose(SKILLS)
        for merge in proposal.merges:
            print(f"proposed: {merge.kept} replaces {', '.join(map(str, merge.dropped))}")
        report = await memory.consolidation.merge(proposal)
        changes = [str(merge.change) for merge in report.merges]
        (folder / "merges.txt").write_text("\n".join(changes))
        await show(memory)


async def undo(folder: Path) -> None:
    """Restore the dropped values, from the history of the store."""
    async with LocalFileMemoryProvider(folder / "memory") as store:
        memory = memory_of(store)
        for change in (folder / "merges.txt").read_text().split():
            await memory.review.undo(change)
        await show(memory)


async def main() -> None:
    """Run both in a temporary folder."""
    with TemporaryDirectory() as folder:
        await tidy_up(Path(folder))
        await undo(Path(folder))


if __name__ == "__main__":
    anyio.run(main)
