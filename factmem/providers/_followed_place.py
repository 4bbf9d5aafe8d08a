"""What a process has seen of one place: its ledger, and how far the journal was read for it."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress

from factmem.concurrency.garbage import paused_collection
from factmem.ledger.entries import Entry, decoded
from factmem.ledger.ledger import Ledger
from factmem.models.places import Identity
from factmem.storage.base import Appended, JournalName, Position, Reading

_MOST_VIEWS = 1024
"""How many places' ledgers are kept warm; the one not used for longest goes first."""

_BYTES_PER_FACT = 200
"""About what a short fact takes in a journal. A record may hold one fact or thousands."""


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
