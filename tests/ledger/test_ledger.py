"""Current facts: the ledger compared with a naive model, and special cases."""

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from factmem.ledger._items import Condition, digest_of
from factmem.ledger.entries import Entry, RetractedValue
from factmem.ledger.ledger import Ledger
from factmem.models._values import canonical
from factmem.models.facts import Concept, FactSource, FactType, SourceKind
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


def test_a_retraction_of_an_expired_value_supersedes_no_other() -> None:
    """Only a value that was current had replaced the earlier ones."""
    dark = saved("dark", kind="SINGLE", timestamp=stamp(20), expires_at=stamp(30), stated=True)
    retraction: RetractedValue = {
        "keyword": "k", "timestamp": stamp(50), "digest": digest_of(canonical("dark")),
    }  # fmt: skip
    light = saved("light", fact_id="two", kind="SINGLE", timestamp=stamp(10), stated=True)

    found = current(entry(20, dark), {"at": stamp(50), "retract": [retraction]}, entry(60, light))

    assert found == ["light"]


def test_the_first_source_is_shown_and_all_are_matched() -> None:
    """A fact shows its first source; a filter matches every source of a value."""
    chat, mail = {"kind": "user", "conversation": "chat"}, {"kind": "user", "conversation": "mail"}
    ledger = Ledger([entry(1, saved("a", source=chat)), entry(2, saved("a", source=mail))])

    (fact,) = ledger.load_all((), stamp(2))

    assert fact.source == FactSource(SourceKind.USER, "chat")
    assert ledger.matching(Condition(source=FactSource(SourceKind.USER, "chat")), "") == []
    assert ledger.matching(Condition(source=FactSource(SourceKind.USER)), "") == [forgotten("a")]


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
