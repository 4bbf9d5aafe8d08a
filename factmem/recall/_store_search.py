"""Search in a store that finds the candidates of large places itself; they are ranked here.

The candidates of a question are put into an empty `FactIndex`, with the statistics of all facts of
their places instead of those of the index. So a fact has the same score as in a search in memory.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import chain
from math import nan
from typing import Any, NamedTuple, TypeAlias

from factmem.errors import StoredFactError
from factmem.ledger.resolution import PlacedFact, UnreadableConcept, resolve_entities
from factmem.models.facts import AnyFact, Concept
from factmem.models.places import Identity, Place
from factmem.providers.results import (
    PlaceStatistics,
    SearchAnswer,
    SearchCandidate,
    SearchDocument,
    SearchQuestion,
)
from factmem.providers.store import FactStore
from factmem.recall._bm25 import DenseScores, QueryWords, Term, TermIndex, WordScores
from factmem.recall._documents import (
    FIELD_WEIGHTS,
    RECURRING_FIELDS,
    meaning_of,
    said_around,
    text_digest,
    words_of,
)
from factmem.recall._fact_index import FactIndex
from factmem.recall._place_cache import IndexCache
from factmem.recall._place_vectors import COMMON, Array, Nearness, Spread, numpy_or_none
from factmem.recall._ranking import USUAL
from factmem.recall.match import Match, RecallQuery

_LEAST_CANDIDATES = 50
"""The candidates of each place, by words and by meaning each. On the corpus hit@5 by words is .646 with
them, and .648 in a search of all facts."""

_PER_MATCH = 3

_Name: TypeAlias = tuple[Identity, str, str]
"""The place, keyword and id of a fact."""


class StoreMatches(NamedTuple):
    """The matches of one question."""

    matches: list[Match]
    unreadable: list[UnreadableConcept]
    has_meaning: bool
    unembedded: frozenset[Identity]
    """The places with facts that have no vector yet."""


async def search_store(
    store: FactStore,
    cache: IndexCache,
    places: Sequence[Place],
    query: RecallQuery,
    now: datetime,
    *,
    concepts: Mapping[str, Concept[Any, Any]],
    model: str,
    vector: "array[float] | None",
) -> StoreMatches:
    """Return the best matches of a query, best first.

    Args:
        store: Finds the candidates.
        cache: Provides the worker threads.
        places: The places to search.
        query: The query.
        now: The time for recency.
        concepts: The declared concepts of the application, by keyword.
        model: The embedding model of the vector.
        vector: The vector of the query; None to search only by words.
    """
    found = _Found(places, query)
    words = await cache.work(lambda: found.words(has_vector=vector is not None))
    question = SearchQuestion(
        terms=list(dict.fromkeys(chain.from_iterable(words.wanted))),
        limit=max(_LEAST_CANDIDATES, _PER_MATCH * query.limit),
        filter=query.filter,
        model=model,
        vector=vector,
        common=COMMON,
    )
    answer = await store.candidates(places, question, described)
    return await cache.work(lambda: found.ranked(answer, concepts, words, now))


class _Found:
    """The candidates of a query, each in a numbered slot of an index.

    Args:
        places: The searched places.
        query: The query.
    """

    def __init__(self, places: Sequence[Place], query: RecallQuery) -> None:
        self._places = {place.identity: place for place in places}
        self._query = query
        self._index = FactIndex(places)
        self._entity: str | None = None
        self._slots: list[tuple[SearchCandidate, PlacedFact[AnyFact]]] = []
        self._unreadable: dict[tuple[Identity, str], UnreadableConcept] = {}

    def words(self, *, has_vector: bool) -> QueryWords:
        """Return the words of the query to search for."""
        words, self._entity = self._index.asked(self._query.text, has_vectors=has_vector)
        return words

    def ranked(
        self,
        answer: SearchAnswer,
        concepts: Mapping[str, Concept[Any, Any]],
        words: QueryWords,
        now: datetime,
    ) -> StoreMatches:
        """Return the best candidates as matches."""
        self._put(answer, concepts)
        near, scores = None, self._word_scores(answer, words)
        dense: WordScores | DenseScores = scores
        if answer.has_meaning:
            np: Array = numpy_or_none()
            pairs = [scores.get(slot, (0.0, 0.0)) for slot in range(len(self._slots))]
            dense = DenseScores(*np.array(pairs).reshape(-1, 2).T)
            near = self._nearness(np, answer.places)
        matches = self._index.ranked(self._query, now, self._entity, dense, near)
        unreadable = [*self._unreadable.values()]
        return StoreMatches(matches, unreadable, answer.has_meaning, answer.unembedded)

    def _nearness(self, np: Array, places: Mapping[Identity, PlaceStatistics]) -> Nearness:
        cosines, ranked = (
            (
                np.array([nan if each is None else each for each in column], np.float64)
                for column in zip(
                    *((each.cosine, each.ranked) for each, _ in self._slots), strict=True
                )
            )
            if self._slots
            else (np.zeros(0), np.zeros(0))
        )
        known = ranked[~np.isnan(ranked)]
        least = float(known.min()) if len(known) else 0.0
        return Nearness(cosines, ranked, self._spread(places, least))

    def _put(self, answer: SearchAnswer, concepts: Mapping[str, Concept[Any, Any]]) -> None:
        """Index the candidates that no fact of another place overrides, as in each load."""
        loaded: dict[_Name, PlacedFact[AnyFact]] = {}
        candidates: dict[_Name, SearchCandidate] = {}
        for each in (*answer.others, *answer.candidates):
            placed = self._loaded(each, concepts)
            if placed is not None:
                loaded[_name(placed)], candidates[_name(placed)] = placed, each
        found = [each for name, each in loaded.items() if name[:2] not in self._unreadable]
        if len(answer.places) > 1:
            unreadable = [*self._unreadable.values()]
            found = resolve_entities(found, unreadable, self._places.values())
        others = {id(each) for each in answer.others}
        for placed in found:
            candidate = candidates[_name(placed)]
            if id(candidate) not in others:
                self._index.put(candidate.identity, placed)  # in the next slot
                self._slots.append((candidate, placed))

    def _loaded(
        self, candidate: SearchCandidate, concepts: Mapping[str, Concept[Any, Any]]
    ) -> PlacedFact[AnyFact] | None:
        """Return the fact of a candidate; None if it cannot be read."""
        place = self._places[candidate.identity]
        try:
            return PlacedFact(place, candidate.load(concepts))
        except StoredFactError as exc:
            keyword = candidate.load({}).concept.keyword
            unreadable = UnreadableConcept(place, keyword, exc)
            self._unreadable[candidate.identity, keyword] = unreadable
            return None

    def _word_scores(self, answer: SearchAnswer, query: QueryWords) -> WordScores:
        counts = [each.counts for each, _ in self._slots]
        lengths = [each.length for each, _ in self._slots]
        wanted = [*chain.from_iterable(query.wanted)]
        for slot in self._in_shared_conversations():  # the store counted neighbours in its place
            document = own, beside = self._index.document(self._slots[slot][1])
            lengths[slot] = document.length
            counts[slot] = {
                term: (own.get(term) or beside[term], term in own)
                for term in wanted
                if term in own or term in beside
            }
        statistics = answer.places.values()
        terms: dict[str, Term] = {}
        for term in wanted:
            held = [(slot, *each[term]) for slot, each in enumerate(counts) if term in each]
            slots, term_counts, is_own = zip(*held, strict=True) if held else ((), (), ())
            own_slots = [slot for slot, own in zip(slots, is_own, strict=True) if own]
            holders = sum(each.holders.get(term, 0) for each in statistics)
            terms[term] = Term(holders, slots, term_counts, own_slots)
        size = sum(each.facts for each in statistics)
        average = sum(each.length for each in statistics) / (size or 1)
        return _analyzer().scores(query, terms, lengths, size=size, average=average)

    def _in_shared_conversations(self) -> list[int]:
        """Return the facts of numbered messages in conversations that several places share."""
        slots: dict[str, dict[int, Identity]] = {}
        for slot, (_, placed) in enumerate(self._slots):
            source = placed.fact.source
            if source is not None and source.conversation and source.message is not None:
                slots.setdefault(source.conversation, {})[slot] = placed.place.identity
        groups = [group for group in slots.values() if len({*group.values()}) > 1]
        return [*chain.from_iterable(groups)]

    def _spread(self, places: Mapping[Identity, PlaceStatistics], least: float) -> Spread:
        """Return the statistics of all cosines; `least` is that of the candidates."""
        everywhere, entity = [*places.values()], self._entity
        own = [each for of, each in places.items() if entity is None or of[3] == entity]
        usual = sum(each.cosines for each in own) / (sum(each.vectors for each in own) + USUAL)
        vectors = sum(each.vectors for each in everywhere)
        mean = sum(each.ranked for each in everywhere) / (vectors or 1)
        known = [each.least for each in everywhere if each.least is not None]
        return Spread(usual=usual, mean=mean, least=min(*known, mean, least))


def _name(placed: PlacedFact[AnyFact]) -> _Name:
    return placed.place.identity, placed.fact.concept.keyword, placed.fact.id


@cache
def _analyzer() -> TermIndex:
    """Return an empty index. It analyzes facts and questions like any other index."""
    return TermIndex(weights=FIELD_WEIGHTS, recurring=RECURRING_FIELDS)


def described(facts: Sequence[AnyFact], entity: str | None) -> Iterator[SearchDocument]:
    """Yield the document of each fact of an entity, with the words of neighbours among `facts`."""
    messages: dict[tuple[str, int], list[AnyFact]] = {}
    for fact in facts:
        source = fact.source
        if source is not None and source.conversation is not None and source.message is not None:
            messages.setdefault((source.conversation, source.message), []).append(fact)

    def at(conversation: str, message: int) -> Sequence[AnyFact]:
        return messages.get((conversation, message), ())

    for fact in facts:
        around = said_around(fact.source, at)
        document = _analyzer().document(words_of(fact, entity), around)
        digest = text_digest(meaning_of(fact, entity))
        yield SearchDocument(*document, document.length, digest)
