"""The edges of Graphiti are imported with the times in which they hold."""

from datetime import UTC, datetime
from typing import Any

import pytest

from factmem.models.facts import Concept, FactSource, SourceKind
from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.store import FactStore
from factmem.transfer.memories import import_graphiti
from factmem.transfer.reports import ImportReport
from tests.tables import table
from tests.world import USER

APP = MemoryScope.Product("my-app")
ALICE = USER.of("alice")
LIVES_IN = Concept("lives_in", "Where she lives")


@pytest.fixture
def store() -> InMemoryProvider:
    return InMemoryProvider()


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


async def imported(*edges: dict[str, Any], into: FactStore, **more: Any) -> ImportReport:
    return await import_graphiti(edges, into, scope=APP, subject=USER, **more)


async def held(store: FactStore, subject: MemorySubject = ALICE, **asked: Any) -> list[Any]:
    return [value for fact in await store.load_all(subject, APP, **asked) for value in fact.values]


async def test_an_edge_is_a_fact_with_its_times_source_and_nodes(store: InMemoryProvider) -> None:
    report = await imported(edge(), into=store)

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
    await imported(edge(episodes=[]), into=store)
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
    report = await imported(*edges, into=store, concepts=[LIVES_IN])

    assert report.problems == ()
    assert await held(store, **asked) == found


async def test_an_import_continues_and_adds_the_ends_that_are_new(store: InMemoryProvider) -> None:
    await imported(edge(), into=store)
    both = edge(**ENDED), edge("Alice lives in Jeju", uuid="e2", valid_at="2025-02-01T00:00:00Z")

    report = await imported(*both, into=store)
    assert (report.new, report.known) == (2, 1)
    assert await held(store) == ["Alice lives in Jeju"]
    again = await imported(*both, into=store)
    assert (again.new, again.known, again.problems) == (0, 3, ())


async def test_an_edge_that_was_rewritten_replaces_its_fact(store: InMemoryProvider) -> None:
    await imported(edge(), into=store)
    await imported(
        edge("Alice lives in Busan-si", reference_time="2024-04-01T00:00:00Z"), into=store
    )
    assert await held(store) == ["Alice lives in Busan-si"]


async def test_broken_edges_are_problems_and_the_rest_comes_in(store: InMemoryProvider) -> None:
    report = await imported(
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
    await imported(edge(group_id=""), edge(uuid="e2", group_id="bob"), into=store)
    assert await held(store, MemorySubject.EVERYTHING) == ["Alice lives in Busan"]
    assert await held(store, USER.of("bob")) == ["Alice lives in Busan"]

    await imported(edge(), into=store, user_field="source_node_uuid")
    assert await held(store, USER.of("n1")) == ["Alice lives in Busan"]
