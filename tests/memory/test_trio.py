"""Memory, detection, recall and the agent together on each event loop."""

from pathlib import Path

from factmem import (
    Agent,
    AgentMemory,
    Concept,
    LocalFileMemoryProvider,
    MemoryScopesProfile,
    MemorySubject,
)
from factmem.testing.chat import ScriptedChatModel

USER = MemorySubject("user", "The person who talks to the agent", 1, per_entity=True)
ALICE = USER.of("alice")
THEME = Concept("ide-theme", "The theme of the user's IDE")

FOUND = {
    "items": [
        {
            "action": "assert",
            "subject": "user",
            "scope": "PRODUCT",
            "keyword": "ide-theme",
            "description": "The theme of the user's IDE",
            "fact_type": "SINGLE",
            "value": "dark",
            "message": 0,
            "quote": "I use the dark theme",
        }
    ]
}


async def test_detect_load_recall_and_answer(tmp_path: Path) -> None:
    """The layers above the providers use no feature of one loop."""
    model = ScriptedChatModel(FOUND, "Dark it is.")
    async with LocalFileMemoryProvider(tmp_path / "store") as store:
        memory = AgentMemory(
            store,
            chat_model=model,
            scopes=MemoryScopesProfile(product="desk"),
            subjects=[ALICE],
            concepts=[THEME],
        )
        messages = [{"role": "user", "content": "I use the dark theme."}]
        report = await memory.auto_detect_facts(messages)
        [match] = await memory.recall("Which theme?")
        agent = Agent(model)
        agent.install(
            AgentMemory,
            provider=store,
            scopes=MemoryScopesProfile(product="desk"),
            subjects=[ALICE],
        )
        result = await agent.run("Which theme do I use?")

    assert [placed.fact.values for placed in report.saved] == [("dark",)]
    assert match.fact.values == ("dark",)
    assert result.text == "Dark it is."
    assert "dark" in str(model.calls[-1])
