"""Recall over messages in PostgreSQL: what another host appends, removes and erases."""

from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import Concept, SingleFact
from factmem.models.places import MemoryScopesProfile
from factmem.testing._facts import AGENT, PERSON
from tests.postgres.conftest import NewStore

ALICE = PERSON.of("alice")
CITY = Concept("home-city", "The city where the user lives", value_type=str)
DESK = MemoryScopesProfile(agent=AGENT.name)


async def test_messages_of_another_host_are_found(new_store: NewStore) -> None:
    """In one text with facts, from places that PostgreSQL searches and from those read whole."""
    async with new_store(search_from=None) as here, new_store(search_from=1) as there:
        first = AgentMemory(here, subjects=[ALICE], scopes=DESK)
        second = AgentMemory(there, subjects=[ALICE], scopes=DESK)
        chat = first.conversation("chat")
        for memory in (first, second):
            assert (await memory.recall("When does the ferry leave?")).turns == []
        (said,) = await chat.append({"role": "user", "content": "My ferry to Busan leaves at six"})
        await here.save(SingleFact(CITY, "Busan"), ALICE, AGENT)

        for memory in (first, second):
            text = await memory.text("When does the ferry leave for the city?", max_tokens=300)
            assert '"My ferry to Busan leaves at six" (user, ' in text
            assert '"Busan" (' in text
        await chat.remove(said.id)
        assert (await second.recall("When does the ferry leave?")).turns == []
        await chat.append({"role": "user", "content": "The ferry is full"})
        assert len((await second.recall("ferry?")).turns) == 1
        await here.erase(ALICE, AGENT)
        assert (await second.recall("ferry?")).turns == []
