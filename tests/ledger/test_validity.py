"""Valid time: what holds now and held at other times, compared with a naive model.

Time is counted in half days: the midnight before day 3 is 6, its noon 7. Everything is said and
asked at noon, and `since` and `until` are days.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import anyio
from hypothesis import example, given, settings
from hypothesis import strategies as st

from factmem.ledger._items import Condition
from factmem.ledger._purging import purged
from factmem.ledger._undo import undoing
from factmem.ledger.entries import Entry
from factmem.ledger.history import change_ids
from factmem.ledger.ledger import Ledger
from factmem.models._values import canonical
from factmem.models.facts import Concept, FactType, MultipleFacts, SingleFact
from factmem.models.places import Identity
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.clock import SettableClock
from tests.ledgers import entry, forgotten, saved, stamp
from tests.properties import examples
from tests.world import AGENT, ALICE

FIRST = datetime(2026, 1, 1, tzinfo=UTC)


DAYS = 16


NEVER = 10_000


class Step(NamedTuple):
    """Something said, or forgotten, at the noon of a day."""

    day: int
    value: str
    since: int | None = None
    until: int | None = None
    forgets: bool = False
    """Whether its value is forgotten; all are if it is empty."""

    @property
    def noon(self) -> int:
        return 2 * self.day + 1

    @property
    def begin(self) -> int:
        """When it begins: with its `since`, or when it was said."""
        return self.noon if self.since is None else 2 * self.since

    @property
    def end(self) -> int:
        return NEVER if self.until is None else 2 * self.until + 2

    @property
    def first(self) -> int:
        """From when it held. Of what was over when it was said, and has no begin, nobody knows."""
        return -NEVER if self.since is None and self.end <= self.noon else self.begin


@dataclass
class Life:
    """A value that held from a time until another one."""

    value: str
    first: int
    last: int
    told: int


@dataclass
class Naive:
    """The rules of valid time as docs/time.md has them, applied one by one."""

    is_single: bool
    lives: list[Life] = field(default_factory=list)
    now: dict[str, Life] = field(default_factory=dict)
    """The life of each value that was not replaced."""
    plans: list[Step] = field(default_factory=list)
    is_known: bool = False
    """Whether this is no first statement: only that one is current although it is over."""

    def run(self, steps: Sequence[Step], known: int, until: int) -> "Naive":
        for step in steps:
            if step.noon > known:
                break
            self.advance(step.noon)
            if step.forgets:
                self.forget(step)
            elif step.begin > step.noon:
                self.plan(step)
            else:
                self.say(step, step.noon)
        self.advance(until)
        return self

    def forget(self, step: Step) -> None:
        """What was forgotten never held, also if it was over, and is planned no more."""
        values = {step.value} if step.value else set("abc")
        self.plans = [each for each in self.plans if each.value not in values]
        self.lives = [each for each in self.lives if each.value not in values]
        for value in values & self.now.keys():
            if self.now[value].last > step.noon:
                del self.now[value]

    def drop(self, life: Life) -> None:
        self.lives.remove(life)
        del self.now[life.value]

    def plan(self, step: Step) -> None:
        """A value that is planned again is moved; one that holds is put off, and has not held."""
        self.plans = [
            each
            for each in self.plans
            if each.value != step.value or self.is_between(step, each.begin)
        ]
        life = self.now.get(step.value)
        if life is not None and life.last > step.noon and not self.is_between(step, step.noon):
            self.drop(life)
        self.plans.append(step)
        self.is_known = True

    def is_between(self, step: Step, other: int) -> bool:
        """Whether another value is planned between: then it is a leave and a return."""
        first, last = sorted((step.begin, other))
        return self.is_single and any(
            each.value != step.value and first < each.begin < last for each in self.plans
        )

    def advance(self, now: int) -> None:
        while due := [each for each in self.plans if each.begin <= now]:
            step = min(due, key=lambda each: (each.begin, each.noon))
            self.plans.remove(step)
            life = self.now.get(step.value)
            if life is not None and life.last > step.begin and life.told > step.noon:
                continue  # said again since
            self.say(step, step.begin)

    def say(self, step: Step, at: int) -> None:
        """A later value of a SINGLE concept ends the one before when it begins."""
        life, is_over = self.now.get(step.value), step.end <= at
        if life is not None and life.last > at and not (is_over and step.end <= life.first):
            if step.since is not None:
                life.first = step.begin
            if step.until is not None:
                life.last = step.end
            life.told = at
            return
        new = Life(step.value, step.first, step.end, at)
        self.lives.append(new)
        if is_over and self.is_known:
            return  # it replaces nothing
        self.is_known = True
        for each in list(self.now.values()):
            if self.is_single or each.value == step.value:
                each.last = min(each.last, step.begin)
                del self.now[each.value]
        self.now[step.value] = new

    def current(self, at: int) -> list[str]:
        return sorted(value for value, life in self.now.items() if life.last > at)

    def held(self, at: int) -> list[str]:
        found = [life for life in self.lives if life.first <= at < life.last]
        if self.is_single:
            found = sorted(found, key=lambda life: life.told)[-1:]
        return sorted({life.value for life in found})


def moment(at: int) -> datetime:
    return FIRST + timedelta(hours=12 * at)


def day(number: int | None) -> str | None:
    return None if number is None else moment(2 * number).date().isoformat()


@st.composite
def histories(draw: st.DrawFn) -> list[Step]:
    steps: list[Step] = []
    days = draw(st.lists(st.integers(1, DAYS), min_size=1, max_size=7, unique=True))
    for at in sorted(days):
        value = draw(st.sampled_from("abc"))
        if draw(st.integers(0, 4)) == 0:
            steps.append(Step(at, draw(st.sampled_from(["", value])), forgets=True))
            continue
        since = draw(st.none() | st.integers(0, DAYS + 4))
        until = draw(st.none() | st.integers(since or 0, DAYS + 6))
        steps.append(Step(at, value, since, until))
    return steps


async def compare(steps: Sequence[Step], kind: FactType, asked: Sequence[tuple[int, int]]) -> None:
    clock = SettableClock(FIRST)
    store, concept = InMemoryProvider(clock=clock), Concept("topic", "A topic", kind)
    is_single = kind is FactType.SINGLE

    async def load(**given: Any) -> list[str]:
        facts = await store.load(concept, ALICE, AGENT, **given)
        return sorted(value for fact in facts for value in fact.values)

    for step in steps:
        clock.now = moment(step.noon)
        if step.forgets:
            given: dict[str, Any] = {"value": step.value} if step.value else {}
            await store.forget(ALICE, AGENT, concept=concept, **given)
        else:
            times: dict[str, Any] = {
                "timestamp": clock.now,
                "since": day(step.since),
                "until": day(step.until),
            }
            fact = (
                SingleFact(concept, step.value, **times)
                if is_single
                else MultipleFacts(concept, [step.value], **times)
            )
            await store.save(fact, ALICE, AGENT)
        naive = Naive(is_single).run(steps, step.noon, step.noon)
        assert await load() == naive.current(step.noon), (step, "now")
    clock.now = moment(end := 2 * DAYS + 31)
    assert await load() == Naive(is_single).run(steps, end, end).current(end)
    for at, known in asked:
        naive = Naive(is_single).run(steps, known, known)
        assert await load(as_of=moment(known)) == naive.current(known), ("as of", known)
        naive = Naive(is_single).run(steps, end, max(end, at))
        assert await load(valid_at=moment(at)) == naive.held(at), ("valid at", at)
        naive = Naive(is_single).run(steps, known, max(known, at))
        found = await load(valid_at=moment(at), as_of=moment(known))
        assert found == naive.held(at), ("valid at", at, "as of", known)


_noons = st.integers(0, DAYS + 8).map(lambda number: 2 * number + 1)


@settings(max_examples=examples(60), derandomize=True, deadline=None)
@example(
    [Step(1, "b", since=4), Step(3, "b"), Step(4, "a"), Step(5, "a", forgets=True)],
    FactType.SINGLE,
    [(9, 9), (21, 21)],
)
@given(histories(), st.sampled_from(FactType), st.lists(st.tuples(_noons, _noons), max_size=6))
def test_valid_time_equals_a_naive_model(
    steps: list[Step], kind: FactType, asked: list[tuple[int, int]]
) -> None:
    """Now and as of any time, and what held at any time, as known now or then."""
    anyio.run(compare, steps, kind, asked)


IDENTITY: Identity = ("PRODUCT", "app", "user", None)


def current(entries: list[Entry], second: int) -> list[Any]:
    """Return the current values of the keyword at a time."""
    held = Ledger(entries, until=stamp(second)).at(stamp(second)).get("k")
    return [] if held is None else [item.value for item in held.alive(stamp(second))]


def planned(value: str, second: int, **more: Any) -> Any:
    return saved(value, kind="SINGLE", timestamp=stamp(2), since=stamp(second), **more)


LINE = entry(1, saved("Line", fact_id="line", kind="SINGLE", timestamp=stamp(1)))


def purge(entries: list[Entry], value: str, second: int) -> list[Entry]:
    """Return the entries after a purge of a value."""
    condition = Condition(keyword="k", key=canonical(value))
    rest = purged(entries, condition, stamp(second)).entries
    return [each for each in rest if each is not None]


def test_a_purged_plan_that_never_began_ends_nothing() -> None:
    plan = entry(2, planned("Kakao", 30))
    gone: Entry = {"at": stamp(3), "forget": [forgotten("Kakao")]}

    rest = purge([LINE, plan, gone], "Kakao", 4)

    assert current(rest, 40) == ["Line"]


def test_a_purged_value_that_had_begun_still_replaces() -> None:
    plan = entry(2, planned("Kakao", 30))
    gone: Entry = {"at": stamp(35), "forget": [forgotten("Kakao")]}

    rest = purge([LINE, plan, gone], "Kakao", 36)

    assert current(rest, 20) == ["Line"]
    assert current(rest, 40) == []


def test_a_value_that_a_plan_has_replaced_since_the_last_entry_is_purged() -> None:
    rest = purge([LINE, entry(2, planned("Kakao", 30))], "Line", 35)

    assert "Line" not in str(rest)
    assert current(rest, 35) == ["Kakao"]


def test_undoing_the_end_of_a_plan_plans_it_again() -> None:
    plan = entry(2, planned("Kakao", 30))
    gone: Entry = {"at": stamp(3), "forget": [forgotten("Kakao")]}
    entries = [LINE, plan, gone]
    last = change_ids(IDENTITY, entries)[-1]

    entries += undoing(IDENTITY, last)(entries, stamp(5))

    assert current(entries, 20) == ["Line"]
    assert current(entries, 40) == ["Kakao"]


def test_undoing_a_save_keeps_the_plan_of_the_same_value() -> None:
    plan = entry(2, saved("ko", timestamp=stamp(2), since=stamp(30)))
    entries = [plan, entry(3, saved("ko", fact_id="two", timestamp=stamp(3)))]
    last = change_ids(IDENTITY, entries)[-1]

    entries += undoing(IDENTITY, last)(entries, stamp(5))

    assert current(entries, 20) == []
    assert current(entries, 40) == ["ko"]


def test_a_proposed_plan_does_not_move_what_is_current() -> None:
    proposal = entry(2, saved("Line", timestamp=stamp(2), since=stamp(30), proposed=[0]))
    entries = [entry(1, saved("Line", timestamp=stamp(1))), proposal]

    assert [current(entries, second) for second in (3, 40)] == [["Line"], ["Line"]]
    assert Ledger(entries).planned(stamp(3)) == []
