"""Services of Google's Agent Development Kit: a memory, and its sessions as conversations.

    service, sessions = FactmemMemoryService(memory), FactmemSessionService(memory)
    runner = Runner(app_name="shop", agent=agent, memory_service=service, session_service=sessions)

It needs the extra `google-adk`.

The first message of a stored session has its first state, every other one an event: the text, to
learn from, and the whole event, from which it is restored. The state is folded from the events at
each read. Messages have the ids of events, so that a repeated call stores nothing twice.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any
from uuid import uuid4

import orjson
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.base_session_service import (
    BaseSessionService,
    GetSessionConfig,
    ListSessionsResponse,
)
from google.adk.sessions.session import Session
from google.adk.sessions.state import State
from google.genai.types import Content, Part
from pydantic import JsonValue
from typing_extensions import Unpack

from factmem.memory.agent_memory import AgentMemory
from factmem.memory.conversations import Conversation
from factmem.memory.runs import UNREACHABLE, MemoryRuns, RunOptions, Who
from factmem.models.facts import Concept, FactType, SingleFact
from factmem.models.places import MemoryScope, MemorySubject
from factmem.recall.match import Match

__all__ = ["FactmemMemoryService", "FactmemSessionService"]


class FactmemMemoryService(BaseMemoryService):
    """The facts of ADK's users: each application is a product scope, each user an entity.

    A search recalls facts, `add_memory` saves notes, `delete_memory` forgets a fact, the other two
    methods detect facts in what the user said. This object reads each event of a session once. With
    `conversations`, an event that `FactmemSessionService` has stored is not stored again.

    Args:
        memory: The memory. Its subjects are bound to the user, and its scopes are not used.
        **options: See `MemoryRuns`; ADK brings the tools `preload_memory` and `load_memory`. `user`
            gets the names of the application and of the user, and by default returns the second.
            `recall` is the most facts that a search returns, 10 by default.
    """

    def __init__(self, memory: AgentMemory, **options: Unpack[RunOptions[tuple[str, str]]]) -> None:
        options.setdefault("user", itemgetter(1))
        options["tools"] = False
        self._runs = _Runs(memory, **options)
        self._limit = options.get("recall") or 10
        self._is_keeping = bool(options.get("conversations"))
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
        key, said = (*user, session.id), _said(session.events)
        since, self._seen[key] = self._seen.get(key, 0), len(said)
        await self._learn(user, said, since, session.id)

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
        await self._learn((app_name, user_id), _said(events), 0, session_id)

    async def _learn(
        self, user: tuple[str, str], said: Sequence[Event], since: int, name: str | None
    ) -> None:
        is_stored = False
        if name is not None and self._is_keeping:
            last = self._runs.view(user).conversation(name).turns
            turns = await self._runs.attempt(lambda: last(last=1)) or []
            is_stored = any({_STATE, _EVENT} & turn.message.keys() for turn in turns)
        await self._runs.learn(
            user,
            chat_of(said),
            since=since,
            conversation=name,
            ids=[each.id for each in said[since:]],
            is_stored=is_stored,
        )

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Forget a fact of the user, by the `id` of an entry of `search_memory`."""
        if memory_id is not None:
            await self._runs.view((app_name, user_id)).contents.delete(memory_id)


class FactmemSessionService(BaseSessionService):
    """The sessions of ADK's users, in conversations: durable, encrypted, erased with the user.

    Each event is stored in one durable write, once, and the session is queued for
    `MemoryConversations.learn`. The state of a session is that of its events. What begins with
    `user:` or `app:` is in a scope of its own for each application, in the place of the user or of
    `EVERYTHING`. Use the `memory_service` for facts: the events are text as it was written.

    Args:
        memory: The memory, without restriction to scopes. Its subjects are bound to the user.
        user: A function of the names of the application and of the user; by default the second.
    """

    def __init__(
        self, memory: AgentMemory, *, user: Callable[[tuple[str, str]], Who] = itemgetter(1)
    ) -> None:
        self._memory = memory
        self._runs = _Runs(memory, user=user, tools=False)

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Store a new session.

        Raises:
            AlreadyExistsError: There is a session with this id.
        """
        given = state or {}
        own = {k: v for k, v in given.items() if not k.startswith((*_SHARED, State.TEMP_PREFIX))}
        chat = self._chat(app_name, user_id, (session_id or "").strip() or uuid4().hex)
        first = {"role": "system", "content": "", _STATE: own}
        stored = [] if await chat.turns(last=1) else await chat.append(_json(first), ids=[_STATE])
        if not stored:
            raise AlreadyExistsError(f"Session with id {chat.id} already exists.")
        await self._share(app_name, user_id, given)
        state = own | await self._shared(app_name, user_id)
        return Session(
            id=chat.id,
            app_name=app_name,
            user_id=user_id,
            state=_json(state),
            last_update_time=stored[0].said_at.timestamp(),
        )

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Return a session with its state and events; None if there is none."""
        session = await self._stored(app_name, user_id, session_id)
        if session is None or config is None:
            return session
        events = session.events
        if config.after_timestamp is not None:
            events = [each for each in events if each.timestamp >= config.after_timestamp]
        if config.num_recent_events is not None:
            events = events[max(len(events) - config.num_recent_events, 0) :]
        session.events = events
        return session

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """Return the sessions of a user with their state and without events, the latest last.

        Raises:
            ValueError: There is no user: the sessions of all users cannot be listed.
        """
        if user_id is None:
            raise ValueError("list_sessions needs the user: user_id='alice'")
        infos = await self._runs.view((app_name, user_id)).conversations.infos()
        stored = [await self._stored(app_name, user_id, each.id) for each in infos]
        sessions = sorted(filter(None, stored), key=lambda each: each.last_update_time)
        for session in sessions:
            session.events = []
        return ListSessionsResponse(sessions=sessions)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Remove a session physically. Facts that were learnt from it stay."""
        await self._chat(app_name, user_id, session_id).clear()

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state that all sessions of a user share, without the prefix."""
        shared, mine = await self._shared(app_name, user_id), State.USER_PREFIX
        return {k.removeprefix(mine): value for k, value in shared.items() if k.startswith(mine)}

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store an event, and change the session and its state. A repeated call changes nothing.

        Raises:
            ValueError: The session is not stored.
        """
        if event.partial:
            return event
        chat = self._chat(session.app_name, session.user_id, session.id)
        if not await chat.turns(last=1):
            raise ValueError(f"Session {session.id} not found: call create_session before")
        if event.id in {each.id for each in session.events}:
            return event
        event = await super().append_event(session, event)
        (said,) = chat_of([event]) or [{"role": "tool", "content": ""}]
        whole = orjson.loads(event.model_dump_json(exclude_none=True))
        if await chat.append({**said, _EVENT: whole}, ids=[event.id]):
            await self._share(session.app_name, session.user_id, event.actions.state_delta)
        session.last_update_time = event.timestamp
        return event

    def _chat(self, app_name: str, user_id: str, session_id: str) -> Conversation:
        return self._runs.view((app_name, user_id)).conversation(session_id.strip())

    async def _stored(self, app_name: str, user_id: str, session_id: str) -> Session | None:
        chat = self._chat(app_name, user_id, session_id)
        turns = await chat.turns()
        if not turns:
            return None
        messages = [turn.message for turn in turns]
        said = [orjson.dumps(each[_EVENT]) for each in messages if _EVENT in each]
        events = [Event.model_validate_json(each) for each in said]
        state = dict(messages[0].get(_STATE, {}))
        for event in events:
            state |= event.actions.state_delta
        at = events[-1].timestamp if events else turns[-1].said_at.timestamp()
        own = {key: value for key, value in state.items() if not key.startswith(_SHARED)}
        state = own | await self._shared(app_name, user_id)
        given: dict[str, Any] = {"state": state, "events": events, "last_update_time": at}
        return Session(id=chat.id, app_name=app_name, user_id=user_id, **given)

    def _subjects(self, app_name: str, user_id: str) -> dict[str, MemorySubject]:
        """Return the subjects of the shared state, by its prefix."""
        (user,) = self._runs.view((app_name, user_id)).subjects[:1]
        return {State.USER_PREFIX: user, State.APP_PREFIX: MemorySubject.EVERYTHING}

    async def _shared(self, app_name: str, user_id: str) -> dict[str, Any]:
        store, subjects = self._memory.store, self._subjects(app_name, user_id).values()
        facts = [f for each in subjects for f in await store.load_all(each, _scope(app_name))]
        return {fact.concept.keyword: fact.values[0] for fact in facts}

    async def _share(self, app_name: str, user_id: str, delta: Mapping[str, Any]) -> None:
        store, scope = self._memory.store, _scope(app_name)
        for prefix, subject in self._subjects(app_name, user_id).items():
            for key in (each for each in delta if each.startswith(prefix)):
                if delta[key] is None:
                    await store.forget(subject, scope, concept=_kept(key))
                else:
                    await store.save(SingleFact(_kept(key), _json(delta[key])), subject, scope)


_STATE, _EVENT = "adk_state", "adk_event"
"""The keys of stored messages: the first state of a session, and a whole event."""

_SHARED = (State.USER_PREFIX, State.APP_PREFIX)


def _scope(app_name: str) -> MemoryScope:
    return MemoryScope.Feature(f"adk-{app_name}")


def _kept(key: str) -> Concept[Any, Any]:
    value_type: object = JsonValue
    kind = FactType(FactType.SINGLE)  # not a literal type, because values have any type
    return Concept(key, "State of an application", kind, value_type=value_type, detect=False)


def _json(given: Any) -> Any:
    return orjson.loads(orjson.dumps(given))


class _Runs(MemoryRuns[tuple[str, str]]):
    def view(self, context: tuple[str, str]) -> AgentMemory:
        return super().view(context).view(scopes=[MemoryScope.Product(context[0])])


def _said(events: Iterable[Event]) -> list[Event]:
    """Return the events with words."""
    return [each for each in events if not each.partial and _text(each.content)]


def chat_of(events: Iterable[Event]) -> list[dict[str, object]]:
    return [
        {
            "role": "user" if event.author == "user" else "assistant",
            "content": _text(event.content),
            "timestamp": datetime.fromtimestamp(event.timestamp, UTC).isoformat(),
        }
        for event in _said(events)
    ]


def _text(content: Content | None) -> str:
    parts = content.parts or [] if content else []
    return " ".join(part.text for part in parts if part.text and not part.thought)


def _entry(text: str, match: Match | None = None) -> MemoryEntry:
    content = Content(role="user", parts=[Part(text=text)])
    entry = MemoryEntry(author="memory", content=content)
    if match is not None:
        entry.id, entry.timestamp = match.fact.id, match.fact.timestamp.isoformat()
    return entry
