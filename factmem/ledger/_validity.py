"""Valid time: which values held at some time, as far as it was known at another."""

from collections.abc import Iterable, Sequence

from factmem.ledger._condition import Condition
from factmem.ledger._items import KeywordItems, name_of
from factmem.ledger._related import RelatedEntries
from factmem.ledger._trace import Life, Trace
from factmem.ledger.entries import Entry, ForgottenItem
from factmem.ledger.ledger import Ledger, LedgerState
from factmem.models.clock import stamp
from factmem.models.when import When, begin_of, end_of


def held_at(entries: Sequence[Entry], when: When, known: str) -> Ledger:
    """Return a ledger of the values that held at a time; read it with an empty `now`.

    A value holds from its `since`, or from when it was said, until its `until`, or until what was said
    later ended it: its retraction, or for a SINGLE keyword the begin of the next value. What was
    forgotten has never held, also if it was over when it was forgotten. If several values held in a
    day, month or year, a SINGLE keyword shows the last of them, and of overlapping ones that which was
    said last. Of a time `between` two moments all are shown, as a MULTIPLE keyword, and what was
    replaced has the time of that as its `until`.

    Args:
        entries: The entries of a place.
        when: A moment, or a time in which the values held at least for a moment.
        known: Only what was recorded until then counts, and what had not expired by then; a stamp.
    """
    begin, end, is_between = stamp(when.begin), stamp(when.end), "/" in when.text
    trace = _traced(list(_recorded(entries, known)), max(begin, end, known))
    lives: dict[str, list[tuple[str, Life]]] = {}
    for life in trace.lives:
        first, last = _period(life)
        if life.item.state == "proposed" or _has_expired(life, known):
            continue
        # A moment has no length: what begins at it holds at it.
        if first < (end if begin < end else end + "~") and begin < last and first < last:
            lives.setdefault(life.keyword, []).append((min(last, end), life))
            if is_between and life.holds_until is not None:
                life.item.since, life.item.until = life.item.since or first, last
    found: dict[str, KeywordItems] = {}
    for keyword, held in trace.state().by_keyword.items():
        if keyword in lives:
            kind = "MULTIPLE" if is_between else held.fact_type
            found[keyword] = _chosen(KeywordItems(held.description, kind), lives[keyword])
    return Ledger.restored(LedgerState(known, 0, [], {}, found, []))


def former_values(entries: Sequence[Entry], condition: Condition, now: str) -> list[ForgottenItem]:
    """Return the values that meet a condition and held before `now`, and were not forgotten."""
    related = RelatedEntries(entries)
    trace = _traced(related.at(related.to(condition.names or ()).numbers), now)
    found = {
        life.name: name_of(life.keyword, life.item)
        for life in trace.lives
        if life.holds_until != "" and life.is_dead(now) and not _has_expired(life, now)
        if condition.is_met_by(life.keyword, life.key, life.item)
    }
    return list(found.values())


def _traced(entries: Sequence[Entry], now: str) -> Trace:
    """Trace entries until `now`; what was over when its value or keyword was forgotten is withdrawn."""
    trace = Trace(entries)
    trace.advance(max(now, trace.recorded_at))
    forgettings = [n for n, each in enumerate(entries) if "forget" in each and "undoes" not in each]
    keywords = {name[0] for number in forgettings for name in entries[number].get("forget", ())}
    known: dict[object, list[Life]] = {}
    for life in trace.lives if keywords else ():
        if life.keyword in keywords:
            known.setdefault(life.keyword, []).append(life)
            known.setdefault(life.name, []).append(life)
    for number in forgettings:
        entry, at = entries[number], trace.recorded[number]
        for keyword, _, digest in entry.get("forget", ()):
            for life in known.get(keyword if "whole" in entry else (keyword, digest), ()):
                if life.is_dead(at):
                    life.holds_until = ""
    return trace


def _has_expired(life: Life, now: str) -> bool:
    expires_at = life.item.expires_at
    return expires_at is not None and expires_at <= now


def _recorded(entries: Iterable[Entry], known: str) -> Iterable[Entry]:
    at = ""
    for entry in entries:
        at = max(at, entry["at"])
        if at > known:
            return
        yield entry


_NEVER = "~"
"""Greater than any stamp."""


def _period(life: Life) -> tuple[str, str]:
    """Return from when until when a value held."""
    item = life.item
    first = life.holds_from if item.since is None else begin_of(item.since)
    last = _NEVER if item.until is None else end_of(item.until)
    return first, last if life.holds_until is None else min(last, life.holds_until)


def _chosen(shown: KeywordItems, lives: list[tuple[str, Life]]) -> KeywordItems:
    """Add the items that are shown of a keyword, given until when each of its lives held."""
    lives.sort(key=lambda each: (each[0], each[1].item.last))
    if shown.fact_type == "SINGLE":
        shown.add(lives[-1][1].key, lives[-1][1].item)
        return shown
    last = {life.key: life.item for _, life in lives}
    for key, item in sorted(last.items(), key=lambda each: each[1].number):
        shown.add(key, item)
    return shown
