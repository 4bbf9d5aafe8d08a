"""The memory store in Strands' MemoryManager, with a model in this process."""

from collections.abc import AsyncIterator
from importlib.util import find_spec
from typing import Any

import pytest

if find_spec("strands") is None:
    pytest.skip("make frameworks ONLY=strands", allow_module_level=True)

from strands import Agent
from strands.memory import MemoryManager
from strands.models import Model

from factmem.errors import UnboundSubjectError
from factmem.integrations.strands import FactmemMemoryStore
from factmem.memory.agent_memory import AgentMemory
from factmem.testing.adapters import AdapterContract, AdapterHost
from tests.world import vim_memory

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # Strands runs on asyncio only


class Echo(Model):
    """Answers "Ok.", and records its requests."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def update_config(self, **_: Any) -> None: ...

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(
        self, messages: Any, tool_specs: Any = None, system_prompt: Any = None, **_: Any
    ) -> AsyncIterator[Any]:
        self.sent.append(str([messages, system_prompt]))
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": "Ok."}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


class Host(AdapterHost):
    def __init__(self, memory: AgentMemory, options: dict[str, Any]) -> None:
        self.memory, self.options = memory, options
        self.agents: dict[str, Agent] = {}

    async def say(self, user: str, text: str) -> str:
        if user not in self.agents:
            store = FactmemMemoryStore(self.memory, user=user, **self.options)
            manager = MemoryManager(stores=[store], add_tool_config=True)
            self.agents[user] = Agent(Echo(), memory_manager=manager, callback_handler=None)
        agent = self.agents[user]
        await agent.invoke_async(text)
        model: Any = agent.model
        return str(model.sent[-1])

    async def stored(self) -> str:
        return str([agent.messages for agent in self.agents.values()])

    async def learn(self, user: str) -> None:
        manager: Any = self.agents[user].memory_manager
        await manager.flush()


class TestFactmemMemoryStore(AdapterContract):
    async def new_host(self, memory: AgentMemory, **options: Any) -> Host:
        return Host(memory, options)


async def test_a_note_of_the_model_is_found() -> None:
    memory = await vim_memory()
    manager = MemoryManager(stores=[FactmemMemoryStore(memory, user="alice")], add_tool_config=True)
    await manager.add("Alice has a cat named Miso")

    (found,) = await manager.search("Which cat?")
    assert found.content == 'A note of the application: "Alice has a cat named Miso"'
    assert found.store_name == "factmem"
    assert found.metadata is not None
    assert found.metadata["relevance"] > 0
    assert await MemoryManager(stores=[FactmemMemoryStore(memory, user="bob")]).search("cat") == []


async def test_a_store_that_is_not_writable_detects_nothing() -> None:
    memory = await vim_memory({"facts": []})
    assert FactmemMemoryStore(memory, user="alice", auto_detect=True).extraction
    assert not FactmemMemoryStore(memory, user="alice", auto_detect=True, writable=False).extraction
    with pytest.raises(UnboundSubjectError):
        FactmemMemoryStore(memory)
