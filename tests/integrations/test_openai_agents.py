"""The OpenAI Agents SDK with a server that speaks the OpenAI API."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest
from agents import (
    Agent,
    AgentHooks,
    OpenAIChatCompletionsModel,
    RunConfig,
    Runner,
    SQLiteSession,
    set_tracing_disabled,
)
from agents.memory import SessionSettings
from agents.strict_schema import ensure_strict_json_schema

from factmem.errors import UnboundSubjectError
from factmem.integrations.openai_agents import (
    ConversationSession,
    chat_of,
    memory_filter,
    with_memory,
)
from factmem.memory.agent_memory import AgentMemory
from factmem.testing.adapters import AdapterContract, AdapterHost
from tests.chat_server import calls_tools, says, streams
from tests.integrations.killed_workers import KilledWorkers
from tests.integrations.model_server import ModelServer
from tests.world import found_fact, known_values, vim_memory

set_tracing_disabled(True)


@dataclass
class Context:
    user: str | None


def user(context: Any) -> str | None:
    who: str | None = context.context.user
    return who


def agent_of(server: ModelServer, **options: Any) -> Agent[Any]:
    model = OpenAIChatCompletionsModel("gpt-4o-mini", server.client)
    return Agent("Desk", **{"instructions": "Be brief.", "model": model, **options})


SAVES = calls_tools(("1", "memory_save", {"concept": "shell", "value": "fish"}))
ALICE = Context("alice")


async def test_what_a_tool_saves_is_there_in_the_second_turn(server: ModelServer) -> None:
    memory = await vim_memory()
    agent = with_memory(agent_of(server), memory, user=user, save=True)
    server.answer(SAVES, says("Done."))

    result = await Runner.run(agent, "I use fish.", context=ALICE)

    assert result.final_output == "Done."
    server.check_second_turn()
    assert server.system().startswith("Be brief.\n\n")
    assert await known_values(memory) == {"editor": "vim", "shell": "fish"}


async def test_an_unbound_user_raises_before_any_call(server: ModelServer) -> None:
    agent = with_memory(agent_of(server), await vim_memory(), user=user)

    with pytest.raises(UnboundSubjectError):
        await Runner.run(agent, "Hi", context=Context(None))
    assert server.requests == []


class Counting(AgentHooks[Any]):
    starts = 0
    ends = 0

    async def on_start(self, *_: Any) -> None:
        self.starts += 1

    async def on_end(self, *_: Any) -> None:
        self.ends += 1


async def test_the_agents_own_options_stay(server: ModelServer) -> None:
    hooks = Counting()
    plain = agent_of(server, instructions=lambda _context, _agent: "By a function.", hooks=hooks)
    memory = await vim_memory({"facts": []})
    agent = with_memory(plain, memory, user=user, auto_detect=True)
    server.answer(says("Hello."))

    await Runner.run(agent, "Hi", context=ALICE)

    assert plain.tools == []
    assert plain.hooks is hooks
    assert (hooks.starts, hooks.ends) == (1, 1)
    assert server.system().startswith("By a function.\n\n")


@pytest.mark.parametrize("instructions", [None, ""], ids=repr)
async def test_an_agent_without_instructions(server: ModelServer, instructions: str | None) -> None:
    agent = with_memory(agent_of(server, instructions=instructions), await vim_memory(), user=user)
    server.answer(says("Hello."))

    await Runner.run(agent, "Hi", context=ALICE)

    assert '"vim"' in server.system()


async def test_learning_in_a_session_and_streamed(server: ModelServer) -> None:
    """Learning uses the messages of this run, and earlier ones as context."""
    memory = await vim_memory(
        found_fact("I use fish", "shell", "fish"), found_fact("live in Busan", "city", "Busan", 2)
    )
    agent = with_memory(agent_of(server), memory, user=user, auto_detect=True)
    session = SQLiteSession("s1")
    server.answer(says("Ok."), streams("Nice city"))

    await Runner.run(agent, "I use fish.", context=ALICE, session=session)
    streamed = Runner.run_streamed(agent, "I live in Busan.", context=ALICE, session=session)
    async for _ in streamed.stream_events():
        pass
    session.close()

    assert await known_values(memory) == {"editor": "vim", "shell": "fish", "city": "Busan"}


async def test_a_handoff_uses_the_memory_of_the_other_agent(server: ModelServer) -> None:
    agent = with_memory(agent_of(server), await vim_memory(), user=user)
    first = Agent("First", instructions="Hand over.", model=agent.model, handoffs=[agent])
    server.answer(calls_tools(("1", "transfer_to_desk", {})), says("Hello."))

    await Runner.run(first, "Hi", context=ALICE)

    assert ['"vim"' in server.system(n) for n in (0, 1)] == [False, True]


async def test_a_run_with_a_handoff_is_stored_once(server: ModelServer) -> None:
    """The session has the call of the handoff after the user's words."""
    memory = await vim_memory()
    agent = with_memory(agent_of(server), memory, user="alice", tools=False, conversations=True)
    first = Agent("First", instructions="Hand over.", model=agent.model, handoffs=[agent])
    server.answer(calls_tools(("1", "transfer_to_desk", {})), says("Hello."))

    session = ConversationSession(memory.of("alice").conversation("c1"))
    await Runner.run(first, "Hi", session=session)

    assert [each.id for each in await memory.of("alice").conversations.infos()] == ["c1"]


async def test_wrong_constructor_arguments_raise(server: ModelServer) -> None:
    memory = await vim_memory()
    agent = with_memory(agent_of(server), memory, user=user)
    with pytest.raises(ValueError, match="already has a tool 'memory_forget'"):
        with_memory(agent, memory, user=user)
    with pytest.raises(UnboundSubjectError):
        with_memory(agent_of(server), memory)
    with pytest.raises(TypeError, match="memory must be an AgentMemory"):
        with_memory(agent_of(server), "alice")  # type: ignore[arg-type]


def test_a_chat_has_only_text() -> None:
    items = [
        {"role": "user", "content": "Which theme?"},
        {"type": "function_call", "name": "look", "arguments": "{}", "call_id": "1"},
        {"type": "function_call_output", "call_id": "1", "output": "dark"},
        {"role": "assistant", "content": "Dark."},
    ]

    assert [each["role"] for each in chat_of(items)] == ["user", "tool", "assistant"]


class Host(AdapterHost):
    def __init__(
        self,
        server: ModelServer,
        opened: ExitStack,
        agent: Agent[Any],
        config: RunConfig | None = None,
    ) -> None:
        self.server, self.opened, self.agent, self.config = server, opened, agent, config
        self.sessions: dict[str, SQLiteSession] = {}
        self.results: list[list[Any]] = []

    async def say(self, user: str, text: str) -> str:
        if user not in self.sessions:
            self.sessions[user] = self.opened.enter_context(closing(SQLiteSession(user)))
        session = self.sessions[user]
        self.server.answer(says("Ok."))
        marked = f"{text} {user}"
        result = await Runner.run(
            self.agent, marked, context=Context(user), session=session, run_config=self.config
        )
        self.results.append(result.to_input_list())
        return self.server.sent(marked)

    async def stored(self) -> str:
        sessions = [await session.get_items() for session in self.sessions.values()]
        return str([sessions, self.results])


class TestContract(KilledWorkers, AdapterContract):
    @pytest.fixture(autouse=True)
    def _server(self, server: ModelServer) -> Iterator[None]:
        self.server = server
        with ExitStack() as self.opened:
            yield

    async def new_host(self, memory: AgentMemory, **options: Any) -> Host:
        agent = with_memory(agent_of(self.server), memory, user=user, **options)
        return Host(self.server, self.opened, agent)


class TestFilterContract(TestContract):
    learns = False

    async def new_host(self, memory: AgentMemory, **options: Any) -> Host:
        put = memory_filter(memory, user=user, **options)
        config = RunConfig(call_model_input_filter=put)
        return Host(self.server, self.opened, agent_of(self.server), config)


async def test_a_filter_puts_the_facts_before_the_question(server: ModelServer) -> None:
    put = memory_filter(await vim_memory(), user=user)
    server.answer(says("vim."))
    await Runner.run(
        agent_of(server),
        "Which editor?",
        context=Context("alice"),
        run_config=RunConfig(call_model_input_filter=put),
    )
    facts, asked = server.requests[-1].messages[-2:]
    assert (facts["role"], '"vim"' in str(facts["content"])) == ("user", True)
    assert "Which editor?" in str(asked["content"])


async def test_a_session_is_a_conversation(server: ModelServer) -> None:
    """Its items come back to the model in the next run, calls of tools included."""
    memory = (await vim_memory()).of("alice")
    agent = with_memory(agent_of(server), memory, save=True)
    session = ConversationSession(memory.conversation("chat-7"))
    server.answer(SAVES, says("Done."), says("fish."))

    await Runner.run(agent, "I use fish.", session=session)
    await Runner.run(agent, "Which shell?", session=session)

    roles = [message["role"] for message in server.requests[-1].messages]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
    kept = await memory.conversation("chat-7").turns()
    assert [turn.role for turn in kept] == [
        "user",
        "tool",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]
    assert [kept[0].text, kept[3].text] == ["I use fish.", "Done."]
    assert (await memory.conversations.pending()).pending == 1


async def test_the_last_item_of_a_session_is_removed() -> None:
    """The SDK takes items back when it repeats a call."""
    memory = (await vim_memory()).of("alice")
    session = ConversationSession(memory.conversation("chat"), session_settings=SessionSettings(1))
    call = {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "1"}
    own = {"role": "user", "content": "x", "item": 1}
    await session.add_items([{"role": "user", "content": "hi"}, call, own])  # type: ignore[list-item]

    assert await session.get_items() == [own]
    assert await session.get_items(0) == []
    assert await session.get_items(2) == [call, own]
    assert [await session.pop_item() for _ in range(2)] == [own, call]
    await session.clear_session()
    assert await session.pop_item() is None


async def test_strict_mode_takes_the_schemas_of_the_tools() -> None:
    """An application may wish that endpoints guarantee arguments that fit."""
    for tool in (await vim_memory({"facts": []})).of("alice").tools(save=True):
        strict = ensure_strict_json_schema(deepcopy(tool.schema))
        assert strict["required"] == list(tool.schema["properties"])


@pytest.mark.parametrize("is_session", [True, False])
async def test_a_run_with_conversations_stores_each_message_once(
    server: ModelServer, is_session: bool
) -> None:
    """The session does it if there is one, and not for a later run of the same words without it."""
    memory = await vim_memory(found_fact("I use fish", "shell", "fish"), *[{"facts": []}] * 3)
    alice = memory.of("alice")
    agent = with_memory(
        agent_of(server), memory, user="alice", tools=False, auto_detect=True, conversations=True
    )
    server.answer(*[says("Ok.")] * 3)
    session = ConversationSession(alice.conversation("c1")) if is_session else None
    await Runner.run(agent, "I use fish", session=session)
    await Runner.run(agent, "And?", session=session)
    if is_session:
        await Runner.run(agent, "And?")

    names = [info.id for info in await alice.conversations.infos()]
    said = [await alice.conversation(name).messages() for name in names]
    texts = sorted(str(each["content"]) for chat in said for each in chat if each["role"] == "user")
    assert texts == (["And?"] if is_session else []) + ["And?", "I use fish"]
    assert ("c1" in names) == is_session
