"""Reading the places of a folder of journals: warm from memory, cold by a search or a fold."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from functools import partial
from logging import getLogger
from typing import TypeVar

from factmem.concurrency.garbage import paused_collection
from factmem.errors import FactmemError
from factmem.ledger.entries import Entry, decoded
from factmem.ledger.keyword_search import KeywordSearch
from factmem.ledger.ledger import Ledger
from factmem.ledger.summary import restored, restored_keyword, summarized
from factmem.models.places import Identity
from factmem.providers._backend import Present
from factmem.providers._clock import StoreClock
from factmem.storage.base import (
    Appended,
    JournalName,
    Journals,
    Position,
    Reading,
    SummarizedJournals,
    Summary,
)

R = TypeVar("R")
S = TypeVar("S")

_logger = getLogger(__name__)

_MOST_VIEWS = 1024
"""How many places' ledgers are kept warm; the one not used for longest goes first."""

_BYTES_PER_FACT = 200
"""About what a short fact takes in a journal. A record may hold one fact or thousands."""

_SMALLEST_SUMMARIZED = 8 << 20
"""How much a journal must have grown since its summary: reading as much takes a twentieth of a
second."""

_MOST_SEARCHES = 32
"""After how many searches by a summary, a few milliseconds each, all of a place is read. A search
without one counts as all of them."""


class PlaceView:
    """One place's ledger, followed from the journal.

    `lock` is held for pure work only and for moments, so that an event loop may try for it;
    `refreshing` is held by the one thread that reads on.
    """

    __slots__ = ("is_warm", "ledger", "lock", "position", "refreshing", "searches", "summarized")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.refreshing = threading.Lock()
        self.ledger = Ledger()
        self.position: Position | None = None
        self.is_warm = False
        """Whether the place was read to its end at least once."""
        self.searches = 0
        """How often it was searched for a keyword, and not read."""
        self.summarized = 0
        """How many bytes of the journal are in its summary, as far as is known."""

    def follow(
        self, name: JournalName, read: Callable[[JournalName, Position | None], Reading]
    ) -> None:
        """Read on to the end. Another thread may do the same: each reading counts once."""
        is_end = False
        while not is_end:
            start = self.position
            reading = read(name, start)
            is_end = self.take_in(start, reading) and reading.is_end

    def take_in(self, start: Position | None, reading: Reading) -> bool:
        """Apply the entries read from `start` on; return False if another thread did so before."""
        size = sum(len(record.data) for record in reading.records)
        with paused_collection(size // _BYTES_PER_FACT):
            return self._take_in(start, reading)

    def _take_in(self, start: Position | None, reading: Reading) -> bool:
        entries = [decoded(record.data) for record in reading.records]
        with self.lock:
            if self.position is not start:
                return False
            if reading.is_from_start:
                self.ledger = Ledger()
                if start is not None:  # rewritten, which removes the summary
                    self.summarized = 0
            self._apply(entries)
            self.position = reading.position
            self.is_warm = reading.is_end
        return True

    def start_from(self, ledger: Ledger, position: Position) -> None:
        """Go on from a summary, unless another thread has read the place meanwhile."""
        with self.lock:
            if self.position is None:
                self.ledger, self.position = ledger, position
                self.summarized = position.size

    def take(self, appended: Appended, entries: Iterable[Entry]) -> None:
        """Apply entries just appended, if all earlier ones were applied; else they are read later."""
        with self.lock:
            if self.is_warm and self.position is appended.before:
                self._apply(list(entries))
                self.position = appended.after

    def _apply(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self.ledger.apply(entry)


class PlaceViews:
    """The views of many places; the least recently used are dropped."""

    def __init__(self) -> None:
        self._views: OrderedDict[Identity, PlaceView] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, identity: Identity) -> PlaceView | None:
        """Return the view of a place, if there is one."""
        view = self._views.get(identity)
        if view is not None:
            with self._lock, suppress(KeyError):  # let go of by another thread just now
                self._views.move_to_end(identity)
        return view

    def of(self, identity: Identity) -> PlaceView:
        """Return the view of a place, a new one if need be."""
        with self._lock:
            view = self._views.get(identity)
            if view is None:
                view = self._views[identity] = PlaceView()
                if len(self._views) > _MOST_VIEWS:
                    self._views.popitem(last=False)
            self._views.move_to_end(identity)
            return view

    def all(self) -> list[tuple[Identity, PlaceView]]:
        """Return all views with their places."""
        with self._lock:
            return list(self._views.items())

    def drop(self, identity: Identity) -> None:
        """Let go of one place's view."""
        with self._lock:
            self._views.pop(identity, None)


class PlaceReader:
    """Presents places. Every method blocks, `warm` for microseconds; all are safe for threads.

    A view's lock is held for pure work only: whoever waits for it waits for moments.
    """

    def __init__(self, journals: Journals, clock: StoreClock) -> None:
        self._journals = journals
        self._clock = clock
        self.views = PlaceViews()

    def warm(self, identity: Identity, present: Present[R | None]) -> R | None:
        """Present a place if that takes no reading: for event loops; None if it does.

        This makes the one file call that an event loop's thread ever makes: the check whether the
        journal is still what was read, about two microseconds.
        """
        view = self.views.known(identity)
        if view is None or not view.lock.acquire(blocking=False):
            return None
        try:
            if view.is_warm and self._journals.is_current(identity, view.position):
                return present(view.ledger, self.now(view.ledger))
        finally:
            view.lock.release()
        return None

    def present(self, identity: Identity, present: Present[R], keyword: str | None = None) -> R:
        """Present a place as it is now; with a keyword, its items may be all that is there."""
        if keyword is not None and (found := self._searched(identity, keyword)) is not None:
            return present(found, self.now(found))
        view = self.followed(identity)
        with view.lock:
            return present(view.ledger, self.now(view.ledger))

    def now(self, ledger: Ledger) -> str:
        """Return the time for reading a ledger: no reading asks for it where nothing expires."""
        return self._clock.now(ledger.recorded_at) if ledger.may_expire else ledger.recorded_at

    def _searched(self, identity: Identity, keyword: str) -> Ledger | None:
        """Return what a large place that is not in memory holds of a keyword; None for any other.

        Once for each place without a summary: whoever loads a second concept gains more from
        reading all of them.
        """
        view = self.views.of(identity)
        if view.is_warm or view.searches >= _MOST_SEARCHES:
            return None
        reading = self._journals.read(identity, None)
        if reading.is_end:  # as quickly folded as searched
            view.take_in(None, reading)
            return None
        found, search = self._summary(identity, partial(_search_summary, keyword)), None
        view.searches += _MOST_SEARCHES if found is None else 1
        if found is not None:
            search, position = found
            reading = self._journals.read(identity, position)
            if reading.is_from_start:  # rewritten meanwhile
                search = None
        return self._searched_from(identity, keyword, search, reading)

    def _searched_from(
        self, identity: Identity, keyword: str, search: KeywordSearch | None, first: Reading
    ) -> Ledger | None:
        """Search a place from a reading on; with a search that took in what is before that."""
        search, reading = search or KeywordSearch(keyword), first
        while True:
            search.take(record.data for record in reading.records)
            if reading.is_end:
                return search.ledger()
            reading = self._journals.read(identity, reading.position)
            if reading.is_from_start:
                search = KeywordSearch(keyword)

    def _summary(
        self, identity: Identity, use: Callable[[Summary], S]
    ) -> tuple[S, Position] | None:
        """Return what `use` makes of a place's summary, and where that ends; None without one."""
        if not isinstance(self._journals, SummarizedJournals):
            return None
        with self._journals.summary(identity) as summary:
            if summary is None:
                return None
            try:
                return use(summary), summary.position
            except (ValueError, KeyError, TypeError, IndexError, AttributeError):  # damaged
                return None

    def followed(self, identity: Identity) -> PlaceView:
        """Return the view of a place, read to its end."""
        view = self.views.of(identity)
        with view.refreshing:
            if not (view.is_warm and self._journals.is_current(identity, view.position)):
                if view.position is None:
                    self._begin(identity, view)
                if not (view.is_warm and self._journals.is_current(identity, view.position)):
                    view.follow(identity, self._journals.read)
        return view

    def _begin(self, identity: Identity, view: PlaceView) -> None:
        """Begin to read a place: by its summary where it is large and has one."""
        reading = self._journals.read(identity, None)
        found = None if reading.is_end else self._summary(identity, partial(_restored, view))
        if found is None or found[0] is None:
            view.take_in(None, reading)
        else:
            view.start_from(found[0], found[1])

    # Summaries

    def summarize_all(self, is_ended: Callable[[], bool] = lambda: False) -> None:
        """Write the summaries that are worth it, of places that are in memory."""
        for identity, view in self.views.all():
            self.summarize(identity, view, is_ended)

    def summarize(
        self,
        identity: Identity,
        view: PlaceView,
        is_ended: Callable[[], bool] = lambda: False,
    ) -> None:
        """Write the summary of a place that was read, if its journal has grown much since the last.

        It ends without one where something is saved meanwhile, where `is_ended` returns true, and
        where the folder cannot be written to. Then a cold open takes longer, and nothing else.
        """
        position = view.position
        if (
            not view.is_warm
            or position is None
            or not isinstance(self._journals, SummarizedJournals)
        ):
            return
        if position.size - view.summarized < max(_SMALLEST_SUMMARIZED, position.size // 4):
            return

        @contextmanager
        def unchanged() -> Generator[None]:
            with view.lock:
                if view.position is not position or is_ended():
                    raise _ChangedError
                yield

        try:
            blocks = summarized(view.ledger, position.size, unchanged)
            if self._journals.write_summary(identity, position, blocks):
                view.summarized = position.size
        except (_ChangedError, FactmemError) as exc:
            _logger.debug("No summary was written: %s", type(exc).__name__)


class _ChangedError(Exception):
    """A place changed while its summary was made, or the thread is wanted for something else."""


def _search_summary(keyword: str, summary: Summary) -> KeywordSearch:
    return KeywordSearch(keyword, restored_keyword(summary.block, keyword))


def _restored(view: PlaceView, summary: Summary) -> Ledger | None:
    """Return all of a summary; None where its journal has so little history that it is as quick."""
    is_smaller = 2 * summary.size < summary.position.size
    ledger = restored(summary.block) if is_smaller else None
    view.summarized = summary.position.size
    return ledger
