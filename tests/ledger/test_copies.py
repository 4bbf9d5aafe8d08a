"""Copies of a place that exchange their entries become equal, compared with a naive model."""

import os
from dataclasses import dataclass, field
from itertools import permutations
from random import Random
from typing import Any

import pytest
from pydantic import JsonValue

from factmem.ledger._items import Condition, digest_of
from factmem.ledger._merging import merged, received
from factmem.ledger._purging import purged
from factmem.ledger._undo import undoing
from factmem.ledger.entries import Entry, StoredFact, decoded, encoded_entry, stamped
from factmem.ledger.history import change_ids, held_at, history
from factmem.ledger.ledger import Ledger
from factmem.models._values import canonical
from factmem.models.facts import Concept, FactType
from factmem.models.places import NOBODY, Identity
from factmem.models.when import When
from tests.ledgers import forgotten, saved, shown, stamp
from tests.properties import examples

HISTORIES = int(os.environ.get("HISTORIES", examples(450)))
"""The random histories; `HISTORIES=10000` looks harder."""

VALUES: list[JsonValue] = ["a", "b", "c", 1]
KEYWORDS = ["theme", "languages"]
IDENTITY: Identity = ("PRODUCT", "app", "user", None)
END = stamp(99)


@dataclass
class Copy:
    """The log of a copy."""

    entries: list[Entry] = field(default_factory=list)
    purges: set[tuple[Any, ...]] = field(default_factory=set)
    """The saved values that this copy has purged, or that were purged in a copy it has seen."""

    until: dict[tuple[Any, ...], str] = field(default_factory=dict)
    """When each value was purged last, by its keyword."""

    made: set[tuple[Any, ...]] = field(default_factory=set)
    """The values saved in this copy, and in those that it has seen."""

    def at(self, second: int) -> str:
        return max(stamp(second), Ledger(self.entries).recorded_at)

    def store(self) -> None:
        """Write the entries and read them back."""
        self.entries = [decoded(stamped(encoded_entry(e), e["at"])) for e in self.entries]
        self.made |= _saves(self.entries)

    def purge(self, condition: Condition, now: str) -> None:
        rest = purged(self.entries, condition, now).entries
        before = _saves(self.entries)
        self.entries = [each for each in rest if each is not None]
        self.made |= before
        gone = before - _saves(self.entries)
        self.purges |= gone
        self.until |= {(keyword, value): now for keyword, _, _, value in gone}

    def merge(self, other: "Copy") -> None:
        given = [each.copy() for each in other.entries]
        found = merged(self.entries, received(given), NOBODY)
        self.entries = [*self.entries, *found.new] if found.order is None else found.order
        self.purges |= other.purges
        self.made |= other.made
        for name, until in other.until.items():
            self.until[name] = max(until, self.until.get(name, ""))

    def unexplained(self) -> set[tuple[Any, ...]]:
        """Return the saves that are missing and were not purged, or present and were purged.

        A purge also removes what another copy said of the value before, unless the copies met
        without the purged save.
        """
        present = _saves(self.entries)
        missing = self.made - self.purges - present
        late = {each for each in missing if each[2] > self.until.get((each[0], each[3]), "")}
        return late | (present & self.purges)


def _saves(entries: list[Entry]) -> set[tuple[Any, ...]]:
    """Return each saved value by its keyword, id and time."""
    return {
        (fact["keyword"], fact["id"], entry["at"], canonical(value))
        for entry in entries
        for fact in entry.get("facts", ())
        for value in ([fact["value"]] if "value" in fact else fact.get("values", []))
    }


class Histories:
    """Random operations on some copies of a place, at few times, so that many are equal."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.copies = [Copy() for _ in range(self.chance.randint(2, 5))]
        self.second = 10
        self.made = 0

    def fact(self) -> StoredFact:
        self.made += 1
        chance = self.chance
        said = chance.choice([self.second, self.second, *range(10, 40, 5)])
        keyword = chance.choice(KEYWORDS)
        is_single = chance.random() < (0.8 if keyword == "theme" else 0.1)
        values = chance.sample(VALUES, 1 if is_single else chance.randint(1, 3))
        more: dict[str, Any] = {"importance": chance.choice([0.1, 0.9])}
        if chance.random() < 0.2:
            more["expires_at"] = stamp(chance.choice([12, 20, 30, 120]))
        if chance.random() < 0.25:
            more["since"] = stamp(chance.choice([*range(5, 85, 5), 120]))
        if chance.random() < 0.15:
            more["until"] = stamp(chance.choice([*range(15, 85, 5), 120]))
        match chance.randint(0, 7):
            case 0 | 1 | 2:
                more["stated"] = True
            case 3:
                more["confirmed"] = True
            case 4:
                more["proposed"] = [*range(len(values))]
        # The ids have no order, as those of different devices.
        name = f"{chance.randint(0, 99):02}-{self.made}"
        kind = "SINGLE" if is_single else "MULTIPLE"
        fact: StoredFact = saved(
            *values, fact_id=name, kind=kind, keyword=keyword, timestamp=stamp(said), **more
        )
        return fact

    def step(self) -> None:
        chance, copy = self.chance, self.chance.choice(self.copies)
        self.second = min(70, self.second + chance.choice([0, 0, 1, 5]))
        kind = chance.choice("sssssffpmmmaru")
        if kind in "au":  # no fact is saved twice in one microsecond, on two copies
            self.second += 1
        at = copy.at(self.second)
        match kind:
            case "s":
                facts = [self.fact() for _ in range(chance.choice([1, 1, 2]))]
                copy.entries.append({"at": at, "facts": facts})
            case "a":  # an update: the same fact with other fields, and possibly another value
                self._update(copy, at)
            case "m":
                copy.merge(chance.choice([each for each in self.copies if each is not copy]))
            case "r":
                self.made += 1
                keyword, value = chance.choice(KEYWORDS), chance.choice(VALUES)
                ended: Any = {"keyword": keyword, "digest": digest_of(canonical(value))}
                ended |= {"timestamp": stamp(self.second), "id": f"r-{self.made}"}
                if chance.random() < 0.5:
                    ended["confirmed"] = True
                copy.entries.append({"at": at, "retract": [ended]})
            case "u":
                self._undo(copy, at)
            case _:
                self._forget(copy, at, is_purge=kind == "p")
        copy.store()

    def _forget(self, copy: Copy, at: str, *, is_purge: bool) -> None:
        keyword = self.chance.choice(KEYWORDS)
        key = canonical(self.chance.choice(VALUES)) if self.chance.random() < 0.5 else None
        condition = Condition(keyword=keyword, key=key)
        if current := Ledger(copy.entries).matching(condition, at):
            forgetting: Entry = {"at": at, "forget": current}
            if condition.is_of_keywords:
                forgetting["whole"] = True
            copy.entries.append(forgetting)
        if is_purge:
            copy.purge(condition, at)

    def _update(self, copy: Copy, at: str) -> None:
        known = [fact for entry in copy.entries for fact in entry.get("facts", ())]
        if known and "purged" not in (fact := self.chance.choice(known)):
            changed: Any = {**fact, "importance": 0.3}
            if fact["type"] == "SINGLE" and self.chance.random() < 0.5:
                changed |= {"value": self.chance.choice(VALUES), "timestamp": at}
            copy.entries.append({"at": at, "facts": [changed]})

    def _undo(self, copy: Copy, at: str) -> None:
        ids = change_ids(IDENTITY, copy.entries)
        if ids:
            try:
                copy.entries += undoing(IDENTITY, self.chance.choice(ids[-3:]))(copy.entries, at)
            except ValueError:  # nothing to undo, or a later change rests on it
                return

    def exchange(self) -> None:
        for _ in range(2):
            for one, other in permutations(self.copies, 2):
                one.merge(other)


def differences(seed: int) -> list[str]:
    """Return what is wrong after a random history whose copies have all exchanged their entries."""
    found = Histories(seed)
    for _ in range(found.chance.randint(4, 16)):
        found.step()
    found.exchange()
    first, wrong = found.copies[0], list[str]()
    for number, copy in enumerate(found.copies):
        for name, view in VIEWS.items():
            if view(copy) != view(first):
                wrong.append(f"{seed}: {name} of copy {number}: {view(copy)} {view(first)}")
        # The model of a log: what was saved anywhere, without what was purged anywhere.
        if copy.unexplained():
            wrong.append(f"{seed}: other saves than were made and not purged, in copy {number}")
    return wrong


def current_at(copy: Copy, now: str) -> list[Any]:
    ledger = Ledger(copy.entries, until=now)
    ledger.advance(now)
    return shown(ledger, now)


def _history(copy: Copy) -> list[Any]:
    return [
        history(copy.entries, Concept(keyword, "Anything", FactType.MULTIPLE, value_type=Any))
        for keyword in KEYWORDS
    ]


VIEWS: dict[str, Any] = {
    "current values, proposals and states": lambda copy: [
        current_at(copy, stamp(second)) for second in (70, 75, 80, 85, 125)
    ],
    "planned values": lambda copy: Ledger(copy.entries).planned(END),
    "values at a time in the past": lambda copy: current_at(copy, stamp(30)),
    "values that held at a time": lambda copy: [
        shown(held_at(copy.entries, When(stamp(second)), END), "") for second in (20, 40, 90)
    ],
    "histories": _history,
    "retractions": lambda copy: [e for each in copy.entries for e in each.get("retract", ())],
    "changes": lambda copy: change_ids(IDENTITY, copy.entries),
    "entries": lambda copy: copy.entries,
}


@pytest.mark.parametrize("part", range(3))
def test_copies_that_exchange_all_they_have_are_equal(part: int) -> None:
    """In values, histories, retractions, proposals and states; purged values are nowhere."""
    wrong = [each for seed in range(part, HISTORIES, 3) for each in differences(seed)]

    assert not wrong, f"{len(wrong)} differences in {HISTORIES} histories, the first: {wrong[0]}"


def test_a_forgetting_ends_a_value_that_another_copy_has_replaced() -> None:
    def said(value: str, second: int, recorded: int) -> Entry:
        fact = saved(value, fact_id=f"{value}{second}", kind="SINGLE", timestamp=stamp(second))
        return {"at": stamp(recorded), "facts": [fact]}

    one, other = Copy(), Copy()
    gone: Entry = {"at": stamp(20), "forget": [forgotten("a", "a10")]}
    one.entries = [said("a", 10, 10), gone, said("a", 18, 25)]
    other.entries = [said("b", 15, 15)]

    one.merge(other)

    assert [item.value for item in Ledger(one.entries).items("k", END).values()] == ["b"]


def _kept(second: int) -> Entry:
    """Return what `review.accept` records: the same save, confirmed."""
    kept = saved("secret", fact_id="one", keyword="languages", timestamp=stamp(1), confirmed=True)
    return {"at": stamp(second), "facts": [kept], "actor": "jane"}


@pytest.mark.parametrize("is_other_save", [False, True])
@pytest.mark.parametrize("is_first", [False, True])
def test_a_purge_holds_against_what_another_copy_said_before_it(
    is_first: bool, is_other_save: bool
) -> None:
    """Whichever copy asks first. What is said after the purge is a new statement."""
    said: Entry = {
        "at": stamp(1),
        "facts": [saved("secret", fact_id="one", keyword="languages", timestamp=stamp(1))],
    }
    again: Entry = {
        "at": stamp(2),
        "facts": [saved("secret", "java", fact_id="two", keyword="languages")],
    }
    one, other = Copy([said]), Copy([said, again if is_other_save else _kept(2)])
    forget: Entry = {"at": stamp(5), "forget": [forgotten("secret", "one", "languages")]}
    one.entries.append(forget)
    one.purge(Condition(keyword="languages", key="secret"), stamp(5))
    for copy, source in [(one, other), (other, one)] if is_first else [(other, one), (one, other)]:
        copy.merge(source)
        copy.store()

    assert "secret" not in str([one.entries, other.entries])
    assert one.entries == other.entries
    assert ("java" in str(one.entries)) == is_other_save

    other.entries.append(_kept(9))
    one.merge(other)

    assert "secret" in str(one.entries)
