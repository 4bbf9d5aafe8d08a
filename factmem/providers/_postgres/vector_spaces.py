"""Vector spaces: the vectors of one place from one model, and the partitions of large spaces."""

import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from logging import getLogger
from math import inf
from typing import NamedTuple

from factmem.models.facts import AnyFact
from factmem.models.places import Identity
from factmem.providers._postgres import search_statements as sql
from factmem.providers._postgres.driver import Session, is_state
from factmem.providers._postgres.items import StoredItem
from factmem.providers._postgres.schema import extension_schema
from factmem.providers._postgres.session import keys
from factmem.providers._sql.stored_places import StoredPlaces

_logger = getLogger(__name__)

_WORTHWHILE = 64
"""The sum of a space is computed again after a change of 1/64 of its vectors."""

_MOST_DIMENSIONS = 4000
"""The maximum of an HNSW index in half precision."""


class Space(NamedTuple):
    """The vectors of one place from one model."""

    number: int
    upto: int
    """Every item up to this number has a vector, or was refused by the embedder."""
    changes: int
    counted: int
    total: Sequence[float] | None
    """The sum of the vectors, as of the last count."""
    is_indexed: bool

    @property
    def needs_sum(self) -> bool:
        """Whether the sum is missing or too old."""
        return self.changes * _WORTHWHILE > self.counted


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
        search_from: The number of vectors from which on a space has its own index.
    """

    def __init__(self, places: StoredPlaces, search_from: int) -> None:
        self._places = places
        self._from = search_from
        self._extension: str | None = None
        self.iterating: str = ""
        """The setting of index scans that continue until enough rows pass a filter."""
        self._lock = threading.Lock()
        self._has_warned = False
        self._is_denied = False
        """Whether the role may not create partitions."""

    def extension(self, session: Session) -> str | None:
        """Return the schema of pgvector; None without a table of vectors."""
        if self._extension is None and session.rows(sql.HAS_VECTORS):
            ((version,),) = session.rows(sql.READ_VERSION) or [("0",)]
            self.iterating = sql.ITERATING if _is_iterating(version) else ""
            self._extension = extension_schema(session)
        return self._extension

    def of(
        self, session: Session, places: Iterable[str], model: str, dimensions: int
    ) -> dict[str, Space]:
        """Return the spaces of places by the keys of places."""
        given = [keys(places), model_key(model), dimensions]
        return {row[0].hex: Space(*row[1:]) for row in session.rows(sql.READ_SPACES, given)}

    def missing(
        self, identity: Identity, model: str, dimensions: int, limit: int
    ) -> dict[bytes, AnyFact]:
        """Return facts whose text has no vector, by digest; without any, finish the space."""

        def read(session: Session, _: int) -> tuple[dict[bytes, AnyFact], Space | None]:
            reader = self._places.reading(session)
            if reader is None or self.extension_or_warning(session) is None:
                return {}, None
            key = reader.key(identity).hex()
            space = self._made(session, key, reader.store.number, model, dimensions)
            return self._next(session, key, space, limit), space

        found, space = self._places.run(read)
        if not found and space is not None:
            self.finish(space, dimensions)
        return found

    def _next(self, session: Session, key: str, space: Space, limit: int) -> dict[bytes, AnyFact]:
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

    def extension_or_warning(self, session: Session) -> str | None:
        """Return the schema of pgvector; without it the first call logs a warning."""
        found = self.extension(session)
        with self._lock:
            has_warned, self._has_warned = self._has_warned, True
        if found is None and not has_warned:
            _logger.warning(
                "Large places are searched by words alone: the database has no pgvector 0.7 or "
                "later, or it was installed after the tables were made (then call migrate())"
            )
        return found

    def _made(self, session: Session, key: str, store: int, model: str, dimensions: int) -> Space:
        space = self.of(session, [key], model, dimensions).get(key)
        if space is None:
            session.rows(sql.MAKE_SPACE, [key, store, model_key(model), dimensions])
            space = self.of(session, [key], model, dimensions)[key]
        return space

    def add(
        self,
        identity: Identity,
        vectors: Mapping[bytes, Sequence[float] | None],
        model: str,
        dimensions: int,
    ) -> None:
        """Store vectors by the digests of their texts."""

        def write(session: Session, _: int) -> None:
            reader = self._places.reading(session)
            extension = self.extension(session)
            if reader is None or extension is None:
                return
            key, store = reader.key(identity).hex(), reader.store.number
            space = self._made(session, key, store, model, dimensions)
            texts = keys(digest.hex() for digest in vectors)
            with session.transaction():
                session.rows(sql.COUNT_VECTORS, [len(vectors), space.number])
                held = {row[0].bytes for row in session.rows(sql.LOCK_TEXTS, [key, texts])}
                rows = {digest: each for digest, each in vectors.items() if digest in held}
                columns = [keys(digest.hex() for digest in rows), _column(rows.values())]
                statement = sql.ADD_VECTORS.format(extension=extension)
                session.rows(statement, [space.number, store, *columns])

        if vectors:
            self._places.run(write)

    # Sums and partitions

    def needs_index(self, space: Space, dimensions: int) -> bool:
        """Whether a space has enough vectors for an index, and none yet."""
        is_worth_it = space.counted >= self._from and dimensions <= _MOST_DIMENSIONS
        return is_worth_it and not (space.is_indexed or self._is_denied)

    def finish(self, space: Space, dimensions: int) -> None:
        """Compute the sum of a space's vectors and create its index, if they are due."""
        if space.needs_sum:
            space = self._places.run(lambda session, _: self._summed(session, space))
        if self.needs_index(space, dimensions):
            self._places.run(lambda session, _: self._index(session, space.number, dimensions))

    def _summed(self, session: Session, space: Space) -> Space:
        extension = self.extension(session)
        statement = sql.SET_TOTAL.format(extension=extension, space=space.number)
        for counted, total in session.rows(statement):
            return space._replace(counted=counted, total=total)
        return space

    def _index(self, session: Session, space: int, dimensions: int) -> None:
        """Create the partition of a space with its index: 20 s for 100,000 vectors."""
        deadline, session.deadline = session.deadline, inf
        try:
            with session.transaction():
                self.partition(session, space, dimensions)
        except Exception as exc:
            if not is_state(exc, "42501", "55P03"):
                raise
            self._is_denied = is_state(exc, "42501")
            _logger.info("A large place has no index of its vectors: migrate() creates it")
        finally:
            session.deadline = deadline

    def partition(self, session: Session, space: int, dimensions: int) -> None:
        """Create the partition of a space, inside a transaction of the tables' owner."""
        extension = self.extension(session)
        rows = session.rows(sql.LOCK_SPACE, [space])
        if extension is None or not rows or rows[0][0]:
            return
        session.rows(sql.MORE_MEMORY)
        for statement in sql.MAKE_PARTITION:
            session.rows(statement.format(extension=extension, space=space, dimensions=dimensions))

    def index_all(self) -> None:
        """Create the partitions that the application's role may not create."""

        def make(session: Session, _: int) -> None:
            if self.extension(session) is None:
                return
            session.deadline = inf
            for space, dimensions in session.rows(sql.LIST_UNINDEXED, [self._from]):
                if dimensions <= _MOST_DIMENSIONS:
                    with session.transaction():
                        self.partition(session, space, dimensions)

        self._places.run(make)


def _is_iterating(version: str) -> bool:
    """Whether a version of pgvector has iterative index scans."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= (0, 8)


def _column(vectors: Iterable[Sequence[float] | None]) -> str:
    cells = ("NULL" if each is None else f'"{written(each)}"' for each in vectors)
    return "{" + ",".join(cells) + "}"
