"""The types of agents, for type checkers. Checked, never run."""

from typing import assert_type

from factmem.agent.agent import Agent
from factmem.agent.context import AgentContext, AgentFeature, AgentResult
from factmem.agent.nodes import (
    Node,
    Strategy,
    node_llm_request,
    node_load_from_memory,
    node_recall_from_memory,
)
from factmem.agent.tools import Tool
from factmem.detection.report import DetectionReport
from factmem.embedding.base import CallableEmbedder
from factmem.llm.base import ChatModel
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import Concept
from factmem.models.places import MemoryScopesProfile, MemorySubject
from factmem.prompt.memory_message import MessageForm
from factmem.providers.in_memory import InMemoryProvider
from factmem.recall.match import RecallSettings

THEME = Concept("ide-theme", "The IDE theme that the user prefers")


class Journal:
    def __init__(self, title: str, *, pages: int = 100) -> None: ...
    async def before_model(self, context: AgentContext) -> None: ...
    async def after_answer(self, context: AgentContext) -> None: ...


class Loud(AgentMemory):
    def shout(self) -> str:
        return ""


async def add(a: int, b: int) -> int:
    return a + b


async def shout(context: AgentContext, text: str) -> str:
    assert_type(context.memory, AgentMemory)
    return text.upper()


def installing(model: ChatModel) -> None:
    agent = Agent(model, tools=[add, Tool(add), print])
    memory = agent.install(
        AgentMemory,
        provider=InMemoryProvider(),
        scopes=MemoryScopesProfile(agent="a"),
        subjects=[MemorySubject.EVERYTHING],
        concepts=[THEME],
        auto_detect=True,
        message_form=MessageForm(max_tokens=500),
        recall=10,
        embedder=CallableEmbedder(lambda texts: [[1.0] for _ in texts], model="m"),
        recall_settings=RecallSettings(),
    )
    assert_type(memory, AgentMemory)
    assert_type(agent.install(Loud, provider=InMemoryProvider()), Loud)
    journal = agent.install(Journal, "Mine", pages=3)
    assert_type(journal, Journal)
    features: list[AgentFeature] = [journal]
    node: Node = node_load_from_memory([THEME])
    node = node_recall_from_memory(5)
    Agent(model, strategy=Strategy("s", [node, shout, node_llm_request()]))
    features.clear()

    # Each of these is a mistake, and both checkers say so.
    agent.install(AgentMemory, agentName="a")  # type: ignore[call-overload]
    agent.install(AgentMemory, provider="files")  # type: ignore[call-overload]
    agent.install(AgentMemory, recall="all")  # type: ignore[call-overload]
    agent.install(Journal, pages=3)  # type: ignore[call-overload]
    agent.install(str, "x")  # type: ignore[call-overload]


async def running(agent: Agent) -> None:
    result = await agent.run("Hi", subjects=[MemorySubject.EVERYTHING])
    assert_type(result, AgentResult)
    assert_type(result.reports_of(DetectionReport), list[DetectionReport])
    await agent.run("Again", messages=result.messages)
