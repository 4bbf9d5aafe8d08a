"""The facts of some places, ready to be searched by words and by meaning: pure."""

from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from functools import reduce
from heapq import heappop, heappush
from math import isnan, nan
from operator import or_
from typing import Any, TypeAlias

from factmem.ledger.resolution import PlacedFact
from factmem.models.facts import AnyFact
from factmem.models.places import Identity, Place
from factmem.models.sources import SourceKind
from factmem.recall.arrays import Array, numpy_or_none
from factmem.recall.conversations import AROUND, BEFORE, Conversations
from factmem.recall.documents import FIELD_WEIGHTS, RECURRING_FIELDS, said, words_of
from factmem.recall.hints import asked_days, named_entity
from factmem.recall.lexical.bm25 import TermIndex
from factmem.recall.match import Match
from factmem.recall.metadata_index import MetadataIndex
from factmem.recall.place_vectors import TextRows
from factmem.recall.query import RecallQuery
from factmem.recall.ranking import Candidates, Hints, Ranking

__all__ = ["Cosines", "FactIndex"]


Cosines: TypeAlias = Callable[[Identity, TextRows], Sequence[float]]
"""Returns the cosine between a question and each text of a place, NaN where it has no vector."""

_WORTH_NUMPY = 256
"""Among so few facts plain Python is as fast, and importing numpy takes a first recall 0.1 s."""

_KINDS = {kind: number for number, kind in enumerate(SourceKind, start=1)}


class _Shelf:
    """The slots of one place's facts."""

    __slots__ = ("rows", "slots", "texts")

    def __init__(self) -> None:
        self.slots: dict[str, dict[str, int]] = {}
        """By keyword and id."""
        self.texts: dict[int, bytes] = {}
        """The digests of their texts, by slot."""
        self.rows: tuple[array[int], TextRows] | None = None
        """The slots and the texts in one order; None where that is to be made."""


class FactIndex:
    """Facts, each under its place, keyword and id. Not safe for a change during another call.

    Args:
        places: All places that are asked, those without facts too.
    """

    def __init__(self, places: Iterable[Place] = ()) -> None:
        self._entities = frozenset(
            place.subject.entity for place in places if place.subject.entity is not None
        )
        self._terms = TermIndex(weights=FIELD_WEIGHTS, recurring=RECURRING_FIELDS)
        self._conversations = Conversations()
        self._metadata = MetadataIndex()
        self._stale: set[int] = set()
        """The slots whose words are to be indexed."""
        self._placed: list[PlacedFact[AnyFact] | None] = []
        self._heard_at: array[float] = array("d")
        self._said_at: array[float] = array("d")
        self._importance: array[float] = array("d")
        self._days: array[int] = array("I")
        """When each was said, as 20260517."""
        self._kinds = bytearray()
        """The kinds of their sources."""
        self._free: list[int] = []
        self._shelves: dict[Identity, _Shelf] = {}

    def __len__(self) -> int:
        return len(self._placed) - len(self._free)

    def put(self, identity: Identity, placed: PlacedFact[AnyFact], digest: bytes = b"") -> None:
        """Hold a fact, in place of what is held of it.

        Args:
            identity: The fact's place.
            placed: The fact.
            digest: That of its text; without one it is found by words alone.
        """
        fact = placed.fact
        shelf = self._shelves.get(identity)
        if shelf is None:
            shelf = self._shelves[identity] = _Shelf()
        slots = shelf.slots.setdefault(fact.concept.keyword, {})
        slot = slots.get(fact.id)
        if slot is None:
            slot = slots[fact.id] = self._slot()
        before = self._placed[slot]
        if before is not None and before.fact is fact:
            return
        if before is None or before.fact != fact:
            self._stale.add(slot)
            self._converse(slot, before, placed)
            self._said_at[slot] = fact.timestamp.timestamp()
            self._importance[slot] = fact.importance
            day = fact.timestamp
            self._days[slot] = day.year * 10_000 + day.month * 100 + day.day
            self._metadata.put(slot, fact.metadata)
            self._kinds[slot] = 0 if fact.source is None else _KINDS[fact.source.kind]
        self._placed[slot] = placed
        self._heard_at[slot] = placed.heard_at.timestamp()
        if shelf.texts.get(slot) != digest:
            shelf.texts[slot] = digest
            shelf.rows = None

    def _slot(self) -> int:
        if self._free:
            return heappop(self._free)
        self._placed.append(None)
        for column in (self._heard_at, self._said_at, self._importance):
            column.append(0.0)
        self._days.append(0)
        self._kinds.append(0)
        return len(self._placed) - 1

    def drop(self, identity: Identity, keyword: str, ids: Iterable[str]) -> None:
        """Let go of facts, if they are held."""
        shelf = self._shelves.get(identity)
        slots = None if shelf is None else shelf.slots.get(keyword)
        if shelf is None or slots is None:
            return
        for each in ids:
            slot = slots.pop(each, None)
            if slot is not None:
                self._converse(slot, self._placed[slot], None)
                self._terms.drop(slot)
                self._metadata.drop(slot)
                self._stale.discard(slot)
                self._placed[slot] = None
                heappush(self._free, slot)
                del shelf.texts[slot]
                shelf.rows = None
        if not slots:
            del shelf.slots[keyword]

    def ids(self, identity: Identity, keyword: str) -> Collection[str]:
        """Return the ids of the facts that are held of a place's keyword."""
        shelf = self._shelves.get(identity)
        return () if shelf is None else shelf.slots.get(keyword, {}).keys()

    def _converse(
        self, slot: int, before: PlacedFact[AnyFact] | None, now: PlacedFact[AnyFact] | None
    ) -> None:
        """Note which message a fact comes from; what stands around it is indexed anew."""
        if before is not None and before.fact.source is not None:
            self._stale |= self._conversations.drop(slot, before.fact.source)
        if now is not None and now.fact.source is not None:
            self._stale |= self._conversations.put(slot, now.fact.source)

    def _index_words(self) -> None:
        for slot in sorted(self._stale):
            placed = self._placed[slot]
            if placed is not None:
                fields = words_of(placed.fact, placed.place.subject.entity)
                self._terms.put(slot, fields, self._around(placed.fact))
        self._stale.clear()

    def _around(self, fact: AnyFact) -> list[tuple[str, float]]:
        """Return what was said around a fact, each text once, at its greatest weight."""
        source, around = fact.source, dict[str, float]()
        if source is None:
            return []
        if source.conversation is not None and source.message is not None:
            for offset, weight in AROUND:
                slots = self._conversations.at(source.conversation, source.message + offset)
                neighbours = (self._placed[slot] for slot in sorted(slots))
                for each in neighbours:
                    if each is not None:
                        text = said(each.fact)
                        around[text] = max(around.get(text, 0.0), weight)
        if source.before is not None:
            around.setdefault(source.before, BEFORE)
        return [each for each in around.items() if each[1]]

    def search(
        self, query: RecallQuery, now: datetime, cosines_of: Cosines | None = None
    ) -> list[Match]:
        """Return the best matches, best first; of equal ones the last confirmed goes first.

        Args:
            query: What to look for.
            now: The time that recency is reckoned from.
            cosines_of: Compares texts with the question; without it words decide alone.
        """
        self._index_words()
        np = None
        if cosines_of is not None or len(self) >= _WORTH_NUMPY:
            np = numpy_or_none()
        among = self._among(query) if query.is_narrowed else None
        ranking = Ranking(query, now, self._hints(query), has_meaning=cosines_of is not None)
        candidates = Candidates(
            self._placed,
            self._heard_at,
            self._importance,
            self._conversations.codes,
            self._conversations.loose,
        )
        if np is None:
            words = self._terms.scan(query.text, among)
            return ranking.best(candidates, words, self._cosines(cosines_of, among))
        return ranking.best(
            candidates,
            self._terms.dense_scan(query.text, among),
            self._dense_cosines(np, cosines_of, among),
        )

    def _among(self, query: RecallQuery) -> bytearray:
        """Return 1 for each slot that a query looks at."""
        among = bytearray(len(self._placed))
        for shelf in self._shelves.values():
            slots = next(iter(shelf.texts), None)
            first = None if slots is None else self._placed[slots]
            if first is None or not query.is_about(first.place):
                continue
            keywords = shelf.slots.keys() if query.keywords is None else query.keywords
            for keyword in keywords:
                for slot in shelf.slots.get(keyword, {}).values():
                    among[slot] = 1
        if query.since is not None or query.until is not None:
            begin = float("-inf") if query.since is None else query.since.timestamp()
            end = float("inf") if query.until is None else query.until.timestamp()
            is_in = self._where(self._said_at, lambda at: (at >= begin) & (at < end))
            among = _both(among, is_in)
        if query.min_importance is not None:
            least = query.min_importance
            among = _both(among, self._where(self._importance, lambda each: each >= least))
        if query.source_kinds is not None:
            wanted = bytes(kind in query.source_kinds for kind in SourceKind)
            among = _both(among, self._kinds.translate((b"\0" + wanted).ljust(256, b"\0")))
        if query.metadata:
            among = _both(among, self._metadata.where(query.metadata, len(among)))
        return among

    def _hints(self, query: RecallQuery) -> Hints:
        named = days = None
        entity = named_entity(query.text, self._entities)
        if entity is not None:
            named = bytearray(len(self._placed))
            for identity, shelf in self._shelves.items():
                if identity[3] is not None:
                    for slot in shelf.texts:
                        named[slot] = 1 if identity[3] == entity else 2
        asked = asked_days(query.text)
        if asked:
            days = self._where(
                self._days, lambda day: reduce(or_, (each.has(day) for each in asked))
            )
        return Hints(named, days)

    def _where(self, column: "array[Any]", holds: Callable[[Any], Any]) -> bytearray:
        """Return 1 for each slot where a condition holds; `holds` takes a number or an array."""
        np = numpy_or_none() if len(column) >= _WORTH_NUMPY else None
        if np is None:
            return bytearray(map(holds, column))
        kinds = {"d": np.float64, "I": np.uint32}
        found = holds(np.frombuffer(column, kinds[column.typecode]))
        return bytearray(np.ascontiguousarray(found, np.uint8))

    def _rows(self) -> Iterable[tuple["array[int]", Identity, TextRows]]:
        for identity, shelf in self._shelves.items():
            if shelf.rows is None:
                shelf.rows = array("I", shelf.texts), TextRows(list(shelf.texts.values()))
            yield shelf.rows[0], identity, shelf.rows[1]

    def _cosines(
        self, cosines_of: Cosines | None, among: bytearray | None
    ) -> dict[int, float] | None:
        if cosines_of is None:
            return None
        return {
            slot: cosine
            for slots, identity, rows in self._rows()
            for slot, cosine in zip(slots, cosines_of(identity, rows), strict=True)
            if not isnan(cosine) and (among is None or among[slot])
        }

    def _dense_cosines(
        self, np: Array, cosines_of: Cosines | None, among: bytearray | None
    ) -> Array | None:
        if cosines_of is None:
            return None
        cosines = np.full(len(self._placed), nan, np.float64)
        for slots, identity, rows in self._rows():
            if slots:
                cosines[np.frombuffer(slots, np.uint32)] = cosines_of(identity, rows)
        if among is not None:
            cosines[np.frombuffer(among, np.uint8) == 0] = nan
        return cosines


def _both(first: bytearray, second: bytearray) -> bytearray:
    """Return 1 where both have 1: one operation on two long numbers."""
    size = len(first)
    both = int.from_bytes(first, "little") & int.from_bytes(second, "little")
    return bytearray(both.to_bytes(size, "little"))
