"""PostgresSession: the statements of places in PostgreSQL's own SQL.

Each is one round trip for any number of places. Arrays are passed as text, because psycopg takes
ten times as long for a list.
"""

from collections.abc import Iterable, Mapping, Sequence

from factmem.providers._postgres.driver import Session
from factmem.providers._sql.sealing import Extent
from factmem.providers._sql.session import COLUMNS, End, Head, Line, Row
from factmem.providers._sql.session import Session as CoreSession

_READ = """
SELECT k.place, p.made, p.snapshot, p.last, p.bytes, p.recorded_at, p.purged, p.store,
       CASE WHEN is_followed THEN NULL ELSE p.scope END,
       CASE WHEN is_followed THEN NULL ELSE p.subject END,
       CASE WHEN is_followed THEN NULL ELSE p.owner END,
       CASE WHEN is_followed THEN NULL ELSE p.names END,
       CASE WHEN is_same THEN NULL ELSE p.data_key END,
       CASE WHEN is_same THEN NULL ELSE p.tail END,
       e.numbers, e.ats, e.lines
FROM {known} AS k (place, made, snapshot, last)
JOIN factmem.places p ON p.place = k.place
CROSS JOIN LATERAL (SELECT p.made = k.made AND p.snapshot = k.snapshot AS is_followed) o
CROSS JOIN LATERAL (SELECT is_followed AND p.last = k.last AS is_same,
                           CASE WHEN is_followed THEN k.last ELSE 0 END AS known) s
LEFT JOIN LATERAL (
    SELECT array_agg(number) AS numbers, array_agg(at) AS ats, array_agg(line) AS lines
    FROM (
        SELECT number, at, line FROM factmem.entries
        WHERE entries.place = k.place AND number > known
        ORDER BY number LIMIT %s::bigint
    ) AS unread
) e ON NOT is_same
"""

_READ_ONE = _READ.format(known="(VALUES (%s::bytea, %s::bigint, %s::bigint, %s::bigint))")
"""Twice as fast for one place as the statement for many."""

_READ_MANY = _READ.format(known="unnest(%s::bytea[], %s::bigint[], %s::bigint[], %s::bigint[])")

_HEADS = f"""
    INSERT INTO factmem.places AS p
        (place, scope, subject, names, owner, made, last, bytes, mark, recorded_at, store)
    SELECT h.*, q.mark, q.at, q.store
    FROM (SELECT %s::bigint AS mark, %s::bigint AS at, %s::int AS store) q,
         unnest(%s::bytea[], %s::bytea[], %s::bytea[], %s::bytea[], %s::bytea[], %s::bigint[],
                %s::bigint[], %s::bigint[])
             AS h (place, scope, subject, names, owner, made, last, bytes)
    ON CONFLICT (place) DO UPDATE SET
        last = p.last + excluded.last,
        bytes = p.bytes + excluded.bytes,
        mark = coalesce(nullif(excluded.mark, 0), p.mark),
        recorded_at = greatest(p.recorded_at, excluded.recorded_at)
    WHERE p.void_marks IS NULL OR NOT excluded.mark = ANY (p.void_marks)
    RETURNING {", ".join(f"p.{name.strip()}" for name in COLUMNS.split(","))}
"""

_APPEND = f"""
WITH heads AS ({_HEADS}), added AS (
    INSERT INTO factmem.entries (place, number, at, mark, store, line)
    SELECT heads.place, heads.last - e.behind, heads.recorded_at, %s::bigint, %s::int, e.line
    FROM heads JOIN unnest(%s::bytea[], %s::bigint[], %s::bytea[]) AS e (place, behind, line)
    ON e.place = heads.place
)
SELECT * FROM heads
"""
"""Saves a plain batch: rows, numbers and lines in one statement and one commit."""

_INSERT = """
INSERT INTO factmem.entries (place, number, at, mark, store, line)
SELECT place, number, at, mark, %s::int, line
FROM unnest(%s::bytea[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bytea[])
    AS e (place, number, at, mark, line)
"""

_INSERT_SEALED = f"""
WITH added AS ({_INSERT})
UPDATE factmem.places AS p SET
    tail = t.tail, names = coalesce(t.names, p.names), data_key = coalesce(t.data_key, p.data_key)
FROM unnest(%s::bytea[], %s::bytea[], %s::bytea[], %s::bytea[]) AS t (place, tail, names, data_key)
WHERE p.place = t.place
"""
"""Names and data keys are NULL except for places created in this transaction."""

_VOID_MARKS = """
UPDATE factmem.places SET void_marks = (%s::bigint[] || void_marks)[:8]
WHERE place = ANY (%s::bytea[])
"""

_FIND_MARKS = """
SELECT mark FROM factmem.places WHERE place = ANY (%s::bytea[]) AND mark = ANY (%s::bigint[])
UNION ALL
SELECT mark FROM factmem.entries WHERE place = ANY (%s::bytea[]) AND mark = ANY (%s::bigint[])
LIMIT 1
"""

_READ_MARKS = "SELECT number, mark FROM factmem.entries WHERE place = %s"


class PostgresSession(Session, CoreSession):
    most_lines, most_bytes = 20_000, 1 << 62
    """A few megabytes."""
    appends_at_once = True

    def select_store(self, number: int) -> None:
        self.configure({"factmem.store": str(number)})
        self.store = number

    def read_places(self, known: Mapping[bytes, Extent]) -> list[Row]:
        if len(known) == 1:
            ((place, extent),) = known.items()
            return self.rows(_READ_ONE, [place, *extent, self.most_lines])
        columns = zip(*known.values(), strict=True)
        return self.rows(_READ_MANY, [byte_strings(known), *map(numbers, columns), self.most_lines])

    def take_numbers(self, store: int, heads: Sequence[Head], mark: int, at: int) -> list[Row]:
        return self.rows(_HEADS, _columns(store, heads, mark, at))

    def append_plain(
        self, store: int, heads: Sequence[Head], lines: Sequence[Line], mark: int, at: int
    ) -> list[Row]:
        counts = {head.place: head.added for head in heads}
        # The numbers are not known yet, so each line says how many follow it.
        behind = numbers(counts[each.place] - 1 - each.number for each in lines)
        given = [*_columns(store, heads, mark, at), mark, store]
        given += [byte_strings(each.place for each in lines), behind]
        return self.rows(_APPEND, [*given, byte_strings(each.stored for each in lines)])

    def insert(self, store: int, lines: Sequence[Line], ends: Sequence[End]) -> None:
        given: list[object] = [store, byte_strings(each.place for each in lines)]
        given += [numbers(each.number for each in lines), numbers(each.at for each in lines)]
        given += [numbers(each.mark for each in lines), byte_strings(each.stored for each in lines)]
        if not ends:
            self.rows(_INSERT, given)
        else:
            given += [
                byte_strings(end.place for end in ends),
                byte_strings(end.tail for end in ends),
            ]
            given += [byte_strings(end.names for end in ends)]
            self.rows(_INSERT_SEALED, [*given, byte_strings(end.data_key for end in ends)])

    def find_mark(self, places: Sequence[bytes], marks: Sequence[int]) -> int | None:
        for (mark,) in self.rows(_FIND_MARKS, [byte_strings(places), numbers(marks)] * 2):
            return int(mark)
        return None

    def read_marks(self, place: bytes) -> Mapping[int, int]:
        return dict(self.rows(_READ_MARKS, [place]))

    def void_marks(self, places: Sequence[bytes], marks: Sequence[int]) -> None:
        self.rows(_VOID_MARKS, [numbers(marks), byte_strings(places)])


def _columns(store: int, heads: Sequence[Head], mark: int, at: int) -> list[object]:
    *names, made, added, size = zip(*heads, strict=True)
    return [mark, at, store, *map(byte_strings, names), *map(numbers, (made, added, size))]


def numbers(values: Iterable[int]) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def byte_strings(values: Iterable[bytes | None]) -> str:
    return "{" + ",".join("NULL" if v is None else f'"\\\\x{v.hex()}"' for v in values) + "}"
