"""A memory store for Strands Agents: search, notes, and detection in the chat; and its sessions.

    store = FactmemMemoryStore(memory, user="alice", auto_detect=True)
    agent = Agent(memory_manager=MemoryManager(stores=[store], add_tool_config=True))

    repository = FactmemSessionRepository(memory.of("alice"))
    agent = Agent(session_manager=RepositorySessionManager("chat-7", repository))

It needs the extra `strands`.

A stored message has a role and a text, to learn from, and the whole message of Strands, from which
it is restored.
"""

import builtins
import re
from base64 import b85decode, b85encode
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote

import anyio
import orjson
from strands import Agent
from strands.hooks.events import AfterInvocationEvent
from strands.hooks.registry import HookOrder
from strands.memory.extraction import types as extraction
from strands.memory.types import AddMessagesContext, MemoryEntry, MemoryStore, SearchOptions
from strands.multiagent.base import MultiAgentBase
from strands.session.session_repository import SessionRepository
from strands.types.content import Message
from strands.types.session import Session, SessionAgent, SessionMessage
from typing_extensions import Unpack

from factmem.errors import InputValueError
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.conversations import Conversation
from factmem.memory.runs import UNREACHABLE, MemoryRuns, RunOptions
from factmem.models.facts import new_id
from factmem.models.places import MemoryScope
from factmem.sync.portal import SHARED_PORTAL

__all__ = [
    "SESSIONS",
    "STORAGE",
    "FactmemMemoryStore",
    "FactmemSessionRepository",
    "FactmemStorage",
]

SESSIONS = MemoryScope.Feature("strands")
"""The default scope of the state of sessions and agents."""

_LOOK = 0.02
"""Seconds between two checks whether messages were learnt: a model takes a second."""

STORAGE = MemoryScope.Feature("strands-storage")
"""The default scope of `FactmemStorage`."""


class FactmemMemoryStore(MemoryStore):
    """One user's facts for `MemoryManager(stores=[...])`.

    The manager searches it for each of the user's messages, and gives the model its tools
    `search_memory` and, with `add_tool_config=True`, `add_memory`, which saves a note. With
    `auto_detect` or `conversations`, what was said is learnt at the end of each invocation, before
    it returns. With `FactmemSessionRepository` in the same agent, its session stores the messages.

    Args:
        conversation: The application's name for the chat, in the source of detected facts; by
            default that of the agent's session, or one of its own.
        name: The manager's name for the store.
        description: What the store is for, in the tools' descriptions.
        writable: Whether the model may save notes.
        **options: See `MemoryRuns`; the manager brings the tools. Strands has no context of a run,
            so `user` is a name or a function that ignores its argument. `recall` is the most facts
            that a search returns, 5 by default.
    """

    def __init__(
        self,
        memory: AgentMemory,
        *,
        conversation: str | None = None,
        name: str = "factmem",
        description: str = "Facts about the user from earlier conversations",
        writable: bool = True,
        **options: Unpack[RunOptions[None]],
    ) -> None:
        options["tools"] = False
        self.runs: MemoryRuns[None] = MemoryRuns(memory, **options)
        self._conversation = conversation and self.runs.named(conversation)
        self.name = name
        self.description: str | None = description
        self.max_search_results: int | None = options.get("recall") or 5
        self.writable = writable
        self._is_stored = False
        is_learning = writable and self.runs.is_learning
        self.extraction: bool | extraction.ExtractionConfig | None = False
        if is_learning:  # else the manager does not call `add_messages`
            self.extraction = extraction.ExtractionConfig(trigger=[_EachInvocation(self.attached)])

    def attached(self, agent: Agent) -> None:
        """Take the name of the session of an agent, if its messages are stored here as well."""
        sessions = getattr(agent, "_session_manager", None)
        repository = getattr(sessions, "session_repository", None)
        if isinstance(repository, FactmemSessionRepository) and sessions is not None:
            name = _name(sessions.session_id, agent.agent_id)
            self._is_stored = self._conversation in (None, name)
            self._conversation = self._conversation or name
        self._conversation = self._conversation or f"strands-{new_id()}"

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
        chat = chat_of(messages)
        await self.runs.learn(
            None, chat, conversation=self._conversation, is_stored=self._is_stored
        )


class _EachInvocation(extraction.ExtractionTrigger):
    """Learns what was said before an invocation of the agent returns.

    The triggers of Strands save in the background, every five invocations by default: a short chat
    is never saved, and the end of the event loop cancels the rest.
    """

    name = "factmem"

    def __init__(self, attached: Callable[[Agent], None]) -> None:
        self._attached = attached

    def attach(self, context: extraction.ExtractionTriggerContext) -> None:
        """Add the hook of an agent."""
        self._attached(context.agent)

        async def learn(event: AfterInvocationEvent) -> None:
            before = _tasks()
            context.fire()  # begins a task, unless earlier ones have failed again and again
            new = _tasks() - before
            # Nothing of the manager tells when one of its stores is done.
            while new & _tasks():  # noqa: ASYNC110
                await anyio.sleep(_LOOK)

        context.agent.add_hook(learn, AfterInvocationEvent, order=HookOrder.SDK_LAST)


def _tasks() -> set[int]:
    return {each.id for each in anyio.get_running_tasks()}


class FactmemSessionRepository(SessionRepository):
    """The sessions of one user, for Strands' `RepositorySessionManager`.

    The messages of an agent are a conversation: encrypted, restricted by views, erased with the
    user and, by `MemoryConversations.learn`, learnt from. Its name is that of the session; of
    another agent than Strands' "default" it is `session/agent`. The state is in documents of a
    scope of its own. A message that a guardrail redacts is removed physically. Strands is
    synchronous here: each method runs in a portal.

    Args:
        memory: A view of one user, such as `memory.of("alice")`.
        scope: The scope of the state; do not store facts in it.

    Raises:
        ValueError: The memory has several subjects, or `scope` is one of its own scopes.
        UnboundSubjectError: The subject is per entity and has no entity.
    """

    def __init__(self, memory: AgentMemory, *, scope: MemoryScope = SESSIONS) -> None:
        self._memory = memory
        self._documents = memory.documents(scope)

    def create_session(self, session: Session, **kwargs: Any) -> Session:
        """Store a new session."""
        self._write(session.to_dict(), session.session_id, is_new=True)
        return session

    def read_session(self, session_id: str, **kwargs: Any) -> Session | None:
        """Return a session; None if there is none."""
        found = self._read(session_id)
        return None if found is None else Session.from_dict(found)

    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Store the state of a new agent."""
        self._write(session_agent.to_dict(), session_id, session_agent.agent_id, is_new=True)

    def read_agent(self, session_id: str, agent_id: str, **kwargs: Any) -> SessionAgent | None:
        """Return the state of an agent; None if there is none."""
        found = self._read(session_id, agent_id)
        return None if found is None else SessionAgent.from_dict(found)

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Replace the state of an agent."""
        self._write(session_agent.to_dict(), session_id, session_agent.agent_id)

    def create_multi_agent(
        self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any
    ) -> None:
        """Store the state of a new graph or swarm."""
        state = multi_agent.serialize_state()
        self._write(state, session_id, multi_agent.id, "graphs", is_new=True)

    def read_multi_agent(
        self, session_id: str, multi_agent_id: str, **kwargs: Any
    ) -> dict[str, Any] | None:
        """Return the state of a graph or swarm; None if there is none."""
        return self._read(session_id, multi_agent_id, "graphs")

    def update_multi_agent(
        self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any
    ) -> None:
        """Replace the state of a graph or swarm."""
        self._write(multi_agent.serialize_state(), session_id, multi_agent.id, "graphs")

    def create_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Store a message, and queue the conversation for learning.

        A repeated call changes nothing.
        """
        (chat,) = chat_of([session_message.to_message()], is_whole=True)
        message = {**chat, _WHOLE: orjson.loads(orjson.dumps(session_message.to_dict()))}
        name = str(session_message.message_id)
        chat_at = self._conversation(session_id, agent_id)
        SHARED_PORTAL.call(lambda: chat_at.append(message, ids=[name]))

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
        SHARED_PORTAL.call(chat_at.remove, str(session_message.message_id))
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
        turns = SHARED_PORTAL.call(self._conversation(session_id, agent_id).messages)
        found = [SessionMessage.from_dict(each[_WHOLE]) for each in turns if _WHOLE in each]
        found.sort(key=lambda each: each.message_id)  # a replaced message is appended
        return found[offset : None if limit is None else offset + limit]

    def _conversation(self, session_id: str, agent_id: str) -> Conversation:
        return self._memory.conversation(_name(session_id, agent_id))

    def _read(self, *names: str) -> dict[str, Any] | None:
        path = _path(*names)
        text = SHARED_PORTAL.call(self._documents.texts, path).get(path)
        return None if text is None else orjson.loads(text)

    def _write(self, fields: dict[str, Any], *names: str, is_new: bool = False) -> None:
        path, text = _path(*names), orjson.dumps(fields).decode()
        SHARED_PORTAL.call(lambda: self._documents.write(path, text, must_be_new=is_new))


class FactmemStorage:
    """One user's bytes as a `Storage` of Strands: snapshots of sessions and offloaded results.

    Each key is a document, in a scope of its own: encrypted, restricted by views, erased with the
    user. Replaced and deleted bytes stay in its history until `memory.contents.tidy` removes that.

    Args:
        memory: A view of one user, such as `memory.of("alice")`.
        scope: The scope of the documents; do not store facts in it.
    """

    def __init__(self, memory: AgentMemory, *, scope: MemoryScope = STORAGE) -> None:
        self._documents = memory.documents(scope)

    async def write(self, key: str, data: bytes) -> None:
        """Store bytes under a key, in place of earlier ones."""
        await self._documents.write(_key_path(key), b85encode(data).decode())

    async def read(self, key: str) -> bytes | None:
        """Return the bytes of a key; None if there are none."""
        path = _key_path(key)
        text = (await self._documents.texts(path)).get(path)
        return None if text is None else b85decode(text)

    async def delete(self, key: str) -> None:
        """Remove the bytes of a key, if there are any."""
        with suppress(FileNotFoundError):
            await self._documents.remove(_key_path(key))

    async def list(self, query: str) -> builtins.list[str]:
        """Return the keys with a prefix, sorted."""
        keys = (unquote(path[1:]) for path in await self._documents.texts("/"))
        return sorted(key for key in keys if key.startswith(query))

    async def search(self, query: str) -> builtins.list[Any]:
        """Return the keys whose content has words of the query, as Strands' own storages do."""
        from strands.storage.search.keyword import KeywordSearchStrategy  # of newer versions

        found: list[Any] = await KeywordSearchStrategy().search(self, query)
        return found


def _key_path(key: str) -> str:
    if not key.strip("/") or "\\" in key or ".." in key.split("/"):
        from strands.types import exceptions

        # Older versions have no storages, and so no error of theirs.
        error: type[Exception] = getattr(exceptions, "StorageError", InputValueError)
        raise error("A key must not be empty, and have no backslash and no '..'")
    # A document cannot be a folder too, and a key can.
    return "/" + re.sub("/+", "/", key).strip("/").replace("%", "%25").replace("/", "%2F")


def _name(session_id: str, agent_id: str) -> str:
    """Return the name of the conversation of an agent in a session."""
    return session_id if agent_id == "default" else f"{session_id}/{agent_id}"


_WHOLE = "strands"
"""The key of the whole message in a stored one."""


def _path(session_id: str, agent_id: str | None = None, kind: str = "agents") -> str:
    """Return the path of the state of a session, or of an agent or a graph in it."""
    own = "session" if agent_id is None else f"{kind}/{quote(agent_id, safe='')}"
    return f"/{quote(session_id, safe='')}/{own}.json"


def chat_of(messages: Iterable[Message], *, is_whole: bool = False) -> list[dict[str, object]]:
    """Convert messages to the format of chat completions; `is_whole` keeps those without a text."""
    texts = (
        (each["role"], "\n".join(part["text"] for part in each["content"] if "text" in part))
        for each in messages
    )
    return [{"role": role, "content": text} for role, text in texts if text or is_whole]
