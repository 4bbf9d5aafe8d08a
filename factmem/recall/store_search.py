"""The scores of candidates from a store that searches large places itself."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from factmem.errors import StoredFactError
from factmem.ledger.resolution import PlacedFact, UnreadableConcept, resolve_entities
from factmem.models.facts import AnyFact, Concept
from factmem.models.places import Identity, Place
from factmem.providers.searched import (
    PlaceStatistics,
    SearchAnswer,
    SearchCandidate,
    SearchedStore,
    SearchFilter,
    SearchQuestion,
)
from factmem.recall.hints import asked_days, day_number, name_terms, named_entity
from factmem.recall.lexical.analysis import words
from factmem.recall.lexical.bm25 import QueryWords, WordScores
from factmem.recall.lexical.postings import Term
from factmem.recall.match import Match
from factmem.recall.places_index import IndexCache
from factmem.recall.query import RecallQuery
from factmem.recall.ranking import USUAL, Candidates, Hints, Ranking
from factmem.recall.store_documents import analyzer, described, described_fact
from factmem.recall.text_slots import COMMON, Nearness, Spread

__all__ = ["StoreSearch"]

R = TypeVar("R")

_LEAST_CANDIDATES = 50
"""The candidates of each place, by words and by meaning each. On the corpus hit@5 by words is .646 with
them, and .648 in a search of all facts."""

_PER_MATCH = 3

_MOST_PLACES = 32
"""More places than these are searched in this process: a database searches them one by one."""


class StoreMatches(NamedTuple):
    """The matches of one question."""

    matches: list[Match]
    unreadable: list[UnreadableConcept]
    has_meaning: bool
    unembedded: frozenset[Identity]
    """The places with facts that have no vector yet."""


class _Analysed(NamedTuple):
    """A question, and the words and the name in it."""

    question: SearchQuestion
    terms: QueryWords
    entity: str | None


class StoreSearch:
    """Searches places in a store. Any number of tasks and threads may call an instance.

    Args:
        store: Finds the candidates.
        concepts: The declared concepts of the application, by keyword.
        cache: Provides the worker threads.
    """

    def __init__(
        self,
        store: SearchedStore,
        concepts: Mapping[str, Concept[Any, Any]],
        cache: IndexCache,
    ) -> None:
        self.store = store
        self._concepts = concepts
        self._cache = cache

    async def is_searched(self, places: Sequence[Place]) -> bool:
        """Return whether the store searches these places."""
        return len(places) <= _MOST_PLACES and await self.store.is_searched(places)

    async def search_all(
        self,
        places: Sequence[Place],
        queries: Sequence[RecallQuery],
        now: datetime,
        model: str,
        vectors: Sequence[Sequence[float]] | None,
    ) -> list[StoreMatches]:
        """Return the best matches of each query; without vectors only by words. See `search`."""
        given = [None] * len(queries) if vectors is None else vectors
        return [
            await self.search(places, query, now, model, vector)
            for query, vector in zip(queries, given, strict=True)
        ]

    async def search(
        self,
        places: Sequence[Place],
        query: RecallQuery,
        now: datetime,
        model: str,
        vector: Sequence[float] | None,
    ) -> StoreMatches:
        """Return the best matches of a query, best first.

        Args:
            places: The places to search.
            query: The query.
            now: The time for recency.
            model: The embedding model of the vector.
            vector: The vector of the query; None to search only by words.
        """
        places = [place for place in places if query.is_about(place)]
        asked = await self._computed(query, lambda: _analysed(query, places, model, vector))
        answer = await self.store.candidates(places, asked.question, described)

        def ranked() -> StoreMatches:
            found = _Found(answer, places, self._concepts)
            return found.ranked(query, asked.terms, asked.entity, now)

        return await self._computed(query, ranked)

    async def _computed(self, query: RecallQuery, compute: Callable[[], R]) -> R:
        """Return the result of a function whose time grows with the question."""
        return compute() if query.is_short else await self._cache.work(compute)


def _analysed(
    query: RecallQuery, places: Sequence[Place], model: str, vector: Sequence[float] | None
) -> _Analysed:
    """Return the question to a store about some places."""
    asked = words(query.text)
    entities = [place.subject.entity for place in places if place.subject.entity is not None]
    entity = named_entity(asked, entities)
    # Without vectors the name counts like any other word.
    name = name_terms(entity) if entity is not None and vector is not None else ()
    terms = analyzer().query(asked, name)
    question = SearchQuestion(
        terms=list(dict.fromkeys(chain.from_iterable(terms.wanted))),
        limit=max(_LEAST_CANDIDATES, _PER_MATCH * query.limit),
        filter=SearchFilter(
            query.keywords,
            query.since,
            query.until,
            query.source_kinds,
            query.min_importance,
            query.metadata,
        ),
        model=model,
        vector=vector,
        common=COMMON,
    )
    return _Analysed(question, terms, entity)


class _Found:
    """The candidates of one question, each in a numbered slot.

    Args:
        answer: The candidates.
        places: The searched places.
        concepts: The declared concepts, by keyword.
    """

    def __init__(
        self,
        answer: SearchAnswer,
        places: Sequence[Place],
        concepts: Mapping[str, Concept[Any, Any]],
    ) -> None:
        self._answer = answer
        self._candidates = answer.candidates
        self._places = {place.identity: place for place in places}
        self._concepts = concepts
        self._loaded: dict[int, PlacedFact[AnyFact] | None] = {}
        """The facts by slot; None for facts that are overridden or cannot be read."""
        self._unreadable: dict[tuple[Identity, str], UnreadableConcept] = {}
        self._dropped: set[tuple[Identity, int]] = set()
        """The places and keywords that are left out of the result."""
        self._counts = [each.counts for each in self._candidates]
        self._lengths = [each.length for each in self._candidates]
        if len(answer.places) > 1:
            self._resolve()

    def __len__(self) -> int:
        return len(self._candidates)

    def ranked(
        self, query: RecallQuery, terms: QueryWords, entity: str | None, now: datetime
    ) -> StoreMatches:
        """Return the best candidates as matches."""
        if len(self._answer.places) > 1:
            self._converse({*chain.from_iterable(terms.wanted)})
        has_meaning = self._answer.has_meaning
        ranking = Ranking(query, now, self._hints(query, entity), has_meaning=has_meaning)
        while True:
            dropped = len(self._dropped)
            slots = [
                slot
                for slot, each in enumerate(self._candidates)
                if (each.identity, each.topic) not in self._dropped
                and self._loaded.get(slot, each) is not None
            ]
            near = self._nearness(slots, entity) if has_meaning else None
            matches = ranking.best(self._columns(), self._word_scores(slots, terms), near)
            if len(self._dropped) == dropped:  # none of the best was unreadable
                unreadable = [*self._unreadable.values()]
                return StoreMatches(matches, unreadable, has_meaning, self._answer.unembedded)

    def _columns(self) -> Candidates:
        numbers: dict[int, int] = {}
        codes: list[int] = []
        for each in self._candidates:
            known = each.conversation
            codes.append(-1 if known is None else numbers.setdefault(known, len(numbers)))
        loose = [
            -1 if each.is_numbered else code
            for each, code in zip(self._candidates, codes, strict=True)
        ]
        return Candidates(
            _Facts(self),
            [each.heard_at for each in self._candidates],
            [each.importance for each in self._candidates],
            codes if numbers else None,
            loose if any(code >= 0 for code in loose) else None,
        )

    def _word_scores(self, slots: Sequence[int], query: QueryWords) -> WordScores:
        statistics = self._answer.places.values()
        size = sum(each.facts for each in statistics)
        average = sum(each.length for each in statistics) / (size or 1)
        terms: dict[str, Term] = {}
        for term in chain.from_iterable(query.wanted):
            held = [
                (slot, *counted)
                for slot in slots
                if (counted := self._counts[slot].get(term)) is not None
            ]
            holders = sum(each.holders.get(term, 0) for each in statistics)
            own = [slot for slot, _, is_own in held if is_own]
            slots_of, counts = [slot for slot, _, _ in held], [count for _, count, _ in held]
            terms[term] = Term(holders, slots_of, counts, own)
        return analyzer().scores(query, terms, self._lengths, size=size, average=average)

    def _nearness(self, slots: Sequence[int], entity: str | None) -> Nearness[Mapping[int, float]]:
        known = [(slot, self._candidates[slot]) for slot in slots]
        cosines = {slot: each.cosine for slot, each in known if each.cosine is not None}
        ranked = {slot: each.ranked for slot, each in known if each.ranked is not None}
        return Nearness(cosines, ranked, self._spread(entity, ranked.values()))

    def _spread(self, entity: str | None, ranked: Iterable[float]) -> Spread:
        """Return the statistics of all cosines."""
        everywhere = [*self._answer.places.values()]
        own = [
            each
            for identity, each in self._answer.places.items()
            if entity is None or identity[3] == entity
        ]
        usual = sum(each.cosines for each in own) / (_vectors(own) + USUAL)
        mean = sum(each.ranked for each in everywhere) / (_vectors(everywhere) or 1)
        least = min([each.least for each in everywhere if each.least is not None], default=0.0)
        return Spread(usual=usual, mean=mean, least=min(least, mean, *ranked))

    def _hints(self, query: RecallQuery, entity: str | None) -> Hints:
        named = days = None
        if entity is not None:
            named = bytearray(
                0 if each.identity[3] is None else 1 if each.identity[3] == entity else 2
                for each in self._candidates
            )
        asked = asked_days(query.text)
        if asked:
            moments = (datetime.fromtimestamp(each.said_at, UTC) for each in self._candidates)
            said = map(day_number, moments)
            days = bytearray(any(day.has(number) for day in asked) for number in said)
        return Hints(named, days)

    def _converse(self, terms: Collection[str]) -> None:
        """Count the words of neighbours again if a conversation is in several places.

        A store counts only neighbours in the same place, because recalls search different places.
        """
        slots: dict[int, list[int]] = {}
        for slot, each in enumerate(self._candidates):
            if each.conversation is not None and each.is_numbered:
                slots.setdefault(each.conversation, []).append(slot)
        for group in slots.values():
            if len({self._candidates[slot].identity for slot in group}) < 2:
                continue
            self._count_again([(slot, self.fact(slot)) for slot in group], terms)

    def _count_again(
        self,
        group: Sequence[tuple[int, PlacedFact[AnyFact] | None]],
        terms: Collection[str],
    ) -> None:
        messages: dict[int, list[AnyFact]] = {}
        for _, placed in group:
            source = None if placed is None else placed.fact.source
            if placed is not None and source is not None and source.message is not None:
                messages.setdefault(source.message, []).append(placed.fact)

        def at(_: str, message: int) -> Sequence[AnyFact]:
            return messages.get(message, ())

        for slot, placed in group:
            if placed is None:
                continue
            document = described_fact(placed.fact, placed.place.subject.entity, at)
            own, beside = document.counts()
            self._lengths[slot] = document.length
            self._counts[slot] = {
                term: (own.get(term, 0.0) or beside[term], term in own)
                for term in terms
                if term in own or term in beside
            }

    # Facts

    def fact(self, slot: int) -> PlacedFact[AnyFact] | None:
        """Return the fact of a slot; None if it cannot be read."""
        if slot not in self._loaded:
            self._loaded[slot] = self._load(self._candidates[slot])
        return self._loaded[slot]

    def _load(self, candidate: SearchCandidate) -> PlacedFact[AnyFact] | None:
        place = self._places[candidate.identity]
        try:
            return PlacedFact(place, candidate.load(self._concepts))
        except StoredFactError as exc:
            keyword = candidate.load({}).concept.keyword
            found = UnreadableConcept(place, keyword, exc)
            self._unreadable[candidate.identity, keyword] = found
            self._dropped.add((candidate.identity, candidate.topic))
            return None

    def _resolve(self) -> None:
        """Leave out facts that are overridden by facts of other places, as each load does."""
        holders: dict[int, set[Identity]] = {}
        for each in (*self._candidates, *self._answer.others):
            holders.setdefault(each.topic, set()).add(each.identity)
        shared = {topic for topic, identities in holders.items() if len(identities) > 1}
        slots = [slot for slot, each in enumerate(self._candidates) if each.topic in shared]
        ours = [self.fact(slot) for slot in slots]
        theirs = [self._load(each) for each in self._answer.others if each.topic in shared]
        found = [placed for placed in (*ours, *theirs) if placed is not None]
        held = {
            (placed.place.identity, placed.fact.concept.keyword, placed.fact.id): placed
            for placed in resolve_entities(
                found, [*self._unreadable.values()], self._places.values()
            )
        }
        for slot, placed in zip(slots, ours, strict=True):
            if placed is not None:
                name = placed.place.identity, placed.fact.concept.keyword, placed.fact.id
                self._loaded[slot] = held.get(name)


class _Facts(Sequence[PlacedFact[AnyFact] | None]):
    """The facts of candidates, decoded on first access: few of them become matches."""

    def __init__(self, found: _Found) -> None:
        self._found = found

    def __getitem__(self, slot: Any) -> Any:
        return self._found.fact(slot)

    def __len__(self) -> int:
        return len(self._found)


def _vectors(statistics: Sequence[PlaceStatistics]) -> int:
    return sum(each.vectors for each in statistics)
