"""What a process keeps between recalls: facts of places, and indexes over sets of places.

PlaceCache   the facts of one place as last read, and their vectors
PlacesIndex  an index of the current facts in a set of places, updated before each search
IndexCache   the indexes of a memory, which it creates at once; the modules of the indexes are
             imported with the first recall, as a program that only loads facts does not need them
"""

import os
import threading
import weakref
from array import array
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Sized
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar

import anyio
from anyio import CapacityLimiter, Lock, to_thread

from factmem._concurrency import PerLoop
from factmem.errors import StoredFactError
from factmem.ledger.resolution import PlacedFact, UnreadableConcept, resolve_entities, seen_together
from factmem.models.facts import AnyFact, FactType
from factmem.models.places import Identity, Place
from factmem.providers.results import PlaceChanges
from factmem.recall._place_vectors import PlaceVectors, QuestionVectors
from factmem.recall.match import Match, RecallQuery

R = TypeVar("R")
X = TypeVar("X", bound=Sized)


class KnownFact(NamedTuple):
    """A fact, and the digest of its embedded text."""

    fact: AnyFact
    digest: bytes
    """Empty without semantic search."""


Known: TypeAlias = Mapping[str, KnownFact]
"""The facts of one keyword by id, in the order of the place. Immutable."""

Unreadable: TypeAlias = Mapping[str, StoredFactError]
"""Keywords whose values do not fit their type, with the errors."""

_NO_FACTS: Known = MappingProxyType({})
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class PlaceSnapshot:
    """The facts of a place at one time. Immutable.

    Unchanged facts are the same objects in two snapshots, so `is` comparisons find the changes.
    """

    number: int
    """Increases with time, over all places."""
    version: str | None
    """The store's version of the place."""
    topics: Mapping[str, Known]
    """The facts of each keyword."""
    unreadable: Unreadable

    def facts(self, keyword: str) -> Known:
        """Return the facts of a keyword."""
        return self.topics.get(keyword, _NO_FACTS)

    def knows(self, keyword: str) -> bool:
        """Whether the place has facts of a keyword, readable or not."""
        return keyword in self.topics or keyword in self.unreadable

    def by_digest(self) -> dict[bytes, AnyFact]:
        """Return a fact for each digest of an embedded text."""
        return {digest: fact for topic in self.topics.values() for fact, digest in topic.values()}

    def changed_since(self, before: "PlaceSnapshot") -> list[str]:
        """Return the keywords whose facts changed, in the order of the place.

        Facts indexed in this order have the same order as the rows of their vectors, so that
        vectors can be compared without a copy.
        """
        if self is before:
            return []
        known = before.topics.get
        changed = [keyword for keyword, facts in self.topics.items() if known(keyword) is not facts]
        gone = before.topics.keys() - self.topics.keys()
        gone |= self.unreadable.keys() ^ before.unreadable.keys()
        return [*changed, *(gone - set(changed))]


class PlaceCache:
    """The latest snapshot of a place, shared by all recalls over it. Thread-safe."""

    def __init__(self, identity: Identity, *, has_meaning: bool = False) -> None:
        self.identity = identity
        self.vectors: PlaceVectors = PlaceVectors()
        self.loading: PerLoop[anyio.Lock] = PerLoop(anyio.Lock)
        """Held by the one task of an event loop that reads the place."""
        self.embedding: PerLoop[anyio.Lock] = PerLoop(anyio.Lock)
        """Held by the one task of an event loop that embeds its texts."""
        self.asked = 0
        """The number of questions that the store answered, about this place and others."""
        self._has_meaning = has_meaning
        self._lock = threading.Lock()
        self.snapshot: PlaceSnapshot = EMPTY
        """The latest snapshot. Only `take` and `follow` replace it."""

    @staticmethod
    def next_number() -> int:
        """Return the number for a snapshot that is read from now on."""
        return next(_numbers)

    def take(
        self, number: int, version: str | None, facts: Iterable[AnyFact], unreadable: Unreadable
    ) -> PlaceSnapshot:
        """Store a snapshot of all facts, unless a later one is stored; return the latest."""
        with self._lock:
            before = self.snapshot
            if number <= before.number:
                return before
            read: dict[str, dict[str, AnyFact]] = {}
            for fact in facts:
                read.setdefault(fact.concept.keyword, {})[fact.id] = fact
            topics: dict[str, Known] = {}
            for keyword, new in read.items():
                topics[keyword] = self._known(before.facts(keyword), new)
            self.snapshot = PlaceSnapshot(number, version, topics, unreadable)
            return self.snapshot

    def follow(self, number: int, since: str, changes: PlaceChanges) -> PlaceSnapshot | None:
        """Apply the changes since a version.

        Returns None if they do not apply to the latest snapshot: then read the whole place.
        """
        with self._lock:
            before = self.snapshot
            if number <= before.number:
                return before
            # A changed unreadable keyword may be readable now, and only a whole read can tell.
            if since != before.version or not before.unreadable.keys().isdisjoint(changes.facts):
                return None
            topics = dict(before.topics)
            for keyword, found in changes.facts.items():
                known = before.facts(keyword)
                new: dict[str, AnyFact] = {}
                for each in found:
                    if not isinstance(each, str):
                        new[each.id] = each
                    elif each in known:
                        new[each] = known[each].fact
                    else:
                        return None  # the store refers to a fact that this snapshot never had
                if new:
                    topics[keyword] = self._known(known, new)
                else:
                    topics.pop(keyword, None)
            self.snapshot = PlaceSnapshot(number, changes.version, topics, before.unreadable)
            return self.snapshot

    def _known(self, known: Known, facts: Mapping[str, AnyFact]) -> Known:
        """Return facts with their digests; unchanged facts are the same objects."""
        new = {each: self._known_fact(known.get(each), fact) for each, fact in facts.items()}
        if len(new) == len(known) and all(
            ours is theirs for ours, theirs in zip(new.values(), known.values(), strict=True)
        ):
            return known
        return new

    def _known_fact(self, known: KnownFact | None, fact: AnyFact) -> KnownFact:
        if known is not None and (
            known.fact is fact
            or (known.fact == fact and known.fact.confirmed_at == fact.confirmed_at)
        ):
            return known
        if not self._has_meaning:
            return KnownFact(fact, b"")
        from factmem.recall._documents import meaning_of, text_digest

        return KnownFact(fact, text_digest(meaning_of(fact, self.identity[3])))

    def to_embed(self, snapshot: PlaceSnapshot) -> tuple[AbstractSet[bytes], dict[bytes, str]]:
        """Return the digests of all texts of a snapshot, and the texts that lack a vector."""
        from factmem.recall._documents import meaning_of

        facts = snapshot.by_digest()
        missing = self.vectors.missing(facts.keys())
        return facts.keys(), {each: meaning_of(facts[each], self.identity[3]) for each in missing}


EMPTY = PlaceSnapshot(0, None, {}, {})
"""The snapshot of a place that has not been read yet."""

_MOST_FACTS = 200_000
"""The maximum number of facts in all indexes, and of messages, some kilobytes each. Beyond it, the
least recently used index is dropped when another set of places is searched."""
_MOST_INDEXES = 1_024
_PER_QUESTION = 200
"""The facts that are read and indexed in the time in which a store answers a question."""
_AT_ONCE = 2_000
"""The most facts that are indexed beside a question: 0.2 s."""
_THREADS = 4


class IndexCache:
    """The indexes of a memory and of all its views. Thread-safe; empty in a forked child."""

    def __init__(self) -> None:
        self.reset()
        _all.add(self)

    def reset(self) -> None:
        """Drop all indexes and locks. A forked child calls it, as an inherited lock may be held."""
        self._workers: PerLoop[CapacityLimiter] = PerLoop(lambda: CapacityLimiter(_THREADS))
        """The worker threads of each event loop."""
        self.writing: PerLoop[Lock] = PerLoop(Lock)
        """Held while an index is written. The store writes one at a time, and its deadline may be
        shorter than the write of another index."""
        self._lock = threading.Lock()
        self._indexes: OrderedDict[frozenset[Place], PlacesIndex] = OrderedDict()
        self._turns: OrderedDict[frozenset[Place], Any] = OrderedDict()
        self._places: weakref.WeakValueDictionary[Identity, PlaceCache] = (
            weakref.WeakValueDictionary()
        )

    async def work(self, work: Callable[[], R]) -> R:
        """Run a function that takes processor time in a worker thread."""
        return await to_thread.run_sync(work, limiter=self._workers.get())

    def of(self, places: Sequence[Place], *, has_meaning: bool) -> "PlacesIndex":
        """Return the index of a set of places; create an empty one if there is none."""

        def make() -> PlacesIndex:
            caches = {place.identity: self._place(place.identity, has_meaning) for place in places}
            return PlacesIndex(places, caches)

        return self._kept(self._indexes, places, make)

    def of_turns(self, places: Sequence[Place], make: Callable[[Sequence[Place]], R]) -> R:
        """Return the index of the conversations of a set of places.

        An empty one if there is none.
        """
        index: R = self._kept(self._turns, places, lambda: make(places))
        return index

    def _kept(
        self,
        indexes: OrderedDict[frozenset[Place], X],
        places: Sequence[Place],
        make: Callable[[], X],
    ) -> X:
        """Return an index; drop the least recently used beyond the limits before making one."""
        key = frozenset(places)
        with self._lock:
            index = indexes.get(key)
            if index is None:
                held = sum(map(len, indexes.values()))
                while len(indexes) > 1 and (held > _MOST_FACTS or len(indexes) > _MOST_INDEXES):
                    held -= len(indexes.popitem(last=False)[1])
                index = indexes[key] = make()
            indexes.move_to_end(key)
            return index

    def places(self) -> "list[tuple[Place, PlaceCache]]":
        """Return the places of all cached indexes, without duplicates, with their caches."""
        with self._lock:
            indexes = list(self._indexes.values())
        known = {
            identity: (place, index.caches[identity])
            for index in indexes
            for identity, place in index.places.items()
        }
        return list(known.values())

    def _place(self, identity: Identity, has_meaning: bool) -> "PlaceCache":
        cache = self._places.get(identity)
        if cache is None:
            cache = self._places[identity] = PlaceCache(identity, has_meaning=has_meaning)
        return cache


_all: "weakref.WeakSet[IndexCache]" = weakref.WeakSet()


def _start_in_child() -> None:
    for indexes in list(_all):
        indexes.reset()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_start_in_child)

Snapshots: TypeAlias = Mapping[Identity, PlaceSnapshot]
"""The snapshots of some places."""

Found: TypeAlias = tuple[list[list[Match]], list[UnreadableConcept]]
"""The matches of each query, and the unreadable concepts."""


class PlacesIndex:
    """An index over several places. Thread-safe."""

    def __init__(self, places: Iterable[Place], caches: Mapping[Identity, PlaceCache]) -> None:
        self.places: Mapping[Identity, Place] = {place.identity: place for place in places}
        self.caches = caches
        self.turn: PerLoop[Lock] = PerLoop(Lock)
        """Held by the searching task of an event loop, so that others wait without a thread."""
        self._lock = threading.Lock()
        from factmem.recall._fact_index import FactIndex

        self._index = FactIndex(self.places.values())
        self._together = seen_together(self.places.values())
        self._snapshots: dict[Identity, PlaceSnapshot] = dict.fromkeys(self.places, EMPTY)
        """The snapshot of each place that is indexed."""

    def __len__(self) -> int:
        return len(self._index)

    @property
    def is_complete(self) -> bool:
        """Whether all facts are indexed of the places as this process last read them."""
        return all(each.number for each in self._snapshots.values()) and self._index.is_complete

    def is_worth_reading(self, size: int, questions: int) -> bool:
        """Count questions that the store answered; return whether it is time to read the places.

        It is when answers about each of them have taken as long as reading and indexing will take.
        A part of places that were often asked together needs no questions of its own.

        Args:
            size: The number of facts in the places.
            questions: The number of new questions.
        """
        for cache in self.caches.values():
            cache.asked += questions
        asked = min(cache.asked for cache in self.caches.values())
        return asked * _PER_QUESTION >= max(size, _AT_ONCE)

    def read_on(self) -> None:
        """Index some facts of the latest snapshots, so that no question waits for all of them."""
        with self._lock:
            self._follow()
            self._index.index_words(_AT_ONCE)

    def search(
        self,
        snapshots: Snapshots,
        queries: Sequence[RecallQuery],
        now: datetime,
        vectors: "Sequence[array[float]] | None",
    ) -> Found:
        """Return the matches of each query, and the unreadable concepts.

        Call it in a worker thread, because it takes processor time. Concurrent calls are safe.
        The snapshots must not be older than the recall.
        """
        held = {identity: cache.vectors for identity, cache in self.caches.items()}
        asked: Sequence[QuestionVectors | None] = [None] * len(queries)
        if vectors is not None:
            asked = [QuestionVectors(vector, held) for vector in vectors]
        with self._lock:
            known = self._snapshots
            if any(known[each].number < new.number for each, new in snapshots.items()):
                self._follow()
            found = [
                self._index.search(query, now, near)
                for query, near in zip(queries, asked, strict=True)
            ]
            return found, self.unreadable(self._snapshots)

    def unreadable(self, snapshots: Snapshots) -> list[UnreadableConcept]:
        """Return the unreadable concepts of the places."""
        return [
            UnreadableConcept(place, keyword, error)
            for identity, place in self.places.items()
            for keyword, error in snapshots[identity].unreadable.items()
        ]

    def _follow(self) -> None:
        """Update the index to the latest snapshots."""
        before = self._snapshots
        self._snapshots = {identity: cache.snapshot for identity, cache in self.caches.items()}
        changed = {
            identity: snapshot.changed_since(before[identity])
            for identity, snapshot in self._snapshots.items()
        }
        places_of: dict[str, list[Identity]] = {}
        for identity, keywords in changed.items():
            for keyword in keywords:
                places_of.setdefault(keyword, []).append(identity)
        together = [each for each, places in places_of.items() if not self._is_alone(each, places)]
        resolved = dict.fromkeys(together)
        for identity, keywords in changed.items():
            for keyword in keywords:
                if keyword not in resolved:
                    self._take(identity, keyword, before[identity])
        self._resolve(resolved)

    def _is_alone(self, keyword: str, identities: Iterable[Identity]) -> bool:
        """Whether all facts of a keyword are current: no other place seen with them has it."""
        for identity in identities:
            first = next(iter(self._snapshots[identity].facts(keyword).values()), None)
            if first and first.fact.concept.fact_type is FactType.SINGLE:
                return False
            others = self._together[identity]
            if any(self._snapshots[other].knows(keyword) for other in others):
                return False
            if any(self._index.ids(other, keyword) for other in others):
                return False  # it had the keyword before, so facts hidden by it may be current now
        return True

    def _take(self, identity: Identity, keyword: str, before: PlaceSnapshot) -> None:
        """Index the changed facts of a place without resolving them against other places."""
        place, known = self.places[identity], before.facts(keyword)
        facts = self._snapshots[identity].facts(keyword)
        held = self._index.ids(identity, keyword)
        for each, entry in facts.items():
            if known.get(each) is not entry or each not in held:
                self._index.put(identity, PlacedFact(place, entry.fact), entry.digest)
        self._index.drop(identity, keyword, [each for each in held if each not in facts])

    def _resolve(self, keywords: Collection[str]) -> None:
        """Index the current facts of some keywords, resolved over all places."""
        found: list[PlacedFact[AnyFact]] = []
        kept: dict[tuple[Identity, str], set[str]] = {}
        for identity, place in self.places.items():
            snapshot = self._snapshots[identity]
            for keyword in keywords:
                known = snapshot.facts(keyword)
                if known or self._index.ids(identity, keyword):  # few places have a keyword
                    found += [PlacedFact(place, entry.fact) for entry in known.values()]
                    kept[identity, keyword] = set()
        unreadable = self.unreadable(self._snapshots)
        hiding = [each for each in unreadable if each.keyword in keywords]
        for placed in resolve_entities(found, hiding, self.places.values()):
            fact, identity = placed.fact, placed.place.identity
            known = self._snapshots[identity].facts(fact.concept.keyword)
            self._index.put(identity, placed, known[fact.id].digest)
            kept[identity, fact.concept.keyword].add(fact.id)
        for (identity, keyword), ids in kept.items():
            gone = [each for each in self._index.ids(identity, keyword) if each not in ids]
            self._index.drop(identity, keyword, gone)
