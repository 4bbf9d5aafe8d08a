"""Random changes to the rows of an encrypted store: each is noticed, or changes nothing that is read.

    python -m tests.postgres.tampering --cases 1000

Prints how many changes of each kind were noticed by reads alone, and by an anchor besides; exits
with 1 if one changed what is read and was not noticed.
"""

import argparse
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeAlias

import anyio
import psycopg

from factmem.encryption import Aes256GCMEncryptor
from factmem.errors import FactmemError
from factmem.models.places import Identity, MemorySubject
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.testing._facts import AGENT, LANGUAGES, languages, theme
from tests.postgres.cluster import Cluster

Table: TypeAlias = list[dict[str, Any]]
Tables: TypeAlias = dict[str, Table]

TABLES = ("stores", "places", "entries")
PERSON = MemorySubject("person", "", 1, per_entity=True)
FLIPPED = {
    "places": (
        "made",
        "snapshot",
        "last",
        "bytes",
        "scope",
        "subject",
        "names",
        "data_key",
        "tail",
    ),
    "entries": ("number", "at", "line"),
    "stores": ("slots", "anchors", "generation"),
}
"""The columns that decide on what is read. The others hold sizes and marks of repeated saves."""


class Outcome(NamedTuple):
    """What became of a change."""

    kind: str
    is_noticed_alone: bool
    """True if a read of every place raised without an anchor."""
    is_noticed: bool
    is_harmless: bool
    """True if everything that is read is what was saved."""


def _read_rows(connection: psycopg.Connection, store: int) -> Tables:
    found: Tables = {}
    for table in TABLES:
        cursor = connection.execute(f"SELECT * FROM factmem.{table} WHERE store = %s", [store])
        names = [column.name for column in cursor.description or ()]
        found[table] = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return found


def _write_rows(connection: psycopg.Connection, store: int, tables: Tables) -> None:
    with connection.transaction():
        for table in TABLES:
            connection.execute(f"DELETE FROM factmem.{table} WHERE store = %s", [store])
            for row in tables[table]:
                marks = ",".join(["%s"] * len(row))
                connection.execute(
                    f"INSERT INTO factmem.{table} ({','.join(row)}) OVERRIDING SYSTEM VALUE "
                    f"VALUES ({marks})",
                    list(row.values()),
                )


def _flip(random: Random, now: Tables, _: list[Tables]) -> None:
    table = random.choice(list(FLIPPED))
    row, column = random.choice(now[table]), random.choice(FLIPPED[table])
    row[column] = _flipped(random, row[column])


def _flipped(random: Random, value: Any) -> Any:
    if isinstance(value, bytes):
        position = random.randrange(len(value))
        changed = bytearray(value)
        changed[position] ^= 1 << random.randrange(8)
        return bytes(changed)
    if isinstance(value, str):  # base64 in JSON
        position = random.randrange(len(value))
        return value[:position] + random.choice("abcXYZ019") + value[position + 1 :]
    return value ^ 1 << random.randrange(20)


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
    lines = [row for row in now["entries"] if row["place"] == place["place"]]
    last = max(lines, key=lambda row: int(row["number"]))
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
    tables = random.choice((("places", "entries"), ("entries",)))
    for table in tables:
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
    for table in ("places", "entries"):
        now[table] = [row for row in now[table] if row["place"] != place]
        now[table] += [dict(row) for row in then[table] if row["place"] == place]


def _old_lines(random: Random, now: Tables, older: list[Tables]) -> None:
    then = random.choice(older)
    old = random.choice(then["entries"])
    names = ("place", "number")
    for row in now["entries"]:
        if all(row[name] == old[name] for name in names):
            row.update(old)
            return
    now["entries"].append(dict(old))


def _old_store(random: Random, now: Tables, older: list[Tables]) -> None:
    then = random.choice(older)
    for table in random.choice((TABLES, ("stores",), ("places", "entries"))):
        now[table] = [dict(row) for row in then[table]]


KINDS: dict[str, Callable[[Random, Tables, list[Tables]], None]] = {
    "flipped": _flip,
    "swapped": _swap,
    "lines removed": _remove_lines,
    "last line removed and counted": _remove_end,
    "place removed": _remove_place,
    "places moved": _move_place,
    "line moved": _move_line,
    "old copy of a place": _old_place,
    "old copy of a line": _old_lines,
    "old copy of the store": _old_store,
}


class Trial:
    """An encrypted store with places, some of them purged or erased, and copies of its past."""

    def __init__(self, dsn: str, connection: psycopg.Connection) -> None:
        self._dsn = dsn
        self._connection = connection
        self._name = uuid.uuid4().hex
        self._key = Aes256GCMEncryptor.generate_key()
        self._older: list[Tables] = []

    def _opened(self) -> PostgresMemoryProvider:
        encryption = Aes256GCMEncryptor(self._key)
        return PostgresMemoryProvider(self._dsn, store=self._name, encryption=encryption)

    async def prepare(self) -> None:
        """Fill the store."""
        people = [PERSON.of(f"p{number}") for number in range(5)]
        async with self._opened() as store:
            for turn in range(3):
                for person in people:
                    await store.save(languages(f"v{turn}"), person, AGENT)
                    await store.save(theme(f"theme {turn}"), person, AGENT)
                self._keep()
            await store.forget(people[0], AGENT, concept=LANGUAGES, value="v1", purge=True)
            await store.erase(people[1], AGENT)
            self._keep()
            await store.erase(people[2], AGENT)
            await store.save(languages("again"), people[2], AGENT)
            self._truth = await self._read(store)
            self._anchor = await store.anchor()
        self._now = _read_rows(self._connection, self._number)

    def _keep(self) -> None:
        row = self._connection.execute(
            "SELECT store FROM factmem.stores WHERE name = %s", [self._name]
        ).fetchone()
        assert row is not None
        self._number: int = row[0]
        self._older.append(_read_rows(self._connection, self._number))

    async def _read(self, store: PostgresMemoryProvider) -> dict[Identity, object]:
        places = await store.places()
        held = {p.place.identity: await store.entries(p.subject, p.scope) for p in places}
        for number in range(5):
            person = PERSON.of(f"p{number}")
            assert len(await store.places(subjects=[person])) == (number != 1)
        return dict(held)

    async def change(self, random: Random) -> Outcome | None:
        """Change rows, and look; None where the change left all as it was."""
        kind = random.choice(list(KINDS))
        changed = {table: [dict(row) for row in rows] for table, rows in self._now.items()}
        KINDS[kind](random, changed, self._older)
        if all(_same(changed[table], self._now[table]) for table in TABLES):
            return None
        try:
            _write_rows(self._connection, self._number, changed)
        except psycopg.Error:
            return None  # the tables themselves refuse it: two rows of one key
        try:
            return await self._judged(kind)
        finally:
            _write_rows(self._connection, self._number, self._now)

    async def _judged(self, kind: str) -> Outcome:
        is_harmless, is_alone, is_noticed = True, False, False
        async with self._opened() as store:
            try:
                is_harmless = await self._read(store) == self._truth
            except (FactmemError, AssertionError) as exc:
                is_alone = isinstance(exc, FactmemError)
                is_harmless = False
        async with self._opened() as store:
            try:
                await store.verify(self._anchor)
            except FactmemError:
                is_noticed = True
        return Outcome(kind, is_alone, is_alone or is_noticed, is_harmless)


def _same(one: Table, two: Table) -> bool:
    def order(row: dict[str, Any]) -> str:
        return str(row)

    return sorted(one, key=order) == sorted(two, key=order)


async def run(dsn: str, cases: int, seed: int) -> list[Outcome]:
    """Change a store in many ways, one after the other."""
    random, outcomes = Random(seed), list[Outcome]()
    with psycopg.connect(dsn, autocommit=True) as connection:
        trial = Trial(dsn, connection)
        await trial.prepare()
        while len(outcomes) < cases:
            outcome = await trial.change(random)
            if outcome is not None:
                outcomes.append(outcome)
    return outcomes


def unnoticed(outcomes: list[Outcome]) -> list[Outcome]:
    """Return the changes that altered what is read without an error."""
    return [each for each in outcomes if not each.is_harmless and not each.is_noticed]


def main() -> int:
    """Run as many cases as the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster(Path(folder) / "data", fsync="off") as server,
    ):
        outcomes = anyio.run(run, server.dsn(), given.cases, given.seed)
    for kind in KINDS:
        counts = Counter[str]()
        for each in (outcome for outcome in outcomes if outcome.kind == kind):
            counts["all"] += 1
            counts["alone"] += each.is_noticed_alone
            counts["noticed"] += each.is_noticed
            counts["harmless"] += each.is_harmless and not each.is_noticed
        print(
            f"{kind:32} {counts['all']:5}, noticed by reads {counts['alone']:5}, with an anchor "
            f"{counts['noticed']:5}, nothing changed for readers {counts['harmless']:5}"
        )
    print(f"{len(unnoticed(outcomes))} unnoticed of {len(outcomes)}")
    return 1 if unnoticed(outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
