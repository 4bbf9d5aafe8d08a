"""Candidates of a recall: rows of searched places that match a question by words or by meaning.

Two statements, each for all places of a recall: the state of the places, and the question, by words
and by meaning. If rows are outdated, `PlaceSearch` updates them in between. More is returned than
the recall needs: this module selects, and `factmem.recall` scores the candidates as it scores facts
in memory, by the counts, cosines and statistics returned here.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import hypot, log
from typing import Any, NamedTuple

from factmem.models.facts import AnyFact, Concept
from factmem.models.places import Identity
from factmem.providers._backend import StoreClock
from factmem.providers._postgres import search_statements as sql
from factmem.providers._postgres.database import asking
from factmem.providers._postgres.items import counts_in, written_term
from factmem.providers._postgres.place_search import PlaceSearch
from factmem.providers._postgres.search_states import SearchedPlace, conditions, read_places
from factmem.providers._postgres.session import PostgresSession, byte_strings
from factmem.providers._postgres.vector_spaces import VectorSpaces, written
from factmem.providers._sql.items import StoredItem
from factmem.providers._sql.places import micros
from factmem.providers._sql.session import Row
from factmem.providers._sql.stored_places import StoredPlaces
from factmem.providers.results import (
    Describe,
    PlaceStatistics,
    SearchAnswer,
    SearchCandidate,
    SearchQuestion,
)

_MOST_HITS = 1500
"""The most rows ranked by words, from the rarest terms of a question on; each is on another page."""

_MOST_WORDS = 256
"""The most words of a question by which a statement ranks rows: the rarest ones of a place. A message
with thousands of words would exceed the server's limit for an expression."""

_AROUND = 4
"""The distance of messages whose facts are found by words of the same neighbour."""

_MOST_TOGETHER = 32
"""The facts of one conversation that are scored with each of its candidates."""

_LEAST_SCANNED, _MOST_SCANNED, _SCANNED_FARTHEST = 40, 1000, 16
"""Values of `hnsw.ef_search`: pgvector's default, its maximum, and the one for the lowest cosine, which
only scales the scores."""


class _Part(NamedTuple):
    """A part of a statement, with its arguments."""

    statement: str
    given: Sequence[object]


class _Direction(NamedTuple):
    """A question's vector, as it is and without a share of the mean of all vectors."""

    vector: Sequence[float]
    ranked: Sequence[float]


class Candidates:
    """Finds the candidates of questions. The method blocks and is thread-safe.

    Args:
        places: The places of a store.
        search: Updates the rows of places.
        vectors: The vectors of places.
        clock: The clock of the store.
    """

    def __init__(
        self,
        places: StoredPlaces,
        search: PlaceSearch,
        vectors: VectorSpaces,
        clock: StoreClock,
    ) -> None:
        self._places = places
        self._search = search
        self._vectors = vectors
        self._clock = clock

    def of(
        self, identities: Sequence[Identity], question: SearchQuestion, describe: Describe
    ) -> SearchAnswer:
        """Update the rows of some places, and return the candidates."""
        answer = self._asked(identities, question, is_current=False)
        if not isinstance(answer, SearchAnswer):
            for identity in answer:
                self._search.bring_up(identity, describe)
            # Facts that are saved meanwhile were not saved before this call: one update is enough.
            answer = self._asked(identities, question, is_current=True)
            assert isinstance(answer, SearchAnswer)  # noqa: S101 - outdated places were accepted
        return answer

    def _asked(
        self, identities: Sequence[Identity], question: SearchQuestion, *, is_current: bool
    ) -> SearchAnswer | list[Identity]:
        """Return the candidates, or the places with outdated rows unless `is_current`."""

        def ask(session: PostgresSession, _: int) -> SearchAnswer | list[Identity]:
            reader, vector = self._places.reading(session), question.vector
            if reader is None:
                return SearchAnswer((), {})
            extension = None if vector is None else self._vectors.extension(session)
            asked = _Question(question, extension)
            space = None
            if vector is not None and extension is not None:
                space = question.model, len(vector)
            now, terms = micros(self._clock.now()), asked.terms.values()
            places = read_places(session, reader, identities, now, terms=terms, space=space)
            outdated = [place.identity for place in places if not place.is_current]
            if outdated and not is_current:
                return outdated
            return asked.answer(session, [place for place in places if place.facts])

        return self._places.run(asking(ask))


class _Question:
    """One question, and the statement that finds its candidates."""

    def __init__(self, question: SearchQuestion, extension: str | None) -> None:
        self._question = question
        self._extension = extension
        self.terms = {term: written_term(term) for term in question.terms}
        """The terms as they are stored."""
        self._filter, self._filtered = conditions(question.filter)
        self._direction: _Direction | None = None

    def answer(self, session: PostgresSession, places: Sequence[SearchedPlace]) -> SearchAnswer:
        """Return the candidates in places that are not empty."""
        self._direction = self._directed(places)
        by_key = {place.key: place for place in places}
        candidates: list[SearchCandidate] = []
        others: list[SearchCandidate] = []
        least: dict[bytes, float] = {}
        statement, given = self._statement(places)
        # Planned for these words and this filter: one plan for all questions may scan a whole place.
        for row in session.rows(statement, given, prepare=False) if places else ():
            is_other, farthest, key, *_ = row
            if farthest is not None:
                least[key] = farthest
            (others if is_other else candidates).append(self._candidate(by_key[key], row))
        statistics = {place.identity: self._counted(place, least) for place in places}
        has_meaning = self._direction is not None
        unembedded = frozenset(self._unembedded(places))
        return SearchAnswer(candidates, statistics, others, has_meaning, unembedded)

    def _candidate(self, place: SearchedPlace, row: Row) -> SearchCandidate:
        _, _, _, stored, length, words, cosine, ranked = row

        # Only the caller knows the types of values.
        def load(known: Mapping[str, Concept[Any, Any]]) -> AnyFact:
            item = StoredItem.load(stored)
            return item.fact(known.get(item.keyword))

        counts = counts_in(words, self.terms, place.search)
        return SearchCandidate(place.identity, counts, length, cosine, ranked, load)

    def _unembedded(self, places: Iterable[SearchedPlace]) -> Iterable[Identity]:
        if self._question.vector is not None and self._extension is not None:
            for place in places:
                if place.space is None or place.has_new_texts:
                    yield place.identity

    def _counted(self, place: SearchedPlace, least: Mapping[bytes, float]) -> PlaceStatistics:
        holders = {term: place.holders.get(each, 0) for term, each in self.terms.items()}
        found = place.facts, place.length, holders
        direction, space = self._direction, place.space
        if direction is None or space is None or space.total is None:
            return PlaceStatistics(*found)
        cosines, ranked = (_product(each, space.total) for each in direction)
        return PlaceStatistics(*found, space.counted, cosines, ranked, least.get(place.key))

    def _directed(self, places: Iterable[SearchedPlace]) -> _Direction | None:
        """Return the vectors to compare; None if the question or the places have none."""
        vector, spaces = self._question.vector, [place.space for place in places]
        totals = [each.total for each in spaces if each is not None and each.total is not None]
        if vector is None or not totals:
            return None
        whole = [sum(column) for column in zip(*totals, strict=True)]
        share = self._question.common / (hypot(*whole) or 1.0)
        return _Direction(vector, [a - share * b for a, b in zip(vector, whole, strict=True)])

    def _statement(self, places: Sequence[SearchedPlace]) -> tuple[str, list[object]]:
        """Return the statement that finds candidates in all places, and its arguments."""
        parts = [p for each in places for p in (*self._by_words(each), *self._by_meaning(each))]
        named, is_one = byte_strings(place.key for place in places), len(places) == 1
        cosines, vectors, given_vectors, given = sql.NO_COSINES, "", "", list[object]()
        if self._direction is not None:
            spaces = ", ".join(str(each.space.number) for each in places if each.space)
            cosines = sql.COSINES.format(extension=self._extension)
            vectors = sql.VECTORS.format(spaces=spaces)
            given_vectors = sql.GIVEN.format(extension=self._extension)
            given += map(written, self._direction)
        for part in parts:
            given += part.given
        given += [named, *self._filtered, named, *([] if is_one else [named, named])]
        statement = sql.QUESTION.format(
            given=given_vectors,
            parts=" UNION ALL ".join(f"({part.statement})" for part in parts) or sql.NOTHING,
            around=_AROUND,
            most=_MOST_TOGETHER,
            filter=self._filter,
            others="" if is_one else sql.OTHERS,
            or_others="" if is_one else sql.OR_OTHERS,
            cosines=cosines,
            vectors=vectors,
        )
        return statement, given

    # By words

    def _by_words(self, place: SearchedPlace) -> Iterable[_Part]:
        words = {term: f"'{place.search}:{term}'" for term in self._ranking_terms(place)}
        if not words:
            return
        weights = list[object]()
        for term, each in words.items():
            few = place.holders.get(term, 0)
            weights += [each, log(1 + (place.facts - few + 0.5) / (few + 0.5))]
        statement = sql.BY_WORDS.format(
            place=sql.IN_PLACE if place.is_guarded else sql.IN_PLACE_BY_WORD,
            filter=self._filter,
            score=" + ".join([sql.WORD_SCORE] * len(words)),
        )
        given = [place.key, _rarest(place, words), *self._filtered, _MOST_HITS, *weights]
        average = place.length / place.facts or 1.0
        yield _Part(statement, [*given, average, self._question.limit])

    def _ranking_terms(self, place: SearchedPlace) -> Iterable[str]:
        """Return the terms by which the rows of a place are ranked."""
        terms = self.terms.values()
        if len(terms) <= _MOST_WORDS:
            return terms
        return sorted(place.holders, key=lambda term: place.holders[term])[:_MOST_WORDS]

    # By meaning

    def _by_meaning(self, place: SearchedPlace) -> Iterable[_Part]:
        direction, space, limit = self._direction, place.space, self._question.limit
        if direction is None or space is None:
            return
        own: dict[str, Any] = {"extension": self._extension, "dimensions": len(direction.vector)}
        most = min(max(limit, _LEAST_SCANNED), _MOST_SCANNED)
        opposite = sql.NEARNESS.format(**own, direction="opposite", most=_SCANNED_FARTHEST)
        own |= {"space": space.number, "filter": self._filter}
        own["farthest"] = sql.FARTHEST.format(**own, opposite=opposite)
        if self._filter:
            given = [place.key, *self._filtered, limit]
            yield _Part(sql.NEAREST_INSIDE.format(**own), given)
        else:
            nearness = sql.NEARNESS.format(**own, direction="ranked", most=most)
            yield _Part(sql.NEAREST.format(**own, nearness=nearness), [limit, place.key])


def _rarest(place: SearchedPlace, words: Mapping[str, str]) -> str:
    """Return a tsquery for the rarest words of a question.

    Words of most facts of the place do not affect the ranking, and reading all of these facts
    takes long. If a question has only such words, a row must have two of them.
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


def _product(one: Iterable[float], two: Iterable[float]) -> float:
    return sum(a * b for a, b in zip(one, two, strict=True))
