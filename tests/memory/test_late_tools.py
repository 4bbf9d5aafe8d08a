"""Tools that are created once and bind the user at each call: `memory.tools(of=...)`."""

import pytest

from factmem.errors import UnboundSubjectError
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.runs import MemoryRuns
from tests.world import ALICE, BOB, known_values, vim_memory


async def test_tools_that_bind_the_user_at_each_call() -> None:
    """The context of a call names the user or the subjects."""
    memory = await vim_memory()
    tools = {tool.name: tool for tool in memory.tools(of=lambda context: context, save=True)}
    recall, save = tools["memory_recall"], tools["memory_save"]
    asked = {"query": "editor"}

    for who in ("alice", ALICE, [ALICE]):
        assert '"vim"' in await recall.call(asked, who)
    assert '"vim"' not in await recall.call(asked, "bob")
    await save.call({"concept": "shell", "value": "fish"}, "bob")
    assert await known_values(memory, BOB) == {"shell": "fish"}
    with pytest.raises(UnboundSubjectError):
        await recall.call(asked, None)
    with pytest.raises(TypeError, match="user must be"):
        await recall.call(asked, 7)


async def test_runs_of_a_read_only_view_change_nothing() -> None:
    memory = await vim_memory()
    view = memory.of("alice").view(read_only=True)

    class Runs(MemoryRuns[None]):
        def view(self, context: None) -> AgentMemory:
            return view

    tools = {tool.name: tool for tool in Runs(memory, user="alice").tools()}
    answer = await tools["memory_forget"].call({"concept": "editor"}, None)
    assert answer == "Error: nothing was done. This memory is read-only."
    assert await known_values(memory) == {"editor": "vim"}
