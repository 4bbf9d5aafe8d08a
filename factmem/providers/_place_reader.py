"""PlaceReader: reads the places of a folder, warm from memory, cold by a search or a fold."""

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
"""The most ledgers in memory; the least recently used is discarded first."""

_BYTES_PER_FACT = 200
"""The approximate size of a short fact in a journal. A record may have one fact or thousands."""

_SMALLEST_SUMMARIZED = 8 << 20
"""The bytes by which a journal must have grown since its summary. Reading them takes 0.05 s."""

_MOST_SEARCHES = 32
"""The number of searches in a summary, a few milliseconds each, after which the whole place is read. A
search without a summary counts as all of them."""


class PlaceView:
    """One place's ledger, folded from its journal.

    `lock` is held for short work without I/O, so an event loop may try to acquire it. `refreshing` is held
    by the thread that reads on.
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
        """The number of searches for a keyword without reading the place."""
        self.summarized = 0
        """The bytes of the journal that its summary covers, as far as known."""

    def follow(
        self, name: JournalName, read: Callable[[JournalName, Position | None], Reading]
    ) -> None:
        """Read on to the end. If another thread does the same, each reading is applied once."""
        is_end = False
        while not is_end:
            start = self.position
            reading = read(name, start)
            is_end = self.take_in(start, reading) and reading.is_end

    def take_in(self, start: Position | None, reading: Reading) -> bool:
        """Apply the entries read from `start` on; return False if another thread already did."""
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
        """Continue from a summary, unless another thread has read the place meanwhile."""
        with self.lock:
            if self.position is None:
                self.ledger, self.position = ledger, position
                self.summarized = position.size

    def take(self, appended: Appended, entries: Iterable[Entry]) -> None:
        """Apply appended entries if all earlier ones were applied; otherwise they are read later."""
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
        """Return the view of a place, if it has one."""
        view = self._views.get(identity)
        if view is not None:
            with self._lock, suppress(KeyError):  # another thread has just discarded it
                self._views.move_to_end(identity)
        return view

    def of(self, identity: Identity) -> PlaceView:
        """Return the view of a place, or a new one."""
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
        """Discard the view of a place."""
        with self._lock:
            self._views.pop(identity, None)


class PlaceReader:
    """Presents places. All methods block, `warm` for microseconds, and are thread-safe.

    A view's lock is held for short work without I/O.
    """

    def __init__(self, journals: Journals, clock: StoreClock) -> None:
        self._journals = journals
        self._clock = clock
        self.views = PlaceViews()

    def warm(self, identity: Identity, present: Present[R | None]) -> R | None:
        """Present a place if nothing has to be read, else return None; for event loops.

        This makes the only file call that ever runs on an event loop: the check whether the journal is
        unchanged, about two microseconds.
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
        """Present a place as it is now. With a keyword, the ledger may have only its items."""
        if keyword is not None and (found := self._searched(identity, keyword)) is not None:
            return present(found, self.now(found))
        view = self.followed(identity)
        with view.lock:
            return present(view.ledger, self.now(view.ledger))

    def now(self, ledger: Ledger) -> str:
        """Return the time for reading a ledger; the clock is read only if a value may expire."""
        return self._clock.now(ledger.recorded_at) if ledger.may_expire else ledger.recorded_at

    def _searched(self, identity: Identity, keyword: str) -> Ledger | None:
        """Return the items of a keyword in a large place that is not in memory; else None.

        Only once for each place without a summary: for a second concept it pays to read the whole
        place.
        """
        view = self.views.of(identity)
        if view.is_warm or view.searches >= _MOST_SEARCHES:
            return None
        reading = self._journals.read(identity, None)
        if reading.is_end:  # folding takes no longer than a search
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
        """Search a place from a reading on; `search` has covered the records before it."""
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
        """Return the result of `use` for a place's summary, and its end; None without a summary."""
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
        """Start to read a place, by its summary if it is large and has one."""
        reading = self._journals.read(identity, None)
        found = None if reading.is_end else self._summary(identity, partial(_restored, view))
        if found is None or found[0] is None:
            view.take_in(None, reading)
        else:
            view.start_from(found[0], found[1])

    # Summaries

    def summarize_all(self, is_ended: Callable[[], bool] = lambda: False) -> None:
        """Write the summaries of large places in memory."""
        for identity, view in self.views.all():
            self.summarize(identity, view, is_ended)

    def summarize(
        self,
        identity: Identity,
        view: PlaceView,
        is_ended: Callable[[], bool] = lambda: False,
    ) -> None:
        """Write the summary of a place in memory, if its journal has grown much since the last one.

        Nothing is written if the place changes meanwhile, if `is_ended` returns true, or if the folder
        is read-only. The only effect is a slower cold open.
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
    """A place changed while its summary was written, or the thread has other work."""


def _search_summary(keyword: str, summary: Summary) -> KeywordSearch:
    return KeywordSearch(keyword, restored_keyword(summary.block, keyword))


def _restored(view: PlaceView, summary: Summary) -> Ledger | None:
    """Return the ledger of a summary; None if reading the journal takes no longer."""
    is_smaller = 2 * summary.size < summary.position.size
    ledger = restored(summary.block) if is_smaller else None
    view.summarized = summary.position.size
    return ledger
