"""What a process has read of places: folded by those who hold the lock, and by no other."""

from typing import cast

import pytest

from factmem.ledger.ledger import Ledger
from factmem.models.places import Identity
from factmem.providers._backend import StoreClock
from factmem.providers._postgres.place_search import PlaceSearch
from factmem.providers._sql.places import View
from factmem.providers._sql.stored_places import StoredPlaces

ANN: Identity = ("agent", "support", "user", "Ann")


class _Places:
    def __init__(self, view: View) -> None:
        self._view = view

    def known(self, identity: Identity) -> View:
        return self._view


def test_how_many_facts_there_are_is_told_without_folding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each recall asks without the lock, in the event loop's thread.

    The ledger takes in the own saves that wait, which two threads must not do at once.
    """

    def ledger(view: View) -> Ledger:
        assert view.lock.locked()
        return Ledger()

    monkeypatch.setattr(View, "ledger", property(ledger, lambda view, ledger: None))
    view = View()
    view.is_warm = True
    places = cast("StoredPlaces", _Places(view))
    search = PlaceSearch(places, cast("StoreClock", None), search_from=10)
    assert search.are_small([ANN])
