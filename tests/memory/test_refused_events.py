"""A refused call emits one failed event and changes nothing."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from factmem.detection import Detection
from factmem.errors import MemoryAccessError
from factmem.events import MemoryEvent, MemoryOperation
from factmem.memory.agent_memory import AgentMemory
from factmem.models.places import Place
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from tests.doubles import BareProvider
from tests.tables import table
from tests.world import AGENT, ALICE, BOB, LANGUAGES, PRODUCT, THEME, USER, memory_of, theme

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


Call = Callable[[Any], Awaitable[object]]
ATTEMPTS: list[tuple[Call, MemoryOperation, tuple[Place, ...]]] = [
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
    attempt: Call,
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
CALLS: list[tuple[Call, MemoryOperation]] = [
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


MISTAKES: list[tuple[Call, MemoryOperation, str]] = [
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


LACKING: list[tuple[Call, MemoryOperation]] = [
    (lambda m: m.contents.tree(), OP.LIST),
    (lambda m: m.contents.forget(concept=THEME), OP.FORGET),
    (lambda m: m.view(subjects=[ALICE]).contents.reset(confirm=True), OP.ERASE),
]


@table(
    ("options", "attempt", "operation", "error"),
    [
        *(({"subjects": [USER]}, *call, "UnboundSubjectError") for call in CALLS),
        *(({"model": None}, *mistake) for mistake in MISTAKES),
        *(({"provider": BareProvider(), "model": None}, *call, "TypeError") for call in LACKING),
    ],
)
async def test_a_refused_call_is_one_failed_event(
    options: dict[str, Any], attempt: Call, operation: MemoryOperation, error: str
) -> None:
    """Without an entity, an argument that fits or a store: a count of failures is complete."""
    model, events = ScriptedChatModel(), list[MemoryEvent]()
    async with memory_of(**{"model": model, "listeners": [events.append], **options}) as memory:
        with pytest.raises((TypeError, ValueError)):
            await attempt(memory)

    assert [(event.operation, event.error_type) for event in events] == [(operation, error)]
    assert model.calls == []
