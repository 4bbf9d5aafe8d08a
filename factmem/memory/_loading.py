"""Loading of current facts, for a chat or for the application, and of their origins.

No call to a model. The functions behave like the methods of `AgentMemory` that call them.
"""

from collections.abc import Callable
from typing import Any

from factmem._arguments import expect
from factmem.events import MemoryOperation
from factmem.llm.messages import MEMORY_MESSAGE, History, checked_history, own_text, put_own_text
from factmem.memory._instructions import separated
from factmem.memory._parts import MemoryParts
from factmem.memory.listing import CurrentFacts
from factmem.memory.origin import FactOrigin, origin_of
from factmem.models._checked import checked_concept
from factmem.models.facts import AnyFact, Concept, L, MultipleFacts, SingleFact
from factmem.models.places import Place
from factmem.prompt.memory_message import LoadReport
from factmem.providers._reader import MANY


async def load_into(
    parts: MemoryParts, messages: list[History], concept: Concept[Any, Any] | None
) -> LoadReport[Any]:
    """Put the facts of every concept, or of one, into a chat."""
    if concept is None:
        places = await _places(parts, lambda: checked_history(messages))
        resolution = await parts.reader.everything(places)
        asked = None
    else:
        places = await _places(parts, lambda: (checked_history(messages), checked_concept(concept)))
        resolution = await parts.reader.concept(concept, places)
        asked = {concept.keyword}
    facts, followed = await separated(parts, resolution)
    before = own_text(messages, MEMORY_MESSAGE)

    def ask() -> LoadReport[Any]:
        message = parts.settings.message
        return message.report(before, facts, places, asked, instructions=followed)

    report = ask() if len(facts.placed) <= MANY else await parts.workers.run(ask)
    put_own_text(messages, MEMORY_MESSAGE, report.text)
    return report


async def current_facts_of(parts: MemoryParts, concept: Concept[Any, L]) -> list[L]:
    """Return the current facts of one concept."""
    places = await _places(parts, lambda: checked_concept(concept))
    resolution = await parts.reader.concept(concept, places)
    if resolution.unreadable:
        raise resolution.unreadable[0].error
    return resolution.facts


async def current_facts(parts: MemoryParts) -> CurrentFacts:
    """Return the current facts of every concept, ordered by keyword."""
    resolution = await parts.reader.everything(await _places(parts))
    return CurrentFacts(resolution.facts, resolution.unreadable)


async def origin_in(parts: MemoryParts, fact: AnyFact) -> FactOrigin | None:
    """Return the sources and history of a fact; None if no place has or had it."""
    places = await _places(
        parts,
        lambda: expect(fact, (SingleFact, MultipleFacts), "fact", "memory.why(facts[0])"),
        MemoryOperation.HISTORY,
    )
    return await origin_of(fact, places, parts.provider)


async def _places(
    parts: MemoryParts,
    check: Callable[[], object] = bool,
    operation: MemoryOperation = MemoryOperation.LOAD,
) -> list[Place]:
    """Return the places of a load, after `check`.

    The provider reports each load as an event. A call that is rejected before it reaches the
    provider is reported here; this is skipped if there are no listeners.
    """
    if not parts.events:
        check()
        return parts.selection.places()
    async with parts.events.before(operation):
        check()
        return parts.selection.places()
