"""Undoing a change: the entry that restores what was current before it. Pure.

A change can be undone only if nothing depends on it: the parts that it touched must still be as it
left them. So the states before the change, after it and at the end of the log are compared. The
result is an ordinary entry, which can be undone itself: it first forgets what the change added,
then saves what was there before, and later statements do not end these saves.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, TypeAlias

from factmem.errors import InputValueError
from factmem.ledger._items import Item, name_of
from factmem.ledger._reads import restated
from factmem.ledger.entries import (
    Amendment,
    Entry,
    ForgottenItem,
    RetractedValue,
    StoredFact,
    keywords_of,
    untimed,
)
from factmem.ledger.history import change_ids
from factmem.ledger.ledger import Ledger
from factmem.models.places import NOBODY, Identity

_Part: TypeAlias = tuple[str, Hashable]
"""A current value, a proposed value or a proposed end, by its canonical form."""


class _Held:
    def __init__(self, ledger: Ledger, keyword: str) -> None:
        held = ledger.state().by_keyword.get(keyword)
        self.fact_type: str = "" if held is None else held.fact_type
        self.description: str = "" if held is None else held.description
        self.items: dict[_Part, Item] = {}
        """A copy of each item, because later entries change it."""
        self.endings: dict[_Part, RetractedValue] = {}
        if held is not None:
            self._add("value", held.items)
        if held is not None and held.proposals is not None:
            self._add("proposed", held.proposals.values)
            for key, (retracted, _, _) in held.proposals.endings.items():
                self.endings["ending", key] = retracted
        for plan in () if held is None else held.plans or ():
            if not plan.is_stub:
                self._add("planned", {(plan.key, plan.begin): plan.item})

    def _add(self, part: str, items: Mapping[Any, Item]) -> None:
        for key, item in items.items():
            self.items[part, key] = kept = copy(item)
            kept.sources = list(item.sources)

    def compared(self, part: _Part) -> object:
        """Return what two states of a part must share: all but when and where it was recorded."""
        if part in self.endings:
            return self.endings[part]
        if part not in self.items:
            return None
        item = self.items[part]
        fact = restated(item, "", "", is_single=True)
        fact["timestamp"] = ""
        return fact, item.sources, item.state == "proposed"

    def parts(self) -> set[_Part]:
        return {*self.items, *self.endings}


_States: TypeAlias = dict[str, _Held]


def undoing(identity: Identity, change_id: str) -> Amendment:
    """Return a function for `FactStore.amend` that undoes a change of a place.

    It raises `ValueError` if the place has no such change, if a later change depends on it, or if
    it changed nothing.
    """

    def change(entries: Sequence[Entry], now: str) -> Iterator[Entry]:
        ids = change_ids(identity, entries)
        number = ids.index(change_id) if change_id in ids else -1
        if number < 0 or _is_purged(entries[number]):
            raise InputValueError(
                f"No change has the id {change_id!r}: it was of a place that was erased, or of "
                f"values that were purged, and neither can be undone"
            )
        ledger = Ledger(entries[:number])
        keywords = keywords_of(entries[number])
        before = {each: _Held(ledger, each) for each in keywords}
        ledger.apply(entries[number])
        after = {each: _Held(ledger, each) for each in keywords}
        touched = {each: _touched(before[each], after[each]) for each in keywords}
        if not any(touched.values()):
            raise InputValueError(
                f"The change {change_id!r} changed no current value: nothing to undo"
            )
        for later in range(number + 1, len(entries)):
            ledger.apply(entries[later])
        ledger.advance(now)
        if not _is_same(ledger, touched, after):
            later_id = _first_later(entries, number, touched, after)
            named = (
                "a value has begun or expired"
                if later_id is None
                else f"undo {ids[later_id]!r} first"
            )
            raise InputValueError(f"A later change rests on {change_id!r}: {named}")
        yield _restoring(change_id, now, touched, before, after=ledger)

    return change


def _is_purged(entry: Entry) -> bool:
    names = entry.get("forget", ())
    return any("purged" in fact for fact in entry.get("facts", ())) or not all(n[2] for n in names)


def _touched(before: _Held, after: _Held) -> set[_Part]:
    """Return the parts that a change changed; all of a keyword with one value before or after."""
    parts = before.parts() | after.parts()
    changed = {each for each in parts if before.compared(each) != after.compared(each)}
    is_single = "SINGLE" in {before.fact_type, after.fact_type}
    return parts if changed and is_single else changed


def _is_same(ledger: Ledger, touched: Mapping[str, set[_Part]], after: _States) -> bool:
    for keyword, parts in touched.items():
        present, then = _Held(ledger, keyword), after[keyword]
        is_whole = parts and "SINGLE" in {present.fact_type, then.fact_type}
        compared = parts | present.parts() if is_whole else parts
        if any(present.compared(each) != then.compared(each) for each in compared):
            return False
    return True


def _first_later(
    entries: Sequence[Entry], number: int, touched: Mapping[str, set[_Part]], after: _States
) -> int | None:
    ledger = Ledger(entries[: number + 1])
    for later in range(number + 1, len(entries)):
        ledger.apply(entries[later])
        if not _is_same(ledger, touched, after):
            return later
    return None


def _restoring(
    change_id: str, now: str, touched: Mapping[str, set[_Part]], before: _States, *, after: Ledger
) -> Entry:
    facts: list[StoredFact] = []
    forget: list[ForgottenItem] = []
    retract: list[RetractedValue] = []
    for keyword, parts in touched.items():
        present, then = _Held(after, keyword), before[keyword]
        for part, item in present.items.items():
            if part in parts:
                forget.append(name_of(keyword, item))
        gone = {(name[0], name[2]) for name in forget}
        for part, item in present.items.items():  # a forgetting ends all items with an equal value
            is_gone = (keyword, name_of(keyword, item)[2]) in gone
            if is_gone and part not in parts and item.is_alive(now):
                facts += _saves(keyword, present, item)
        for part, item in then.items.items():
            if part in parts and item.is_alive(now):
                facts += _saves(keyword, then, item)
        for each in then.endings.values():
            ending = each.copy()
            ending["proposed"] = True
            retract.append(ending)
    entry: Any = untimed(facts, forget, retract, by=NOBODY)
    entry |= {"at": now, "undoes": change_id}
    restoring: Entry = entry
    return restoring


def _saves(keyword: str, held: _Held, item: Item) -> Iterator[StoredFact]:
    """Yield the saves that restore an item: one for each of its sources."""
    is_single = held.fact_type == "SINGLE"
    fact = restated(item, keyword, held.description, is_single=is_single)
    if item.state == "proposed":
        fact["proposed"] = [0]
    for number, source in enumerate(item.sources):
        save = fact.copy()
        if source is not None:
            save["source"] = source
        if number and number == len(item.sources) - 1:
            save["timestamp"] = item.said
        yield save
