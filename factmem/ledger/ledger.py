"""The ledger: folds a place's entries into its current items. Pure, without I/O.

A place is an ordered log of entries. Folding it gives the current items of each keyword:

- a SINGLE save leaves one item: the current item with the same value, confirmed, or a new one. All
  others are replaced. A save whose value was purged replaces all and leaves none;
- a MULTIPLE save adds new values and confirms current ones;
- while a keyword has values of a MULTIPLE save, a SINGLE save adds its value to them: two programs
  with different definitions of a concept do not remove each other's values;
- a confirmed item keeps its save, gets the new importance and expiry, and gains the new source;
- a forgetting removes the items that it names; an item past its `expires_at` is not current;
- statements and retractions are ignored if later statements contradict them: see `statements`.

"Newest" refers to the order of the ledger, never to a clock: an entry counts as recorded no earlier
than the entry before it. Current items depend only on their own saves and on saves that replaced
something, so history can be removed without changing current items.
"""

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Collection, Iterable
from itertools import count
from operator import itemgetter
from typing import Any

from factmem._concurrency.garbage import paused_collection
from factmem.ledger._condition import Condition
from factmem.ledger._items import (
    ChangeLog,
    Item,
    KeywordItems,
    LedgerState,
    Touched,
    outdated,
    values_of,
)
from factmem.ledger._presentation import (
    all_changed,
    all_presented,
    in_order_of_statement,
    loaded,
)
from factmem.ledger._statements import Retractions, name_of, said_at
from factmem.ledger.entries import Entry, ForgottenItem, RetractedValue, StoredFact
from factmem.models._values import Canonical, JsonValue, canonical
from factmem.models.facts import AnyFact, Concept, L

__all__ = ["Ledger"]


_MOST_LATE = 1024
"""The most superseded statements that are kept. Callers ask for each as soon as it is recorded."""

_NONE_LATE: deque[str] = deque(maxlen=0)

_serials = count(1)
_moment = itemgetter(0)


class Ledger:
    """The current items of one place, folded from its entries in order.

    Not thread-safe: share it under a lock. `now` is a stamp.
    """

    def __init__(self, entries: Iterable[Entry] = (), *, until: str | None = None) -> None:
        self.recorded_at: str = ""
        """When the last entry was recorded; empty before the first."""
        self.may_expire: bool = False
        """Whether any value ever had an expiry; if not, reading does not need the time."""
        self._by_keyword: dict[str, KeywordItems] = {}
        self._number = 0
        self._free: dict[str, int] = {}
        """The next free position of each fact ever saved as MULTIPLE, about 120 bytes each, until a
        compaction: forgettings on disk name positions, so none is ever reused."""
        self._texts: dict[str, str] = {}
        self._passed: dict[str, str] = {}
        """The last descriptions of keywords that came with superseded statements."""
        self._late: deque[str] = _NONE_LATE
        """The latest superseded statements, for the callers that just recorded them."""
        self._serial = next(_serials)
        self._applied = 0
        self._expiries: list[tuple[str, str]] = []
        """The expiries of values, in order, each with its keyword."""
        self._log: ChangeLog | None = None
        """Created by the first call of `version`: it costs time, and few callers need it."""
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
        for fact in entry.get("facts", ()):
            self._save(fact, self.recorded_at)
        if forgotten := entry.get("forget"):
            self._forget(forgotten, self.recorded_at)
        for retracted in entry.get("retract", ()):
            self._retract(retracted, self.recorded_at)

    def state(self) -> LedgerState:
        """Return the ledger's state, not copied: do not modify it."""
        at, late, held = self.recorded_at, list(self._late), self._by_keyword
        return LedgerState(at, self._number, late, self._passed, held, self._free, self._expiries)

    @classmethod
    def restored(cls, state: LedgerState) -> "Ledger":
        """Return a ledger with this state, which must not be used elsewhere."""
        ledger = cls()
        ledger.recorded_at, ledger._number, late = state[:3]
        ledger._passed, ledger._by_keyword, ledger._free = state[3:6]
        ledger._late = deque(late, maxlen=_MOST_LATE) if late else _NONE_LATE
        ledger._expiries = sorted(state.expiries)
        ledger.may_expire = bool(ledger._expiries)
        return ledger

    def _save(self, fact: StoredFact, at: str) -> None:
        keyword = fact["keyword"]
        held = self._by_keyword.get(keyword)
        description: Any = fact.get("description")
        if description is None:
            description = self.last_description(keyword) or keyword
        if held is None and fact["type"] == "SINGLE" and "superseded" not in fact:
            self._begin(keyword, description, fact, at)
            return
        past = outdated(held, fact, at) if "stated" in fact else ()
        if past and len(past) == sum(1 for _ in values_of(fact)):
            for position, value in values_of(fact):
                self._passed_over(fact, value, position, at)
            self._note_late(fact["id"])
            if held is None or held.description != description:
                self._passed[keyword] = description
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
        if "expires_at" in fact:
            self._note_expiry(fact["expires_at"], keyword)
        held.fact_type = fact_type
        if fact_type == "SINGLE":
            self._replace(held, fact, at)
        else:
            self._add(held, fact, at, past)

    def _begin(self, keyword: str, description: str, fact: StoredFact, at: str) -> None:
        """Save the first value of a keyword: most facts of a large place are one."""
        self._passed.pop(keyword, None)
        text = self._texts.setdefault(description, description)
        held = self._by_keyword[keyword] = KeywordItems(text, "SINGLE")
        if "expires_at" in fact:
            self._note_expiry(fact["expires_at"], keyword)
        if self._log is not None:
            self._note(keyword, None)
        if "value" in fact:
            value = fact["value"]
            self._number += 1
            held.key = value if type(value) is str else canonical(value)
            held.only = item = Item(self._number, value, fact, 0, at)
            self._touched(item, fact, 0)

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
                item.confirm(fact, at)
            else:
                self._number += 1
                item = Item(self._number, value, fact, 0, at)
            held.add(key, item)
            self._touched(item, fact, 0)
        for gone in replaced.values():
            self._dropped(gone, at)

    def _add(self, held: KeywordItems, fact: StoredFact, at: str, past: Collection[int]) -> None:
        values = fact.get("values") or ([fact["value"]] if "value" in fact else ())
        if not values:
            return
        fact_id, position = fact["id"], 0
        positions = fact.get("positions") or range(len(values))
        shift = held.free_position(fact_id, self._free.get(fact_id, 0), at) - positions[0]
        for said_position, value in zip(positions, values, strict=True):
            # Shifted if the id was saved before: its positions are taken.
            position = said_position + max(shift, 0)
            if said_position in past:
                self._passed_over(fact, value, position, at)
                continue
            key = canonical(value)
            item = held.get(key)
            if item is not None and item.is_alive(at):
                item.confirm(fact, at)
            else:
                if item is not None:
                    self._note(fact["keyword"], item.fact_id, value)
                    self._dropped(held.remove(key), at)
                self._number += 1
                item = Item(self._number, value, fact, position, at)
                held.add(key, item)
            self._note(fact["keyword"], item.fact_id, value)
            self._touched(item, fact, position)
        self._free[fact_id] = position + 1

    def _forget(self, forgotten: Iterable[ForgottenItem], at: str) -> None:
        for keyword, fact_id, position in forgotten:
            held = self._by_keyword.get(keyword)
            key = None if held is None else held.named(fact_id, position)
            if held is not None and key is not None:
                item = held.remove(key)
                self._note(keyword, fact_id, item.value)
                self._dropped(item, at)

    def _retract(self, retracted: RetractedValue, at: str) -> None:
        keyword = retracted["keyword"]
        held = self._by_keyword.get(keyword)
        if held is None:
            held = self._by_keyword[keyword] = KeywordItems()
        if held.retractions is None:
            held.retractions = Retractions()
        held.retractions.add(retracted, at)
        digest = retracted.get("digest")
        key = None if digest is None else held.digested(digest)
        item = None if key is None else held.get(key)
        if key is None or item is None:
            return
        if item.said > said_at(retracted, at):
            self._note_late(name_of(retracted))
            return
        held.remove(key)
        if held.fact_type == "SINGLE" and item.is_alive(at):
            held.retractions.floor = max(held.retractions.floor, item.said)
        self._note(keyword, item.fact_id, item.value)
        self._dropped(item, at)

    def _note_late(self, name: str) -> None:
        if self._late is _NONE_LATE:
            self._late = deque(maxlen=_MOST_LATE)
        self._late.append(name)

    def _note(self, keyword: str, fact_id: str | None, value: JsonValue = "") -> None:
        """Mark a fact as changed by the current entry; None marks all facts of the keyword."""
        if self._log is not None:
            self._log.note(self._applied, keyword, fact_id, value)

    def _touched(self, item: Item, fact: StoredFact, position: int) -> None:
        """Hook for subclasses: a saved value became or confirmed an item.

        Called for each value of a fact in their order, with the position that the value takes.
        """

    def _passed_over(self, fact: StoredFact, value: JsonValue, position: int, at: str) -> None:
        """Hook for subclasses: a value of a statement was superseded at once."""

    def _dropped(self, item: Item, at: str) -> None:
        """Hook for subclasses: an item was replaced, forgotten or found expired."""

    def matching(self, condition: Condition, now: str) -> list[ForgottenItem]:
        """Return the current items that meet a condition."""
        by_keyword = self._by_keyword
        if condition.keyword is not None:
            held = by_keyword.get(condition.keyword)
            by_keyword = {} if held is None else {condition.keyword: held}
        found = [
            (keyword, item.fact_id, item.position)
            for keyword, held in by_keyword.items()
            for key, item in held.items.items()
            if item.is_alive(now) and condition.is_met_by(keyword, key, item)
        ]
        is_wide = any(self.is_wide(each, now) for each in condition.keywords or ())
        if found and condition.is_single and not is_wide:
            family = in_order_of_statement(by_keyword, condition.keywords or ())
            names = [(keyword, item.fact_id, item.position) for keyword, _, item in family]
            return names if names[-1] in found else found
        return found

    def is_current(self, name: ForgottenItem, now: str) -> bool:
        """Return whether an item named by a forgetting is current."""
        keyword, fact_id, position = name
        held = self._by_keyword.get(keyword)
        key = None if held is None else held.named(fact_id, position)
        return held is not None and key is not None and held.items[key].is_alive(now)

    def is_wide(self, keyword: str, now: str) -> bool:
        """Return whether also a SINGLE save adds to the values of a keyword."""
        held = self._by_keyword.get(keyword)
        return held is not None and held.is_wide(now)

    def is_superseded(self, fact: StoredFact) -> bool:
        """Return whether all values of a recent statement were superseded at once."""
        return fact["id"] in self._late

    def is_refused(self, retracted: RetractedValue) -> bool:
        """Return whether a recent retraction had no effect, as its value was said later."""
        return name_of(retracted) in self._late

    def items(self, keyword: str, now: str) -> dict[Canonical, Item]:
        """Return the current items of a keyword, oldest first, by the canonical form of values."""
        held = self._by_keyword.get(keyword)
        items = {} if held is None else held.items
        return {key: item for key, item in items.items() if item.is_alive(now)}

    def last_description(self, keyword: str) -> str:
        """Return the description of a keyword's last fact, current or not; empty if it has none."""
        passed = self._passed.get(keyword)
        return self.description(keyword) if passed is None else passed

    def description(self, keyword: str) -> str:
        """Return a keyword's description as it was last saved; empty if it never was."""
        held = self._by_keyword.get(keyword)
        return "" if held is None else held.description

    def load(self, concept: Concept[Any, L], now: str) -> list[L]:
        """Return the current items of a concept's keyword as facts of the concept.

        Raises:
            StoredFactError: A value does not fit the concept's type.
        """
        facts: list[Any] = loaded(self._by_keyword, concept, now)
        return facts

    def load_all(self, concepts: Iterable[Concept[Any, Any]], now: str) -> list[AnyFact]:
        """Return all current facts, each keyword in the type it was last saved with.

        Keywords are in the order of their oldest current values. Values are plain JSON, except for the
        keywords of `concepts`, whose facts are those of `load`.
        """
        named = {concept.keyword: concept for concept in concepts}
        with paused_collection(len(self._by_keyword)):
            return all_presented(self._by_keyword, named, now)

    def version(self, now: str) -> str:
        """Return a token that changes whenever the result of `load_all` may change.

        Valid within this process, and unique to this ledger.
        """
        if self._log is None:
            self._log = ChangeLog(self._applied)
        return f"{self._serial}.{self._applied}.{self._expired(now)}"

    def _expired(self, now: str) -> int:
        return bisect_right(self._expiries, now, key=_moment)

    def changes(
        self, since: str, concepts: Iterable[Concept[Any, Any]], now: str
    ) -> dict[str, list[AnyFact | str]] | None:
        """Return the current facts of each keyword that changed since a version.

        An unchanged fact is returned as its id, and all are in the order of `load_all`. None if the
        version is of another ledger, or too old.

        Raises:
            StoredFactError: A value does not fit the type of its concept.
        """
        serial, _, rest = since.partition(".")
        if serial != str(self._serial) or self._log is None:
            return None
        applied, expired = map(int, rest.split("."))
        touched, gone = self._log.since(applied), self._expiries[expired : self._expired(now)]
        if touched is None or expired > self._expired(now):
            return None
        for _, keyword in gone:
            touched.setdefault(keyword, Touched())
        named = {concept.keyword: concept for concept in concepts}
        return all_changed(self._by_keyword, touched, named, now)

    def confirmations(self, now: str) -> list[str]:
        """Return when each current value was last confirmed, as stamps in no order."""
        return [
            item.confirmed_at
            for held in self._by_keyword.values()
            for item in held.items.values()
            if item.is_alive(now)
        ]

    def keywords(self, now: str) -> list[str]:
        """Return the keywords with a current value, sorted."""
        return sorted(keyword for keyword, held in self._by_keyword.items() if held.alive(now))

    def __len__(self) -> int:
        """The number of items, expired ones included."""
        return sum(len(held) for held in self._by_keyword.values())
