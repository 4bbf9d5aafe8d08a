"""Random ledgers for Hypothesis, and a naive model of their current facts."""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from pydantic import JsonValue

from factmem.ledger._items import Condition, digest_of, name_of
from factmem.ledger.entries import (
    Entry,
    ForgottenItem,
    RetractedValue,
    SourceEntry,
    StoredFact,
    source_of,
)
from factmem.ledger.ledger import Ledger
from factmem.models import when as clock
from factmem.models._values import canonical
from tests.properties import examples

searched = settings(max_examples=int(os.environ.get("LEDGERS", examples(60))))
"""The settings of properties of ledgers; `LEDGERS=5000` looks harder."""

KEYWORDS = ["theme", "languages"]
SOURCES: list[SourceEntry] = [
    {"kind": "user", "conversation": "chat"},
    {"kind": "user", "conversation": "mail"},
    {"kind": "tool", "quote": "said a and 1"},
]


def stamp(second: int) -> str:
    """The time of one of the first hundred seconds."""
    return f"2001-02-03T04:{second // 60:02d}:{second % 60:02d}.000000Z"


def saved(
    *values: Any, fact_id: str = "one", kind: str = "MULTIPLE", keyword: str = "k", **more: Any
) -> Any:
    """Return a stored fact; without values it is one whose values were all purged."""
    fact: dict[str, Any] = {"id": fact_id, "keyword": keyword, "type": kind}
    fact |= {"description": f"About {keyword}", "timestamp": stamp(0)}
    if values:
        fact |= {"value": values[0]} if kind == "SINGLE" else {"values": list(values)}
    return fact | more


def forgotten(value: Any, fact_id: str = "one", keyword: str = "k") -> ForgottenItem:
    """Return the name of an item, as a forgetting has it."""
    return keyword, fact_id, digest_of(canonical(value))


def entry(second: int, *facts: Any) -> Entry:
    """An entry that saves facts."""
    return {"at": stamp(second), "facts": list(facts)}


@dataclass
class Step:
    """A save, or a removal with its condition, and the resulting entry."""

    entry: Entry
    condition: Condition | None = None
    retracts: list[tuple[str, JsonValue]] = field(default_factory=list)


seconds = st.integers(0, 90)
VALUES: list[JsonValue] = ["a", "b", "c", 1, True, 1.0, [1, "a"], {"x": 1, "y": 2}, 2**70, None]
values = st.sampled_from(VALUES)


ids = st.sampled_from(["one", "two", "three", *(f"id-{number}" for number in range(12))])
topics = st.sampled_from([(word, text) for word in KEYWORDS for text in ("Old", "New", "")])
extras = st.sampled_from(
    [
        {**importance, **source}
        for importance in ({}, {"importance": 0.0}, {"importance": 0.7}, {"importance": 1.0})
        for source in ({}, *({"source": source} for source in SOURCES))
    ]
)
expiries = st.none() | st.none() | seconds


@st.composite
def facts(draw: st.DrawFn) -> StoredFact:
    """Draw a fact; ids repeat, as they do if facts are copied with `replace`."""
    (keyword, description), expires = draw(topics), draw(expiries)
    found = draw(st.lists(values, min_size=1, max_size=3))
    fact: Any = {"id": draw(ids), "keyword": keyword, "description": description}
    fact |= {"type": "MULTIPLE", "timestamp": stamp(len(found) + len(str(found)) % 60)}
    fact |= {"values": found} | draw(extras)
    if draw(st.booleans()):
        fact |= {"type": "SINGLE", "value": fact.pop("values")[0]}
    if draw(st.booleans()):
        fact |= {"stated": True, "timestamp": stamp(draw(seconds))}
    elif draw(st.integers(0, 3)) == 0:
        fact["confirmed"] = True
    if "confirmed" not in fact and draw(st.integers(0, 7)) == 0:
        fact["proposed"] = [*range(1 if "value" in fact else len(found))]
    if expires is not None:
        fact["expires_at"] = stamp(expires)
    drawn: StoredFact = fact
    return drawn


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    """Draw a condition of at least one part."""
    parts: dict[str, Any] = {
        "keyword": draw(st.sampled_from(KEYWORDS)),
        "key": draw(values.map(canonical)),
        "fact_ids": frozenset([draw(st.sampled_from(["one", "two", "three"]))]),
        "source": draw(st.sampled_from([source_of(each) for each in SOURCES])),
        "older_than": stamp(draw(seconds)),
    }
    chosen = draw(st.sets(st.sampled_from(sorted(parts)), min_size=1, max_size=3))
    if "key" in chosen:
        chosen.add("keyword")
    return Condition(**{name: parts[name] for name in chosen})


@st.composite
def ledgers(draw: st.DrawFn, max_size: int = 10) -> list[Step]:
    """Draw the operations on a place, with a clock that is sometimes set back."""
    ledger, second, steps = Ledger(), 20, list[Step]()
    for kind in draw(st.lists(st.sampled_from("ssssfr"), min_size=1, max_size=max_size)):
        second = min(90, max(0, second + draw(st.integers(-6, 12))))
        at = stamp(second)
        if kind == "s":
            entry: Entry = {"at": at, "facts": draw(st.lists(facts(), min_size=1, max_size=2))}
            step = Step(entry)
        elif kind == "r":
            keyword, value = draw(st.sampled_from(KEYWORDS)), draw(values)
            retracted: RetractedValue = {
                "keyword": keyword,
                "timestamp": stamp(draw(seconds)),
                "id": draw(ids),
                "digest": digest_of(canonical(value)),
            }
            if draw(st.integers(0, 3)) == 0:
                retracted["confirmed"] = True
            step = Step({"at": at, "retract": [retracted]}, retracts=[(keyword, value)])
        else:
            condition = draw(conditions())
            now = max(at, ledger.recorded_at)
            step = Step({"at": at, "forget": ledger.matching(condition, now)}, condition)
        ledger.apply(step.entry)
        steps.append(step)
    return steps


def moments(entries: Iterable[Entry], since: str = "") -> list[str]:
    """Return every time at which something may change in a ledger, and the first and last time."""
    found = {since or stamp(0), stamp(99)}
    for each in entries:
        found.add(each["at"])
        found.update(fact["expires_at"] for fact in each.get("facts", ()) if "expires_at" in fact)
    return sorted(then for then in found if then >= since)


def entries_of(steps: Iterable[Step]) -> list[Entry]:
    """Return only the entries."""
    return [step.entry for step in steps]


def shown(ledger: Ledger, now: str) -> list[tuple[Any, ...]]:
    """Return every current and proposed item of a ledger with its fields, oldest first.

    The description of a proposal is that of the keyword, which may depend on removed history.
    """
    waits = [
        (keyword, topic, [item])
        for keyword, topic in ledger._by_keyword.items()
        for item in (topic.proposals.values.values() if topic.proposals else ())
        if item.is_alive(now)
    ]
    return [
        (
            keyword,
            None if item.state == "proposed" else (topic.description, topic.fact_type),
            item.value,
            item.fact_id,
            clock.stamp(item.timestamp),
            item.importance,
            item.expires_at,
            item.confirmed_at,
            list(item.sources),
            item.state,
        )
        for keyword, topic, items in _current(ledger, now) + sorted(waits, key=_place)
        for item in items
    ]


def _place(waiting: tuple[str, Any, list[Any]]) -> tuple[str, str]:
    return waiting[0], str(waiting[2][0].value)


def names(ledger: Ledger, now: str) -> list[ForgottenItem]:
    """The ids of the current items, as `forget` takes them, in the same order."""
    return [name_of(keyword, item) for keyword, _, items in _current(ledger, now) for item in items]


def last_said(ledger: Ledger, keyword: str, now: str) -> list[tuple[str, Any]]:
    """The id and value that a SINGLE concept shows: what was said last, none of an empty keyword.

    Beside a confirmed value that stays, what models said does not count.
    """
    items = [item for name, _, items in _current(ledger, now) for item in items if name == keyword]
    items.sort(key=lambda item: (item.last, item.number))
    if any(item.state == "confirmed" and item.expires_at is None for item in items):
        items = [item for item in items if item.state != "learnt"]
        first = {id(item): clock.stamp(item.timestamp) for item in items}
        first |= {id(item): item.said for item in items if item.state == "confirmed"}
        items.sort(key=lambda item: (first[id(item)], item.number))
    return [(item.fact_id, item.value) for item in items[-1:]]


def _current(ledger: Ledger, now: str) -> list[tuple[str, Any, list[Any]]]:
    topics = [
        (keyword, topic, [item for item in topic.items.values() if item.is_alive(now)])
        for keyword, topic in ledger._by_keyword.items()
    ]
    return sorted((each for each in topics if each[2]), key=lambda each: each[2][0].number)


@dataclass
class NaiveItem:
    """A current value with its fields."""

    keyword: str
    value: Any
    fact: StoredFact
    latest: StoredFact
    confirmed_at: str
    sources: list[Any] = field(default_factory=list)
    said: tuple[str, str] = ("", "")
    state: str = ""

    def __post_init__(self) -> None:
        self.state = self.state or ("learnt" if "stated" in self.fact else "saved")
        if "confirmed" in self.fact:
            self.state = "confirmed"

    def is_alive(self, now: str) -> bool:
        return "expires_at" not in self.latest or now < self.latest["expires_at"]

    def is_of(self, fact: StoredFact, value: Any) -> bool:
        return self.keyword == fact["keyword"] and _same(self.value, value)


@dataclass
class NaiveStore:
    """The rules of the design, implemented with lists and loops."""

    items: list[NaiveItem] = field(default_factory=list)
    types: dict[str, tuple[str, str]] = field(default_factory=dict)
    now: str = ""
    retracted: list[tuple[str, Any, tuple[str, str]]] = field(default_factory=list)
    floors: dict[str, tuple[str, str]] = field(default_factory=dict)
    waiting: list[NaiveItem] = field(default_factory=list)
    rejected: list[tuple[str, Any]] = field(default_factory=list)

    def run(self, steps: Iterable[Step]) -> "NaiveStore":
        for step in steps:
            self.now = max(self.now, step.entry["at"])
            self.items = [item for item in self.items if item.is_alive(self.now)]
            self.waiting = [item for item in self.waiting if item.is_alive(self.now)]
            if step.condition is not None:
                self.forget(step.condition)
            for (keyword, value), each in zip(
                step.retracts, step.entry.get("retract", ()), strict=True
            ):
                is_confirmed = "confirmed" in each
                said = min(each["timestamp"], self.now), each.get("id", "")
                self.retract(keyword, value, said, is_confirmed)
            for fact in step.entry.get("facts", ()):
                self.save(fact)
                self.items = [item for item in self.items if item.is_alive(self.now)]
                self.waiting = [item for item in self.waiting if item.is_alive(self.now)]
        return self

    def retract(self, keyword: str, value: Any, said: tuple[str, str], is_confirmed: bool) -> None:
        for item in self.items:
            is_it = item.keyword == keyword and _same(item.value, value)
            if is_it and item.state == "confirmed" and not is_confirmed and item.said <= said:
                return
        self.retracted.append((keyword, value, said))
        if is_confirmed:
            self.rejected.append((keyword, value))
        self.waiting = [
            each for each in self.waiting if each.keyword != keyword or not _same(each.value, value)
        ]
        for item in list(self.items):
            if item.keyword == keyword and _same(item.value, value) and item.said <= said:
                # Not `remove`, which treats 1.0 as 1.
                self.items = [each for each in self.items if each is not item]
                if self.types[keyword][1] == "SINGLE":
                    self.floors[keyword] = max(self.floors.get(keyword, ("", "")), item.said)

    def is_settled(self, fact: StoredFact, value: Any, said: tuple[str, str]) -> bool:
        keyword = fact["keyword"]
        if any(
            said <= then and of == keyword and _same(value, gone)
            for of, gone, then in self.retracted
        ):
            return True
        return self.replaces(fact) and (
            said < self.floors.get(keyword, ("", ""))
            or any(
                item.keyword == keyword and not _same(item.value, value) and item.said > said
                for item in self.items
            )
        )

    def replaces(self, fact: StoredFact) -> bool:
        """A SINGLE save replaces, unless there are values of a MULTIPLE one."""
        keyword = fact["keyword"]
        is_wide = self.types.get(keyword, ("", ""))[1] == "MULTIPLE"
        has_values = any(i.keyword == keyword and i.is_alive(self.now) for i in self.items)
        return fact["type"] == "SINGLE" and not (is_wide and has_values)

    def save(self, fact: StoredFact) -> None:
        keyword = fact["keyword"]
        when = self.now if "confirmed" in fact else min(fact["timestamp"], self.now)
        said = when, fact["id"]
        given = [fact["value"]] if "value" in fact else fact["values"]
        given = [value for value in given if not self.is_settled(fact, value, said)]
        if not given:
            return
        held = [item for item in self.items if item.keyword == keyword]
        is_one = (
            "stated" in fact
            and fact["type"] == "MULTIPLE"
            and self.types.get(keyword, ("", ""))[1] == "SINGLE"
            and any(item.state == "confirmed" for item in held)
        )
        waits = [value for value in given if self.waits(fact, value, held, is_one)]
        if not held and len(waits) == len(given):
            self.types[keyword] = (fact["description"], fact["type"])
        replaces = self.replaces(fact)
        if not is_one and len(waits) < len(given):
            kind = "SINGLE" if replaces else "MULTIPLE"
            self.types[keyword] = (fact["description"], kind)
        for value in waits:
            self.propose(fact, value, said)
        given = [value for value in given if not any(_same(value, each) for each in waits)]
        if not given:
            return
        self.settle(fact, given)
        if replaces:
            self.items = [
                item
                for item in self.items
                if item.keyword != fact["keyword"] or item.is_of(fact, fact["value"])
            ]
        for value in given:
            found = [
                item for item in self.items if item.is_of(fact, value) and item.is_alive(self.now)
            ]
            if found:
                (item,) = found
                is_kept = item.state == "confirmed" and "stated" in fact
                if said >= item.said and not is_kept:
                    item.latest = fact
                if "confirmed" in fact:
                    item.state = "confirmed"
                elif not {"stated", "proposed"} & fact.keys() and item.state == "learnt":
                    item.state = "saved"
                item.said, item.confirmed_at = max(item.said, said), self.now
                if fact.get("source") not in item.sources:
                    item.sources.append(fact.get("source"))
            else:
                self.items.append(
                    NaiveItem(
                        fact["keyword"], value, fact, fact, self.now, [fact.get("source")], said
                    )
                )

    def waits(self, fact: StoredFact, value: Any, held: list[NaiveItem], is_one: bool) -> bool:
        if any(_same(item.value, value) for item in held):
            return False
        known = self.types.get(fact["keyword"], ("", ""))[1]
        is_single = "SINGLE" in (fact["type"], known)
        return "proposed" in fact or (
            "stated" in fact
            and (
                is_one
                or (is_single and any(item.state == "confirmed" for item in held))
                or any(
                    fact["keyword"] == keyword and _same(value, gone)
                    for keyword, gone in self.rejected
                )
            )
        )

    def propose(self, fact: StoredFact, value: Any, said: tuple[str, str]) -> None:
        for item in self.waiting:
            if item.is_of(fact, value):
                if said >= item.said:
                    item.latest = fact
                item.said, item.confirmed_at = max(item.said, said), self.now
                if fact.get("source") not in item.sources:
                    item.sources.append(fact.get("source"))
                return
        sources = [fact.get("source")]
        new = NaiveItem(fact["keyword"], value, fact, fact, self.now, sources, said, "proposed")
        self.waiting.append(new)

    def settle(self, fact: StoredFact, given: list[Any]) -> None:
        is_single = self.types[fact["keyword"]][1] == "SINGLE"
        is_decided = "confirmed" in fact and is_single
        self.waiting = [
            item
            for item in self.waiting
            if item.keyword != fact["keyword"]
            or not (is_decided or any(_same(item.value, value) for value in given))
        ]
        if "stated" not in fact:
            self.rejected = [
                (keyword, gone)
                for keyword, gone in self.rejected
                if keyword != fact["keyword"] or not any(_same(gone, value) for value in given)
            ]

    def forget(self, condition: Condition) -> None:
        for item in self.items:
            if item.is_alive(self.now) and self.is_met(condition, item):
                until = max((self.now, ""), item.said)
                self.retracted.append((item.keyword, item.value, until))
                if self.types[item.keyword][1] == "SINGLE":
                    floor = self.floors.get(item.keyword, ("", ""))
                    self.floors[item.keyword] = max(floor, item.said)
        for item in self.waiting:
            if item.is_alive(self.now) and self.is_met(condition, item):
                self.retracted.append((item.keyword, item.value, (self.now, "")))
        self.items = [item for item in self.items if not self.is_met(condition, item)]
        self.waiting = [item for item in self.waiting if not self.is_met(condition, item)]

    def is_met(self, condition: Condition, item: NaiveItem) -> bool:
        source = condition.source
        return not (
            (condition.keyword is not None and item.keyword != condition.keyword)
            or (condition.key is not None and canonical(item.value) != condition.key)
            or (condition.fact_ids is not None and item.fact["id"] not in condition.fact_ids)
            or (condition.older_than is not None and item.confirmed_at >= condition.older_than)
            or (
                source is not None
                and any(
                    found is None
                    or found["kind"] != source.kind
                    or (source.conversation or found.get("conversation"))
                    != found.get("conversation")
                    or (source.quote or found.get("quote")) != found.get("quote")
                    for found in item.sources
                )
            )
        )

    def shown(self, now: str) -> list[tuple[Any, ...]]:
        """Return every current item with its fields: by keyword, oldest first."""
        alive = [item for item in self.items if item.is_alive(now)]
        keywords = dict.fromkeys(item.keyword for item in alive)
        waits = [item for item in self.waiting if item.is_alive(now)]
        waits.sort(key=lambda each: (each.keyword, str(each.value)))
        current = [item for keyword in keywords for item in alive if item.keyword == keyword]
        return [
            (
                item.keyword,
                None if item.state == "proposed" else self.types[item.keyword],
                item.value,
                item.fact["id"],
                item.fact["timestamp"],
                item.latest.get("importance", 0.5),
                item.latest.get("expires_at"),
                item.confirmed_at,
                item.sources,
                item.state,
            )
            for item in current + waits
        ]


def _same(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
