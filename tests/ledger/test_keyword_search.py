"""Searching entries for one keyword gives the same result as folding all of them."""

from hypothesis import given
from hypothesis import strategies as st

from factmem.ledger.entries import Entry
from factmem.ledger.ledger import KeywordSearch, Ledger
from tests.ledgers import (
    KEYWORDS,
    Step,
    entries_of,
    entry,
    ledgers,
    moments,
    saved,
    searched,
    shown,
)


def found(keyword: str, *entries: Entry) -> Ledger:
    search = KeywordSearch(keyword)
    search.take(entries)
    return search.ledger


@searched
@given(ledgers(), st.sampled_from(KEYWORDS), st.integers(0, 5))
def test_a_search_equals_a_fold(steps: list[Step], keyword: str, cut: int) -> None:
    """The entries may be in any number of pieces; if a search is impossible, it says so."""
    entries = entries_of(steps)
    whole, search = Ledger(entries), KeywordSearch(keyword)
    search.take(entries[:cut])
    search.take(entries[cut:])
    ledger = search.ledger
    for now in moments(entries, since=whole.recorded_at):
        expected = [each for each in shown(whole, now) if each[0] == keyword]
        assert shown(ledger, now) == expected
    assert ledger.recorded_at == whole.recorded_at


def test_other_keywords_advance_the_time() -> None:
    """A value is confirmed no earlier than the entry before it, whatever its keyword."""
    ledger = found("k", entry(50, saved(1, keyword="other")), entry(3, saved("a")))

    assert ledger.recorded_at == entry(50)["at"]
    assert ledger.confirmations("") == [entry(50)["at"]]
