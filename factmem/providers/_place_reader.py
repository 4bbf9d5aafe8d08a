"""Reading the places of a folder of journals: warm from memory, cold by a search or a fold."""

from typing import TypeVar

from factmem.ledger.keyword_search import KeywordSearch
from factmem.ledger.ledger import Ledger
from factmem.models.places import Identity
from factmem.providers._backend import Present
from factmem.providers._clock import StoreClock
from factmem.providers._followed_place import PlaceView, PlaceViews
from factmem.storage.base import Journals, Reading

R = TypeVar("R")


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
        """Return what a large place that was never read holds of a keyword; None for any other.

        Once for each place: whoever loads a second concept gains more from reading all of them.
        """
        view = self.views.of(identity)
        if view.is_warm or view.was_searched:
            return None
        view.was_searched = True
        reading = self._journals.read(identity, None)
        if reading.is_end:  # as quickly folded as searched
            view.take_in(None, reading)
            return None
        return self._searched_from(identity, keyword, reading)

    def _searched_from(self, identity: Identity, keyword: str, first: Reading) -> Ledger | None:
        """Search a place from a reading on that is its first."""
        search, reading = KeywordSearch(keyword), first
        while True:
            search.take(record.data for record in reading.records)
            if reading.is_end:
                return search.ledger()
            reading = self._journals.read(identity, reading.position)
            if reading.is_from_start:
                search = KeywordSearch(keyword)

    def followed(self, identity: Identity) -> PlaceView:
        """Return the view of a place, read to its end."""
        view = self.views.of(identity)
        with view.refreshing:
            if not (view.is_warm and self._journals.is_current(identity, view.position)):
                view.follow(identity, self._journals.read)
        return view
