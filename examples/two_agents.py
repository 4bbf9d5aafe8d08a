"""Two agents with private notes of their own, and notes that they share."""

import anyio

from factmem import (
    AgentMemory,
    Concept,
    FactType,
    InMemoryProvider,
    MemoryAccessError,
    MemoryScope,
    MemoryScopesProfile,
    MemoryScopeType,
    MemorySubject,
    MultipleFacts,
)

NOTES = Concept("notes", "What an agent noted down", FactType.MULTIPLE)
EVERYTHING = MemorySubject.EVERYTHING
SHARED = MemoryScope.Product("newsroom")


def memory_of(store: InMemoryProvider, agent: str) -> AgentMemory:
    """Return the memory of one agent: its own scope and the shared one, and no other."""
    memory = AgentMemory(store, scopes=MemoryScopesProfile(agent=agent, product="newsroom"))
    return memory.view(scopes=[MemoryScopeType.AGENT, MemoryScopeType.PRODUCT])


async def main() -> None:
    """Note something in private and something for both, and see who sees what."""
    store = InMemoryProvider()
    writer, editor = memory_of(store, "writer"), memory_of(store, "editor")

    draft = MultipleFacts(NOTES, ("The draft is half done",))
    await writer.provider.save(draft, EVERYTHING, MemoryScope.Agent("writer"))
    await writer.provider.save(MultipleFacts(NOTES, ("Due on Friday",)), EVERYTHING, SHARED)
    doubt = MultipleFacts(NOTES, ("The headline is weak",))
    await editor.provider.save(doubt, EVERYTHING, MemoryScope.Agent("editor"))

    for name, memory in (("writer", writer), ("editor", editor)):
        seen = [value for fact in await memory.current(NOTES) for value in fact.values]
        print(f"{name} sees {seen}")
    try:
        await editor.provider.save(doubt, EVERYTHING, MemoryScope.Agent("writer"))
    except MemoryAccessError as error:
        print(error)


if __name__ == "__main__":
    anyio.run(main)
