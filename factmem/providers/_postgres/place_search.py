"""The choice of places to search in the database, and the update of their rows before a search.

A save writes no rows, because it does not know what it replaces. Before a search, the entries since
the last search show which keywords may have changed, and the rows of their facts are written.
"""

import random
import time
from collections.abc import Iterable, Sequence
from itertools import islice
from math import inf
from typing import NamedTuple

from factmem.errors import StoreBusyError
from factmem.models.facts import AnyFact
from factmem.models.places import Identity
from factmem.providers._backend import StoreClock
from factmem.providers._postgres import search_statements as sql
from factmem.providers._postgres.database import asking
from factmem.providers._postgres.item_tables import add_items, drop_vectors, remove_items
from factmem.providers._postgres.items import (
    hashed,
    message_of,
)
from factmem.providers._postgres.search_states import SearchedPlace, read_places
from factmem.providers._postgres.session import PostgresSession, numbers
from factmem.providers._sql.items import StoredItem, current_facts, keywords_in
from factmem.providers._sql.places import UNKNOWN, PlaceReader, Position, micros
from factmem.providers._sql.sealing import NO_TAG
from factmem.providers._sql.stored_places import StoredPlaces
from factmem.providers._sql.writing import PlaceRewriter
from factmem.providers.results import Describe

_SMALLEST_FACT = 100
"""The minimum size of a fact in a line with many facts."""

_MOST_NEW = 1000
"""The number of new entries that are read one by one. With more, all rows are compared."""

_ROWS = 500
"""The rows of one statement."""

_ATTEMPTS = 20

_MOST_KNOWN = 10_000
"""The number of places remembered as large."""

_NEAR, _AROUND = 2, 4
"""The distances of messages whose facts are found by each other's words, and by words of both."""


class _Changes(NamedTuple):
    """The changes of a place's rows."""

    gone: list[int]
    """The rows to delete."""
    new: list[tuple[StoredItem, AnyFact]]
    """The facts to insert."""
    beside: list[AnyFact]
    """Neighbours that do not change, for the documents of the others."""
    begins_at: int | None = None
    """When the next planned value begins, in microseconds."""


class PlaceSearch:
    """Keeps the rows of searched places current. All methods block and are thread-safe.

    Args:
        places: The places of a store.
        clock: The clock of the store.
        search_from: The number of facts from which on a place is searched in the database.
    """

    def __init__(self, places: StoredPlaces, clock: StoreClock, search_from: int) -> None:
        self._places = places
        self._clock = clock
        self._from = search_from
        self._large: set[Identity] = set()
        """Places that were large when they were last checked."""

    def are_large(self, identities: Iterable[Identity]) -> bool:
        """Whether one of the places is known to be large; does not block."""
        return not self._large.isdisjoint(identities)

    def are_small(self, identities: Iterable[Identity]) -> bool:
        """Whether all places are known to be small; does not block."""
        return all(map(self._is_small, identities))

    def is_searched(self, identities: Sequence[Identity]) -> bool:
        """Return whether one of the places is large; then all of them are searched here."""
        large = {place.identity for place in self._read(identities) if self._is_large(place)}
        if len(self._large) > _MOST_KNOWN:
            self._large.clear()
        self._large |= large
        return bool(large)

    def _is_small(self, identity: Identity) -> bool:
        view = self._places.known(identity)
        return view is not None and view.is_warm and len(view) < self._from

    def _is_large(self, place: SearchedPlace) -> bool:
        if place.facts >= self._from or self._from == 0:
            return True
        if place.is_current or place.bytes < self._from * _SMALLEST_FACT:
            return False
        self._places.view(place.identity)  # a recall in memory would also read it now
        return not self._is_small(place.identity)

    def _read(self, identities: Sequence[Identity]) -> list[SearchedPlace]:
        def read(session: PostgresSession, _: int) -> list[SearchedPlace]:
            reader = self._places.reading(session)
            if reader is None:
                return []
            return read_places(session, reader, identities, micros(self._clock.now()))

        return self._places.run(asking(read))

    def bring_up(self, identity: Identity, describe: Describe) -> None:
        """Update the rows of a place; other processes may do the same at this moment."""
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(random.uniform(0.02, 0.05) * attempt)  # noqa: S311
            places = self._read([identity])
            if all(place.is_current or self._is_updated(place, describe) for place in places):
                return
        raise StoreBusyError(
            "Other processes changed a place during each update of its search: nothing was written. "
            "Repeat the recall"
        )

    def _is_updated(self, place: SearchedPlace, describe: Describe) -> bool:
        """Update the rows of a place; return False if the place was changed meanwhile."""
        keywords = self._places.run(asking(lambda session, _: self._changed(session, place)))
        view = self._places.view(place.identity)
        with view.lock:
            ledger = view.ledger
            now = self._places.now(ledger)
            keywords = None if keywords is None else keywords | ledger.begun(now)
            begins_at = ledger.next_begin(now)
            wanted = ledger.state().by_keyword if keywords is None else keywords
            current = [each for keyword in wanted for each in current_facts(ledger, keyword, now)]

        def write(session: PostgresSession, _: int) -> bool:
            reader, deadline = self._places.reading(session), session.deadline
            if reader is None or not (place.search or self._made(session, reader, place)):
                return False
            try:
                with session.transaction():
                    # What was read above is valid only if place and rows have not changed since.
                    search = self._locked(session, place)
                    if not search:
                        return False
                    session.deadline = inf  # 15 s for 100,000 facts
                    changes = self._changes(session, place, keywords, current)
                    changes = changes._replace(begins_at=micros(begins_at) if begins_at else None)
                    self._write(session, reader, place._replace(search=search), changes, describe)
            finally:
                session.deadline = deadline
            return True

        return self._places.run(asking(write))

    def _changed(self, session: PostgresSession, place: SearchedPlace) -> set[str] | None:
        """Return the keywords that changed since the last search; None for all of the place."""
        reader, extent = self._places.reading(session), place.extent
        if reader is None or not place.number or extent.last - place.number > _MOST_NEW:
            return None
        known = Position(extent._replace(last=place.number), place.number, NO_TAG, 0, UNKNOWN)
        answer = reader.read(session, {place.identity: known}).get(place.identity)
        if answer is None or answer.is_from_start or answer.position.extent.last < extent.last:
            return None
        due = session.rows(sql.READ_DUE, [place.key, micros(self._clock.now())])
        return keywords_in(answer.entries) | {StoredItem.load(fact).keyword for (fact,) in due}

    def _made(self, session: PostgresSession, reader: PlaceReader, place: SearchedPlace) -> bool:
        """Create the search of a place; from then on a purge waits for updates of its rows."""
        with session.transaction():
            locked = PlaceRewriter(reader, self._places.opening).lock(session, place.key)
            if locked is None or locked.extent.made != place.extent.made:
                return False
            session.rows(sql.MAKE_SEARCH, [place.key, reader.store.number, place.extent.made])
        return True

    def _locked(self, session: PostgresSession, place: SearchedPlace) -> int:
        """Lock the search of a place; return its number, or 0 if it is not as it was read."""
        session.rows(sql.WAIT_LONG)
        rows = session.rows(sql.LOCK_SEARCH, [place.key])
        extent = session.rows(sql.READ_EXTENT, [place.key])
        is_same = rows and extent and tuple(extent[0]) == place.extent[:2]
        return rows[0][0] if is_same and rows[0][1] == place.number else 0

    def _changes(
        self,
        session: PostgresSession,
        place: SearchedPlace,
        keywords: Iterable[str] | None,
        current: Sequence[StoredItem],
    ) -> _Changes:
        """Return the differences between rows and current facts, with those of neighbours."""
        condition, given = "", list[object]()
        if keywords is not None:
            condition, given = sql.OF_TOPICS, [numbers(map(hashed, keywords))]
        rows = session.rows(sql.LIST_ROWS + condition, [place.key, *given])
        known, kept = {row[1].hex for row in rows}, {each.digest for each in current}
        new = [(each, each.fact()) for each in current if each.digest not in known]
        gone = [row for row in rows if row[1].hex not in kept]
        changes = _Changes([row[0] for row in gone], new, [])
        messages = {message_of(fact) or (None, -1) for _, fact in new}
        messages |= {(row[2], row[3]) for row in gone}
        spots = [(chat, message) for chat, message in messages if chat is not None and message >= 0]
        if spots and place.facts:
            self._add_neighbours(session, place.key, spots, changes)
        return changes

    def _add_neighbours(
        self,
        session: PostgresSession,
        key: bytes,
        spots: Sequence[tuple[int, int]],
        changes: _Changes,
    ) -> None:
        """Add the neighbours of changed messages in the same conversations."""
        columns = [numbers(column) for column in zip(*spots, strict=True)]
        skipped = set(changes.gone)
        near = {
            (chat, message + step) for chat, message in spots for step in range(-_NEAR, _NEAR + 1)
        }
        rows = session.rows(sql.READ_AROUND, [*columns, key, _AROUND, _AROUND])
        for item, chat, message, stored in rows:
            if item not in skipped:
                neighbour = StoredItem.load(stored)
                if (chat, message) in near:
                    changes.gone.append(item)
                    changes.new.append((neighbour, neighbour.fact()))
                else:
                    changes.beside.append(neighbour.fact())

    def _write(
        self,
        session: PostgresSession,
        reader: PlaceReader,
        place: SearchedPlace,
        changes: _Changes,
        describe: Describe,
    ) -> None:
        key, texts = place.key, "{}"
        if changes.gone:
            texts = remove_items(session, key, sql.BY_ITEM, [numbers(changes.gone)])
        facts = [*(fact for _, fact in changes.new), *changes.beside]
        documents = zip(changes.new, describe(facts, place.identity[3]), strict=False)
        rows = ((*item, document) for item, document in documents)
        while part := list(islice(rows, _ROWS)):
            add_items(session, (key, reader.store.number), place.search, part)
        drop_vectors(session, key, texts)  # a changed neighbour keeps its text and its vector
        session.rows(sql.SET_NUMBER, [place.extent.last, changes.begins_at, key])
