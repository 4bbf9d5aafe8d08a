"""The SQL of reads and saves, and text forms of arrays.

Every statement is one round trip. None needs more than READ COMMITTED, a unique key and a row lock.
"""

from collections.abc import Iterable

from factmem.providers._postgres.exchanges import Statement

LARGEST_ANSWER = 20_000
"""Entries of one place in one answer: a few megabytes."""

_READ = """
SELECT k.ord, p.made, p.snapshot, p.last, p.bytes,
       CASE WHEN is_followed THEN NULL ELSE p.names END,
       CASE WHEN is_same THEN NULL ELSE p.data_key END,
       CASE WHEN is_same THEN NULL ELSE p.tail END,
       p.folded, e.numbers, e.ats, e.lines
FROM {known} AS k (ord, place, made, snapshot, last)
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
) e ON NOT is_same AND p.folded <= known
"""
"""Returns no lines if some are in chunks, which must be read first."""

READ_ONE = Statement(
    "read one",
    _READ.format(known="(VALUES (1::bigint, %s::uuid, %s::bigint, %s::bigint, %s::bigint))"),
    is_write=False,
)
"""Twice as fast for one place as the statement for many."""

READ_MANY = Statement(
    "read many",
    _READ.format(
        known="(SELECT ord, u.place, u.made, u.snapshot, u.last FROM unnest(%s::uuid[], "
        "%s::bigint[], %s::bigint[], %s::bigint[]) WITH ORDINALITY "
        "AS u (place, made, snapshot, last, ord))"
    ),
    is_write=False,
)

_COLUMNS = "place, scope, subject, names, made, last, bytes, mark, recorded_at, store"

_TAKE_NUMBERS = """
    ON CONFLICT (place) DO UPDATE SET
        last = p.last + excluded.last,
        bytes = p.bytes + excluded.bytes,
        mark = coalesce(nullif(excluded.mark, 0), p.mark),
        recorded_at = greatest(p.recorded_at, excluded.recorded_at)
    WHERE p.void_marks IS NULL OR NOT excluded.mark = ANY (p.void_marks)
    RETURNING p.place, p.made, p.snapshot, p.last, p.bytes, p.recorded_at, p.data_key, p.tail, p.folded
"""

_HEADS = f"""
    INSERT INTO factmem.places AS p ({_COLUMNS})
    SELECT h.place, h.scope, h.subject, h.names, h.made, h.last, h.bytes, q.mark, q.at, q.store
    FROM (SELECT %s::bigint AS mark, %s::bigint AS at, %s::bigint AS store) q,
         unnest(%s::uuid[], %s::uuid[], %s::uuid[], %s::bytea[], %s::bigint[], %s::bigint[],
                %s::bigint[]) AS h (place, scope, subject, names, made, last, bytes)
    {_TAKE_NUMBERS}
"""

TAKE_NUMBERS = Statement("take numbers", _HEADS)
"""Locks the rows of places, creates missing ones, and increases their counters."""

APPEND_MANY = Statement(
    "append many",
    f"""
WITH heads AS ({_HEADS}), added AS (
    INSERT INTO factmem.entries (place, number, at, mark, store, line)
    SELECT e.place, heads.last - e.behind, heads.recorded_at, %s::bigint, %s::bigint, e.line
    FROM unnest(%s::uuid[], %s::bigint[], %s::bytea[]) AS e (place, behind, line)
    JOIN heads USING (place)
)
SELECT encode(uuid_send(place), 'hex'), made, snapshot, last, bytes, recorded_at, folded FROM heads
""",
)
"""Saves a plain batch: rows, numbers and lines in one statement and one commit."""

APPEND_ONE = Statement(
    "append one",
    f"""
WITH head AS (
    INSERT INTO factmem.places AS p ({_COLUMNS})
    VALUES (%s::uuid, %s::uuid, %s::uuid, %s::bytea, %s::bigint, %s::bigint, %s::bigint,
            %s::bigint, %s::bigint, %s::bigint)
    {_TAKE_NUMBERS}
), added AS (
    INSERT INTO factmem.entries (place, number, at, mark, store, line)
    SELECT place, last, recorded_at, %s::bigint, %s::bigint, %s::bytea FROM head
)
SELECT encode(uuid_send(place), 'hex'), made, snapshot, last, bytes, recorded_at, folded FROM head
""",
)
"""Saves one plain entry; scalars take half the time of arrays with one element."""

_INSERT = """
INSERT INTO factmem.entries (place, number, at, mark, store, line)
SELECT place, number, at, mark, %s::bigint, line
FROM unnest(%s::uuid[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bytea[])
    AS e (place, number, at, mark, line)
"""

INSERT = Statement("insert", _INSERT)

_SET_TAILS = """
UPDATE factmem.places AS p SET
    tail = t.tail, names = coalesce(t.names, p.names), data_key = coalesce(t.data_key, p.data_key)
FROM unnest(%s::uuid[], %s::bytea[], %s::bytea[], %s::bytea[]) AS t (place, tail, names, data_key)
WHERE p.place = t.place
"""
"""Names and data keys are NULL except for places created in this transaction."""

INSERT_SEALED = Statement("insert sealed", f"WITH added AS ({_INSERT}) {_SET_TAILS}")
"""Saves sealed lines, whose numbers are known only when the row is locked."""

READ_CHUNKS = """
SELECT p.made, p.snapshot, p.data_key, c.first, c.directory, c.lines
FROM factmem.places p LEFT JOIN LATERAL (
    SELECT first, directory, lines FROM factmem.chunks
    WHERE chunks.place = p.place AND last > %s ORDER BY first LIMIT %s
) c ON true
WHERE p.place = %s ORDER BY c.first
"""

READ_DIRECTORIES = """
SELECT p.made, p.snapshot, p.data_key, c.first, c.directory
FROM factmem.places p LEFT JOIN factmem.chunks c USING (place) WHERE p.place = %s ORDER BY c.first
"""

READ_SLICES = """
SELECT substring(c.lines FROM k.start FOR k.size)
FROM unnest(%s::bigint[], %s::int[], %s::int[]) WITH ORDINALITY AS k (first, start, size, ord)
JOIN factmem.places p ON p.place = %s AND p.made = %s AND p.snapshot = %s
JOIN factmem.chunks c ON c.place = p.place AND c.first = k.first
ORDER BY k.ord
"""

READ_LINES = """
SELECT number, at, mark, line FROM factmem.entries
WHERE place = %s AND number > %s ORDER BY number LIMIT %s
"""

COUNT_LINES = "SELECT count(*) FROM factmem.entries WHERE place = %s AND number > %s"

LAST_CHUNK = """
SELECT first, directory FROM factmem.chunks WHERE place = %s ORDER BY first DESC LIMIT 1
"""

ADD_CHUNK = """
INSERT INTO factmem.chunks (place, first, last, store, marks, directory, lines)
VALUES (%s, %s, %s, %s, %s::bigint[], %b, %b)
"""

SET_FOLDED = "UPDATE factmem.places SET folded = %s WHERE place = %s"

TAKE_CHUNK = """
DELETE FROM factmem.chunks WHERE place = %s AND first <= %s AND last >= %s
RETURNING first, marks, directory, lines
"""

DELETE_CHUNKS = "DELETE FROM factmem.chunks WHERE place = %s RETURNING marks"

DELETE_UP_TO = "DELETE FROM factmem.entries WHERE place = %s AND number <= %s"

FIND_CHUNK = """
SELECT p.data_key, c.first, c.directory, c.lines
FROM factmem.places p JOIN factmem.chunks c USING (place)
WHERE p.place = %s AND %s BETWEEN c.first AND c.last
"""

VOID_MARKS = """
UPDATE factmem.places SET void_marks = (%s::bigint[] || void_marks)[:8]
WHERE place = ANY (%s::uuid[])
"""
"""Makes a save that is still in transit add nothing when it arrives."""

FIND_MARKS = """
SELECT mark FROM factmem.places WHERE place = ANY (%s::uuid[]) AND mark = ANY (%s::bigint[])
UNION ALL
SELECT mark FROM factmem.entries WHERE place = ANY (%s::uuid[]) AND mark = ANY (%s::bigint[])
UNION ALL
SELECT mark FROM factmem.chunks, unnest(marks) AS mark
WHERE place = ANY (%s::uuid[]) AND mark = ANY (%s::bigint[])
LIMIT 1
"""

TIME = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

LOCK = """
SELECT made, snapshot, last, names, data_key FROM factmem.places WHERE place = %s FOR UPDATE
"""

SET_KEYS = "UPDATE factmem.stores SET slots = %s, generation = %s WHERE store = %s"

LIST_OUTDATED = """
SELECT place FROM factmem.places
WHERE store = %s AND place > %s::uuid AND substring(data_key FROM 1 FOR 4) <> %b
ORDER BY place LIMIT %s
"""

LOCK_DATA_KEYS = """
SELECT place, data_key FROM factmem.places WHERE place = ANY (%s::uuid[]) ORDER BY place FOR UPDATE
"""

SET_DATA_KEYS = """
UPDATE factmem.places AS p SET data_key = k.data_key
FROM unnest(%s::uuid[], %s::bytea[]) AS k (place, data_key) WHERE p.place = k.place
"""

COUNT_PLACES = "SELECT count(*) FROM factmem.places WHERE store = %s"

COUNT_ANCHOR = """
UPDATE factmem.stores SET anchors = anchors + 1 WHERE store = %s RETURNING anchors
"""

LIST_ENDS = """
SELECT p.place, p.made, p.snapshot, p.last, e.at, e.line
FROM factmem.places p LEFT JOIN factmem.entries e ON e.place = p.place AND e.number = p.last
WHERE p.store = %s AND p.place > %s::uuid ORDER BY p.place LIMIT %s
"""

LIST_ROWS = """
SELECT place, made, scope, subject, names, data_key FROM factmem.places
WHERE store = %s AND place > %s::uuid ORDER BY place LIMIT %s
"""

FIND_ENDS = """
SELECT p.place, p.made, p.snapshot, p.last, e.at, e.line
FROM unnest(%s::uuid[], %s::bigint[]) AS k (place, number)
JOIN factmem.places p ON p.place = k.place
LEFT JOIN factmem.entries e ON e.place = k.place AND e.number = k.number
"""
"""Returns the ends of places, and the entries that an anchor recorded as their last."""

READ_MOMENT = """
SELECT s.erasures, p.made FROM factmem.stores s LEFT JOIN factmem.places p ON p.place = %s
WHERE s.store = %s
"""

COUNT_ERASURE = """
UPDATE factmem.stores SET erasures = erasures + 1 WHERE store = %s RETURNING erasures
"""

READ_ERASURES = """
SELECT p.place, p.made, p.purged, s.erasures FROM factmem.places p, factmem.stores s
WHERE p.place = ANY (%s::uuid[]) AND s.store = %s
"""

SET_PURGED = "UPDATE factmem.places SET purged = %s WHERE place = %s"

FIRST_PLACE = "0" * 32
"""Comes before every key of a place."""

DELETE_EMPTY = "DELETE FROM factmem.places WHERE place = ANY (%s::uuid[]) AND last = 0"

READ_MARKS = "SELECT number, mark FROM factmem.entries WHERE place = %s"

DELETE_FROM = "DELETE FROM factmem.entries WHERE place = %s AND number >= %s"

DELETE_INDEX = "DELETE FROM factmem.indexes WHERE place = %s"

DELETE_PLACE = "DELETE FROM factmem.places WHERE place = %s"

SET_EDITED = """
UPDATE factmem.places SET snapshot = snapshot + 1, bytes = %s WHERE place = %s
"""

READ_INDEX = """
SELECT p.data_key, i.bytes FROM factmem.indexes i JOIN factmem.places p USING (place)
WHERE place = %s
"""

WRITE_INDEX = """
INSERT INTO factmem.indexes (place, store, bytes) VALUES (%s, %s, %b)
ON CONFLICT (place) DO UPDATE SET bytes = excluded.bytes
"""

LIST = """
SELECT replace(place::text, '-', ''), names, data_key FROM factmem.places
WHERE store = %s AND place > %s::uuid {where} ORDER BY place LIMIT %s
"""
"""Keys as strings: a `uuid.UUID` takes longer to make than the rest of a row."""


def numbers(values: Iterable[int]) -> str:
    """Return integers as the text of an array; psycopg takes ten times as long for a list."""
    return "{" + ",".join(map(str, values)) + "}"


def keys(values: Iterable[str]) -> str:
    """Return keys in hex as the text of an array."""
    return "{" + ",".join(values) + "}"


def byte_strings(values: Iterable[bytes | None]) -> str:
    """Return bytes as the text of an array."""
    return "{" + ",".join("NULL" if v is None else f'"\\\\x{v.hex()}"' for v in values) + "}"
