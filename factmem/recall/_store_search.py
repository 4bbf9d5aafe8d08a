"""Search in a store that finds the candidates of large places itself; they are ranked here.

The candidates of a question are put into an index as for a search in memory, with the statistics of
all facts or messages of their places, so that one ranking scores both. Their terms are in their
rows, as numbers with counts, so that only the facts of the best ones are read:

    number of terms said | of own terms | each term's 24 bits, and 8 of its count | counts said

First those of the text that finds its neighbours, too, then other own ones, then those around it.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import accumulate
from math import log, nan
from operator import itemgetter
from struct import pack, unpack_from
from typing import Any, NamedTuple, TypeAlias

from factmem._text.analysis import Word, default_stem, words
from factmem.errors import StoredFactError
from factmem.ledger.resolution import PlacedFact, UnreadableConcept, resolve_entities
from factmem.models.facts import AnyFact, Concept
from factmem.models.places import Identity, Place
from factmem.providers.conversations import Turn
from factmem.providers.results import (
    FoundItem,
    HeldTerms,
    ItemScore,
    PlaceStatistics,
    SearchAnswer,
    SearchCandidate,
    SearchDocument,
    SearchQuestion,
)
from factmem.recall._bm25 import (
    K1,
    B,
    Everywhere,
    PostingLists,
    Term,
    TermIndex,
    query_words,
    rarity,
)
from factmem.recall._documents import (
    AROUND,
    asked_spans,
    document_of,
    meaning_of,
    passage_facts,
    said,
    said_around,
    text_digest,
    words_of,
)
from factmem.recall._fact_index import FactIndex
from factmem.recall._letters import Vocabulary, term_code
from factmem.recall._place_vectors import COMMON, Array, Nearness, Spread, numpy_or_none
from factmem.recall._ranking import USUAL
from factmem.recall.match import Match, RecallQuery

_CANDIDATES, _BY_MEANING = 30, 200
"""The candidates of all places, by words alone and if vectors are compared, too."""

_PER_MATCH = 3

_FORM = 3
"""Increase it if the analysis of texts changes, so that stored indexes are rebuilt."""

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


_LENGTH_STEP, _LEAST_LENGTH = 1.35, 4
"""The lengths that are distinguished before rows are read: 3.3, 4.5, 6.1 and so on, up to 300."""

_CODE, _STEP = 0xFFFFFF, 16
"""The bits of a term, and the steps of a count of 1."""

_MOST_HITS = 50_000
"""The most items that are scored, from the rarest words of a question on."""

_MOST_WORDS = 64
"""The most words that are searched for, the rarest ones: a question may be a pasted document."""


class _StoredLists(PostingLists):
    """Items by the terms of a question, and by the codes of all their terms for letters."""

    def __init__(
        self,
        vocabularies: Mapping[Identity, Any],
        wanted: Iterable[str],
        items: Sequence[FoundItem],
    ) -> None:
        super().__init__()
        np: Array = numpy_or_none()
        self._vocabularies, every = vocabularies, [each.counts for each in items]
        said, own = np.array([unpack_from("<II", each) for each in every], np.intp).T
        ends = [len(each) - few for each, few in zip(every, said.tolist(), strict=True)]
        codes = np.frombuffer(b"".join(c[8:end] for c, end in zip(every, ends, strict=True)), "<u4")
        times = b"".join(c[end:] for c, end in zip(every, ends, strict=True))
        sizes = np.array(ends, np.intp) // 4 - 2
        starts = np.cumsum(sizes) - sizes
        at = np.arange(len(codes)) - starts.repeat(sizes)
        self._slot_of, self._codes = np.arange(len(items)).repeat(sizes), codes & _CODE
        self._is_own = at < own.repeat(sizes)
        is_said, count_of = at < said.repeat(sizes), np.zeros(len(codes))
        count_of[is_said] = np.frombuffer(times, np.uint8)
        of_term = {term: term_code(term) for term in wanted}
        known = np.unique(np.array([*of_term.values()], np.uint32))
        rows = np.minimum(np.searchsorted(known, self._codes), len(known) - 1)
        hit = known[rows] == self._codes
        shape, cells = (len(known), len(items)), (rows[hit], self._slot_of[hit])
        self._counts, of_said = np.zeros(shape), np.zeros(shape)
        self.is_held = np.zeros(shape, np.bool_)
        self._counts[cells] = (codes[hit] >> 24) / _STEP
        self.is_held[cells] = self._is_own[hit]
        of_said[cells] = count_of[hit]
        self._rows = dict(
            zip(of_term, np.searchsorted(known, [*of_term.values()]).tolist(), strict=True)
        )
        self.names = {row: term for term, row in self._rows.items()}
        self.lengths = np.array([each.length for each in items])
        self._places = np.array([[*vocabularies].index(each.identity) for each in items])
        pairs = self._around(items, said, starts)
        if pairs:
            slots, others, weights = map(np.array, zip(*pairs, strict=True))
            np.add.at(self._counts.T, slots, weights[:, None] * of_said.T[others])
            size = np.bincount(self._slot_of, count_of, len(items))
            self.lengths += np.bincount(slots, weights * size[others], len(items))

    def _around(
        self, items: Sequence[FoundItem], said: Array, starts: Array
    ) -> list[tuple[int, int, float]]:
        """Return the items whose text is around each item, with weights; see `said_around`."""
        at, found = dict[tuple[int | None, int], list[int]](), list[tuple[int, int, float]]()
        for slot, each in enumerate(items):
            if each.message is not None:
                at.setdefault((each.chat, each.message), []).append(slot)
        for (chat, message), slots in at.items():
            around = dict[bytes, tuple[int, float]]()
            for offset, weight in AROUND:
                for other in at.get((chat, message + offset), ()):
                    text = self._codes[starts[other] : starts[other] + said[other]].tobytes()
                    around.setdefault(text, (other, weight))
            found += [(slot, *each) for slot in slots for each in around.values()]
        return found

    def lettered(
        self, np: Array, slots: Array
    ) -> Iterator[tuple[Any, Callable[[], tuple[Array, Array, Array]]]]:
        for place, vocabulary in enumerate(self._vocabularies.values()):
            own = slots[self._places[slots] == place]
            yield vocabulary, partial(self._own_codes, np, own, vocabulary)

    def _own_codes(self, np: Array, slots: Array, vocabulary: Any) -> tuple[Array, Array, Array]:
        is_some = np.zeros(len(self.lengths), np.bool_)
        is_some[slots] = True
        at = np.flatnonzero(is_some[self._slot_of] & self._is_own)
        numbers = vocabulary.numbers(np, self._codes[at])
        some, begins = np.unique(self._slot_of[at][numbers >= 0], return_index=True)
        return some, numbers[numbers >= 0], begins

    def dense_term(self, np: Array, term: str, mask: Array | None) -> Term:
        counts = self._counts[self._rows[term]]
        slots = np.flatnonzero(counts)
        return Term(len(slots), slots, counts[slots], ())

    def dense_own(self, np: Array, term: str, mask: Array | None = None) -> Array:
        return np.flatnonzero(self.is_held[self._rows[term]])


class StoredScan:
    """Scores the items of a question; see `ItemScan`. Needs numpy."""

    def __init__(
        self,
        places: Sequence[Place],
        text: str,
        letters: Mapping[Identity, Any],
        *,
        has_letters: bool,
    ) -> None:
        self._places = places
        self._text = text
        self._letters = letters
        self._has_letters = has_letters
        self._asked = asked = query_words(words(text))
        self._shares = [_alike(word, letters.values()) for word in asked.wanted]
        self.terms: Collection[str] = {term for shares in self._shares for term in shares}
        self._idf, self._near = dict[str, float](), list[float]()

    def weigh(self, places: Mapping[Identity, PlaceStatistics]) -> list[str]:
        """See `ItemScan.weigh`."""
        every = self._everywhere = everywhere_of(places.values())
        wanted, holders = self._asked.wanted, {**dict.fromkeys(self.terms, 0), **every.holders}
        self._idf = {term: rarity(few, every.size) for term, few in holders.items()}
        for word, shares in zip(wanted, self._shares, strict=True):
            few = max(map(holders.__getitem__, word)) - sum(map(holders.__getitem__, word))
            few += sum(map(holders.__getitem__, shares))
            self._near.append(rarity(min(few, every.size), every.size))
        own = {term for word in wanted for term in word}
        found = sorted(filter(holders.get, holders), key=lambda of: (of not in own, holders[of]))
        hits = accumulate(map(holders.__getitem__, found))
        few = sum(each <= _MOST_HITS for each in hits)
        return found[: min(max(few, 1), _MOST_WORDS)]

    def best(self, held: Mapping[Identity, HeldTerms], most: int) -> dict[Identity, list[int]]:
        """See `ItemScan.best`."""
        np: Array = numpy_or_none()
        parts = {identity: self._rough(np, each) for identity, each in held.items()}
        words, near = (
            np.max([part[n].max() for part in parts.values()], initial=0) for n in (0, 1)
        )
        factor = self._asked.similar * (words or 1.0) / (near or 1.0)
        scored = {identity: part[0] + factor * part[1] for identity, part in parts.items()}
        every = np.concatenate([np.zeros(0), *(each[each > 0] for each in scored.values())])
        least = np.partition(every, -most)[-most] if len(every) > most else 1e-9
        found = dict[Identity, list[int]]()
        for identity, each in scored.items():
            items = np.flatnonzero(each >= least)
            order = np.argsort(each[items], kind="stable")[::-1]  # of equal ones the latest
            found[identity] = items[order[:most]].tolist()
        return found

    def _rough(self, np: Array, held: HeldTerms) -> tuple[Array, Array]:
        """Return the scores of the items of a place by words and by similar ones."""
        items = {term: _items(np, blocks) for term, blocks in held.blocks.items()}
        width = max((int(each.max()) for each, _ in items.values()), default=0) + 1
        every = self._everywhere
        by_words, by_near = _fits(np, every.length / every.size)
        scores, alike = np.zeros(width), np.zeros(width)
        for word, shares, idf in zip(self._asked.wanted, self._shares, self._near, strict=True):
            near = np.zeros(width)
            for term in filter(items.__contains__, shares):  # the most similar one is the last
                at, fits = items[term]
                near[at] = by_near[fits] * (shares[term] * idf)
            alike += near
            for term in filter(items.__contains__, word):
                at, fits = items[term]
                scores[at] += by_words[fits] * self._idf[term]
        if held.inside is not None:
            kept = np.zeros(width, np.bool_)
            kept[[item for item in held.inside if item < width]] = True
            scores, alike = scores * kept, alike * kept
        return scores, alike

    def scores(self, items: Sequence[FoundItem], *, has_meaning: bool) -> list[ItemScore]:
        """See `ItemScan.scores`."""
        if not (items and self.terms):
            return [ItemScore(0.0, 0.0, ()) for _ in items]
        np: Array = numpy_or_none()
        lists = _StoredLists(self._letters, self.terms, items)
        index = TermIndex(
            everywhere=self._everywhere,
            lists=lists,
            lengths=lists.lengths,
            has_letters=self._has_letters,
        )
        asked, _ = FactIndex(self._places).asked(self._text, has_vectors=has_meaning)
        dense = index.dense_scan(asked)
        held = [list[str]() for _ in items]
        for slot, row in np.argwhere(lists.is_held.T).tolist():
            held[slot].append(lists.names[row])
        columns = dense.bm25.tolist(), dense.coverage.tolist(), held
        return [ItemScore(*each) for each in zip(*columns, strict=True)]


def _items(np: Array, blocks: Sequence[tuple[int, bytes]]) -> tuple[Array, Array]:
    """Return the items of blocks, and their bytes; see `HeldTerms`."""
    rows = np.frombuffer(b"".join([block for _, block in blocks]), [("far", "<u2"), ("fit", "u1")])
    sizes = [len(block) // rows.itemsize for _, block in blocks]
    return rows["far"] + np.repeat([first for first, _ in blocks], sizes), rows["fit"]


def _fits(np: Array, average: float) -> tuple[Array, Array]:
    """Return the factors on rarity for the byte of a term, for words and for similar ones."""
    fits = np.arange(256)
    counts, lengths = (fits >> 4) / 2, _LENGTH_STEP ** ((fits & 15) + _LEAST_LENGTH)
    norms = K1 * (1 - B) + K1 * B * lengths / (average or 1.0)
    return counts * (K1 + 1) / (counts + norms), 1 / (1 + norms)


def _alike(word: Word, letters: Collection[Any]) -> dict[str, float]:
    """Return the terms that are similar to a word, the least similar first, then its own."""
    found = [pair for each in letters for pair in each.similar(word).items()]
    return dict(sorted(found, key=itemgetter(1))) | dict.fromkeys(word, 1.0)


def question_of(
    places: Sequence[Place],
    query: RecallQuery,
    now: datetime,
    *,
    model: str = "",
    vector: "array[float] | None" = None,
    has_letters: bool = True,
    limit: int = _CANDIDATES,
) -> SearchQuestion:
    """Return the question that a store answers with at least `limit` candidates, if it can."""
    return SearchQuestion(
        spans=[each[:2] for each in asked_spans(query.text, now) if each.is_sure],
        letters=Vocabulary,
        scan=partial(StoredScan, places, query.text, has_letters=has_letters),
        can_scan=lambda: numpy_or_none() is not None,
        limit=max(limit if vector is None else _BY_MEANING, _PER_MATCH * query.limit),
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
    every = Counter[str]()
    for each in found:
        every.update(each.holders)
    size, length = sum(each.size for each in found), sum(each.length for each in found)
    holders = {term: min(few, size) for term, few in every.items()}  # replaced items are counted
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
    index, slots = FactIndex(places), list[SearchCandidate]()
    for placed in found:
        candidate = loaded[_name(placed)][0]
        if id(candidate) not in others:
            words = candidate.words.terms
            index.put(candidate.identity, placed, words=words)  # in the next slot
            slots.append(candidate)
    near = _nearness(query, index, answer, slots) if answer.has_meaning else None
    matches = index.search(query, now, near, [each.words[:2] for each in slots])
    size = sum(each.size for each in answer.places.values())
    return StoreMatches(
        matches, [*unreadable.values()], answer.has_meaning, answer.unembedded, size
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


def _described(fact: AnyFact, entity: str | None) -> SearchDocument:
    around = said_around(fact.source, lambda _, __: ())
    return _packed(
        words_of(fact, entity), said(fact), around, text_digest(meaning_of(fact, entity))
    )


def _passages(turn: Turn) -> Iterator[SearchDocument]:
    for _, fact in passage_facts("", turn):
        yield _packed(words_of(fact, None), said(fact))


def _packed(
    fields: Mapping[str, str],
    text: str,
    around: Iterable[tuple[str, float]] = (),
    digest: bytes = b"",
) -> SearchDocument:
    """Return the document of some fields, with the text that finds its neighbours."""
    own, beside = document = document_of(fields, around)
    times = Counter(term for word in words(text) for term in word if term in own)
    every = {term: own[term] for term in (*times, *own)} | dict(beside)
    codes = [term_code(term) | min(round(_STEP * n), 255) << 24 for term, n in every.items()]
    counts = pack(f"<II{len(codes)}I", len(times), len(own), *codes)
    counts += bytes(min(each, 255) for each in times.values())
    size = round(log(document.length or 1.0, _LENGTH_STEP)) - _LEAST_LENGTH
    size = min(max(size, 0), 15)
    terms = {term: min(round(2 * count), 15) << 4 | size for term, count in every.items()}
    return SearchDocument(terms, document.length, counts, digest)
