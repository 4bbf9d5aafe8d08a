"""Plans: values that begin later, beside the current values of a keyword.

The class stands between `LedgerReads` and `Ledger`, and calls the methods of `Ledger` as hooks.
`Ledger.apply` calls `advance` before each entry, so that a plan begins in its place among the
entries, whenever they are read. A read after the last entry must not do that, or the ledger would
depend on who has read it: `_ahead` applies what has begun to copies. A begin stays in `_begins`
when its plan is cancelled; there is nothing to apply then.
"""

from bisect import insort
from collections.abc import Collection, Iterator

from factmem.ledger._items import Item, KeywordItems, Plan, values_of, with_values
from factmem.ledger._proposals import waiting
from factmem.ledger._reading import LedgerReads
from factmem.ledger._statements import Retractions, digest_of, end_of
from factmem.ledger.entries import RetractedValue, StoredFact
from factmem.models._values import JsonValue, canonical


class PlanningLedger(LedgerReads):
    """The part of a `Ledger` that keeps values until they begin.

    A value that begins later counts as said when it begins. It is then a save like any other, which
    replaces the value of a SINGLE keyword. Until then a later save of the same value moves it, and a
    forgetting or a retraction cancels it.

    What is applied depends on the entries only: the next entry applies what has begun. A read
    before it looks at copies of the keywords concerned.
    """

    def _plan(self, fact: StoredFact, at: str) -> None:
        """Keep the values of a save until they begin."""
        keyword = fact["keyword"]
        held = self._by_keyword.get(keyword)
        if held is None:
            held = self._by_keyword[keyword] = KeywordItems()
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
            # A proposal does not move what is current.
            is_idle = position in proposed and not plan.is_stub
            if position in past or is_idle or self._is_moved(held, plan):
                self._passed_over(fact, value, at)
                late += 1
                continue
            self._postpone(held, plan, at)
            held.plans = [*(held.plans or ()), plan]
            self._planned(plan)
            self._note_begin(plan)
        if late and late == len(parts):
            self._note_late(fact["id"])

    def _is_moved(self, held: KeywordItems, plan: Plan) -> bool:
        """Return whether a plan was ended or moved by something that was said after it."""
        retractions = None if self._is_undoing or plan.is_stub else held.retractions
        if retractions is not None and retractions.has_ended(plan.said, plan.key):
            return True
        return any(each.said > plan.said for each in _same(held, plan))

    def _postpone(self, held: KeywordItems, plan: Plan, at: str) -> None:
        """Remove an earlier plan of the same value, or the current value that is to begin anew."""
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
                if not is_kept and plan.said <= end_of(retracted, at):
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
        # It begins as what its own save was, not as a part of the entry that is applied next.
        self._by, self._is_undoing = plan.by, False
        self._save(plan.fact, begin)

    def _ahead(self, now: str) -> dict[str, KeywordItems]:
        """Return the items at `now`, with copies of the keywords whose plans have begun."""
        begun = self._begun_by(now)
        if self._copies[0] != (self._applied, begun):
            twin = type(self)()
            due = {keyword for _, keyword in self._begins[self._begun : begun]}
            twin._by_keyword = {each: self._by_keyword[each].copied() for each in due}
            twin._number, twin._passed = self._number, {}
            twin._begins, twin._begun = self._begins, self._begun
            twin.advance(now)
            whole = {**self._by_keyword, **twin._by_keyword}
            self._copies = (self._applied, begun), whole
        return self._copies[1]

    def _save(self, fact: StoredFact, at: str) -> None:
        raise NotImplementedError

    def _propose(self, held: KeywordItems, value: JsonValue, fact: StoredFact, at: str) -> None:
        raise NotImplementedError

    def _note_late(self, name: str) -> None:
        raise NotImplementedError

    def _note_begin(self, plan: Plan) -> None:
        self.may_expire = True
        insort(self._begins, (plan.begin, plan.fact["keyword"]))

    def _note(self, keyword: str, fact_id: str | None, value: JsonValue = "") -> None:
        """Mark a fact as changed by the current entry; None marks all facts of the keyword."""
        if self._log is not None:
            self._log.note(self._applied, keyword, fact_id, value)

    def _touched(self, item: Item, fact: StoredFact) -> None:
        """Hook for subclasses: a saved value became or confirmed an item.

        Called for each value of a fact in their order.
        """

    def _planned(self, plan: Plan) -> None:
        """Hook for subclasses: a saved value begins later."""

    def _passed_over(self, fact: StoredFact, value: JsonValue, at: str) -> None:
        """Hook for subclasses: a value of a statement was superseded at once."""

    def _dropped(self, item: Item, at: str) -> None:
        """Hook for subclasses: an item was replaced, forgotten or found expired."""


def _parts(fact: StoredFact) -> Iterator[tuple[int, JsonValue, StoredFact]]:
    """Yield each value of a save with its position and a save of it alone; one of those without any."""
    if not fact.get("values"):
        yield 0, fact.get("value"), fact
        return
    for position, value in values_of(fact):
        yield position, value, with_values(fact, [position])


def _same(held: KeywordItems, plan: Plan) -> list[Plan]:
    """Return the plans of the same value that are moved by a plan, or that move it."""
    plans = () if plan.is_stub else held.plans or ()
    alike = [each for each in plans if each.key == plan.key and not each.is_stub]
    return [each for each in alike if not _between(held, plan, each.begin)]


def _between(held: KeywordItems, plan: Plan, other: str) -> bool:
    """Return whether a SINGLE keyword has another value between the begin of a plan and a time."""
    first, last = sorted((plan.begin, other))
    return plan.fact["type"] == "SINGLE" and any(
        each.key != plan.key and first < each.begin < last for each in held.plans or ()
    )
