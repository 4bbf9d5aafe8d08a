"""Memory for Microsoft's Agent Framework: facts, tools, detection after a run, and sessions.

    provider = FactmemContextProvider(memory, user=lambda session: session.state["user"])
    history = ConversationHistory(memory, user=lambda session: session.state["user"])
    agent = Agent(client=client, context_providers=[history, provider])

It needs the extra `agent-framework`.

A stored message has a role and a text, to learn from, and the whole message of the framework, from
which it is restored. One provider serves all users: nothing of a run is kept between its two hooks.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import orjson
from agent_framework import (
    AgentSession,
    ContextProvider,
    FunctionTool,
    HistoryProvider,
    Message,
    SessionContext,
)
from typing_extensions import Unpack

from factmem.errors import InputValueError
from factmem.integrations._placement import checked_placement
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.conversations import Conversation
from factmem.memory.runs import MemoryRuns, Placement, RunOptions, Who
from factmem.memory.tools import MemoryTool
from factmem.models.places import MemoryScope

__all__ = ["SESSIONS", "ConversationHistory", "FactmemContextProvider", "FactmemSessionStore"]

SESSIONS = MemoryScope.Feature("agent-framework")
"""The default scope of the snapshots of sessions."""


class FactmemContextProvider(ContextProvider):
    """The memory of a run's user, for `Agent(context_providers=[...])` and any number of runs.

    The facts are loaded once for each run, and detected once for each turn, however often an agent
    loops. The framework stores none of them in a session. With `conversations` and a
    `ConversationHistory` of the same agent, the history stores the messages.

    Args:
        placement: `instructions` puts the facts after the agent's instructions, `message` into a
            user message before those of the run.
        source_id: The framework's name for the provider; two of one agent need different ones.
        **options: See `MemoryRuns`. `user` gets the `AgentSession`.
    """

    after_run_once_per_turn = True

    def __init__(
        self,
        memory: AgentMemory,
        *,
        placement: Placement = "instructions",
        source_id: str = "factmem",
        **options: Unpack[RunOptions[AgentSession]],
    ) -> None:
        super().__init__(source_id)
        self.runs: MemoryRuns[AgentSession] = MemoryRuns(memory, **options)
        self._placement = checked_placement(placement)

    async def before_run(
        self, *, agent: Any, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Add the user's facts and the tools of the memory to a run."""
        if session.session_id:  # raises for a wrong name before the model is called
            self.runs.named(session.session_id)
        facts = await self.runs.prompt(session, chat_of(context.input_messages))
        if facts and self._placement == "message":
            context.extend_messages(self.source_id, [Message("user", [facts])])
        elif facts:
            context.extend_instructions(self.source_id, facts)
        # Made for each run, because the framework tells a tool nothing about its session.
        context.extend_tools(self.source_id, [_tool(each, session) for each in self.runs.tools()])

    async def after_run(
        self, *, agent: Any, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Detect facts in the run's messages. The framework does not call it after a failed run."""
        if not self.runs.is_learning or context.response is None:
            return
        earlier = chat_of(
            message
            for source, messages in context.context_messages.items()
            if source != self.source_id
            for message in messages
        )
        # What a loop says to its agent between two answers is no word of the user.
        answers = [each for each in context.response.messages if str(each.role) != "user"]
        new = chat_of([*context.input_messages, *answers])
        await self.runs.learn(
            session,
            [*earlier, *new],
            since=len(earlier),
            conversation=session.session_id,
            is_stored=await _is_stored(agent, session, context),
        )


async def _is_stored(agent: Any, session: AgentSession, context: SessionContext) -> bool:
    """Return whether a history adapter of an agent stores its messages; let it do so at once.

    The framework calls the providers in reverse, so the history may be the last one.
    """
    own = [
        each
        for each in getattr(agent, "context_providers", ())
        if isinstance(each, ConversationHistory)
    ]
    for history in own:
        await history.after_run(agent=agent, session=session, context=context, state={})
    return bool(own)


class ConversationHistory(HistoryProvider):
    """The history of sessions, in the user's conversations: `Agent(context_providers=[...])`.

    A conversation has the id of its session. It is encrypted, restricted by views, erased and, by
    `MemoryConversations.learn`, learnt from like any other. The messages of a run are stored in one
    durable write, after the run. Without it the framework keeps the messages in the session's
    state.

    Args:
        user: The user of all sessions, or a function of the `AgentSession`. See `Who`.
        last: The maximum of messages that a run gets; all by default.
        source_id: The framework's name for the provider.
    """

    def __init__(
        self,
        memory: AgentMemory,
        *,
        user: Who | Callable[[AgentSession], Who] = None,
        last: int | None = None,
        source_id: str = "factmem-history",
    ) -> None:
        super().__init__(source_id)
        self._runs = MemoryRuns[AgentSession](memory, user=user, tools=False)
        self._last = last

    async def before_run(
        self, *, agent: Any, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Load the messages of the session."""
        await super().before_run(
            agent=agent, session=session, context=context, state={_SESSION: session}
        )

    async def after_run(
        self, *, agent: Any, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Store the messages of the run, once."""
        if context.metadata.setdefault(_STORED, False):
            return
        context.metadata[_STORED] = True
        await super().after_run(
            agent=agent, session=session, context=context, state={_SESSION: session}
        )

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """Return the messages of a session, oldest first."""
        stored = await self._conversation(session_id, state).messages(last=self._last)
        return [Message.from_dict(each[_WHOLE]) for each in stored if _WHOLE in each]

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Store messages, and queue the session for learning."""
        whole = [{"role": str(m.role), "content": m.text, _WHOLE: m.to_dict()} for m in messages]
        await self._conversation(session_id, state).append(*orjson.loads(orjson.dumps(whole)))

    def _conversation(self, session_id: str | None, state: dict[str, Any] | None) -> Conversation:
        session = (state or {}).get(_SESSION) or AgentSession(session_id=session_id)
        return self._runs.view(session).conversation(session_id or session.session_id)


_STORED = "factmem_stored"
"""Marks the run whose messages are stored."""

_SESSION, _WHOLE = "session", "agent_framework"
"""The key of the session in the state of a call, and of the whole message in a stored one."""


class FactmemSessionStore:
    """The snapshots of sessions of one user, as documents: a `SessionStore` of the framework.

    Args:
        memory: A view of one user, such as `memory.of("alice")`.
        scope: The scope of the snapshots; do not store facts in it.
    """

    def __init__(self, memory: AgentMemory, *, scope: MemoryScope = SESSIONS) -> None:
        self._documents = memory.documents(scope)

    async def get(self, session_id: str) -> AgentSession | None:
        """Return a stored session; None if there is none."""
        path = _path(session_id)
        text = (await self._documents.texts(path)).get(path)
        return None if text is None else AgentSession.from_dict(orjson.loads(text))

    async def set(self, session_id: str, session: AgentSession) -> None:
        """Store a session, in place of an earlier one."""
        text = orjson.dumps(session.to_dict()).decode()
        await self._documents.write(_path(session_id), text)

    async def delete(self, session_id: str) -> None:
        """Remove a session, if it is stored."""
        with suppress(FileNotFoundError):
            await self._documents.remove(_path(session_id))


def _path(session_id: str) -> str:
    if not session_id:
        raise InputValueError("session_id must not be empty: get('chat-7')")
    return f"/{quote(session_id, safe='')}.json"


def chat_of(messages: Iterable[Message]) -> list[dict[str, object]]:
    return [{"role": str(each.role), "content": each.text} for each in messages if each.text]


def _tool(tool: MemoryTool, session: AgentSession) -> FunctionTool:
    async def call(**arguments: Any) -> str:
        return await tool.call(arguments, session)

    return FunctionTool(
        name=tool.name, description=tool.description, func=call, input_model=tool.schema
    )
