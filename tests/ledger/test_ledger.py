"""Current facts: the ledger compared with a naive model, and special cases."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from factmem.ledger._items import Condition, KeywordItems, digest_of
from factmem.ledger.entries import Entry, RetractedValue
from factmem.ledger.ledger import Ledger
from factmem.models._values import canonical
from factmem.models.facts import Concept, FactSource, FactType, SourceKind
from factmem.models.when import moment
from tests.ledgers import (
    KEYWORDS,
    NaiveStore,
    Step,
    conditions,
    entries_of,
    entry,
    forgotten,
    last_said,
    ledgers,
    moments,
    names,
    saved,
    searched,
    seconds,
    shown,
    stamp,
    values,
)


def current(*entries: Entry, second: int = 99) -> list[Any]:
    """Return the current values."""
    return [item[2] for item in shown(Ledger(entries), stamp(second))]


@searched
@given(ledgers())
def test_the_ledger_equals_a_naive_model(steps: list[Step]) -> None:
    """It covers saves, confirmations, SINGLE over MULTIPLE and back, forgets, expiry, clocks."""
    ledger, naive = Ledger(entries_of(steps)), NaiveStore().run(steps)

    for now in moments(entries_of(steps), since=naive.now):
        assert shown(ledger, now) == naive.shown(now)


@searched
@given(ledgers(), seconds)
def test_the_past_has_everything_recorded_by_then(steps: list[Step], second: int) -> None:
    """`until` folds exactly the entries that count as recorded by then."""
    then, recorded, known = stamp(second), "", list[Step]()
    for step in steps:
        recorded = max(recorded, step.entry["at"])
        if recorded <= then:
            known.append(step)

    ledger = Ledger(entries_of(steps), until=then)

    assert shown(ledger, then) == NaiveStore().run(known).shown(then)


@searched
@given(ledgers())
def test_each_current_item_has_a_unique_name(steps: list[Step]) -> None:
    """A forget names one item, although fact ids may repeat."""
    ledger = Ledger(entries_of(steps))

    found = names(ledger, ledger.recorded_at)

    assert len(found) == len(set(found))


@searched
@given(ledgers(), conditions())
def test_forgetting_removes_only_matching_items(steps: list[Step], condition: Condition) -> None:
    """`matching` names the items that the naive model forgets."""
    entries, naive = entries_of(steps), NaiveStore().run(steps)
    names_of = Ledger(entries).matching(condition, naive.now)
    before = len(naive.shown(naive.now))
    naive.forget(condition)

    after = Ledger([*entries, {"at": naive.now, "forget": names_of}])

    assert shown(after, naive.now) == naive.shown(naive.now)
    assert len(names_of) == before - len(naive.shown(naive.now))


@searched
@given(ledgers())
def test_facts_are_the_items(steps: list[Step]) -> None:
    """`load` and `load_all` return every current item once, the oldest keyword first."""
    ledger = Ledger(entries_of(steps))
    now = ledger.recorded_at
    items = [item for item in shown(ledger, now) if item[-1] != "proposed"]

    everything = [
        (fact.concept.keyword, fact.id, value)
        for fact in ledger.load_all((), now)
        for value in fact.values
    ]

    assert list(dict.fromkeys(keyword for keyword, _, _ in everything)) == list(
        dict.fromkeys(item[0] for item in items)
    )
    types = {item[0]: item[1][1] for item in items}
    for keyword in KEYWORDS:
        own = [(item[3], item[2]) for item in items if item[0] == keyword]
        assert _loaded(ledger, keyword, FactType.SINGLE, now) == last_said(ledger, keyword, now)
        assert sorted(_loaded(ledger, keyword, FactType.MULTIPLE, now), key=str) == sorted(
            own, key=str
        )
        last = own[-1:] if types.get(keyword) == "SINGLE" else own
        current = [(fact_id, value) for key, fact_id, value in everything if key == keyword]
        assert sorted(current, key=str) == sorted(last, key=str)
    assert len(ledger.confirmations(now)) == len(items)


def _loaded(ledger: Ledger, keyword: str, fact_type: FactType, now: str) -> list[tuple[str, Any]]:
    concept = Concept(keyword, "Anything", fact_type, value_type=JsonValue)
    return [(fact.id, value) for fact in ledger.load(concept, now) for value in fact.values]


@searched
@given(st.lists(st.tuples(seconds, values), min_size=1, max_size=8), st.randoms())
def test_the_order_of_arrival_decides_no_single_value(
    told: list[tuple[int, Any]], chance: Random
) -> None:
    """Copies that get the same saves in any order have the same value: what was said last."""
    facts = [
        saved(value, fact_id=f"f{number}", kind="SINGLE", timestamp=stamp(second))
        for number, (second, value) in enumerate(told)
    ]
    last = max(facts, key=lambda fact: (fact["timestamp"], fact["id"]))
    chance.shuffle(facts)

    found = current(*[entry(95, fact) for fact in facts])

    assert list(map(canonical, found)) == [canonical(last["value"])]


def test_a_save_without_its_value_still_replaces() -> None:
    """A SINGLE save whose value was purged still hides the value that it replaced."""
    one = saved("a", kind="SINGLE")
    replaced = [entry(1, one), entry(2, saved(kind="SINGLE", fact_id="two"))]

    assert current(*replaced) == []
    assert current(*replaced, entry(3, saved("c"))) == ["c"]
    assert current(entry(1, saved("a")), entry(2, saved())) == ["a"]


def test_a_keyword_with_many_values_keeps_them() -> None:
    """Two programs, one with a SINGLE definition, hide none of each other's values."""
    old = [saved("cat", kind="SINGLE", fact_id="1"), saved("rex", kind="SINGLE", fact_id="2")]
    new = saved("dog", fact_id="3")

    assert current(entry(1, old[0]), entry(2, new), entry(3, old[1])) == ["cat", "dog", "rex"]
    assert current(entry(1, new), entry(2, old[0]), entry(3, old[1])) == ["dog", "cat", "rex"]
    forgetting: Entry = {"at": stamp(2), "forget": [forgotten("dog", "3")]}
    assert current(entry(1, new), forgetting, entry(3, old[0]), entry(4, old[1])) == ["rex"]


def test_a_retraction_of_an_expired_value_supersedes_no_other() -> None:
    """Only a value that was current had replaced the earlier ones."""
    dark = saved("dark", kind="SINGLE", timestamp=stamp(20), expires_at=stamp(30), stated=True)
    retraction: RetractedValue = {
        "keyword": "k", "timestamp": stamp(50), "digest": digest_of(canonical("dark")),
    }  # fmt: skip
    light = saved("light", fact_id="two", kind="SINGLE", timestamp=stamp(10), stated=True)

    found = current(entry(20, dark), {"at": stamp(50), "retract": [retraction]}, entry(60, light))

    assert found == ["light"]


def test_a_fact_combines_the_fields_of_its_values() -> None:
    """It has the greatest importance, the earliest expiry and the latest time."""
    ledger = Ledger(
        [
            entry(1, saved("a", "b", "c", expires_at=stamp(50), importance=0.6)),
            entry(2, saved("b", fact_id="two", expires_at=stamp(40), importance=0.9)),
            entry(3, saved("c", fact_id="three", importance=0.1)),
        ]
    )

    (fact,) = ledger.load_all((), stamp(3))

    assert (fact.importance, fact.expires_at) == (0.9, moment(stamp(40)))
    assert fact.confirmed_at == moment(stamp(3))


def test_the_first_source_is_shown_and_all_are_matched() -> None:
    """A fact shows its first source; a filter matches every source of a value."""
    chat, mail = {"kind": "user", "conversation": "chat"}, {"kind": "user", "conversation": "mail"}
    ledger = Ledger([entry(1, saved("a", source=chat)), entry(2, saved("a", source=mail))])

    (fact,) = ledger.load_all((), stamp(2))

    assert fact.source == FactSource(SourceKind.USER, "chat")
    assert ledger.matching(Condition(source=FactSource(SourceKind.USER, "chat")), "") == []
    assert ledger.matching(Condition(source=FactSource(SourceKind.USER)), "") == [forgotten("a")]


def test_strings_load_as_strings_and_other_values_as_json() -> None:
    """`load_all` does not know types; a declared concept has its own."""
    ledger = Ledger([entry(1, saved("a"), saved("b", 7, keyword="mixed"))])
    named = Concept("k", "Named", FactType.MULTIPLE)

    text, mixed = ledger.load_all((), stamp(1))

    types: list[object] = [text.concept.value_type, mixed.concept.value_type]
    assert types == [str, JsonValue]
    assert text.concept.description == "About k"
    assert ledger.load_all([named], stamp(1))[0].concept is named


def test_entries_of_later_versions_are_ignored() -> None:
    """They advance only the time."""
    later: Any = {"at": stamp(5), "link": ["a", "b"]}
    ledger = Ledger([entry(1, saved("a")), later])

    assert len(ledger) == 1
    assert ledger.recorded_at == stamp(5)


def test_a_keyword_has_its_last_saved_description() -> None:
    """A keyword that was never saved has none."""
    texts = ["Where the user lives", "The user's home town"]
    entries = [entry(n, saved("Busan", description=text)) for n, text in enumerate(texts, 1)]

    assert Ledger(entries).description("k") == "The user's home town"
    assert Ledger(entries).description("j") == ""
    undescribed = entry(
        3, saved("Oslo", description=None), saved("x", keyword="j", description=None)
    )
    assert Ledger([*entries, undescribed]).description("k") == "The user's home town"
    assert Ledger([*entries, undescribed]).description("j") == "j"


def test_another_thread_may_save_while_items_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read on the event loop counts without the lock of the place."""
    ledger = Ledger([entry(0, saved("a", keyword="first"), saved("b", keyword="second"))])
    count = KeywordItems.__len__

    def meanwhile(held: KeywordItems) -> int:
        ledger.apply(entry(1, saved("c", keyword="third")))
        return count(held)

    monkeypatch.setattr(KeywordItems, "__len__", meanwhile)

    assert len(ledger) == 2
