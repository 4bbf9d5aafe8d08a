"""The Pydantic AI capability with a server that speaks the OpenAI API."""

import inspect
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pydantic_ai import Agent, ImageUrl, RunContext
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    UserPromptPart,
)
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from factmem.errors import UnboundSubjectError
from factmem.integrations.pydantic_ai import MemoryCapability, chat_of
from factmem.memory.agent_memory import AgentMemory
from factmem.testing.adapters import AdapterContract, AdapterHost
from tests.chat_server import calls_tools, fails, says, streams
from tests.integrations.killed_workers import KilledWorkers
from tests.integrations.model_server import ModelServer
from tests.world import found_fact, known_values, vim_memory

Placement = Literal["instructions", "message"]
HAS_SCOPE = "scope" in inspect.signature(SystemPromptPart).parameters
BOTH: list[Placement] = ["instructions", "message"] if HAS_SCOPE else ["instructions"]


@dataclass
class Deps:
    user: str | None


def user(ctx: RunContext[Deps]) -> str | None:
    return ctx.deps.user


def agent_of(server: ModelServer, *capabilities: MemoryCapability[Deps]) -> Agent[Deps]:
    provider = OpenAIProvider(openai_client=server.client)
    model = OpenAIChatModel("gpt-4o-mini", provider=provider)
    return Agent(model, deps_type=Deps, instructions="Be brief.", capabilities=capabilities)


SAVES = calls_tools(("1", "memory_save", {"concept": "shell", "value": "fish"}))


@pytest.mark.parametrize("placement", BOTH)
async def test_what_a_tool_saves_is_there_in_the_second_turn(
    server: ModelServer, placement: Placement
) -> None:
    memory = await vim_memory()
    agent = agent_of(server, MemoryCapability(memory, user=user, save=True, placement=placement))
    server.answer(SAVES, says("Done."))

    result = await agent.run("I use fish.", deps=Deps("alice"))

    assert result.output == "Done."
    server.check_second_turn()
    assert server.system().startswith("Be brief.")
    assert await known_values(memory) == {"editor": "vim", "shell": "fish"}


@pytest.mark.parametrize("placement", BOTH)
async def test_an_unbound_user_raises_before_any_call(
    server: ModelServer, placement: Placement
) -> None:
    agent = agent_of(server, MemoryCapability(await vim_memory(), user=user, placement=placement))

    with pytest.raises(UnboundSubjectError):
        await agent.run("Hi", deps=Deps(None))
    assert server.requests == []


async def test_learning_after_the_run_and_streamed(server: ModelServer) -> None:
    reports: list[Any] = []
    memory = await vim_memory(
        found_fact("I use fish", "shell", "fish"), found_fact("live in Busan", "city", "Busan", 2)
    )
    capability = MemoryCapability(memory, user=user, auto_detect=True, on_report=reports.append)
    agent = agent_of(server, capability)
    server.answer(says("Ok."), streams("Nice city"))

    first = await agent.run("I use fish.", deps=Deps("alice"))
    assert (await known_values(memory))["shell"] == "fish"
    async with agent.run_stream(
        "I live in Busan.", deps=Deps("alice"), message_history=first.all_messages()
    ) as streamed:
        assert await streamed.get_output() == "Nice city "
    assert (await known_values(memory))["city"] == "Busan"
    assert len(reports) == 2


async def test_a_failed_run_learns_nothing(server: ModelServer) -> None:
    memory = await vim_memory(found_fact("I use fish", "shell", "fish"))
    agent = agent_of(server, MemoryCapability(memory, user=user, auto_detect=True))
    server.answer(fails(400))

    with pytest.raises(Exception, match="400"):
        await agent.run("I use fish.", deps=Deps("alice"))
    assert await known_values(memory) == {"editor": "vim"}


async def test_two_memories_of_one_agent(server: ModelServer) -> None:
    """They need different ids and prefixes."""
    private, shared = await vim_memory(), await vim_memory()
    agent = agent_of(
        server,
        MemoryCapability(private, user=user),
        MemoryCapability(shared, user="team", id="team", prefix="team_", save=True),
    )
    server.answer(calls_tools(("1", "team_save", {"concept": "tabs", "value": "4"})), says("Ok."))

    await agent.run("We indent by 4.", deps=Deps("alice"))

    assert await known_values(private) == {"editor": "vim"}
    assert '"4"' in server.system()


@pytest.mark.skipif(HAS_SCOPE, reason="this version has request-scoped parts")
async def test_an_old_version_raises() -> None:
    with pytest.raises(ValueError, match=r"needs pydantic-ai-slim 2\.59"):
        MemoryCapability(await vim_memory(), user=user, placement="message")


async def test_wrong_constructor_arguments_raise() -> None:
    memory = await vim_memory()
    with pytest.raises(ValueError, match="placement must be"):
        MemoryCapability(memory, user=user, placement="before")  # type: ignore[arg-type]
    with pytest.raises(UnboundSubjectError):
        MemoryCapability(memory)


def test_a_chat_has_only_text() -> None:
    image = ImageUrl("https://example.com/a.png")
    messages: list[ModelMessage] = [
        ModelRequest([UserPromptPart(["Look:", image])]),
        ModelResponse([ThinkingPart("hm"), TextPart("A cat.")]),
    ]

    assert chat_of(messages) == [
        {"role": "user", "content": "Look:"},
        {"role": "assistant", "content": "A cat."},
    ]


@pytest.mark.parametrize("placement", BOTH)
async def test_a_named_conversation_goes_on(server: ModelServer, placement: Placement) -> None:
    """Each request of a run has it once; `message_history` and another name override it."""
    memory = await vim_memory()
    capability = MemoryCapability(
        memory, user=user, save=True, conversations=True, placement=placement
    )
    agent, deps = agent_of(server, capability), Deps("alice")
    server.answer(says("Hello."), SAVES, says("Fish."), says("Ok."), says("New."))

    await agent.run("One", deps=deps, conversation_id="c1")
    result = await agent.run("Two", deps=deps, conversation_id="c1")
    history = result.new_messages()
    await agent.run("Three", deps=deps, conversation_id="c1", message_history=history)
    await agent.run("Four", deps=deps, conversation_id="c2")

    said = [
        [each["content"] for each in request.messages if each["role"] == "user"]
        for request in server.requests
    ]
    assert said == [["One"], ["One", "Two"], ["One", "Two"], ["Two", "Three"], ["Four"]]
    stored = await memory.of("alice").conversation("c1").messages()
    assert [each["content"] for each in stored if each["role"] == "user"] == ["One", "Two", "Three"]


class Host(AdapterHost):
    def __init__(self, server: ModelServer, agent: Agent[Deps]) -> None:
        self.server, self.agent = server, agent
        self.chats: dict[str, list[ModelMessage]] = {}

    async def say(self, user: str, text: str) -> str:
        self.server.answer(says("Ok."))
        earlier, marked = self.chats.get(user), f"{text} {user}"
        result = await self.agent.run(marked, deps=Deps(user), message_history=earlier)
        self.chats[user] = result.all_messages()
        return self.server.sent(marked)

    async def stored(self) -> str:
        return str(self.chats)


class TestContract(KilledWorkers, AdapterContract):
    placement: Placement = "instructions"
    is_stored = True

    @pytest.fixture(autouse=True)
    def _server(self, server: ModelServer) -> None:
        self.server = server

    async def new_host(self, memory: AgentMemory, **options: Any) -> Host:
        capability = MemoryCapability(memory, user=user, placement=self.placement, **options)
        return Host(self.server, agent_of(self.server, capability))


@pytest.mark.skipif(not HAS_SCOPE, reason="this version has no request-scoped parts")
class TestContractOfRequests(TestContract):
    placement = "message"
    is_stored = False
