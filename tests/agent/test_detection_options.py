"""Detection options of an installed memory."""

from typing import Any

import pytest

from factmem.agent.agent import Agent
from factmem.detection import Detection, DetectionReport
from factmem.detection.request import DoubtfulItems
from factmem.memory.agent_memory import AgentMemory
from factmem.models.scopes import MemoryScopesProfile
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from tests.world import ALICE, found_facts, theme_item


def agent_of(**options: Any) -> Agent:
    doubted = found_facts(theme_item("Lisbon", "live over there", keyword="home"))
    agent = Agent(ScriptedChatModel("Noted.", doubted))
    agent.install(
        AgentMemory,
        provider=InMemoryProvider(),
        scopes=MemoryScopesProfile(agent="bot"),
        subjects=[ALICE],
        auto_detect=True,
        **options,
    )
    return agent


@pytest.mark.parametrize(("doubtful", "saved"), [("keep", 1), ("reject", 0)])
async def test_flagged_items_are_kept_or_rejected(doubtful: DoubtfulItems, saved: int) -> None:
    result = await agent_of(detection=Detection(doubtful=doubtful)).run("I live over there")

    [report] = result.reports_of(DetectionReport)
    assert (len(report.saved), len(report.doubtful)) == (saved, 1)
