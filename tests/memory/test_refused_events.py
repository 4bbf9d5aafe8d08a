"""What a view refuses is one failed event, and nothing is done in part."""

from collections.abc import Awaitable, Callable

import pytest

from factmem.errors import MemoryAccessError
from factmem.events import MemoryEvent, MemoryOperation
from factmem.memory import AgentMemory
from factmem.models import Place
from factmem.providers.in_memory import InMemoryProvider
from tests.memory.world import AGENT, ALICE, PRODUCT, THEME, USER, memory_of, theme

BOB = USER.of("bob")
IN_AGENT, IN_PRODUCT = Place(AGENT, ALICE), Place(PRODUCT, ALICE)


@pytest.fixture
def told() -> list[MemoryEvent]:
    """The events so far."""
    return []


@pytest.fixture
async def memory(told: list[MemoryEvent]) -> AgentMemory:
    """Alice's theme, for the agent and in the product."""
    store = InMemoryProvider()
    await store.save(theme("dark"), ALICE, AGENT)
    await store.save(theme("light"), ALICE, PRODUCT)
    return memory_of(store, listeners=[told.append])


Attempt = Callable[[AgentMemory], Awaitable[object]]
ATTEMPTS: list[tuple[Attempt, MemoryOperation, tuple[Place, ...]]] = [
    (
        lambda view: view.contents.forget(concept=THEME),
        MemoryOperation.FORGET,
        (IN_AGENT, IN_PRODUCT),
    ),
    (lambda view: view.contents.reset(confirm=True), MemoryOperation.ERASE, ()),
    (lambda view: view.store.erase(ALICE, AGENT), MemoryOperation.ERASE, (IN_AGENT,)),
]


@pytest.mark.parametrize(("attempt", "operation", "places"), ATTEMPTS)
async def test_a_read_only_view_tells_what_it_refuses(
    memory: AgentMemory,
    told: list[MemoryEvent],
    attempt: Attempt,
    operation: MemoryOperation,
    places: tuple[Place, ...],
) -> None:
    """Whoever watches sees the attempt, with the places that were meant, and sees it once."""
    view = memory.view(subjects=[ALICE], read_only=True)

    with pytest.raises(MemoryAccessError, match="read-only"):
        await attempt(view)

    assert [(event.operation, event.error_type, event.places) for event in told] == [
        (operation, "MemoryAccessError", places)
    ]
    assert len(await memory.current(THEME)) == 1


async def test_nothing_is_forgotten_where_one_place_is_refused(
    memory: AgentMemory, told: list[MemoryEvent]
) -> None:
    """Bob is outside: Alice's values stay as well, and the one event names both."""
    view = memory.view(subjects=[ALICE], scopes=[AGENT])

    with pytest.raises(MemoryAccessError, match="outside"):
        await view.contents.forget(concept=THEME, subjects=[ALICE, BOB])

    (event,) = told
    assert (event.operation, event.is_failed) == (MemoryOperation.FORGET, True)
    assert {place.subject for place in event.places} == {ALICE, BOB}
    assert [fact.value for fact in await view.current(THEME)] == ["dark"]


async def test_a_view_with_nothing_in_it_refuses_all_the_same(
    memory: AgentMemory, told: list[MemoryEvent]
) -> None:
    """Whether there is anything to erase is not what decides."""
    with pytest.raises(MemoryAccessError, match="read-only"):
        await memory.view(subjects=[BOB], read_only=True).contents.reset(confirm=True)
    assert (await memory.view(subjects=[BOB], read_only=True).contents.reset()).count == 0

    assert [(str(event.operation), event.is_failed) for event in told] == [
        ("erase", True),
        ("list", False),
    ]


async def test_what_is_done_is_told_by_the_store_alone(
    memory: AgentMemory, told: list[MemoryEvent]
) -> None:
    """The check before it is no event of its own."""
    assert await memory.contents.forget(concept=THEME, scopes=[AGENT]) == 1
    await memory.view(subjects=[ALICE]).contents.reset(confirm=True)

    assert [(str(event.operation), event.is_failed) for event in told] == [
        ("forget", False),
        ("list", False),
        ("erase", False),
        ("erase", False),
    ]
