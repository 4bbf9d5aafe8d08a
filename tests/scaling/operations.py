"""Whole operations over what users, pages and models wrote: their time by how much there is."""

import io
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

import anyio
import orjson

from factmem._text.spelling import Keywords
from factmem.agent.context import AgentContext
from factmem.agent.tools import Tool
from factmem.ledger._purging import QuotedValues
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import (
    AnyFact,
    Concept,
    FactSource,
    FactType,
    MultipleFacts,
    SingleFact,
    SourceKind,
)
from factmem.prompt._transcript import Transcript
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.results import RetractedFact
from factmem.testing.chat import ScriptedChatModel
from factmem.transfer.bundle import export_facts, import_facts
from tests.world import AGENT, ALICE, LANGUAGES, THEME, item, memory_of, theme

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Operation(NamedTuple):
    """Something to do, and what it is done to."""

    prepare: Callable[[int], Any]
    """Makes what holds so many things; it takes what time it likes."""
    run: Callable[[Any], object]
    """Does it; this is measured."""


def _filled(facts: list[AnyFact]) -> InMemoryProvider:
    store = InMemoryProvider()
    anyio.run(store.save_many, facts, ALICE, AGENT)
    return store


def _notes(count: int) -> list[AnyFact]:
    return [SingleFact(Concept(f"note-{n}", "A note"), f"value {n}") for n in range(count)]


def _memory(count: int) -> AgentMemory:
    return memory_of(_filled(_notes(count)))


def _confirmed(count: int) -> tuple[AgentMemory, AnyFact]:
    """Return a memory with a fact that so many messages state."""
    sources = (FactSource(SourceKind.USER, "chat", n, f"dark {n}") for n in range(count))
    facts: list[AnyFact] = [theme("dark", source=source) for source in sources]
    return memory_of(_filled(facts)), facts[0]


def _bundle(count: int) -> bytes:
    file = io.BytesIO()
    store = InMemoryProvider()

    async def fill() -> None:
        for fact in _notes(count):
            await store.save(fact, ALICE, AGENT)
        await export_facts(store, file)

    anyio.run(fill)
    return file.getvalue()


def _languages(count: int) -> tuple[InMemoryProvider, list[RetractedFact]]:
    """Return a store with so many values of a concept, and a retraction of each."""
    values = [f"language {n}" for n in range(count)]
    store = _filled([MultipleFacts(LANGUAGES, values, timestamp=NOW)])
    later = NOW + timedelta(days=1)
    return store, [RetractedFact(LANGUAGES, value, later) for value in values]


def _retract(given: tuple[InMemoryProvider, list[RetractedFact]]) -> object:
    store, retracted = given
    return anyio.run(partial(store.learn, [], ALICE, AGENT, retracted=retracted))


def _answered(count: int) -> AgentMemory:
    """Return a memory with so many values, whose model retracts them all."""
    values = [f"language-{n}" for n in range(count)]
    items = [
        item(
            keyword="languages",
            fact_type="MULTIPLE",
            value=value,
            action="retract",
            quote=f"no {value}",
        )
        for value in values
    ]
    store = _filled([MultipleFacts(LANGUAGES, values, timestamp=NOW)])
    return memory_of(store, ScriptedChatModel({"facts": items}), concepts=[LANGUAGES])


def _detect(memory: AgentMemory) -> object:
    return anyio.run(memory.remember, "I speak no language-1 any more. " * 10)


def _concepts(count: int) -> tuple[Keywords, str]:
    known = [Concept(f"known-{n}-name", "A concept") for n in range(count // 10)]
    return Keywords(known), "known-name" * (count // 10)


def _call(memory: AgentMemory, name: str, **arguments: object) -> object:
    [tool] = [each for each in memory.tools() if each.name == f"memory_{name}"]
    return anyio.run(tool.call, orjson.dumps(arguments).decode())


def _counted(words: list[str]) -> int:
    """Count words."""
    return len(words)


_CONTEXT = AgentContext("Hello", chat_model=ScriptedChatModel(), subjects=[ALICE])
_MANY = Concept("many", "Many", FactType.MULTIPLE)

OPERATIONS: Mapping[str, Operation] = {
    "why, with many sources": Operation(
        _confirmed, lambda given: anyio.run(given[0].why, given[1])
    ),
    "export_facts": Operation(_memory, lambda m: anyio.run(export_facts, m.store, io.BytesIO())),
    "import_facts": Operation(
        _bundle, lambda b: anyio.run(import_facts, io.BytesIO(b), InMemoryProvider())
    ),
    "AgentMemory.text": Operation(_memory, lambda memory: anyio.run(memory.text)),
    "memory_recall": Operation(_memory, lambda m: _call(m, "recall", query="the value of note 7")),
    "memory_list_concepts": Operation(_memory, lambda m: _call(m, "list_concepts")),
    "memory_forget": Operation(_memory, lambda m: _call(m, "forget", keyword="note-7")),
    "Tool.call": Operation(
        lambda count: orjson.dumps({"words": ["a"] * count}).decode(),
        lambda text: anyio.run(Tool(_counted).call, text, _CONTEXT),
    ),
    "learn, retractions times values": Operation(_languages, _retract),
    "remember, retractions times values": Operation(_answered, _detect),
    "save of many values": Operation(
        lambda count: MultipleFacts(_MANY, [str(n) for n in range(count)]),
        lambda fact: anyio.run(InMemoryProvider().save, fact, ALICE, AGENT),
    ),
    "Keywords, long names times concepts": Operation(
        _concepts, lambda given: given[0].known(given[1])
    ),
    "Transcript of many messages": Operation(
        lambda count: [{"role": "user", "content": f"message {n}"} for n in range(count)],
        lambda messages: list(Transcript(messages).pieces(6000)),
    ),
    "purged values times quotes": Operation(
        lambda count: (QuotedValues([f"a {n}" for n in range(count)]), "a " * count),
        lambda given: given[0].removed_from(given[1]),
    ),
    "a purged value of one word": Operation(
        lambda count: (QuotedValues(["a " * count + "b"]), "a " * count),
        lambda given: given[0].removed_from(given[1]),
    ),
    "load of a concept that was saved often": Operation(
        lambda count: _filled([theme(str(n)) for n in range(count)]),
        lambda store: anyio.run(store.history, THEME, ALICE, AGENT),
    ),
}
