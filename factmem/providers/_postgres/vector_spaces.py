"""Vector spaces: the vectors of one place from one model, and the partitions of large spaces.

A recall with an embedder calls `missing` and `add` in turns, a batch at a time, until nothing is
missing; the embedder runs in between, outside of any transaction. A vector belongs to a text: facts
of a place with equal texts share it, and it is deleted with the last of them. A large space gets a
partition with an index: by the recall that has completed it, or by `migrate` if the role of the
application must not create tables. Without pgvector places are searched by words alone.
"""

import threading
from collections.abc import Iterable, Sequence
from functools import partial
from hashlib import blake2b
from logging import getLogger
from math import inf
from typing import NamedTuple
from uuid import UUID

from factmem.models.facts import AnyFact
from factmem.models.places import Identity
from factmem.providers._postgres.database import PostgresDatabase, asking
from factmem.providers._postgres.driver import is_state
from factmem.providers._postgres.schema import extension_schema
from factmem.providers._postgres.session import PostgresSession, byte_strings, keys
from factmem.providers._sql.search_index import loaded
from factmem.providers._sql.session import among
from factmem.providers._sql.stored_places import StoredPlaces
from factmem.providers.results import TextVectors

_logger = getLogger(__name__)

_MOST_DIMENSIONS = 4000
"""The maximum of an HNSW index in half precision."""

_HAS_VECTORS = "SELECT 1 WHERE to_regclass('factmem.vectors') IS NOT NULL"

_REMOVE_VECTORS = """
WITH gone AS (
    DELETE FROM factmem.vectors v USING factmem.spaces s
    WHERE s.place = %s AND v.space = s.space AND v.text = ANY (%s::uuid[])
        AND NOT EXISTS (SELECT 1 FROM factmem.words w WHERE w.search = %s AND w.text = v.text)
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
SELECT w.item, w.text, EXISTS (
    SELECT 1 FROM factmem.vectors v WHERE v.space = %s AND v.text = w.text
) FROM factmem.words w WHERE w.search = %s AND w.item > %s ORDER BY w.item LIMIT %s
"""

_SET_UPTO = "UPDATE factmem.spaces SET upto = greatest(upto, %s) WHERE space = %s"

_ADD_VECTORS = """
WITH added AS (
    INSERT INTO factmem.vectors (space, store, text, vector)
    SELECT %s::int, %s::int, r.text, r.vector::{extension}.halfvec
    FROM unnest(%s::uuid[], %s::text[]) AS r (text, vector)
    WHERE EXISTS (SELECT 1 FROM factmem.words w WHERE w.search = %s AND w.text = r.text)
    ON CONFLICT (space, text) DO NOTHING RETURNING vector
)
UPDATE factmem.spaces s SET counted = s.counted + a.few, total = (CASE WHEN s.total IS NULL
    THEN a.total ELSE s.total::{extension}.vector OPERATOR({extension}.+) a.total END)::real[]
FROM (
    SELECT count(vector) AS few, {extension}.sum(vector::{extension}.vector) AS total FROM added
) a WHERE s.space = %s AND a.few > 0
"""

_LOCK_SPACE = """
SELECT v.is_indexed FROM factmem.spaces v JOIN factmem.searches s ON s.place = v.place AND s.kind = 0
WHERE v.space = %s FOR UPDATE OF s
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
"""Held by each transaction that writes vectors of a place, as by those that write and drop its
words."""

_READ_SPACES = """
SELECT place, space, upto, counted, total, is_indexed FROM factmem.spaces
WHERE place = ANY (%s::bytea[]) AND model = %s AND dimensions = %s
"""

_ERASE = (
    "DELETE FROM factmem.vectors v USING factmem.spaces s WHERE s.place = %s AND v.space = s.space",
    "DELETE FROM factmem.spaces WHERE place = %s",
)


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
    """The vectors of searched places, thread-safe. An index of its own begins at `search_from`."""

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
            space = self._made(session, key, reader.store.number, model, dimensions)
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
                found = {missing[item].bytes: each.fact() for item, each in facts.items()}
                upto = min(missing) - 1 if found else rows[-1][0]
        if upto > space.upto:
            session.rows(_SET_UPTO, [upto, space.number])
        return found

    def spaces(
        self, session: PostgresSession, places: Iterable[bytes], model: str, dimensions: int
    ) -> dict[bytes, Space]:
        given = [byte_strings(places), model_key(model), dimensions]
        return {place: Space(*row) for place, *row in session.rows(_READ_SPACES, given)}

    def _made(
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
                # Texts that a purge has deleted before have no row now, and none is deleted after.
                for (search,) in session.rows(_LOCK_SEARCH, [key]):
                    space = self._made(session, key, store, model, dimensions)
                    columns = [keys(digest.hex() for digest in vectors), _column(vectors.values())]
                    statement = _ADD_VECTORS.format(extension=extension)
                    number = space.number
                    session.rows(statement, [number, store, *columns, search, number])

        if vectors:
            self._places.run(asking(write))

    # Partitions

    def _index(self, session: PostgresSession, space: int, dimensions: int) -> None:
        """Create the partition of a space with its index: 20 s for 100,000 vectors."""
        # Broken off at the deadline of a recall, it would begin again with the next one.
        deadline, session.deadline = session.deadline, inf
        try:
            with session.transaction():
                self._partition(session, space, dimensions)
        except Exception as exc:
            if not is_state(exc, "42501", "55P03"):
                raise
            self._is_denied = is_state(exc, "42501")
            _logger.info("A large place has no index of its vectors: migrate() creates it")
        finally:
            session.deadline = deadline

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


def drop_vectors(session: PostgresSession, key: bytes, search: int, texts: Iterable[UUID]) -> None:
    """Delete the vectors of texts that no item of a place has any more."""
    gone = keys(text.hex for text in texts)
    if gone != "{}" and session.rows(_HAS_VECTORS):
        statement = _REMOVE_VECTORS.format(extension=extension_schema(session))
        session.rows(statement, [key, gone, search])


def erase_vectors(session: PostgresSession, key: bytes) -> None:
    if session.rows(_HAS_VECTORS):
        session.rows(_ERASE[0], [key])
    session.rows(_ERASE[1], [key])
