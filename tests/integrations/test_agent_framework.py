"""The context provider in Agents of Microsoft's Agent Framework, with a model in this process."""

import json
from importlib.util import find_spec
from typing import Any

import pytest

if find_spec("agent_framework") is None:
    pytest.skip("make frameworks ONLY=agent-framework", allow_module_level=True)

import agent_framework
from agent_framework import Agent, AgentSession, BaseChatClient, ChatResponse, Message

from factmem.errors import UnboundSubjectError
from factmem.integrations import agent_framework as adapter
from factmem.integrations.agent_framework import (
    ConversationHistory,
    FactmemContextProvider,
    FactmemSessionStore,
)
from factmem.memory.agent_memory import AgentMemory
from factmem.testing.adapters import AdapterContract, AdapterHost
from tests.integrations.killed_workers import KilledWorkers
from tests.world import found_fact, known_values, vim_memory

FISH = found_fact("I use fish", "shell", "fish")


class Model(BaseChatClient):
    """Answers "Ok.", and records its requests."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[tuple[list[Message], Any]] = []

    async def _inner_get_response(self, *, messages: Any, options: Any, **_: Any) -> Any:  # type: ignore[override]
        self.requests.append((list(messages), dict(options)))
        return ChatResponse(messages=[Message("assistant", ["Ok."])], response_id="1")

    def sent(self) -> str:
        messages, options = self.requests[-1]
        return "\n".join([str(options.get("instructions")), *(each.text for each in messages)])


def user_of(session: AgentSession) -> str | None:
    user: str | None = session.state.get("user")
    return user


class Host(AdapterHost):
    def __init__(self, provider: FactmemContextProvider) -> None:
        self.model = Model()
        self.agent: Any = Agent(self.model, "Be brief.", context_providers=[provider])
        self.sessions: dict[str, AgentSession] = {}

    async def say(self, user: str, text: str) -> str:
        session = self.sessions.setdefault(user, self.agent.create_session())
        session.state["user"] = user
        client = self.agent.client = Model()  # of its own, as runs may be concurrent
        agent = Agent(client, "Be brief.", context_providers=self.agent.context_providers)
        await agent.run(text, session=session)
        return client.sent()

    async def stored(self) -> str:
        return json.dumps([each.to_dict() for each in self.sessions.values()], default=str)


class TestInstructions(KilledWorkers, AdapterContract):
    placement: Any = "instructions"

    async def new_host(self, memory: AgentMemory, **options: Any) -> Host:
        return Host(
            FactmemContextProvider(memory, user=user_of, placement=self.placement, **options)
        )


class TestMessage(TestInstructions):
    placement = "message"


async def test_the_model_calls_the_tools_for_the_user_of_the_session() -> None:
    """They are made for each run."""
    memory = await vim_memory()
    host = Host(FactmemContextProvider(memory, user=user_of, save=True))
    for user in ("alice", "bob"):
        session = host.agent.create_session()
        session.state["user"] = user
        await host.agent.run("Hi", session=session)
        tools = {each.name: each for each in host.model.requests[-1][1]["tools"]}
        found = await tools["memory_recall"].invoke(arguments={"query": "editor"})
        assert ("vim" in str(found[0].text if isinstance(found, list) else found)) == (
            user == "alice"
        )
        await tools["memory_save"].invoke(arguments={"concept": "shell", "value": user})

    assert await known_values(memory) == {"editor": "vim", "shell": "alice"}


async def test_a_session_without_a_user_raises_before_any_call() -> None:
    host = Host(FactmemContextProvider(await vim_memory(), user=user_of))

    with pytest.raises(UnboundSubjectError):
        await host.agent.run("Hi", session=host.agent.create_session())
    assert host.model.requests == []


async def test_a_session_whose_id_names_no_conversation_raises_before_any_call() -> None:
    """After a paid answer its messages would be lost."""
    memory = await vim_memory()
    host = Host(FactmemContextProvider(memory, user="alice", conversations=True))

    with pytest.raises(ValueError, match="name of a conversation"):
        await host.agent.run("Hi", session=host.agent.create_session(session_id="a\nb"))
    assert host.model.requests == []


async def test_wrong_arguments_raise() -> None:
    memory = await vim_memory()
    with pytest.raises(ValueError, match="placement must be"):
        FactmemContextProvider(memory, user="alice", placement="before")  # type: ignore[arg-type]
    with pytest.raises(UnboundSubjectError):
        FactmemContextProvider(memory)


async def test_a_session_is_a_conversation_of_its_user() -> None:
    """Another process continues it with the session's id alone; the state has no message."""
    memory = await vim_memory()

    async def say(user: str, text: str) -> tuple[str, dict[str, Any]]:
        client, session = Model(), AgentSession(session_id="chat-7")
        session.state["user"] = user
        history = ConversationHistory(memory, user=user_of, last=3)
        provider = FactmemContextProvider(memory, user=user_of)
        agent: Any = Agent(client, "Be brief.", context_providers=[history, provider])
        await agent.run(text, session=session)
        return client.sent(), session.to_dict()

    await say("alice", "My shell is fish.")
    sent, state = await say("alice", "Which shell?")
    strange, _ = await say("bob", "Which shell?")

    assert "My shell is fish." in sent
    assert "fish" not in strange
    assert "fish" not in json.dumps(state, default=str)
    kept = await memory.of("alice").conversation("chat-7").turns()
    assert [(turn.role, turn.text) for turn in kept] == [
        ("user", "My shell is fish."),
        ("assistant", "Ok."),
        ("user", "Which shell?"),
        ("assistant", "Ok."),
    ]
    sent, _ = await say("alice", "And now?")
    assert "My shell is fish." not in sent  # the last three messages
    with pytest.raises(ValueError, match="last"):
        await ConversationHistory(memory, user="alice", last=0).get_messages("c1")


@pytest.mark.parametrize("is_history_first", [True, False])
@pytest.mark.parametrize("auto_detect", [True, False])
async def test_a_history_and_the_memory_keep_each_message_once(
    is_history_first: bool, auto_detect: bool
) -> None:
    """In either order."""
    memory = await vim_memory(FISH, {"facts": []})
    history = ConversationHistory(memory, user="alice")
    own = FactmemContextProvider(memory, user="alice", conversations=True, auto_detect=auto_detect)
    providers = [history, own] if is_history_first else [own, history]
    agent: Any = Agent(Model(), "Be brief.", context_providers=providers)
    session = agent.create_session(session_id="c1")
    for text in ("I use fish", "And?"):
        await agent.run(text, session=session)

    said = await memory.of("alice").conversation("c1").messages()
    assert [each["content"] for each in said] == ["I use fish", "Ok.", "And?", "Ok."]


async def test_a_loop_is_detected_once() -> None:
    """Five answers of one turn, and what the loop says between them is no word of the user."""
    harness = pytest.importorskip("agent_framework._harness._loop")
    memory = await vim_memory(FISH)
    own = FactmemContextProvider(memory, user="alice", auto_detect=True)
    loop = harness.AgentLoopMiddleware(lambda **_: True, max_iterations=5)
    model = Model()
    agent: Any = Agent(model, "Be brief.", context_providers=[own], middleware=[loop])
    await agent.run("I use fish", session=agent.create_session())

    assert len(model.requests) == 5
    detector: Any = memory.chat_model
    assert len(detector.calls) == 1
    assert "fish" in await memory.of("alice").text()


async def test_snapshots_of_sessions_are_kept_for_one_user() -> None:
    """As the framework's own store does, and in another process."""
    memory = await vim_memory()
    store, session = FactmemSessionStore(memory.of("alice")), AgentSession(session_id="s")
    session.state["n"] = 1
    await store.set("chat/7", session)
    session.state["n"] = 2

    read = await FactmemSessionStore(memory.of("alice")).get("chat/7")
    assert read is not None
    assert (read.session_id, read.state) == ("s", {"n": 1})
    assert await FactmemSessionStore(memory.of("bob")).get("chat/7") is None
    for _ in range(2):
        await store.delete("chat/7")
    assert await store.get("chat/7") is None
    with pytest.raises(ValueError, match="session_id"):
        await store.get("")


def test_no_name_is_one_of_the_framework() -> None:
    """A wrong import would take another class."""
    assert [name for name in adapter.__all__ if hasattr(agent_framework, name)] == []
