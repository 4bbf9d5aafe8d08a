"""Two users of one agent, in two hundred concurrent runs: each sees only its own facts."""

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path

import anyio
from anyio.lowlevel import checkpoint

from factmem.agent.agent import Agent
from factmem.agent.context import AgentContext
from factmem.llm.base import ChatResponse, Message, ToolDefinition
from factmem.models.facts import Concept, SingleFact
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.store import FactStore
from tests.doubles import FunctionModel
from tests.world import (
    PRODUCT,
    THEME,
    USER,
    calls,
    found_facts,
    installed,
    is_detection,
    theme_item,
)

PEOPLE = ("alice", "bob")
RUNS = 200
FEWER = 60
SECRET = Concept("secret", "What only the user and the agent know")


class Crowd:
    """A model that serves all users at once and records the prompts of each."""

    def __init__(self) -> None:
        self.prompts: dict[str, list[str]] = {person: [] for person in PEOPLE}
        self.shown: list[str] = []
        self._random = random.Random(4)

    async def respond(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition]
    ) -> ChatResponse:
        for _ in range(self._random.randrange(6)):
            await checkpoint()
        shown = json.dumps(list(messages), ensure_ascii=False)
        self.shown.append(shown)
        [speaker] = [person for person in PEOPLE if f"I am {person}" in shown]
        self.prompts[speaker].append(shown)
        if is_detection(messages):
            [number] = re.findall(r'"message": (\d+)', str(messages[1]["content"]))
            found = theme_item(f"{speaker}'s theme", f"I am {speaker}", message=int(number))
            return ChatResponse(json.dumps(found_facts(found)))
        if messages[-1]["role"] == "user" and tools:
            return calls(("secrets", {}))
        return ChatResponse(f"Hello, {speaker}.")


async def secrets(context: AgentContext) -> list[str]:
    """Look up what is known."""
    return [str(fact.values[0]) for fact in await context.memory.current()]


async def prepared(store: FactStore) -> FactStore:
    for person in PEOPLE:
        about = USER.of(person)
        await store.save(SingleFact(SECRET, f"{person}'s secret"), about, PRODUCT)
    return store


async def talk(agent: Agent, crowd: Crowd, store: FactStore, runs: int = RUNS) -> None:
    """Let both talk to the agent repeatedly, and check every prompt."""

    async def one(number: int) -> None:
        person = PEOPLE[number % 2]
        result = await agent.run(
            f"I am {person}, and this is number {number}.",
            subjects=[USER.of(person)],
            conversation=f"{person}-{number}",
        )
        assert result.text == f"Hello, {person}."
        everything = json.dumps(result.messages) + repr(result.reports)
        other = PEOPLE[(number + 1) % 2]
        assert f"{person}'s secret" in everything
        assert other not in everything

    async with anyio.create_task_group() as tasks:
        for number in range(runs):
            tasks.start_soon(one, number)

    for person, other in (PEOPLE, PEOPLE[::-1]):
        assert len(crowd.prompts[person]) == runs // 2 * 3
        assert not [prompt for prompt in crowd.prompts[person] if other in prompt]
        [theme] = await store.load(THEME, USER.of(person), PRODUCT)
        assert theme.value == f"{person}'s theme"
    held = {place.subject.entity for place in await store.places()}
    assert held == set(PEOPLE)


async def test_two_hundred_concurrent_runs_do_not_mix() -> None:
    """Prompts, tool results, reports and saved facts each concern one user."""
    crowd, store = Crowd(), await prepared(InMemoryProvider())
    agent = Agent(FunctionModel(crowd.respond), system_prompt="Be kind.", tools=[secrets])
    installed(agent, store, subjects=[USER], auto_detect=True)

    await talk(agent, crowd, store)


async def test_extractions_to_files_do_not_mix(tmp_path: Path) -> None:
    """Facts are extracted after the answers and saved in files."""
    crowd = Crowd()
    async with LocalFileMemoryProvider(tmp_path) as store:
        await prepared(store)
        agent = Agent(FunctionModel(crowd.respond), tools=[secrets])
        installed(agent, store, subjects=[USER], auto_detect=True)

        await talk(agent, crowd, store, FEWER)
