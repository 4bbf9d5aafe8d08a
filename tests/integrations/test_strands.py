"""The memory store in Strands' MemoryManager, with a model in this process."""

from collections.abc import AsyncIterator
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from anyio import to_thread

if find_spec("strands") is None:
    pytest.skip("make frameworks ONLY=strands", allow_module_level=True)

from strands import Agent
from strands.memory import MemoryManager
from strands.models import Model
from strands.session.repository_session_manager import RepositorySessionManager
from strands.types.session import SessionMessage

from factmem.errors import UnboundSubjectError
from factmem.integrations.strands import (
    FactmemMemoryStore,
    FactmemSessionRepository,
    FactmemStorage,
)
from factmem.memory.agent_memory import AgentMemory
from factmem.testing.adapters import AdapterContract, AdapterHost
from tests.integrations.killed_workers import KilledWorkers
from tests.world import found_fact, vim_memory

FISH = found_fact("I use fish", "shell", "fish")


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


class TestFactmemMemoryStore(KilledWorkers, AdapterContract):
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
    with pytest.raises(ValueError, match="name of a conversation"):  # Strands would hide it later
        FactmemMemoryStore(memory, user="alice", conversations=True, conversation="a\nb")


async def test_a_session_is_restored_from_a_conversation() -> None:
    """Another process continues the chat, and its messages wait for learning."""
    memory = await vim_memory({"facts": []})

    def agent() -> Agent:
        repository = FactmemSessionRepository(memory.of("alice"))
        manager = RepositorySessionManager("chat/7", repository)
        return Agent(Echo(), session_manager=manager, callback_handler=None)

    first = agent()
    first.state.set("step", 3)
    await first.invoke_async("My shell is fish.")
    second = agent()
    await second.invoke_async("Which shell?")

    model: Any = second.model
    assert "My shell is fish." in model.sent[0]
    assert second.state.get("step") == 3
    kept = memory.of("alice").conversation("chat/7")
    assert [(turn.role, turn.text) for turn in await kept.turns()] == [
        ("user", "My shell is fish."),
        ("assistant", "Ok."),
        ("user", "Which shell?"),
        ("assistant", "Ok."),
    ]
    assert (await memory.of("alice").conversations.pending()).pending == 1


async def test_a_redacted_message_is_removed() -> None:
    alice = (await vim_memory()).of("alice")
    repository = FactmemSessionRepository(alice)
    for number, text in enumerate(("secret", "fine")):
        message: Any = {"role": "user", "content": [{"text": text}]}
        for _ in range(2):  # a repeated call stores nothing
            repository.create_message(
                "chat", "writer", SessionMessage.from_message(message, number)
            )
    redacted: Any = {"role": "user", "content": [{"text": "[redacted]"}]}
    given = repository.list_messages("chat", "writer")[0]
    given.redact_message = redacted
    repository.update_message("chat", "writer", given)

    texts = [
        each.to_message()["content"][0]["text"]
        for each in repository.list_messages("chat", "writer")
    ]
    assert texts == ["[redacted]", "fine"]
    first = repository.read_message("chat", "writer", 0)
    assert first is not None
    assert first.to_message() == redacted
    assert repository.list_messages("chat", "writer", limit=1, offset=1)[0].message_id == 1
    assert repository.read_message("chat", "writer", 2) is None
    assert "secret" not in str(await alice.conversation("chat/writer").turns())
    assert repository.read_session("chat") is None
    assert repository.read_agent("chat", "writer") is None
    with pytest.raises(UnboundSubjectError):
        FactmemSessionRepository(await vim_memory())


def store_of(memory: AgentMemory, **options: Any) -> FactmemMemoryStore:
    return FactmemMemoryStore(memory, user="alice", **options)


@pytest.mark.parametrize("is_sync", [False, True])
async def test_a_short_chat_is_learnt_when_its_run_returns(is_sync: bool) -> None:
    """Without `flush`, and before the event loop ends; once for each message."""
    memory = await vim_memory(FISH, {"facts": []})
    stores = [store_of(memory, auto_detect=True)]
    agent = Agent(Echo(), memory_manager=MemoryManager(stores=stores), callback_handler=None)

    if is_sync:
        await to_thread.run_sync(agent, "I use fish")
    else:
        await agent.invoke_async("I use fish")

    assert "fish" in str(await memory.of("alice").text())
    assert agent.memory_manager
    await agent.memory_manager.flush()
    model: Any = memory.chat_model
    assert len(model.calls) == 1


@pytest.mark.parametrize("name", [None, "chat-7"])
async def test_a_session_and_a_store_keep_each_message_once(name: str | None) -> None:
    """In the conversation of the session, whether the store is told its name or not."""
    memory = await vim_memory(FISH, {"facts": []})
    stores = [store_of(memory, conversation=name, auto_detect=True, conversations=True)]
    repository = FactmemSessionRepository(memory.of("alice"))
    sessions = await to_thread.run_sync(RepositorySessionManager, "chat-7", repository)
    agent = await to_thread.run_sync(
        lambda: Agent(
            Echo(),
            memory_manager=MemoryManager(stores=stores),
            session_manager=sessions,
            callback_handler=None,
        )
    )
    await agent.invoke_async("I use fish")

    (info,) = await memory.of("alice").conversations.infos()
    said = await memory.of("alice").conversation(info.id).messages()
    assert [each["content"] for each in said] == ["I use fish", "Ok."]


def test_the_state_of_a_graph_is_one_of_its_session() -> None:
    """It is replaced, and an agent and a graph may have the same name."""
    repository = FactmemSessionRepository(anyio.run(vim_memory).of("alice"))
    graph: Any = SimpleNamespace(id="desk/1", serialize_state=lambda: {"step": 1})
    repository.create_multi_agent("chat-7", graph)
    graph.serialize_state = lambda: {"step": 2}
    repository.update_multi_agent("chat-7", graph)

    assert repository.read_multi_agent("chat-7", "desk/1") == {"step": 2}
    assert repository.read_multi_agent("chat-8", "desk/1") is None
    assert repository.read_agent("chat-7", "desk/1") is None


async def test_a_storage_keeps_bytes_of_one_user() -> None:
    """With the keys of Strands' own storages: one may be the folder of another."""
    memory = await vim_memory()
    mine, others = FactmemStorage(memory.of("alice")), FactmemStorage(memory.of("bob"))
    for key in ("a", "a/b", "a//c/", "100%2F", "가/나"):
        await mine.write(key, key.encode() + b"\x00\xff")
    await mine.write("a", b"")

    assert await mine.list("a") == ["a", "a/b", "a/c"]
    assert len(await mine.list("")) == 5
    assert (await mine.read("a"), await mine.read("a/c")) == (b"", b"a//c/\x00\xff")
    assert await others.list("") == []
    assert await others.read("a") is None
    await mine.delete("a")
    await mine.delete("a")
    assert await mine.list("a") == ["a/b", "a/c"]
    assert "a/b" not in await memory.of("alice").text()
    for wrong in ("", "/", "../a", "a\\b"):
        with pytest.raises(Exception, match="key"):
            await mine.read(wrong)
