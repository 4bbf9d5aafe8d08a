"""Random changes to a store in any database: each is noticed, or changes nothing that is read."""

from collections.abc import Callable, Collection, Iterable
from functools import partial
from random import Random
from typing import Any, NamedTuple, TypeAlias

from factmem.errors import FactmemError
from factmem.providers._sql.store import SqlStore
from factmem.testing._facts import AGENT, LANGUAGES, PERSON, THEME, languages, theme

Table: TypeAlias = list[dict[str, Any]]
Tables: TypeAlias = dict[str, Table]
Change: TypeAlias = Callable[[Random, Tables, list[Tables]], None]
"""Changes the first tables, perhaps by rows of the others, which are older."""

PARTS = ("places", "entries", "indexes")
TABLES = ("stores", *PARTS)
PEOPLE = [PERSON.of(f"p{number}") for number in range(5)]


class Outcome(NamedTuple):
    """What became of a change."""

    kind: str
    is_noticed_alone: bool
    """True if a read raised without an anchor."""
    is_noticed: bool
    is_harmless: bool
    """True if everything that is read is what was saved."""


class Trial:
    """A store with places, some of them purged or erased, and copies of its past."""

    refusals: tuple[type[Exception], ...] = ()
    """The errors of a database whose tables cannot have what a change made of them."""

    def __init__(self, kinds: dict[str, Change], *, is_encrypted: bool) -> None:
        self._kinds, self._is_encrypted = kinds, is_encrypted
        self._older: list[Tables] = []

    def opened(self) -> SqlStore:
        """Return a new instance on the store."""
        raise NotImplementedError

    def tables(self) -> Tables:
        """Return all rows of the store, which nobody has open."""
        raise NotImplementedError

    def write(self, tables: Tables) -> None:
        """Replace all rows."""
        raise NotImplementedError

    def keep(self) -> None:
        """Keep a copy of the store, from which changes take parts."""
        self._older.append(self.tables())

    async def prepare(self) -> None:
        """Fill the store."""
        for turn in range(3):
            async with self.opened() as store:
                for person in PEOPLE:
                    await store.save(languages(f"v{turn}"), person, AGENT)
                    await store.save(theme(f"theme {turn}"), person, AGENT)
            self.keep()
        async with self.opened() as store:
            await store.forget(PEOPLE[0], AGENT, concept=LANGUAGES, value="v1", purge=True)
            await store.erase(PEOPLE[1], AGENT)
        self.keep()
        async with self.opened() as store:
            await store.erase(PEOPLE[2], AGENT)
            await store.save(languages("again"), PEOPLE[2], AGENT)
            self._truth = await _read(store)
            self._anchor = await store.anchor()
        self._now = self.tables()
        if not self._is_encrypted:
            # Only the anchor of an encrypted store knows what had been erased before it was taken.
            kept = {row["place"] for row in self._now["places"]}
            for tables in self._older:
                tables["places"] = [row for row in tables["places"] if row["place"] in kept]

    async def change(self, kind: str, random: Random) -> Outcome | None:
        """Change the store, and look; None where the change left all as it was."""
        changed = {table: [dict(row) for row in rows] for table, rows in self._now.items()}
        self._kinds[kind](random, changed, self._older)
        if all(_ordered(changed[table]) == _ordered(self._now[table]) for table in TABLES):
            return None
        try:
            self.write(changed)
        except self.refusals:
            return None  # two rows of one key
        try:
            return await self.judged(kind)
        finally:
            self.write(self._now)

    async def judged(self, kind: str) -> Outcome:
        """Read all of the store, and verify it with an anchor."""
        is_harmless, is_alone, is_noticed = False, False, False
        async with self.opened() as store:
            try:
                is_harmless = await _read(store) == self._truth
            except FactmemError:
                is_alone = True
        async with self.opened() as store:
            try:
                await store.verify(self._anchor)
            except FactmemError:
                is_noticed = True
        return Outcome(kind, is_alone, is_alone or is_noticed, is_harmless)


async def _read(store: SqlStore) -> object:
    """Return all that can be read: one concept after the other first, then whole places."""
    values = [await store.load(each, one, AGENT) for one in PEOPLE for each in (THEME, LANGUAGES)]
    entries = [await store.entries(person, AGENT) for person in PEOPLE]
    places = [await store.places(subjects=subjects) for subjects in (None, *([p] for p in PEOPLE))]
    listed = [[(info.subject.entity, info.count) for info in infos] for infos in places]
    return values, entries, listed, len(await store.list_places())


def _ordered(rows: Table) -> Table:
    return sorted(rows, key=str)


async def run(trial: Trial, kinds: Iterable[str], *, cases: int, seed: int) -> list[Outcome]:
    """Change a store in many ways, one after the other."""
    random, outcomes, chosen = Random(seed), list[Outcome](), list(kinds)
    await trial.prepare()
    while len(outcomes) < cases:
        outcome = await trial.change(random.choice(chosen), random)
        if outcome is not None:
            outcomes.append(outcome)
    return outcomes


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
    for table in random.choice((PARTS, ("entries",), ("indexes",))):
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
