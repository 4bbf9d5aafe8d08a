"""Concepts with `detect=False`: models read them and never write them."""

import copy
import json
import pickle

import pytest

from factmem.detection import Detection
from factmem.detection.report import RejectionReason
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import Concept, FactType
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from tests.world import AGENT, ALICE, THEME, item, memory_of, theme, user

OWNED = Concept("ide-theme", "The IDE theme that the user prefers", detect=False)
CHAT = [user("I prefer the dark theme.")]


async def owned(*answers: object) -> tuple[AgentMemory, ScriptedChatModel]:
    """Return a memory whose theme came from a form, and a model that wants to change it."""
    store, model = InMemoryProvider(), ScriptedChatModel(*[{"facts": [each]} for each in answers])
    await store.save(theme("light"), ALICE, AGENT)
    return memory_of(store, model, concepts=[OWNED]), model


async def themes(memory: AgentMemory) -> list[str]:
    return [fact.value for fact in await memory.current(THEME)]


def test_the_flag_is_not_part_of_equality() -> None:
    """The store holds nothing of it, so facts of both are the same facts; copies keep it."""
    assert OWNED == THEME
    assert hash(OWNED) == hash(THEME)
    assert not pickle.loads(pickle.dumps(OWNED)).detect
    assert not copy.deepcopy(OWNED).detect
    assert pickle.loads(pickle.dumps(THEME)).detect
    assert repr(OWNED).endswith(", detect=False)")


@pytest.mark.parametrize("fields", [{}, {"keyword": "IDE_Theme"}, {"action": "retract"}])
async def test_detection_rejects_it_with_the_reason(fields: dict[str, str]) -> None:
    """The answer has a new value, another spelling and a retraction; the prompt has the value."""
    wanted = item(value="light" if fields.get("action") else "dark", **fields)
    memory, model = await owned(wanted)

    report = await memory.auto_detect_facts(CHAT)

    (rejected,) = report.rejected
    assert rejected.reason is RejectionReason.NOT_DETECTED
    assert "detect=False" in rejected.detail
    assert await themes(memory) == ["light"]
    assert "light" in json.dumps(model.calls[0])


@pytest.mark.parametrize("concept", [THEME, OWNED])
async def test_a_search_that_could_write_nothing_makes_no_call(concept: Concept) -> None:
    memory, model = await owned()

    with pytest.raises(ValueError, match="detect=False"):
        await memory.auto_detect_facts(CHAT, detection=Detection(only=[concept]))

    assert model.calls == []


async def test_tools_do_not_change_it() -> None:
    memory, _ = await owned(item())
    tools = {tool.name: tool for tool in memory.tools(save=True)}

    saved = await tools["memory_save"].call({"concept": "IDE theme", "value": "dark"})
    forgotten = await tools["memory_forget"].call({"concept": "ide-theme"})
    recalled = await tools["memory_recall"].call({"query": "theme"})
    await tools["memory_remember"].call({"text": "I prefer the dark theme."})

    assert saved.startswith("Error: nothing was saved. Only the application")
    assert json.loads(forgotten)["forgotten"] == 0
    assert "light" in recalled
    assert await themes(memory) == ["light"]


async def test_a_keyword_of_the_same_words_is_not_joined_to_it() -> None:
    """Elsewhere "theme-ide" becomes "ide-theme"; here that would write an owned concept."""
    pets = Concept("pets", "The pets of the user", FactType.MULTIPLE, detect=False)
    model = ScriptedChatModel({"facts": [item(keyword="pet", value="dark")]})
    memory = memory_of(model=model, concepts=[pets])

    await memory.auto_detect_facts(CHAT)

    assert await memory.current(pets) == []
