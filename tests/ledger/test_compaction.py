"""Compaction removes history, and changes no read from its cutoff on."""

from factmem.ledger._merging import merged
from factmem.ledger._removal import compacted
from factmem.ledger.entries import Entry
from factmem.ledger.ledger import Ledger
from factmem.models.places import NOBODY
from tests.ledger.test_copies import END, HISTORIES, Copy, Histories, current_at
from tests.ledgers import entry, forgotten, saved, stamp

CUTOFFS = 15, 25, 40, 60, 72


def changed(entries: list[Entry], cutoff: int) -> list[int]:
    """Return the times at which the compacted entries are read otherwise."""
    rest = [each for each in compacted(entries, stamp(cutoff)) if each is not None]
    times = [each for each in (cutoff, cutoff + 3, 70, 75, 80, 85, 125) if each >= cutoff]
    found = [each for each in times if reads(entries, each) != reads(rest, each)]
    return found if Ledger(entries).planned(END) == Ledger(rest).planned(END) else [*found, -1]


def reads(entries: list[Entry], second: int) -> object:
    return current_at(Copy(entries), stamp(second))


def test_a_compaction_changes_no_later_read() -> None:
    """Also not of proposals, plans and what a person decided, on a place that merged others."""
    wrong: list[tuple[int, int, list[int]]] = []
    for seed in range(HISTORIES):
        found = Histories(seed)
        for _ in range(found.chance.randint(4, 16)):
            found.step()
        found.exchange()
        entries = found.copies[0].entries
        wrong += [(seed, cut, times) for cut in CUTOFFS if (times := changed(entries, cut))]

    assert wrong == []


def test_a_forgetting_that_ended_nothing_stays() -> None:
    """It still ends what was said before it, and is recorded later."""
    entries: list[Entry] = [
        {"at": stamp(10), "forget": [("k", "other", "0" * 32)]},
        {"at": stamp(20), "facts": []},
    ]
    assert compacted(entries, stamp(30))[0] == entries[0]


def test_an_older_bundle_brings_back_nothing_that_was_forgotten() -> None:
    """Also if neither the value nor its save is left, and under another id."""
    said = entry(1, saved("secret", timestamp=stamp(1)))
    gone: Entry = {"at": stamp(2), "forget": [forgotten("secret")]}
    rest = [each for each in compacted([said, gone], stamp(3)) if each is not None]
    again = entry(4, saved("secret", fact_id="other", timestamp=stamp(1)))

    assert rest == [gone]
    assert merged(rest, [said], NOBODY).order == [said, gone]
    for entries in ([said, *rest], [*rest, again]):
        assert Ledger(entries).at(stamp(5))["k"].alive(stamp(5)) == []
