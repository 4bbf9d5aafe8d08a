"""Vector spaces: the vectors of one place from one model, and the partitions of large spaces.

A recall with an embedder calls `missing` and `add` in turns, a batch at a time, until nothing is
missing; the embedder runs in between, outside of any transaction. A vector belongs to a text: facts
of a place with equal texts share it, and it is deleted with the last of them. A large space gets a
partition with an index: by the recall that has completed it, or by `migrate` if the role of the
application must not create tables. Without pgvector places are searched by words alone.
"""

import threading
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from logging import getLogger
from math import hypot, inf
from typing import NamedTuple

from factmem.models.facts import AnyFact
from factmem.models.places import Identity
from factmem.providers._postgres.database import PostgresDatabase, asking, own
from factmem.providers._postgres.driver import is_state
from factmem.providers._postgres.schema import extension_schema
from factmem.providers._postgres.session import PostgresSession, byte_strings, numbers
from factmem.providers._sql.search_index import loaded
from factmem.providers._sql.session import Session, among
from factmem.providers._sql.stored_places import StoredPlaces
from factmem.providers._sql.topics import topic_of
from factmem.providers.results import SearchQuestion, TextVectors

_logger = getLogger(__name__)

_MOST_DIMENSIONS = 4000
"""The maximum of an HNSW index in half precision."""

_LEAST_SCANNED, _MOST_SCANNED = 40, 1000
"""Values of `hnsw.ef_search`: pgvector's default and its maximum."""

_HAS_VECTORS = "SELECT 1 WHERE to_regclass('factmem.vectors') IS NOT NULL"

_REMOVE_VECTORS = """
WITH gone AS (
    DELETE FROM factmem.vectors v USING factmem.spaces s
    WHERE s.place = %s AND v.space = s.space AND v.text = ANY (%s::bytea[])
        AND NOT EXISTS (SELECT 1 FROM factmem.items i WHERE i.search = %s AND i.text = v.text)
    RETURNING v.space, v.vector
)
UPDATE factmem.spaces s SET counted = s.counted - g.few, total = CASE WHEN s.counted > g.few
    THEN (s.total::{extension}.vector OPERATOR({extension}.-) g.total)::real[] END
FROM (
    SELECT space, count(vector) AS few, {extension}.sum(vector::{extension}.vector) AS total
    FROM gone GROUP BY space
) g WHERE s.space = g.space AND g.few > 0
"""

_READ_SPACE = """
SELECT space, upto, counted, total, is_indexed FROM factmem.spaces
WHERE place = %s AND model = %s AND dimensions = %s
"""

_MAKE_SPACE = """
INSERT INTO factmem.spaces (place, model, dimensions, store) VALUES (%s, %s, %s, %s)
ON CONFLICT (place, model, dimensions) DO NOTHING
"""

_READ_NEXT = """
SELECT i.item, i.text, EXISTS (
    SELECT 1 FROM factmem.vectors v WHERE v.space = %s AND v.text = i.text
) FROM factmem.items i WHERE i.search = %s AND i.item > %s ORDER BY i.item LIMIT %s
"""

_SET_UPTO = "UPDATE factmem.spaces SET upto = greatest(upto, %s) WHERE space = %s"

_ADD_VECTORS = """
WITH added AS (
    INSERT INTO factmem.vectors (space, store, text, vector)
    SELECT %s::int, %s::int, r.text, r.vector::{extension}.halfvec
    FROM unnest(%s::bytea[], %s::text[]) AS r (text, vector)
    WHERE EXISTS (SELECT 1 FROM factmem.items i WHERE i.search = %s AND i.text = r.text)
    ON CONFLICT (space, text) DO NOTHING RETURNING vector
)
UPDATE factmem.spaces s SET counted = s.counted + a.few, total = (CASE WHEN s.total IS NULL
    THEN a.total ELSE s.total::{extension}.vector OPERATOR({extension}.+) a.total END)::real[]
FROM (
    SELECT count(vector) AS few, {extension}.sum(vector::{extension}.vector) AS total FROM added
) a WHERE s.space = %s AND a.few > 0
"""

_LOCK_SPACE = """
SELECT v.is_indexed FROM factmem.spaces v JOIN factmem.searches s USING (place)
WHERE v.space = %s AND s.kind = 0 FOR UPDATE OF s
"""

_MORE_MEMORY = "SELECT set_config('maintenance_work_mem', '256MB', true)"

_LIST_UNINDEXED = """
SELECT space, dimensions FROM factmem.spaces WHERE counted >= %s AND NOT is_indexed
"""

_MAKE_PARTITION = (
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

_FIND_SEARCH = "SELECT search FROM factmem.searches WHERE place = %s AND kind = 0"

_LOCK_SEARCH = "SELECT search FROM factmem.searches WHERE place = %s AND kind = 0 FOR UPDATE"
"""Locked by each transaction that writes vectors of a place, and by those that write or drop its
words."""

_READ_SPACES = """
SELECT place, space, upto, counted, total, is_indexed FROM factmem.spaces
WHERE place = ANY (%s::bytea[]) AND model = %s AND dimensions = %s
"""

_ERASE = (
    "DELETE FROM factmem.vectors v USING factmem.spaces s WHERE s.place = %s AND v.space = s.space",
    "DELETE FROM factmem.spaces WHERE place = %s",
)


_TEXTS = """
SELECT DISTINCT text FROM factmem.items
WHERE search = %s AND topic = ANY (%s::bigint[]) AND text IS NOT NULL
"""

_NEAREST = """
SELECT i.item FROM (
    SELECT text FROM factmem.vectors v WHERE v.space = {space} AND v.vector IS NOT NULL
    ORDER BY v.vector::{extension}.halfvec({dimensions}) OPERATOR({extension}.<#>) (
        SELECT %s::text::{extension}.halfvec
        WHERE set_config('hnsw.ef_search', '{most}', true) IS NOT NULL)
    LIMIT %s
) v CROSS JOIN LATERAL (
    SELECT item FROM factmem.items i WHERE i.search = {search} AND i.text = v.text OFFSET 0
) i
"""
"""The indexed expression, with a fixed number of dimensions. An index scan evaluates the subquery
when it starts and reads its setting afterwards, so that the setting needs no statement of its own.
A subquery with `LIMIT` or `OFFSET 0` is not merged by the planner, which has no statistics of a new
place yet."""

_NEAREST_INSIDE = """
SELECT i.item FROM (
    SELECT item, text FROM factmem.items
    WHERE search = {search} AND item = ANY (%s::bigint[]) OFFSET 0
) i JOIN factmem.vectors v ON v.space = {space} AND v.text = i.text
WHERE v.vector IS NOT NULL
ORDER BY v.vector OPERATOR({extension}.<#>) %s::text::{extension}.halfvec LIMIT %s
"""
"""Compares every row inside a filter: an index scan would find few of them."""

_COSINES = """
SELECT i.item, -(v.vector OPERATOR({extension}.<#>) %s::text::{extension}.halfvec),
    -(v.vector OPERATOR({extension}.<#>) %s::text::{extension}.halfvec)
FROM factmem.items i JOIN factmem.vectors v ON v.space = {space} AND v.text = i.text
WHERE i.search = {search} AND i.item = ANY (%s::bigint[]) AND v.vector IS NOT NULL
"""
"""The cosines, as products of vectors of length 1; the operator returns them with the sign
changed."""

_IS_BEHIND = "SELECT 1 FROM factmem.items WHERE search = %s AND item > %s LIMIT 1"


class Space(NamedTuple):
    """The vectors of one place from one model."""

    number: int
    upto: int
    """Every item up to this number has a vector, or was refused by the embedder."""
    counted: int
    total: Sequence[float] | None
    """The sum of the vectors; None if there is none."""
    is_indexed: bool


def model_key(model: str) -> str:
    """Return the hash of a model's name: the database's encoding may lack its characters."""
    return blake2b(model.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def written_vector(vector: Iterable[float]) -> str:
    """Return a vector as text, with more digits than half precision needs."""
    return "[" + ",".join([f"{number:.5g}" for number in vector]) + "]"


class VectorSpaces:
    """The vectors of searched places. Thread-safe. Spaces of `search_from` facts get an index."""

    def __init__(self, places: StoredPlaces, server: PostgresDatabase, search_from: int) -> None:
        self._places, self._server = places, server
        self._from = search_from
        self._extension: str | None = None
        self._lock = threading.Lock()
        self._has_warned = False
        self._is_denied = False
        """Whether the role may not create partitions."""

    def extension(self, session: PostgresSession) -> str | None:
        """Return the schema of pgvector; None without a table of vectors. Warns once."""
        if self._extension is None and session.rows(_HAS_VECTORS):
            self._extension = extension_schema(session)
        with self._lock:
            has_warned, self._has_warned = self._has_warned, True
        if self._extension is None and not has_warned:
            _logger.warning(
                "Large places are searched by words alone: the database has no pgvector 0.7 or "
                "later, or it was installed after the tables were made (then call migrate())"
            )
        return self._extension

    def missing(
        self, identity: Identity, model: str, dimensions: int, limit: int
    ) -> dict[bytes, AnyFact]:
        """Return facts whose text has no vector, by digest; without any, index the space."""

        def read(session: PostgresSession, _: int) -> tuple[dict[bytes, AnyFact], Space | None]:
            reader = self._places.reading(session)
            if reader is None or self.extension(session) is None:
                return {}, None
            key = reader.key(identity)
            space = self._create_space(session, key, reader.store.number, model, dimensions)
            return self._next(session, key, space, limit), space

        found, space = self._places.run(asking(read))
        if not found and space is not None:
            is_worth_it = space.counted >= self._from and dimensions <= _MOST_DIMENSIONS
            if is_worth_it and not (space.is_indexed or self._is_denied):
                index = partial(self._index, space=space.number, dimensions=dimensions)
                self._places.run(asking(lambda session, _: index(session)))
        return found

    def _next(
        self, session: PostgresSession, key: bytes, space: Space, limit: int
    ) -> dict[bytes, AnyFact]:
        """Return the next facts without a vector, and store up to which item all have one."""
        upto, found = space.upto, dict[bytes, AnyFact]()
        for (search,) in session.rows(_FIND_SEARCH, [key]):
            while not found and (
                rows := session.rows(_READ_NEXT, [space.number, search, upto, limit])
            ):
                missing = {item: text for item, text, is_there in rows if not is_there}
                which, given = among("i.item IN ({keys})", missing)
                facts = loaded(session, key, search, which, given) if missing else {}
                found = {bytes(missing[item]): each.fact() for item, each in facts.items()}
                upto = min(missing) - 1 if found else rows[-1][0]
        if upto > space.upto:
            session.rows(_SET_UPTO, [upto, space.number])
        return found

    def spaces(
        self, session: PostgresSession, places: Iterable[bytes], model: str, dimensions: int
    ) -> dict[bytes, Space]:
        given = [byte_strings(places), model_key(model), dimensions]
        return {place: Space(*row) for place, *row in session.rows(_READ_SPACES, given)}

    def _create_space(
        self, session: PostgresSession, key: bytes, store: int, model: str, dimensions: int
    ) -> Space:
        given = [key, model_key(model), dimensions]
        found = session.rows(_READ_SPACE, given)
        if not found:
            session.rows(_MAKE_SPACE, [*given, store])
            found = session.rows(_READ_SPACE, given)
        return Space(*found[0])

    def add(self, identity: Identity, vectors: TextVectors, model: str, dimensions: int) -> None:
        def write(session: PostgresSession, _: int) -> None:
            reader, extension = self._places.reading(session), self.extension(session)
            if reader is None or extension is None:
                return
            key, store = reader.key(identity), reader.store.number
            with session.transaction():
                # Under this lock, texts that a purge deleted have no row, and none is deleted.
                for (search,) in session.rows(_LOCK_SEARCH, [key]):
                    space = self._create_space(session, key, store, model, dimensions)
                    columns = [byte_strings(vectors), _column(vectors.values())]
                    statement = _ADD_VECTORS.format(extension=extension)
                    number = space.number
                    session.rows(statement, [number, store, *columns, search, number])

        if vectors:
            self._places.run(asking(write))

    # The vectors of a search: see `VectorIndex`

    def remove(
        self, session: Session, key: bytes, search: int, texts: Iterable[bytes | None]
    ) -> None:
        postgres, gone = own(session), [text for text in texts if text is not None]
        if gone and postgres.rows(_HAS_VECTORS):
            statement = _REMOVE_VECTORS.format(extension=extension_schema(postgres))
            postgres.rows(statement, [key, byte_strings(gone), search])

    def drop(
        self, session: Session, key: bytes, search: int, removed: Collection[str] | None
    ) -> None:
        """See `VectorIndex.drop`. Vectors of other keywords stay, as embedding costs money."""
        rows = session.rows(_TEXTS, [search, numbers(map(topic_of, removed))]) if removed else []
        session.rows("DELETE FROM factmem.items WHERE search = %s", [search])
        if removed is not None:
            self.remove(session, key, search, [text for (text,) in rows])
            session.rows("UPDATE factmem.spaces SET upto = 0 WHERE place = %s", [key])
            return
        if session.rows(_HAS_VECTORS):
            session.rows(_ERASE[0], [key])
        session.rows(_ERASE[1], [key])

    @contextmanager
    def patience(self, session: Session) -> Generator[None]:
        """See `VectorIndex.patience`: a large index takes longer than a call may."""
        postgres = own(session)
        deadline, postgres.deadline = postgres.deadline, inf
        try:
            yield
        finally:
            postgres.deadline = deadline

    def meaning(
        self, session: Session, searches: Mapping[bytes, int], question: SearchQuestion
    ) -> "PlaceVectors | None":
        postgres = own(session)
        extension = None if question.vector is None else self.extension(postgres)
        if question.vector is None or extension is None:
            return None
        spaces = self.spaces(postgres, searches, question.model, len(question.vector))
        return PlaceVectors(postgres, extension, spaces, question)

    # Partitions

    def _index(self, session: PostgresSession, space: int, dimensions: int) -> None:
        """Create the partition of a space with its index: 20 s for 100,000 vectors."""
        try:
            # Without patience, each recall would begin an index and give up at its deadline.
            with self.patience(session), session.transaction():
                self._partition(session, space, dimensions)
        except Exception as exc:
            if not is_state(exc, "42501", "55P03"):
                raise
            self._is_denied = is_state(exc, "42501")
            _logger.info("A large place has no index of its vectors: migrate() creates it")

    def _partition(self, session: PostgresSession, space: int, dimensions: int) -> None:
        """Create the partition of a space, inside a transaction of the tables' owner."""
        extension, rows = self.extension(session), session.rows(_LOCK_SPACE, [space])
        if extension is None or not rows or rows[0][0]:
            return
        session.rows(_MORE_MEMORY)
        for statement in _MAKE_PARTITION:
            session.rows(statement.format(extension=extension, space=space, dimensions=dimensions))

    def index_all(self) -> None:
        """Create the partitions that the application's role may not create."""

        def make(session: PostgresSession, _: int) -> None:
            if not session.rows(_HAS_VECTORS):
                return
            session.deadline = inf
            for space, dimensions in session.rows(_LIST_UNINDEXED, [self._from]):
                if dimensions <= _MOST_DIMENSIONS:
                    with session.transaction():
                        self._partition(session, space, dimensions)

        self._server.as_owner(make)


def _column(vectors: Iterable[Sequence[float] | None]) -> str:
    cells = ("NULL" if each is None else f'"{written_vector(each)}"' for each in vectors)
    return "{" + ",".join(cells) + "}"


class PlaceVectors:
    """Compares the vectors of places with a question; see `Meaning`."""

    def __init__(
        self,
        session: PostgresSession,
        extension: str,
        spaces: Mapping[bytes, Space],
        question: SearchQuestion,
    ) -> None:
        self._session = session
        self._extension = extension
        self._spaces = spaces
        self._limit = question.limit
        self._vector = question.vector or ()
        totals = [each.total for each in spaces.values() if each.total is not None]
        whole = [sum(column) for column in zip(*totals, strict=True)] or [0.0] * len(self._vector)
        share = question.common / (hypot(*whole) or 1.0)
        self._ranked = [a - share * b for a, b in zip(self._vector, whole, strict=True)]
        """The vector without its share of the mean of all vectors."""

    def nearest(self, key: bytes, search: int, inside: Collection[int] | None) -> list[int]:
        space = self._spaces.get(key)
        if space is None or not space.counted:
            return []
        named = {"space": space.number, "search": search, "extension": self._extension}
        ranked = written_vector(self._ranked)
        if inside is None:
            most = min(max(self._limit, _LEAST_SCANNED), _MOST_SCANNED)
            query = _NEAREST.format(**named, dimensions=len(self._vector), most=most)
            given = [ranked, self._limit]
        else:
            query, given = _NEAREST_INSIDE.format(**named), [numbers(inside), ranked, self._limit]
        rows = self._session.rows(query, given, prepare=False)
        return [item for (item,) in rows]

    def cosines(
        self, key: bytes, search: int, items: Sequence[int]
    ) -> dict[int, tuple[float, float]]:
        space = self._spaces.get(key)
        if space is None or not items:
            return {}
        query = _COSINES.format(space=space.number, search=search, extension=self._extension)
        given = [written_vector(self._vector), written_vector(self._ranked), numbers(items)]
        return {item: (one, two) for item, one, two in self._session.rows(query, given)}

    def statistics(self, key: bytes) -> tuple[int, float, float]:
        space = self._spaces.get(key)
        if space is None or space.total is None:
            return 0, 0.0, 0.0
        return (
            space.counted,
            _product(self._vector, space.total),
            _product(self._ranked, space.total),
        )

    def is_complete(self, key: bytes, search: int) -> bool:
        space = self._spaces.get(key)
        return space is not None and not self._session.rows(_IS_BEHIND, [search, space.upto])


def _product(one: Iterable[float], two: Iterable[float]) -> float:
    return sum(a * b for a, b in zip(one, two, strict=True))
