"""The SQL that both databases run as it stands.

None of it needs more than READ COMMITTED, a unique key and a row lock.
"""

from collections.abc import Iterable
from typing import TypeVar

K = TypeVar("K")

TABLES = ("stores", "places", "entries", "topics", "indexes")
"""The tables of the core."""

FIND_STORE = """
SELECT store, id, mode, slots, generation, anchors FROM factmem.stores WHERE name = %s
"""

MAKE_STORE = """
INSERT INTO factmem.stores (name, id, mode, slots, generation)
VALUES (%s, %s, %s, %s, 1) ON CONFLICT (name) DO NOTHING
"""

SET_KEYS = "UPDATE factmem.stores SET slots = %s, generation = %s WHERE store = %s"

COUNT_ANCHOR = """
UPDATE factmem.stores SET anchors = anchors + 1 WHERE store = %s RETURNING anchors
"""

COUNT_ERASURE = """
UPDATE factmem.stores SET erasures = erasures + 1 WHERE store = %s RETURNING erasures
"""

READ_MOMENT = """
SELECT s.erasures, p.made FROM factmem.stores s LEFT JOIN factmem.places p ON p.place = %s
WHERE s.store = %s
"""

READ_ERASURES = """
SELECT p.place, p.made, p.purged, s.erasures FROM factmem.places p, factmem.stores s
WHERE s.store = %s AND p.place IN ({keys})
"""

LOCK = """
SELECT made, snapshot, last, names, data_key FROM factmem.places WHERE place = %s FOR UPDATE
"""

FIND_BY_TOPIC = """
SELECT e.number, e.at, e.line FROM factmem.topics t CROSS JOIN factmem.entries e
WHERE t.place = %s AND t.topic = %s AND e.place = t.place AND e.number = t.number ORDER BY t.number
"""
"""A cross join, because SQLite would otherwise read all lines of the place first."""

FIND_HEAD = """
SELECT bytes, recorded_at, names, data_key FROM factmem.places WHERE place = %s
"""

SET_EDITED = """
UPDATE factmem.places SET snapshot = snapshot + 1, bytes = %s WHERE place = %s
"""

SET_PURGED = "UPDATE factmem.places SET purged = %s WHERE place = %s"

DELETE_EMPTY = "DELETE FROM factmem.places WHERE last = 0 AND place IN ({keys})"

DELETE_LINES = "DELETE FROM factmem.entries WHERE place = %s AND number IN ({keys})"

DELETE_TOPICS = "DELETE FROM factmem.topics WHERE place = %s AND number IN ({keys})"

DELETE_ALL_LINES = "DELETE FROM factmem.entries WHERE place = %s"

DELETE_ALL_TOPICS = "DELETE FROM factmem.topics WHERE place = %s"

DELETE_INDEX = "DELETE FROM factmem.indexes WHERE place = %s"

DELETE_PLACE = "DELETE FROM factmem.places WHERE place = %s"

READ_INDEX = """
SELECT p.data_key, i.bytes FROM factmem.indexes i
JOIN factmem.places p ON p.place = i.place WHERE p.place = %s
"""

WRITE_INDEX = """
INSERT INTO factmem.indexes (place, store, bytes) VALUES (%s, %s, %s)
ON CONFLICT (place) DO UPDATE SET bytes = excluded.bytes
"""

LIST = """
SELECT place, names, data_key FROM factmem.places
WHERE store = %s AND place > %s AND bytes > 0 {where} ORDER BY place LIMIT %s
"""
"""A place whose history was purged as a whole keeps its row, so that anchors stay true."""

LIST_ENDS = """
SELECT p.place, p.made, p.snapshot, p.last, e.at, e.line
FROM factmem.places p LEFT JOIN factmem.entries e ON e.place = p.place AND e.number = p.last
WHERE p.store = %s AND p.place > %s ORDER BY p.place LIMIT %s
"""

LIST_ROWS = """
SELECT place, made, scope, subject, names, data_key FROM factmem.places
WHERE store = %s AND place > %s ORDER BY place LIMIT %s
"""

FIND_END = """
SELECT p.place, p.made, p.snapshot, p.last, e.at, e.line FROM factmem.places p
LEFT JOIN factmem.entries e ON e.place = p.place AND e.number = %s
WHERE p.store = %s AND p.place = %s
"""
"""Returns the end of a place, and the line that an anchor recorded as its last."""

LIST_OUTDATED = """
SELECT place FROM factmem.places
WHERE store = %s AND place > %s AND substr(data_key, 1, 4) <> %s ORDER BY place LIMIT %s
"""

LOCK_DATA_KEYS = """
SELECT place, data_key FROM factmem.places WHERE place IN ({keys}) ORDER BY place FOR UPDATE
"""

SET_DATA_KEY = "UPDATE factmem.places SET data_key = %s WHERE place = %s"

COUNT_PLACES = "SELECT count(*) FROM factmem.places WHERE store = %s"

FIRST_PLACE = bytes(16)
"""Comes before every key of a place."""


def among(query: str, keys: Iterable[K]) -> tuple[str, list[K]]:
    """Return a statement about `{keys}`, and the keys as its last parameters."""
    given = list(keys)
    return query.format(keys=", ".join(["%s"] * len(given))), given
