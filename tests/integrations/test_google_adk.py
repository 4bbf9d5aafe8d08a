"""The memory service in ADK's own Runner, with a model in this process."""

from collections.abc import AsyncGenerator
from importlib.util import find_spec
from typing import Any

import pytest

if find_spec("google") is None or find_spec("google.adk") is None:
    pytest.skip("make frameworks ONLY=google-adk", allow_module_level=True)

from google.adk.agents import LlmAgent
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events import Event, EventActions
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.tools import load_memory, preload_memory
from google.genai.types import Blob, Content, Part
from pydantic import PrivateAttr

from factmem.integrations.google_adk import FactmemMemoryService, FactmemSessionService
from factmem.memory.agent_memory import AgentMemory
from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.adapters import AdapterContract, AdapterHost
from factmem.testing.chat import ScriptedChatModel
from tests.integrations.killed_workers import KilledWorkers
from tests.world import vim_memory

USER = MemorySubject("user", "The person who talks to the agent", 1, per_entity=True)


def content(text: str) -> Content:
    return Content(role="user", parts=[Part(text=text)])


class Model(BaseLlm):
    """Answers "Ok.", and records its requests."""

    model: str = "test"
    _sent: list[str] = PrivateAttr(default_factory=list)

    async def generate_content_async(
        self, llm_request: Any, stream: bool = False
    ) -> AsyncGenerator[LlmResponse]:
        self._sent.append(str(llm_request))
        yield LlmResponse(content=Content(role="model", parts=[Part(text="Ok.")]))


class Host(AdapterHost):
    def __init__(self, service: FactmemMemoryService) -> None:
        self.service = service
        self.sessions = InMemorySessionService()

    async def session(self, user: str) -> Any:
        name = {"app_name": "contract", "user_id": user, "session_id": user}
        found = await self.sessions.get_session(**name)
        return found or await self.sessions.create_session(**name)

    async def say(self, user: str, text: str) -> str:
        await self.session(user)
        model = Model()
        agent = LlmAgent(name="desk", model=model, tools=[preload_memory, load_memory])
        runner = Runner(
            app_name="contract",
            agent=agent,
            session_service=self.sessions,
            memory_service=self.service,
        )
        async for _ in runner.run_async(user_id=user, session_id=user, new_message=content(text)):
            pass
        return model._sent[-1]

    async def stored(self) -> str:
        return "".join([str(await self.session(user)) for user in ("alice", "bob")])

    async def learn(self, user: str) -> None:
        await self.service.add_session_to_memory(await self.session(user))


class TestFactmemMemoryService(KilledWorkers, AdapterContract):
    async def new_host(self, memory: AgentMemory, **options: Any) -> Host:
        return Host(FactmemMemoryService(memory, **options))


async def test_a_session_is_read_once() -> None:
    """A second call reads what was said since; without events there is no call to the model."""
    model = ScriptedChatModel({"facts": []}, {"facts": []})
    memory = AgentMemory(InMemoryProvider(), chat_model=model, subjects=[USER])
    host = Host(FactmemMemoryService(memory, auto_detect=True))
    await host.say("alice", "I like tea.")
    for _ in range(2):
        await host.learn("alice")
    assert len(model.calls) == 1
    await host.say("alice", "And coffee.")
    await host.learn("alice")
    assert '"message": 0' not in str(model.calls[1])


async def test_texts_are_notes_of_one_user_of_one_application() -> None:
    memory = AgentMemory(InMemoryProvider(), subjects=[USER])
    service = FactmemMemoryService(memory)
    await service.add_memory(
        app_name="shop", user_id="alice", memories=[MemoryEntry(content=content("Owns a </cat>"))]
    )

    async def found(app: str, user: str) -> list[str]:
        answer = await service.search_memory(app_name=app, user_id=user, query="Which cat?")
        return [str((each.content.parts or [])[0].text) for each in answer.memories]

    assert await found("shop", "alice") == [
        'A note of the application: "Owns a \\u003c/cat\\u003e"'
    ]
    assert await found("shop", "bob") == await found("bank", "alice") == []


def test_wrong_arguments_raise() -> None:
    with pytest.raises(TypeError, match="memory must be an AgentMemory"):
        FactmemMemoryService(InMemoryProvider())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="recall=10"):
        FactmemMemoryService(AgentMemory(InMemoryProvider(), subjects=[USER]), recall=0)


async def events_of(service: FactmemSessionService, **session: Any) -> list[tuple[str, str]]:
    found = await service.get_session(app_name="shop", user_id="alice", session_id="s1", **session)
    assert found
    return [
        (each.author, str((each.content.parts or [])[0].text))
        for each in found.events
        if each.content
    ]


async def test_a_session_continues_in_another_process() -> None:
    """The model reads the chat again, and the chat waits for learning."""
    memory = await vim_memory({"facts": []})

    async def say(text: str) -> str:
        model, sessions = Model(), FactmemSessionService(memory)
        runner = Runner(
            app_name="shop",
            agent=LlmAgent(name="desk", model=model),
            session_service=sessions,
            auto_create_session=True,
        )
        new = content(text)
        async for _ in runner.run_async(user_id="alice", session_id="s1", new_message=new):
            pass
        return model._sent[-1]

    await say("My shell is fish.")
    assert "My shell is fish." in await say("Which shell?")
    service = FactmemSessionService(memory)
    said = [
        ("user", "My shell is fish."),
        ("desk", "Ok."),
        ("user", "Which shell?"),
        ("desk", "Ok."),
    ]
    assert await events_of(service) == said
    assert await events_of(service, config=GetSessionConfig(num_recent_events=1)) == said[-1:]
    assert await events_of(service, config=GetSessionConfig(num_recent_events=0)) == []
    shop = memory.of("alice").view(scopes=[MemoryScope.Product("shop")])
    kept = await shop.conversation("s1").turns()
    assert [turn.role for turn in kept] == ["system", "user", "assistant", "user", "assistant"]
    assert (await shop.conversations.pending()).pending == 1


async def test_the_state_belongs_to_the_session_the_user_or_the_application() -> None:
    memory = AgentMemory(InMemoryProvider(), subjects=[USER])
    service = FactmemSessionService(memory)
    state = {"step": 1, "user:name": "Alice", "app:tax": 0.19, "temp:x": 1}
    shop: Any = {"app_name": "shop"}
    first = await service.create_session(**shop, user_id="alice", session_id="s1", state=state)
    assert first.state == {"step": 1, "user:name": "Alice", "app:tax": 0.19}
    with pytest.raises(AlreadyExistsError):
        await service.create_session(**shop, user_id="alice", session_id="s1")

    delta = {"step": 2, "temp:y": 1, "user:name": None, "user:age": 30}
    event = Event(author="desk", actions=EventActions(state_delta=delta), content=content("Hi"))
    event.timestamp = 7.0
    for _ in range(2):  # a repeated call changes nothing
        await service.append_event(first, event)
    stale = await service.get_session(**shop, user_id="alice", session_id="s1")
    assert stale
    assert stale.state == {"step": 2, "user:age": 30, "app:tax": 0.19}
    assert (len(stale.events), stale.last_update_time) == (1, 7.0)
    assert stale.events[0] == event

    second = await service.create_session(**shop, user_id="alice")
    assert second.state == {"user:age": 30, "app:tax": 0.19}
    assert await service.get_user_state(**shop, user_id="alice") == {"age": 30}
    padded = await service.get_session(**shop, user_id="alice", session_id=" s1 ")
    assert padded == stale
    bobs = await service.create_session(**shop, user_id="bob", session_id="s1")
    assert (bobs.state, bobs.events) == ({"app:tax": 0.19}, [])
    other = await service.create_session(app_name="bank", user_id="alice", session_id="s1")
    assert other.state == {}

    listed = await service.list_sessions(**shop, user_id="alice")
    assert [(each.id, each.state) for each in listed.sessions] == [
        ("s1", stale.state),
        (second.id, second.state),
    ]
    await service.delete_session(**shop, user_id="alice", session_id="s1")
    assert await service.get_session(**shop, user_id="alice", session_id="s1") is None
    assert await service.get_session(**shop, user_id="bob", session_id="s1")
    with pytest.raises(ValueError, match="not found"):
        await service.append_event(first, Event(author="desk"))
    with pytest.raises(ValueError, match="needs the user"):
        await service.list_sessions(**shop)
    views = memory.of("alice").view(scopes=[MemoryScope.Product("shop")])
    assert await views.current() == []


async def test_pictures_of_a_session_come_back() -> None:
    memory = AgentMemory(InMemoryProvider(), subjects=[USER])
    service = FactmemSessionService(memory)
    session = await service.create_session(app_name="shop", user_id="alice", session_id="s1")
    picture = Part(inline_data=Blob(data=b"\x00\xff", mime_type="image/png"))
    event = Event(author="user", content=Content(role="user", parts=[picture]))
    await service.append_event(session, event)
    again = await service.get_session(app_name="shop", user_id="alice", session_id="s1")
    assert again
    assert again.events == [event]


async def test_gemini_understands_the_schemas_of_the_tools() -> None:
    """ADK offers tools of MCP servers to Gemini by this converter."""
    from google.adk.tools._gemini_schema_util import _to_gemini_schema

    for tool in (await vim_memory({"facts": []})).of("alice").tools(save=True):
        converted = _to_gemini_schema(tool.schema)
        properties = converted.properties or {}
        assert set(properties) == set(tool.schema["properties"])
        assert all(each.type or each.any_of for each in properties.values())


async def test_entries_have_ids_and_are_deleted() -> None:
    """Of the own user and application only; the model's `delete_memory` uses them."""
    memory = await vim_memory()
    service = FactmemMemoryService(memory)
    mine: dict[str, Any] = {"app_name": "shop", "user_id": "alice"}
    entry = MemoryEntry(content=content("Alice lives in Seoul"))
    await service.add_memory(**mine, memories=[entry])
    found = (await service.search_memory(**mine, query="Where does Alice live?")).memories

    assert found[0].id
    for other in ({**mine, "user_id": "bob"}, {**mine, "app_name": "other"}):
        await service.delete_memory(**other, memory_id=found[0].id)
    assert (await service.search_memory(**mine, query="Where does Alice live?")).memories == found
    await service.delete_memory(**mine, memory_id=found[0].id)
    await service.delete_memory(**mine, memory_id=found[0].id)
    assert not (await service.search_memory(**mine, query="Where does Alice live?")).memories


async def test_a_stored_session_is_not_stored_again() -> None:
    """Both services of one application: each message once, and a session that was made now."""
    memory = await vim_memory()
    sessions = FactmemSessionService(memory)
    service = FactmemMemoryService(memory, conversations=True)
    mine = {"app_name": "shop", "user_id": "alice", "session_id": "c1"}
    made = await sessions.create_session(**mine, state={"n": 1})
    assert made == await sessions.get_session(**mine)
    assert made.last_update_time > 0
    await sessions.append_event(made, Event(author="user", content=content("I like tea.")))
    read = await sessions.get_session(**mine)
    assert read is not None
    await service.add_session_to_memory(read)
    await service.add_events_to_memory(
        app_name="shop", user_id="alice", events=read.events, session_id="c1"
    )

    view = memory.of("alice").view(scopes=[MemoryScope.Product("shop")])
    said = await view.conversation("c1").messages()
    assert [each["content"] for each in said] == ["", "I like tea."]
    assert await sessions.get_session(**mine) == read
