"""Vector spaces: the vectors of one place from one model, and the partitions of large spaces.

A recall with an embedder calls `missing` and `add` in turns, a batch at a time, until nothing is
missing; the embedder runs in between, outside of any transaction. A vector belongs to a text: facts
of a place with equal texts share it, and it is deleted with the last of them. A large space gets a
partition with an index: by the recall that has completed it, or by `migrate` if the role of the
application must not create tables. Without pgvector places are searched by words alone.
"""

import threading
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from logging import getLogger
from math import inf
from typing import NamedTuple

from factmem.models.facts import AnyFact
from factmem.models.places import Identity
from factmem.providers._postgres import search_statements as sql
from factmem.providers._postgres.database import PostgresDatabase, asking
from factmem.providers._postgres.driver import is_state
from factmem.providers._postgres.schema import extension_schema
from factmem.providers._postgres.session import PostgresSession, keys
from factmem.providers._sql.items import StoredItem
from factmem.providers._sql.stored_places import StoredPlaces
from factmem.providers.results import TextVectors

_logger = getLogger(__name__)

_MOST_DIMENSIONS = 4000
"""The maximum of an HNSW index in half precision."""


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


def written(vector: Iterable[float]) -> str:
    """Return a vector as text, with more digits than half precision needs."""
    return "[" + ",".join([f"{number:.5g}" for number in vector]) + "]"


class VectorSpaces:
    """The vectors of searched places. All methods block and are thread-safe.

    Args:
        places: The places of a store.
        server: Its database.
        search_from: The number of vectors from which on a space has its own index.
    """

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
        if self._extension is None and session.rows(sql.HAS_VECTORS):
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
                self._places.run(
                    asking(lambda session, _: self._index(session, space.number, dimensions))
                )
        return found

    def _next(
        self, session: PostgresSession, key: bytes, space: Space, limit: int
    ) -> dict[bytes, AnyFact]:
        """Return the next facts without a vector, and store up to which item all have one."""
        upto, found = space.upto, dict[bytes, AnyFact]()
        while not found:
            rows = session.rows(sql.READ_NEXT, [space.number, key, upto, limit])
            missing = [row for row in rows if row[2] is not None]
            found = {text.bytes: StoredItem.load(fact).fact() for _, text, fact in missing}
            if not rows:
                break
            upto = missing[0][0] - 1 if missing else rows[-1][0]
        if upto > space.upto:
            session.rows(sql.SET_UPTO, [upto, space.number])
        return found

    def _made(
        self, session: PostgresSession, key: bytes, store: int, model: str, dimensions: int
    ) -> Space:
        given = [key, model_key(model), dimensions]
        found = session.rows(sql.READ_SPACE, given)
        if not found:
            session.rows(sql.MAKE_SPACE, [*given, store])
            found = session.rows(sql.READ_SPACE, given)
        return Space(*found[0])

    def add(self, identity: Identity, vectors: TextVectors, model: str, dimensions: int) -> None:
        """Store vectors by the digests of their texts."""

        def write(session: PostgresSession, _: int) -> None:
            reader, extension = self._places.reading(session), self.extension(session)
            if reader is None or extension is None:
                return
            key, store = reader.key(identity), reader.store.number
            with session.transaction():
                # Texts that a purge has deleted before have no row now, and none is deleted after.
                if session.rows(sql.LOCK_SEARCH, [key]):
                    space = self._made(session, key, store, model, dimensions)
                    columns = [keys(digest.hex() for digest in vectors), _column(vectors.values())]
                    statement = sql.ADD_VECTORS.format(extension=extension)
                    number = space.number
                    session.rows(statement, [number, store, *columns, key, number])

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
        extension, rows = self.extension(session), session.rows(sql.LOCK_SPACE, [space])
        if extension is None or not rows or rows[0][0]:
            return
        session.rows(sql.MORE_MEMORY)
        for statement in sql.MAKE_PARTITION:
            session.rows(statement.format(extension=extension, space=space, dimensions=dimensions))

    def index_all(self) -> None:
        """Create the partitions that the application's role may not create."""

        def make(session: PostgresSession, _: int) -> None:
            if not session.rows(sql.HAS_VECTORS):
                return
            session.deadline = inf
            for space, dimensions in session.rows(sql.LIST_UNINDEXED, [self._from]):
                if dimensions <= _MOST_DIMENSIONS:
                    with session.transaction():
                        self._partition(session, space, dimensions)

        self._server.as_owner(make)


def _column(vectors: Iterable[Sequence[float] | None]) -> str:
    cells = ("NULL" if each is None else f'"{written(each)}"' for each in vectors)
    return "{" + ",".join(cells) + "}"
