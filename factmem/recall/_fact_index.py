"""FactIndex: an in-memory index of facts for search by words and by meaning. No I/O."""

import re
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from heapq import heappop, heappush
from operator import itemgetter
from sys import maxsize
from typing import Any

from factmem._text.analysis import content_words, words
from factmem.ledger.resolution import PlacedFact
from factmem.models.facts import AnyFact
from factmem.models.places import Identity, Place
from factmem.models.recall_filter import RecallFilter, marks_of
from factmem.recall._bm25 import DenseScores, QueryWords, TermIndex, WordScores, query_words
from factmem.recall._documents import (
    Conversations,
    Document,
    Span,
    asked_spans,
    clause_of_time,
    document_of,
    name_terms,
    named_entity,
    period_of,
    said_around,
    untimed,
    words_of,
)
from factmem.recall._place_vectors import Nearness, QuestionVectors, TextSlots, both, numpy_or_none
from factmem.recall._ranking import Candidates, Hints, Ranking
from factmem.recall.match import Match, RecallQuery


class MarkIndex:
    """The marks of the facts in an index's slots. Facts without marks need no memory."""

    def __init__(self) -> None:
        self._of_slot: dict[int, frozenset[bytes]] = {}
        self._slots: dict[bytes, set[int]] = {}
        """The slots of each mark. Without it, a scan over 50,000 facts would take 20 ms."""

    def put(self, slot: int, marks: frozenset[bytes]) -> None:
        """Set the marks of a slot."""
        if self._of_slot.get(slot, frozenset()) == marks:
            return
        self.drop(slot)
        if marks:
            self._of_slot[slot] = marks
            for each in marks:
                self._slots.setdefault(each, set()).add(slot)

    def drop(self, slot: int) -> None:
        """Remove the marks of a slot."""
        for each in self._of_slot.pop(slot, ()):
            held = self._slots[each]
            held.discard(slot)
            if not held:
                del self._slots[each]

    def where(self, wanted: Collection[bytes], size: int) -> bytearray:
        """Return a mask of `size` slots: 1 if the slot has all of these marks."""
        found = bytearray(size)
        sets = sorted((self._slots.get(each, set[int]()) for each in wanted), key=len)
        for slot in sets[0].intersection(*sets[1:]):
            found[slot] = 1
        return found


_WORTH_NUMPY = 256
"""The least number of facts to use numpy for. Below it plain Python is as fast, and importing numpy
adds 0.1 s to the first recall."""

_FEW = 3
"""The most words of a question that is about a time."""

_BESIDE_WORDS = 0.25
"""The score of a fact for its time alone, relative to the best one that has words of the
question."""

_DESCRIBED = 0.5
"""The least share of a clause's words that the fact has whose period the clause means."""


def _fit(asked: Span, begin: Any, end: Any, said_at: Any) -> Any:
    """Return how well facts fit a time, also for arrays of them.

    2 if they hold then, and began in that time or have an end; 1 if they have none, or were only
    said then, or if the question probably means another year.
    """
    holds = (begin < asked.end) & ((end > asked.begin) | (begin >= asked.begin))
    if not asked.is_sure:
        return holds * 1
    is_of_it = holds & ((begin >= asked.begin) | (end < float("inf")))
    is_said = (said_at >= asked.begin) & (said_at < asked.end)
    return is_of_it * 2 + (1 - is_of_it) * (holds | is_said)


class FactIndex:
    """An index of facts by place, keyword and id. Calls must not overlap with a change.

    Args:
        places: All searched places, including those without facts.
        has_letters: Whether facts are compared by the letters of a question, too.
    """

    def __init__(self, places: Iterable[Place] = (), *, has_letters: bool = True) -> None:
        entities = (each.subject.entity for each in places if each.subject.entity is not None)
        self._entities = {entity: number for number, entity in enumerate(dict.fromkeys(entities))}
        """A number for each entity of the places."""
        self._terms = TermIndex(has_letters=has_letters)
        self._conversations = Conversations()
        self._marks = MarkIndex()
        self._stale: set[int] = set()
        """The slots whose words have to be indexed before the next search."""
        self._placed: list[PlacedFact[AnyFact] | None] = []
        self._heard_at: array[float] = array("d")
        self._said_at: array[float] = array("d")
        self._importance: array[float] = array("d")
        self._begin: array[float] = array("d")
        """From when each fact holds, or when it was said; see `period_of`."""
        self._end: array[float] = array("d")
        self._lasting: set[int] = set()
        """The slots of facts with `since` or `until`."""
        self._entity_of: array[int] = array("i")
        """The number of each fact's entity, -1 without one."""
        self._texts = TextSlots()
        self._free: list[int] = []
        self._slots: dict[Identity, dict[str, dict[str, int]]] = {}
        """The slots of each place's facts, by keyword and id."""

    def __len__(self) -> int:
        return len(self._placed) - len(self._free)

    def put(
        self,
        identity: Identity,
        placed: PlacedFact[AnyFact],
        digest: bytes = b"",
        *,
        words: Collection[str] | None = None,
    ) -> None:
        """Add a fact; it replaces the fact with the same place, keyword and id.

        Without `digest`, that of its text, it is found only by words. With `words`, its terms
        among those of a question, its text is not analysed.
        """
        fact = placed.fact
        slots = self._slots.setdefault(identity, {}).setdefault(fact.concept.keyword, {})
        slot = slots.get(fact.id)
        if slot is None:
            slot = slots[fact.id] = self._slot()
            self._entity_of[slot] = self._entities.get(identity[3] or "", -1)
        before = self._placed[slot]
        if before is not None and before.fact is fact:
            return
        if before is None or before.fact != fact:
            self._converse(slot, before, placed)
            self._stale.add(slot)
            if words is not None:
                self._terms.put(slot, Document(dict.fromkeys(words, 1.0), {}))
            self._said_at[slot] = fact.timestamp.timestamp()
            self._importance[slot] = fact.importance
            self._begin[slot], self._end[slot] = period_of(fact)
            if fact.since is not None or fact.until is not None:
                self._lasting.add(slot)
            else:
                self._lasting.discard(slot)
            self._marks.put(slot, marks_of(fact))
        self._placed[slot] = placed
        self._heard_at[slot] = placed.heard_at.timestamp()
        self._texts.put(identity, slot, digest)

    def _slot(self) -> int:
        if self._free:
            return heappop(self._free)  # the lowest free slot, so that columns have few gaps
        self._placed.append(None)
        columns = (self._heard_at, self._said_at, self._importance, self._begin, self._end)
        for column in columns:
            column.append(0.0)
        self._entity_of.append(-1)
        return len(self._placed) - 1

    def drop(self, identity: Identity, keyword: str, ids: Iterable[str]) -> None:
        """Remove facts; ignore those that are not in the index."""
        slots = self._slots.get(identity, {}).get(keyword, {})
        for each in ids:
            slot = slots.pop(each, None)
            if slot is not None:
                self._converse(slot, self._placed[slot], None)
                self._terms.drop(slot)
                self._marks.drop(slot)
                self._stale.discard(slot)
                self._lasting.discard(slot)
                self._placed[slot] = None
                heappush(self._free, slot)
                self._texts.drop(identity, slot)
        if not slots:
            self._slots.get(identity, {}).pop(keyword, None)

    def ids(self, identity: Identity, keyword: str) -> Collection[str]:
        """Return the ids of the indexed facts of a place's keyword."""
        return self._slots.get(identity, {}).get(keyword, {}).keys()

    def _converse(
        self, slot: int, before: PlacedFact[AnyFact] | None, now: PlacedFact[AnyFact] | None
    ) -> None:
        """Update the conversations for a changed fact; its neighbours are reindexed later."""
        if before is not None and before.fact.source is not None:
            self._stale |= self._conversations.drop(slot, before.fact.source)
        if now is not None and now.fact.source is not None:
            self._stale |= self._conversations.put(slot, now.fact.source)

    @property
    def is_complete(self) -> bool:
        """Whether the words of all facts are indexed."""
        return not self._stale

    def index_words(self, most: int = maxsize) -> None:
        """Index the words of changed facts, or of some of them."""
        # Before a search and not in `put`: a fact changes the documents of its neighbours too, and
        # each of them is then indexed only once.
        if not self._stale:
            return
        slots = sorted(self._stale)
        for slot in slots[:most]:
            placed = self._placed[slot]
            if placed is not None:
                fields = words_of(placed.fact, placed.place.subject.entity)
                around = said_around(placed.fact.source, self._at)
                self._terms.put(slot, document_of(fields, around))
        self._stale = set(slots[most:])  # not the same set, which stays as large as it ever was

    def _at(self, conversation: str, message: int) -> Iterator[AnyFact]:
        """Yield the facts of a message."""
        for slot in sorted(self._conversations.at(conversation, message)):
            placed = self._placed[slot]
            if placed is not None:
                yield placed.fact

    def search(
        self,
        query: RecallQuery,
        now: datetime,
        vectors: QuestionVectors | Nearness | None = None,
        scored: Sequence[tuple[float, float]] | None = None,
    ) -> list[Match]:
        """Return the best matches, best first. Of equal ones, the last confirmed comes first.

        Args:
            query: The question and its filters.
            now: The time that recency is relative to.
            vectors: Compares texts with the question, or has its cosines by slot. Without it, only
                words are compared.
            scored: BM25 and coverage of each slot, if they are known.
        """
        if scored is None:
            self.index_words()
        is_dense = vectors is not None or len(self) >= _WORTH_NUMPY
        np = numpy_or_none() if is_dense else None
        among = None if query.filter.is_open else self._among(query.filter)
        terms, entity = self.asked(query.text, has_vectors=vectors is not None)
        hints = self._hints(query.text, entity, now)
        timed = self._of_time(query.text, now, hints, among)
        if np is None:
            if scored is None:
                scores = self._terms.scan(terms, among)
            else:
                scores = {slot: each for slot, each in enumerate(scored) if each[0]}
            most = max((score for score, _ in scores.values()), default=1.0)
            for slot, share in timed.items():
                score, coverage = scores.get(slot, (0.0, 0.0))
                scores[slot] = score + share * most, max(coverage, share / 2)
            return self.ranked(query, now, hints, scores, None)
        near = vectors if isinstance(vectors, Nearness) else None
        if isinstance(vectors, QuestionVectors):
            near = self._texts.nearness(np, vectors, len(self._placed), among)
        if scored is None:
            dense = self._terms.dense_scan(terms, among)
        else:
            dense = DenseScores(*np.array(scored, np.float64).reshape(-1, 2).T.copy())
        if timed and len(dense.bm25):
            at, share = list(timed), np.array([*timed.values()])
            dense.bm25[at] += share * (float(dense.bm25.max()) or 1.0)
            dense.coverage[at] = np.maximum(dense.coverage[at], share / 2)
        return self.ranked(query, now, hints, dense, near)

    def _of_time(
        self, question: str, now: datetime, hints: Hints, among: bytearray | None
    ) -> dict[int, float]:
        """Return the facts of the time that a question names, if it says nothing else of them.

        Each with a bonus, relative to the best score. A question of a time and few words, such as
        "What did I tell you yesterday?", means all facts of that time if none of them has the
        words. With more words, or two that other facts have, those facts come first.
        """
        if hints.times is None or not hints.times.count(2):
            return {}
        asked = content_words(words(untimed(question, now)))
        np = numpy_or_none() if len(self._placed) >= _WORTH_NUMPY else None
        known = 0
        for word in asked:
            slots = [*filter(len, (self._terms.slots(term, np) for term in word))]
            if any(2 in map(hints.times.__getitem__, each) for each in slots):
                return {}
            known += bool(slots)
        found = [
            slot
            for slot in (each.start() for each in re.finditer(b"\x02", hints.times))
            if self._placed[slot] is not None and (among is None or among[slot])
        ]
        is_alone = len(asked) <= _FEW and known <= 1
        return dict.fromkeys(found, 1.0 if is_alone else _BESIDE_WORDS)

    def asked(self, question: str, *, has_vectors: bool) -> tuple[QueryWords, str | None]:
        """Return the words to search for, and the entity that a question names."""
        found = words(question)
        entity = named_entity(found, self._entities)
        # Without vectors the name counts in coverage: ignoring it finds 2 % fewer right facts.
        name = name_terms(entity) if entity is not None and has_vectors else ()
        return query_words(found, name), entity

    def ranked(
        self,
        query: RecallQuery,
        now: datetime,
        hints: Hints,
        scores: WordScores | DenseScores,
        near: Nearness | None,
    ) -> list[Match]:
        """Return the best matches by the scores of words and the nearness of texts, by slot."""
        candidates = Candidates(
            self._placed, self._heard_at, self._importance, self._conversations.loose
        )
        ranking = Ranking(query, now, hints, has_meaning=near is not None)
        return ranking.best(candidates, scores, near)

    def _among(self, wanted: RecallFilter) -> bytearray:
        """Return a mask of the slots that pass a filter."""
        is_open = wanted.keywords is None
        among = bytearray([is_open]) * len(self._placed)
        for slot in self._free:
            among[slot] = 0
        for held in self._slots.values():
            for keyword in wanted.keywords or ():
                for slot in held.get(keyword, {}).values():
                    among[slot] = 1
        if wanted.since is not None or wanted.until is not None:
            begin = float("-inf") if wanted.since is None else wanted.since.timestamp()
            end = float("inf") if wanted.until is None else wanted.until.timestamp()
            np = numpy_or_none() if len(among) >= _WORTH_NUMPY else None
            if np is None:
                is_in = bytearray(begin <= at < end for at in self._said_at)
            else:
                said_at = np.frombuffer(self._said_at)
                is_in = bytearray((said_at >= begin) & (said_at < end))
            among = both(among, is_in)
        if wanted.marks:
            among = both(among, self._marks.where(wanted.marks, len(among)))
        return among

    def _hints(self, question: str, entity: str | None, now: datetime) -> Hints:
        named = None if entity is None else self._entities[entity]
        spans = [*asked_spans(question, now), *self.periods_of(clause_of_time(question))]
        return Hints(named, self._entity_of, self._timely(spans) if spans else None)

    def periods_of(self, clause: str) -> list[Span]:
        """Return the period of the fact that a clause describes, such as "she lived in Busan"."""
        if not clause or not self._lasting:
            return []
        self.index_words()
        among = bytearray(len(self._placed))
        for slot in self._lasting:
            among[slot] = 1
        found = self._terms.scan(query_words(words(clause)), among)
        slot, (_, coverage) = max(found.items(), key=itemgetter(1), default=(0, (0.0, 0.0)))
        return [Span(self._begin[slot], self._end[slot])] if coverage >= _DESCRIBED else []

    def _timely(self, spans: Sequence[Span]) -> bytearray:
        """Return 2 for the facts of times that a question names, 1 for those that only may be."""
        np = numpy_or_none() if len(self._said_at) >= _WORTH_NUMPY else None
        if np is None:
            columns = zip(self._begin, self._end, self._said_at, strict=True)
            return bytearray(max(_fit(each, *row) for each in spans) for row in columns)
        rows = [np.frombuffer(column) for column in (self._begin, self._end, self._said_at)]
        fits = np.maximum.reduce([_fit(each, *rows) for each in spans])
        return bytearray(np.ascontiguousarray(fits, np.uint8))
