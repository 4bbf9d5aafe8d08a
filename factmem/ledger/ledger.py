"""The ledger: folds a place's entries into its current items. Pure, without I/O.

A place is an ordered log of entries. Folding it gives the current items of each keyword:

- a SINGLE save leaves one item: the current item with the same value, confirmed, or a new one. All
  others are replaced. A save whose value was purged replaces all and leaves none;
- a MULTIPLE save adds new values and confirms current ones;
- while a keyword has values of a MULTIPLE save, a SINGLE save adds its value to them: two programs
  with different definitions of a concept do not remove each other's values;
- a confirmed item keeps its save, gets the new importance and expiry, and gains the new source;
- a forgetting removes the items that it names; an item past its `expires_at` is not current;
- saves and retractions are ignored if what was said later contradicts them, in whatever order they
  are recorded: see `statements`. A forgetting also ends what is recorded after it and was said before;
- a value whose `until` has passed is not current; one whose `since` lies ahead is planned, and
  counts as said when it begins: see `PlanningLedger`;
- what contradicts a confirmed value is a proposal beside the current items: see `proposals`.

An entry counts as recorded no earlier than the entry before it. Current items depend only on their own saves and on saves that replaced
something, so history can be removed without changing current items.
"""

from bisect import insort
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from factmem.ledger._items import (
    Item,
    KeywordItems,
    Proposals,
    values_of,
)
from factmem.ledger._outdated import outdated
from factmem.ledger._plans import PlanningLedger
from factmem.ledger._proposals import is_contested, is_of_one_value, waiting
from factmem.ledger._reading import NONE_LATE
from factmem.ledger._statements import Retractions, digest_of, end_of, retraction_name, told
from factmem.ledger.entries import Entry, ForgottenItem, RetractedValue, StoredFact, by_of
from factmem.models._values import Canonical, JsonValue, canonical
from factmem.models.when import begin_of
from factmem.models.when import end_of as until_of

__all__ = ["Ledger"]


_MOST_LATE = 1024
"""The most superseded statements that are kept. Callers ask for each as soon as it is recorded."""


class LedgerState(NamedTuple):
    """The state of a ledger, without history."""

    recorded_at: str
    number: int
    """The number of the last item."""
    late: list[str]
    """The latest superseded statements."""
    passed: dict[str, str]
    """The last descriptions of keywords, if they are not current."""
    by_keyword: dict[str, KeywordItems]
    expiries: list[tuple[str, str]]
    """The expiries of current values and possibly of others, each with its keyword."""
    begins: Sequence[tuple[str, str]] = ()
    """When planned values begin, each with its keyword; applied are those up to `recorded_at`."""


class Ledger(PlanningLedger):
    """The current items of one place, folded from its entries in order.

    Not thread-safe: share it under a lock. `now` is a stamp.
    """

    def __init__(self, entries: Iterable[Entry] = (), *, until: str | None = None) -> None:
        super().__init__()
        for entry in entries:
            if until is not None and max(entry["at"], self.recorded_at) > until:
                break
            self.apply(entry)

    def apply(self, entry: Entry) -> None:
        """Apply the next entry."""
        self._applied += 1
        at = entry["at"]
        if at > self.recorded_at:  # noqa: PLR1730 - no call per entry
            self.recorded_at = at
        if self._begins:
            self.advance(self.recorded_at)
        self._by = by_of(entry)
        self._is_undoing = "undoes" in entry
        if self._is_undoing:
            self._forget(entry.get("forget", ()), self.recorded_at)
        for fact in entry.get("facts", ()):
            self._save(fact, self.recorded_at)
        if not self._is_undoing and (forgotten := entry.get("forget")):
            self._forget(forgotten, self.recorded_at)
        for retracted in entry.get("retract", ()):
            self._retract(retracted, self.recorded_at)

    def state(self) -> LedgerState:
        """Return the ledger's state, not copied: do not modify it."""
        at, late, held = self.recorded_at, list(self._late), self._by_keyword
        expiries, begins = self._expiries, self._begins
        return LedgerState(at, self._number, late, self._passed, held, expiries, begins)

    @classmethod
    def restored(cls, state: LedgerState) -> "Ledger":
        """Return a ledger with this state, which must not be used elsewhere."""
        ledger = cls()
        ledger.recorded_at, ledger._number, late = state[:3]
        ledger._passed, ledger._by_keyword = state[3:5]
        ledger._late = deque(late, maxlen=_MOST_LATE) if late else NONE_LATE
        ledger._expiries = sorted(state.expiries)
        ledger._begins = sorted(state.begins)
        ledger._begun = ledger._begun_by(state.recorded_at)
        ledger.may_expire = bool(ledger._expiries or ledger._begins)
        return ledger

    def _save(self, fact: StoredFact, at: str) -> None:
        keyword = fact["keyword"]
        if "expires_at" in fact or "until" in fact:
            self._note_end(fact)  # also of a proposal, and of what is history at once
        is_past = "superseded" in fact and "values" not in fact
        if "since" in fact and begin_of(fact["since"]) > at and not is_past:
            self._plan(fact, at)
            return
        held = self._by_keyword.get(keyword)
        description: Any = fact.get("description")
        if description is None:
            description = self.last_description(keyword) or keyword
        is_plain = "superseded" not in fact and "proposed" not in fact
        is_stub = "value" not in fact and not fact.get("values")
        if is_stub and (not is_plain or (held is not None and self._is_idle(held, fact, at))):
            return
        if held is None and fact["type"] == "SINGLE" and is_plain:
            self._begin(keyword, description, fact, at)
            return
        past = () if self._is_newest(held, fact) else outdated(held, fact, at)
        if past and len(past) == sum(1 for _ in values_of(fact)):
            if held is None or held.description != description:
                self._passed[keyword] = description
            self._pass_over(fact, at)
            return
        waits = waiting(held, fact, at, past)
        may_wait = waits or (held is not None and held.fact_type == "SINGLE")
        if may_wait and self._is_waiting(description, fact, at, past=past, waits=waits):
            return
        self._passed.pop(keyword, None)
        # Not the string of the entry, so that 100,000 keywords share two strings.
        is_one = fact["type"] == "SINGLE" and (held is None or not held.is_wide(at))
        fact_type = "SINGLE" if is_one else "MULTIPLE"
        if held is None:
            held = self._by_keyword[keyword] = KeywordItems()
        elif held.description != description or held.fact_type != fact_type:
            self._note(keyword, None)
        held.description = self._texts.setdefault(description, description)
        held.fact_type = fact_type
        if fact_type == "SINGLE":
            self._replace(held, fact, at)
        else:
            self._add(held, fact, at, past, waits)

    def _pass_over(self, fact: StoredFact, at: str) -> None:
        for _, value in values_of(fact):
            self._passed_over(fact, value, at)
        self._note_late(fact["id"])

    def _is_newest(self, held: KeywordItems | None, fact: StoredFact) -> bool:
        """Return whether nothing can have ended a save when it is recorded: true of most."""
        if self._is_undoing:
            return True
        if held is None or held.retractions is not None or "superseded" in fact or "until" in fact:
            return False
        if fact["type"] == "MULTIPLE":
            return True  # only a retraction or a forgetting ends one of many
        only = held.only
        # An item was said before it was recorded.
        return only is not None and only.confirmed_at < fact["timestamp"] <= self.recorded_at

    def _is_idle(self, held: KeywordItems, fact: StoredFact, at: str) -> bool:
        """Return whether a save whose values were removed had replaced nothing that is current."""
        place = told(fact, at)
        return fact["type"] == "SINGLE" and any(
            item.last > place or ("stated" in fact and item.state == "confirmed")
            for item in held.alive(at)
        )

    def _is_waiting(
        self,
        description: str,
        fact: StoredFact,
        at: str,
        *,
        past: Collection[int],
        waits: Collection[int],
    ) -> bool:
        """Apply a save that adds no current value, and return whether it is one."""
        keyword = fact["keyword"]
        held = self._by_keyword.get(keyword)
        is_all = waits and len(waits) + len(past) == sum(1 for _ in values_of(fact))
        if not is_all and not is_of_one_value(held, fact, at):
            return False
        if held is None:
            held = self._by_keyword[keyword] = KeywordItems()
        if not held.alive(at):
            held.description, held.fact_type = description, fact["type"]
        self._add(held, fact, at, past, waits)
        return True

    def _begin(self, keyword: str, description: str, fact: StoredFact, at: str) -> None:
        """Save the first value of a keyword: most facts of a large place are one."""
        self._passed.pop(keyword, None)
        text = self._texts.setdefault(description, description)
        held = self._by_keyword[keyword] = KeywordItems(text, "SINGLE")
        if self._log is not None:
            self._note(keyword, None)
        if "value" in fact:
            value = fact["value"]
            self._number += 1
            held.key = value if type(value) is str else canonical(value)
            held.only = item = Item(self._number, value, fact, at, self._by)
            self._touched(item, fact)
        else:
            self._raise_floor(held, fact, at)

    def _raise_floor(self, held: KeywordItems, fact: StoredFact, at: str) -> None:
        """Keep what a purged value had replaced from coming back with a later import."""
        if "purged" in fact and "expires_at" not in fact:
            held.retractions = held.retractions or Retractions()
            held.retractions.floor = max(held.retractions.floor, told(fact, at))

    def _note_end(self, fact: StoredFact) -> None:
        if "expires_at" in fact:
            self._note_expiry(fact["expires_at"], fact["keyword"])
        if "until" in fact:
            self._note_expiry(until_of(fact["until"]), fact["keyword"])

    def _note_expiry(self, expires_at: str, keyword: str) -> None:
        self.may_expire = True
        insort(self._expiries, (expires_at, keyword))

    def _replace(self, held: KeywordItems, fact: StoredFact, at: str) -> None:
        replaced = held.clear()
        if self._log is not None:
            self._note(fact["keyword"], None)
        if "value" in fact:
            value = fact["value"]
            key = value if type(value) is str else canonical(value)
            item = replaced.get(key) if replaced else None
            if item is not None and item.is_alive(at):
                del replaced[key]
                item.confirm(fact, at, self._by)
            else:
                self._number += 1
                item = Item(self._number, value, fact, at, self._by)
            held.add(key, item)
            self._touched(item, fact)
            self._settle(held, key, fact, at)
        else:
            self._raise_floor(held, fact, at)
            if held.proposals is not None:
                self._settle(held, "", fact, at)
        for gone in replaced.values():
            self._dropped(gone, at)

    def _settle(self, held: KeywordItems, key: Canonical, fact: StoredFact, at: str) -> None:
        """Remove the proposals that a save decides: those of its value; all if it is confirmed."""
        if held.proposals is not None:
            is_decided = "confirmed" in fact and held.fact_type == "SINGLE"
            for gone in held.proposals.settle(key, all_values=is_decided):
                self._dropped(gone, at)
        if held.retractions is not None and "stated" not in fact:
            held.retractions.rejected.discard(digest_of(key))

    def _propose(self, held: KeywordItems, value: JsonValue, fact: StoredFact, at: str) -> None:
        if held.proposals is None:
            held.proposals = Proposals()
        key = canonical(value)
        item = held.proposals.values.get(key)
        if item is not None and item.is_alive(at):
            item.confirm(fact, at, self._by)
        else:
            if item is not None:
                self._dropped(item, at)
            item = held.proposals.values[key] = Item(0, value, fact, at, self._by)
        item.state = "proposed"
        self._touched(item, fact)

    def _add(
        self,
        held: KeywordItems,
        fact: StoredFact,
        at: str,
        past: Collection[int],
        waits: Collection[int] = (),
    ) -> None:
        for position, value in values_of(fact):
            if position in past:
                self._passed_over(fact, value, at)
                continue
            if position in waits:
                self._propose(held, value, fact, at)
                continue
            key = canonical(value)
            item = held.get(key)
            if item is not None and item.is_alive(at):
                item.confirm(fact, at, self._by)
            else:
                if item is not None:
                    self._note(fact["keyword"], item.fact_id, value)
                    self._dropped(held.remove(key), at)
                self._number += 1
                item = Item(self._number, value, fact, at, self._by)
                held.add(key, item)
            self._note(fact["keyword"], item.fact_id, value)
            self._touched(item, fact)
            if held.proposals is not None or held.retractions is not None:
                self._settle(held, key, fact, at)

    def _forget(self, forgotten: Iterable[ForgottenItem], at: str) -> None:
        for keyword, _, digest in forgotten:
            held = self._by_keyword.get(keyword)
            if held is None:
                held = self._by_keyword[keyword] = KeywordItems()
            key = held.digested(digest)
            item = None if key is None else held.get(key)
            if key is not None and item is not None and item.is_alive(at):
                held.remove(key)
                self._note(keyword, item.fact_id, item.value)
                self._end(held, key, item, at)
                self._ended(held, key, item, at)
            elif digest:
                # Another copy has replaced it before; what was said of it until now stays ended.
                held.retractions = held.retractions or Retractions()
                held.retractions.end(digest, (at, ""))
            if held.proposals is not None:
                self._withdraw(held.proposals, digest, at)
            if held.plans:
                self._cancel(held, at, digest=digest)

    def _end(self, held: KeywordItems, key: Canonical, item: Item, at: str) -> None:
        """End what was said of a forgotten value until now, also if it is recorded later."""
        if held.retractions is None:
            held.retractions = Retractions()
        held.retractions.end(digest_of(key), max((at, ""), item.last))
        if held.fact_type == "SINGLE":
            held.retractions.floor = max(held.retractions.floor, item.last)

    def _ended(self, held: KeywordItems, key: Canonical, item: Item, at: str) -> None:
        if held.proposals is not None:
            held.proposals.endings.pop(key, None)
        self._dropped(item, at)

    def _retract(self, retracted: RetractedValue, at: str) -> None:
        keyword = retracted["keyword"]
        held = self._by_keyword.get(keyword)
        if held is None:
            held = self._by_keyword[keyword] = KeywordItems()
        digest = retracted.get("digest")
        key = None if digest is None else held.digested(digest)
        item = None if key is None else held.get(key)
        if key is not None and item is not None and is_contested(item, retracted, at):
            held.proposals = held.proposals or Proposals()
            held.proposals.endings.setdefault(key, (retracted, at, self._by))
            return
        if held.retractions is None:
            held.retractions = Retractions()
        held.retractions.add(retracted, at)
        if digest is not None and held.proposals is not None:
            self._withdraw(held.proposals, digest, at)
        if held.plans:
            self._cancel(held, at, retracted=retracted)
        if key is None or item is None:
            return
        if item.last > end_of(retracted, at):
            self._note_late(retraction_name(retracted))
            return
        held.remove(key)
        if held.fact_type == "SINGLE" and item.is_alive(at):
            held.retractions.floor = max(held.retractions.floor, item.last)
        self._note(keyword, item.fact_id, item.value)
        self._ended(held, key, item, at)

    def _withdraw(self, proposals: Proposals, digest: str, at: str) -> None:
        key = proposals.digested(digest)
        if key is not None:
            self._dropped(proposals.values.pop(key), at)

    def _note_late(self, name: str) -> None:
        if self._late is NONE_LATE:
            self._late = deque(maxlen=_MOST_LATE)
        self._late.append(name)
