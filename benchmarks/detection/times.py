"""Statements with times: which since and until of a recorded answer are stored.

    python -m benchmarks.detection.times           both recordings
    python -m benchmarks.detection.times --misses  and each bound that is not as it should be

A line of a recording is a statement with its quote in brackets, keyword, value, the right period
and the period of the answer: `[I lived in Rome until May] | home-city | Rome | ..2024-05 |
..2024-05-31`. "@2024-05-15" is the day of the lines below it.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import anyio

from benchmarks.detection.dialogue import HERE
from factmem import AgentMemory, InMemoryProvider, MemoryScopesProfile, MemorySubject
from factmem.testing.chat import ScriptedChatModel

RECORDINGS = ("first", "second")
_USER = MemorySubject("user", "The person who talks to the agent", 1)


@dataclass(frozen=True)
class Statement:
    """A dated statement, and the item of an answer about it."""

    said_at: datetime
    text: str
    item: dict[str, object]
    right: tuple[str, str]

    @property
    def is_dated(self) -> bool:
        """Whether it says from when or until when something holds."""
        return self.right != ("", "")


@dataclass
class Bounds:
    """Counts of bounds, the begins and ends of periods; add two to sum them."""

    right: int = 0
    stored: int = 0
    gold: int = 0
    invented: int = 0
    """Stored bounds of statements without any."""
    lost: int = 0
    """Values that were not saved."""

    def __add__(self, other: "Bounds") -> "Bounds":
        return Bounds(*(getattr(self, name) + getattr(other, name) for name in vars(self)))

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.right / max(self.stored + self.gold, 1)


def statements(recording: str) -> Iterator[Statement]:
    """Yield the statements of a recording."""
    said_at = datetime.min.replace(tzinfo=UTC)
    for line in (HERE / "times" / f"{recording}.txt").read_text("utf-8").splitlines():
        if line.startswith("@"):
            said_at = datetime.fromisoformat(line[1:]).replace(hour=12, tzinfo=UTC)
            continue
        text, keyword, value, right, answered = line.split(" | ")
        quote = text[text.index("[") + 1 : text.index("]")]
        since, until = answered.split("..")
        item: dict[str, object] = {"message": 0, "quote": quote, "keyword": keyword, "value": value}
        item |= {"fact_type": "SINGLE", "since": since, "until": until}
        begin, end = right.split("..")
        yield Statement(said_at, text.replace("[", "").replace("]", ""), item, (begin, end))


async def judged(statement: Statement) -> tuple[Bounds, tuple[str, str]]:
    """Return the counts of one statement, and the period that was stored."""
    model = ScriptedChatModel({"facts": [statement.item]})
    memory = AgentMemory(
        InMemoryProvider(),
        chat_model=model,
        scopes=MemoryScopesProfile(agent="a"),
        subjects=[_USER],
    )
    messages = [{"role": "user", "content": statement.text}]
    report = await memory.auto_detect_facts(messages, said_at=statement.said_at)
    facts = [placed.fact for placed in (*report.saved, *report.superseded)]
    if len(facts) != 1:
        return Bounds(gold=sum(map(bool, statement.right)), lost=1), ("", "")
    since, until = (str(each or "") for each in (facts[0].since, facts[0].until))
    pairs = list(zip((since, until), statement.right, strict=True))
    bounds = Bounds(
        right=sum(bool(stored) and stored == right for stored, right in pairs),
        stored=sum(bool(stored) for stored, _ in pairs),
        gold=sum(bool(right) for _, right in pairs),
        invented=0 if statement.is_dated else sum(bool(stored) for stored, _ in pairs),
    )
    return bounds, (since, until)


async def run(recordings: Sequence[str] = RECORDINGS, *, misses: bool = False) -> list[Bounds]:
    """Print and return the counts of each recording."""
    totals: list[Bounds] = []
    for recording in recordings:
        total = Bounds()
        for statement in statements(recording):
            bounds, stored = await judged(statement)
            total += bounds
            if misses and (stored != statement.right or bounds.lost):
                print(f"  {statement.text}\n    {statement.right} {stored} {statement.item}")
        print(
            f"{recording}: F1 {total.f1:.3f}, {total.right} right of {total.stored} stored and"
            f" {total.gold} said, {total.invented} invented, {total.lost} values lost"
        )
        totals.append(total)
    return totals


if __name__ == "__main__":
    names = [each for each in sys.argv[1:] if not each.startswith("-")] or RECORDINGS
    anyio.run(lambda: run(names, misses="--misses" in sys.argv))
