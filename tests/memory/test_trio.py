"""Memory, detection, recall and the agent together on each event loop."""

from pathlib import Path

from factmem import Agent, AgentMemory, LocalFileMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from tests.world import ALICE, PROFILE, THEME, item, memory_of, user


async def test_detect_load_recall_and_answer(tmp_path: Path) -> None:
    """The layers above the providers use no feature of one loop."""
    model = ScriptedChatModel({"items": [item()]}, "Dark it is.")
    async with LocalFileMemoryProvider(tmp_path / "store") as store:
        memory = memory_of(store, model, concepts=[THEME])
        report = await memory.auto_detect_facts([user("I use the dark theme.")])
        [match] = await memory.recall("Which theme?")
        agent = Agent(model)
        agent.install(AgentMemory, provider=store, scopes=PROFILE, subjects=[ALICE])
        result = await agent.run("Which theme do I use?")

    assert [placed.fact.values for placed in report.saved] == [("dark",)]
    assert match.fact.values == ("dark",)
    assert result.text == "Dark it is."
    assert "dark" in str(model.calls[-1])
