"""The reads of a ledger: its current items as facts, and what has changed.

Every read gets the time as an argument and begins with `at`: the items by keyword, with copies of
those keywords whose plans have begun since the last entry. So time passes without changing the
ledger. A version counts what can change a read: applied entries, expiries and begins. What lies
between two versions is in the change log and in the lists of expiries and begins.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from operator import itemgetter
from typing import Any

from factmem._concurrency.threads import paused_collection
from factmem.ledger._items import (
    ChangeLog,
    Condition,
    Item,
    KeywordItems,
    Touched,
    name_of,
    retraction_name,
    values_of,
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
from factmem.ledger.entries import ForgottenItem, RetractedValue, StoredFact, source_of
from factmem.models._values import Canonical, canonical
from factmem.models.actors import NOBODY, By
from factmem.models.facts import AnyFact, Concept, FactSource, FactType, L
from factmem.models.when import moment


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
        """Return whether there are at most so many items; quick for any number."""
        return len(self._by_keyword) <= most and len(self) <= most

    def __len__(self) -> int:
        """The number of items, expired ones included."""
        # A list is made in one step, so that views can count without their lock.
        return sum(len(held) for held in list(self._by_keyword.values()))
