"""Opening a store, reading its places, and listing them. Every method blocks."""

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import TypeVar

from factmem.concurrency.garbage import paused_collection
from factmem.errors import TamperedError
from factmem.ledger.entries import Entry
from factmem.ledger.ledger import Ledger
from factmem.models.boundary import Boundary
from factmem.models.places import Identity
from factmem.providers._backend import Present
from factmem.providers._clock import ServerClock, StoreClock
from factmem.providers._group_commit import Pending
from factmem.providers._place_lists import place_info
from factmem.providers._postgres import statements as sql
from factmem.providers._postgres.connections import Connections
from factmem.providers._postgres.driver import Session
from factmem.providers._postgres.exchanges import Statement
from factmem.providers._postgres.places import PlaceReader, counted
from factmem.providers._postgres.sealing import UnknownGenerationError
from factmem.providers._postgres.searching import searched
from factmem.providers._postgres.stores import Opening
from factmem.providers._postgres.views import View, Views
from factmem.providers.results import PlaceInfo

R = TypeVar("R")

_MOST_LISTED = 1000
"""Places that one query lists or reads."""

_MOST_PROBED = 1024
"""Up to this many named places are looked up by key instead of listed and filtered."""


class PlaceReads:
    """Reads the places of one store. All methods are thread-safe."""

    def __init__(
        self,
        connections: Callable[[Callable[[Session], None]], Connections],
        opening: Opening,
        clock: StoreClock,
        *,
        server_clock: ServerClock | None,
        lock_seconds: float,
        warm_places: int,
        keep_history: timedelta | None,
    ) -> None:
        self.opening = opening
        self.connections = connections(self._prepare)
        self._clock = clock
        self._server_clock = server_clock
        self._lock_seconds = lock_seconds
        self._warm_places = warm_places
        self._keep_history = keep_history
        self._start()

    def _start(self) -> None:
        self._views = Views(self._warm_places)
        self._reader: PlaceReader | None = None
        self._erased_here = 0
        """The number of erasures before the store existed."""

    def start_afresh(self) -> None:
        """Forget all cached state; in a forked child the connections belong to the parent."""
        self.opening.start_afresh()
        self.connections.start_afresh()
        self._start()

    # Opening

    def _prepare(self, session: Session) -> None:
        self.opening.prepare(session, self._lock_seconds)
        if self._server_clock is not None:
            (row,) = session.rows(sql.TIME)
            self._server_clock.set(row[0])

    def migrate(self) -> None:
        """Create the tables, or bring them to the latest version."""
        self.connections.run(lambda session, _: self.opening.migrate(session))

    def reading(self, session: Session) -> PlaceReader | None:
        """Return the reader of the store; None if it does not exist yet."""
        store = self.opening.found(session)
        if store is None:
            return None
        reader = self._reader
        if reader is None or reader.store is not store:
            reader = self._reader = PlaceReader(store)
        return reader

    def open_reader(self) -> PlaceReader | None:
        """Return the reader of the store if it is open, without asking the database."""
        reader, store = self._reader, self.opening.known
        return reader if reader is not None and reader.store is store else None

    def take_idle(self, reader: PlaceReader, statement: Statement) -> Session | None:
        """Return an idle connection that has prepared a statement; None if there is none."""
        session = self.connections.take_idle()
        if session is None:
            return None
        if session.store == reader.store.number and session.is_prepared(statement):
            return session
        self.connections.give_back(session)
        return None

    def run(
        self,
        work: Callable[[Session, int], R],
        begun: tuple[Session, Callable[[], R]] | None = None,
    ) -> R:
        """Do work on a connection; repeat it with new keys if another process rotated them."""
        for _ in range(3):
            try:
                return self.connections.run(work, begun)
            except UnknownGenerationError:
                self.opening.reload()
                begun = None
        raise TamperedError(
            "A place is sealed with a key that its store does not have: its row was changed, or "
            "the store's row was put back to an older copy. Restore both from one backup"
        )

    def time(self) -> str:
        """Return the time of the store's clock, as a stamp; not before a connection was opened."""
        self.run(lambda session, _: self.opening.found(session))
        return self._clock.recording()

    # Reading

    def known(self, identity: Identity) -> View | None:
        """Return the view of a place, if there is one."""
        return self._views.known(identity)

    def refresh(self, batch: Sequence[Pending[Identity]]) -> None:
        """Update the views of some places with one query for all of them."""
        self._follow(self.views_of(batch))

    def views_of(self, batch: Sequence[Pending[Identity]]) -> dict[Identity, View]:
        """Return the views of some places."""
        identities = dict.fromkeys(pending.work for pending in batch)
        return {identity: self._views.of(identity) for identity in identities}

    def view(self, identity: Identity) -> View:
        """Return the view of a place, up to date."""
        view = self._views.of(identity)
        self._follow({identity: view})
        return view

    def present(self, identity: Identity, present: Present[R], keyword: str | None = None) -> R:
        """Present a place as it is now; with a keyword, its items may be all that is there.

        A large place that was never read is searched for the keyword, once: for a second
        concept it is faster to read all of it.
        """
        view = self._views.of(identity)
        is_new = not (view.is_warm or view.was_searched)
        if keyword is not None and is_new:
            view.was_searched = True
            found = self._searched(view, identity, keyword)
            if found is not None:
                return present(found, self.now(found))
            if view.is_warm:  # it is small, and the first query has read it
                return self.present_view(view, present)
        return self.present_view(self.view(identity), present)

    def _searched(self, view: View, identity: Identity, keyword: str) -> Ledger | None:
        """Read a small place completely; of a large one return the facts of a keyword."""

        def search(session: Session, _: int) -> Ledger | None:
            reader, asked = self.reading(session), time.monotonic()
            if reader is None:
                view.take(view.position, None, 0.0)
                return None
            answer = reader.read(session, {identity: None}, with_chunks=False).get(identity)
            if answer is None or not answer.is_in_chunks:
                view.take(None, answer, asked)
                return None
            return searched(session, reader, identity, keyword)

        return self.run(search)

    def present_view(self, view: View, present: Present[R]) -> R:
        """Present what was read of a place."""
        with view.lock:
            return present(view.ledger, self.now(view.ledger))

    def now(self, ledger: Ledger) -> str:
        """Return the time for reading a ledger; the clock is not read if nothing expires."""
        return self._clock.now(ledger.recorded_at) if ledger.may_expire else ledger.recorded_at

    def _follow(self, views: dict[Identity, View]) -> None:
        def follow(session: Session, _: int) -> None:
            reader = self.reading(session)
            if reader is not None:
                reader.follow(session, views)
                return
            for view in views.values():
                view.take(view.position, None, 0.0)

        self.run(follow)

    def entries(self, identity: Identity) -> list[Entry]:
        """Return all entries of a place, at the times they count as recorded."""

        def read(session: Session, _: int) -> list[Entry]:
            reader = self.reading(session)
            answer = None if reader is None else reader.whole(session, identity)
            return [] if answer is None else counted(answer.entries)

        return self.run(read)

    def identities(
        self, session: Session, wanted: Boundary, after: Identity | None = None
    ) -> Iterator[list[Identity]]:
        """Give the places inside a boundary, some at a time, without reading their entries."""
        reader = self.reading(session)
        if reader is None:
            return
        where, given = _conditions(reader, wanted)
        last, rows = sql.FIRST_PLACE if after is None else reader.key(after), []
        statement, number = sql.LIST.format(where=where), reader.store.number
        while rows := session.rows(statement, [number, last, *given, _MOST_LISTED]):
            last, found = rows[-1][0], reader.names(rows)
            yield list(filter(wanted.allows, found))
            if len(rows) < _MOST_LISTED:
                return

    def listed(self, wanted: Boundary, after: Identity | None, limit: int | None) -> list[Identity]:
        """Return the places inside a boundary that come after one, in the order of their keys."""

        def read(session: Session, _: int) -> list[Identity]:
            found: list[Identity] = []
            pages = self.identities(session, wanted, after)
            while limit is None or len(found) < limit:
                with paused_collection(_MOST_LISTED):
                    page = next(pages, None)
                if page is None:
                    break
                found += page
            return found[:limit]

        return self.run(read)

    def places(self, wanted: Boundary) -> list[PlaceInfo]:
        """Return the places inside a boundary that hold anything."""

        def read(session: Session, _: int) -> list[PlaceInfo]:
            infos: list[PlaceInfo] = []
            for identities in self.identities(session, wanted):
                views = {each: self._views.known(each) or View() for each in identities}
                reader = self.reading(session)
                if reader is not None and views:
                    reader.follow(session, views)
                infos += self._infos(views)
            return infos

        return self.run(read)

    def _infos(self, views: dict[Identity, View]) -> Iterator[PlaceInfo]:
        for identity, view in views.items():
            with view.lock:
                if view.position is not None:  # not erased since it was listed
                    now = self._clock.now(view.ledger.recorded_at)
                    yield place_info(identity, view.ledger, view.position.size, now)

    def index(self, identity: Identity) -> bytes | None:
        """Return the index of a place if there is one and it verifies."""

        def read(session: Session, _: int) -> bytes | None:
            reader = self.reading(session)
            if reader is None:
                return None
            key = reader.key(identity)
            for data_key, stored in session.rows(sql.READ_INDEX, [key]):
                return reader.sealer(key, data_key).open_index(stored)
            return None

        return self.run(read)


def _conditions(reader: PlaceReader, wanted: Boundary) -> tuple[str, list[object]]:
    """Return an SQL condition that restricts a listing to a boundary, and its parameters."""
    sealing, named = reader.store.sealing, wanted.identities(_MOST_PROBED)
    if named is not None:
        return "AND place = ANY (%s::uuid[])", [sql.keys(map(reader.key, named))]
    if wanted.subjects is not None and not wanted.is_wide:
        found = [sealing.key("subject", subject) for subject in wanted.subjects]
        return "AND subject = ANY (%s::uuid[])", [sql.keys(found)]
    if wanted.scopes is not None:
        found = [sealing.key("scope", scope) for scope in wanted.scopes]
        return "AND scope = ANY (%s::uuid[])", [sql.keys(found)]
    return "", []
