"""The choice of places to search in the database, and the update of their rows before a search.

A save writes no rows, because it does not know what it replaces. Before a search, the entries since
the last search show which facts may have changed, and the rows of these facts are written. A purge
and an erasure delete rows in their own transaction.
"""

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from factmem.errors import StoreBusyError
from factmem.ledger.ledger import Ledger
from factmem.models.places import Identity
from factmem.providers._clock import StoreClock
from factmem.providers._postgres import search_statements as sql
from factmem.providers._postgres.driver import Session
from factmem.providers._postgres.item_tables import add_items, remove_items
from factmem.providers._postgres.items import (
    Found,
    StoredItem,
    Touched,
    found_facts,
    hashed,
    touched_by,
)
from factmem.providers._postgres.search_states import SearchState, read_states
from factmem.providers._postgres.session import numbers
from factmem.providers._sql.lines import micros
from factmem.providers._sql.places import UNKNOWN, PlaceReader, Position
from factmem.providers._sql.rewriting import PlaceRewriter
from factmem.providers._sql.sealing import NO_TAG
from factmem.providers._sql.stored_places import StoredPlaces
from factmem.providers.searched import Describe, SearchDocument

_SMALLEST_FACT = 100
"""The minimum size of a fact in a line with many facts."""

_MOST_NEW = 1000
"""The number of new entries that are read one by one. With more, all rows are compared."""

_MOST_SEARCHED = 8
"""The number of keywords that are searched in a place outside memory. With more, it is read."""

_ROWS = 500
"""The rows of one transaction, which blocks saves to the place."""

_ATTEMPTS = 20

_MOST_KNOWN = 10_000
"""The number of places remembered as large."""

_NEAR, _AROUND = 2, 4
"""The distances of messages whose facts are found by each other's words, and by words of both."""


class _Plan(NamedTuple):
    """Current facts to compare with their rows."""

    state: SearchState
    found: Sequence[Found]
    whole: Sequence[int] | None
    """The keywords whose current facts are all here; None for the whole place."""
    keys: Sequence[int]
    """The numbers of facts with other keywords."""


class _Changes(NamedTuple):
    """The changes of a place's rows."""

    gone: Sequence[int]
    """The rows to delete."""
    found: Sequence[Found]
    """The facts to insert."""
    beside: Sequence[Found]
    """Neighbours that do not change, for the documents of the others."""


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
        states = self._places.run(lambda session, _: self._states(session, identities))
        large = {each for each, state in states.items() if self._is_large(each, state)}
        if len(self._large) > _MOST_KNOWN:
            self._large.clear()
        self._large |= large
        return bool(large)

    def note(self, identities: Iterable[Identity], states: Mapping[Identity, SearchState]) -> None:
        """Forget places that are not large any more, or were erased."""
        for identity in identities:
            state = states.get(identity)
            if state is None or (state.is_current and state.facts < self._from):
                self._large.discard(identity)

    def _is_small(self, identity: Identity) -> bool:
        view = self._places.known(identity)
        return view is not None and view.is_warm and len(view) < self._from

    def _is_large(self, identity: Identity, state: SearchState) -> bool:
        if state.facts >= self._from or self._from == 0:
            return True
        if state.is_current or state.bytes < self._from * _SMALLEST_FACT:
            return False
        self._places.view(identity)  # a recall in memory would also read it now
        return not self._is_small(identity)

    def _states(
        self, session: Session, identities: Iterable[Identity]
    ) -> dict[Identity, SearchState]:
        reader = self._places.reading(session)
        if reader is None:
            return {}
        return read_states(session, reader, identities, micros(self._clock.now()))

    def bring_up(self, identity: Identity, describe: Describe) -> None:
        """Update the rows of a place; other processes may do the same at this moment."""
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(random.uniform(0.02, 0.05) * attempt)  # noqa: S311
            plan = self._planned(identity)
            if plan is None or self._written(identity, plan, describe):
                return
        raise StoreBusyError(
            "Other processes wrote to a place during each update of its search: nothing was written. "
            "Repeat the recall"
        )

    # Current facts

    def _planned(self, identity: Identity) -> _Plan | None:
        """Return the facts that may differ from their rows; None if the rows are current."""

        def plan(
            session: Session, _: int
        ) -> "_Plan | tuple[SearchState, dict[str, Touched]] | None":
            reader = self._places.reading(session)
            state = self._states(session, [identity]).get(identity)
            if reader is None or state is None or state.is_current:
                return None
            if state.search is None or not state.number:
                return state, {}
            touched = self._touched(session, reader, identity, state)
            if touched is None:
                return state, {}
            view = self._places.known(identity)
            if (view is not None and view.is_warm) or len(touched) > _MOST_SEARCHED:
                return state, touched
            ledgers: dict[str, Ledger] = {}
            for keyword in touched:
                ledger = reader.searched(session, identity, keyword)
                if ledger is None:
                    return state, touched
                ledgers[keyword] = ledger
            return self._plan(state, touched, ledgers)

        found = self._places.run(plan)
        if found is None or isinstance(found, _Plan):
            return found
        state, touched = found
        view = self._places.view(identity)
        with view.lock:
            ledger = view.ledger
            if touched:
                return self._plan(state, touched, dict.fromkeys(touched, ledger))
            now = self._places.now(ledger)
            facts = [
                each
                for keyword in ledger.state().by_keyword
                for each in found_facts(ledger, keyword, now)
            ]
        return _Plan(state, facts, None, ())

    def _touched(
        self, session: Session, reader: PlaceReader, identity: Identity, state: SearchState
    ) -> dict[str, Touched] | None:
        """Return the changes since the last search; None if they are too many or unknown."""
        extent = state.extent
        if extent.last - state.number > _MOST_NEW:
            return None
        known = Position(extent._replace(last=state.number), state.number, NO_TAG, 0, UNKNOWN)
        answer = reader.read(session, {identity: known}).get(identity)
        if answer is None or answer.is_from_start or answer.position.extent.last < extent.last:
            return None
        touched = touched_by(answer.entries)
        key = reader.key(identity).hex()
        for (stored,) in session.rows(sql.READ_DUE, [key, micros(self._clock.now())]):
            item = StoredItem.load(stored)
            touched.setdefault(item.keyword, Touched()).ids.add(item.items[0].fact_id)
        for keyword, each in touched.items():
            rows = session.rows(sql.READ_TOPIC, [key, hashed(keyword)])
            each.before = StoredItem.load(rows[0][0]).about if rows else None
        return touched

    def _plan(
        self, state: SearchState, touched: Mapping[str, Touched], ledgers: Mapping[str, Ledger]
    ) -> _Plan:
        found: list[Found] = []
        whole: list[int] = []
        named: list[int] = []
        for keyword, each in touched.items():
            ledger = ledgers[keyword]
            topic = ledger.state().by_keyword.get(keyword)
            about = None if topic is None else (topic.description, topic.fact_type)
            is_whole = each.is_whole or about != each.before
            now = self._places.now(ledger)
            facts = found_facts(ledger, keyword, now, None if is_whole else each)
            found += facts
            if is_whole:
                whole.append(hashed(keyword))
            else:
                named += each.keys(keyword)
                named += [fact.key for fact in facts]
        return _Plan(state, found, whole, named)

    # Writing rows

    def _written(self, identity: Identity, plan: _Plan, describe: Describe) -> bool:
        """Write changed rows; return False if another process wrote meanwhile."""
        state = self._places.run(lambda session, _: self._made(session, identity, plan.state))
        if state is None:
            return False
        changes = self._places.run(lambda session, _: self._changes(session, identity, plan))
        facts = [each.fact for each in (*changes.found, *changes.beside)]
        described = zip(changes.found, describe(facts, identity[3]), strict=False)
        gone = changes.gone
        while True:
            part = list(islice(described, _ROWS))
            is_last = len(part) < _ROWS
            if not self._write(identity, state, gone, part, is_last=is_last):
                return False
            if is_last:
                return True
            state, gone = state._replace(turn=state.turn + 1), ()

    def _made(self, session: Session, identity: Identity, state: SearchState) -> SearchState | None:
        """Return the state with the number of the search, and create the search if necessary."""
        reader = self._places.reading(session)
        if state.search is not None or reader is None:
            return state
        with session.transaction():
            locked = self._writer(reader).lock(session, reader.key(identity))
            if locked is None or locked.extent.made != state.extent.made:
                return None
            given = [reader.key(identity).hex(), reader.store.number, state.extent.made]
            session.rows(sql.MAKE_SEARCH, given)
        made = self._states(session, [identity]).get(identity)
        is_same = made is not None and made.search is not None and not made.number
        return state._replace(search=made.search, turn=made.turn) if made and is_same else None

    def _writer(self, reader: PlaceReader) -> PlaceRewriter:
        return PlaceRewriter(reader, self._places.opening)

    def _changes(self, session: Session, identity: Identity, plan: _Plan) -> _Changes:
        """Return the differences between rows and current facts."""
        reader = self._places.reading(session)
        if reader is None:
            return _Changes((), (), ())
        key = reader.key(identity).hex()
        if plan.whole is None:
            rows = session.rows(sql.LIST_ALL_ROWS, [key])
        else:
            rows = session.rows(sql.LIST_ROWS, [key, numbers(plan.whole), numbers(plan.keys)])
        known = {row[1]: row[2].hex for row in rows}
        current = {each.key: each.digest for each in plan.found}
        changed = [each for each in plan.found if known.get(each.key) != current[each.key]]
        gone = [row for row in rows if current.get(row[1]) != row[2].hex]
        messages = {(row[3], row[4]) for row in gone if row[3] is not None}
        messages |= {each.message for each in changed if each.message is not None}
        spots = [spot for spot in messages if spot[1] >= 0]
        if not spots or not plan.state.facts:
            return _Changes([row[0] for row in gone], changed, ())
        return self._with_neighbours(session, key, spots, [row[0] for row in gone], changed)

    def _with_neighbours(
        self,
        session: Session,
        key: str,
        spots: Sequence[tuple[int, int]],
        gone: list[int],
        changed: list[Found],
    ) -> _Changes:
        """Return changes, with those of neighbouring messages in the same conversations."""
        columns = [numbers(column) for column in zip(*spots, strict=True)]
        skipped, beside = set(gone), list[Found]()
        near = {
            (conversation, message + step)
            for conversation, message in spots
            for step in range(-_NEAR, _NEAR + 1)
        }
        for item, _, message, conversation, stored in session.rows(
            sql.READ_AROUND, [*columns, key, _AROUND, _AROUND]
        ):
            if item in skipped:
                continue
            found = StoredItem.load(stored).found(stored)
            if (conversation, message) in near:
                gone.append(item)
                changed.append(found)
            else:
                beside.append(found)
        return _Changes(gone, changed, beside)

    def _write(
        self,
        identity: Identity,
        state: SearchState,
        gone: Sequence[int],
        part: Sequence[tuple[Found, SearchDocument]],
        *,
        is_last: bool,
    ) -> bool:
        def write(session: Session, _: int) -> bool:
            reader = self._places.reading(session)
            if reader is None or state.search is None:
                return False
            key, number = reader.key(identity).hex(), reader.store.number
            has_vectors = bool(gone) and bool(session.rows(sql.HAS_VECTORS))
            with session.transaction():
                locked = self._writer(reader).lock(session, reader.key(identity))
                if locked is None or locked.extent[:2] != state.extent[:2]:
                    return False
                upto = state.extent.last if is_last else None
                if not session.rows(sql.CLAIM, [upto, key, state.extent.made, state.turn]):
                    return False
                remove_items(session, key, gone, has_vectors=has_vectors)
                add_items(session, (key, number), state.search, part)
            return True

        return self._places.run(write)
