"""The types of an agent's memory, for type checkers. Checked, never run."""

from typing import Any, assert_type

from factmem.detection.compression import RetrieveFactsFromHistory
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.listing import CurrentFacts
from factmem.models.facts import AnyFact, Concept, FactType, MultipleFacts, SingleFact
from factmem.models.places import MemoryScope, MemorySubject
from factmem.prompt.memory_message import LoadReport
from factmem.providers.provider import AgentMemoryProvider
from factmem.providers.results import Forgotten
from factmem.providers.store import FactStore
from factmem.recall.match import RecallReport, RecallResult
from factmem.transfer.bundle import export_facts

AGE = Concept("age", "The user's age", value_type=int)
LANGUAGES = Concept("languages", "Languages", FactType.MULTIPLE)
ALICE = MemorySubject("user", "The user", 1, per_entity=True).of("alice")
AGENT = MemoryScope.Agent("desk")


async def values_have_their_types(memory: AgentMemory) -> None:
    """A loaded age is an int; many values are a tuple of texts."""
    assert_type(await memory.current(AGE), list[SingleFact[int]])
    assert_type((await memory.current(AGE))[0].value, int)
    assert_type((await memory.current(LANGUAGES))[0].values, tuple[str, ...])
    assert_type(await memory.current(), CurrentFacts)
    assert_type(await memory.value(AGE), int | None)
    assert_type(await memory.values(LANGUAGES), list[str])


async def any_list_of_message_dicts_is_a_chat(memory: AgentMemory) -> None:
    """With any types that a framework gives its messages."""
    loose: list[dict[str, Any]] = []
    texts: list[dict[str, str]] = []
    objects: list[dict[str, object]] = []
    assert_type(await memory.load_facts_to_agent(loose, AGE), LoadReport[SingleFact[int]])
    assert_type(await memory.load_facts_to_agent(texts, LANGUAGES), LoadReport[MultipleFacts[str]])
    await memory.load_facts_to_agent(objects)
    recalled = await memory.recall_facts_to_agent(objects, "the theme", limit=5)
    assert_type(recalled, RecallReport)
    assert_type(recalled.matches, RecallResult)
    loaded: LoadReport = recalled
    loaded.facts.clear()
    await memory.auto_detect_facts(texts)
    report = await memory.auto_detect_facts(({"role": "user", "content": "Hello"},))
    assert_type([placed.fact for placed in report.saved], list[AnyFact])


def concepts_of_any_type_can_be_retrieved() -> None:
    """And those of one chat may differ."""
    RetrieveFactsFromHistory(AGE, LANGUAGES)


async def a_store_is_more_than_a_provider(memory: AgentMemory) -> None:
    """Operations of stores go through `store`; `provider` has no more than four methods."""
    assert_type(memory.provider, AgentMemoryProvider)
    assert_type(memory.store, FactStore)
    assert_type(memory.view(read_only=True).store, FactStore)
    await export_facts(memory.store, "facts.jsonl")
    assert_type(await memory.store.forget(ALICE, AGENT, concept=AGE), Forgotten)
    await memory.store.erase(ALICE, AGENT)
    await export_facts(memory.provider, "facts.jsonl")  # type: ignore[arg-type]
