"""The memory service in ADK's own Runner, with a model in this process."""

from collections.abc import AsyncGenerator
from importlib.util import find_spec
from typing import Any

import pytest

if find_spec("google") is None or find_spec("google.adk") is None:
    pytest.skip("make frameworks ONLY=google-adk", allow_module_level=True)

from google.adk.agents import LlmAgent
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools import load_memory, preload_memory
from google.genai.types import Content, Part
from pydantic import PrivateAttr

from factmem.integrations.google_adk import FactmemMemoryService
from factmem.memory.agent_memory import AgentMemory
from factmem.models.places import MemorySubject
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.adapters import AdapterContract, AdapterHost
from factmem.testing.chat import ScriptedChatModel
from tests.world import vim_memory

pytestmark = pytest.mark.anyio
USER = MemorySubject("user", "The person who talks to the agent", 1, per_entity=True)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # ADK runs on asyncio only


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


class TestFactmemMemoryService(AdapterContract):
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
    with pytest.raises(ValueError, match="limit=10"):
        FactmemMemoryService(AgentMemory(InMemoryProvider(), subjects=[USER]), limit=0)


async def test_gemini_understands_the_schemas_of_the_tools() -> None:
    """ADK offers tools of MCP servers to Gemini by this converter."""
    from google.adk.tools._gemini_schema_util import _to_gemini_schema

    for tool in (await vim_memory({"facts": []})).of("alice").tools(save=True):
        converted = _to_gemini_schema(tool.schema)
        properties = converted.properties or {}
        assert set(properties) == set(tool.schema["properties"])
        assert all(each.type or each.any_of for each in properties.values())
