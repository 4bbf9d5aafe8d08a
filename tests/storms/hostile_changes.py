"""Changes of a store's files, as an attacker or another program makes them.

Whoever changes a plain store makes its checksums right again, as they are no secret.
"""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import orjson
from pydantic_core import to_json

from factmem.providers._sql.places import subject_path
from factmem.providers._sql.sealing import NO_TAG, Counters, Sealing
from factmem.providers.conversations import owner_of
from tests.storms.tampering import BY_BYTES

Database = sqlite3.Connection
Rows = list[dict[str, Any]]


def rows(db: Database, table: str) -> Rows:
    cursor = db.execute(f"SELECT * FROM {table}")
    names = [each[0] for each in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


NUMBERS = [0, 1, -1, 2, 1 << 31, -(1 << 31), (1 << 63) - 1, -(1 << 63), 253402300800000000]
TEXTS = [
    "",
    "x",
    "\0",
    "a\0b",
    "//alice",
    "e" + "\u0301" * 20_000,
    "\u202e",
    "9" * 5000,
    "[" * 3000,
]
TIMES = [
    "9999-12-31T23:59:59.999999Z",
    "0001-01-01T00:00:00.000000Z",
    "2999-01-01T00:00:00.000000Z",
]


def odd_number(random: Random, value: int) -> int:
    near = [value ^ 1 << random.randrange(63), value + 1, value - 1, value * 2]
    found = random.choice([*NUMBERS, *near])
    return max(min(found, (1 << 63) - 1), -(1 << 63))


def odd_bytes(random: Random, value: bytes, others: list[bytes]) -> bytes:
    at = random.randrange(len(value) + 1)
    return random.choice(
        [
            b"", b"\0", value[:-1], value + b"\0", bytes(len(value)), random.randbytes(len(value)),
            value[:at] + b"\xff" + value[at + 1 :], random.choice(others), b"x" * 2_000_000,
        ]
    )  # fmt: skip


def change_column(random: Random, db: Database) -> str:
    """Give a column another value that its type allows, in one row or in all."""
    table = random.choice(["stores", "places", "places", "entries", "erased", *SIDE_TABLES])
    found = rows(db, table)
    if not found:
        return ""
    row = random.choice(found)
    column = random.choice(list(row))
    value, values = row[column], [each[column] for each in found]
    new: Any
    if isinstance(value, bytes):
        new = odd_bytes(random, value, [each for each in values if isinstance(each, bytes)])
    elif isinstance(value, str):
        new = random.choice([*TEXTS, value[:-1], value + " ", value.upper(), "[]", "null", "plain"])
    elif isinstance(value, float):
        new = random.choice([0.0, -1.0, 1e308, float("inf")])
    else:
        new = odd_number(random, value or 0)
    where, given = " AND ".join(f"{name} IS ?" for name in row), list(row.values())
    if random.random() < 0.2:
        where, given = "1", []
    db.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", [new, *given])
    return f"{table}.{column}"


SIDE_TABLES = ["indexes", "learning", "searches", "sources", "items", "terms"]


def delete_rows(random: Random, db: Database) -> str:
    table = random.choice(["stores", "places", "entries", "erased", *SIDE_TABLES])
    found = rows(db, table)
    if not found:
        return ""
    for row in random.sample(found, min(len(found), random.choice([1, 1, 2, 100]))):
        where = " AND ".join(f"{name} IS ?" for name in row)
        db.execute(f"DELETE FROM {table} WHERE {where}", list(row.values()))
    return table


def insert_rows(random: Random, db: Database) -> str:
    """Repeat rows under other keys."""
    table = random.choice(["stores", "places", "entries", "erased", "erased", *SIDE_TABLES])
    found = rows(db, table)
    if not found:
        return ""
    row = random.choice(found)
    for column in random.sample(list(row), random.choice([1, 2])):
        value = row[column]
        if isinstance(value, bytes):
            row[column] = odd_bytes(random, value, [each[column] for each in found])
        elif isinstance(value, int):
            row[column] = odd_number(random, value)
        elif isinstance(value, str):
            row[column] = random.choice(TEXTS)
    marks = ",".join("?" * len(row))
    db.execute(f"INSERT INTO {table} VALUES ({marks})", list(row.values()))
    return table


def note_erased(random: Random, db: Database) -> str:
    """Say of places that are there that they were erased, with a tag or without."""
    tag = random.choice(["place", "place || randomblob(16)", "place || place"])
    at = random.choice(["recorded_at", "9223372036854775807", "0"])
    db.execute(f"INSERT OR IGNORE INTO erased SELECT {tag}, made, store, {at} FROM places")
    return "erased"


def change_owner(random: Random, db: Database) -> str:
    """Hide a place from what finds it."""
    column = random.choice(["owner", "subject", "scope", "bytes", "recorded_at", "store"])
    found = [row[column] for row in rows(db, "places")]
    new: Any = random.choice(found)
    if isinstance(new, bytes):
        new = random.choice([new, bytes(16), b"\xff" * 16, b"", new[:8]])
    else:
        new = odd_number(random, new)
    which = random.choice(["place = owner", "place <> owner", "1"])
    db.execute(
        f"UPDATE places SET {column} = ? WHERE place = (SELECT place FROM places WHERE {which} "
        "ORDER BY random() LIMIT 1)",
        [new],
    )
    return column


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
OBJECTS = [
    "CREATE TRIGGER t BEFORE INSERT ON {table} BEGIN SELECT RAISE(IGNORE); END",
    "CREATE TRIGGER t BEFORE DELETE ON {table} BEGIN SELECT RAISE(IGNORE); END",
    "CREATE TRIGGER t AFTER UPDATE ON {table} BEGIN DELETE FROM entries; END",
    f"CREATE TRIGGER t AFTER INSERT ON {{table}} BEGIN {ENDLESS} SELECT count(*) FROM c; END",
    "ALTER TABLE {table} RENAME TO s0; CREATE VIEW {table} AS SELECT * FROM s0",
    "CREATE VIEW v AS SELECT * FROM {table}",
    "DROP VIEW statements; CREATE VIEW statements AS SELECT 1 AS scope_type",
    "CREATE TABLE {table}_data (a)",
    "CREATE TABLE sqlite_stat1x (a)",
    "CREATE TEMP TABLE {table} (a)",
    "ALTER TABLE {table} ADD COLUMN extra INTEGER DEFAULT 7",
    "ALTER TABLE {table} ADD COLUMN extra INTEGER AS (1 / 0)",
    "CREATE INDEX i ON {table} (store)",
    "CREATE UNIQUE INDEX i ON entries (at)",
    "DROP INDEX places_by_owner",
    "DROP TABLE {table}",
    "PRAGMA user_version = {number}",
    "PRAGMA application_id = {number}; PRAGMA user_version = 0",
    "PRAGMA writable_schema=on; UPDATE sqlite_master SET sql = upper(sql) WHERE name = '{table}'",
    "PRAGMA writable_schema = on; UPDATE sqlite_master SET rootpage = 2 WHERE name = '{table}'",
    "PRAGMA writable_schema = on; UPDATE sqlite_master SET rootpage = 999999 WHERE type = 'index'",
    "PRAGMA writable_schema = on; DELETE FROM sqlite_master WHERE name = '{table}'",
    "PRAGMA writable_schema = on; UPDATE sqlite_master SET name = upper(name) WHERE name='{table}'",
    "PRAGMA journal_mode = delete; PRAGMA encoding = 'UTF-16'",
    "PRAGMA journal_mode = delete; PRAGMA page_size = 512; VACUUM",
    "PRAGMA journal_mode = delete; PRAGMA auto_vacuum = full; VACUUM",
    "ANALYZE; UPDATE sqlite_stat1 SET stat = '9999999999 x'",
    "CREATE VIRTUAL TABLE f USING fts5(line, content='{table}')",
    "DELETE FROM terms", "UPDATE terms SET items = randomblob(40)",
    "UPDATE terms SET first = {number}", "DROP TABLE terms",
]  # fmt: skip


def odd_object(random: Random, db: Database) -> str:
    table = random.choice(["stores", "places", "entries", "erased", "indexes"])
    statement = random.choice(OBJECTS)
    number = random.choice([0, 2, -1, 1 << 30])
    db.executescript(statement.format(table=table, number=number))
    return statement[:40]


# Changes with checksums that are right


def resealed(db: Database, place: bytes, bodies: list[tuple[int, int, bytes]], **more: Any) -> None:
    """Replace the lines of a place of a plain store, with right checksums and counters."""
    ((store,),) = db.execute("SELECT id FROM stores")
    sealer = Sealing(store, has_checksums=True).sealer(place, None)
    (row,) = [each for each in rows(db, "places") if each["place"] == place]
    row |= {"last": max((n for n, _, _ in bodies), default=0)}
    row |= {"bytes": sum(len(body) for _, _, body in bodies)} | more
    db.execute("DELETE FROM entries WHERE place = ?", [place])
    for number, at, body in bodies:
        line = sealer.seal(number, at, b"", body)
        db.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", [place, number, at, line])
    named = ("made", "snapshot", "last", "bytes", "recorded_at", "purged")
    counters = Counters(*(row[name] for name in named))
    row["tail"] = sealer.tail(counters, NO_TAG)
    columns = [name for name in row if name != "place"]
    names = ", ".join(f"{name} = ?" for name in columns)
    db.execute(
        f"UPDATE places SET {names} WHERE place = ?", [*(row[each] for each in columns), place]
    )


def bodies_of(db: Database, place: bytes) -> list[tuple[int, int, bytes]]:
    found = db.execute("SELECT number, at, line FROM entries WHERE place = ?", [place]).fetchall()
    return [
        (n, at, b"{" + line[len(b'{"sum":"00000000"') :].removeprefix(b","))
        for n, at, line in found
    ]


def odd_json(random: Random) -> Any:
    nested: Any = 1
    for _ in range(random.choice([3, 150])):
        nested = [nested]
    return random.choice(
        [
            None, True, 0, -1, 1 << 62, 1.5, 1e300, [], {}, [None], [[]], {"a": None}, nested,
            *TEXTS,
            *TIMES, "anna", "SINGLE", "MULTIPLE", ["x", 3, None], [["x", "y", "z"]], {"id": 1},
            {"kind": 7},
        ]
    )  # fmt: skip


EXTRA: list[Any] = [
    {"forget": 5}, {"forget": [1]}, {"forget": [["ide-theme"]]},
    {"forget": [["ide-theme", "x", "y"]]},
    {"retract": [{}]}, {"retract": [{"keyword": "ide-theme", "timestamp": TIMES[0]}]},
    {"facts": {}},
    {"facts": [None]}, {"facts": [{}]}, {"facts": "x"}, {"turn": {}}, {"turn": 5},
    {"whole": ["ide-theme"]},
    {"whole": 5}, {"tie": "x", "facts": []}, [], None, "x", 7, {"at": 5}, {}, {"define": [{}]},
    {"wide": True, "facts": [{"value": 1 << 70}]}, {"undoes": 9, "facts": []},
    {"actor": 5, "facts": []},
]  # fmt: skip


def odd_line(random: Random, db: Database) -> str:
    """Give lines other JSON, as a program that knows the format would."""
    place = random.choice([each["place"] for each in rows(db, "places") if each["last"]])
    bodies = bodies_of(db, place)
    at = random.randrange(len(bodies))
    number, when, body = bodies[at]
    entry = orjson.loads(body)
    how = random.randrange(5)
    if how == 0:
        entry = random.choice(EXTRA)
    elif how == 1:
        entry = {**entry, random.choice([*entry, "actor", "reason", "tie"]): odd_json(random)}
    else:
        target = entry
        found = entry.get("facts") or [entry.get("turn")]
        if isinstance(found, list) and found and isinstance(found[0], dict):
            target = random.choice(found)
        more = ["source", "metadata", "expires_at", "since", "until", "confirmed", "proposed",
                "purged",
                "superseded", "importance", "values", "value", "stated", "edited"]  # fmt: skip
        key = random.choice([*target, *target, *more])
        if random.random() < 0.15:
            target.pop(key, None)
        else:
            target[key] = odd_json(random)
        if how == 2:
            entry = orjson.loads(orjson.dumps(entry))
            bodies.append((bodies[-1][0] + 1, when, to_json(entry)))  # the id twice
    if random.random() < 0.1:
        when = random.choice(
            [0, -1, 253402300799999999, 253402300800000000, (1 << 63) - 1, -(1 << 62)]
        )
    bodies[at] = (number, when, to_json(entry))  # orjson refuses integers beyond 64 bits
    resealed(db, place, bodies)
    return "line"


def odd_names(random: Random, db: Database) -> str:
    """Give a place names in a form that no program of factmem writes, under their right keys."""
    ((store,),) = db.execute("SELECT id FROM stores")
    old = random.choice(rows(db, "places"))
    names = orjson.loads(old["names"])
    names[random.randrange(4)] = random.choice(
        ["//anna", "anna/", "/", "", "\0", "a\0b", None, 5, [], {}, True, "A" * 3000, "anna ",
         "Anna",
         "e\u0301", "\ufb01", "concepts", "agent", "nobody", "x/../y", "chat\n1", "\u202eanna"]
    )  # fmt: skip
    if random.random() < 0.1:
        names = random.choice(
            ["abcd", [], [1, 2, 3, 4, 5], {"a": 1, "b": 2, "c": 3, "d": 4}, 7, None]
        )
    body = orjson.dumps(names)
    sealing = Sealing(store, has_checksums=True)
    key = old["place"]
    columns: dict[str, Any] = {"names": body}
    with suppress(ValueError, TypeError, IndexError, AttributeError):
        if random.random() < 0.8 and isinstance(names, list):
            identity = tuple(names)
            key = sealing.key("place", identity)
            owner = owner_of(identity)
            columns["owner"] = sealing.key("place", owner)
            columns["scope"] = sealing.key("scope", owner[:2])
            columns["subject"] = subject_path(sealing, *owner[2:])
    bodies = bodies_of(db, old["place"])
    db.execute("DELETE FROM entries WHERE place = ?", [old["place"]])
    db.execute("UPDATE places SET place = ? WHERE place = ?", [key, old["place"]])
    resealed(db, key, bodies, **columns)
    return "names"


def odd_counters(random: Random, db: Database) -> str:
    """Counters that fit each other."""
    place = random.choice([each["place"] for each in rows(db, "places")])
    bodies = bodies_of(db, place)
    column = random.choice(["made", "snapshot", "last", "recorded_at", "bytes", "purged"])
    if random.random() < 0.3:
        bodies = [(odd_number(random, number), at, body) for number, at, body in bodies[:1]]
    resealed(db, place, bodies, **{column: odd_number(random, 5)})
    return column


class Copies(NamedTuple):
    """What an attacker has kept."""

    early: bytes
    """The database at an earlier time."""
    log: bytes
    """The log of a killed process, of an earlier time too."""
    other: Path
    """The database of another folder under the same key."""


def odd_bytes_of_file(random: Random, folder: Path, copies: Copies) -> str:
    kind = random.choice(list(BY_BYTES))
    path = folder / "facts.db"
    older = [copies.early]
    path.write_bytes(BY_BYTES[kind](random, path.read_bytes(), older))
    return kind


def odd_log(random: Random, folder: Path, copies: Copies) -> str:
    """The log of a killed process, changed; and a log where there was none."""
    path = folder / "facts.db-wal"
    content = copies.log
    at = random.randrange(len(content))
    how = random.randrange(6)
    if how == 0:
        content = content[:at]
    elif how == 1:
        content = content[:at] + random.randbytes(16) + content[at + 16 :]
    elif how == 2:
        content = content[:32] + content[32 + 4120 :]
    elif how == 3:
        content = random.randbytes(5000)
    elif how == 4:
        content = content[:32] + content[32:][::-1]
    path.write_bytes(content)
    if how == 5:
        (folder / "facts.db-shm").write_bytes(random.randbytes(32768))
    return f"log {how}"


def swap_database(random: Random, folder: Path, copies: Copies) -> str:
    """Put the database of another folder under the same key here."""
    shutil.copyfile(copies.other, folder / "facts.db")
    return "swapped"


def odd_files(random: Random, folder: Path, copies: Copies) -> str:
    """Files beside the database, as another program or a restored copy leaves them."""
    name = random.choice(["reserve", "lock", "facts.db-journal", "facts.db"])
    path = folder / name
    how = random.randrange(5)
    if how == 0:
        path.unlink(missing_ok=True)
    elif how == 1:
        path.write_bytes(b"")
    elif how == 2:
        path.write_bytes(random.randbytes(random.choice([1, 100, 1 << 20])))
    elif how == 3:
        path.unlink(missing_ok=True)
        path.mkdir()
    else:
        path.unlink(missing_ok=True)
        path.symlink_to(copies.other)
    return f"{name} {how}"


BY_SQL: dict[str, Callable[[Random, Database], str]] = {
    "column changed": change_column,
    "rows deleted": delete_rows,
    "rows inserted": insert_rows,
    "noted as erased": note_erased,
    "place hidden": change_owner,
    "odd object": odd_object,
}
SEALED_AGAIN: dict[str, Callable[[Random, Database], str]] = {
    "line": odd_line,
    "names": odd_names,
    "counters": odd_counters,
}
"""What only a plain store can be given."""
BY_FILES: dict[str, Callable[[Random, Path, Copies], str]] = {
    "bytes": odd_bytes_of_file,
    "log": odd_log,
    "database swapped": swap_database,
    "files": odd_files,
}
