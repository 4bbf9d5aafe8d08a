"""A memory store for Strands Agents: search, notes, and detection in the chat; and its sessions.

    store = FactmemMemoryStore(memory, user="alice", auto_detect=True)
    agent = Agent(memory_manager=MemoryManager(stores=[store], add_tool_config=True))

    repository = FactmemSessionRepository(memory.of("alice"))
    agent = Agent(session_manager=RepositorySessionManager("chat-7", repository))

It needs the extra `strands`.

A stored message has a role and a text, to learn from, and the whole message of Strands, from which
it is restored.
"""

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

import orjson
from strands.memory.types import AddMessagesContext, MemoryEntry, MemoryStore, SearchOptions
from strands.session.session_repository import SessionRepository
from strands.types.content import Message
from strands.types.session import Session, SessionAgent, SessionMessage
from typing_extensions import Unpack

from factmem.memory.agent_memory import AgentMemory
from factmem.memory.conversations import Conversation
from factmem.memory.runs import UNREACHABLE, MemoryRuns, RunOptions
from factmem.models.places import MemoryScope
from factmem.sync.portal import SHARED_PORTAL, Portal

__all__ = ["SESSIONS", "FactmemMemoryStore", "FactmemSessionRepository"]

SESSIONS = MemoryScope.Feature("strands")
"""The default scope of the state of sessions and agents."""


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
        """The runs of the memory."""
        self._conversation = conversation
        self.name = name
        self.description: str | None = description
        self.max_search_results: int | None = max_search_results
        self.writable = writable
        # The manager calls `add_messages` only with extraction.
        self.extraction = writable and self.runs.is_learning

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


class FactmemSessionRepository(SessionRepository):
    """The sessions of one user, for Strands' `RepositorySessionManager`.

    The messages of an agent are a conversation: encrypted, restricted by views, erased with the user
    and, by `MemoryConversations.learn`, learnt from. Its name is that of the session; of another agent
    than Strands' "default" it is `session/agent`. The state is in documents of a scope of its own. A
    message that a guardrail redacts is removed physically. Strands is synchronous here: each method
    runs in a portal.

    Args:
        memory: A view of one user, such as `memory.of("alice")`.
        scope: The scope of the state; do not store facts in it.
        portal: The portal in which the memory runs.

    Raises:
        ValueError: The memory has several subjects, or `scope` is one of its own scopes.
        UnboundSubjectError: The subject is per entity and has no entity.
    """

    def __init__(
        self,
        memory: AgentMemory,
        *,
        scope: MemoryScope = SESSIONS,
        portal: Portal = SHARED_PORTAL,
    ) -> None:
        self._memory, self._portal = memory, portal
        self._documents = memory.documents(scope)

    def create_session(self, session: Session, **kwargs: Any) -> Session:
        """Store a new session."""
        self._write(_session_path(session.session_id), session.to_dict(), is_new=True)
        return session

    def read_session(self, session_id: str, **kwargs: Any) -> Session | None:
        """Return a session; None if there is none."""
        found = self._read(_session_path(session_id))
        return None if found is None else Session.from_dict(found)

    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Store the state of a new agent."""
        path = _agent_path(session_id, session_agent.agent_id)
        self._write(path, session_agent.to_dict(), is_new=True)

    def read_agent(self, session_id: str, agent_id: str, **kwargs: Any) -> SessionAgent | None:
        """Return the state of an agent; None if there is none."""
        found = self._read(_agent_path(session_id, agent_id))
        return None if found is None else SessionAgent.from_dict(found)

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Replace the state of an agent."""
        path = _agent_path(session_id, session_agent.agent_id)
        self._write(path, session_agent.to_dict(), is_new=False)

    def create_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Store a message, and queue the conversation for learning. A repeated call changes nothing."""
        (chat,) = chat_of([session_message.to_message()], is_whole=True)
        message = {**chat, _WHOLE: _json(session_message.to_dict())}
        name = str(session_message.message_id)
        chat_at = self._conversation(session_id, agent_id)
        self._portal.call(lambda: chat_at.append(message, ids=[name]))

    def read_message(
        self, session_id: str, agent_id: str, message_id: int, **kwargs: Any
    ) -> SessionMessage | None:
        """Return a message; None if there is none."""
        found = self.list_messages(session_id, agent_id)
        return next((each for each in found if each.message_id == message_id), None)

    def update_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Remove a message physically, and store the one that replaces it."""
        chat_at = self._conversation(session_id, agent_id)
        self._portal.call(chat_at.remove, str(session_message.message_id))
        kept = SessionMessage.from_message(session_message.to_message(), session_message.message_id)
        self.create_message(session_id, agent_id, kept)

    def list_messages(
        self,
        session_id: str,
        agent_id: str,
        limit: int | None = None,
        offset: int = 0,
        **kwargs: Any,
    ) -> list[SessionMessage]:
        """Return the messages of an agent, oldest first."""
        turns = self._portal.call(self._conversation(session_id, agent_id).messages)
        found = [SessionMessage.from_dict(each[_WHOLE]) for each in turns if _WHOLE in each]
        found.sort(key=lambda each: each.message_id)  # a replaced message is appended
        return found[offset : None if limit is None else offset + limit]

    def _conversation(self, session_id: str, agent_id: str) -> Conversation:
        name = session_id if agent_id == "default" else f"{session_id}/{agent_id}"
        return self._memory.conversation(name)

    def _read(self, path: str) -> dict[str, Any] | None:
        text = self._portal.call(self._documents.texts, path).get(path)
        return None if text is None else orjson.loads(text)

    def _write(self, path: str, fields: dict[str, Any], *, is_new: bool) -> None:
        text = orjson.dumps(_json(fields)).decode()
        self._portal.call(lambda: self._documents.write(path, text, must_be_new=is_new))


_WHOLE = "strands"
"""The key of the whole message in a stored one."""


def _json(fields: dict[str, Any]) -> Any:
    return orjson.loads(orjson.dumps(fields))


def _session_path(session_id: str) -> str:
    return f"/{quote(session_id, safe='')}/session.json"


def _agent_path(session_id: str, agent_id: str) -> str:
    return f"/{quote(session_id, safe='')}/agents/{quote(agent_id, safe='')}.json"


def chat_of(messages: Iterable[Message], *, is_whole: bool = False) -> list[dict[str, object]]:
    """Convert messages to the format of chat completions; `is_whole` keeps those without a text."""
    texts = (
        (each["role"], "\n".join(part["text"] for part in each["content"] if "text" in part))
        for each in messages
    )
    return [{"role": role, "content": text} for role, text in texts if text or is_whole]
