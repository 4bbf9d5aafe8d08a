"""Rare memories of other libraries: distant dates, ids unique to one file, missing users."""

from typing import Any

from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers.in_memory import InMemoryProvider
from factmem.transfer.memories import import_crewai, import_mem0
from factmem.transfer.reports import ImportReport
from tests.world import USER

APP = MemoryScope.Product("app")
ALICE = USER.of("alice")


def memory(**fields: Any) -> dict[str, Any]:
    said = {"memory": "Lives in Busan", "created_at": "2026-03-01T09:30:00", "user_id": "alice"}
    return {"id": "m1", **said, **fields}


async def imported(*memories: dict[str, Any], store: InMemoryProvider) -> ImportReport:
    return await import_mem0(memories, store, scope=APP, subject=USER)


async def values(store: InMemoryProvider, subject: MemorySubject = ALICE) -> list[object]:
    return [value for fact in await store.load_all(subject, APP) for value in fact.values]


async def test_the_last_day_of_the_calendar_means_no_expiry() -> None:
    store = InMemoryProvider()
    report = await imported(memory(expiration_date="9999-12-31"), store=store)
    assert (report.new, report.problems) == (1, ())
    [fact] = await store.load_all(ALICE, APP)
    assert fact.expires_at is None


async def test_a_time_outside_the_calendar_rejects_one_memory() -> None:
    """In UTC it is in the year 0, or 10000."""
    store = InMemoryProvider()
    early, late = "0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00"
    report = await imported(
        memory(id="a", created_at=early),
        memory(id="b", created_at=late),
        memory(id="c"),
        store=store,
    )
    assert (report.new, [each.item for each in report.problems]) == (1, ["a", "b"])


async def test_a_problem_does_not_show_the_wrong_field() -> None:
    report = await imported(memory(expiration_date="the 4th of May"), store=InMemoryProvider())
    [problem] = report.problems
    assert problem.reason == "has an 'expiration_date' that is not a date"


async def test_memories_without_ids_are_all_imported() -> None:
    """Both had the number 0, and the second replaced the first; a repeated import finds each."""
    store = InMemoryProvider()
    for text, new in [("Lives in Busan", 1), ("Has a dog", 1), ("Lives in Busan", 0)]:
        report = await imported(memory(id=None, memory=text), store=store)
        assert report.new == new
    assert await values(store) == ["Lives in Busan", "Has a dog"]


async def test_a_user_of_another_type_does_not_become_everyone() -> None:
    """A memory without a user is shown to everyone."""
    store = InMemoryProvider()
    report = await imported(memory(user_id=["alice"]), memory(id="b"), store=store)
    reasons = [each.reason for each in report.problems]
    assert reasons == ["'user_id' is not the name of one user"]
    assert await values(store, MemorySubject.EVERYTHING) == []


async def test_a_whole_number_is_an_importance() -> None:
    store = InMemoryProvider()
    record = {"id": "r", "content": "A", "created_at": "2026-03-01", "importance": 1}
    await import_crewai([record], store, scope=APP, subject=ALICE)
    [fact] = await store.load_all(ALICE, APP)
    assert fact.importance == 1.0
