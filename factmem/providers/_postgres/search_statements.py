"""The SQL of searches: the rows of items, their terms and their vectors."""

READ_STATES = """
SELECT k.place, p.made, p.snapshot, p.last, p.bytes, p.recorded_at,
       s.search, s.number, s.turn, coalesce(s.facts, 0),
       EXISTS (SELECT 1 FROM factmem.items i WHERE i.place = k.place AND i.expires_at <= %s)
FROM unnest(%s::uuid[]) AS k (place)
JOIN factmem.places p ON p.place = uuid_send(k.place)
LEFT JOIN factmem.searches s ON s.place = k.place AND s.made = p.made
"""

READ_PLACES = """
SELECT k.place, p.made, p.snapshot, p.last, p.bytes, p.recorded_at,
       s.search, s.number, s.turn, coalesce(s.facts, 0),
       EXISTS (SELECT 1 FROM factmem.items i WHERE i.place = k.place AND i.expires_at <= %s),
       coalesce(s.length, 0), t.terms, t.holders,
       v.space, v.upto, v.changes, v.counted, v.total, v.is_indexed,
       EXISTS (SELECT 1 FROM factmem.items i WHERE i.place = k.place AND i.item > v.upto),
       {few}, row_security_active('factmem.items')
FROM unnest(%s::uuid[]) AS k (place)
JOIN factmem.places p ON p.place = uuid_send(k.place)
LEFT JOIN factmem.searches s ON s.place = k.place AND s.made = p.made
LEFT JOIN LATERAL (
    SELECT array_agg(term) AS terms, array_agg(holders) AS holders FROM factmem.terms t
    WHERE t.place = k.place AND t.term = ANY (%s::text[])
) t ON true
LEFT JOIN {space} ON v.place = k.place
"""
"""Without a space its columns are NULL. `coalesce` is not leakproof: under row level security the server
would read all rows of the place."""

SPACE = """(SELECT * FROM factmem.spaces WHERE model = %s AND dimensions = %s) v"""

NO_SPACE = """(
    SELECT NULL::uuid, NULL::int, NULL::bigint, NULL::bigint, NULL::bigint, NULL::real[], NULL::bool
) v (place, space, upto, changes, counted, total, is_indexed)"""

COUNT_FEW = """(SELECT count(*) FROM (
    SELECT 1 FROM factmem.items i WHERE i.place = k.place {filter} LIMIT %s
) AS few)"""

MAKE_SEARCH = """
INSERT INTO factmem.searches (place, store, made) VALUES (%s, %s, %s) ON CONFLICT (place) DO NOTHING
"""

IS_SEARCHED = "SELECT 1 FROM factmem.searches WHERE place = %s"

CLAIM = """
UPDATE factmem.searches SET turn = turn + 1, number = coalesce(%s, number)
WHERE place = %s AND made = %s AND turn = %s RETURNING search
"""
"""If several processes have computed the same rows, one of them writes them."""

READ_DUE = "SELECT fact FROM factmem.items WHERE place = %s AND expires_at <= %s"

READ_TOPIC = "SELECT fact FROM factmem.items WHERE place = %s AND topic = %s LIMIT 1"

LIST_ROWS = """
SELECT item, key, digest, conversation, message FROM factmem.items
WHERE place = %s AND (topic = ANY (%s::bigint[]) OR key = ANY (%s::bigint[]))
"""

LIST_ALL_ROWS = """
SELECT item, key, digest, conversation, message FROM factmem.items WHERE place = %s
"""

READ_AROUND = """
SELECT DISTINCT i.item, i.key, i.message, i.conversation, i.fact
FROM unnest(%s::bigint[], %s::bigint[]) AS m (conversation, message)
JOIN factmem.items i ON i.place = %s AND i.conversation = m.conversation
    AND i.message BETWEEN m.message - %s AND m.message + %s
"""

REMOVE = """
WITH gone AS (
    DELETE FROM factmem.items i WHERE i.place = %s AND ({condition}) RETURNING text, length, words
), counts AS (
    SELECT substr(lexeme, strpos(lexeme, ':') + 1) COLLATE "C" AS term, count(*) AS few
    FROM gone, unnest(words) WHERE 'A' = ANY (weights) GROUP BY 1
), ended AS (
    DELETE FROM factmem.terms t USING counts c
    WHERE t.place = %s AND t.term = c.term AND t.holders <= c.few
), lessened AS (
    UPDATE factmem.terms t SET holders = holders - c.few FROM counts c
    WHERE t.place = %s AND t.term = c.term AND t.holders > c.few
), counted AS (
    UPDATE factmem.searches SET facts = facts - (SELECT count(*) FROM gone),
        length = length - (SELECT coalesce(sum(length), 0) FROM gone)
    WHERE place = %s AND EXISTS (SELECT 1 FROM gone)
)
SELECT text FROM gone
"""

BY_ITEM = "i.item = ANY (%s::bigint[])"

BY_TOPIC = "i.topic = ANY (%s::bigint[]) OR i.conversation = ANY (%s::bigint[])"

ADD = """
INSERT INTO factmem.items (place, store, topic, key, digest, text, conversation, message, heard_at,
    said_at, importance, kind, expires_at, metadata, held, length, words, fact)
SELECT %s::uuid, %s::int, topic, key, digest, text, conversation, message, heard_at, said_at,
    importance, kind, expires_at, metadata::bigint[], held::bigint[], length, words::tsvector, fact
FROM unnest(%s::bigint[], %s::bigint[], %s::uuid[], %s::uuid[], %s::bigint[], %s::bigint[],
    %s::float8[], %s::float8[], %s::float8[], %s::smallint[], %s::bigint[], %s::text[], %s::text[],
    %s::float8[], %s::text[], %s::bytea[]) AS r (topic, key, digest, text, conversation, message,
    heard_at, said_at, importance, kind, expires_at, metadata, held, length, words, fact)
"""

COUNT_ADDED = """
UPDATE factmem.searches SET facts = facts + %s, length = length + %s WHERE place = %s
"""

COUNT_TERMS = """
INSERT INTO factmem.terms AS t (place, term, store, holders)
SELECT %s::uuid, n.term, %s::int, n.holders FROM unnest(%s::text[], %s::bigint[]) AS n (term, holders)
ON CONFLICT (place, term) DO UPDATE SET holders = t.holders + excluded.holders
"""

RESTART = "UPDATE factmem.searches SET number = 0, turn = turn + 1 WHERE place = %s"
"""The next search compares all rows with what is current."""

ERASE = (
    "DELETE FROM factmem.items WHERE place = %s",
    "DELETE FROM factmem.terms WHERE place = %s",
    "DELETE FROM factmem.spaces WHERE place = %s",
    "DELETE FROM factmem.searches WHERE place = %s",
)

HAS_VECTORS = "SELECT 1 WHERE to_regclass('factmem.vectors') IS NOT NULL"

# Vectors

ERASE_VECTORS = """
DELETE FROM factmem.vectors WHERE space IN (SELECT space FROM factmem.spaces WHERE place = %s)
"""

REMOVE_VECTORS = """
WITH gone AS (
    DELETE FROM factmem.vectors v USING factmem.spaces s
    WHERE s.place = %s AND v.space = s.space AND v.text = ANY (%s::uuid[])
        AND NOT EXISTS (SELECT 1 FROM factmem.items i WHERE i.place = s.place AND i.text = v.text)
    RETURNING v.space
)
UPDATE factmem.spaces s SET changes = s.changes + g.few
FROM (SELECT space, count(*) AS few FROM gone GROUP BY space) g WHERE s.space = g.space
"""

FORGET_TOTALS = """
UPDATE factmem.spaces SET total = NULL, counted = 0, changes = changes + 1 WHERE place = %s
"""

MAKE_SPACE = """
INSERT INTO factmem.spaces (place, store, model, dimensions) VALUES (%s, %s, %s, %s)
ON CONFLICT (place, model, dimensions) DO NOTHING
"""

READ_SPACES = """
SELECT place, space, upto, changes, counted, total, is_indexed FROM factmem.spaces
WHERE place = ANY (%s::uuid[]) AND model = %s AND dimensions = %s
"""

READ_NEXT = """
SELECT i.item, i.text, CASE WHEN EXISTS (
        SELECT 1 FROM factmem.vectors v WHERE v.space = %s AND v.text = i.text
    ) THEN NULL ELSE i.fact END
FROM (
    SELECT item, text, fact FROM factmem.items WHERE place = %s AND item > %s ORDER BY item LIMIT %s
) i ORDER BY i.item
"""

SET_UPTO = "UPDATE factmem.spaces SET upto = greatest(upto, %s) WHERE space = %s"

LOCK_TEXTS = """
SELECT DISTINCT text FROM (
    SELECT text FROM factmem.items WHERE place = %s AND text = ANY (%s::uuid[]) FOR KEY SHARE
) AS held
"""
"""No purge deletes these strings before their vectors are committed."""

ADD_VECTORS = """
INSERT INTO factmem.vectors (space, store, text, vector)
SELECT %s::int, %s::int, text, vector::{extension}.halfvec
FROM unnest(%s::uuid[], %s::text[]) AS r (text, vector)
ON CONFLICT (space, text) DO NOTHING
"""

LOCK_SPACES = "SELECT 1 FROM factmem.spaces WHERE place = %s ORDER BY space FOR UPDATE"
"""No other transaction inserts vectors, or moves them into a partition, until this one ends."""

COUNT_VECTORS = "UPDATE factmem.spaces SET changes = changes + %s WHERE space = %s"

SET_TOTAL = """
UPDATE factmem.spaces SET total = t.total, counted = t.few, changes = 0
FROM (SELECT sum(vector::{extension}.vector)::real[] AS total, count(*) AS few
      FROM factmem.vectors WHERE space = {space} AND vector IS NOT NULL) t
WHERE space = {space} RETURNING counted, spaces.total
"""

LOCK_SPACE = "SELECT is_indexed FROM factmem.spaces WHERE space = %s FOR UPDATE"

MORE_MEMORY = "SELECT set_config('maintenance_work_mem', '256MB', true)"

LIST_UNINDEXED = """
SELECT space, dimensions FROM factmem.spaces WHERE counted >= %s AND NOT is_indexed
"""

MAKE_PARTITION = (
    "CREATE TABLE factmem.vectors_{space} (LIKE factmem.vectors INCLUDING ALL)",
    "INSERT INTO factmem.vectors_{space} SELECT * FROM factmem.vectors WHERE space = {space}",
    "DELETE FROM factmem.vectors WHERE space = {space}",
    """
    CREATE INDEX ON factmem.vectors_{space}
    USING hnsw ((vector::{extension}.halfvec({dimensions})) {extension}.halfvec_ip_ops)""",
    "ALTER TABLE factmem.vectors ATTACH PARTITION factmem.vectors_{space} FOR VALUES IN ({space})",
    "UPDATE factmem.spaces SET is_indexed = true WHERE space = {space}",
    "ANALYZE factmem.vectors_{space}",
)
"""Each large place has its own HNSW graph. A graph over many places would return the nearest vectors
of all places, and drop those of other places afterwards."""

# Questions. `Candidates` fills in the names in braces.

COLUMNS = """
i.place, i.fact, i.topic, i.length, i.heard_at, i.said_at, i.importance, i.conversation, i.message,
i.words, i.item"""

GIVEN = """
WITH given AS MATERIALIZED (
    SELECT asked, ranked,
        ranked OPERATOR({extension}.-) ranked OPERATOR({extension}.-) ranked AS opposite
    FROM (
        SELECT %s::text::{extension}.halfvec AS asked, %s::text::{extension}.halfvec AS ranked
    ) AS sent
)
"""
"""The question's vectors. There is no operator that changes the sign of a vector."""

NO_COSINES = "NULL::float8, NULL::float8"

COSINES = """
-(v.vector OPERATOR({extension}.<#>) (SELECT asked FROM given)),
-(v.vector OPERATOR({extension}.<#>) (SELECT ranked FROM given))"""
"""The cosines, as products of vectors of length 1; the operator returns them with the sign changed."""

DISTANCE = """
v.vector::{extension}.halfvec({dimensions}) OPERATOR({extension}.<#>) (SELECT {direction} FROM given)"""
"""The indexed expression, with a fixed number of dimensions."""

NEARNESS = """
v.vector::{extension}.halfvec({dimensions}) OPERATOR({extension}.<#>) (
    SELECT {direction} FROM given WHERE set_config('hnsw.ef_search', '{most}', true) IS NOT NULL
        {iterating}
)"""
"""The same expression for `ORDER BY`. An index scan evaluates it when it starts and reads its settings
afterwards, so the settings need no separate statement and no transaction. With `strict_order` the scan
continues until enough rows pass a filter."""

ITERATING = "AND set_config('hnsw.iterative_scan', 'strict_order', true) IS NOT NULL"
"""A setting of pgvector 0.8 and later; earlier versions refuse it."""

READ_VERSION = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"

BY_WORDS = """
SELECT {columns}, {cosines}, NULL::float8
FROM (
    SELECT * FROM (
        SELECT * FROM factmem.items i WHERE {place} AND i.words @@ %s::tsquery {filter} LIMIT %s
    ) i ORDER BY ({score}) / (0.3 + 0.9 * i.length / %s) DESC LIMIT %s
) i {vectors}
"""
"""An approximation of BM25 that selects candidates: it takes each count as 1. The library scores them."""

IN_PLACE = "i.place = %s"

IN_PLACE_BY_WORD = "coalesce(i.place = %s, false)"
"""No index serves this form. Terms begin with the number of the place's search, so the index of words
finds the place's rows alone; before the server has statistics of a new place, it would rather scan all
of its rows. Under row level security the index of words cannot be used, as `@@` is not leakproof."""

WORD_SCORE = "CASE WHEN i.words @@ %s::tsquery THEN %s::float8 ELSE 0 END"

JOINED_VECTORS = """LEFT JOIN LATERAL (
    SELECT vector FROM factmem.vectors v
    WHERE v.space IN ({spaces}) AND v.text = i.text LIMIT 1
) v ON true"""
"""`LIMIT` and `OFFSET 0` keep the planner from merging a subquery: rows are looked up one by one, even
before the server has statistics of the tables."""

PART = "SELECT * FROM ({part}) AS found"
"""A part of a union; it may start with `WITH`."""

FARTHEST = """
SELECT %s::uuid, NULL::bytea, NULL::bigint, NULL::float8, NULL::float8, NULL::float8, NULL::float8,
    NULL::bigint, NULL::bigint, NULL::tsvector, NULL::bigint, {no_cosines}, -({distance})
FROM factmem.vectors v WHERE v.space = {space} AND v.vector IS NOT NULL ORDER BY {opposite} LIMIT 1
"""
"""The approximate minimum of all cosines in a place: the vector nearest to the opposite direction."""

NEAREST = """
SELECT {columns}, {cosines}, NULL::float8
FROM (
    SELECT text, vector FROM factmem.vectors v WHERE v.space = {space} AND v.vector IS NOT NULL
    ORDER BY {nearness} LIMIT %s
) v CROSS JOIN LATERAL (
    SELECT * FROM factmem.items i WHERE i.place = %s AND i.text = v.text OFFSET 0
) i
"""

NEAREST_OF_SOME = """
SELECT {columns}, {cosines}, NULL::float8
FROM factmem.vectors v CROSS JOIN LATERAL (
    SELECT * FROM factmem.items i WHERE i.place = %s AND i.text = v.text {filter} OFFSET 0
) i
WHERE v.space = {space} AND v.vector IS NOT NULL ORDER BY {nearness} LIMIT %s
"""

NEAREST_OF_FEW = """
WITH i AS MATERIALIZED (SELECT * FROM factmem.items i WHERE i.place = %s {filter})
SELECT {columns}, {cosines}, NULL::float8
FROM i CROSS JOIN LATERAL (
    SELECT vector FROM factmem.vectors v WHERE v.space = {space} AND v.text = i.text OFFSET 0
) v WHERE v.vector IS NOT NULL ORDER BY 13 DESC LIMIT %s
"""
"""Compares every row inside a narrow filter: an index scan would find few of them."""

BESIDE = """
SELECT {columns}, {cosines} FROM (
    SELECT DISTINCT i.item
    FROM unnest(%s::bigint[], %s::bigint[]) AS m (conversation, message)
    JOIN factmem.items i ON i.place = ANY (%s::uuid[]) AND i.conversation = m.conversation
        AND i.message BETWEEN m.message - %s AND m.message + %s
) n JOIN factmem.items i USING (item) {vectors} WHERE true {filter}
"""

OF_ONE_CONVERSATION = """
SELECT {columns}, {cosines}
FROM unnest(%s::bigint[]) AS c (conversation) CROSS JOIN LATERAL (
    SELECT * FROM factmem.items i
    WHERE i.place = ANY (%s::uuid[]) AND i.conversation = c.conversation AND i.message < 0 {filter}
    LIMIT %s
) i {vectors}
"""

SHARED_CONVERSATIONS = """
SELECT c.conversation FROM unnest(%s::uuid[]) AS p (place), unnest(%s::bigint[]) AS c (conversation)
WHERE EXISTS (SELECT 1 FROM factmem.items i
              WHERE i.place = p.place AND i.conversation = c.conversation AND i.message >= 0)
GROUP BY c.conversation HAVING count(*) > 1
"""

FIND_TOPICS = """
SELECT t.topic FROM unnest(%s::uuid[]) AS p (place), unnest(%s::bigint[]) AS t (topic)
WHERE EXISTS (SELECT 1 FROM factmem.items i WHERE i.place = p.place AND i.topic = t.topic)
GROUP BY t.topic HAVING count(*) > 1
"""

OTHERS = """
SELECT {columns}, NULL::float8, NULL::float8 FROM (
    SELECT *, row_number() OVER (PARTITION BY place, topic ORDER BY item) AS at
    FROM factmem.items WHERE place = ANY (%s::uuid[]) AND topic = ANY (%s::bigint[])
) i WHERE i.at = 1 OR i.held && %s::bigint[]
"""
"""One row of each keyword in each place is always included, because it has the type there."""
