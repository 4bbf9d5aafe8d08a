"""The SQL of searches: the rows of items, their terms and their vectors.

Three groups, by their callers: rows (`search_states`, `place_search`, `item_tables`), vectors
(`vector_spaces`), questions (`candidates`). Braces are filled with numbers, the schema of pgvector
and conditions written in this package; words, values and names of users are always parameters.
Types and operators of pgvector have their schema, so that the search path of a connection does not
matter.
"""

READ_PLACES = """
SELECT p.place, p.made, p.snapshot, p.last, p.bytes,
       coalesce(s.search, 0), coalesce(s.number, 0), coalesce(s.facts, 0), coalesce(s.length, 0),
       s.begins_at <= n.now IS TRUE OR
       EXISTS (SELECT 1 FROM factmem.items i WHERE i.place = p.place AND i.expires_at <= n.now),
       row_security_active('factmem.items'), t.terms, t.holders,
       EXISTS (SELECT 1 FROM factmem.items i WHERE i.place = p.place AND i.item > v.upto),
       v.space, v.upto, v.counted, v.total, v.is_indexed
FROM (SELECT %s::bigint) n (now) CROSS JOIN factmem.places p LEFT JOIN factmem.searches s ON s.place = p.place AND s.made = p.made
LEFT JOIN LATERAL (
    SELECT array_agg(term) AS terms, array_agg(holders) AS holders FROM factmem.terms t
    WHERE t.place = p.place AND t.term = ANY (%s::text[])
) t ON true
LEFT JOIN {space} ON v.place = p.place
WHERE p.place = ANY (%s::bytea[])
"""
"""Without a space its columns are NULL. `coalesce` is not leakproof: in a condition, under row level
security, the server would read all rows of the place."""

SPACE = "(SELECT * FROM factmem.spaces WHERE model = %s AND dimensions = %s) v"

NO_SPACE = """(
    SELECT NULL::bytea, NULL::int, NULL::bigint, NULL::bigint, NULL::real[], NULL::bool
) v (place, space, upto, counted, total, is_indexed)"""

# Rows. Each transaction that writes some of a place, or its vectors, first locks its search.

MAKE_SEARCH = """
INSERT INTO factmem.searches (place, store, made) VALUES (%s, %s, %s) ON CONFLICT (place) DO NOTHING
"""

LOCK_SEARCH = "SELECT search, number FROM factmem.searches WHERE place = %s FOR UPDATE"

WAIT_LONG = "SELECT set_config('lock_timeout', '0', true)"
"""Another process may be writing the rows of a large place; the deadline of the call still holds."""

READ_EXTENT = "SELECT made, snapshot FROM factmem.places WHERE place = %s"

READ_DUE = "SELECT fact FROM factmem.items WHERE place = %s AND expires_at <= %s"

LIST_ROWS = "SELECT item, digest, conversation, message FROM factmem.items WHERE place = %s"

OF_TOPICS = " AND topic = ANY (%s::bigint[])"

READ_AROUND = """
SELECT DISTINCT i.item, i.conversation, i.message, i.fact
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
INSERT INTO factmem.items (place, store, topic, digest, text, conversation, message, said_at,
    expires_at, marks, held, length, words, fact)
SELECT %s::bytea, %s::int, topic, digest, text, conversation, message, said_at, expires_at,
    marks::bigint[], held::bigint[], length, words::tsvector, fact
FROM unnest(%s::bigint[], %s::uuid[], %s::uuid[], %s::bigint[], %s::bigint[], %s::float8[],
    %s::bigint[], %s::text[], %s::text[], %s::float8[], %s::text[], %s::bytea[])
    AS r (topic, digest, text, conversation, message, said_at, expires_at, marks, held, length,
        words, fact)
"""

COUNT_ADDED = """
UPDATE factmem.searches SET facts = facts + %s, length = length + %s WHERE place = %s
"""

COUNT_TERMS = """
INSERT INTO factmem.terms AS t (place, store, term, holders)
SELECT %s::bytea, %s::int, n.term, n.holders FROM unnest(%s::text[], %s::bigint[]) AS n (term, holders)
ON CONFLICT (place, term) DO UPDATE SET holders = t.holders + excluded.holders
"""

SET_NUMBER = "UPDATE factmem.searches SET number = %s, begins_at = %s WHERE place = %s"
"""With 0 the next search compares all rows with what is current."""

ERASE = (
    "DELETE FROM factmem.items WHERE place = %s",
    "DELETE FROM factmem.terms WHERE place = %s",
    "DELETE FROM factmem.spaces WHERE place = %s",
    "DELETE FROM factmem.searches WHERE place = %s",
)

# Vectors

HAS_VECTORS = "SELECT 1 WHERE to_regclass('factmem.vectors') IS NOT NULL"

ERASE_VECTORS = """
DELETE FROM factmem.vectors WHERE space IN (SELECT space FROM factmem.spaces WHERE place = %s)
"""

REMOVE_VECTORS = """
WITH gone AS (
    DELETE FROM factmem.vectors v USING factmem.spaces s
    WHERE s.place = %s AND v.space = s.space AND v.text = ANY (%s::uuid[])
        AND NOT EXISTS (SELECT 1 FROM factmem.items i WHERE i.place = s.place AND i.text = v.text)
    RETURNING v.space, v.vector
)
UPDATE factmem.spaces s SET counted = s.counted - g.few, total = CASE WHEN s.counted > g.few
    THEN (s.total::{extension}.vector OPERATOR({extension}.-) g.total)::real[] END
FROM (
    SELECT space, count(vector) AS few, {extension}.sum(vector::{extension}.vector) AS total
    FROM gone GROUP BY space
) g WHERE s.space = g.space AND g.few > 0
"""

READ_SPACE = """
SELECT space, upto, counted, total, is_indexed FROM factmem.spaces
WHERE place = %s AND model = %s AND dimensions = %s
"""

MAKE_SPACE = """
INSERT INTO factmem.spaces (place, model, dimensions, store) VALUES (%s, %s, %s, %s)
ON CONFLICT (place, model, dimensions) DO NOTHING
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

ADD_VECTORS = """
WITH added AS (
    INSERT INTO factmem.vectors (space, store, text, vector)
    SELECT %s::int, %s::int, r.text, r.vector::{extension}.halfvec
    FROM unnest(%s::uuid[], %s::text[]) AS r (text, vector)
    WHERE EXISTS (SELECT 1 FROM factmem.items i WHERE i.place = %s AND i.text = r.text)
    ON CONFLICT (space, text) DO NOTHING RETURNING vector
)
UPDATE factmem.spaces s SET counted = s.counted + a.few, total = (CASE WHEN s.total IS NULL
    THEN a.total ELSE s.total::{extension}.vector OPERATOR({extension}.+) a.total END)::real[]
FROM (
    SELECT count(vector) AS few, {extension}.sum(vector::{extension}.vector) AS total FROM added
) a WHERE s.space = %s AND a.few > 0
"""

LOCK_SPACE = """
SELECT v.is_indexed FROM factmem.spaces v JOIN factmem.searches s ON s.place = v.place
WHERE v.space = %s FOR UPDATE OF s
"""

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

# Questions. `Candidates` fills in the names in braces. A subquery with `LIMIT` or `OFFSET 0` is not
# merged by the planner: rows are looked up one by one, even before the server has statistics.

QUESTION = """
WITH {given}
chosen (item, least) AS MATERIALIZED ({parts}),
related AS (
    SELECT r.item FROM (SELECT DISTINCT item FROM chosen) n
    CROSS JOIN LATERAL (SELECT * FROM factmem.items WHERE item = n.item OFFSET 0) c
    CROSS JOIN LATERAL (
        SELECT i.item FROM factmem.items i
        WHERE i.place = ANY (%s::bytea[]) AND i.conversation = c.conversation
            AND i.message BETWEEN c.message - {around} AND c.message + {around}
            AND (i.message < 0) = (c.message < 0) {filter} LIMIT {most}
    ) r
    WHERE c.message < 0 OR EXISTS (
        SELECT 1 FROM factmem.items o WHERE o.place = ANY (%s::bytea[]) AND o.place <> c.place
            AND o.conversation = c.conversation AND o.message >= 0)
)
{others}
SELECT f.is_other, f.least, i.place, i.fact, i.length, i.words::text, {cosines}
FROM (
    SELECT item, min(least) AS least, bool_and(is_other) AS is_other FROM (
        SELECT item, least, false AS is_other FROM chosen
        UNION ALL SELECT item, NULL, false FROM related
        {or_others}
    ) each GROUP BY item
) f CROSS JOIN LATERAL (SELECT * FROM factmem.items WHERE item = f.item OFFSET 0) i {vectors}
ORDER BY i.item
"""
"""`related` has the other facts of a conversation whose messages have no numbers, as the best of them
raise each other's score, and the neighbours in conversations that several of the places share: their
rows have only the words of neighbours in the same place."""

OTHERS = """, topics AS (
    SELECT c.topic, array_agg(h.value) AS held
    FROM (SELECT item FROM chosen UNION SELECT item FROM related) n
    CROSS JOIN LATERAL (SELECT * FROM factmem.items WHERE item = n.item OFFSET 0) c
    CROSS JOIN LATERAL unnest(c.held) AS h (value) GROUP BY c.topic
), others AS (
    SELECT r.item FROM topics t CROSS JOIN unnest(%s::bytea[]) AS p (place) CROSS JOIN LATERAL (
        (SELECT i.item FROM factmem.items i WHERE i.place = p.place AND i.topic = t.topic LIMIT 1)
        UNION ALL
        SELECT i.item FROM factmem.items i
        WHERE i.place = p.place AND i.topic = t.topic AND i.held && t.held
    ) r
    WHERE (SELECT count(*) FROM unnest(%s::bytea[]) AS o (place) WHERE EXISTS (
        SELECT 1 FROM factmem.items i WHERE i.place = o.place AND i.topic = t.topic)) > 1
)
"""
"""Facts that may take precedence over candidates: those with the same keyword and a common value, and one
of each place, which has the keyword's type there."""

OR_OTHERS = "UNION ALL SELECT item, NULL, true FROM others"

GIVEN = """
given AS MATERIALIZED (
    SELECT asked, ranked,
        ranked OPERATOR({extension}.-) ranked OPERATOR({extension}.-) ranked AS opposite
    FROM (
        SELECT %s::text::{extension}.halfvec AS asked, %s::text::{extension}.halfvec AS ranked
    ) AS sent
),
"""
"""The question's vectors. There is no operator that changes the sign of a vector."""

NO_COSINES = "NULL::float8, NULL::float8"

COSINES = """
-(v.vector OPERATOR({extension}.<#>) (SELECT asked FROM given)),
-(v.vector OPERATOR({extension}.<#>) (SELECT ranked FROM given))"""
"""The cosines, as products of vectors of length 1; the operator returns them with the sign changed."""

VECTORS = """LEFT JOIN LATERAL (
    SELECT vector FROM factmem.vectors v
    WHERE v.space IN ({spaces}) AND v.text = i.text LIMIT 1
) v ON true"""

NOTHING = "SELECT NULL::bigint, NULL::float8 WHERE false"

BY_WORDS = """
SELECT item, NULL::float8 FROM (
    SELECT * FROM factmem.items i WHERE {place} AND i.words @@ %s::tsquery {filter} LIMIT %s
) i ORDER BY ({score}) / (0.3 + 0.9 * i.length / %s) DESC LIMIT %s
"""
"""An approximation of BM25 that selects candidates: it takes each count as 1. The library scores them."""

IN_PLACE = "i.place = %s"

IN_PLACE_BY_WORD = "coalesce(i.place = %s, false)"
"""No index serves this form. Terms begin with the number of the place's search, so the index of words
finds the place's rows alone; before the server has statistics of a new place, it would rather scan all
of its rows. Under row level security the index of words cannot be used, as `@@` is not leakproof."""

WORD_SCORE = "CASE WHEN i.words @@ %s::tsquery THEN %s::float8 ELSE 0 END"

NEARNESS = """
v.vector::{extension}.halfvec({dimensions}) OPERATOR({extension}.<#>) (
    SELECT {direction} FROM given WHERE set_config('hnsw.ef_search', '{most}', true) IS NOT NULL
)"""
"""The indexed expression, with a fixed number of dimensions. An index scan evaluates the subquery when it
starts and reads its setting afterwards, so the setting needs no separate statement and no
transaction."""

FARTHEST = """(
    SELECT -(v.vector OPERATOR({extension}.<#>) (SELECT ranked FROM given))
    FROM factmem.vectors v WHERE v.space = {space} AND v.vector IS NOT NULL
    ORDER BY {opposite} LIMIT 1
)"""
"""The approximate minimum of all cosines in a place: the vector nearest to the opposite direction."""

NEAREST = """
SELECT i.item, {farthest} FROM (
    SELECT text FROM factmem.vectors v WHERE v.space = {space} AND v.vector IS NOT NULL
    ORDER BY {nearness} LIMIT %s
) v CROSS JOIN LATERAL (
    SELECT item FROM factmem.items i WHERE i.place = %s AND i.text = v.text OFFSET 0
) i
"""

NEAREST_INSIDE = """
SELECT i.item, {farthest} FROM (
    SELECT item, text FROM factmem.items i WHERE i.place = %s {filter} OFFSET 0
) i CROSS JOIN LATERAL (
    SELECT vector FROM factmem.vectors v WHERE v.space = {space} AND v.text = i.text OFFSET 0
) v WHERE v.vector IS NOT NULL
ORDER BY v.vector OPERATOR({extension}.<#>) (SELECT ranked FROM given) LIMIT %s
"""
"""Compares every row inside a filter: an index scan would find few of them."""
