"""A memory store for Strands Agents: search, notes, and detection in the chat.

    store = FactmemMemoryStore(memory, user="alice", auto_detect=True)
    agent = Agent(memory_manager=MemoryManager(stores=[store], add_tool_config=True))

It needs the extra `strands`.
"""

from collections.abc import Iterable
from typing import Any

from strands.memory.types import AddMessagesContext, MemoryEntry, MemoryStore, SearchOptions
from strands.types.content import Message
from typing_extensions import Unpack

from factmem.memory.agent_memory import AgentMemory
from factmem.memory.runs import UNREACHABLE, MemoryRuns, RunOptions

__all__ = ["FactmemMemoryStore"]


class FactmemMemoryStore(MemoryStore):
    """One user's facts for `MemoryManager(stores=[...])`.

    The manager searches it for each of the user's messages, and gives the model its tools
    `search_memory` and, with `add_tool_config=True`, `add_memory`, which saves a note.

    Args:
        memory: The memory, or `MemoryRuns` that the application opens itself.
        conversation: The application's name for the chat, in the source of detected facts.
        name: The manager's name for the store.
        description: What the store is for, in the tools' descriptions.
        max_search_results: The maximum of facts that a search returns.
        writable: Whether the model may save notes.
        **options: See `MemoryRuns`; the manager brings the tools. Strands has no context of a run,
            so `user` is a name or a function that ignores its argument.

    Raises:
        TypeError: `memory` has the wrong type.
        UnboundSubjectError: There is no `user`, and a per-entity subject has no entity.
    """

    def __init__(
        self,
        memory: AgentMemory | MemoryRuns[None],
        *,
        conversation: str | None = None,
        name: str = "factmem",
        description: str = "Facts about the user from earlier conversations",
        max_search_results: int = 5,
        writable: bool = True,
        **options: Unpack[RunOptions[None]],
    ) -> None:
        if not isinstance(memory, MemoryRuns):
            options["tools"] = False
        self.runs: MemoryRuns[None] = MemoryRuns.over(memory, options)
        """The runs of the memory; open them to detect facts in the background."""
        self._conversation = conversation
        self.name = name
        self.description: str | None = description
        self.max_search_results: int | None = max_search_results
        self.writable = writable
        # The manager calls `add_messages` only with extraction.
        self.extraction = writable and self.runs.is_detecting

    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemoryEntry]:
        """Return the facts that are relevant to a question, best first."""
        limit = (options or {}).get("max_search_results") or self.max_search_results or 5
        view = self.runs.view(None)
        found = await self.runs.attempt(lambda: view.recall(query, limit=limit))
        if found is None:
            return [MemoryEntry(UNREACHABLE)]
        return [
            MemoryEntry(
                match.text,
                metadata={
                    "id": match.fact.id,
                    "relevance": match.relevance,
                    "said": match.fact.timestamp.isoformat(),
                },
            )
            for match in found
        ]

    async def add(self, content: str, metadata: dict[str, Any] | None = None) -> str:
        """Save a note, and return its id. No call to a model."""
        return (await self.runs.view(None).note(content)).id

    async def add_messages(
        self, messages: list[Message], context: AddMessagesContext | None = None
    ) -> None:
        """Detect facts in new messages of a chat."""
        await self.runs.learn(None, chat_of(messages), conversation=self._conversation)


def chat_of(messages: Iterable[Message]) -> list[dict[str, object]]:
    """Convert the messages of user and model to the format of chat completions."""
    texts = (
        (each["role"], "\n".join(part["text"] for part in each["content"] if "text" in part))
        for each in messages
    )
    return [{"role": role, "content": text} for role, text in texts if text]
