"""Candidates of a recall: rows of searched places that match a question by words or by meaning."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import hypot, log
from typing import Any, NamedTuple

from factmem.models.places import Identity
from factmem.providers._clock import StoreClock
from factmem.providers._postgres import search_statements as sql
from factmem.providers._postgres.driver import Session
from factmem.providers._postgres.items import (
    StoredItem,
    candidate_of,
    held_values,
    patterns,
    written_term,
)
from factmem.providers._postgres.place_search import PlaceSearch
from factmem.providers._postgres.search_states import (
    SearchedPlace,
    Wanted,
    conditions,
    read_places,
)
from factmem.providers._postgres.session import keys, numbers
from factmem.providers._postgres.vector_spaces import Space, VectorSpaces, written
from factmem.providers._sql.lines import micros
from factmem.providers._sql.session import Row
from factmem.providers._sql.stored_places import StoredPlaces
from factmem.providers.searched import (
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
"""The facts of one conversation without message numbers that are scored."""

_LEAST_SCANNED, _MOST_SCANNED, _SCANNED_FARTHEST = 40, 1000, 16
"""Values of `hnsw.ef_search`: pgvector's default, its maximum, and the one for the lowest cosine, which
only scales the scores."""

_FEW = 5000
"""If a filter leaves fewer rows, each of them is compared with the question's vector."""


class _Part(NamedTuple):
    """A part of a statement, with its arguments."""

    statement: str
    given: Sequence[object]


class _Direction(NamedTuple):
    """A question's vector, as it is and without a share of the mean of all vectors."""

    vector: Sequence[float]
    ranked: Sequence[float]
    extension: str


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
        if isinstance(answer, SearchAnswer):
            return answer
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
        vector, due = question.vector, list[Space]()

        def ask(session: Session, _: int) -> SearchAnswer | list[Identity]:
            reader = self._places.reading(session)
            if reader is None:
                return SearchAnswer((), {})
            extension = None
            if vector is not None:
                extension = self._vectors.extension_or_warning(session)
            asked = _Question(session, question, extension, self._vectors)
            now = micros(self._clock.now())
            places = read_places(session, reader, identities, now, asked.wanted())
            self._search.note(identities, {place.identity: place.state for place in places})
            outdated = [place.identity for place in places if not place.state.is_current]
            if outdated and not is_current:
                return outdated
            due[:] = [each.space for each in places if each.space and not each.has_new_texts]
            return asked.answer(places)

        answer = self._places.run(ask)
        for space in due:
            if vector is not None and self._vectors.needs_index(space, len(vector)):
                self._vectors.finish(space, len(vector))
        return answer


class _Question:
    """One question on one connection."""

    def __init__(
        self,
        session: Session,
        question: SearchQuestion,
        extension: str | None,
        vectors: VectorSpaces,
    ) -> None:
        self._session = session
        self._question = question
        self._extension = extension
        self._vectors = vectors
        self._terms = {term: written_term(term) for term in question.terms}
        self._filter, self._filtered = conditions(question.filter)
        self._direction: _Direction | None = None

    def wanted(self) -> Wanted:
        """Return the parameters of the first statement."""
        vector, space = self._question.vector, None
        if vector is not None and self._extension is not None:
            space = self._question.model, len(vector)
        return Wanted(self._terms.values(), space, self._filter, self._filtered, _FEW)

    def answer(self, found: Iterable[SearchedPlace]) -> SearchAnswer:
        """Return the candidates in places."""
        places = {each.key: each for each in found if each.state.facts}
        self._direction = self._directed(places.values())
        rows: dict[int, Row] = {}
        least: dict[str, float] = {}
        for row in self._found(places):
            if row[13] is None:
                rows[row[10]] = row
            else:
                least[row[0].hex] = row[13]
        rows |= {row[10]: row for row in self._together(places, rows)}
        others: list[Row] = []
        if len(places) > 1:
            rows |= {row[10]: row for row in self._beside(places, rows)}
            others = self._others(places, rows)
        wanted = {
            key: patterns(each.state.search or 0, self._terms) for key, each in places.items()
        }

        def candidate(row: Row) -> SearchCandidate:
            key = row[0].hex
            return candidate_of(places[key].identity, wanted[key], row)

        return SearchAnswer(
            [candidate(row) for row in rows.values()],
            {
                place.identity: self._statistics(place, least.get(place.key))
                for place in places.values()
            },
            [candidate(row) for row in others if row[10] not in rows],
            has_meaning=self._direction is not None,
            unembedded=frozenset(self._unembedded(places.values())),
        )

    def _unembedded(self, places: Iterable[SearchedPlace]) -> Iterable[Identity]:
        if self._question.vector is None or self._extension is None:
            return
        for place in places:
            if place.space is None or place.has_new_texts or place.space.needs_sum:
                yield place.identity

    def _statistics(self, place: SearchedPlace, least: float | None) -> PlaceStatistics:
        holders = {term: place.holders.get(each, 0) for term, each in self._terms.items()}
        found = PlaceStatistics(place.state.facts, place.length, holders)
        direction, space = self._direction, place.space
        if direction is None or space is None or space.total is None:
            return found
        return replace(
            found,
            vectors=space.counted,
            cosines=_product(direction.vector, space.total),
            ranked=_product(direction.ranked, space.total),
            least=least,
        )

    def _directed(self, places: Iterable[SearchedPlace]) -> _Direction | None:
        """Return the vectors to compare; None if the question or the places have none."""
        vector, extension = self._question.vector, self._extension
        if vector is None or extension is None:
            return None
        spaces = [place.space for place in places if place.space is not None]
        totals = [space.total for space in spaces if space.total is not None]
        if not totals:
            return None
        whole = totals[0]
        if len(totals) > 1:
            whole = [sum(column) for column in zip(*totals, strict=True)]
        taken = self._question.common / (hypot(*whole) or 1.0)
        ranked = [ours - taken * each for ours, each in zip(vector, whole, strict=True)]
        return _Direction(vector, ranked, extension)

    def _rows(self, statement: str, given: Sequence[object]) -> list[Row]:
        """Run a statement that compares vectors if the question has one."""
        direction = self._direction
        if direction is None:
            return self._session.rows(statement, given, prepare=False)
        head = sql.GIVEN.format(extension=direction.extension)
        vectors = map(written, (direction.vector, direction.ranked))
        # Planned for these words and this filter: one plan for all questions may scan a whole place.
        return self._session.rows(head + statement, [*vectors, *given], prepare=False)

    def _found(self, places: Mapping[str, SearchedPlace]) -> list[Row]:
        """Return the rows that match by words or by meaning, of all places in one statement."""
        found = [
            part
            for place in places.values()
            for part in (*self._by_words(place), *self._by_meaning(place))
        ]
        statement = " UNION ALL ".join(sql.PART.format(part=part.statement) for part in found)
        return (
            self._rows(statement, [each for part in found for each in part.given]) if found else []
        )

    # By words

    def _by_words(self, place: SearchedPlace) -> list[_Part]:
        search = place.state.search
        words = {term: f"'{search}:{term}'" for term in self._ranking_terms(place)}
        if not words:
            return []
        asked, facts, weights = self._chosen(place, words), place.state.facts, list[object]()
        for term, each in words.items():
            few = place.holders.get(term, 0)
            weights += [each, log(1 + (facts - few + 0.5) / (few + 0.5))]
        cosines, vectors = self._joined([place])
        statement = sql.BY_WORDS.format(
            columns=sql.COLUMNS,
            cosines=cosines,
            vectors=vectors,
            place=sql.IN_PLACE if place.is_guarded else sql.IN_PLACE_BY_WORD,
            filter=self._filter,
            score=" + ".join([sql.WORD_SCORE] * len(words)),
        )
        given = [place.key, asked, *self._filtered, _MOST_HITS, *weights]
        given += [place.length / facts or 1.0, self._question.limit]
        return [_Part(statement, given)]

    def _ranking_terms(self, place: SearchedPlace) -> Iterable[str]:
        """Return the terms by which the rows of a place are ranked."""
        terms = self._terms.values()
        if len(terms) <= _MOST_WORDS:
            return terms
        return sorted(place.holders, key=lambda term: place.holders[term])[:_MOST_WORDS]

    def _chosen(self, place: SearchedPlace, words: Mapping[str, str]) -> str:
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

    # By meaning

    def _by_meaning(self, place: SearchedPlace) -> list[_Part]:
        direction, space, limit = self._direction, place.space, self._question.limit
        if direction is None or space is None:
            return []
        own: dict[str, Any] = {
            "extension": direction.extension,
            "dimensions": len(direction.vector),
            "iterating": self._vectors.iterating,
        }
        most = min(max(limit, _LEAST_SCANNED), _MOST_SCANNED)
        statement, given = sql.NEAREST, [limit, place.key]
        if self._filter:
            is_narrow = place.few < _FEW
            statement = sql.NEAREST_OF_FEW if is_narrow else sql.NEAREST_OF_SOME
            given = [place.key, *self._filtered, limit]
        nearest = statement.format(
            columns=sql.COLUMNS,
            cosines=sql.COSINES.format(extension=direction.extension),
            nearness=sql.NEARNESS.format(**own, direction="ranked", most=most),
            filter=self._filter,
            space=space.number,
        )
        farthest = sql.FARTHEST.format(
            no_cosines=sql.NO_COSINES,
            distance=sql.DISTANCE.format(**own, direction="ranked"),
            opposite=sql.NEARNESS.format(**own, direction="opposite", most=_SCANNED_FARTHEST),
            space=space.number,
        )
        return [_Part(nearest, given), _Part(farthest, [place.key])]

    def _joined(self, places: Iterable[SearchedPlace]) -> tuple[str, str]:
        """Return the columns of cosines, and the join with the vectors."""
        direction = self._direction
        spaces = [str(each.space.number) for each in places if each.space is not None]
        if direction is None or not spaces:
            return sql.NO_COSINES, ""
        join = sql.JOINED_VECTORS.format(spaces=", ".join(spaces))
        return sql.COSINES.format(extension=direction.extension), join

    # Related rows

    def _together(self, places: Mapping[str, SearchedPlace], rows: Mapping[int, Row]) -> list[Row]:
        """Return rows of the same conversations, if their messages have no numbers.

        The best facts of such a conversation raise each other's score.
        """
        names = {row[7] for row in rows.values() if row[7] is not None and row[8] < 0}
        if not names:
            return []
        cosines, vectors = self._joined(places.values())
        statement = sql.OF_ONE_CONVERSATION.format(
            columns=sql.COLUMNS, cosines=cosines, vectors=vectors, filter=self._filter
        )
        given = [numbers(names), keys(places), *self._filtered, _MOST_TOGETHER]
        return self._rows(statement, given)

    def _beside(self, places: Mapping[str, SearchedPlace], rows: Mapping[int, Row]) -> list[Row]:
        """Return the neighbours of rows in conversations that several of the places share."""
        spots = {(row[7], row[8]) for row in rows.values() if row[7] is not None and row[8] >= 0}
        names = numbers({conversation for conversation, _ in spots})
        if not spots:
            return []
        found = self._session.rows(sql.SHARED_CONVERSATIONS, [keys(places), names])
        shared = {conversation for (conversation,) in found}
        chosen = [spot for spot in spots if spot[0] in shared]
        if not chosen:
            return []
        cosines, vectors = self._joined(places.values())
        columns = [numbers(column) for column in zip(*chosen, strict=True)]
        statement = sql.BESIDE.format(
            columns=sql.COLUMNS, cosines=cosines, vectors=vectors, filter=self._filter
        )
        return self._rows(statement, [*columns, keys(places), _AROUND, _AROUND, *self._filtered])

    def _others(self, places: Mapping[str, SearchedPlace], rows: Mapping[int, Row]) -> list[Row]:
        """Return the facts of other places that may take precedence over candidates."""
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


def _product(one: Iterable[float], two: Iterable[float]) -> float:
    return sum(a * b for a, b in zip(one, two, strict=True))
