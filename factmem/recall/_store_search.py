"""Search in a store that finds the candidates of large places itself; they are ranked here.

The candidates of a question are put into an index as for a search in memory, with the statistics of
all facts or messages of their places, so that one ranking scores both.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from math import nan
from typing import Any, NamedTuple, TypeAlias

from factmem._text.analysis import default_stem, words
from factmem.errors import StoredFactError
from factmem.ledger.resolution import PlacedFact, UnreadableConcept, resolve_entities
from factmem.models.facts import AnyFact, Concept
from factmem.models.places import Identity, Place
from factmem.providers.conversations import Turn
from factmem.providers.results import (
    PlaceStatistics,
    SearchAnswer,
    SearchCandidate,
    SearchDocument,
    SearchQuestion,
)
from factmem.recall._bm25 import Everywhere, TermIndex
from factmem.recall._documents import (
    FIELD_WEIGHTS,
    RECURRING_FIELDS,
    asked_spans,
    meaning_of,
    passage_facts,
    said_around,
    text_digest,
    words_of,
)
from factmem.recall._fact_index import FactIndex
from factmem.recall._letters import Vocabulary
from factmem.recall._place_vectors import COMMON, Array, Nearness, Spread, numpy_or_none
from factmem.recall._ranking import USUAL
from factmem.recall.match import Match, RecallQuery

_CANDIDATES = 200
"""The candidates of all places. With 130 and the neighbours of 50, hit@5 of the grown corpus is .45,
and not .49."""

_PER_MATCH = 3

_FORM = 1
"""Increase it if the terms of a text change: stored indexes are made again."""

_Name: TypeAlias = tuple[Identity, str, str]
"""The place, keyword and id of a fact."""


class StoreMatches(NamedTuple):
    """The matches of one question."""

    matches: list[Match]
    unreadable: list[UnreadableConcept]
    has_meaning: bool
    unembedded: frozenset[Identity]
    """The places with facts that have no vector yet."""
    size: int
    """The number of facts that were searched."""


def question_of(
    query: RecallQuery, now: datetime, *, model: str = "", vector: "array[float] | None" = None
) -> SearchQuestion:
    """Return the question that a store answers with candidates."""
    asked = _analyzer().query(words(query.text), ())
    return SearchQuestion(
        words=asked.wanted,
        similar=asked.similar,
        spans=[each[:2] for each in asked_spans(query.text, now) if each.is_sure],
        letters=Vocabulary,
        limit=max(_CANDIDATES, _PER_MATCH * query.limit),
        form=f"{_FORM} {default_stem().__name__}",
        describe=_described,
        describe_turn=_passages,
        filter=query.filter,
        model=model,
        vector=vector,
        common=COMMON,
    )


def everywhere_of(places: Iterable[PlaceStatistics]) -> Everywhere:
    """Return the statistics of several places together."""
    found = list(places)
    holders = Counter[str]()
    for each in found:
        holders.update(each.holders)
    size, length = sum(each.size for each in found), sum(each.length for each in found)
    return Everywhere(max(size, 1), length, holders, [each.letters for each in found])


def ranked(
    places: Sequence[Place],
    query: RecallQuery,
    now: datetime,
    answer: SearchAnswer,
    concepts: Mapping[str, Concept[Any, Any]],
) -> StoreMatches:
    """Return the best of the candidates as matches, best first."""
    by_identity = {place.identity: place for place in places}
    unreadable: dict[tuple[Identity, str], UnreadableConcept] = {}
    loaded: dict[_Name, tuple[SearchCandidate, PlacedFact[AnyFact]]] = {}
    for each in (*answer.candidates, *answer.others):
        place = by_identity[each.identity]
        try:
            placed = PlacedFact(place, each.load(concepts))
        except StoredFactError as exc:
            keyword = each.load({}).concept.keyword
            unreadable[each.identity, keyword] = UnreadableConcept(place, keyword, exc)
        else:
            loaded[_name(placed)] = each, placed
    found = [
        placed
        for each, placed in loaded.values()
        if (each.identity, placed.fact.concept.keyword) not in unreadable
    ]
    if len(answer.places) > 1:  # facts that those of another place override
        found = resolve_entities(found, [*unreadable.values()], places)
    others = {id(each) for each in answer.others}
    everywhere = everywhere_of(answer.places.values())
    index, slots = FactIndex(places, everywhere), list[SearchCandidate]()
    for placed in found:
        candidate = loaded[_name(placed)][0]
        if id(candidate) not in others:
            index.put(candidate.identity, placed)  # in the next slot
            slots.append(candidate)
    near = _nearness(query, index, answer, slots) if answer.has_meaning else None
    matches = index.search(query, now, near)
    return StoreMatches(
        matches, [*unreadable.values()], answer.has_meaning, answer.unembedded, everywhere.size
    )


def _name(placed: PlacedFact[AnyFact]) -> _Name:
    return placed.place.identity, placed.fact.concept.keyword, placed.fact.id


def _nearness(
    query: RecallQuery, index: FactIndex, answer: SearchAnswer, slots: Sequence[SearchCandidate]
) -> Nearness:
    """Return the cosines of candidates, with estimates for all vectors of their places."""
    np: Array = numpy_or_none()
    cosines, ranked = (
        np.array([nan if each is None else each for each in column], np.float64)
        for column in ([each.cosine for each in slots], [each.ranked for each in slots])
    )
    _, entity = index.asked(query.text, has_vectors=True)
    places = answer.places.items()
    own = [each for of, each in places if entity is None or of[3] == entity]
    usual = sum(each.cosines for each in own) / (sum(each.vectors for each in own) + USUAL)
    vectors = sum(each.vectors for _, each in places)
    mean = sum(each.ranked for _, each in places) / (vectors or 1)
    known = ranked[~np.isnan(ranked)]
    least = float(known.min()) if len(known) else 0.0
    return Nearness(cosines, ranked, Spread(usual=usual, mean=mean, least=min(mean, least)))


@cache
def _analyzer() -> TermIndex:
    """Return an empty index. It analyzes facts and questions like any other index."""
    return TermIndex(weights=FIELD_WEIGHTS, recurring=RECURRING_FIELDS)


def _described(fact: AnyFact, entity: str | None) -> SearchDocument:
    around = said_around(fact.source, lambda _, __: ())
    own, beside = document = _analyzer().document(words_of(fact, entity), around)
    digest = text_digest(meaning_of(fact, entity))
    return SearchDocument([*own, *beside], document.length, digest)


def _passages(turn: Turn) -> Iterator[SearchDocument]:
    for _, fact in passage_facts("", turn):
        document = _analyzer().document(words_of(fact, None))
        yield SearchDocument(document.own.keys(), document.length)
