"""Watching of places: the changes of a store as they are recorded, by any process."""

import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

import anyio

from factmem.ledger.entries import Entry
from factmem.ledger.history import ChangeReader, FactChange
from factmem.models._checked import checked_concepts, checked_places
from factmem.models.facts import AnyConcept
from factmem.models.places import MemoryScope, MemorySubject, Place
from factmem.models.when import stamp, utc

_PAUSE = 0.02
"""Seconds between two looks. One at a warm place of a local store takes some microseconds."""
_PAUSE_BLIND = 1.0
"""Seconds between two looks at a store without versions, which read the whole place."""
_SHARE = 0.5
"""A pause is at least this many times as long as the look before it."""


class Watchable(Protocol):
    """The part of a `FactStore` that watching needs."""

    async def version(self, subject: MemorySubject, scope: MemoryScope) -> str | None:
        """See `FactStore.version`."""
        ...

    async def entries(self, subject: MemorySubject, scope: MemoryScope) -> list[Entry]:
        """See `FactStore.entries`."""
        ...


async def watched(
    store: Watchable,
    places: Iterable[Place],
    *,
    since: datetime | None,
    concepts: Iterable[AnyConcept],
) -> AsyncGenerator[FactChange]:
    """Yield the changes of places; see `FactStore.watch`."""
    named = {word: each for each in checked_concepts(concepts) for word in each.keywords}
    first = None if since is None else stamp(utc(since, "moment since"))
    followed = [_Followed(place, named, first) for place in checked_places(places)]
    is_blind = False
    while True:
        began, new = time.perf_counter(), list[FactChange]()
        for each in followed:
            version = await store.version(each.place.subject, each.place.scope)
            is_blind = version is None
            if is_blind or version != each.version:
                entries = await store.entries(each.place.subject, each.place.scope)
                new += each.new_of(entries)
                each.version = version
        spent = time.perf_counter() - began
        # Over all places, so that `since` of any of them misses no earlier one of another.
        for change in sorted(new, key=lambda change: change.at):
            yield change
        await anyio.sleep(max(_PAUSE_BLIND if is_blind else _PAUSE, spent * _SHARE))


class _Followed:
    """A place, and how far it was read."""

    def __init__(self, place: Place, concepts: Mapping[str, AnyConcept], since: str | None) -> None:
        self.place = place
        self.version: str | None = ""
        self._concepts = concepts
        self._since = since
        """From when on changes are new at the first look; None for none of them."""
        self._seen: set[str] | None = None
        """The changes that are known: an import brings some with earlier times."""
        self._reader = ChangeReader(place, concepts)
        self._count = 0
        self._last: Entry | None = None

    def new_of(self, entries: Sequence[Entry]) -> list[FactChange]:
        """Return the changes that are not known yet, in the order of their times."""
        read = (self._reader.read(entry, since="") for entry in self._unread(entries))
        found = [each for each in read if each is not None]
        if self._seen is None:
            new = [each for each in found if self._since and stamp(each.at) >= self._since]
        else:
            new = [each for each in found if each.id not in self._seen]
        self._seen = (self._seen or set()) | {each.id for each in found}
        return new

    def _unread(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return the entries to read: all of them, if history was removed from the place."""
        count, last = self._count, self._last
        self._count, self._last = len(entries), entries[-1] if entries else None
        if count and len(entries) >= count and entries[count - 1] == last:
            return entries[count:]
        self._reader = ChangeReader(self.place, self._concepts)
        return entries
