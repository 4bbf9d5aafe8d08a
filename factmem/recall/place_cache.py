"""What this process has seen of one place: its facts, and which of them changed when."""

import threading
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import anyio

from factmem.concurrency.per_loop import PerLoop
from factmem.errors import StoredFactError
from factmem.models.facts import AnyFact
from factmem.models.places import Identity
from factmem.providers.indexed import PlaceChanges
from factmem.recall.documents import meaning_of, text_digest
from factmem.recall.place_vectors import PlaceVectors

__all__ = ["PlaceDelta", "PlaceMirror", "PlaceState", "PlaceTexts"]


Facts: TypeAlias = Mapping[str, AnyFact]
"""The facts of one keyword by their ids, in their order in the place."""

Unreadable: TypeAlias = Mapping[str, StoredFactError]
"""Keywords whose values do not fit their type, and how."""

_MOST_READINGS = 256
"""Of how many readings it is known what they changed."""
_NO_FACTS: Facts = {}


@dataclass(frozen=True, slots=True)
class PlaceState:
    """What was known of a place at one time."""

    number: int
    """Grows with time, over all places: what has a greater one was read later."""
    version: str | None
    """What the store said before it was read."""
    has_facts: bool
    unreadable: Unreadable


@dataclass(frozen=True, slots=True)
class PlaceDelta:
    """What a place's readings have changed since one of them."""

    number: int
    """The latest of them."""
    changed: Mapping[str, Collection[str] | None]
    """By keyword the ids of the facts that came, went or changed; None where all may have."""
    is_whole: bool
    """Whether it is not known any more what changed: then `changed` has all keywords there are."""


@dataclass(frozen=True, slots=True)
class PlaceTexts:
    """The texts that stand for the facts of a place where meanings are compared."""

    number: int
    version: str | None
    facts: Mapping[bytes, AnyFact]
    """By the digest of its text a fact that has it."""

    def of(self, digests: Collection[bytes], entity: str | None) -> dict[bytes, str]:
        """Return the texts of which these are the digests."""
        return {digest: meaning_of(self.facts[digest], entity) for digest in digests}


class PlaceMirror:
    """One place as this process knows it; shared by all recalls that concern it. Safe for threads.

    Facts that did not change stay the same objects from one reading to the next.
    """

    def __init__(self, identity: Identity, *, has_meaning: bool = False) -> None:
        self.identity = identity
        self.vectors: PlaceVectors = PlaceVectors()
        self.loading: PerLoop[anyio.Lock] = PerLoop(anyio.Lock)
        """Held in each event loop by the one task that reads the place."""
        self.embedding: PerLoop[anyio.Lock] = PerLoop(anyio.Lock)
        """Held in each event loop by the one task that has its texts embedded."""
        self._has_meaning = has_meaning
        self._lock = threading.Lock()
        self._state = PlaceState(0, None, False, {})
        self._topics: dict[str, Facts] = {}
        """By keyword. The inner mappings are never changed: others take their place."""
        self._digests: dict[str, Mapping[str, bytes]] = {}
        """Of the facts' texts, by keyword and id; nothing where no meanings are compared."""
        self._readings: deque[tuple[int, Mapping[str, Collection[str] | None]]] = deque()
        self._known_since = 0

    @property
    def state(self) -> PlaceState:
        """What was read last."""
        return self._state

    def take(
        self, number: int, version: str | None, facts: Iterable[AnyFact], unreadable: Unreadable
    ) -> PlaceState:
        """Take in all of a place, unless somebody began to read later; return what holds."""
        with self._lock:
            state = self._state
            if number <= state.number:
                return state
            read: dict[str, dict[str, AnyFact]] = {}
            for fact in facts:
                read.setdefault(fact.concept.keyword, {})[fact.id] = fact
            topics: dict[str, Facts] = {
                keyword: {} for keyword in self._topics if keyword not in read
            }
            for keyword, new in read.items():
                known = self._topics.get(keyword, _NO_FACTS)
                kept = {each: _same(known.get(each), fact) for each, fact in new.items()}
                if list(known) != list(kept) or any(known[each] is not kept[each] for each in kept):
                    topics[keyword] = kept
            changed = topics.keys() | (state.unreadable.keys() ^ unreadable.keys())
            if changed or version is None or version != state.version:
                self._hold(number, version, topics, unreadable, dict.fromkeys(changed))
            return self._state

    def follow(self, number: int, since: str, changes: PlaceChanges) -> PlaceState | None:
        """Take in what has changed since a version; None where it does not fit what is known.

        Then all of the place is to be read.
        """
        with self._lock:
            state = self._state
            if number <= state.number:
                return state
            if since != state.version or not state.unreadable.keys().isdisjoint(changes.facts):
                return None
            topics: dict[str, Facts] = {}
            changed: dict[str, Collection[str]] = {}
            for keyword, found in changes.facts.items():
                known = self._topics.get(keyword, _NO_FACTS)
                new = {fact.id: fact for fact in found if not isinstance(fact, str)}
                ids = [each if isinstance(each, str) else each.id for each in found]
                if not all(each in new or each in known for each in ids):
                    return None
                topics[keyword] = {each: new[each] if each in new else known[each] for each in ids}
                changed[keyword] = new.keys() | (known.keys() - topics[keyword].keys())
            self._hold(number, changes.version, topics, state.unreadable, changed)
            return self._state

    def _hold(
        self,
        number: int,
        version: str | None,
        topics: Mapping[str, Facts],
        unreadable: Unreadable,
        changed: Mapping[str, Collection[str] | None],
    ) -> None:
        """Put these facts in the place of those that were under their keywords."""
        for keyword, facts in topics.items():
            if self._has_meaning:
                self._digests[keyword] = self._digested(keyword, facts)
            self._topics[keyword] = facts
            if not facts:
                del self._topics[keyword]
                self._digests.pop(keyword, None)
        self._state = PlaceState(number, version, bool(self._topics), unreadable)
        self._readings.append((number, changed))
        if len(self._readings) > _MOST_READINGS:
            self._known_since, _ = self._readings.popleft()

    def _digested(self, keyword: str, facts: Facts) -> Mapping[str, bytes]:
        """Return the digests of facts; those of facts that are known are not computed anew."""
        known, digests = self._topics.get(keyword, _NO_FACTS), self._digests.get(keyword, {})
        entity = self.identity[3]
        return {
            each: digests[each]
            if known.get(each) is fact
            else text_digest(meaning_of(fact, entity))
            for each, fact in facts.items()
        }

    def since(self, number: int) -> PlaceDelta:
        """Return what the readings after one of them have changed; after 0, all there is."""
        with self._lock:
            latest = self._state.number
            if number < self._known_since or not number:
                return PlaceDelta(latest, dict.fromkeys(self._topics), is_whole=True)
            changed: dict[str, Collection[str] | None] = {}
            for reading, touched in reversed(self._readings):
                if reading <= number:
                    break
                for keyword, ids in touched.items():
                    others = changed.get(keyword, ())
                    changed[keyword] = None if ids is None or others is None else {*ids, *others}
            return PlaceDelta(latest, changed, is_whole=False)

    def facts(self, keyword: str) -> Facts:
        """Return what is known under a keyword."""
        return self._topics.get(keyword, _NO_FACTS)

    def digests(self, keyword: str) -> Mapping[str, bytes]:
        """Return the digests of the texts of a keyword's facts, by their ids."""
        return self._digests.get(keyword, {})

    def knows(self, keyword: str) -> bool:
        """Whether the place has anything under a keyword, readable or not."""
        return keyword in self._topics or keyword in self._state.unreadable

    def texts(self) -> PlaceTexts:
        """Return all texts that meanings are compared with."""
        with self._lock:
            facts = {
                digest: self._topics[keyword][each]
                for keyword, digests in self._digests.items()
                for each, digest in digests.items()
            }
            return PlaceTexts(self._state.number, self._state.version, facts)


def _same(known: AnyFact | None, fact: AnyFact) -> AnyFact:
    """Return what is known, where it says the same as what was read."""
    if known is not None and known == fact and known.confirmed_at == fact.confirmed_at:
        return known
    return fact
