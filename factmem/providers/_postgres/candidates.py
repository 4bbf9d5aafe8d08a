"""Candidates: the rows of searched places that share words with a question, or are near to it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import hypot, log
from typing import Any, NamedTuple

from factmem.models.facts import AnyFact, Concept
from factmem.models.places import Identity
from factmem.providers._postgres import search_statements as sql
from factmem.providers._postgres.blocking import PostgresPlaces
from factmem.providers._postgres.driver import Row, Session
from factmem.providers._postgres.items import (
    StoredItem,
    counts_in,
    hashed,
    held_values,
    kind_numbers,
    metadata_hashes,
    patterns,
    written_term,
)
from factmem.providers._postgres.places import PlaceReader
from factmem.providers._postgres.statements import keys, numbers
from factmem.providers._postgres.vector_spaces import Space, VectorSpaces, written
from factmem.providers.searched import (
    PlaceStatistics,
    SearchAnswer,
    SearchCandidate,
    SearchFilter,
    SearchQuestion,
)

_MOST_HITS = 3000
"""How many rows are ranked by words. The rarest terms of a question come first, up to so many."""

_AROUND = 4
"""How far apart messages are whose facts are found by words of the same neighbour."""

_MOST_TOGETHER = 32
"""Facts of one conversation without numbers that are scored, at the least."""

_FEW = 5000
"""Where a filter leaves fewer rows, all of them are compared with a question's vector."""

_SETTINGS = {
    "hnsw.ef_search": "100",
    "hnsw.iterative_scan": "strict_order",
    "plan_cache_mode": "force_custom_plan",
}
"""A filter that leaves one row in a hundred makes an index scan go on until it has enough."""


class _Place(NamedTuple):
    """A place to be asked."""

    identity: Identity
    key: str
    search: int
    facts: int
    length: float
    patterns: Sequence[tuple[str, bytes]]
    """What the terms of the question are found by in its rows."""
    holders: Mapping[str, int]
    """How many facts have each term of the question, as terms are written."""


class _Direction(NamedTuple):
    """Where a question's vector points, with and without a part of what all facts share."""

    vector: Sequence[float]
    ranked: Sequence[float]
    spaces: Mapping[str, Space]
    extension: str

    @property
    def distance(self) -> str:
        dimensions = len(self.vector)
        return sql.DISTANCE.format(extension=self.extension, dimensions=dimensions)

    @property
    def cosines(self) -> str:
        return f"-({self.distance}), -({self.distance})"

    @property
    def written(self) -> list[str]:
        return [written(self.vector), written(self.ranked)]


class Candidates:
    """Asks for candidates. The method blocks, and is safe for threads.

    Args:
        places: The places of a store.
        vectors: Their vectors.
    """

    def __init__(self, places: PostgresPlaces, vectors: VectorSpaces) -> None:
        self._places = places
        self._vectors = vectors

    def of(self, identities: Sequence[Identity], question: SearchQuestion) -> SearchAnswer:
        """Return the candidates in some places."""

        def ask(session: Session, _: int) -> SearchAnswer:
            reader = self._places.reading(session)
            if reader is None:
                return SearchAnswer((), {})
            extension = self._vectors.extension(session)
            with session.transaction():
                return _Question(session, reader, question, extension, self._vectors).asked(
                    identities
                )

        return self._places.run(ask)


class _Question:
    """One question, inside a transaction."""

    def __init__(
        self,
        session: Session,
        reader: PlaceReader,
        question: SearchQuestion,
        extension: str | None,
        vectors: VectorSpaces,
    ) -> None:
        self._session = session
        self._reader = reader
        self._question = question
        self._extension = extension
        self._vectors = vectors
        self._terms = {term: written_term(term) for term in question.terms}
        self._filter, self._filtered = _conditions(question.filter)

    def asked(self, identities: Sequence[Identity]) -> SearchAnswer:
        places = self._known(identities)
        direction = self._direction(places)
        if direction is not None:
            calls = ", ".join("set_config(%s, %s, true)" for _ in _SETTINGS)
            given = [part for pair in _SETTINGS.items() for part in pair]
            self._session.rows(f"SELECT {calls}", given)
        rows: dict[int, Row] = {}
        least: dict[str, float | None] = {}
        for place in places.values():
            rows |= {row[10]: row for row in self._by_words(place, direction)}
            if direction is not None and place.key in direction.spaces:
                near, least[place.key] = self._near(place, direction)
                rows |= {row[10]: row for row in near}
        rows |= {row[10]: row for row in self._together(places, rows, direction)}
        others: list[Row] = []
        if len(places) > 1:
            rows |= {row[10]: row for row in self._beside(places, rows, direction)}
            others = self._others(places, rows)
        return SearchAnswer(
            [self._candidate(places, row) for row in rows.values()],
            {
                place.identity: self._statistics(place, direction, least.get(place.key))
                for place in places.values()
            },
            [self._candidate(places, row) for row in others if row[10] not in rows],
            has_meaning=direction is not None,
        )

    def _known(self, identities: Sequence[Identity]) -> dict[str, _Place]:
        named = {self._reader.key(identity): identity for identity in identities}
        terms = "{" + ",".join(f'"{each}"' for each in self._terms.values()) + "}"
        found: dict[str, _Place] = {}
        for place, search, facts, length, known, counts in self._session.rows(
            sql.READ_COUNTS, [terms, keys(named)]
        ):
            pairs = zip(known or (), counts or (), strict=True)
            holders: dict[str, int] = {str(term): int(count) for term, count in pairs}
            key = place.hex
            found[key] = _Place(
                named[key], key, search, facts, length, patterns(search, self._terms), holders
            )
        return found

    def _statistics(
        self, place: _Place, direction: _Direction | None, least: float | None
    ) -> PlaceStatistics:
        holders = {term: place.holders.get(each, 0) for term, each in self._terms.items()}
        found = PlaceStatistics(place.facts, place.length, holders)
        space = None if direction is None else direction.spaces.get(place.key)
        if direction is None or space is None or space.total is None:
            return found
        return replace(
            found,
            vectors=space.counted,
            cosines=_product(direction.vector, space.total),
            ranked=_product(direction.ranked, space.total),
            least=least,
        )

    def _direction(self, places: Mapping[str, _Place]) -> _Direction | None:
        """Return the directions of the question; None where no vectors are compared."""
        vector, extension = self._question.vector, self._extension
        if vector is None or extension is None:
            return None
        spaces = self._vectors.of(self._session, places, self._question.model, len(vector))
        totals = [space.total for space in spaces.values() if space.total is not None]
        if not totals:
            return None
        whole = [sum(column) for column in zip(*totals, strict=True)]
        length = hypot(*whole) or 1.0
        taken = self._question.common / length
        ranked = [ours - taken * each for ours, each in zip(vector, whole, strict=True)]
        return _Direction(vector, ranked, spaces, extension)

    # By words

    def _by_words(self, place: _Place, direction: _Direction | None) -> list[Row]:
        words = {term: f"'{place.search}:{term}'" for term in self._terms.values()}
        asked = self._chosen(place, words)
        if not asked:
            return []
        score = " + ".join([sql.WORD_SCORE] * len(words))
        weights: list[object] = []
        for term, each in words.items():
            few = place.holders.get(term, 0)
            weights += [each, log(1 + (place.facts - few + 0.5) / (few + 0.5))]
        cosines, vectors, given = _joined(direction, [place.key])
        statement = sql.BY_WORDS.format(
            columns=sql.COLUMNS, cosines=cosines, vectors=vectors, filter=self._filter, score=score
        )
        average = place.length / place.facts or 1.0
        given += [place.key, asked, *self._filtered, _MOST_HITS, *weights, average]
        return self._session.rows(statement, [*given, self._question.limit])

    def _chosen(self, place: _Place, words: Mapping[str, str]) -> str:
        """Return a tsquery for rows that have the rarest words of a question.

        Words that most facts of the place have rank nothing, and it takes long to look at all of
        these facts. Where a question has no others, facts are looked at that have two of them.
        """
        by_count = sorted(words, key=lambda term: place.holders.get(term, 0))
        chosen: list[str] = []
        hits = 0
        for term in by_count:
            hits += place.holders.get(term, 0)
            if hits > _MOST_HITS:
                break
            chosen.append(words[term])
        return " | ".join(chosen) or " & ".join(words[term] for term in by_count[:2])

    # By meaning

    def _near(self, place: _Place, direction: _Direction) -> tuple[list[Row], float | None]:
        """Return the rows that are nearest to the question, and about the least cosine of all."""
        space, limit = direction.spaces[place.key].number, self._question.limit
        filled = partial(
            str.format,
            columns=sql.COLUMNS,
            cosines=direction.cosines,
            distance=direction.distance,
            filter=self._filter,
            space=space,
        )
        both = direction.written
        opposite = written(-number for number in direction.ranked)
        ((least,),) = self._session.rows(filled(sql.FARTHEST), [both[1], opposite]) or [(None,)]
        if not self._filter:
            given = [*both, both[1], limit, place.key]
            return self._session.rows(filled(sql.NEAREST), given), least
        counted = [place.key, *self._filtered, _FEW]
        ((few,),) = self._session.rows(filled(sql.COUNT_FEW), counted)
        if few < _FEW:
            given = [place.key, *self._filtered, *both, limit]
            return self._session.rows(filled(sql.NEAREST_OF_FEW), given), least
        given = [*both, place.key, *self._filtered, both[1], limit]
        return self._session.rows(filled(sql.NEAREST_OF_SOME), given), least

    # What the rows say

    def _together(
        self, places: Mapping[str, _Place], rows: Mapping[int, Row], direction: _Direction | None
    ) -> list[Row]:
        """Return what comes from the conversations of rows, if their messages have no numbers.

        What fits a question best raises the score of the others.
        """
        names = {row[7] for row in rows.values() if row[7] is not None and row[8] < 0}
        if not names:
            return []
        cosines, vectors, given = _joined(direction, places)
        statement = sql.OF_ONE_CONVERSATION.format(
            columns=sql.COLUMNS, cosines=cosines, vectors=vectors, filter=self._filter
        )
        given += [numbers(names), keys(places), *self._filtered, _MOST_TOGETHER]
        return self._session.rows(statement, given)

    def _beside(
        self, places: Mapping[str, _Place], rows: Mapping[int, Row], direction: _Direction | None
    ) -> list[Row]:
        """Return what stands beside the rows in conversations that several of the places have."""
        spots = {(row[7], row[8]) for row in rows.values() if row[7] is not None and row[8] >= 0}
        names = numbers({conversation for conversation, _ in spots})
        found = self._session.rows(sql.SHARED_CONVERSATIONS, [keys(places), names])
        shared = {conversation for (conversation,) in found}
        chosen = [spot for spot in spots if spot[0] in shared]
        if not chosen:
            return []
        cosines, vectors, given = _joined(direction, places)
        columns = [numbers(column) for column in zip(*chosen, strict=True)]
        statement = sql.BESIDE.format(
            columns=sql.COLUMNS, cosines=cosines, vectors=vectors, filter=self._filter
        )
        given += [*columns, keys(places), _AROUND, _AROUND, *self._filtered]
        return self._session.rows(statement, given)

    def _others(self, places: Mapping[str, _Place], rows: Mapping[int, Row]) -> list[Row]:
        """Return the facts of other places that may stand in the place of candidates."""
        topics = {row[2] for row in rows.values()}
        given = [keys(places), numbers(topics)]
        shared = {topic for (topic,) in self._session.rows(sql.FIND_TOPICS, given)}
        if not shared:
            return []
        held = {
            value
            for row in rows.values()
            if row[2] in shared
            for value in held_values(StoredItem.load(row[1]).items)
        }
        given = [keys(places), numbers(shared), numbers(held)]
        return self._session.rows(sql.OTHERS.format(columns=sql.COLUMNS), given)

    def _candidate(self, places: Mapping[str, _Place], row: Row) -> SearchCandidate:
        place, stored, topic, length, heard_at, said_at, importance, conversation, message = row[:9]
        found = places[place.hex]

        def load(known: Mapping[str, Concept[Any, Any]]) -> AnyFact:
            item = StoredItem.load(stored)
            return item.fact(known.get(item.keyword))

        return SearchCandidate(
            identity=found.identity,
            topic=topic,
            counts=counts_in(row[9], found.patterns),
            length=length,
            heard_at=heard_at,
            said_at=said_at,
            importance=importance,
            conversation=conversation,
            is_numbered=message is not None and message >= 0,
            cosine=row[11],
            ranked=row[12],
            load=load,
        )


def _joined(direction: _Direction | None, places: Iterable[str]) -> tuple[str, str, list[object]]:
    """Return the columns of cosines, the join that they need, and the arguments of the columns."""
    known = {} if direction is None else direction.spaces
    spaces = [str(known[place].number) for place in places if place in known]
    if direction is None or not spaces:
        return sql.NO_COSINES, "", []
    join = sql.JOINED_VECTORS.format(spaces=", ".join(spaces))
    return direction.cosines, join, [*direction.written]


def _product(one: Iterable[float], two: Iterable[float]) -> float:
    return sum(a * b for a, b in zip(one, two, strict=True))


def _conditions(wanted: SearchFilter) -> tuple[str, list[object]]:
    """Return a filter as SQL, and its arguments."""
    parts: list[str] = []
    given: list[object] = []

    def add(part: str, argument: object) -> None:
        parts.append(f"AND {part}")
        given.append(argument)

    if wanted.keywords is not None:
        add("i.topic = ANY (%s::bigint[])", numbers(map(hashed, wanted.keywords)))
    if wanted.since is not None:
        add("i.said_at >= %s", wanted.since.timestamp())
    if wanted.until is not None:
        add("i.said_at < %s", wanted.until.timestamp())
    if wanted.source_kinds is not None:
        add("i.kind = ANY (%s::bigint[])", numbers(kind_numbers(wanted.source_kinds)))
    if wanted.min_importance is not None:
        add("i.importance >= %s", wanted.min_importance)
    if wanted.metadata:
        add("i.metadata @> %s::bigint[]", numbers(metadata_hashes(wanted.metadata)))
    return " ".join(parts), given
