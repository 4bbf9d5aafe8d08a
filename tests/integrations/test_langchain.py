"""LangChain's agents with a server that speaks the OpenAI API; sync and async."""

from dataclasses import dataclass
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import SystemMessage
from langgraph.checkpoint.memory import InMemorySaver

from factmem.errors import UnboundSubjectError
from factmem.integrations.langchain import FactmemMiddleware
from factmem.memory.agent_memory import AgentMemory
from factmem.testing.adapters import AdapterContract, AdapterHost
from tests.chat_server import calls_tools, says
from tests.integrations.chat_openai import ChatOpenAI
from tests.integrations.killed_workers import KilledWorkers
from tests.integrations.model_server import ModelServer
from tests.world import found_fact, known_values, vim_memory


@dataclass
class Context:
    user: str | None


def user(runtime: Any) -> str | None:
    who: str | None = runtime.context.user
    return who


def agent_of(server: ModelServer, *middleware: Any, **options: Any) -> Any:
    given = {"system_prompt": "Be brief.", "context_schema": Context, **options}
    return create_agent(ChatOpenAI(url=server.url), tools=[], middleware=middleware, **given)


async def run(
    agent: Any, text: str, who: str | None = "alice", *, sync: bool, **config: Any
) -> Any:
    """Run the sync or the async way. A sync run blocks this loop, as in a notebook."""
    given = {"messages": [("user", text)]}
    options = {"context": Context(who), "config": {"configurable": config}}
    return agent.invoke(given, **options) if sync else await agent.ainvoke(given, **options)


BOTH = pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
SAVES = calls_tools(("1", "memory_save", {"concept": "shell", "value": "fish"}))


@BOTH
async def test_what_a_tool_saves_is_there_in_the_second_turn(
    server: ModelServer, sync: bool
) -> None:
    memory = await vim_memory()
    agent = agent_of(server, FactmemMiddleware(memory, user=user, save=True))
    server.answer(SAVES, says("Done."))

    result = await run(agent, "I use fish.", sync=sync)

    assert result["messages"][-1].content == "Done."
    server.check_second_turn()
    assert server.system().startswith("Be brief.\n\n")
    assert await known_values(memory) == {"editor": "vim", "shell": "fish"}


@BOTH
async def test_an_unbound_user_raises_before_any_call(server: ModelServer, sync: bool) -> None:
    agent = agent_of(server, FactmemMiddleware(await vim_memory(), user=user))

    with pytest.raises(UnboundSubjectError):
        await run(agent, "Hi", None, sync=sync)
    assert server.requests == []


@BOTH
async def test_learning_takes_the_words_of_this_run(server: ModelServer, sync: bool) -> None:
    reports: list[Any] = []
    memory = await vim_memory(
        found_fact("I use fish", "shell", "fish"), found_fact("live in Busan", "city", "Busan", 2)
    )
    middleware = FactmemMiddleware(memory, user=user, auto_detect=True, on_report=reports.append)
    agent = agent_of(server, middleware, checkpointer=InMemorySaver())
    server.answer(says("Ok."), says("Nice city."))

    await run(agent, "I use fish.", sync=sync, thread_id="t1")
    await run(agent, "I live in Busan.", sync=sync, thread_id="t1")

    assert await known_values(memory) == {"editor": "vim", "shell": "fish", "city": "Busan"}
    (fact,) = reports[1].saved
    assert fact.fact.source.conversation == "t1"


@pytest.mark.parametrize(
    "prompt",
    [None, SystemMessage(content=[{"type": "text", "text": "In parts."}])],
    ids=["none", "parts"],
)
async def test_other_system_prompts(server: ModelServer, prompt: Any) -> None:
    agent = agent_of(server, FactmemMiddleware(await vim_memory(), user=user), system_prompt=prompt)
    server.answer(says("Hello."))

    await run(agent, "Hi", sync=False)

    assert "vim" in server.system()


@BOTH
async def test_a_thread_without_a_checkpointer_goes_on(server: ModelServer, sync: bool) -> None:
    """Calls of tools are whole, nothing is shown or stored twice, or from other threads."""
    memory = await vim_memory()
    agent = agent_of(server, FactmemMiddleware(memory, user=user, save=True, conversations=True))
    server.answer(SAVES, says("Saved."), says("Fish."), says("Hello."))

    for text, thread in (("I use fish.", "t1"), ("Which shell?", "t1"), ("Hi", "t2")):
        await run(agent, text, sync=sync, thread_id=thread)

    roles = [[each["role"] for each in request.messages[1:]] for request in server.requests]
    first = ["user", "assistant", "tool"]
    assert roles == [first[:1], first, [*first, "assistant", "user"], ["user"]]
    assert "call" in str(server.requests[2].messages[2])
    stored = await memory.of("alice").conversation("t1").messages()
    assert [each["role"] for each in stored] == [*first, "assistant", "user", "assistant"]


@BOTH
async def test_a_checkpointer_and_own_messages_override(server: ModelServer, sync: bool) -> None:
    """What the state has is not shown twice."""
    middleware = FactmemMiddleware(await vim_memory(), user=user, conversations=True)
    agent = agent_of(server, middleware, checkpointer=InMemorySaver())
    server.answer(*[says("Ok.")] * 3)
    for text in ("One", "Two", "Three"):
        await run(agent, text, sync=sync, thread_id="t1")

    assert [len(request.messages) for request in server.requests] == [2, 4, 6]


class Host(AdapterHost):
    def __init__(self, server: ModelServer, middleware: FactmemMiddleware, *, sync: bool) -> None:
        self.server, self.sync, self.saver = server, sync, InMemorySaver()
        self.agent = agent_of(server, middleware, checkpointer=self.saver)

    async def say(self, user: str, text: str) -> str:
        self.server.answer(says("Ok."))
        marked = f"{text} {user}"
        result = await run(self.agent, marked, user, sync=self.sync, thread_id=user)
        assert set(result) == {"messages"}
        return self.server.sent(marked)

    async def stored(self) -> str:
        return str([*self.saver.list(None), *self.saver.blobs.values()])


class TestContract(KilledWorkers, AdapterContract):
    is_sync = False
    placement: Any = "instructions"

    @pytest.fixture(autouse=True)
    def _server(self, server: ModelServer) -> None:
        self.server = server

    async def new_host(self, memory: AgentMemory, **options: Any) -> Host:
        middleware = FactmemMiddleware(memory, user=user, placement=self.placement, **options)
        return Host(self.server, middleware, sync=self.is_sync)


class TestSyncContract(TestContract):
    is_sync = True


class TestMessageContract(TestContract):
    placement = "message"


async def test_a_message_of_its_own_leaves_the_prompt_as_it_is(server: ModelServer) -> None:
    """What is before it stays in the endpoint's cache when a fact changes."""
    memory = (await vim_memory()).of("alice")
    agent = agent_of(server, FactmemMiddleware(memory, placement="message"))
    server.answer(says("vim."))
    await run(agent, "Which editor?", "alice", sync=False)

    *before, facts, asked = server.requests[-1].messages
    assert all("vim" not in str(message) for message in before)
    assert (facts["role"], '"vim"' in facts["content"]) == ("user", True)
    assert asked["content"] == "Which editor?"
    with pytest.raises(ValueError, match="placement must be"):
        FactmemMiddleware(memory, placement="user")  # type: ignore[arg-type]
