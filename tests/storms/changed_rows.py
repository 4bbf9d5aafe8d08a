"""Random changes to the rows of a store, in any database, and the report on what noticed them."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from functools import partial
from random import Random
from typing import Any, NamedTuple, TypeAlias

__all__ = [
    "TABLES",
    "Outcome",
    "Tables",
    "changes",
    "copied",
    "print_counts",
    "unnoticed",
    "with_flipped_bit",
]

Table: TypeAlias = list[dict[str, Any]]
Tables: TypeAlias = dict[str, Table]
Change: TypeAlias = Callable[[Random, Tables, list[Tables]], None]
"""Changes the first tables, perhaps by rows of the others, which are older."""

PARTS = ("places", "entries", "topics")
TABLES = ("stores", *PARTS, "indexes")


class Outcome(NamedTuple):
    """What became of a change."""

    kind: str
    is_noticed_alone: bool
    """True if a read raised without an anchor."""
    is_noticed: bool
    is_harmless: bool
    """True if everything that is read is what was saved."""


def copied(tables: Tables) -> Tables:
    """Return rows that can be changed."""
    return {table: [dict(row) for row in rows] for table, rows in tables.items()}


def changes(*, without: Collection[str] = ()) -> dict[str, Change]:
    """Return the kinds of changes, as an attacker or a mistaken program makes them.

    The columns left out decide nothing that is read, or belong to the test's own statements.
    """
    return {"column changed": partial(_flip, without)} | _MOVES


def _flip(without: Collection[str], random: Random, now: Tables, _: list[Tables]) -> None:
    table = random.choice([name for name in ("stores", "places", "entries") if now[name]])
    row = random.choice(now[table])
    column = random.choice(
        [
            name
            for name, value in row.items()
            if value not in (None, b"", "") and name not in without
        ]
    )
    row[column] = _flipped(random, row[column])


def _flipped(random: Random, value: Any) -> Any:
    if isinstance(value, bytes):
        return with_flipped_bit(random, value)
    if isinstance(value, str):
        at = random.randrange(len(value))
        return value[:at] + random.choice("abcXYZ019") + value[at + 1 :]
    return value ^ 1 << random.randrange(20)


def with_flipped_bit(random: Random, content: bytes) -> bytes:
    changed = bytearray(content)
    changed[random.randrange(len(content))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _swap(random: Random, now: Tables, _: list[Tables]) -> None:
    one, two = random.sample(now["entries"], 2)
    one["line"], two["line"] = two["line"], one["line"]
    if random.random() < 0.5:
        one["at"], two["at"] = two["at"], one["at"]


def _remove_lines(random: Random, now: Tables, _: list[Tables]) -> None:
    for _line in range(random.choice((1, 1, 2, 5))):
        now["entries"].remove(random.choice(now["entries"]))


def _remove_end(random: Random, now: Tables, _: list[Tables]) -> None:
    place = random.choice(now["places"])
    last = max(_lines(now, place["place"]), key=lambda row: int(row["number"]))
    now["entries"].remove(last)
    place["last"] -= 1


def _remove_place(random: Random, now: Tables, _: list[Tables]) -> None:
    place = random.choice(now["places"])
    now["places"].remove(place)
    if random.random() < 0.5:
        now["entries"] = [row for row in now["entries"] if row["place"] != place["place"]]


def _move_place(random: Random, now: Tables, _: list[Tables]) -> None:
    one, two = (row["place"] for row in random.sample(now["places"], 2))
    names = {one: two, two: one}
    for table in random.choice((PARTS, ("entries",), ("topics",))):
        for row in now[table]:
            row["place"] = names.get(row["place"], row["place"])


def _move_line(random: Random, now: Tables, _: list[Tables]) -> None:
    line, place = random.choice(now["entries"]), random.choice(now["places"])
    if line["place"] != place["place"]:
        place["last"] += 1
        line["place"], line["number"] = place["place"], place["last"]


def _old_place(random: Random, now: Tables, older: list[Tables]) -> None:
    """Put a place back as it was at some time, perhaps one that was erased since."""
    then = random.choice(older)
    place = random.choice(then["places"])["place"]
    for table in PARTS:
        now[table] = [row for row in now[table] if row["place"] != place]
        now[table] += [dict(row) for row in then[table] if row["place"] == place]


def _old_line(random: Random, now: Tables, older: list[Tables]) -> None:
    old = random.choice(random.choice(older)["entries"])
    for row in now["entries"]:
        if (row["place"], row["number"]) == (old["place"], old["number"]):
            row.update(old)
            return
    now["entries"].append(dict(old))


def _old_store(random: Random, now: Tables, older: list[Tables]) -> None:
    then = random.choice(older)
    for table in random.choice((TABLES, ("stores",), PARTS)):
        now[table] = [dict(row) for row in then[table]]


def _lines(tables: Tables, place: bytes) -> Table:
    return [row for row in tables["entries"] if row["place"] == place]


_MOVES: dict[str, Change] = {
    "lines swapped": _swap,
    "lines removed": _remove_lines,
    "last line removed and counted": _remove_end,
    "place removed": _remove_place,
    "places exchanged": _move_place,
    "line moved": _move_line,
    "old copy of a place": _old_place,
    "old copy of a line": _old_line,
    "old copy of the store": _old_store,
}


def unnoticed(outcomes: list[Outcome]) -> list[Outcome]:
    """Return the changes that altered what is read without an error."""
    return [each for each in outcomes if not each.is_harmless and not each.is_noticed]


def print_counts(kinds: Iterable[str], outcomes: list[Outcome]) -> None:
    """Print a line for each kind of change."""
    for kind in kinds:
        counts = Counter[str]()
        for each in (outcome for outcome in outcomes if outcome.kind == kind):
            counts["all"] += 1
            counts["alone"] += each.is_noticed_alone
            counts["noticed"] += each.is_noticed
            counts["harmless"] += each.is_harmless and not each.is_noticed
            counts["wrong"] += not each.is_harmless and not each.is_noticed
        print(
            f"  {kind:30} {counts['all']:5}, noticed by reads {counts['alone']:5}, with an "
            f"anchor {counts['noticed']:5}, harmless {counts['harmless']:5}, wrong "
            f"{counts['wrong']:5}"
        )
