"""Two agents with private notes of their own, and notes that they share.

python examples/two_agents.py

A note's scope says who sees it: the agent's own, or that of the product both work for. Each agent
holds a view of these two, so that it cannot even name the other's.
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
    """Return the memory of one agent: its own scope and the shared one, and no other."""
    profile = MemoryScopesProfile(agent=agent, product="newsroom")
    memory = AgentMemory(store, scopes=profile, subjects=[ARTICLE])
    return memory.view(scopes=[MemoryScopeType.AGENT, MemoryScopeType.PRODUCT])


async def note(memory: AgentMemory, scope: MemoryScope, text: str) -> None:
    """Keep a note."""
    await memory.store.save(MultipleFacts(NOTES, [text]), ARTICLE, scope)


async def show(name: str, memory: AgentMemory, question: str) -> None:
    """Print what an agent finds, and where."""
    print(f"{name} asks: {question}")
    for match in await memory.recall(question):
        print(f"  {match.fact.values[0]}  ({match.place.scope})")


async def main() -> None:
    """Note something in private and something for both, and see who finds what."""
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

    print("\nThe editor reaches for the writer's notes:")
    print("  recall gives", await editor.recall("headlines", scopes=[writers]))
    try:
        await note(editor, writers, "Choose the second one.")
    except MemoryAccessError as error:
        print(f"  a save raises: {error}")


if __name__ == "__main__":
    anyio.run(main)
