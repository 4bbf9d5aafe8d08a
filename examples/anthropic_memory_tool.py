"""Claude's memory tool on a memory, without Claude. Needs `factmem[anthropic]` and no API key."""

from importlib.util import find_spec

if find_spec("anthropic") is None:
    raise SystemExit("This example needs more: pip install 'factmem[anthropic]'")


from typing import Any

import anyio
from anthropic.lib.tools import ToolError

from factmem import AgentMemory, InMemoryProvider, MemoryScopesProfile, MemorySubject
from factmem.integrations.anthropic import MEMORIES, MemoryTool

USER = MemorySubject("user", "The person the agent talks to", 1, per_entity=True)

COMMANDS: list[dict[str, Any]] = [
    {"command": "create", "path": "/memories/notes.md", "file_text": "Likes coffee.\n"},
    {"command": "str_replace", "path": "/memories/notes.md", "old_str": "coffee", "new_str": "tea"},
    {"command": "view", "path": "/memories"},
    {"command": "view", "path": "/memories/plans.md"},
]


async def main() -> None:
    """Run commands as Claude would send them; in production: tool_runner(tools=[tool])."""
    profile = MemoryScopesProfile(agent="desk")
    memory = AgentMemory(InMemoryProvider(), scopes=profile, subjects=[USER])
    tool = MemoryTool(memory.of("alice"))
    for command in COMMANDS:
        try:
            print(await tool.call(command))
        except ToolError as exc:
            print("error:", exc)
    print(await memory.of("alice").documents(MEMORIES).texts())
    print(await memory.of("bob").documents(MEMORIES).texts())


if __name__ == "__main__":
    anyio.run(main)
