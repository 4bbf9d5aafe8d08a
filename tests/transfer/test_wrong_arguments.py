"""Wrong arguments of exports and imports, and a bundle with places outside a view."""

from io import BytesIO, StringIO

import pytest

from factmem.errors import MemoryAccessError
from factmem.events import MemoryEvent, MemoryOperation
from factmem.memory.agent_memory import AgentMemory
from factmem.models.places import MemoryScopesProfile, MemorySubject, Place
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing._facts import AGENT, THEME, theme
from factmem.transfer.bundle import export_facts, import_facts
from factmem.transfer.koog import import_koog
from tests.wrong_calls import Wrong, each_is_refused

USER = MemorySubject("user", "The user", 1, per_entity=True)
ALICE, BOB = USER.of("alice"), USER.of("bob")

WRONG: list[Wrong] = [
    (lambda it: export_facts(InMemoryProvider(), it), None, TypeError, "NoneType has no write"),
    (lambda it: export_facts(InMemoryProvider(), it), StringIO(), TypeError, "in binary mode"),
    (lambda it: import_facts(it, InMemoryProvider()), 5, TypeError, "int has no read"),
    (lambda it: import_facts(it, InMemoryProvider()), StringIO(), TypeError, "in binary mode"),
    (
        lambda it: export_facts(it, BytesIO()),
        object(),
        TypeError,
        "must be a FactStore, not object",
    ),
    (
        lambda it: import_facts(BytesIO(), it),
        object(),
        TypeError,
        "must be a FactStore, not object",
    ),
    (lambda it: import_koog("koog", it), object(), TypeError, "must be a FactStore, not object"),
    (
        lambda it: export_facts(InMemoryProvider(), BytesIO(), places=it),
        [ALICE],
        TypeError,
        r"places=\[Place\(",
    ),
    (
        lambda it: import_facts(BytesIO(), InMemoryProvider(), places=it),
        Place(AGENT, ALICE),
        TypeError,
        r"places=\[Place\(",
    ),
    (
        lambda it: export_facts(InMemoryProvider(), BytesIO(), clock=it),
        5,
        TypeError,
        "not int: clock=",
    ),
    (lambda it: import_koog(it, InMemoryProvider()), None, TypeError, "not NoneType: import_"),
]


test_wrong_arguments = each_is_refused(WRONG)


async def test_a_bundle_with_a_place_outside_a_view_leaves_nothing_in_it() -> None:
    """The places are listed first, and the refusal is one failed event."""
    store, events = InMemoryProvider(), list[MemoryEvent]()
    await store.save(theme("dark"), ALICE, AGENT)
    await store.save(theme("light"), BOB, AGENT)
    bundle = BytesIO()
    await export_facts(store, bundle)
    other = InMemoryProvider()
    whole = AgentMemory(
        other, scopes=MemoryScopesProfile(agent=AGENT.name), listeners=[events.append]
    )
    alice = whole.view(subjects=[ALICE])

    bundle.seek(0)
    with pytest.raises(MemoryAccessError, match="outside this view"):
        await import_facts(bundle, alice.store)

    assert await other.places() == []
    assert [(event.operation, event.error_type) for event in events] == [
        (MemoryOperation.SAVE, "MemoryAccessError")
    ]
    bundle.seek(0)
    report = await import_facts(bundle, alice.store, places=[Place(AGENT, ALICE)])
    assert report.new == 1
    assert [fact.value for fact in await other.load(THEME, ALICE, AGENT)] == ["dark"]
