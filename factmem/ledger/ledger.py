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

Which values of a save are already superseded when it is recorded.

Proposals: values and endings that wait for a decision, beside the current values of a keyword.

What a model learns never changes what a person confirmed. `waiting` decides which values of a save
are proposals; the rule is applied whenever a ledger is folded, so that no write can come in between.

Proposals of a place: what models found and a person or the application has to decide.

The reading half of a ledger: its current items, as facts, and what has changed.

Reads of current values get the time as an argument and begin with `at`: the items, with copies of
keywords whose plans have begun since the last entry. So time passes without changing the ledger.
A version counts what can change a read: applied entries, expiries and begins; what lies between two
of them is in the change log and in the lists of both. `LedgerReads` is the base of
`PlanningLedger`, that of `Ledger`.

Plans: values that begin later, beside the current values of a keyword.

The class stands between `LedgerReads` and `Ledger`, and calls the methods of `Ledger` as hooks.
`Ledger.apply` calls `advance` before each entry, so that a plan begins in its place among the
entries, whenever they are read. A read after the last entry must not do that, or the ledger would
depend on who has read it: `_ahead` applies what has begun to copies. A begin stays in `_begins`
when its plan is cancelled; there is nothing to apply then.

KeywordSearch: folds only the entries of one keyword.
"""

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from operator import itemgetter
from typing import Any, NamedTuple

from factmem._concurrency.garbage import paused_collection
from factmem.ledger._items import (
    ChangeLog,
    Condition,
    Item,
    KeywordItems,
    Plan,
    Proposals,
    Retractions,
    Told,
    Touched,
    digest_of,
    last_ended,
    name_of,
    retraction_name,
    told,
    values_of,
    with_values,
)
from factmem.ledger._presentation import (
    all_changed,
    all_presented,
    as_far_as_readable,
    concept_of,
    in_order_of_statement,
    loaded,
    presented,
)
from factmem.ledger.entries import (
    Entry,
    ForgottenItem,
    RetractedValue,
    StoredFact,
    by_of,
    source_of,
)
from factmem.models._values import Canonical, JsonValue, canonical
from factmem.models.facts import NOBODY, AnyFact, By, Concept, FactSource, FactType, L
from factmem.models.when import begin_of, end_of, moment

__all__ = ["Ledger", "Proposal"]


def outdated(held: KeywordItems | None, fact: StoredFact, at: str) -> Collection[int]:
    """Return the positions of the values of a save that later statements supersede."""
    marked = fact.get("superseded", ())
    if held is None:
        return marked
    place = told(fact, at)
    is_single, retractions = fact["type"] == "SINGLE" and not held.is_wide(at), held.retractions
    found: set[int] = set()
    for position, value in values_of(fact):
        key = canonical(value)
        if (
            position in marked
            or (retractions is not None and retractions.has_ended(place, key))
            or (is_single and retractions is not None and place < retractions.floor)
            or (is_single and _has_later(held, key, place, at))
            or _is_of_the_past(held.get(key), fact, place, at)
        ):
            found.add(position)
    return found


def _is_of_the_past(item: Item | None, fact: StoredFact, place: Told, at: str) -> bool:
    """Return whether a value had ended when it was said, and is not the end of the current one."""
    if "until" not in fact:
        return False
    end = end_of(fact["until"])
    return end <= place[0] and (item is None or not item.is_alive(at) or end <= item.holds_from)


def _has_later(held: KeywordItems, key: Canonical, place: Told, at: str) -> bool:
    return any(
        item.last > place and other != key and item.is_alive(at)
        for other, item in held.items.items()
    )


def is_of_one_value(held: KeywordItems | None, fact: StoredFact, at: str) -> bool:
    """Return whether a model states many values of a keyword with one confirmed value.

    It keeps its one value. Without a confirmed one it may become MULTIPLE: what a model wrote first
    may have been wrong.
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

    Those that the save proposes, and those of a statement that would replace or double a confirmed
    value of a keyword with one, or that a person has rejected. A value that is current is never a
    proposal.

    Args:
        held: The items of the keyword.
        fact: The save.
        at: When it is recorded.
        past: The positions that are superseded.
    """
    marked: Collection[int] = fact.get("proposed", ())
    if held is None or not ("stated" in fact or marked):
        return marked
    is_single = fact["type"] == "SINGLE" or held.fact_type == "SINGLE"
    is_guarded = is_single and any(item.state == "confirmed" for item in held.alive(at))
    if "stated" not in fact:
        is_guarded = False
    retractions = held.retractions
    if not (marked or is_guarded or (retractions is not None and retractions.rejected)):
        return ()
    found: list[int] = []
    for position, value in values_of(fact):
        key = canonical(value)
        item = held.get(key)
        if position in past or (item is not None and item.is_alive(at)):
            continue
        is_rejected = retractions is not None and digest_of(key) in retractions.rejected
        if position in marked or is_guarded or is_rejected:
            found.append(position)
    return found


def is_contested(item: Item, retracted: RetractedValue, at: str) -> bool:
    """Return whether a retraction of a current value waits for a decision."""
    if "confirmed" in retracted or item.last > last_ended(retracted, at):
        return False
    return item.state == "confirmed" or "proposed" in retracted


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a model found, and a person or the application has to decide."""

    fact: AnyFact
    """The proposed fact, or the current one whose end is proposed."""
    source: FactSource | None
    """Where it was said; for an end without the words."""
    actor: str | None
    """Who proposes it."""
    current: AnyFact | None = None
    """The current fact that it contradicts; None if it contradicts none."""
    is_ending: bool = False
    """Whether it says that `current` is no longer true."""
    proposed_at: datetime | None = None


def proposed(
    by_keyword: dict[str, KeywordItems], named: dict[str, Concept[Any, Any]], now: str
) -> list[Proposal]:
    """Return what waits for a decision; values that do not fit a type are plain JSON."""
    found: list[Proposal] = []
    for keyword, held in by_keyword.items():
        if not held.proposals:
            continue
        alive = held.alive(now)
        waits = [item for item in held.proposals.values.values() if item.is_alive(now)]
        concept = named.get(keyword) or concept_of(keyword, held, [*alive, *waits])
        current = None
        if concept.fact_type is FactType.SINGLE and alive:
            current = as_far_as_readable(concept, alive)[0]
        for item in waits:
            (fact,) = as_far_as_readable(concept, [item])
            when = moment(item.confirmed_at)
            found.append(Proposal(fact, fact.source, item.by.actor, current, proposed_at=when))
        for key, (retracted, at, by) in held.proposals.endings.items():
            ending = held.get(key)
            if ending is not None and ending.is_alive(now):
                (fact,) = as_far_as_readable(concept, [ending])
                source = source_of(retracted.get("source"))
                found.append(Proposal(fact, source, by.actor, fact, True, moment(at)))
    return found


NONE_LATE: deque[str] = deque(maxlen=0)

_serials = count(1)
_moment = itemgetter(0)


class LedgerReads:
    """The reads of a `Ledger`, which fills it."""

    def __init__(self) -> None:
        self.recorded_at: str = ""
        """When the last entry was recorded; empty before the first."""
        self.may_expire: bool = False
        """Whether any value ever had an expiry; if not, reading does not need the time."""
        self._by_keyword: dict[str, KeywordItems] = {}
        self._number = 0
        self._texts: dict[str, str] = {}
        self._passed: dict[str, str] = {}
        """The last descriptions of keywords that came with superseded statements."""
        self._late: deque[str] = NONE_LATE
        """The latest superseded statements, for the callers that just recorded them."""
        self._by: By = NOBODY
        """Who made the entry that is applied."""
        self._is_undoing: bool = False
        """Whether it restores what was said before."""
        self._serial = next(_serials)
        self._applied = 0
        self._expiries: list[tuple[str, str]] = []
        """The expiries of values, in order, each with its keyword."""
        self._begins: list[tuple[str, str]] = []
        """When values begin that were planned, in order, each with its keyword."""
        self._begun: int = 0
        """How many of them are applied."""
        self._copies: tuple[tuple[int, int], dict[str, KeywordItems]] = (0, 0), {}
        """The last result of `_ahead`, with what it depends on."""
        self._log: ChangeLog | None = None
        """Created by the first call of `version`: it costs time, and few callers need it."""

    def at(self, now: str) -> dict[str, KeywordItems]:
        """Return the items by keyword, with the planned values that have begun at `now`: read-only."""
        if self._begun == len(self._begins) or self._begins[self._begun][0] > now:
            return self._by_keyword
        return self._ahead(now)

    def _ahead(self, now: str) -> dict[str, KeywordItems]:
        raise NotImplementedError

    def planned(self, now: str) -> list[AnyFact]:
        """Return the values that begin after `now`, the first to begin first; values as plain JSON."""
        plans = [(plan, held) for held in self.at(now).values() for plan in held.plans or ()]
        plans.sort(key=lambda each: (each[0].begin, each[0].said))
        return [
            fact
            for plan, held in plans
            if plan.item.is_alive(now) and not plan.is_stub
            for fact in presented(concept_of(plan.fact["keyword"], held, [plan.item]), [plan.item])
        ]

    def matching(self, condition: Condition, now: str) -> list[ForgottenItem]:
        """Return the current items that meet a condition."""
        by_keyword = self.at(now)
        if condition.keyword is not None:
            held = by_keyword.get(condition.keyword)
            by_keyword = {} if held is None else {condition.keyword: held}
        found = [
            name_of(keyword, item)
            for keyword, held in by_keyword.items()
            for key, item in held.all_items()
            if item.is_alive(now) and condition.is_met_by(keyword, key, item)
        ]
        is_wide = any(self.is_wide(each, now) for each in condition.keywords or ())
        if found and condition.is_single and not is_wide:
            family = in_order_of_statement(by_keyword, condition.keywords or ())
            names = [name_of(keyword, item) for keyword, _, item in family]
            return [*dict.fromkeys([*names, *found])] if names[-1] in found else found
        return found

    def knows(self, keywords: Iterable[str]) -> bool:
        """Return whether something was ever said of one of these keywords."""
        return any(each in self._by_keyword or each in self._passed for each in keywords)

    def is_wide(self, keyword: str, now: str) -> bool:
        """Return whether also a SINGLE save adds to the values of a keyword."""
        held = self.at(now).get(keyword)
        return held is not None and held.is_wide(now)

    def is_superseded(self, fact: StoredFact) -> bool:
        """Return whether all values of a recent statement were superseded at once."""
        return fact["id"] in self._late

    def is_refused(self, retracted: RetractedValue) -> bool:
        """Return whether a recent retraction had no effect, as its value was said later."""
        return retraction_name(retracted) in self._late

    def is_proposed(self, fact: StoredFact) -> bool:
        """Return whether a value of a fact waits for a decision."""
        held = self._by_keyword.get(fact["keyword"])
        if held is None or not held.proposals:
            return False
        return any(canonical(value) in held.proposals.values for _, value in values_of(fact))

    def is_disputed(self, retracted: RetractedValue) -> bool:
        """Return whether the end of a value waits for a decision."""
        held = self._by_keyword.get(retracted["keyword"])
        if held is None or not held.proposals:
            return False
        return held.digested(retracted.get("digest", "")) in held.proposals.endings

    def proposals(self, concepts: Iterable[Concept[Any, Any]], now: str) -> list[Proposal]:
        """Return what waits for a decision, the oldest of each keyword first."""
        named = {keyword: each for each in concepts for keyword in each.keywords}
        return proposed(self.at(now), named, now)

    def items(self, keyword: str, now: str) -> dict[Canonical, Item]:
        """Return the current items of a keyword, oldest first, by the canonical form of values."""
        held = self.at(now).get(keyword)
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
        by_keyword = self.at(now) if self._begins else self._by_keyword  # no call per load
        facts: list[Any] = loaded(by_keyword, concept, now)
        return facts

    def load_all(self, concepts: Iterable[Concept[Any, Any]], now: str) -> list[AnyFact]:
        """Return all current facts, each keyword in the type it was last saved with.

        Keywords are in the order of their oldest current values. Values are plain JSON, except for the
        keywords of `concepts`, whose facts are those of `load`.
        """
        named = {concept.keyword: concept for concept in concepts}
        with paused_collection(len(self._by_keyword)):
            return all_presented(self.at(now), named, now)

    def version(self, now: str) -> str:
        """Return a token that changes whenever the result of `load_all` may change.

        Valid within this process, and unique to this ledger.
        """
        if self._log is None:
            self._log = ChangeLog(self._applied)
        return f"{self._serial}.{self._applied}.{self._expired(now)}.{self._begun_by(now)}"

    def _expired(self, now: str) -> int:
        return bisect_right(self._expiries, now, key=_moment)

    def next_begin(self, now: str) -> str | None:
        """Return when the next planned value begins after `now`, if there may be one; a stamp."""
        later = self._begins[self._begun_by(now) :][:1]
        return later[0][0] if later else None

    def begun(self, now: str) -> set[str]:
        """Return the keywords that had planned values which have begun at `now`."""
        return {keyword for _, keyword in self._begins[: self._begun_by(now)]}

    def _begun_by(self, now: str) -> int:
        return bisect_right(self._begins, now, key=_moment)

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
        applied, expired, begun = map(int, rest.split("."))
        touched, gone = self._log.since(applied), self._expiries[expired : self._expired(now)]
        if touched is None or expired > self._expired(now) or begun > self._begun_by(now):
            return None
        for _, keyword in gone:
            touched.setdefault(keyword, Touched())
        for _, keyword in self._begins[begun : self._begun_by(now)]:
            touched.setdefault(keyword, Touched()).is_whole = True
        named = {concept.keyword: concept for concept in concepts}
        return all_changed(self.at(now), touched, named, now)

    def confirmations(self, now: str) -> list[str]:
        """Return when each current value was last confirmed, as stamps in no order."""
        return [
            item.confirmed_at
            for held in self.at(now).values()
            for item in held.items.values()
            if item.is_alive(now)
        ]

    def keywords(self, now: str) -> list[str]:
        """Return the keywords with a current value, sorted."""
        return sorted(keyword for keyword, held in self.at(now).items() if held.alive(now))

    def is_small(self, most: int) -> bool:
        """Return whether there are at most so many items; quick for any number."""
        return len(self._by_keyword) <= most and len(self) <= most

    def __len__(self) -> int:
        """The number of items, expired ones included."""
        # A list is made in one step, so that views can count without their lock.
        return sum(len(held) for held in list(self._by_keyword.values()))


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
            self._note_expiry(end_of(fact["until"]), fact["keyword"])

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


class KeywordSearch:
    """Folds the parts of entries that concern a keyword.

    Args:
        keyword: The keyword.
    """

    def __init__(self, keyword: str) -> None:
        self._keyword = keyword
        self._ledger = Ledger()

    def take(self, entries: Iterable[Entry]) -> None:
        """Apply the next entries, in order; parts about other keywords are ignored."""
        keyword, ledger = self._keyword, self._ledger
        for entry in entries:
            facts = [fact for fact in entry.get("facts", ()) if fact["keyword"] == keyword]
            forget = [name for name in entry.get("forget", ()) if name[0] == keyword]
            retract = [each for each in entry.get("retract", ()) if each["keyword"] == keyword]
            if facts or forget or retract:
                part: Entry = {**entry, "facts": facts, "forget": forget}
                ledger.apply({**part, "retract": retract})
            ledger.recorded_at = max(ledger.recorded_at, entry["at"])

    def ledger(self) -> Ledger:
        """Return a ledger of this keyword only."""
        return self._ledger
