"""Purges and edits read only related entries, with the same result as reading all."""

from hypothesis import given
from hypothesis import strategies as st

from factmem.ledger._items import Condition
from factmem.ledger._purging import purged
from factmem.ledger._trace import RelatedEntries, refolded
from factmem.ledger.entries import Entry
from factmem.ledger.ledger import KeywordSearches, Ledger
from tests.ledgers import (
    KEYWORDS,
    Step,
    conditions,
    entries_of,
    entry,
    forgotten,
    ledgers,
    moments,
    names,
    saved,
    searched,
    shown,
    stamp,
)


@searched
@given(ledgers(max_size=14), conditions(), ledgers(max_size=6))
def test_a_purged_ledger_equals_a_new_fold(
    steps: list[Step], condition: Condition, later: list[Step]
) -> None:
    """Later entries may use the ids of earlier facts and descriptions."""
    before = entries_of(steps)
    now = max(stamp(95), Ledger(before).recorded_at)
    after = purged(before, condition, now).entries

    found = refolded(Ledger(before), before, after)

    expected = Ledger(each for each in after if each is not None)
    if found is None:  # only where a look at a part does not tell the order
        return
    for each in [None, *entries_of(later)]:
        if each is not None:
            found.apply(each)
            expected.apply(each)
        for then in moments([*before, *entries_of(later)], expected.recorded_at):
            assert _shown(found, then) == _shown(expected, then)
            assert names(found, then) == names(expected, then)


def _shown(ledger: Ledger, now: str) -> list[object]:
    """Return everything of a ledger in order; item numbers matter only relative to others."""
    facts = [(fact.concept.keyword, fact.id) for fact in ledger.load_all((), now)]
    return [facts, sorted(shown(ledger, now), key=str)]


def test_entries_are_related_by_keywords_facts_and_each_other() -> None:
    """Other entries are not read."""
    entries: list[Entry] = [
        entry(1, saved("a", keyword="one", fact_id="f1")),
        entry(2, saved("b", keyword="two", fact_id="f1")),
        entry(
            3, saved("c", keyword="two", fact_id="f2"), saved("d", keyword="three", fact_id="f3")
        ),
        {"at": stamp(4), "forget": [forgotten("d", "f3", "three")]},
        entry(5, saved("e", keyword="four", fact_id="f5")),
        {"at": stamp(6), "retract": [{"keyword": "four", "timestamp": stamp(6)}]},
        {"at": stamp(7), "link": "of a later version"},  # type: ignore[typeddict-unknown-key]
    ]
    related = RelatedEntries(entries)

    assert related.to({"one"}).numbers == [0, 1, 2, 3]
    assert related.to({"f5"}).numbers == [4, 5]
    assert related.to({"missing"}).numbers == []


def test_facts_of_one_conversation_are_related() -> None:
    """The messages before their quotes may contain the purged words."""
    said = {"kind": "user", "conversation": "chat", "message": 1, "quote": "it is 1234"}
    heard = {"kind": "user", "conversation": "chat", "message": 2, "before": "it is 1234"}
    entries: list[Entry] = [
        entry(1, saved("1234", keyword="pin", fact_id="f1", source=said)),
        entry(2, saved("x", keyword="other", fact_id="f2", source=heard)),
        entry(3, saved("y", keyword="more", fact_id="f3")),
        {"at": stamp(4), "forget": [forgotten("1234", "f1", "pin")]},
    ]

    rest = purged(entries, Condition("pin"), stamp(5)).entries

    assert [each is old for each, old in zip(rest, entries, strict=True)] == [
        *(False, False, True, False)
    ]
    assert b"1234" not in repr(rest).encode()


def found(keyword: str, *entries: Entry) -> Ledger:
    search = KeywordSearches([keyword])
    search.take(entries)
    return search.ledgers[keyword]


@searched
@given(ledgers(), st.sampled_from(KEYWORDS), st.integers(0, 5))
def test_a_search_equals_a_fold(steps: list[Step], keyword: str, cut: int) -> None:
    """The entries may be in any number of pieces; if a search is impossible, it says so."""
    entries = entries_of(steps)
    whole, search = Ledger(entries), KeywordSearches([keyword])
    search.take(entries[:cut])
    search.take(entries[cut:])
    ledger = search.ledgers[keyword]
    for now in moments(entries, since=whole.recorded_at):
        expected = [each for each in shown(whole, now) if each[0] == keyword]
        assert shown(ledger, now) == expected
    assert ledger.recorded_at == whole.recorded_at
