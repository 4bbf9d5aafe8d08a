"""TsWords: the words of searches in PostgreSQL, and the vectors of their texts.

A row of the table `words` has the words of an item, each with the number of the search before it,
so that one index serves all places. A row has the digest of the item's text, too, which its vector
is stored by.
"""

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from math import hypot, inf

from factmem.models.recall_filter import RecallFilter
from factmem.providers._postgres.database import own
from factmem.providers._postgres.session import PostgresSession, keys, numbers
from factmem.providers._postgres.vector_spaces import (
    Space,
    VectorSpaces,
    drop_vectors,
    erase_vectors,
    written_vector,
)
from factmem.providers._sql.search import conditions, marks_in
from factmem.providers._sql.session import Session
from factmem.providers._sql.topics import topic_of
from factmem.providers.results import SearchDocument, SearchQuestion

_ROWS = 1000
"""The rows of one statement."""

_LARGEST = 900_000
"""The most bytes of the words of an item; PostgreSQL allows 2^20. Such a text is found by the first
ones."""

_LEAST_SCANNED, _MOST_SCANNED = 40, 1000
"""Values of `hnsw.ef_search`: pgvector's default and its maximum."""

_ADD = """
INSERT INTO factmem.words (search, item, store, text, words)
SELECT %s::int, item, %s::int, text, words::tsvector
FROM unnest(%s::bigint[], %s::uuid[], %s::text[]) AS r (item, text, words)
"""

_REMOVE = """
DELETE FROM factmem.words WHERE search = %s AND item = ANY (%s::bigint[]) RETURNING text
"""

_TEXTS = """
SELECT DISTINCT w.text FROM factmem.items i
JOIN factmem.words w ON w.search = i.search AND w.item = i.item
WHERE i.search = %s AND i.topic = ANY (%s::bigint[])
"""

_IS_GUARDED = "SELECT row_security_active('factmem.words')"

_NEAREST = """
SELECT w.item FROM (
    SELECT text FROM factmem.vectors v WHERE v.space = {space} AND v.vector IS NOT NULL
    ORDER BY v.vector::{extension}.halfvec({dimensions}) OPERATOR({extension}.<#>) (
        SELECT %s::text::{extension}.halfvec
        WHERE set_config('hnsw.ef_search', '{most}', true) IS NOT NULL)
    LIMIT %s
) v CROSS JOIN LATERAL (
    SELECT item FROM factmem.words w WHERE w.search = {search} AND w.text = v.text OFFSET 0
) w
"""
"""The indexed expression, with a fixed number of dimensions. An index scan evaluates the subquery
when it starts and reads its setting afterwards, so that the setting needs no statement of its own.
A subquery with `LIMIT` or `OFFSET 0` is not merged by the planner, which has no statistics of a new
place yet."""

_NEAREST_INSIDE = """
SELECT i.item FROM (
    SELECT i.item, w.text, w.words FROM factmem.items i
    JOIN factmem.words w ON w.search = i.search AND w.item = i.item
    WHERE i.search = {search} {inside} OFFSET 0
) i JOIN factmem.vectors v ON v.space = {space} AND v.text = i.text
WHERE v.vector IS NOT NULL AND (%s = '' OR i.words @@ %s::tsquery)
ORDER BY v.vector OPERATOR({extension}.<#>) %s::text::{extension}.halfvec LIMIT %s
"""
"""Compares every row inside a filter: an index scan would find few of them."""

_COSINES = """
SELECT w.item, -(v.vector OPERATOR({extension}.<#>) %s::text::{extension}.halfvec),
    -(v.vector OPERATOR({extension}.<#>) %s::text::{extension}.halfvec)
FROM factmem.words w JOIN factmem.vectors v ON v.space = {space} AND v.text = w.text
WHERE w.search = {search} AND w.item = ANY (%s::bigint[]) AND v.vector IS NOT NULL
"""
"""The cosines, as products of vectors of length 1; the operator returns them with the sign
changed."""

_IS_BEHIND = "SELECT 1 FROM factmem.words WHERE search = %s AND item > %s LIMIT 1"


class TsWords:
    """The words of searches in PostgreSQL; see `WordIndex`."""

    joined = "string_agg(w.item::text, ',')"

    def __init__(self, vectors: VectorSpaces) -> None:
        self._vectors = vectors
        self._is_guarded: bool | None = None

    def holding(self, session: Session, search: int) -> str:
        """See `WordIndex.holding`; row level security excludes the index, as `@@` is not leakproof.

        Otherwise nothing else must be used, which the planner does not know of a new place.
        """
        if self._is_guarded is None:
            self._is_guarded = bool(session.rows(_IS_GUARDED)[0][0])
        inside = f"search = {search} AND" if self._is_guarded else ""
        return f"SELECT item FROM factmem.words WHERE {inside} words @@ %s::tsquery"  # noqa: S608

    def asked(self, search: int, terms: Sequence[str]) -> str:
        return " & ".join(f"'{search}:{term}'" for term in terms)

    def make(self, session: Session, search: int) -> None:
        """See `WordIndex.make`: one table has the words of all searches."""

    def add(
        self, session: Session, search: int, documents: Sequence[tuple[int, SearchDocument]]
    ) -> None:
        for at in range(0, len(documents), _ROWS):
            part = documents[at : at + _ROWS]
            texts = keys(each.digest.hex() or "NULL" for _, each in part)
            words = ",".join(f'"{_words(search, each.terms)}"' for _, each in part)
            items = numbers(item for item, _ in part)
            session.rows(_ADD, [search, session.store, items, texts, "{" + words + "}"])

    def remove(self, session: Session, key: bytes, search: int, items: Sequence[int]) -> None:
        rows = session.rows(_REMOVE, [search, numbers(items)])
        drop_vectors(own(session), key, search, [text for (text,) in rows if text is not None])

    def drop(
        self, session: Session, key: bytes, search: int, removed: Collection[str] | None
    ) -> None:
        """See `WordIndex.drop`. Vectors of other keywords stay, as embedding texts costs money."""
        texts = []
        if removed:
            rows = session.rows(_TEXTS, [search, numbers(map(topic_of, removed))])
            texts = [text for (text,) in rows if text is not None]
        session.rows("DELETE FROM factmem.words WHERE search = %s", [search])
        if removed is None:
            erase_vectors(own(session), key)
        else:
            drop_vectors(own(session), key, search, texts)
            session.rows("UPDATE factmem.spaces SET upto = 0 WHERE place = %s", [key])

    @contextmanager
    def patience(self, session: Session) -> Generator[None]:
        """See `WordIndex.patience`: the deadline of a call is shorter than a large index takes."""
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
        extension = None if question.vector is None else self._vectors.extension(postgres)
        if question.vector is None or extension is None:
            return None
        spaces = self._vectors.spaces(postgres, searches, question.model, len(question.vector))
        return PlaceVectors(postgres, extension, spaces, question)


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

    def nearest(self, key: bytes, search: int, inside: RecallFilter) -> list[int]:
        space = self._spaces.get(key)
        if space is None or not space.counted:
            return []
        named = {"space": space.number, "search": search, "extension": self._extension}
        ranked = written_vector(self._ranked)
        if inside.is_open:
            most = min(max(self._limit, _LEAST_SCANNED), _MOST_SCANNED)
            query = _NEAREST.format(**named, dimensions=len(self._vector), most=most)
            rows = self._session.rows(query, [ranked, self._limit], prepare=False)
        else:
            where, given = conditions(inside)
            marks = " & ".join(f"'{search}:{mark}'" for mark in marks_in(inside))
            query = _NEAREST_INSIDE.format(**named, inside=where)
            given += [marks, marks or "x", ranked, self._limit]
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


def _words(search: int, terms: Iterable[str]) -> str:
    words = " ".join(f"'{search}:{term}'" for term in dict.fromkeys(terms))
    return words if len(words) <= _LARGEST else words[:_LARGEST].rpartition(" ")[0]


def _product(one: Iterable[float], two: Iterable[float]) -> float:
    return sum(a * b for a, b in zip(one, two, strict=True))
