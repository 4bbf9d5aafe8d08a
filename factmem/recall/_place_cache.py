"""PlaceCache: the facts of one place as this process last read them, and their vectors."""

import threading
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import count
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import anyio

from factmem._concurrency.per_loop import PerLoop
from factmem.errors import StoredFactError
from factmem.models.facts import AnyFact
from factmem.models.places import Identity
from factmem.providers.results import PlaceChanges
from factmem.recall._documents import meaning_of, text_digest
from factmem.recall._place_vectors import PlaceVectors


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
        return KnownFact(fact, text_digest(meaning_of(fact, self.identity[3])))

    def to_embed(self, snapshot: PlaceSnapshot) -> tuple[AbstractSet[bytes], dict[bytes, str]]:
        """Return the digests of all texts of a snapshot, and the texts that lack a vector."""
        facts = snapshot.by_digest()
        missing = self.vectors.missing(facts.keys())
        return facts.keys(), {each: meaning_of(facts[each], self.identity[3]) for each in missing}


EMPTY = PlaceSnapshot(0, None, {}, {})
"""The snapshot of a place that has not been read yet."""
