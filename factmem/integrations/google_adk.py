"""A memory service for Google's Agent Development Kit, in place of `InMemoryMemoryService`.

    service = FactmemMemoryService(memory, auto_detect=True)
    runner = Runner(app_name="shop", agent=agent, memory_service=service, ...)

It needs the extra `google-adk`.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai.types import Content, Part
from typing_extensions import Unpack

from factmem._arguments import expect_within
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.runs import UNREACHABLE, MemoryRuns, RunOptions
from factmem.models.places import MemoryScope
from factmem.recall.match import Match

__all__ = ["FactmemMemoryService"]


class FactmemMemoryService(BaseMemoryService):
    """The facts of ADK's users: each application is a product scope, each user an entity.

    A search recalls facts, `add_memory` saves notes, the other two methods detect facts in what the
    user said. This object reads each event of a session once.

    Args:
        memory: The memory. Its subjects are bound to the user, and its scopes are not used.
        limit: The maximum of facts that a search returns.
        **options: See `MemoryRuns`; ADK brings the tools `preload_memory` and `load_memory`. `user`
            gets the names of the application and of the user, and by default returns the second.
    """

    def __init__(
        self,
        memory: AgentMemory,
        *,
        limit: int = 10,
        **options: Unpack[RunOptions[tuple[str, str]]],
    ) -> None:
        expect_within(limit, int, "limit", "limit=10", least=1)
        options.setdefault("user", itemgetter(1))
        options["tools"] = False
        self._runs = _Runs(memory, **options)
        self._limit = limit
        self._seen: dict[tuple[str, str, str], int] = {}

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Return the user's facts that are relevant to a question."""
        view = self._runs.view((app_name, user_id))
        found = await self._runs.attempt(lambda: view.recall(query, limit=self._limit))
        entries = [_entry(UNREACHABLE)] if found is None else [_entry(e.text, e) for e in found]
        return SearchMemoryResponse(memories=entries)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Save free texts as notes of the user. No call to a model."""
        view = self._runs.view((app_name, user_id))
        for text in filter(None, (_text(each.content) for each in memories)):
            await view.note(text)

    async def add_session_to_memory(self, session: Session) -> None:
        """Detect facts in a session; does nothing without `auto_detect`."""
        user = (session.app_name, session.user_id)
        key, chat = (*user, session.id), chat_of(session.events)
        since, self._seen[key] = self._seen.get(key, 0), len(chat)
        await self._runs.learn(user, chat, since=since, conversation=session.id)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Detect facts in some events; does nothing without `auto_detect`."""
        await self._runs.learn((app_name, user_id), chat_of(events), conversation=session_id)


class _Runs(MemoryRuns[tuple[str, str]]):
    def view(self, context: tuple[str, str]) -> AgentMemory:
        return super().view(context).view(scopes=[MemoryScope.Product(context[0])])


def chat_of(events: Iterable[Event]) -> list[dict[str, object]]:
    """Convert the messages of user and model to the format of chat completions."""
    return [
        {
            "role": "user" if event.author == "user" else "assistant",
            "content": text,
            "timestamp": datetime.fromtimestamp(event.timestamp, UTC).isoformat(),
        }
        for event in events
        if not event.partial and (text := _text(event.content))
    ]


def _text(content: Content | None) -> str:
    parts = content.parts or [] if content else []
    return " ".join(part.text for part in parts if part.text and not part.thought)


def _entry(text: str, match: Match | None = None) -> MemoryEntry:
    said = None if match is None else match.fact.timestamp.isoformat()
    content = Content(role="user", parts=[Part(text=text)])
    return MemoryEntry(author="memory", content=content, timestamp=said)
