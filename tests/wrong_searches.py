"""A searched store in memory, and stores like it with one fault each.

Each wrong one comes with the tests of the contract that must notice.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import hypot, log
from typing import Any, NamedTuple

from anyio.lowlevel import checkpoint

from factmem.models.clock import TimeProvider
from factmem.models.facts import AnyFact
from factmem.models.places import Identity, Place, identity_of
from factmem.models.recall_filter import RecallFilter
from factmem.providers._sql.items import StoredItem, current_facts
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.searched import (
    Describe,
    PlaceStatistics,
    SearchAnswer,
    SearchCandidate,
    SearchDocument,
    SearchQuestion,
    TextVectors,
)
from factmem.testing._facts import theme
from tests.wrong_providers import shelves_of

__all__ = ["WRONG_SEARCHES", "SearchedInMemory"]

Vector = Sequence[float]


class Row(NamedTuple):
    """A current fact and what finds it."""

    found: StoredItem
    document: SearchDocument

    @property
    def fact(self) -> AnyFact:
        return self.found.fact()


class SearchedInMemory(InMemoryProvider):
    """Looks at every fact for every question; the methods in the middle are there to be broken."""

    def __init__(self, *, clock: TimeProvider) -> None:
        super().__init__(clock=clock)
        self.vectors: dict[Any, dict[bytes, Vector | None]] = {}
        self.describe: Describe | None = None

    async def is_searched(self, places: Sequence[Place]) -> bool:
        await checkpoint()
        return True

    async def forget(self, subject: Any, scope: Any, **conditions: Any) -> int:
        forgotten = await super().forget(subject, scope, **conditions)
        if conditions.get("purge"):
            self.drop_vectors(identity_of(subject, scope))
        return forgotten

    async def erase(self, subject: Any, scope: Any, **options: Any) -> Any:
        receipt = await super().erase(subject, scope, **options)
        self.drop_vectors(identity_of(subject, scope))
        return receipt

    async def facts_to_embed(
        self, place: Place, *, model: str, dimensions: int, limit: int
    ) -> Mapping[bytes, AnyFact]:
        await checkpoint()
        missing = self.missing(place.identity, model, dimensions)
        return dict([*missing.items()][:limit])

    async def add_vectors(
        self, place: Place, vectors: TextVectors, *, model: str, dimensions: int
    ) -> None:
        await checkpoint()
        identity = place.identity
        texts = {row.document.digest for row in self.rows(identity)}
        held = {digest: vector for digest, vector in vectors.items() if digest in texts}
        self.space(identity, model, dimensions).update(held)

    async def candidates(
        self, places: Sequence[Place], question: SearchQuestion, describe: Describe
    ) -> SearchAnswer:
        await checkpoint()
        self.describe = describe
        everything = {place.identity: self.rows(place.identity) for place in places}
        rows = {identity: found for identity, found in everything.items() if found}
        return _Answer(self, question, rows).whole()

    # What the wrong ones change

    def rows(self, identity: Identity) -> list[Row]:
        """Return what is current in a place."""
        return self.described(identity, self.current(identity))

    def current(self, identity: Identity) -> list[StoredItem]:
        shelves = shelves_of(self)
        shelf = shelves.by_place.get(identity)
        if shelf is None:
            return []
        now = shelves.now(shelf)
        topics = shelf.ledger.state().by_keyword
        return [each for keyword in topics for each in current_facts(shelf.ledger, keyword, now)]

    def described(self, identity: Identity, found: Sequence[StoredItem]) -> list[Row]:
        if self.describe is None:
            return []
        documents = self.describe([each.fact() for each in found], identity[3])
        return [Row(*pair) for pair in zip(found, documents, strict=True)]

    def space(self, identity: Identity, model: str, dimensions: int) -> dict[bytes, Vector | None]:
        return self.vectors.setdefault((identity, model, dimensions), {})

    def missing(self, identity: Identity, model: str, dimensions: int) -> dict[bytes, AnyFact]:
        known = self.space(identity, model, dimensions)
        return {
            row.document.digest: row.fact
            for row in self.rows(identity)
            if row.document.digest not in known
        }

    def drop_vectors(self, identity: Identity) -> None:
        texts = {row.document.digest for row in self.rows(identity)}
        for (place, *_), known in self.vectors.items():
            if place == identity:
                for digest in known.keys() - texts:
                    del known[digest]

    def counts(self, row: Row, terms: Sequence[str]) -> dict[str, tuple[float, bool]]:
        own, around, *_ = row.document
        return {
            term: (own.get(term) or around[term], term in own)
            for term in terms
            if term in own or term in around
        }

    def allows(self, wanted: RecallFilter, row: Row) -> bool:
        fact = row.fact
        pairs = wanted.metadata.items()
        return all(
            (
                wanted.keywords is None or fact.concept.keyword in wanted.keywords,
                wanted.since is None or fact.timestamp >= wanted.since,
                wanted.until is None or fact.timestamp < wanted.until,
                all(key in fact.metadata and fact.metadata[key] == value for key, value in pairs),
            )
        )

    def best(self, scored: Mapping[Any, float], limit: int) -> list[Any]:
        return sorted(scored, key=lambda each: scored[each], reverse=True)[:limit]

    def ranked(self, vector: Vector, shared: Vector, common: float) -> Vector:
        return [one - common * other for one, other in zip(vector, shared, strict=True)]

    def loaded(self, row: Row) -> Callable[[Mapping[str, Any]], AnyFact]:
        return lambda known: row.found.fact(known.get(row.found.keyword))


class _Answer:
    """One question to a `SearchedInMemory`."""

    def __init__(
        self,
        store: SearchedInMemory,
        question: SearchQuestion,
        rows: Mapping[Identity, Sequence[Row]],
    ) -> None:
        self.store, self.question, self.rows = store, question, rows
        self.spaces: dict[Identity, Mapping[bytes, Vector]] = {}
        if question.vector is not None:
            for identity, found in rows.items():
                known = store.space(identity, question.model, len(question.vector))
                texts = {row.document.digest for row in found}
                vectors = {each: vector for each, vector in known.items() if each in texts}
                self.spaces[identity] = {e: v for e, v in vectors.items() if v is not None}
        self.vectors = [vector for space in self.spaces.values() for vector in space.values()]
        total = [sum(column) for column in zip(*self.vectors, strict=True)]
        length = hypot(*total) or 1.0
        shared = [number / length for number in total]
        self.ranking: Vector | None = None
        if self.vectors and question.vector is not None:
            self.ranking = store.ranked(question.vector, shared, question.common)

    def whole(self) -> SearchAnswer:
        chosen = {identity: self.chosen(identity) for identity in self.rows}
        places_of: dict[str, set[Identity]] = {}
        for identity, rows in self.rows.items():
            for row in rows:
                places_of.setdefault(row.found.keyword, set()).add(identity)
        shared = {
            row.found.keyword
            for rows in chosen.values()
            for row in rows
            if len(places_of[row.found.keyword]) > 1
        }
        others = [
            self.candidate(identity, row)
            for identity, rows in self.rows.items()
            for row in rows
            if row.found.keyword in shared and row not in chosen[identity]
        ]
        return SearchAnswer(
            [self.candidate(identity, row) for identity, rows in chosen.items() for row in rows],
            {identity: self.statistics(identity) for identity in self.rows},
            others,
            has_meaning=self.ranking is not None,
            unembedded=self.unembedded(),
        )

    def unembedded(self) -> frozenset[Identity]:
        question = self.question
        if question.vector is None:
            return frozenset()
        width = len(question.vector)
        return frozenset(
            identity
            for identity in self.rows
            if self.store.missing(identity, question.model, width)
        )

    def chosen(self, identity: Identity) -> list[Row]:
        store, question, rows = self.store, self.question, self.rows[identity]
        allowed = {at: row for at, row in enumerate(rows) if store.allows(question.filter, row)}
        holders = self.holders(identity)
        by_words: dict[int, float] = {}
        for at, row in allowed.items():
            counts = store.counts(row, question.terms)
            if counts:
                by_words[at] = sum(log(1 + len(rows) / (0.5 + holders[term])) for term in counts)
        by_meaning: dict[int, float] = {}
        if self.ranking is not None:
            for at, row in allowed.items():
                vector = self.spaces[identity].get(row.document.digest)
                if vector is not None:
                    by_meaning[at] = _product(vector, self.ranking)
        found = [store.best(scored, question.limit) for scored in (by_words, by_meaning)]
        return [rows[at] for at in sorted({*found[0], *found[1]})]

    def holders(self, identity: Identity) -> dict[str, int]:
        rows = self.rows[identity]
        return {term: sum(term in r.document.own for r in rows) for term in self.question.terms}

    def statistics(self, identity: Identity) -> PlaceStatistics:
        rows, asked = self.rows[identity], self.question.vector
        length = sum(row.document.length for row in rows)
        found = PlaceStatistics(len(rows), length, self.holders(identity))
        vectors = [*self.spaces.get(identity, {}).values()]
        if not vectors or asked is None or self.ranking is None:
            return found
        ranked = [_product(each, self.ranking) for each in vectors]
        return replace(
            found,
            vectors=len(vectors),
            cosines=sum(_product(each, asked) for each in vectors),
            ranked=sum(ranked),
            least=min(ranked),
        )

    def candidate(self, identity: Identity, row: Row) -> SearchCandidate:
        vector = self.spaces.get(identity, {}).get(row.document.digest)
        asked, ranking = self.question.vector, self.ranking
        has_cosine = vector is not None and asked is not None and ranking is not None
        return SearchCandidate(
            identity,
            self.store.counts(row, self.question.terms),
            row.document.length,
            _product(vector, asked) if has_cosine else None,
            _product(vector, ranking) if has_cosine else None,
            self.store.loaded(row),
        )


def _product(one: Any, two: Any) -> float:
    return float(sum(a * b for a, b in zip(one, two, strict=True)))


# Words


class MatchesParts(SearchedInMemory):
    """Finds a word by its beginning."""

    def counts(self, row: Row, terms: Sequence[str]) -> dict[str, tuple[float, bool]]:
        own = row.document.own
        found = {term: [word for word in own if word.startswith(term)] for term in terms}
        return {term: (own[words[0]], True) for term, words in found.items() if words}


class SearchesPlainWords(SearchedInMemory):
    """Keeps words of ASCII letters and digits alone."""

    def counts(self, row: Row, terms: Sequence[str]) -> dict[str, tuple[float, bool]]:
        return super().counts(row, [each for each in terms if each.isascii() and each.isalnum()])


class CountsOnce(SearchedInMemory):
    """Knows which words a fact has, and not how often."""

    def counts(self, row: Row, terms: Sequence[str]) -> dict[str, tuple[float, bool]]:
        return {term: (1.0, own) for term, (_, own) in super().counts(row, terms).items()}


class KnowsNoLimit(SearchedInMemory):
    """Returns everything."""

    def best(self, scored: Mapping[Any, float], limit: int) -> list[Any]:
        return [*scored]


class LoadsAsSaved(SearchedInMemory):
    """Returns facts in the types of strings, whatever their concept says."""

    def loaded(self, row: Row) -> Callable[[Mapping[str, Any]], AnyFact]:
        return lambda _: row.fact


# Filters


class TakesNoKeywordForAny(SearchedInMemory):
    """Takes an empty set of keywords for none given."""

    def allows(self, wanted: RecallFilter, row: Row) -> bool:
        return super().allows(replace(wanted, concepts=wanted.keywords or None), row)


# Boundaries


class FoldsNames(SearchedInMemory):
    """Takes names that differ in case alone for one name."""

    def current(self, identity: Identity) -> list[StoredItem]:
        def folded(name: Identity) -> str:
            return repr(name).casefold()

        places = shelves_of(self).by_place
        same = [each for each in places if folded(each) == folded(identity)]
        return [found for each in same for found in super(FoldsNames, self).current(each)]


class NamesNoOthers(SearchedInMemory):
    """Returns only what has words of the question."""

    async def candidates(self, places: Any, question: Any, describe: Any) -> SearchAnswer:
        return replace(await super().candidates(places, question, describe), others=())


class CreatesPlaces(SearchedInMemory):
    """Creates a place for each that is read."""

    async def is_searched(self, places: Sequence[Place]) -> bool:
        for place in places:
            if place.identity not in shelves_of(self).by_place:
                await self.save(theme("made"), place.subject, place.scope)
        return True


class ReadsOnce(SearchedInMemory):
    """Indexes a place when it is first asked about."""

    def rows(self, identity: Identity) -> list[Row]:
        known = self.__dict__.setdefault("read", {})
        found = known.get(identity)
        if not found:
            found = known[identity] = super().rows(identity)
        rows: list[Row] = found
        return rows


class OnlyAdds(SearchedInMemory):
    """Adds what is new to an index, and takes nothing out of it."""

    def current(self, identity: Identity) -> list[StoredItem]:
        known = self.__dict__.setdefault("added", {}).setdefault(identity, {})
        known.update((each.stored, each) for each in super().current(identity))
        return [*known.values()]


class MeasuresByArrival(SearchedInMemory):
    """Takes the facts before a fact for a part of its length."""

    def described(self, identity: Identity, found: Sequence[StoredItem]) -> list[Row]:
        rows = super().described(identity, found)
        return [
            Row(row.found, row.document._replace(length=row.document.length + at))
            for at, row in enumerate(rows)
        ]


# Vectors


class MixesModels(SearchedInMemory):
    """Keeps the vectors of all models together."""

    def space(self, identity: Identity, model: str, dimensions: int) -> dict[bytes, Vector | None]:
        return super().space(identity, "", dimensions)


class SharesVectors(SearchedInMemory):
    """Keeps the vectors of all places together."""

    def space(self, identity: Identity, model: str, dimensions: int) -> dict[bytes, Vector | None]:
        return self.vectors.setdefault((model, dimensions), {})


class AsksForRefusedTexts(SearchedInMemory):
    """Takes a text that was refused for one that was never sent."""

    def missing(self, identity: Identity, model: str, dimensions: int) -> dict[bytes, AnyFact]:
        known = self.space(identity, model, dimensions)
        rows = self.rows(identity)
        return {r.document.digest: r.fact for r in rows if known.get(r.document.digest) is None}


class NamesAllAtOnce(SearchedInMemory):
    """Returns all facts without a vector, however many were asked for."""

    async def facts_to_embed(
        self, place: Place, *, limit: int, **space: Any
    ) -> Mapping[bytes, AnyFact]:
        return await super().facts_to_embed(place, limit=10**6, **space)


class KeepsVectorsOfThePurged(SearchedInMemory):
    """Purges the facts, and not what was made of their texts."""

    def drop_vectors(self, identity: Identity) -> None:
        pass


class KeepsAnyVector(SearchedInMemory):
    """Keeps vectors of texts that no fact has."""

    async def add_vectors(self, place: Place, vectors: Any, *, model: str, dimensions: int) -> None:
        await checkpoint()
        self.space(place.identity, model, dimensions).update(vectors)


class NamesNoPlaces(SearchedInMemory):
    """Never returns the places whose facts lack vectors."""

    async def candidates(self, places: Any, question: Any, describe: Any) -> SearchAnswer:
        answer = await super().candidates(places, question, describe)
        return replace(answer, unembedded=frozenset())


class RanksByCosine(SearchedInMemory):
    """Takes nothing off for what all facts share."""

    def ranked(self, vector: Vector, shared: Vector, common: float) -> Vector:
        return vector


class FiltersWordsAlone(SearchedInMemory):
    """Finds facts by meaning that a filter excludes."""

    def allows(self, wanted: RecallFilter, row: Row) -> bool:
        return bool(self.vectors) or super().allows(wanted, row)


_FILTERED = {"test_a_filter_leaves_what_is_inside"}
_REMOVED = "test_what_is_removed_is_no_candidate"
_BESIDE = "test_words_beside_a_fact_find_it"
_LIMITED = {"test_limits_hold_in_each_place"}
_COUNTED = "test_candidates_have_the_counts_of_terms"

WRONG_SEARCHES: dict[type[SearchedInMemory], set[str]] = {
    MatchesParts: {"test_nothing_is_found_without_a_word"},
    SearchesPlainWords: {"test_any_word_is_found"},
    CountsOnce: {_COUNTED, _BESIDE},
    KnowsNoLimit: {*_LIMITED, "test_the_nearest_facts_are_candidates"},
    LoadsAsSaved: {"test_a_candidate_loads_in_the_type_of_its_concept"},
    TakesNoKeywordForAny: _FILTERED,
    FoldsNames: {"test_nothing_of_other_places_is_a_candidate"},
    NamesNoOthers: {"test_facts_that_take_precedence_are_named"},
    CreatesPlaces: {
        "test_asking_creates_nothing",
        "test_several_places_are_searched_at_once",
    },
    ReadsOnce: {"test_a_save_is_found_at_once", _REMOVED, "test_concurrent_saves_are_all_found"},
    OnlyAdds: {_REMOVED, "test_what_was_erased_stays_gone"},
    MeasuresByArrival: {
        "test_the_order_of_saves_does_not_matter",
        "test_statistics_are_of_the_whole_place",
    },
    MixesModels: {"test_vectors_of_another_model_are_not_compared"},
    SharesVectors: {"test_vectors_stay_in_their_place"},
    AsksForRefusedTexts: {"test_a_text_without_a_vector_is_found_by_words"},
    NamesAllAtOnce: {"test_each_text_is_embedded_once"},
    KeepsVectorsOfThePurged: {"test_vectors_go_with_their_texts"},
    KeepsAnyVector: {"test_vectors_of_unknown_texts_are_ignored"},
    NamesNoPlaces: {"test_places_without_vectors_are_named"},
    RanksByCosine: {"test_candidates_have_their_cosines"},
    FiltersWordsAlone: {"test_a_filter_holds_for_meaning"},
}
"""Each wrong store, and tests that it fails."""
