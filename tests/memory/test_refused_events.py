"""A refused call emits one failed event and changes nothing."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from factmem.detection import Detection
from factmem.errors import MemoryAccessError, UnboundSubjectError
from factmem.events import MemoryEvent, MemoryOperation
from factmem.memory.agent_memory import AgentMemory
from factmem.models.places import Place
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from tests.doubles import BareProvider
from tests.world import AGENT, ALICE, LANGUAGES, PRODUCT, THEME, USER, memory_of, theme

BOB = USER.of("bob")
IN_AGENT, IN_PRODUCT = Place(AGENT, ALICE), Place(PRODUCT, ALICE)


@pytest.fixture
def events() -> list[MemoryEvent]:
    """Return the events so far."""
    return []


@pytest.fixture
async def memory(events: list[MemoryEvent]) -> AgentMemory:
    """Save Alice's theme, for the agent and in the product."""
    store = InMemoryProvider()
    await store.save(theme("dark"), ALICE, AGENT)
    await store.save(theme("light"), ALICE, PRODUCT)
    return memory_of(store, listeners=[events.append])


Attempt = Callable[[AgentMemory], Awaitable[object]]
ATTEMPTS: list[tuple[Attempt, MemoryOperation, tuple[Place, ...]]] = [
    (
        lambda view: view.contents.forget(concept=THEME),
        MemoryOperation.FORGET,
        (IN_AGENT, IN_PRODUCT),
    ),
    (lambda view: view.contents.reset(confirm=True), MemoryOperation.ERASE, ()),
    (
        lambda view: view.view(subjects=[BOB]).contents.reset(confirm=True),
        MemoryOperation.ERASE,
        (),
    ),
    (lambda view: view.store.erase(ALICE, AGENT), MemoryOperation.ERASE, (IN_AGENT,)),
]


@pytest.mark.parametrize(("attempt", "operation", "places"), ATTEMPTS)
async def test_a_read_only_view_reports_refused_calls(
    memory: AgentMemory,
    events: list[MemoryEvent],
    attempt: Attempt,
    operation: MemoryOperation,
    places: tuple[Place, ...],
) -> None:
    """Listeners get the attempt once, with its places."""
    view = memory.view(subjects=[ALICE], read_only=True)

    with pytest.raises(MemoryAccessError, match="read-only"):
        await attempt(view)

    assert [(event.operation, event.error_type, event.places) for event in events] == [
        (operation, "MemoryAccessError", places)
    ]
    assert len(await memory.current(THEME)) == 1


async def test_a_refused_place_prevents_forgetting_in_all(
    memory: AgentMemory, events: list[MemoryEvent]
) -> None:
    """Bob is outside, so Alice's values stay too; the one event names both."""
    view = memory.view(subjects=[ALICE], scopes=[AGENT])

    with pytest.raises(MemoryAccessError, match="outside"):
        await view.contents.forget(concept=THEME, subjects=[ALICE, BOB])

    (event,) = events
    assert (event.operation, event.is_failed) == (MemoryOperation.FORGET, True)
    assert {place.subject for place in event.places} == {ALICE, BOB}
    assert [fact.value for fact in await view.current(THEME)] == ["dark"]


async def test_only_the_store_reports_an_operation(
    memory: AgentMemory, events: list[MemoryEvent]
) -> None:
    """The check before it emits no event of its own."""
    assert await memory.contents.forget(concept=THEME, scopes=[AGENT]) == 1
    await memory.view(subjects=[ALICE]).contents.reset(confirm=True)

    assert [(str(event.operation), event.is_failed) for event in events] == [
        ("forget", False),
        ("list", False),
        ("erase", False),
        ("erase", False),
    ]


OP = MemoryOperation
TEXT = "I prefer the dark theme."
CALLS: list[tuple[Callable[[Any], Awaitable[object]], MemoryOperation]] = [
    (lambda m: m.load_facts_to_agent([], THEME), OP.LOAD),
    (lambda m: m.load_facts_to_agent([]), OP.LOAD),
    (lambda m: m.current(THEME), OP.LOAD),
    (lambda m: m.current(), OP.LOAD),
    (lambda m: m.why(theme("dark")), OP.HISTORY),
    (lambda m: m.recall("Which theme?", subjects=[USER]), OP.RECALL),
    (lambda m: m.recall_facts_to_agent([], "Which theme?", subjects=[USER]), OP.RECALL),
    (lambda m: m.recall_facts_to_agent([], " ", subjects=[USER]), OP.RECALL),
    (lambda m: m.remember(TEXT), OP.REMEMBER),
    (lambda m: m.remember([TEXT]), OP.REMEMBER),
    (lambda m: m.auto_detect_facts([]), OP.DETECT),
    (lambda m: m.auto_detect_facts([], detection=Detection(only=[THEME])), OP.DETECT),
    (lambda m: m.consolidation.propose(LANGUAGES), OP.CONSOLIDATE),
    (lambda m: m.contents.forget(concept=THEME, subjects=[USER]), OP.FORGET),
    (lambda m: m.store.save(theme("dark"), USER, AGENT), OP.SAVE),
    (lambda m: m.store.save_many([theme("dark")], USER, AGENT), OP.SAVE),
    (lambda m: m.store.load(THEME, USER, AGENT), OP.LOAD),
    (lambda m: m.store.load_all(USER, AGENT), OP.LOAD),
    (lambda m: m.store.load_by_description("theme", USER, AGENT), OP.LOAD),
    (lambda m: m.store.changes(USER, AGENT, since=""), OP.LOAD),
    (lambda m: m.store.history(THEME, USER, AGENT), OP.HISTORY),
    (lambda m: m.store.entries(USER, AGENT), OP.HISTORY),
    (lambda m: m.store.forget(USER, AGENT, concept=THEME), OP.FORGET),
    (lambda m: m.store.erase(USER, AGENT), OP.ERASE),
    (lambda m: m.store.replay([], USER, AGENT), OP.SAVE),
    (lambda m: m.store.amend(lambda entries, now: [], USER, AGENT), OP.SAVE),
    (lambda m: m.store.places(subjects=[USER]), OP.LIST),
]


@pytest.mark.parametrize(("attempt", "operation"), CALLS, ids=range(len(CALLS)))
async def test_a_call_without_an_entity_is_one_failed_event(
    events: list[MemoryEvent],
    attempt: Callable[[Any], Awaitable[object]],
    operation: MemoryOperation,
) -> None:
    """A count of failures per operation is complete, for any call."""
    model = ScriptedChatModel()
    async with memory_of(model=model, listeners=[events.append], subjects=[USER]) as memory:
        with pytest.raises(UnboundSubjectError):
            await attempt(memory)

    assert [(event.operation, event.error_type) for event in events] == [
        (operation, "UnboundSubjectError")
    ]
    assert model.calls == []


MISTAKES: list[tuple[Callable[[Any], Awaitable[object]], MemoryOperation, str]] = [
    (lambda m: m.recall(" "), OP.RECALL, "InputValueError"),
    (lambda m: m.recall("theme", limit=0), OP.RECALL, "InputValueError"),
    (lambda m: m.recall("theme", where={}), OP.RECALL, "InputTypeError"),
    (lambda m: m.recall_facts_to_agent([], "theme", limit=0), OP.RECALL, "InputValueError"),
    (lambda m: m.why("theme"), OP.HISTORY, "InputTypeError"),
    (lambda m: m.remember(TEXT), OP.REMEMBER, "ValueError"),
    (lambda m: m.remember(7), OP.REMEMBER, "InputTypeError"),
    (lambda m: m.remember(TEXT, source=7), OP.REMEMBER, "InputTypeError"),
    (lambda m: m.auto_detect_facts([], detection={}), OP.DETECT, "InputTypeError"),
    (lambda m: m.consolidation.propose(THEME), OP.CONSOLIDATE, "InputValueError"),
    (lambda m: m.consolidation.merge([]), OP.CONSOLIDATE, "InputTypeError"),
    (lambda m: m.contents.records(-1), OP.LIST, "InputValueError"),
    (lambda m: m.contents.reset(), OP.ERASE, "InputValueError"),
    (lambda m: m.contents.forget(concept=THEME, scopes=AGENT), OP.FORGET, "InputTypeError"),
    (lambda m: m.store.save(theme("dark"), AGENT, ALICE), OP.SAVE, "InputTypeError"),
    (lambda m: m.store.save_many(theme("dark"), ALICE, AGENT), OP.SAVE, "InputTypeError"),
]


@pytest.mark.parametrize(("attempt", "operation", "error"), MISTAKES, ids=range(len(MISTAKES)))
async def test_a_wrong_argument_is_one_failed_event(
    events: list[MemoryEvent],
    attempt: Callable[[Any], Awaitable[object]],
    operation: MemoryOperation,
    error: str,
) -> None:
    """A call with wrong arguments counts as a call of the operation."""
    with pytest.raises((TypeError, ValueError)):
        await attempt(memory_of(listeners=[events.append]))

    assert [(event.operation, event.error_type) for event in events] == [(operation, error)]


LACKING: list[tuple[Callable[[Any], Awaitable[object]], MemoryOperation]] = [
    (lambda m: m.contents.tree(), OP.LIST),
    (lambda m: m.contents.forget(concept=THEME), OP.FORGET),
    (lambda m: m.view(subjects=[ALICE]).contents.reset(confirm=True), OP.ERASE),
]


@pytest.mark.parametrize(("attempt", "operation"), LACKING, ids=range(len(LACKING)))
async def test_a_missing_method_of_a_provider_is_one_failed_event(
    events: list[MemoryEvent],
    attempt: Callable[[Any], Awaitable[object]],
    operation: MemoryOperation,
) -> None:
    """Four methods make a provider, and are not enough for these calls."""
    with pytest.raises(TypeError, match="not a FactStore"):
        await attempt(memory_of(BareProvider(), listeners=[events.append]))

    assert [(event.operation, event.error_type) for event in events] == [(operation, "TypeError")]
