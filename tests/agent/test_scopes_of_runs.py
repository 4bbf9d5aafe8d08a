"""Scopes of an installation and of a run, detected concepts, and reprs."""

from factmem.agent.agent import Agent
from factmem.detection import Detection
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import SingleFact
from factmem.models.places import MemoryScope, MemoryScopesProfile
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from tests.world import ALICE, PRODUCT, THEME, USER, installed, memory_texts, theme_item

DESK = MemoryScope.Agent("desk")
SAID = "I prefer the dark theme."
PROFILE = MemoryScopesProfile(agent="desk", product="my-app")


async def stored() -> InMemoryProvider:
    """Save one theme for the product, another for the agent."""
    store = InMemoryProvider()
    await store.save(SingleFact(THEME, "dark"), ALICE, PRODUCT)
    await store.save(SingleFact(THEME, "light"), ALICE, DESK)
    return store


async def test_a_profile_names_all_scopes() -> None:
    """A run may use some of them only."""
    agent = Agent(ScriptedChatModel("A", "B"))
    agent.install(AgentMemory, provider=await stored(), scopes=PROFILE, subjects=[USER])

    everywhere = await agent.run("Which theme?", subjects=[ALICE])
    product = await agent.run("Which theme?", subjects=[ALICE], scopes=[PRODUCT])

    assert "light" in memory_texts(everywhere.messages)[0]
    assert "dark" in memory_texts(product.messages)[0]
    assert "light" not in memory_texts(product.messages)[0]


async def test_a_run_writes_only_within_its_scopes() -> None:
    """Otherwise the agent's own scope, the narrowest, would get the fact."""
    store = InMemoryProvider()
    agent = Agent(
        ScriptedChatModel("Noted.", {"facts": [theme_item("dark", SAID, scope="product")]})
    )
    agent.install(AgentMemory, provider=store, scopes=PROFILE, subjects=[USER], auto_detect=True)

    await agent.run(SAID, subjects=[ALICE], scopes=[PRODUCT])

    assert [place.scope for place in await store.places()] == [PRODUCT]


async def test_only_named_concepts_are_learned() -> None:
    store = InMemoryProvider()
    found = {"facts": [theme_item("dark", SAID), theme_item("dark", SAID, keyword="city")]}
    agent = Agent(ScriptedChatModel("Noted.", found))
    memory = installed(
        agent, store, subjects=[USER], auto_detect=True, detection=Detection(only=[THEME])
    )

    await agent.run(SAID, subjects=[ALICE])

    facts = await memory.of("alice").current()
    assert [fact.concept.keyword for fact in facts] == [THEME.keyword]


def test_the_repr_of_an_agent() -> None:
    agent = Agent(ScriptedChatModel(), tools=[abs_of])
    agent.install(AgentMemory, provider=InMemoryProvider(), scopes=PROFILE, subjects=[USER])

    assert repr(agent) == (
        "<Agent ScriptedChatModel, 1 tool, features [<AgentMemory in InMemoryProvider: user in "
        "agent/desk, product/my-app>]>"
    )


def abs_of(number: int) -> int:
    """Return the absolute value."""
    return abs(number)
