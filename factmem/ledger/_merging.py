"""Merging of the entries of other copies of a place. Pure.

All copies have one order of entries, whatever the order of their arrival: by the time at which an
entry was first recorded; of equal times by its number (`tie`), then by what it names. So copies
that have exchanged everything have the same log and the same current values. What one copy has
purged, the others lose with the next exchange, because the save without its value wins.

Entries from outside the store are checked before they are recorded: imports by `received`, the
functions of an application that add or edit entries by `amended` and `edited`.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias

import orjson

from factmem._arguments import expect_all, expect_function
from factmem.errors import FactmemError, InputValueError
from factmem.ledger._items import values_of, with_values
from factmem.ledger._purging import QuotedValues, purged_again, turn_without, without_values
from factmem.ledger.entries import (
    Amendment,
    Edit,
    Entry,
    StoredFact,
    decoded,
    encoded_entry,
    sign,
    stamped,
)
from factmem.ledger.ledger import Ledger
from factmem.models._values import Canonical, JsonValue, canonical
from factmem.models.places import NOBODY, By
from factmem.models.when import before

_Kind: TypeAlias = Literal["facts", "forget", "retract"]
_KINDS: tuple[_Kind, ...] = ("facts", "forget", "retract")

_Home: TypeAlias = tuple[int, int]
"""The numbers of a known entry and of one of its parts."""


class Merged(NamedTuple):
    new: list[Entry]
    """The entries that the place does not have."""
    order: list[Entry] | None
    """All entries of the place afterwards; None if the new ones are only appended."""
    purged: QuotedValues | None
    """The values of this place that another copy has purged; None if there are none."""

    def edit(self, entries: Sequence[Entry]) -> Sequence[Entry | None]:
        """Return all entries of the place, the new ones at its end, in their order."""
        order = entries if self.order is None else self.order
        return [old if old == new else new for old, new in zip(entries, order, strict=True)]

    def turns(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return the messages of a conversation without the purged values."""
        values = QuotedValues(()) if self.purged is None else self.purged
        return [turn_without(each, values) for each in entries]


def merged(known: Sequence[Entry], given: Sequence[Entry], by: By) -> Merged:
    """Merge the entries `given` into a place with the entries `known`."""
    return _Merge(known).of(given, by)


def imported(known: Iterable[Entry], given: Iterable[Entry], now: str) -> list[Entry]:
    """Return entries of another copy with the time of their import, after all known imports."""
    latest = max([now, *(each.get("received", "") for each in known)])
    at = before(latest, timedelta(microseconds=-1))
    return [{**entry, "received": at} for entry in given]


class _Merge:
    """The entries of a place while those of another copy are added."""

    def __init__(self, known: Sequence[Entry]) -> None:
        self._known = known
        self._after: list[Entry] = list(known)
        self._ties = list(_ties(known))
        self._homes: dict[tuple[Any, ...], dict[str, deque[_Home]]] = {}
        self._others: set[bytes] = set()
        self._doomed: dict[tuple[str, Canonical], str] = {}
        """Values that one copy has purged and the other has not, with the time of the purge."""
        self._purged: list[JsonValue] = []
        """Those among them that this place still had, which its quotes may contain."""
        for number, entry in enumerate(known):
            if _is_other(entry):
                self._others.add(_other(entry))
            for kind in _KINDS:
                for index, part in enumerate(entry.get(kind, ())):
                    mark, digest = _mark(kind, part, entry)
                    homes = self._homes.setdefault(mark, {})
                    homes.setdefault(digest, deque()).append((number, index))

    def of(self, given: Sequence[Entry], by: By) -> Merged:
        new: list[Entry] = []
        # Compared part by part: bundles split long entries, and a purge removes some parts, so the
        # parts of one entry may be in several entries of another copy.
        for entry, tie in zip(given, list(_ties(given)), strict=True):
            rest = self._unknown(entry, tie)
            if rest is not None:
                sign(rest, by)
                new.append(rest)
                self._ties.append(tie)
        order = self._ordered([*self._after, *new])
        # A purge also removes saves that the other copy recorded before it knew of the purge.
        if self._doomed:
            order, again = purged_again(order, self._doomed)
            self._purged += again
        values = QuotedValues(self._purged) if self._purged else None
        if values is not None:
            order = [without_values(each, values) for each in order]
        if not self._known:
            return Merged(order, None, None)
        count = len(self._known)
        is_appended = all(old is each for old, each in zip(self._known, order, strict=False))
        if is_appended and len(order) == count + len(new):
            return Merged(order[count:], None, values)
        return Merged(new, order, values)

    def _unknown(self, entry: Entry, tie: int) -> Entry | None:
        """Join the known parts of an entry with those of the place, and return the others."""
        if _is_other(entry):
            return None if _other(entry) in self._others else entry
        if not self._homes:
            return entry
        rest: Any = entry.copy()
        homes: set[int] = set()
        for kind in _KINDS:
            left: list[Any] = []
            parts: Sequence[Any] = rest.pop(kind, ())
            for part in sorted(parts, key=_is_blank) if kind != "facts" else parts:
                home = self._home(kind, part, entry)
                if home is None:
                    left.append(part)
                else:
                    self._join(kind, home, part)
                    homes.add(home[0])
            if left:
                rest[kind] = left
        if _is_other(rest):
            if len(homes) == 1:
                self._join_entry(homes.pop(), entry, tie)
            return None
        found: Entry = rest
        return entry if not homes else found

    def _home(self, kind: _Kind, part: Any, entry: Entry) -> _Home | None:
        mark, digest = _mark(kind, part, entry)
        homes = self._homes.get(mark, {})
        # A part without a digest was purged in one copy, and is the same as one with a digest.
        names = [digest, ""] if digest else ["", *homes]
        return next((homes[name].popleft() for name in names if homes.get(name)), None)

    def _join(self, kind: _Kind, home: _Home, part: Any) -> None:
        number, index = home
        entry: Any = self._after[number]
        old = entry[kind][index]
        if old == part:
            return
        joined: Any = min(old, part, key=_rank)
        if kind == "facts":
            joined = _joined(joined, old, part)
            self._doom(old, part)
            self._doom(part, old)
            if "purged" in joined:
                # The other copy has purged: the words must also leave the quotes and messages here.
                left = set(map(canonical, _values(joined)))
                gone = [value for value in _values(old) if canonical(value) not in left]
                self._purged += gone
        if joined != old:
            parts = list(entry[kind])
            parts[index] = joined
            entry = {**entry, kind: parts}
            self._after[number] = entry

    def _doom(self, one: StoredFact, other: StoredFact) -> None:
        """Record the values of a save that the other copy has purged, if it has."""
        if (purged_at := other.get("purged")) is None:
            return
        left = set(map(canonical, _values(other)))
        for key in map(canonical, _values(one)):
            if key not in left:
                name = one["keyword"], key
                self._doomed[name] = max(self._doomed.get(name, ""), purged_at)

    def _join_entry(self, number: int, other: Entry, tie: int) -> None:
        """Use the greater number of two copies of an entry, and the greater name of an actor."""
        self._ties[number] = max(self._ties[number], tie)
        entry = self._after[number]
        actor = other.get("actor", "")
        if actor > entry.get("actor", ""):
            entry = entry.copy()
            entry.pop("reason", None)
            sign(entry, By(actor, other.get("reason")))
            self._after[number] = entry

    def _ordered(self, entries: Sequence[Entry]) -> list[Entry]:
        """Sort all entries; each has its number if that is not implied by the one before."""
        keys = [(each["at"], tie) for each, tie in zip(entries, self._ties, strict=True)]
        order = list(range(len(entries)))
        if any(one >= other for one, other in pairwise(keys)):
            order.sort(key=lambda number: (*keys[number], _names(entries[number])))
        found: list[Entry] = []
        last, following = "", 0
        for number in order:
            at, tie = keys[number]
            expected = following if at == last else 0
            last, following = at, tie + 1
            entry = entries[number]
            if entry.get("tie", expected) != tie or ("tie" in entry and tie == expected):
                entry = entry.copy()
                entry.pop("tie", None)
                if tie != expected:
                    entry["tie"] = tie
            found.append(entry)
        return found


def _ties(entries: Iterable[Entry]) -> Iterator[int]:
    """Yield the number of each entry among those of its time."""
    last, tie = "", 0
    for entry in entries:
        tie = entry.get("tie", tie + 1 if entry["at"] == last else 0)
        last = entry["at"]
        yield tie


def numbered(entries: Sequence[Entry]) -> list[Entry]:
    """Return entries with their numbers among those of their time, to export some of them."""
    return [
        {**entry, "tie": tie} if tie else entry
        for entry, tie in zip(entries, _ties(entries), strict=True)
    ]


def _is_other(entry: Entry) -> bool:
    """Return whether an entry has no parts that a ledger reads, such as a later version's."""
    return not any(entry.get(kind) for kind in _KINDS)


def _other(entry: Entry) -> bytes:
    rest = entry.copy()
    rest.pop("tie", None)
    rest.pop("received", None)
    return entry["at"].encode() + encoded_entry(rest)


def _mark(kind: _Kind, part: Any, entry: Entry) -> tuple[tuple[Any, ...], str]:
    """Return the identity of a part, and the digest of its value, which a purge removes."""
    if kind == "facts":
        return (kind, entry["at"], part["keyword"], part["id"]), ""
    names = entry["at"], _names(entry)
    if kind == "forget":
        return (kind, *names, part[0], part[1]), part[2]
    mark = kind, *names, part["keyword"], part["timestamp"], part.get("id", "")
    return mark, part.get("digest", "")


def _is_blank(part: Any) -> bool:
    """Whether a forgetting or retraction names a purged value, and so is matched last."""
    return not (part.get("digest") if isinstance(part, dict) else part[2])


def _rank(part: Any) -> tuple[bool, bool, int, bytes]:
    """Sort key of the copies of a part: a purged copy first, then the shorter one."""
    is_fact = isinstance(part, dict) and "id" in part and "type" in part
    is_whole = "purged" not in part if is_fact else not _is_blank(part)
    holder: Any = {"at": "", "facts": [part]}
    body = encoded_entry(holder)
    return is_whole, is_fact and "value" in part, len(body), body


def _joined(best: StoredFact, one: StoredFact, other: StoredFact) -> StoredFact:
    """Return the better of two copies of a fact, without values that either copy has purged."""
    if "purged" in best:
        mark = min(fact["purged"] for fact in (one, other) if "purged" in fact)
        best = best if mark == best["purged"] else {**best, "purged": mark}
        if "values" in best:
            both = set(map(canonical, _values(one))) & set(map(canonical, _values(other)))
            kept = [number for number, value in values_of(best) if canonical(value) in both]
            best = best if len(kept) == len(best["values"]) else with_values(best, kept)
    return _marked(best, one, other)


def _marked(best: StoredFact, one: StoredFact, other: StoredFact) -> StoredFact:
    """Return a fact with the marks of both copies, one of which may lack those of a purge.

    Copies only gain marks, so all of them end with the same ones.
    """
    positions = {canonical(value): number for number, value in values_of(best)}
    for name in _MARKS:
        marks = {
            positions.get(key, 0 if not positions else -1)
            for fact in (one, other)
            for key in _marked_in(fact, name)
        }
        marks.discard(-1)
        if sorted(marks) != best.get(name, []):
            best = {**best, name: sorted(marks)}  # type: ignore[misc]
    return best


_MARKS: tuple[Literal["superseded", "proposed"], ...] = ("superseded", "proposed")


def _marked_in(fact: StoredFact, name: Literal["superseded", "proposed"]) -> list[Canonical]:
    """Return the values with a mark; "" for a fact without values that is marked itself."""
    marked = fact.get(name, [])
    values = list(map(canonical, _values(fact)))
    return [values[at] for at in marked if at < len(values)] if values else ["" for _ in marked]


def _values(fact: StoredFact) -> list[JsonValue]:
    return [value for _, value in values_of(fact)]


def _names(entry: Entry) -> bytes:
    """Return what an entry names, in a form that a purge leaves unchanged."""
    if _is_other(entry):
        return _other(entry)
    facts = [(fact["keyword"], fact["id"]) for fact in entry.get("facts", ())]
    forget = [name[:2] for name in entry.get("forget", ())]
    retract = [
        (each["keyword"], each["timestamp"], each.get("id", ""))
        for each in entry.get("retract", ())
    ]
    return orjson.dumps([facts, forget, retract, entry.get("undoes"), "whole" in entry])


CurrentChange: TypeAlias = Callable[[Ledger, str], Entry | None]
"""A function of a place's ledger and the time that returns one entry, or None."""


def amended(known: Sequence[Entry], now: str, change: Amendment, by: By = NOBODY) -> list[Entry]:
    """Return the entries that `change` returns for a ledger, recorded at `now`, signed by `by`."""
    expect_function(change, "change", "amend(change, subject, scope)")
    made: tuple[Any, ...] = expect_all(
        change(known, now), object, "The result of change", "return [entry]"
    )
    given: list[Any] = [{**entry, "at": now} for entry in made]
    for entry in given:
        sign(entry, by)
    return [_checked_entry(entry, number) for number, entry in enumerate(given)]


def edited(entries: Sequence[Entry], edit: Edit) -> list[Entry | None]:
    """Return each entry as edited, with its own time; an unchanged entry is the same object."""
    example = "rewrite(edit, subject, scope)"
    expect_function(edit, "edit", example)
    edited: Any = edit([entry.copy() for entry in entries])
    members: Any = expect_all(edited, object, "The result of edit", "[None]")
    after: tuple[Entry | None, ...] = members
    if len(after) != len(entries):
        raise InputValueError(
            "An edit gives an entry, or None, for each entry: edit changes no order"
        )
    return [
        old if new == old else new and _checked_entry({**new, "at": old["at"]}, number)
        for number, (old, new) in enumerate(zip(entries, after, strict=True))
    ]


class Received(list[Entry]):
    """Checked entries from outside the store, in the form in which it would read them back.

    An entry counts as recorded no earlier than the one before it.
    """

    def __init__(self, checked: Iterable[Entry]) -> None:
        super().__init__(checked)
        at = ""
        for entry in self:
            at = entry["at"] = max(entry["at"], at)


def received(entries: Sequence[Entry]) -> Received:
    """Return entries that were recorded elsewhere as a store would read them back."""
    if isinstance(entries, Received):
        return entries
    given: tuple[Any, ...] = expect_all(entries, object, "entries", "await store.entries(...)")
    return Received(_checked_entry(entry, number) for number, entry in enumerate(given))


CLOCK_TOLERANCE = timedelta(minutes=10)
"""How far the clocks of two copies may differ. Later times are refused: if each copy replaced
them by its own time, the copies would never agree."""


def check_recorded(entries: Iterable[Entry], now: str) -> None:
    """Raise `ValueError` for an entry of the future: later saves would be recorded then, too."""
    latest = before(now, -CLOCK_TOLERANCE)
    if any(entry["at"] > latest for entry in entries):
        raise InputValueError(
            "An entry was recorded at a time that this store's clock has not reached: set the "
            "clocks of both computers. Nothing of the place was imported"
        )


def _checked_entry(entry: Entry, number: int) -> Entry:
    from factmem.ledger._entry_check import check_entry  # slow import, for entries from outside

    try:
        check_entry(entry)
        body = encoded_entry(entry)
        copy = decoded(stamped(body, entry["at"]))
        if encoded_entry(copy) != body or copy.get("facts") != entry.get("facts"):
            raise InputValueError("its values are not plain JSON")
    except (ValueError, TypeError, FactmemError) as exc:
        raise InputValueError(f"Entry {number} cannot be recorded: {exc}") from None
    return copy
