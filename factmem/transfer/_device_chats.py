"""Conversations of several devices: the messages of their copies as one conversation. Pure.

A message has the key of its conversation, its id and the time when it was appended. Of two with one
id the later one is the edited one. What one device has removed, all others lose: its key is a mark,
and what has the key of a mark is never taken again. Where two copies of a message differ, a value
was purged in one of them, and the copy without it is taken.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import orjson

from factmem.ledger._merging import numbered
from factmem.ledger._purging import REMOVED
from factmem.ledger.entries import Entry
from factmem.models.when import moment, stamp
from factmem.transfer._device_state import key_of


def sent_form(lines: Mapping[int, Entry]) -> list[Any]:
    """Return the messages of a conversation with their numbers, and those among their time."""
    pairs = zip(lines, numbered([*lines.values()]), strict=True)
    return [{**entry, "number": number} for number, entry in pairs]


class Rules(NamedTuple):
    """What is left out of a conversation."""

    name: str
    gone: set[str]
    """The keys of removed messages. `merged` adds those that an edited message replaces."""
    until: str = ""
    """The time of the last erasure of the place."""
    learnt_at: str = ""
    """When this device learnt of it."""

    def merged(
        self, known: Mapping[int, Entry], last: int, given: Sequence[Any]
    ) -> dict[int, Entry]:
        """Return the messages of a conversation and of another copy in one order.

        Args:
            known: The messages of this device by number.
            last: The first number that it never used.
            given: Those of the other copy, in the form of `sent_form`.
        """
        best: dict[str, tuple[int, Any]] = {}
        others: list[tuple[Any, int]] = [({**each}, each["number"]) for each in given]
        for entry, number in [*self._kept(known, last), *others]:
            entry.pop("number", None)
            is_gone = bool(self.gone) and key_of(self.name, entry) in self.gone
            if is_gone or entry["at"] <= self.until:
                continue
            found = best.setdefault(entry["turn"]["id"], (number, entry))
            if found[1] is not entry:
                best[entry["turn"]["id"]] = self._joined(found, (number, entry))
        order = sorted(
            best.values(),
            key=lambda each: (each[1]["at"], each[1].get("tie", 0), each[1]["turn"]["id"]),
        )
        merged: dict[int, Entry] = {}
        following = expected = 0
        at = ""
        for wanted, entry in order:
            at_least = max(wanted, following)
            free = (each for each in range(at_least, last) if each in known)
            number = next(free, max(at_least, last))
            tie = entry.pop("tie", 0)
            if tie != (expected if entry["at"] == at else 0):
                entry["tie"] = tie
            merged[number] = entry
            following, expected, at = number + 1, tie + 1, entry["at"]
        return merged

    def _kept(self, known: Mapping[int, Entry], last: int) -> list[tuple[Any, int]]:
        """Return the own messages; what a clock behind an erasure recorded gets a later time."""
        kept: list[tuple[Any, int]] = []
        for number, entry in enumerate(sent_form(known)):
            if self.until and self.learnt_at <= entry["at"] <= self.until:
                later = stamp(moment(self.until) + timedelta(microseconds=1))
                entry |= {"at": later, "tie": number, "number": last}  # appended again
            kept.append((entry, entry["number"]))
        return kept

    def _joined(self, one: tuple[int, Any], other: tuple[int, Any]) -> tuple[int, Any]:
        (number, mine), (_, theirs) = one, other
        if mine["at"] != theirs["at"]:
            older, newer = sorted([one, other], key=lambda each: each[1]["at"])
            self.gone.add(key_of(self.name, older[1]))
            return newer
        tie = max(mine.get("tie", 0), theirs.get("tie", 0))
        return number, {**mine, "turn": _purged(mine["turn"], theirs["turn"]), "tie": tie}


def _purged(one: Any, other: Any) -> Any:
    """Return the copy of a message in which more was purged; if neither is, neither's words."""
    texts = [orjson.dumps(each).decode() for each in (one, other)]
    if _is_part(*texts):
        return one
    if _is_part(*texts[::-1]):
        return other
    return {**one, "message": {"role": one["message"]["role"], "content": REMOVED}}


def _is_part(one: str, other: str) -> bool:
    """Whether a text is another one of which pieces were removed."""
    *pieces, last = map(re.escape, one.split(REMOVED))
    # Atomic groups, so that this takes no longer than a search for each piece.
    middle = "".join(f"(?>.*?{piece})" for piece in pieces[1:])
    text = f"{pieces[0]}{middle}.*{last}" if pieces else last
    return re.fullmatch(text, other, re.DOTALL) is not None
