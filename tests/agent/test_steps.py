"""Hooks between the model calls of a run, and detection before the first message."""

import logging

import pytest

from factmem.agent import (
    Agent,
    AgentContext,
    AgentStep,
    Strategy,
    node_llm_request,
    node_save_to_memory,
    node_save_to_memory_auto_detect_facts,
)
from factmem.detection.report import DetectionReport
from factmem.llm.base import ChatResponse, ToolCall
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import Concept
from factmem.models.places import MemoryScopesProfile, MemoryScopeType, MemorySubject
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.chat import ScriptedChatModel

USER = MemorySubject("user", "The user", 1)
TONE = Concept("tone", "The tone")


def look(number: int) -> str:
    """Look."""
    return f"observation {number} " * 50


def calling(*numbers: int) -> ChatResponse:
    calls = [ToolCall(f"c{n}", "look", f'{{"number": {n}}}') for n in numbers]
    return ChatResponse(tool_calls=tuple(calls))


class Steps:
    """Records each step, and shortens earlier tool results."""

    def __init__(self) -> None:
        self.steps: list[AgentStep] = []

    async def before_model(self, context: AgentContext) -> None: ...

    async def after_answer(self, context: AgentContext) -> None: ...

    async def after_step(self, context: AgentContext, step: AgentStep) -> None:
        self.steps.append(step)
        for message in context.messages[: -len(step.results) or None]:
            if message["role"] == "tool":
                message["content"] = "shortened"


async def test_a_feature_runs_between_the_calls_of_a_run() -> None:
    """Its changes are in the next request."""
    model = ScriptedChatModel(calling(1), calling(2, 3), "Done.")
    agent = Agent(model, tools=[look])
    steps = agent.install(Steps)
    await agent.run("Look around")

    assert [(each.number, len(each.results)) for each in steps.steps] == [(1, 1), (2, 2), (3, 0)]
    assert steps.steps[1].results == (look(2), look(3))
    assert all(each.started_at <= each.ended_at for each in steps.steps)
    tools = [m["content"] for m in model.calls[2] if m["role"] == "tool"]
    assert tools == ["shortened", look(2), look(3)]
    assert "observation" not in repr(steps.steps)


async def test_a_hook_that_raises_ends_the_run() -> None:
    class Breaking(Steps):
        async def after_step(self, context: AgentContext, step: AgentStep) -> None:
            raise KeyError("stop")

    model = ScriptedChatModel(calling(1), "Done.")
    agent = Agent(model, tools=[look])
    agent.install(Breaking)
    with pytest.raises(KeyError, match="stop"):
        await agent.run("Look around")
    assert len(model.calls) == 1


@pytest.mark.parametrize(
    "node",
    [
        node_save_to_memory_auto_detect_facts(),
        node_save_to_memory([TONE], USER, MemoryScopeType.AGENT),
    ],
    ids=["auto", "concept"],
)
async def test_detection_before_the_first_message_raises(
    node: object, caplog: pytest.LogCaptureFixture
) -> None:
    """Koog's own example has this order, made no call and printed nothing."""
    model = ScriptedChatModel("Hello.", {"facts": []}, "Hello again.")
    agent = Agent(model, strategy=Strategy("early", [node, node_llm_request()]))  # type: ignore[list-item]
    agent.install(
        AgentMemory,
        provider=InMemoryProvider(),
        scopes=MemoryScopesProfile(agent="bot"),
        subjects=[USER],
    )
    with caplog.at_level(logging.WARNING, "factmem.agent"):
        first = await agent.run("Be brief")

    assert "node_llm_request" in caplog.text
    assert "Be brief" not in caplog.text
    assert len(model.calls) == 1
    second = await agent.run("And now?", messages=first.messages)
    assert len(second.reports_of(DetectionReport)) == 1
