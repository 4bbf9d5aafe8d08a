"""Memories of mem0, CrewAI and Graphiti are imported once, with times and users."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from factmem.errors import UnboundSubjectError
from factmem.models.facts import AnyFact, Concept, FactSource, SourceKind
from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.store import FactStore
from factmem.transfer.memories import import_crewai, import_graphiti, import_mem0
from factmem.transfer.reports import ImportReport
from tests.tables import table
from tests.world import USER

MEM0 = [
    json.loads(line)
    for line in (Path(__file__).parent.parent / "data" / "mem0.jsonl").read_text().splitlines()
]
"""What `get_all()` of mem0 2.2.1 returned for two users: one memory was updated, one deleted."""
APP = MemoryScope.Product("my-app")
DESK = MemoryScope.Agent("desk")
ALICE, BOB = USER.of("alice"), USER.of("bob")


@pytest.fixture
def store() -> InMemoryProvider:
    return InMemoryProvider()


async def texts(
    store: FactStore, subject: MemorySubject = ALICE, scope: MemoryScope = APP
) -> dict[str, list[Any]]:
    """Return a place's current values by keyword."""
    found: dict[str, list[Any]] = {}
    for fact in await store.load_all(subject, scope):
        found.setdefault(fact.concept.keyword, []).extend(fact.values)
    return found


async def fact_of(store: FactStore, subject: MemorySubject = ALICE) -> AnyFact:
    [fact] = await store.load_all(subject, APP)
    return fact


def memory(text: str = "Lives in Busan", **fields: Any) -> dict[str, Any]:
    """Return a memory as mem0's get_all() does."""
    return {
        "id": "m1",
        "memory": text,
        "hash": "f1",
        "metadata": None,
        "created_at": "2026-03-01T09:30:00+00:00",
        "updated_at": None,
        "user_id": "alice",
        **fields,
    }


def record(text: str = "Lives in Busan", **fields: Any) -> dict[str, Any]:
    """Return a record as CrewAI's model_dump(mode="json") does."""
    return {
        "id": "r1",
        "content": text,
        "scope": "/home/alice",
        "categories": [],
        "metadata": {},
        "importance": 0.5,
        "created_at": "2026-03-01T09:30:00",
        "last_accessed": "2026-03-01T09:30:00",
        "source": None,
        "private": False,
        **fields,
    }


async def imported(store: FactStore, *memories: dict[str, Any]) -> ImportReport:
    return await import_mem0(memories, store, scope=APP, subject=USER)


class TestMem0:
    """Memories as `get_all()` returns them."""

    async def test_memories_go_to_their_users_and_agents_once(self, store: FactStore) -> None:
        """Updated values are current, deleted ones gone, and a second import changes nothing."""
        report = await import_mem0(MEM0, store, scope=APP, subject=USER)

        assert (report.new, report.known, report.problems) == (3, 0, ())
        assert await texts(store) == {"preferences": ["Prefers Kotlin to Java"]}
        assert await texts(store, BOB) == {"notes": ["Speaks 한국어 [bold]"]}
        assert await texts(store, ALICE, DESK) == {"notes": ["Lives in Seoul"]}
        [fact] = await store.load_all(ALICE, DESK)
        assert fact.timestamp == datetime(2026, 11, 22, 21, 47, 40, 862468, UTC)
        assert fact.source is not None
        assert fact.source.conversation == "17"
        assert dict(fact.metadata) == {"role": "user"}
        before = await store.entries(ALICE, APP)
        again = await import_mem0(MEM0, store, scope=APP, subject=USER)
        assert (again.new, again.known) == (0, 3)
        assert await store.entries(ALICE, APP) == before

    async def test_one_subject_gets_all_memories(self, store: FactStore) -> None:
        """The application says that the store belongs to one person."""
        await import_mem0(MEM0, store, scope=APP, subject=ALICE)

        assert await texts(store, BOB) == {}
        assert len(await store.load_all(ALICE, APP)) == 2

    async def test_fields_become_those_of_facts(self, store: FactStore) -> None:
        """Metadata are imported; ids of users, agents and runs are not."""
        given = memory(
            categories=["residence", "travel"],
            metadata={"team": "blue"},
            run_id="17",
            expiration_date="2099-12-31",
            actor_id="al",
        )

        await import_mem0([given], store, scope=APP, subject=USER)

        fact = await fact_of(store)
        assert (fact.concept.keyword, fact.values, fact.id) == (
            "residence",
            ("Lives in Busan",),
            "m1",
        )
        assert fact.expires_at == datetime(2100, 1, 1, tzinfo=UTC)
        assert dict(fact.metadata) == {
            "team": "blue",
            "actor_id": "al",
            "categories": ["residence", "travel"],
        }

    async def test_an_updated_memory_replaces_its_old_value(self, store: FactStore) -> None:
        """Every update of mem0 is in the history."""
        for day, text in enumerate(("Lives in Busan", "Lives in Seoul", "Lives in Daegu"), 1):
            given = memory(text, updated_at=f"2026-04-0{day}T00:00:00+00:00")
            for new in (1, 0):
                file = [given]
                report = await import_mem0(file, store, scope=APP, subject=USER)
                assert report.new == new
            assert await texts(store) == {"notes": [text]}

    async def test_the_newest_value_wins_in_any_order(self, store: FactStore) -> None:
        """This holds after an earlier import and within a concept of the application, too."""
        home = Concept("residence", "Where the user lives")
        newer = memory("Seoul", id="m2", categories=["residence"], created_at="2026-05-01T00:00:00")
        older = memory("Busan", id="m1", categories=["residence"])
        oldest = memory("Jeju", id="m0", categories=["residence"], created_at="2020-01-01T00:00:00")
        for group in ([newer, older], [oldest]):
            await import_mem0(group, store, scope=APP, subject=USER, concepts=[home])

        [fact] = await store.load(home, ALICE, APP)
        assert fact.value == "Seoul"

    async def test_a_forgotten_or_edited_memory_does_not_return(self, store: FactStore) -> None:
        """The application's change wins over mem0's old value."""
        file = [memory()]
        await import_mem0(file, store, scope=APP, subject=USER)
        await store.forget(ALICE, APP, fact_ids=["m1"])

        assert (await import_mem0(file, store, scope=APP, subject=USER)).known == 1
        assert await texts(store) == {}

    async def test_an_unusable_memory_is_reported_and_stops_nothing(self, store: FactStore) -> None:
        """Reasons name fields and quote nothing."""
        given = [
            memory(id="none", created_at=None),
            memory(id="empty", memory=" "),
            memory(id="large", metadata={"x": "PIN 1234" * 1000}),
            memory(id="named", user_id="a" * 300),
            memory(id="expiry", expiration_date="the 4th of May"),
            memory(id="early", created_at="0001-01-01T00:00:00+05:00"),  # in UTC in the year 0
            memory(id="late", created_at="9999-12-31T23:59:59-05:00"),
            memory(id="users", user_id=["alice"]),  # without one it would be shown to everyone
            memory(id="good"),
        ]

        report = await import_mem0(given, store, scope=APP, subject=USER)

        assert report.new == 1
        assert {each.item for each in report.problems} == {each["id"] for each in given} - {"good"}
        assert "1234" not in str(report)
        assert "has an 'expiration_date' that is not a date" in str(report)
        assert "'user_id' is not the name of one user" in str(report)
        assert await texts(store, MemorySubject.EVERYTHING) == {}

    async def test_a_memory_without_a_user_has_no_subject(self, store: FactStore) -> None:
        """Such memories belong to an agent."""
        file = [memory(user_id=None, agent_id="desk")]

        await import_mem0(file, store, scope=APP, subject=USER)

        assert await texts(store, MemorySubject.EVERYTHING, DESK) == {"notes": ["Lives in Busan"]}


class TestOddMemories:
    """Distant dates, ids unique to one file, missing users."""

    async def test_the_last_day_of_the_calendar_means_no_expiry(self, store: FactStore) -> None:
        report = await imported(store, memory(expiration_date="9999-12-31"))
        assert (report.new, report.problems) == (1, ())
        assert (await fact_of(store)).expires_at is None

    async def test_memories_without_ids_are_all_imported(self, store: FactStore) -> None:
        """Both had the number 0, so the second replaced the first. A repeated import finds both."""
        for text, new in [("Lives in Busan", 1), ("Has a dog", 1), ("Lives in Busan", 0)]:
            report = await imported(store, memory(text, id=None))
            assert report.new == new
        assert sorted((await texts(store))["notes"]) == ["Has a dog", "Lives in Busan"]


class TestCrewAI:
    """Records as JSON."""

    async def test_fields_become_those_of_facts(self, store: FactStore) -> None:
        """The scope is a path, whose last part may be the user."""
        given = record(
            categories=["residence"], importance=0.8, source="chat", private=True, metadata={"k": 1}
        )
        file = [given]
        await import_crewai(file, store, scope=APP, subject=USER, user_field="scope")

        fact = await fact_of(store)
        assert (fact.concept.keyword, fact.importance) == ("residence", 0.8)
        assert dict(fact.metadata) == {
            "k": 1,
            "scope": "/home/alice",
            "source": "chat",
            "private": True,
        }
        assert fact.timestamp == datetime(2026, 3, 1, 9, 30, tzinfo=UTC)

    async def test_users_must_be_named(self, store: FactStore) -> None:
        """The subject names them, or a field does."""
        with pytest.raises(UnboundSubjectError):
            await import_crewai([], store, scope=APP, subject=USER)

    async def test_a_whole_number_is_an_importance(self, store: FactStore) -> None:
        file = [record(created_at="2026-03-01", importance=1)]
        await import_crewai(file, store, scope=APP, subject=ALICE)
        assert (await fact_of(store)).importance == 1.0


LIVES_IN = Concept("lives_in", "Where she lives")


def edge(fact: str = "Alice lives in Busan", **fields: Any) -> dict[str, Any]:
    """Return an edge as `EntityEdge.model_dump(mode="json")` does."""
    return {
        "uuid": "e1",
        "group_id": "alice",
        "source_node_uuid": "n1",
        "target_node_uuid": "n2",
        "created_at": "2024-03-01T09:00:00Z",
        "name": "LIVES_IN",
        "fact": fact,
        "fact_embedding": [0.1, 0.2],
        "episodes": ["chat-7", "chat-9"],
        "expired_at": None,
        "valid_at": "2023-01-01T00:00:00Z",
        "invalid_at": None,
        "reference_time": None,
        "attributes": {"reason": "work"},
        **fields,
    }


ENDED = {"invalid_at": "2025-02-01T00:00:00Z", "expired_at": "2025-03-01T09:00:00Z"}


async def imported_edges(*edges: dict[str, Any], into: FactStore, **more: Any) -> ImportReport:
    return await import_graphiti(edges, into, scope=APP, subject=USER, **more)


async def held(store: FactStore, subject: MemorySubject = ALICE, **asked: Any) -> list[Any]:
    return [value for fact in await store.load_all(subject, APP, **asked) for value in fact.values]


async def test_an_edge_is_a_fact_with_its_times_source_and_nodes(store: InMemoryProvider) -> None:
    report = await imported_edges(edge(), into=store)

    assert (report.new, report.known, report.problems) == (1, 0, ())
    [fact] = await store.load_all(ALICE, APP)
    assert (fact.concept.keyword, fact.values) == ("lives_in", ("Alice lives in Busan",))
    assert (str(fact.since), fact.until) == ("2023-01-01T00:00:00+00:00", None)
    assert fact.timestamp == datetime(2024, 3, 1, 9, tzinfo=UTC)
    assert fact.source == FactSource(SourceKind.DOCUMENT, "chat-7")
    assert fact.metadata == {
        "reason": "work",
        "group_id": "alice",
        "source_node_uuid": "n1",
        "target_node_uuid": "n2",
    }


async def test_an_edge_without_episodes_has_a_source(store: InMemoryProvider) -> None:
    await imported_edges(edge(episodes=[]), into=store)
    [fact] = await store.load_all(ALICE, APP)
    assert fact.source == FactSource(SourceKind.DOCUMENT, "graphiti")


BUSAN, JEJU = "Alice lives in Busan", "Alice lives in Jeju"


OVER: dict[str, Any] = {
    "valid_at": "2022-05-01T00:00:00Z",
    "invalid_at": "2022-08-01T00:00:00Z",
    "expired_at": "2024-03-01T09:00:01Z",
}


MAY = "2023-05-04T00:00:00Z"


NEW: dict[str, Any] = {"valid_at": None, "created_at": "2026-01-01T00:00:00Z"}


OLD: dict[str, Any] = {
    **NEW,
    "created_at": "2026-01-02T00:00:00Z",
    "reference_time": "2021-01-01T00:00:00Z",
}


BEFORE = datetime(2025, 2, 20, tzinfo=UTC)


@table(
    ("edges", "asked", "found"),
    [
        # An ended edge held until its end; before it expired, Graphiti did not know of that end.
        ([edge(**ENDED)], {}, []),
        ([edge(**ENDED)], {"valid_at": "2024-06"}, [BUSAN]),
        ([edge(**ENDED)], {"valid_at": "2025-02-15"}, []),
        ([edge(**ENDED)], {"valid_at": "2022"}, []),
        ([edge(**ENDED)], {"as_of": BEFORE}, [BUSAN]),
        # One that was over when it was said replaces nothing.
        ([edge(), edge(JEJU, uuid="e2", **OVER)], {}, [BUSAN]),
        ([edge(), edge(JEJU, uuid="e2", **OVER)], {"valid_at": "2022-06"}, [JEJU]),
        # Without `invalid_at` its end is when it expired.
        ([edge(expired_at="2025-03-01T09:00:00Z")], {"valid_at": "2025-02"}, [BUSAN]),
        ([edge(expired_at="2025-03-01T09:00:00Z")], {"valid_at": "2025-04"}, []),
        # An event holds on its day.
        ([edge(valid_at=MAY, invalid_at=MAY)], {"valid_at": "2023-05-04"}, [BUSAN]),
        ([edge(valid_at=MAY, invalid_at=MAY)], {"valid_at": "2023-05-05"}, []),
        # Episodes that were ingested later count as said in their time.
        ([edge(JEJU, uuid="e2", **NEW), edge(**OLD)], {}, [JEJU]),
    ],
)
async def test_edges_hold_in_their_times(edges: list[Any], asked: Any, found: list[str]) -> None:
    store = InMemoryProvider()
    report = await imported_edges(*edges, into=store, concepts=[LIVES_IN])

    assert report.problems == ()
    assert await held(store, **asked) == found


async def test_an_import_continues_and_adds_the_ends_that_are_new(store: InMemoryProvider) -> None:
    await imported_edges(edge(), into=store)
    both = edge(**ENDED), edge("Alice lives in Jeju", uuid="e2", valid_at="2025-02-01T00:00:00Z")

    report = await imported_edges(*both, into=store)
    assert (report.new, report.known) == (2, 1)
    assert await held(store) == ["Alice lives in Jeju"]
    again = await imported_edges(*both, into=store)
    assert (again.new, again.known, again.problems) == (0, 3, ())


async def test_an_edge_that_was_rewritten_replaces_its_fact(store: InMemoryProvider) -> None:
    await imported_edges(edge(), into=store)
    await imported_edges(
        edge("Alice lives in Busan-si", reference_time="2024-04-01T00:00:00Z"), into=store
    )
    assert await held(store) == ["Alice lives in Busan-si"]


async def test_broken_edges_are_problems_and_the_rest_comes_in(store: InMemoryProvider) -> None:
    report = await imported_edges(
        edge("", uuid="no text"),
        edge(uuid="no time", created_at=None),
        edge(uuid="no date", valid_at="the 4th of May"),
        edge(uuid="turned", invalid_at="2020-01-01T00:00:00Z"),
        edge(),
        into=store,
    )

    assert report.new == 1
    assert [each.item for each in report.problems] == ["no text", "no time", "no date", "turned"]
    assert "May" not in str(report.problems)


async def test_a_group_is_a_user_unless_another_field_names_it(store: InMemoryProvider) -> None:
    await imported_edges(edge(group_id=""), edge(uuid="e2", group_id="bob"), into=store)
    assert await held(store, MemorySubject.EVERYTHING) == ["Alice lives in Busan"]
    assert await held(store, USER.of("bob")) == ["Alice lives in Busan"]

    await imported_edges(edge(), into=store, user_field="source_node_uuid")
    assert await held(store, USER.of("n1")) == ["Alice lives in Busan"]
