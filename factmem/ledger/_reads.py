"""The reads of a ledger: its current items as facts, and what has changed.

Every read gets the time as an argument and begins with `at`: the items by keyword, with copies of
the keywords that have plans which began after the last entry. So time passes without changing the
ledger. A version counts what can change a read: applied entries, expiries and begins of plans. The
difference of two versions is in the change log and in the lists of expiries and begins.

A load of a large place spends most of its time in the conversion of current values to facts. Facts
are therefore made without validation, and the usual case, a keyword with one string, has a shorter
way.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import count
from operator import attrgetter, itemgetter
from typing import Any

from factmem._concurrency import paused_collection
from factmem.errors import StoredFactError
from factmem.ledger._items import (
    NO_SOURCE,
    ChangeLog,
    Condition,
    Item,
    KeywordItems,
    Touched,
    name_of,
    retraction_name,
    values_of,
)
from factmem.ledger.entries import ForgottenItem, RetractedValue, StoredFact, source_of
from factmem.models._values import Canonical, canonical, json_type
from factmem.models.facts import (
    NO_METADATA,
    AnyFact,
    Concept,
    FactSource,
    FactState,
    FactType,
    L,
    Metadata,
    MultipleFacts,
    SingleFact,
    stored_concept,
    stored_single,
)
from factmem.models.places import NOBODY, By
from factmem.models.when import moment, stamp, when_of


def all_presented(
    by_keyword: dict[str, KeywordItems], named: dict[str, Concept[Any, Any]], now: str
) -> list[AnyFact]:
    """Return all current facts of all keywords, by the order of their oldest current values."""
    facts: list[AnyFact] = []
    order: list[int] = []
    former = {old: each for each in named.values() for old in each.was if old not in named}
    for keyword, held in by_keyword.items():
        only = held.only
        if only is not None and only.ends_at is None and held.fact_type == "SINGLE" and not named:
            # Nearly all keywords of a large place: a faster way to the same result.
            text = str if type(only.value) is str else json_type()
            concept = stored_concept(keyword, held.description, FactType.SINGLE, text)
            facts.append(single(concept, only))
            order.append(only.number)
            continue
        declared = named.get(keyword) or former.get(keyword)
        if declared is not None and declared.was:
            if keyword != next(each for each in declared.keywords if each in by_keyword):
                continue  # its items are in the facts of the concept's first keyword
            items = items_of(by_keyword, declared, now)
        else:
            items = held.alive(now)
        if not items:
            continue
        concept = declared or concept_of(keyword, held, items)
        found = as_far_as_readable(concept, items)
        facts += found
        order += [items[0].number] * len(found)
    if order != sorted(order):
        places = sorted(range(len(order)), key=order.__getitem__)
        facts = [facts[place] for place in places]
    return facts


def facts_of(
    by_keyword: dict[str, KeywordItems],
    keywords: Iterable[str],
    concepts: Iterable[Concept[Any, Any]],
    now: str,
) -> list[AnyFact]:
    """Return the current facts of some keywords, as a load of all facts returns them."""
    held = {each: by_keyword[each] for each in keywords if each in by_keyword}
    return all_presented(held, {each.keyword: each for each in concepts}, now)


def found_fact(
    by_keyword: dict[str, KeywordItems],
    fact_id: str,
    concepts: Iterable[Concept[Any, Any]],
    now: str,
) -> list[AnyFact]:
    """Return the current fact with an id, without building the others; empty if there is none."""
    known = list(concepts)
    for keyword, held in by_keyword.items():
        only = held.only
        if only is not None and only.fact_id != fact_id:
            continue  # nearly all
        if any(item.fact_id == fact_id for item in held.items.values()):
            named = [each for each in known if keyword in each.keywords]
            family = named[0].keywords if named else (keyword,)
            facts = facts_of(by_keyword, family, named[:1], now)
            if found := [fact for fact in facts if fact.id == fact_id]:
                return found
    return []


def items_of(
    by_keyword: dict[str, KeywordItems], concept: Concept[Any, Any], now: str
) -> list[Item]:
    """Return the current items of a concept, under its keyword or a former one, oldest first.

    Of a SINGLE concept only the item that was said last can be current, even if it has ended.
    """
    every = in_order_of_statement(by_keyword, concept.keywords)
    if concept.fact_type is FactType.SINGLE:
        return [item for _, _, item in every[-1:] if item.is_alive(now)]
    alive = {key: item for _, key, item in every if item.is_alive(now)}  # the last of equal values
    return sorted(alive.values(), key=attrgetter("number"))


def in_order_of_statement(
    by_keyword: dict[str, KeywordItems], keywords: Iterable[str]
) -> list[tuple[str, Canonical, Item]]:
    """Return the items of several keywords as they were said, each with keyword and key."""
    every = [
        (keyword, key, item)
        for keyword in keywords
        if (held := by_keyword.get(keyword)) is not None
        for key, item in held.items.items()
    ]
    order = _order([item for _, _, item in every])
    return sorted(every, key=lambda each: order(each[2]))


def _order(items: Iterable[Item]) -> Callable[[Item], tuple[object, ...]]:
    """Return the sort key of items: when they were said, models first if a person confirmed one."""
    is_decided = any(item.state == "confirmed" and item.expires_at is None for item in items)
    return _decided if is_decided else _said


def _said(item: Item) -> tuple[object, ...]:
    return *item.last, item.number


def _decided(item: Item) -> tuple[object, ...]:
    # A model's repetition does not make a value of the application newer.
    said = item.said if item.state == "confirmed" else stamp(item.timestamp)
    return item.state != "learnt", said, item.number


def last_said(items: list[Item]) -> Item:
    """Return the item said last; what a model said does not replace a confirmed one."""
    return items[0] if len(items) == 1 else max(items, key=_order(items))


def concept_of(keyword: str, held: KeywordItems, items: list[Item]) -> Concept[Any, Any]:
    """Return a concept for values of unknown type: strings, or any JSON."""
    fact_type = FactType.SINGLE if held.fact_type == "SINGLE" else FactType.MULTIPLE
    return json_concept(keyword, held.description, fact_type, items)


def json_concept(
    keyword: str, description: str, fact_type: FactType, items: Iterable[Item]
) -> Concept[Any, Any]:
    """Return a concept of strings, or of any JSON if some item is no string."""
    is_all_text = True
    for item in items:
        if type(item.value) is not str:
            is_all_text = False
            break
    value_type = str if is_all_text else json_type()
    return stored_concept(keyword, description, fact_type, value_type)


def loaded(
    by_keyword: dict[str, KeywordItems], concept: Concept[Any, Any], now: str
) -> list[AnyFact]:
    """Return the current facts of a concept; `StoredFactError` if a value does not fit its type."""
    if concept.was:
        return presented(concept, items_of(by_keyword, concept, now))
    held = by_keyword.get(concept.keyword)
    if held is None:
        return []
    item = held.only
    if item is None or item.ends_at is not None or concept.fact_type is not FactType.SINGLE:
        return presented(concept, held.alive(now))
    return [single(concept, item)]  # nearly always


def all_changed(
    by_keyword: dict[str, KeywordItems],
    touched: dict[str, Touched],
    named: dict[str, Concept[Any, Any]],
    now: str,
) -> dict[str, list[AnyFact | str]]:
    """Return the facts of each keyword that changed; unchanged facts as their ids."""
    former = {old: each for each in named.values() for old in each.was if old not in named}
    found: dict[str, list[AnyFact | str]] = {}
    for keyword, each in touched.items():
        concept = named.get(keyword) or former.get(keyword)
        if concept is None or not concept.was:
            found[keyword] = _changed(keyword, by_keyword[keyword], each, concept, now)
        else:
            found[concept.keyword] = [*presented(concept, items_of(by_keyword, concept, now))]
    return found


def _changed(
    keyword: str, held: KeywordItems, touched: Touched, named: Concept[Any, Any] | None, now: str
) -> list[AnyFact | str]:
    items: list[Item] = []
    for item in held.items.values():
        if item.is_alive(now):
            items.append(item)
        else:
            touched.ids.add(item.fact_id)
            touched.is_text &= type(item.value) is str
    concept = named or concept_of(keyword, held, items)
    is_whole = touched.is_whole or not (named or touched.is_text)
    if is_whole or concept.fact_type is FactType.SINGLE:
        return [*presented(concept, items)]
    ids = touched.ids
    new = {fact.id: fact for fact in presented(concept, [i for i in items if i.fact_id in ids])}
    return [new.get(each, each) for each in dict.fromkeys([item.fact_id for item in items])]


def presented(concept: Concept[Any, Any], items: list[Item]) -> list[AnyFact]:
    if not items:
        return []
    if concept.fact_type is FactType.SINGLE:
        return [single(concept, last_said(items))]
    saves: dict[str, list[Item]] = {}
    for item in items:
        saves.setdefault(item.fact_id, []).append(item)
    return [_multiple(concept, save) for save in saves.values()]


def as_far_as_readable(concept: Concept[Any, Any], items: list[Item]) -> list[AnyFact]:
    """Return items as facts; values that do not fit the concept's type as facts of plain JSON."""
    try:
        return presented(concept, items)
    except StoredFactError:
        pass
    current = [last_said(items)] if concept.fact_type is FactType.SINGLE else items
    misfits = [item for item in current if not _fits(concept, item)]
    readable = [item for item in current if item not in misfits]
    return [*presented(concept, readable), *presented(as_plain(concept), misfits)]


def as_plain(concept: Concept[Any, Any]) -> Concept[Any, Any]:
    """Return a concept whose values are plain JSON, as stored."""
    return stored_concept(concept.keyword, concept.description, concept.fact_type, json_type())


def is_misfit(fact: AnyFact, declared: Concept[Any, Any] | None) -> bool:
    """Return whether a store returned a fact as plain JSON, because it does not fit its type."""
    return declared is not None and fact.concept.value_type != declared.value_type


def misfit_of(fact: AnyFact, declared: Concept[Any, Any]) -> StoredFactError:
    reason: object = "does not fit its type"
    for value in fact.values:
        try:
            declared.codec.load(value)
        except ValueError as exc:
            reason = exc
    return _misfit(declared.keyword, reason)


def _misfit(keyword: str, reason: object) -> StoredFactError:
    return StoredFactError(
        f"A stored value of {keyword!r} {reason}; it stays stored as it is. Load it with "
        f"the value_type it was saved with, or with load_all, which gives plain JSON"
    )


def _fits(concept: Concept[Any, Any], item: Item) -> bool:
    try:
        _value(concept, item)
    except StoredFactError:
        return False
    return True


_STATES = {
    "saved": FactState.STATED,
    "learnt": FactState.STATED,
    "confirmed": FactState.CONFIRMED,
    "proposed": FactState.PROPOSED,
}


def single(concept: Concept[Any, Any], item: Item) -> SingleFact[Any]:
    value, expires_at = item.value, item.expires_at
    return stored_single(
        concept,
        value if type(value) is str and concept.value_type is str else _value(concept, item),
        item.fact_id,
        item.timestamp,
        _confirmation(item.confirmed_at),
        item.importance,
        None if expires_at is None else moment(expires_at),
        None if item.sources is NO_SOURCE else source_of(item.sources[0]),
        _metadata(item) if item.metadata else NO_METADATA,
        None if item.since is None else when_of(item.since),
        None if item.until is None else when_of(item.until),
        _STATES[item.state],
        *item.by,
    )


@lru_cache(maxsize=16)
def _confirmation(at: str) -> datetime:
    """Return the time of a confirmation: one object for all values that were saved together."""
    return moment(at)


def _multiple(concept: Concept[Any, Any], items: list[Item]) -> MultipleFacts[Any]:
    """Return the remaining values of one save as a fact.

    If its items were confirmed at different times, it has the greatest importance, the earliest
    expiry, and the latest confirmation with its metadata. It is confirmed if all of them are.
    """
    first = last = items[0]
    importance, expires_at = first.importance, first.expires_at
    if len(items) > 1:
        last = max(items, key=_confirmed_at)
        importance = max([item.importance for item in items])
        expiries = [item.expires_at for item in items if item.expires_at is not None]
        expires_at = min(expiries, default=None)
    fact: MultipleFacts[Any] = _new(MultipleFacts)
    _put(fact, "concept", concept)
    _put(fact, "values", tuple([_value(concept, item) for item in items]))
    _put(fact, "timestamp", first.timestamp)
    _put(fact, "importance", importance)
    _put(fact, "source", source_of(first.sources[0]))
    _put(fact, "expires_at", None if expires_at is None else moment(expires_at))
    _put(fact, "since", None if last.since is None else when_of(last.since))
    _put(fact, "until", None if last.until is None else when_of(last.until))
    _put(fact, "id", first.fact_id)
    _put(fact, "metadata", _metadata(last))
    _put(fact, "confirmed_at", moment(last.confirmed_at))
    states = {item.state for item in items}
    _put(fact, "state", _STATES[first.state] if len(states) == 1 else FactState.STATED)
    _put(fact, "actor", last.by.actor)
    _put(fact, "reason", last.by.reason)
    return fact


def restated(item: Item, keyword: str, description: str, *, is_single: bool) -> StoredFact:
    """Return a save that states an item again, in its own words and without a source."""
    fact: StoredFact = {
        "id": item.fact_id,
        "keyword": keyword,
        "description": description,
        "type": "SINGLE" if is_single else "MULTIPLE",
        "timestamp": stamp(item.timestamp),
        "importance": item.importance,
        "actor": item.by.actor or "",
    }
    if is_single:
        fact["value"] = item.value
    else:
        fact["values"] = [item.value]
    given: Any = {
        "expires_at": item.expires_at,
        "since": item.since,
        "until": item.until,
        "metadata": item.metadata,
        "reason": item.by.reason,
        "confirmed": item.state == "confirmed" or None,
    }
    more: Any = {name: each for name, each in given.items() if each is not None}
    fact.update(more)
    return fact


_confirmed_at = attrgetter("confirmed_at")


def _metadata(item: Item) -> Metadata:
    if not item.metadata:
        return NO_METADATA
    return Metadata(deepcopy(item.metadata))  # callers may change the lists in it


_new, _put = object.__new__, object.__setattr__
"""Loaded facts were validated when they were saved, so their fields are set without validation."""


def _value(concept: Concept[Any, Any], item: Item) -> Any:
    value = item.value
    if type(value) is str and concept.value_type is str:
        return value
    try:
        return concept.codec.load(value)
    except ValueError as exc:
        raise _misfit(concept.keyword, exc) from None


@dataclass(frozen=True, slots=True)
class Proposal:
    """A value or an end of one that a model found, for a person or the application to decide."""

    fact: AnyFact
    """The proposed fact, or the current one whose end is proposed."""
    source: FactSource | None
    """Where it was said; of an end without its words."""
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
    """Return all proposals; values that do not fit a type are plain JSON."""
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
        """Return the items by keyword, read-only, with the plans that have begun at `now`."""
        if self._begun == len(self._begins) or self._begins[self._begun][0] > now:
            return self._by_keyword
        return self._ahead(now)

    def _ahead(self, now: str) -> dict[str, KeywordItems]:
        raise NotImplementedError

    def planned(self, now: str) -> list[AnyFact]:
        """Return the values that begin after `now`, the first one first, as plain JSON."""
        plans = [(plan, held) for held in self.at(now).values() for plan in held.plans or ()]
        plans.sort(key=lambda each: (each[0].begin, each[0].said))
        return [
            fact
            for plan, held in plans
            if plan.item.is_alive(now) and not plan.is_stub
            for fact in presented(concept_of(plan.fact["keyword"], held, [plan.item]), [plan.item])
        ]

    def matching(self, condition: Condition, now: str) -> list[ForgottenItem]:
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
        """Return all proposals, the oldest of each keyword first."""
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
        """Return the facts of a concept; `StoredFactError` if a value does not fit its type."""
        by_keyword = self.at(now) if self._begins else self._by_keyword  # no call per load
        facts: list[Any] = loaded(by_keyword, concept, now)
        return facts

    def load_all(self, concepts: Iterable[Concept[Any, Any]], now: str) -> list[AnyFact]:
        """Return all current facts, each keyword in the type it was last saved with.

        Keywords are in the order of their oldest current values. Values are plain JSON, except for
        the keywords of `concepts`, whose facts are those of `load`.
        """
        named = {concept.keyword: concept for concept in concepts}
        with paused_collection(len(self._by_keyword)):
            return all_presented(self.at(now), named, now)

    def version(self, now: str) -> str:
        """Return a string that changes with `load_all`, unique to this ledger and process."""
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
        """
        # Another serial is another ledger, as after an edit of the log or in another process.
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
        """Return whether there are at most `most` items; fast for any number."""
        return len(self._by_keyword) <= most and len(self) <= most

    def __len__(self) -> int:
        """The number of items, expired ones included."""
        # A list is made in one step, so that views can count without their lock.
        return sum(len(held) for held in list(self._by_keyword.values()))
