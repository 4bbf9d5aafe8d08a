"""Recent: which values of a store wait for a person, and which places changed last.

The store is read once, place by place, and then only what changed. Of each place a few numbers are
kept, and for each waiting value its id: no values.
"""

import time
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zlib import crc32

import anyio
from anyio.to_thread import run_sync

from factmem._cli.place_names import place_name
from factmem._cli.readings import Reading
from factmem._cli.records import value_words
from factmem.errors import FactmemError
from factmem.models.clock import moment
from factmem.models.places import Identity, Place
from factmem.providers.base import FactStore
from factmem.recall._lexical.analysis import words

_IDLE, _IDLE_UNKNOWN = 2.0, 30.0
"""The least seconds between two looks at a store, and at one that has to be read to notice changes. A
look that takes longer is rarer."""
_SHARE = 10
_MOST_NEW = 20
"""The new values that are kept of a place, its newest; the next follow when these are decided."""
_MOST_SEARCHED = 5
"""The places that a search of the whole store reads."""


_ORDER = ("contradiction", "proposed", "doubtful", "new")


class Waiting(NamedTuple):
    """A value that waits for a person."""

    kind: str
    at: datetime | None
    place: Place
    fact_id: str
    position: int


@dataclass(slots=True)
class _Known:
    mark: tuple[int, str]
    place: Place
    waiting: list[Waiting]
    more: int
    """The number of further new values."""
    actors: frozenset[str]
    terms: "array[int]"
    """Hashes of the words of its values."""


class Recent:
    """What waits for review in a store, and who changed last.

    Args:
        store: The store.
        days: For how many days a value is new.
        stamp: Returns a number that changes with the store; None if that is unknown.
    """

    def __init__(
        self, store: FactStore, *, days: int, stamp: Callable[[], int | None] = lambda: None
    ) -> None:
        self._store, self._span, self._stamp = store, timedelta(days=days), stamp
        self._known: dict[Identity, _Known] = {}
        self._sorted: list[Waiting] | None = None
        self.version = 0
        """A number that changes with what waits."""
        self.is_complete = False
        """Whether the whole store was read."""
        self.unreadable = 0
        """The number of places that could not be read."""

    async def follow(self) -> None:
        """Read the store, and again what changed, until cancelled."""
        read: int | None = None
        while True:
            was_complete, began, now = self.is_complete, time.monotonic(), self._stamp()
            if now is None or now != read:
                with suppress(FactmemError, OSError):  # pages report the errors of their own reads
                    await self.refresh()
                    read = now
            took = time.monotonic() - began
            idle = _IDLE if now is not None else _IDLE_UNKNOWN
            await anyio.sleep(max(idle, _SHARE * took if was_complete else 0))

    async def refresh(self) -> None:
        """Read the places that changed."""
        places, failed = await self._store.list_places(), 0
        for place in places:
            try:
                await self.reread(place)
            except FactmemError:  # one damaged place hides no other; its own page reports the error
                failed += 1
                self._drop(place.identity)
        self.unreadable = failed
        gone = self._known.keys() - {place.identity for place in places}
        for identity in gone:
            self._drop(identity)
        self.is_complete = True

    async def reread(self, place: Place) -> None:
        """Read a place if it changed."""
        entries = await self._store.entries(place.subject, place.scope)
        if not entries:  # erased
            self._drop(place.identity)
            return
        mark = (len(entries), entries[-1]["at"])
        known = self._known.get(place.identity)
        if known is None or known.mark != mark:
            reading, since = Reading(place, entries), datetime.now(UTC) - self._span
            self._known[place.identity] = await run_sync(_known, reading, mark, since)
            self._note()

    def waiting(self, place: Place | None = None, kind: str | None = None) -> Sequence[Waiting]:
        """Return the values that wait: contradictions, proposals, doubtful and new ones."""
        if self._sorted is None:
            found = [each for known in self._known.values() for each in known.waiting]
            found.sort(key=_at, reverse=True)
            self._sorted = sorted(found, key=lambda each: _ORDER.index(each.kind))
        since = datetime.now(UTC) - self._span
        return [
            each
            for each in self._sorted
            if kind in (None, each.kind)
            and (place is None or each.place.identity == place.identity)
            and (each.kind != "new" or each.at is None or each.at >= since)
        ]

    def count(self, place: Place | None = None) -> int:
        """Return how many values wait."""
        known = [*self._known.values()] if place is None else [self._known.get(place.identity)]
        more = sum(each.more for each in known if each is not None)
        return len(self.waiting(place)) + more

    def _drop(self, identity: Identity) -> None:
        if self._known.pop(identity, None) is not None:
            self._note()

    def _note(self) -> None:
        self._sorted = None
        self.version += 1

    def changed_last(self, actor: str | None = None) -> list[tuple[str, Place]]:
        """Return the places, or those that an actor changed, with the time of their last change.

        The place that changed last is the first.
        """
        known = [each for each in self._known.values() if actor is None or actor in each.actors]
        found = [(each.mark[1], each.place) for each in known]
        return sorted(found, key=lambda each: each[0], reverse=True)

    def places(self, containing: str = "") -> list[tuple[Place, datetime]]:
        """Return the places whose name contains a string, by name, with their last change."""
        wanted = containing.casefold()
        named = [(place_name(known.place).casefold(), known) for known in self._known.values()]
        found = sorted((each for each in named if wanted in each[0]), key=lambda each: each[0])
        return [(known.place, moment(known.mark[1])) for _, known in found]

    def matching(self, question: str) -> list[Place]:
        """Return the places with most of a question's words, rare words counting more; few are all."""
        if len(self._known) <= _MOST_SEARCHED:
            return [known.place for known in self._known.values()]
        asked = {crc32(term.encode()) for word in words(question) for term in word}
        held = {known.place: asked.intersection(known.terms) for known in self._known.values()}
        counts = {term: sum(term in terms for terms in held.values()) for term in asked}
        scored = [(sum(1 / counts[t] for t in terms), place) for place, terms in held.items()]
        best = sorted((each for each in scored if each[0]), key=lambda each: -each[0])
        return [place for _, place in best[:_MOST_SEARCHED]]


def _known(reading: Reading, mark: tuple[int, str], since: datetime) -> _Known:
    rows = reading.rows
    waiting = [
        Waiting(row.item.kind, row.item.at, row.place, row.fact.id, row.position)
        for row in reading.waiting(since)
        if row.item is not None
    ]
    new = [each for each in waiting if each.kind == "new"]
    new.sort(key=_at, reverse=True)
    waiting = [each for each in waiting if each.kind != "new"] + new[:_MOST_NEW]
    more = len(new[_MOST_NEW:])
    text = "\n".join(f"{row.fact.concept.keyword} {value_words([row.value])}" for row in rows)
    terms = {crc32(term.encode()) for word in words(text) for term in word}
    actors = frozenset(entry["actor"] for entry in reading.entries if "actor" in entry)
    return _Known(mark, reading.place, waiting, more, actors, array("I", terms))


def _at(each: Waiting) -> float:
    return each.at.timestamp() if each.at else 0.0
