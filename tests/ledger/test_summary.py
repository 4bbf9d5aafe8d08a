"""A ledger restored from its summary behaves like the original."""

from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem.ledger.entries import Entry
from factmem.ledger.keyword_search import KeywordSearch
from factmem.ledger.ledger import Ledger
from factmem.ledger.summary import restored, restored_keyword, summarized
from tests.ledger.test_keyword_search import lines_of
from tests.ledgers import (
    KEYWORDS,
    Step,
    entries_of,
    entry,
    ledgers,
    moments,
    names,
    saved,
    searched,
    shown,
)


def blocks_of(ledger: Ledger, size: int = 1 << 18) -> list[bytes]:
    return list(summarized(ledger, size, nullcontext))


@searched
@given(ledgers(), st.integers(0, 10), st.sampled_from([0, 1 << 18]))
def test_a_restored_ledger_equals_the_original(steps: list[Step], cut: int, size: int) -> None:
    """The summary may be taken anywhere; the other entries are applied to it."""
    entries = entries_of(steps)
    whole = Ledger(entries)
    blocks = blocks_of(Ledger(entries[:cut]), size)

    ledger = restored(blocks.__getitem__)
    for each in entries[cut:]:
        ledger.apply(each)

    assert ledger.recorded_at == whole.recorded_at
    for now in moments(entries, since=whole.recorded_at):
        assert shown(ledger, now) == shown(whole, now)
        assert names(ledger, now) == names(whole, now)
        assert ledger.load_all([], now) == whole.load_all([], now)


@searched
@given(ledgers(), st.integers(0, 10), st.sampled_from(KEYWORDS))
def test_a_restored_keyword_equals_the_original(steps: list[Step], cut: int, keyword: str) -> None:
    """The entries after the summary are searched."""
    entries = entries_of(steps)
    whole = Ledger(entries)
    blocks = blocks_of(Ledger(entries[:cut]))
    search = KeywordSearch(keyword, restored_keyword(blocks.__getitem__, keyword))
    search.take(lines_of(entries[cut:]))
    ledger = search.ledger()
    if ledger is None:
        assert any("forget" in each for each in entries[cut:])
        return

    assert ledger.recorded_at == whole.recorded_at
    for now in moments(entries, since=whole.recorded_at):
        assert shown(ledger, now) == [each for each in shown(whole, now) if each[0] == keyword]


def test_a_restored_ledger_keeps_positions() -> None:
    """A forgotten fact still occupies its positions."""
    forgetting: Entry = {"at": entry(2)["at"], "forget": [("k", "one", 0)]}
    before = [entry(1, saved("a", "b")), forgetting]
    ledger = restored(blocks_of(Ledger(before)).__getitem__)

    for each in (whole := Ledger(before), ledger):
        each.apply(entry(3, saved("c")))

    assert names(ledger, "") == names(whole, "") == [("k", "one", 1), ("k", "one", 2)]


def test_a_block_has_the_requested_entries() -> None:
    """Of many blocks only the first and one other are read."""
    ledger = Ledger([entry(1, *(saved("x", keyword=f"k{n}", fact_id=f"f{n}") for n in range(99)))])
    blocks = blocks_of(ledger, 1 << 21)
    asked: list[int] = []

    def block(number: int) -> bytes:
        asked.append(number)
        return blocks[number]

    assert len(restored_keyword(block, "k7")) == 1
    assert len(blocks) == 1 + 32 + 1
    assert len(asked) == 2


def test_a_ledger_that_may_change_has_no_summary() -> None:
    """A caller that keeps it unchanged can say so."""

    def changed() -> nullcontext[None]:
        raise LookupError

    with pytest.raises(LookupError):
        list(summarized(Ledger(), 0, changed))
