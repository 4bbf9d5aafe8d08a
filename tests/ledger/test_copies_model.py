"""What is current in copies that have exchanged all entries, compared with a naive model.

The model is the rule of `docs/concepts.md`: the value that was said last is current, of equal times
the one with the greater id. A forgetting ends what was said of a value before it, whenever that is
recorded. Saves are said and recorded at even seconds, and values are forgotten at odd ones.
"""

import os
from dataclasses import dataclass
from itertools import permutations
from random import Random

import pytest

from factmem.ledger._items import Condition
from factmem.ledger.ledger import Ledger
from factmem.models._values import canonical
from tests.ledger.test_copies import Copy
from tests.ledgers import saved, stamp

HISTORIES = int(os.environ.get("HISTORIES", "90"))

ONE, MANY = "theme", "languages"
END = stamp(99)


@dataclass(frozen=True)
class Statement:
    """A value that was said, or all that was said of it before, ended."""

    keyword: str
    value: str
    said: int
    name: str
    recorded: int
    forgets: bool = False


class Model:
    """All statements of all copies."""

    def __init__(self) -> None:
        self.said: list[Statement] = []

    def current(self, keyword: str) -> set[str]:
        saves = [each for each in self.said if each.keyword == keyword and not each.forgets]
        known = [each for each in saves if not self._is_forgotten(each, until=each.recorded)]
        if keyword == ONE:
            last = [max(known, key=lambda each: (each.said, each.name))] if known else []
        else:
            last = known
        return {each.value for each in last if not self._is_forgotten(each, until=99)}

    def _is_forgotten(self, save: Statement, *, until: int) -> bool:
        """Whether a forgetting that was recorded by then ends a value that was said before it."""
        return any(
            each.forgets
            and (each.keyword, each.value) == (save.keyword, save.value)
            and save.said < each.said
            and each.recorded <= until
            for each in self.said
        )


def differences(seed: int) -> list[str]:
    """Return what differs from the model after a random history of two to five copies."""
    chance, model, now = Random(seed), Model(), 10
    copies = [Copy() for _ in range(chance.randint(2, 5))]
    for number in range(chance.randint(4, 20)):
        copy, keyword = chance.choice(copies), chance.choice([ONE, MANY])
        now = min(70, now + chance.choice([0, 0, 2, 4]))
        match chance.choice("sssfm"):
            case "s":
                value, name = chance.choice("abc"), f"{chance.randint(0, 9)}-{number}"
                said = chance.choice([now, *range(10, 80, 10)])
                kind = "SINGLE" if keyword == ONE else "MULTIPLE"
                fact = saved(value, fact_id=name, kind=kind, keyword=keyword, timestamp=stamp(said))
                copy.entries.append({"at": stamp(now), "facts": [fact]})
                model.said.append(Statement(keyword, value, min(said, now), name, now))
            case "f":
                now += 1
                value = chance.choice("abc")
                condition = Condition(keyword=keyword, key=canonical(value))
                if names := Ledger(copy.entries).matching(condition, stamp(now)):
                    copy.entries.append({"at": stamp(now), "forget": names})
                    model.said.append(Statement(keyword, value, now, "", now, forgets=True))
                now += 1
            case _:
                copy.merge(chance.choice([each for each in copies if each is not copy]))
        copy.store()
    for one, other in [*permutations(copies, 2)] * 2:
        one.merge(other)
    return [
        f"{seed}: {found} instead of {model.current(keyword)} for {keyword} in copy {number}"
        for number, copy in enumerate(copies)
        for keyword in (ONE, MANY)
        if (found := _values(copy, keyword)) != model.current(keyword)
    ]


def _values(copy: Copy, keyword: str) -> set[object]:
    return {item.value for item in Ledger(copy.entries).items(keyword, END).values()}


@pytest.mark.parametrize("part", range(3))
def test_copies_show_what_was_said_last(part: int) -> None:
    wrong = [each for seed in range(part, HISTORIES, 3) for each in differences(seed)]

    assert not wrong, f"{len(wrong)} differences in {HISTORIES} histories, the first: {wrong[0]}"
