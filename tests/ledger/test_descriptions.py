"""Descriptions that a journal does not repeat are restored by every read."""

from hypothesis import given
from hypothesis import strategies as st

from factmem.ledger.descriptions import Abridger, completed
from factmem.ledger.entries import Entry, decoded, encoded_entry, stamped
from factmem.ledger.keyword_search import KeywordSearch
from factmem.ledger.ledger import Ledger
from factmem.ledger.summary import restored
from tests.ledger.test_keyword_search import lines_of
from tests.ledger.test_summary import blocks_of
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


def written(entries: list[Entry]) -> list[bytes]:
    """Return the lines of a journal whose writer always has the place in memory."""
    ledger, lines = Ledger(), list[bytes]()
    for each in entries:
        shorter = Abridger(ledger.last_description).abridged(each)
        lines.append(stamped(encoded_entry(shorter), each["at"]))
        ledger.apply(each)
    return lines


@searched
@given(ledgers())
def test_all_descriptions_are_restored(steps: list[Step]) -> None:
    """Entries, current facts, and statements superseded at once have them."""
    entries = entries_of(steps)

    lines = written(entries)

    assert completed(lines) == completed(lines_of(entries))


@searched
@given(ledgers(), st.sampled_from(KEYWORDS), st.integers(0, 10))
def test_a_fold_needs_no_descriptions(steps: list[Step], keyword: str, cut: int) -> None:
    """A search and the reader of a summary need none either."""
    entries = entries_of(steps)
    lines, whole = written(entries), Ledger(entries)
    search = KeywordSearch(keyword)
    search.take(lines)
    begun = Ledger(completed(lines[:cut]))
    ledger = restored(blocks_of(begun).__getitem__)
    for line in lines[cut:]:
        ledger.apply(decoded(line))

    for now in moments(entries, since=whole.recorded_at):
        assert shown(ledger, now) == shown(whole, now)
        if (found := search.ledger()) is not None:
            assert shown(found, now) == [each for each in shown(whole, now) if each[0] == keyword]


def test_a_description_is_written_once() -> None:
    """It is written again only if it changes."""
    first = entry(1, saved("a"), saved("b"), saved("c", keyword="other"))
    second = entry(2, saved("d"), saved("e") | {"description": "New"}, saved("f"))

    texts = [line.count(b'"description"') for line in written([first, second])]

    assert texts == [2, 2]


def test_a_lost_description() -> None:
    """The keyword replaces it, because nothing else is known."""
    (_, line) = written([entry(1, saved("a")), entry(2, saved("b"))])

    (found,) = completed([line])

    assert [fact["description"] for fact in found["facts"]] == ["k"]
    assert Ledger([decoded(line)]).description("k") == "k"


def test_an_empty_description_stays_empty() -> None:
    """An empty description differs from an omitted one."""
    entries = [entry(n, saved("a", description=text)) for n, text in enumerate(("", "Old", ""), 1)]

    read = completed(written(entries))

    assert [each["facts"][0]["description"] for each in read] == ["", "Old", ""]
    assert Ledger(entries).description("k") == ""
