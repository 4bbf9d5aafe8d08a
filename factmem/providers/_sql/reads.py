"""Reading the places of a store, and listing them. Every method blocks.

`StoredPlaces` adds the writes; a database adds how work runs on its connections.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TypeVar

from factmem._concurrency.garbage import paused_collection
from factmem.errors import TamperedError, WrongKeyError
from factmem.ledger.entries import Entry
from factmem.ledger.ledger import Ledger
from factmem.models.boundary import Boundary
from factmem.models.places import Identity
from factmem.providers._backend import Present
from factmem.providers._clock import StoreClock
from factmem.providers._group_commit import Pending
from factmem.providers._place_lists import place_info
from factmem.providers._sql import statements as sql
from factmem.providers._sql.lines import counted, stamp_at
from factmem.providers._sql.places import PlaceReader, subject_path
from factmem.providers._sql.sealing import UnknownGenerationError
from factmem.providers._sql.session import Row, Session
from factmem.providers._sql.stores import Opening
from factmem.providers._sql.views import View, Views
from factmem.providers.results import PlaceInfo

R = TypeVar("R")

_MOST_LISTED = 1000
"""Places that one query lists or reads."""

_MOST_PROBED = 1024
"""Up to this many named places are looked up by key instead of listed and filtered."""


class PlaceReads(ABC):
    """Reads the places of one store. All methods are thread-safe.

    Args:
        opening: Finds the store.
        clock: The clock of the store.
        warm_places: The number of places kept in memory.
        keep_history: How long older history is kept; None keeps it forever.
    """

    def __init__(
        self,
        opening: Opening,
        clock: StoreClock,
        *,
        warm_places: int,
        keep_history: timedelta | None,
    ) -> None:
        self.opening = opening
        self._clock = clock
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
        self._start()

    @abstractmethod
    def _run(self, work: Callable[[Session, int], R]) -> R:
        """Do work that reads, on a connection of the database."""

    @abstractmethod
    def _write(self, work: Callable[[Session, int], R]) -> R:
        """Do work that may write, on a connection of the database."""

    def run(self, work: Callable[[Session, int], R]) -> R:
        """Do work that reads. Its second argument counts earlier attempts that may have committed."""
        return self._with_keys(lambda: self._run(work))

    def write(self, work: Callable[[Session, int], R]) -> R:
        """Do work that may write; see `run`."""
        return self._with_keys(lambda: self._write(work))

    def _with_keys(self, call: Callable[[], R]) -> R:
        """Call a function; call it again with new keys if they were rotated meanwhile."""
        for _ in range(3):
            encryption = self.opening.encryption
            try:
                return call()
            except UnknownGenerationError:
                self.opening.reload()
            except WrongKeyError:  # a snapshot from before the rotation of another thread
                if self.opening.encryption is encryption:
                    raise
        raise TamperedError(
            "A place is sealed with a key that its store does not have: its row was changed, or "
            "the store's row was put back to an older copy. Restore both from one backup"
        )

    def reading(self, session: Session) -> PlaceReader | None:
        """Return the reader of the store; None if it does not exist yet."""
        store = self.opening.found(session)
        if store is None:
            return None
        reader = self._reader
        if reader is None or reader.store is not store:
            reader = self._reader = PlaceReader(store)
        return reader

    def read_store(self, read: Callable[[Session, PlaceReader], R], default: R) -> R:
        """Do work that reads a store; return the default if it does not exist yet."""

        def ask(session: Session, _: int) -> R:
            reader = self.reading(session)
            return default if reader is None else read(session, reader)

        return self.run(ask)

    def erased_at(self, identity: Identity) -> str | None:
        """Return when a place was last erased with something in it, as a stamp; None for never."""

        def read(session: Session, reader: PlaceReader) -> str | None:
            ((at,),) = session.rows(sql.ERASED_AT, [reader.key(identity)])
            return None if at is None else stamp_at(at)

        return self.read_store(read, None)

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
        self._follow({pending.work: self._views.of(pending.work) for pending in batch})

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
        if keyword is not None and not (view.is_warm or view.was_searched):
            view.was_searched = True
            found = self.read_store(
                lambda session, reader: reader.searched(session, identity, keyword), None
            )
            if found is not None:
                return present(found, self.now(found))
        return self.present_view(self.view(identity), present)

    def present_view(self, view: View, present: Present[R]) -> R:
        """Present what was read of a place."""
        with view.lock:
            return present(view.ledger, self.now(view.ledger))

    def now(self, ledger: Ledger) -> str:
        """Return the time for reading a ledger; the clock is not read if nothing expires."""
        return self._clock.now(ledger.recorded_at) if ledger.may_expire else ledger.recorded_at

    def _follow(self, views: Mapping[Identity, View]) -> None:
        self.run(lambda session, _: self.follow(session, views))

    def follow(self, session: Session, views: Mapping[Identity, View]) -> None:
        """Bring views up to date."""
        reader = self.reading(session)
        if reader is not None:
            reader.follow(session, views)
            return
        for view in views.values():
            if view.position is None:  # else this process has made the store since
                view.take(None, None, time.monotonic())

    def entries(self, identity: Identity) -> list[Entry]:
        """Return all entries of a place, at the times they count as recorded."""
        answer = self.read_store(lambda session, reader: reader.whole(session, identity), None)
        return [] if answer is None else counted(answer.entries)

    @staticmethod
    def identities(
        session: Session, reader: PlaceReader, wanted: Boundary, after: Identity | None = None
    ) -> Iterator[list[Identity]]:
        """Yield the places inside a boundary, some at a time, without reading their entries."""
        where, given = _conditions(reader, wanted)
        first = wanted.first_levels
        if first is not None:
            yield from _below(session, reader, wanted, first, after)
            return
        last, rows = sql.FIRST_PLACE if after is None else reader.key(after), []
        statement, number = sql.LIST.format(where=where), reader.store.number
        while rows := session.rows(statement, [number, last, *given, _MOST_LISTED]):
            last = rows[-1][3]
            yield list(filter(wanted.allows, reader.owners(rows)))
            if len(rows) < _MOST_LISTED:
                return

    def listed(self, wanted: Boundary, after: Identity | None, limit: int | None) -> list[Identity]:
        """Return the places inside a boundary that come after one, in the order of their keys."""

        def read(session: Session, reader: PlaceReader) -> list[Identity]:
            found: list[Identity] = []
            pages = self.identities(session, reader, wanted, after)
            while limit is None or len(found) < limit:
                with paused_collection(_MOST_LISTED):
                    page = next(pages, None)
                if page is None:
                    break
                found += page
            return found[:limit]

        return self.read_store(read, [])

    def places(self, wanted: Boundary) -> list[PlaceInfo]:
        """Return the places inside a boundary that hold anything."""

        def read(session: Session, reader: PlaceReader) -> list[PlaceInfo]:
            infos: list[PlaceInfo] = []
            for identities in self.identities(session, reader, wanted):
                if identities:
                    views = {each: self._views.known(each) or View() for each in identities}
                    reader.follow(session, views)
                    infos += self._infos(views, _conversations(session, reader, views))
            return infos

        return self.read_store(read, [])

    def _infos(
        self, views: dict[Identity, View], chats: Mapping[Identity, tuple[int, int]]
    ) -> Iterator[PlaceInfo]:
        for identity, view in views.items():
            count, more = chats.get(identity, (0, 0))
            with view.lock:
                size = more + (0 if view.position is None else view.position.size)
                if size:  # not erased since it was listed
                    now = self._clock.now(view.ledger.recorded_at)
                    yield place_info(identity, view.ledger, size, now, conversations=count)

    def index(self, identity: Identity) -> bytes | None:
        """Return the index of a place if there is one and it verifies."""

        def read(session: Session, reader: PlaceReader) -> bytes | None:
            key = reader.key(identity)
            for data_key, stored in session.rows(sql.READ_INDEX, [key, sql.VECTORS]):
                return reader.sealer(key, data_key).open_index(stored)
            return None

        return self.read_store(read, None)


def _conversations(
    session: Session, reader: PlaceReader, places: Iterable[Identity]
) -> dict[Identity, tuple[int, int]]:
    """Return how many conversations places have, and their bytes."""
    keys = {reader.key(identity): identity for identity in places}
    rows = session.rows(*sql.among(sql.COUNT_OWNED, keys))
    return {keys[owner]: (count, int(size)) for owner, count, size in rows}


def _below(
    session: Session,
    reader: PlaceReader,
    wanted: Boundary,
    first: tuple[str, str | None],
    after: Identity | None,
) -> Iterator[list[Identity]]:
    """Yield the places of every entity with some first levels, ordered by subject."""
    start = subject_path(reader.store.sealing, *first)
    last, key = start, b""
    if after is not None:
        last, key = reader.new_row(after).subject, reader.key(after)
    end = (int.from_bytes(start) + 1).to_bytes(len(start))
    rows: list[Row] = []
    while rows := session.rows(sql.LIST_BELOW, [reader.store.number, last, key, end, _MOST_LISTED]):
        _, _, _, key, last = rows[-1]
        yield list(filter(wanted.allows, reader.owners(rows)))
        if len(rows) < _MOST_LISTED:
            return


def _conditions(reader: PlaceReader, wanted: Boundary) -> tuple[str, list[bytes]]:
    """Return an SQL condition that restricts a listing to a boundary, and its parameters."""
    sealing, named = reader.store.sealing, wanted.identities(_MOST_PROBED)
    if named is not None:
        return among("owner", map(reader.key, named))
    if wanted.subjects is not None and not wanted.is_wide:
        return among("subject", (subject_path(sealing, *each) for each in wanted.subjects))
    if wanted.scopes is not None:
        return among("scope", (sealing.key("scope", each) for each in wanted.scopes))
    return "", []


def among(column: str, keys: Iterable[bytes]) -> tuple[str, list[bytes]]:
    """Return an SQL condition that a column is among keys, and its parameters."""
    found = list(keys)
    if not found:
        return "AND 1 = 0", []
    return sql.among(f"AND {column} IN ({{keys}})", found)
