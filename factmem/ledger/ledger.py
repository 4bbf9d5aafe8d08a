"""The ledger: folds a place's entries into its current items. Pure, without I/O.

A place is an ordered log of entries. An entry counts as recorded no earlier than the entry before
it. Folding the log gives the current items of each keyword:

- a SINGLE save leaves one item: the current item with the same value, confirmed, or a new one. All
  others are replaced. A save whose value was purged replaces all and leaves none;
- a MULTIPLE save adds new values and confirms current ones;
- while a keyword has values of a MULTIPLE save, a SINGLE save adds its value to them: two programs
  with different definitions of a concept do not remove each other's values;
- a confirmed item keeps its save, gets the new importance and expiry, and gains the new source;
- a forgetting removes the items that it names, and ends what is recorded after it and was said
  before it; an item past its `expires_at` or `until` is not current;
- a save or a retraction has no effect if what was said later contradicts it, in whatever order they
  are recorded: see `outdated`;
- what contradicts a confirmed value is a proposal beside the current items: see `waiting`;
- a value whose `since` lies ahead is a plan. When it begins, it is a save like any other, said at
  that time. Until then a later save of the same value moves it, and a forgetting or a retraction
  cancels it.

Plans begin in their place among the entries: each entry first applies what has begun before it. A
read after the last entry must not do that, or the ledger would depend on who has read it: `_ahead`
applies what has begun to copies. Current items depend only on their own saves and on saves that
replaced something, so history can be removed without changing current items.
"""

from bisect import insort
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from factmem.ledger._items import (
    Item,
    KeywordItems,
    Order,
    Plan,
    Proposals,
    Retractions,
    digest_of,
    last_ended,
    order_of,
    retraction_name,
    values_of,
    with_values,
)
from factmem.ledger._reads import NONE_LATE, LedgerReads, Proposal
from factmem.ledger.entries import (
    Entry,
    ForgottenItem,
    RetractedValue,
    StoredFact,
    by_of,
    keywords_of,
    part_about,
)
from factmem.models._values import Canonical, JsonValue, canonical
from factmem.models.when import begin_of, end_of

__all__ = ["Ledger", "Proposal"]

# The rules for a new statement. They apply when an entry is folded, and not when it is saved: so
# they also apply to entries of other copies, and no write can come between check and save.


def outdated(held: KeywordItems | None, fact: StoredFact, at: str) -> Collection[int]:
    """Return the positions of the values of a save that later statements supersede."""
    marked = fact.get("superseded", ())
    if held is None:
        return marked
    order = order_of(fact, at)
    is_single, retractions = fact["type"] == "SINGLE" and not held.is_wide(at), held.retractions
    found: set[int] = set()
    for position, value in values_of(fact):
        key = canonical(value)
        if (
            position in marked
            or (retractions is not None and retractions.has_ended(order, key))
            or (is_single and retractions is not None and order < retractions.floor)
            or (is_single and _has_later(held, key, order, at))
            or _is_of_the_past(held.get(key), fact, order, at)
        ):
            found.add(position)
    return found


def _is_of_the_past(item: Item | None, fact: StoredFact, order: Order, at: str) -> bool:
    """Return whether a save states a period that had ended, and does not end the current value."""
    if "until" not in fact:
        return False
    end = end_of(fact["until"])
    return end <= order[0] and (item is None or not item.is_alive(at) or end <= item.holds_from)


def _has_later(held: KeywordItems, key: Canonical, order: Order, at: str) -> bool:
    return any(
        item.last > order and other != key and item.is_alive(at)
        for other, item in held.items.items()
    )


def is_of_one_value(held: KeywordItems | None, fact: StoredFact, at: str) -> bool:
    """Return whether a model states many values of a keyword with one confirmed value.

    The keyword keeps one value. Without a confirmed one it may become MULTIPLE, because an earlier
    statement of a model may have been wrong.
    """
    return (
        held is not None
        and held.fact_type == "SINGLE"
        and fact["type"] == "MULTIPLE"
        and "stated" in fact
        and any(item.state == "confirmed" for item in held.alive(at))
    )


def waiting(
    held: KeywordItems | None, fact: StoredFact, at: str, past: Collection[int]
) -> Collection[int]:
    """Return the positions of the values of a save that become proposals.

    These are values that the save proposes, and those of a model's statement that a person has
    rejected, or that would replace or add to a confirmed value of a keyword with one. Current
    values never become proposals.
    """
    marked: Collection[int] = fact.get("proposed", ())
    if held is None or not ("stated" in fact or marked):
        return marked
    is_of_model = "stated" in fact and "SINGLE" in (fact["type"], held.fact_type)
    is_disputed = is_of_model and any(item.state == "confirmed" for item in held.alive(at))
    rejected = held.retractions.rejected if held.retractions is not None else ()
    if not (marked or is_disputed or rejected):
        return ()
    found: list[int] = []
    for position, value in values_of(fact):
        key = canonical(value)
        item = held.get(key)
        if position in past or (item is not None and item.is_alive(at)):
            continue
        if position in marked or is_disputed or (rejected and digest_of(key) in rejected):
            found.append(position)
    return found


def is_contested(item: Item, retracted: RetractedValue, at: str) -> bool:
    """Return whether a retraction of a current value waits for a decision."""
    if "confirmed" in retracted or item.last > last_ended(retracted, at):
        return False
    return item.state == "confirmed" or "proposed" in retracted


_MOST_LATE = 1024
"""The most superseded statements that are kept, for callers that ask right after a save."""


class LedgerState(NamedTuple):
    """The state of a ledger, without history."""

    recorded_at: str
    number: int
    """The number of the last item."""
    late: list[str]
    """The latest superseded statements, by name."""
    passed: dict[str, str]
    """The last descriptions of keywords, if they are not current."""
    by_keyword: dict[str, KeywordItems]
    expiries: list[tuple[str, str]]
    """The expiries of current values and possibly of others, each with its keyword."""
    begins: Sequence[tuple[str, str]] = ()
    """When planned values begin, each with its keyword; applied are those up to `recorded_at`."""


class Ledger(LedgerReads):
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
        # An undo forgets what the change added before it saves what was there, as both may be the
        # same value.
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
        # `TypeError` for a line of another program, see `understood`: keywords are compared later.
        keyword = str.__str__(fact["keyword"])
        if "expires_at" in fact or "until" in fact:
            self._note_end(fact)  # also of proposals and superseded values
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
        # A stub is a save whose values were removed. It still replaces earlier values, but neither
        # later ones nor those that only its values contradicted.
        if is_stub and (not is_plain or (held is not None and self._is_idle(held, fact, at))):
            return
        if held is None and fact["type"] == "SINGLE" and is_plain:
            self._begin(keyword, description, fact, at)
            return
        past = () if self._is_newest(held, fact) else outdated(held, fact, at)
        if past and len(past) == sum(1 for _ in values_of(fact)):
            # It changes only the description, which a later save without one gets.
            if held is None or held.description != description:
                self._passed[keyword] = description
            self._pass_over(fact, at)
            return
        waits = waiting(held, fact, at, past)
        may_wait = waits or (held is not None and held.fact_type == "SINGLE")
        if may_wait and self._is_waiting(description, fact, at, past=past, waits=waits):
            return
        self._passed.pop(keyword, None)
        # A literal, not the string of the entry, so that 100,000 keywords share two strings.
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

    def _held(self, keyword: str) -> KeywordItems:
        held = self._by_keyword.get(keyword)
        if held is None:
            held = self._by_keyword[keyword] = KeywordItems()
        return held

    def _is_newest(self, held: KeywordItems | None, fact: StoredFact) -> bool:
        """Return whether surely no earlier statement supersedes a save, which holds for most."""
        if self._is_undoing:
            return True
        if held is None or held.retractions is not None or "superseded" in fact or "until" in fact:
            return False
        if fact["type"] == "MULTIPLE":
            return True  # only a retraction or a forgetting supersedes one of many
        only = held.only
        # Nothing is said after it is recorded, so this bound needs no parsing of times.
        return only is not None and only.confirmed_at < fact["timestamp"] <= self.recorded_at

    def _is_idle(self, held: KeywordItems, fact: StoredFact, at: str) -> bool:
        """Return whether a stub replaces nothing of what is current."""
        order = order_of(fact, at)
        return fact["type"] == "SINGLE" and any(
            item.last > order or ("stated" in fact and item.state == "confirmed")
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
        """Apply a save that adds no current value, and return True; False for any other save."""
        keyword = fact["keyword"]
        held = self._by_keyword.get(keyword)
        is_all = waits and len(waits) + len(past) == sum(1 for _ in values_of(fact))
        if not is_all and not is_of_one_value(held, fact, at):
            return False
        held = self._held(keyword)
        if not held.alive(at):
            # Without current values, the keyword gets its description and type from here.
            held.description, held.fact_type = description, fact["type"]
        self._add(held, fact, at, past, waits)
        return True

    def _begin(self, keyword: str, description: str, fact: StoredFact, at: str) -> None:
        """Save the first value of a keyword, as most facts of a large place do."""
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
        """Prevent that an import restores what a purged value had replaced."""
        if "purged" in fact and "expires_at" not in fact:
            held.retractions = held.retractions or Retractions()
            held.retractions.floor = max(held.retractions.floor, order_of(fact, at))

    def _note_end(self, fact: StoredFact) -> None:
        self.may_expire: bool = True
        if "expires_at" in fact:
            insort(self._expiries, (fact["expires_at"], fact["keyword"]))
        if "until" in fact:
            insort(self._expiries, (end_of(fact["until"]), fact["keyword"]))

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
        if held.proposals is None:  # not `or`: an empty one is falsy
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
            held = self._held(keyword)
            key = held.digested(digest)
            item = None if key is None else held.get(key)
            if key is not None and item is not None and item.is_alive(at):
                held.remove(key)
                self._note(keyword, item.fact_id, item.value)
                self._end(held, key, item, at)
                self._ended(held, key, item, at)
            elif digest:
                # Another copy had replaced it before. Earlier statements about it stay ended.
                held.retractions = held.retractions or Retractions()
                held.retractions.end(digest, (at, ""))
            if held.proposals is not None:
                self._withdraw(held.proposals, digest, at)
            if held.plans:
                self._cancel(held, at, digest=digest)

    def _end(self, held: KeywordItems, key: Canonical, item: Item, at: str) -> None:
        """End what was said of a forgotten value until now, even if it is recorded later."""
        held.retractions = held.retractions or Retractions()
        held.retractions.end(digest_of(key), max((at, ""), item.last))
        # The value had replaced earlier ones: an older save of another value that arrives later
        # must not become current instead.
        if held.fact_type == "SINGLE":
            held.retractions.floor = max(held.retractions.floor, item.last)

    def _ended(self, held: KeywordItems, key: Canonical, item: Item, at: str) -> None:
        if held.proposals is not None:
            held.proposals.endings.pop(key, None)
        self._dropped(item, at)

    def _retract(self, retracted: RetractedValue, at: str) -> None:
        keyword = retracted["keyword"]
        held = self._held(keyword)
        digest = retracted.get("digest")
        key = None if digest is None else held.digested(digest)
        item = None if key is None else held.get(key)
        if key is not None and item is not None and is_contested(item, retracted, at):
            held.proposals = held.proposals or Proposals()
            held.proposals.endings.setdefault(key, (retracted, at, self._by))
            return
        held.retractions = held.retractions or Retractions()
        held.retractions.add(retracted, at)
        if digest is not None and held.proposals is not None:
            self._withdraw(held.proposals, digest, at)
        if held.plans:
            self._cancel(held, at, retracted=retracted)
        if key is None or item is None:
            return
        if item.last > last_ended(retracted, at):
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

    def _plan(self, fact: StoredFact, at: str) -> None:
        """Keep the values of a save until they begin."""
        keyword = fact["keyword"]
        held = self._held(keyword)
        if not held.alive(at):
            held.description = fact.get("description", held.description or keyword)
            held.fact_type = fact["type"]
        past: Collection[int] = fact.get("superseded", ())
        waits, late = waiting(held, fact, at, past), 0
        parts = list(_parts(fact))
        proposed: Collection[int] = fact.get("proposed", ())
        for position, value, part in parts:
            if position in waits:
                self._propose(held, value, fact, at)
                continue
            key = canonical(value)
            plan = Plan(part, Item(0, value, fact, at, self._by), key, at, self._by)
            # A proposal does not change what is current.
            is_idle = position in proposed and not plan.is_stub
            if position in past or is_idle or self._is_moved(held, plan):
                self._passed_over(fact, value, at)
                late += 1
                continue
            self._postpone(held, plan, at)
            held.plans = [*(held.plans or ()), plan]
            self._planned(plan)
            self.may_expire = True
            insort(self._begins, (plan.begin, keyword))
        if late and late == len(parts):
            self._note_late(fact["id"])

    def _is_moved(self, held: KeywordItems, plan: Plan) -> bool:
        """Return whether a later statement ended or moved a plan."""
        retractions = None if self._is_undoing or plan.is_stub else held.retractions
        if retractions is not None and retractions.has_ended(plan.said, plan.key):
            return True
        return any(each.said > plan.said for each in _same(held, plan))

    def _postpone(self, held: KeywordItems, plan: Plan, at: str) -> None:
        """Remove an earlier plan of the same value, or the current value that begins again."""
        for each in _same(held, plan):
            self._drop_plan(held, each, at)
        item = None if plan.is_stub else held.get(plan.key)
        is_kept = item is not None and item.state == "confirmed" and "stated" in plan.fact
        if item is not None and item.is_alive(at) and not is_kept and not _between(held, plan, at):
            self._note(plan.fact["keyword"], None)
            self._dropped(held.remove(plan.key), at)

    def _cancel(
        self,
        held: KeywordItems,
        at: str,
        *,
        digest: str | None = None,
        retracted: RetractedValue | None = None,
    ) -> None:
        """Remove the plans that a forgetting or a retraction names."""
        for plan in [each for each in held.plans or () if not each.is_stub]:
            name = digest_of(plan.key)
            if digest == name:
                held.retractions = held.retractions or Retractions()
                held.retractions.end(name, max((at, ""), plan.said))
                self._drop_plan(held, plan, at)
            elif retracted is not None and retracted.get("digest") == name:
                is_kept = plan.item.state == "confirmed" and "confirmed" not in retracted
                if not is_kept and plan.said <= last_ended(retracted, at):
                    self._drop_plan(held, plan, at)

    def _drop_plan(self, held: KeywordItems, plan: Plan, at: str) -> None:
        held.plans = [each for each in held.plans or () if each is not plan]
        self._dropped(plan.item, at)

    def advance(self, now: str) -> None:
        """Apply the plans that have begun at `now`, in order."""
        while self._begun < len(self._begins) and self._begins[self._begun][0] <= now:
            begin, keyword = self._begins[self._begun]
            self._begun += 1
            held = self._by_keyword[keyword]
            due = [plan for plan in held.plans or () if plan.begin <= begin]
            for plan in sorted(due, key=lambda plan: (plan.begin, plan.said)):
                held.plans = [each for each in held.plans or () if each is not plan]
                self._begin_plan(held, plan)

    def _begin_plan(self, held: KeywordItems, plan: Plan) -> None:
        begin, item = plan.begin, None if plan.is_stub else held.get(plan.key)
        is_said_again = item is not None and item.is_alive(begin) and item.last > plan.said
        if not plan.item.is_alive(begin):
            return
        if is_said_again:
            self._dropped(plan.item, begin)
            return
        # Set the actor of the plan; `_by` is that of the entry to apply next.
        self._by, self._is_undoing = plan.by, False
        self._save(plan.fact, begin)

    def _ahead(self, now: str) -> dict[str, KeywordItems]:
        """Return the items at `now`, with copies of the keywords whose plans have begun."""
        begun = self._begun_by(now)
        if self._copies[0] != (self._applied, begun):
            # A ledger of the due keywords alone, as plans of other keywords do not affect them.
            twin = type(self)()
            due = {keyword for _, keyword in self._begins[self._begun : begun]}
            twin._by_keyword = {each: self._by_keyword[each].copied() for each in due}
            twin._number, twin._passed = self._number, {}
            twin._begins, twin._begun = self._begins, self._begun
            twin.advance(now)
            whole = {**self._by_keyword, **twin._by_keyword}
            self._copies = (self._applied, begun), whole
        return self._copies[1]

    def _note(self, keyword: str, fact_id: str | None, value: JsonValue = "") -> None:
        """Mark a fact as changed by the current entry; None marks all facts of the keyword."""
        if self._log is not None:
            self._log.note(self._applied, keyword, fact_id, value)

    def _touched(self, item: Item, fact: StoredFact) -> None:
        """Hook for subclasses: a saved value became or confirmed an item, in the fact's order."""

    def _planned(self, plan: Plan) -> None:
        """Hook for subclasses: a saved value begins later."""

    def _passed_over(self, fact: StoredFact, value: JsonValue, at: str) -> None:
        """Hook for subclasses: a value of a statement was superseded at once."""

    def _dropped(self, item: Item, at: str) -> None:
        """Hook for subclasses: an item was replaced, forgotten or found expired."""


def _parts(fact: StoredFact) -> Iterator[tuple[int, JsonValue, StoredFact]]:
    """Yield the values of a save with their positions, each as a save of its own; of a stub one."""
    if not fact.get("values"):
        yield 0, fact.get("value"), fact
        return
    for position, value in values_of(fact):
        yield position, value, with_values(fact, [position])


def _same(held: KeywordItems, plan: Plan) -> list[Plan]:
    """Return the plans of the same value that a plan moves, or that move it."""
    plans = () if plan.is_stub else held.plans or ()
    alike = [each for each in plans if each.key == plan.key and not each.is_stub]
    return [each for each in alike if not _between(held, plan, each.begin)]


def _between(held: KeywordItems, plan: Plan, other: str) -> bool:
    """Return whether a SINGLE keyword has another value between a plan's begin and a time."""
    first, last = sorted((plan.begin, other))
    return plan.fact["type"] == "SINGLE" and any(
        each.key != plan.key and first < each.begin < last for each in held.plans or ()
    )


class KeywordSearches:
    """Folds the parts of entries about each of some keywords into a ledger of its own."""

    def __init__(self, keywords: Iterable[str]) -> None:
        self.ledgers: dict[str, Ledger] = {keyword: Ledger() for keyword in keywords}
        self._recorded_at = ""

    def take(self, entries: Iterable[Entry]) -> None:
        """Apply the next entries in order; those about other keywords only move the time."""
        for entry in entries:
            for keyword in keywords_of(entry):
                ledger = self.ledgers.get(keyword)
                if ledger is not None and (part := part_about(entry, (keyword,))):
                    ledger.recorded_at = self._recorded_at
                    ledger.apply(part)
            self._recorded_at = max(self._recorded_at, entry["at"])
        for ledger in self.ledgers.values():
            ledger.recorded_at = self._recorded_at
