"""The context provider in Agents of Microsoft's Agent Framework, with a model in this process."""

import json
from importlib.util import find_spec
from typing import Any

import pytest

if find_spec("agent_framework") is None:
    pytest.skip("make frameworks ONLY=agent-framework", allow_module_level=True)

from agent_framework import Agent, AgentSession, BaseChatClient, ChatResponse, Message

from factmem.errors import UnboundSubjectError
from factmem.integrations.agent_framework import ConversationHistory, MemoryContextProvider
from factmem.memory.agent_memory import AgentMemory
from factmem.testing.adapters import AdapterContract, AdapterHost
from tests.world import known_values, vim_memory

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the framework runs on asyncio only


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
    def __init__(self, provider: MemoryContextProvider) -> None:
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


class TestInstructions(AdapterContract):
    placement: Any = "instructions"

    async def new_host(self, memory: AgentMemory, **options: Any) -> Host:
        return Host(
            MemoryContextProvider(memory, user=user_of, placement=self.placement, **options)
        )


class TestMessage(TestInstructions):
    placement = "message"


async def test_the_model_calls_the_tools_for_the_user_of_the_session() -> None:
    """They are made for each run."""
    memory = await vim_memory()
    host = Host(MemoryContextProvider(memory, user=user_of, save=True))
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
    host = Host(MemoryContextProvider(await vim_memory(), user=user_of))

    with pytest.raises(UnboundSubjectError):
        await host.agent.run("Hi", session=host.agent.create_session())
    assert host.model.requests == []


async def test_wrong_arguments_raise() -> None:
    memory = await vim_memory()
    with pytest.raises(ValueError, match="placement must be"):
        MemoryContextProvider(memory, user="alice", placement="before")  # type: ignore[arg-type]
    with pytest.raises(UnboundSubjectError):
        MemoryContextProvider(memory)


async def test_a_session_is_a_conversation_of_its_user() -> None:
    """Another process continues it with the id of the session alone, and the state has no message."""
    memory = await vim_memory()

    async def say(user: str, text: str) -> tuple[str, dict[str, Any]]:
        client, session = Model(), AgentSession(session_id="chat-7")
        session.state["user"] = user
        history = ConversationHistory(memory, user=user_of, last=3)
        provider = MemoryContextProvider(memory, user=user_of)
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
