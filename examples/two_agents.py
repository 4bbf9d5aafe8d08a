"""Two agents with private notes and shared notes.

python examples/two_agents.py

The scope of a note decides who sees it: only its agent, or both agents of the product. Each agent
has a view of these two scopes, so it cannot access the private notes of the other.
"""

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

NOTES = Concept("notes", "What was noted about the article", FactType.MULTIPLE)
ARTICLE = MemorySubject("article", "The article that is being written", 1)
SHARED = MemoryScope.Product("newsroom")


def memory_of(store: InMemoryProvider, agent: str) -> AgentMemory:
    """Return the memory of one agent: only its own scope and the shared one."""
    profile = MemoryScopesProfile(agent=agent, product="newsroom")
    memory = AgentMemory(store, scopes=profile, subjects=[ARTICLE])
    return memory.view(scopes=[MemoryScopeType.AGENT, MemoryScopeType.PRODUCT])


async def note(memory: AgentMemory, scope: MemoryScope, text: str) -> None:
    """Save a note."""
    await memory.store.save(MultipleFacts(NOTES, [text]), ARTICLE, scope)


async def show(name: str, memory: AgentMemory, question: str) -> None:
    """Print the notes that an agent finds, with their scopes."""
    print(f"{name} asks: {question}")
    for match in await memory.recall(question):
        print(f"  {match.fact.values[0]}  ({match.place.scope})")


async def main() -> None:
    """Save private and shared notes, and print who finds which."""
    store = InMemoryProvider()
    writer, editor = memory_of(store, "writer"), memory_of(store, "editor")
    writers, editors = MemoryScope.Agent("writer"), MemoryScope.Agent("editor")

    await note(writer, SHARED, "The headline is due on Friday.")
    await note(writer, writers, "Two headlines to choose from, neither of them good.")
    await note(editor, editors, "The headline promises more than the article has.")

    await show("The writer", writer, "What about the headline?")
    await show("The editor", editor, "What about the headline?")

    print("\nThe editor shares its note:")
    doubt = "The headline promises more than the article has."
    await note(editor, SHARED, doubt)
    await editor.contents.forget(concept=NOTES, value=doubt, scopes=[MemoryScopeType.AGENT])
    await show("The writer", writer, "What does the headline promise?")

    print("\nThe editor tries to access the writer's notes:")
    print("  recall returns", await editor.recall("headlines", scopes=[writers]))
    try:
        await note(editor, writers, "Choose the second one.")
    except MemoryAccessError as error:
        print(f"  a save raises: {error}")


if __name__ == "__main__":
    anyio.run(main)
