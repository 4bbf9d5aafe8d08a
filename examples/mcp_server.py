"""A memory as an MCP server, with the SDK's client in the same process. Needs `factmem[mcp]`."""

from importlib.util import find_spec

if find_spec("mcp") is None:
    raise SystemExit("This example needs more: pip install 'factmem[mcp]'")


from typing import Any

import anyio
from mcp import Client

from factmem import AgentMemory, InMemoryProvider, MemoryScopesProfile, MemorySubject
from factmem.integrations.mcp import FACTS_URI, memory_server

USER = MemorySubject("user", "The person who talks to the assistant", 1, per_entity=True)


async def main() -> None:
    """Save, recall and forget as an MCP client."""
    profile = MemoryScopesProfile(product="my-app")
    memory = AgentMemory(InMemoryProvider(), scopes=profile, subjects=[USER])
    async with Client(memory_server(memory, user="alice")) as client:
        print([tool.name for tool in (await client.list_tools()).tools])
        for tool, arguments in (
            ("memory_save", {"concept": "editor", "value": "vim"}),
            ("memory_recall", {"query": "Which editor?"}),
            ("memory_forget", {"concept": "editor"}),
        ):
            result: Any = await client.call_tool(tool, arguments)
            print(tool, result.content[0].text)
        facts: Any = await client.read_resource(FACTS_URI)
        print(repr(facts.contents[0].text))


if __name__ == "__main__":
    anyio.run(main)
