"""MemoryParts: the text of a memory message, by concept; writes and parses it.

A part has the lines of one concept: a head line with keyword and description, then one line for
each value. Parsed lines are written again from their values and all other lines are dropped: a
forged text cannot add anything.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple, TypeAlias

from factmem.ledger.resolution import PlacedFact
from factmem.models.clock import day_in
from factmem.models.places import LOWEST_PRIORITY
from factmem.prompt._escaping import name_text, value_text
from factmem.prompt.message_form import (
    HEAD,
    LINE,
    NAMED,
    Frame,
    name_of,
    value_line,
    weight_text,
)
from factmem.prompt.tokens import estimate_tokens

Rank: TypeAlias = tuple[int, float, float]
"""Priority level, importance and recency, the last two negated. Lower ranks are kept first."""

UNRANKED: Rank = (0, 0.0, 0.0)
"""The rank of a line if there is no budget."""

_LEFT_OUT = re.compile(r"Left out for lack of room: (\d+)(?: \((.*)\))?")
_OTHERS = re.compile(r"other concepts (\d+)")
_NAMED = re.compile(rf"({NAMED}) (\d+)(?:, |$)")
_MOST_NAMED = 10


QUOTES = "said"
"""The name of the part with quotes of messages."""


class Quoted(NamedTuple):
    """A quote of a message."""

    speaker: str
    text: str
    said_at: datetime
    number: int
    """The number of the message in its conversation."""

    def line(self, position: int, zone: tzinfo) -> "Line":
        """Return its line, ranked by its position."""
        value, day = value_text(self.text), day_in(self.said_at, zone)
        text = value_line(value, name_text(self.speaker), day, "")
        order = f"{self.said_at.astimezone(UTC).isoformat()} {self.number:09}"
        return Line(order, value, text, (0, 0.0, position))


class Line(NamedTuple):
    """One value of a concept, or a quote. Lines sort by day, then by value; quotes by time."""

    day: str
    """The day on which it was stated, `2026-08-01`; of a quote the time, or its place in the text."""
    value: str
    """The escaped value, as the line shows it."""
    text: str
    """The whole line, without the line break."""
    rank: Rank

    @classmethod
    def read(cls, text: str, priorities: Mapping[str, int]) -> "Line | None":
        """Parse a line and write it again; None if the string is not a line of a value."""
        found = LINE.fullmatch(text)
        subject = None if found is None else name_of(found["subject"])
        if found is None or subject is None:
            return None
        try:
            said = datetime.fromisoformat(found["day"]).replace(tzinfo=UTC)
            value = value_text(json.loads(found["value"]))
            importance = float(found["importance"] or 0.5)
        except (ValueError, RecursionError):
            return None
        rank = (priorities.get(subject, LOWEST_PRIORITY), -importance, -said.timestamp())
        more = f"{found['period']}{weight_text(importance)}"
        line = value_line(value, name_text(subject), found["day"], more)
        return cls(found["day"], value, line, rank)


@dataclass(slots=True)
class Part:
    """The lines of one concept."""

    keyword: str
    description: str
    lines: list[Line] = field(default_factory=list[Line])
    left_out: int = 0
    """The number of its values that did not fit."""
    beyond: int = 0
    """The number of its values that were not even written, as they cannot fit."""

    @classmethod
    def read(cls, head: str) -> "Part | None":
        """Parse the first line of a part; None for any other. A damaged one has no keyword."""
        found = HEAD.fullmatch(head)
        if found is None:
            return None
        keyword, description = name_of(found["keyword"]), name_of(found["description"])
        if not keyword or description is None:
            return cls("", "")
        return cls(keyword, description, left_out=int(found["left_out"] or 0))

    def head(self) -> str:
        """Return the first line of the part, without the line break; `read` parses it."""
        note = f" ({self.left_out} left out)" if self.left_out else ""
        return f"{name_text(self.keyword)}{note}: {value_text(self.description)}"


@dataclass(slots=True)
class MemoryParts:
    """The parts of a whole message."""

    parts: dict[str, Part] = field(default_factory=dict[str, Part])
    named: dict[str, int] = field(default_factory=dict[str, int])
    """Concepts that were loaded by name and did not fit at all, with their numbers of values."""
    others: int = 0
    """The number of values of other concepts that did not fit."""

    @property
    def left_out(self) -> int:
        """The total number of values that did not fit."""
        partly = sum(part.left_out for part in self.parts.values())
        return partly + sum(self.named.values()) + self.others

    def join(self, fresh: "MemoryParts", asked: Collection[str]) -> None:
        """Add the parts of `fresh`, in place of those about `asked`; all other parts stay."""
        for keyword in asked:
            part = fresh.parts.get(keyword)
            known = self.parts.pop(keyword, None) is not None
            known = self.named.pop(keyword, None) is not None or known
            if part is not None and not known:
                self.others -= min(self.others, len(part.lines))
        for keyword, part in fresh.parts.items():
            before = self.parts.get(keyword)
            if before is not None:
                said = {line.value for line in part.lines}
                part.lines += [line for line in before.lines if line.value not in said]
                part.left_out += before.left_out
            self.parts[keyword] = part

    def leave_out(self, facts: Iterable[PlacedFact]) -> None:
        """Count the values of facts that are not written."""
        for placed in facts:
            concept = placed.fact.concept
            part = self.parts.get(concept.keyword)
            if part is None:
                part = self.parts[concept.keyword] = Part(concept.keyword, concept.description)
            part.beyond += len(placed.fact.values)

    def lines(self) -> Iterator[tuple[Part, Line]]:
        """Yield every line with its part."""
        for part in self.parts.values():
            for line in part.lines:
                yield part, line

    def only(self, kept: Iterable[tuple[Part, Line]], asked: Collection[str]) -> "MemoryParts":
        """Return the parts with these lines only; the others are counted as left out.

        Concepts in `asked` that lose all their lines are named in the text.
        """
        fewer = MemoryParts(named=dict(self.named), others=self.others)
        for part, line in kept:
            new = fewer.parts.get(part.keyword)
            if new is None:
                new = fewer.parts[part.keyword] = Part(part.keyword, part.description)
            new.lines.append(line)
        for keyword, part in self.parts.items():
            new = fewer.parts.get(keyword)
            missing = part.left_out + part.beyond + len(part.lines) - (len(new.lines) if new else 0)
            if new is not None:
                new.left_out = missing
            elif keyword in asked:
                fewer.named[keyword] = missing
            else:
                fewer.others += missing
        return fewer

    def text(self, frame: Frame) -> str:
        """Return the text; empty if there is no part and nothing was left out."""
        pieces = [frame.opening]
        for keyword in sorted(self.parts):
            part = self.parts[keyword]
            pieces.append(f"{part.head()}\n")
            if len(part.lines) > 1:
                part.lines.sort()
            pieces += [f"{line.text}\n" for line in part.lines]
        if note := self._note():
            pieces.append(f"{note}\n")
        return "" if len(pieces) == 1 else "".join((*pieces, frame.closing))

    def _note(self) -> str:
        left_out = self.left_out
        if not left_out:
            return ""
        named = sorted(self.named.items())
        beyond = self.others + sum(count for _, count in named[_MOST_NAMED:])
        absent = [f"{name_text(keyword)} {count}" for keyword, count in named[:_MOST_NAMED]]
        absent += [f"other concepts {beyond}"] if beyond else []
        details = f" ({', '.join(absent)})" if absent else ""
        return f"Left out for lack of room: {left_out}{details}"

    @classmethod
    def parsed(cls, text: str, frame: Frame, priorities: Mapping[str, int]) -> "MemoryParts":
        """Parse a string that `text` wrote, in this version or an earlier one.

        Args:
            text: The content of a memory message.
            frame: The frame that it was written with; a string with another frame gives no parts.
            priorities: The priority level of each subject's name, for the ranks.
        """
        parsed = cls()
        lines = text.split("\n")
        if lines[0] != f"<{frame.name}>" or lines[-1] != frame.closing:
            return parsed
        parsed._read(lines[1:-1], priorities)
        return parsed

    def _read(self, lines: Iterable[str], priorities: Mapping[str, int]) -> None:
        part: Part | None = None
        for text in lines:
            if line := Line.read(text, priorities):
                if part is not None:
                    if part.keyword == QUOTES:
                        line = line._replace(day=f"{line.day} {len(part.lines):05}")
                    part.lines.append(line)
            elif head := Part.read(text):
                part = self.parts[head.keyword] = head
            elif note := _LEFT_OUT.fullmatch(text):
                self._read_note(note.group(2) or "")
        self.parts = {key: part for key, part in self.parts.items() if key and part.lines}

    def _read_note(self, details: str) -> None:
        if others := _OTHERS.search(details):
            self.others = int(others.group(1))
            details = details[: others.start()]
        for named in _NAMED.finditer(details):
            keyword = name_of(named.group(1))
            if keyword is not None:
                self.named[keyword] = int(named.group(2))


def fit_budget(
    parts: MemoryParts,
    frame: Frame,
    asked: Collection[str],
    max_tokens: int,
) -> MemoryParts:
    """Return the parts with as many lines as fit the budget, in the order of their rank."""
    kept: list[tuple[Part, Line]] = []
    costs: list[int] = []
    empty = used = estimate_tokens(frame.opening) + estimate_tokens(frame.closing)
    begun: set[str] = set()
    for part, line in sorted(parts.lines(), key=_in_rank):
        cost = estimate_tokens(f"{line.text}\n")
        head = estimate_tokens(f"{part.head()}\n")
        if empty + head + cost > max_tokens:
            continue  # it would not fit into an empty text
        cost += 0 if part.keyword in begun else head
        if used + cost > max_tokens:
            break
        kept.append((part, line))
        costs.append(cost)
        begun.add(part.keyword)
        used += cost
    while True:
        fitted = parts.only(kept, asked)
        over = estimate_tokens(fitted.text(frame)) - max_tokens
        if over <= 0 or not kept:
            return fitted
        while kept and over > 0:
            over -= costs.pop()
            kept.pop()


def _in_rank(candidate: tuple[Part, Line]) -> tuple[Rank, str, Line]:
    part, line = candidate
    return line.rank, part.keyword, line
