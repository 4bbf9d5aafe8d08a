"""The memory provider in Hermes' own manager, loaded as Hermes loads plugins."""

import json
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import pytest

if find_spec("hermes_cli") is None:
    pytest.skip("make frameworks ONLY=hermes", allow_module_level=True)

from agent.memory_manager import MemoryManager
from plugins.memory import load_memory_provider

from factmem.integrations.hermes import HermesMemory
from factmem.memory.agent_memory import AgentMemory
from factmem.testing.adapters import AdapterContract, AdapterHost
from tests.integrations.killed_workers import KilledWorkers
from tests.world import USER, found_fact, known_values, vim_memory

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of Hermes and its packages

PLUGIN = """
import anyio
from factmem.integrations.hermes import HermesMemory
from tests.world import vim_memory

memory = anyio.run(vim_memory)

def register(context):
    context.register_memory_provider(HermesMemory(memory, user=lambda session: session["user_id"]))
"""


def session(provider: HermesMemory, **told: Any) -> MemoryManager:
    manager = MemoryManager()
    manager.add_provider(provider)
    manager.initialize_all("s1", hermes_home="/nowhere", **({"platform": "cli"} | told))
    return manager


class Host(AdapterHost):
    def __init__(self, memory: AgentMemory, options: dict[str, Any]) -> None:
        self.memory, self.options = memory, options
        self.managers: dict[str, MemoryManager] = {}

    async def say(self, user: str, text: str) -> str:
        if user not in self.managers:
            provider = HermesMemory(self.memory, **({"user": user} | self.options))
            self.managers[user] = session(provider)
        manager = self.managers[user]
        asked = partial(manager.prefetch_all, text, session_id=user)
        sent = f"{manager.build_system_prompt()}\n{await anyio.to_thread.run_sync(asked)}\n{text}"
        manager.sync_all(text, "Ok.", session_id=user)
        await anyio.to_thread.run_sync(manager.flush_pending, 60)
        return sent


class TestHermesMemory(KilledWorkers, AdapterContract):
    async def new_host(self, memory: AgentMemory, **options: Any) -> Host:
        return Host(memory, options)


def test_hermes_loads_it_as_a_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    folder = tmp_path / "plugins" / "factmem"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(PLUGIN)

    provider = load_memory_provider("factmem")
    assert provider
    assert provider.is_available()
    provider.initialize("s1", user_id="alice", platform="cli")
    assert "vim" in provider.prefetch("Which editor?")
    provider.initialize("s2", user_id="bob", platform="cli")
    assert provider.prefetch("Which editor?") == ""


def test_its_tools_answer_in_json() -> None:
    memory = anyio.run(vim_memory)
    manager = session(HermesMemory(memory, user="alice"))
    assert "vim" in manager.handle_tool_call("memory_recall", {"query": "editor"})
    refused = manager.handle_tool_call("memory_recall", {"question": "editor"})
    assert json.loads(refused)["error"].startswith("Error: nothing was done.")


def test_only_what_a_person_says_is_learnt_under_the_name_of_the_platform() -> None:
    async def made() -> AgentMemory:
        return await vim_memory(*[found_fact("I use fish", "shell", "fish")] * 2)

    memory = anyio.run(made)
    for context, known in (("subagent", {}), ("primary", {"shell": "fish"})):
        provider = HermesMemory(memory, auto_detect=True)
        told = {"platform": "telegram", "user_id": "4711", "agent_context": context}
        manager = session(provider, **told)
        manager.on_session_switch("s2")
        manager.sync_all("I use fish", "Ok.", session_id="s2")
        assert manager.flush_pending(60)
        assert anyio.run(known_values, memory, USER.of("telegram:4711")) == known
    assert anyio.run(known_values, memory) == {"editor": "vim"}
