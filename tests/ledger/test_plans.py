"""Plans whose values are forgotten, undone or purged."""

from typing import Any

from factmem.ledger._items import Condition
from factmem.ledger._purging import purged
from factmem.ledger._undo import undoing
from factmem.ledger.entries import Entry
from factmem.ledger.history import change_ids
from factmem.ledger.ledger import Ledger
from factmem.models._values import canonical
from factmem.models.places import Identity
from tests.ledgers import entry, forgotten, saved, stamp

IDENTITY: Identity = ("PRODUCT", "app", "user", None)


def current(entries: list[Entry], second: int) -> list[Any]:
    """Return the current values of the keyword at a time."""
    held = Ledger(entries, until=stamp(second)).at(stamp(second)).get("k")
    return [] if held is None else [item.value for item in held.alive(stamp(second))]


def planned(value: str, second: int, **more: Any) -> Any:
    return saved(value, kind="SINGLE", timestamp=stamp(2), since=stamp(second), **more)


LINE = entry(1, saved("Line", fact_id="line", kind="SINGLE", timestamp=stamp(1)))


def purge(entries: list[Entry], value: str, second: int) -> list[Entry]:
    """Return the entries after a purge of a value."""
    condition = Condition(keyword="k", key=canonical(value))
    rest = purged(entries, condition, stamp(second)).entries
    return [each for each in rest if each is not None]


def test_a_purged_plan_that_never_began_ends_nothing() -> None:
    plan = entry(2, planned("Kakao", 30))
    gone: Entry = {"at": stamp(3), "forget": [forgotten("Kakao")]}

    rest = purge([LINE, plan, gone], "Kakao", 4)

    assert current(rest, 40) == ["Line"]


def test_a_purged_value_that_had_begun_still_replaces() -> None:
    plan = entry(2, planned("Kakao", 30))
    gone: Entry = {"at": stamp(35), "forget": [forgotten("Kakao")]}

    rest = purge([LINE, plan, gone], "Kakao", 36)

    assert current(rest, 20) == ["Line"]
    assert current(rest, 40) == []


def test_a_value_that_a_plan_has_replaced_since_the_last_entry_is_purged() -> None:
    rest = purge([LINE, entry(2, planned("Kakao", 30))], "Line", 35)

    assert "Line" not in str(rest)
    assert current(rest, 35) == ["Kakao"]


def test_undoing_the_end_of_a_plan_plans_it_again() -> None:
    plan = entry(2, planned("Kakao", 30))
    gone: Entry = {"at": stamp(3), "forget": [forgotten("Kakao")]}
    entries = [LINE, plan, gone]
    last = change_ids(IDENTITY, entries)[-1]

    entries += undoing(IDENTITY, last)(entries, stamp(5))

    assert current(entries, 20) == ["Line"]
    assert current(entries, 40) == ["Kakao"]


def test_undoing_a_save_keeps_the_plan_of_the_same_value() -> None:
    plan = entry(2, saved("ko", timestamp=stamp(2), since=stamp(30)))
    entries = [plan, entry(3, saved("ko", fact_id="two", timestamp=stamp(3)))]
    last = change_ids(IDENTITY, entries)[-1]

    entries += undoing(IDENTITY, last)(entries, stamp(5))

    assert current(entries, 20) == []
    assert current(entries, 40) == ["ko"]


def test_a_proposed_plan_does_not_move_what_is_current() -> None:
    proposal = entry(2, saved("Line", timestamp=stamp(2), since=stamp(30), proposed=[0]))
    entries = [entry(1, saved("Line", timestamp=stamp(1))), proposal]

    assert [current(entries, second) for second in (3, 40)] == [["Line"], ["Line"]]
    assert Ledger(entries).planned(stamp(3)) == []
