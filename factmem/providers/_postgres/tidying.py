"""Compaction of old history after saves, and folding of older lines into chunks."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from logging import getLogger
from typing import Protocol

from factmem.errors import FactmemError
from factmem.ledger.entries import Edit, Entry
from factmem.ledger.removal import compacted
from factmem.models.places import Identity
from factmem.providers._arguments import before
from factmem.providers._clock import StoreClock
from factmem.providers._postgres import rewriting
from factmem.providers._postgres.driver import Session
from factmem.providers._postgres.rewriting import PlaceRewriter
from factmem.providers._recent_places import RecentPlaces

_logger = getLogger(__name__)

_CHECK_EVERY = 256
"""The least number of entries between two checks of how much of a place is history."""


class LockedPlaces(Protocol):
    """Places that can be edited under their locks."""

    def edit_locked(self, identity: Identity, edit: Callable[[Session, PlaceRewriter], int]) -> int:
        """Edit a place under its lock; return 0 if it does not exist."""
        ...

    def edit(self, identity: Identity, edit: Edit) -> int:
        """Apply an edit to all entries of a place, and return the number of freed bytes."""
        ...


class Tidying:
    """Compacts and folds places after saves, when that is worthwhile. Thread-safe.

    Args:
        places: The places of a store.
        clock: The clock of the store.
        keep_history: How long older history is kept; None keeps it forever.
    """

    def __init__(
        self, places: LockedPlaces, clock: StoreClock, keep_history: timedelta | None
    ) -> None:
        self._places = places
        self._clock = clock
        self._keep_history = keep_history
        self.start_afresh()

    def start_afresh(self) -> None:
        """Forget all checks."""
        self._compacted: RecentPlaces[tuple[int, int]] = RecentPlaces()
        """The last number of a place at its last check for history, and the entries it kept."""
        self._folded: RecentPlaces[int] = RecentPlaces()
        """The last number of a place at its last check for lines to fold."""

    def is_due(self, identity: Identity, last: int, folded: int) -> bool:
        """Whether `tidy` would check a place.

        Args:
            identity: The place.
            last: The number of its last line.
            folded: The number of the last line that is in a chunk.
        """
        return self._is_compaction_due(identity, last) or self._is_folding_due(
            identity, last, folded
        )

    def tidy(self, identity: Identity, last: int, folded: int) -> None:
        """Compact a place and move its older lines into chunks, if that is worthwhile."""
        if self._is_compaction_due(identity, last):
            self._compact_halved(identity, last)
        self.fold(identity, last, folded)

    def _is_compaction_due(self, identity: Identity, last: int) -> bool:
        """Whether a place has doubled since its last check."""
        if self._keep_history is None:
            return False
        checked, size = self._compacted.of(identity, (last - 1, 0))
        return last - checked >= max(size, _CHECK_EVERY)

    def _is_folding_due(self, identity: Identity, last: int, folded: int) -> bool:
        """Whether a chunk's worth of lines was added since the last check."""
        if not rewriting.is_worthwhile(last, folded):
            return False
        return rewriting.is_worthwhile(last, max(folded, self._folded.of(identity, 0)))

    def fold(self, identity: Identity, last: int, folded: int) -> None:
        """Move older lines of a large place into chunks; checked once per chunk of lines."""
        if not self._is_folding_due(identity, last, folded):
            return
        self._folded.set(identity, last)
        try:
            while self._places.edit_locked(
                identity, lambda session, writer: writer.fold(session, identity)
            ):
                pass
        except FactmemError as exc:
            # The save is committed; the next one tries again.
            _logger.warning("A place was not folded: %s", type(exc).__name__)

    def compact(self, identity: Identity, keep_history: timedelta) -> int:
        """Remove older history, and return the number of bytes that were freed."""
        cutoff = before(self._clock.recording(), keep_history)
        freed = self._places.edit(identity, lambda entries: compacted(entries, cutoff))
        self._folded.set(identity, 0)
        return freed

    def _compact_halved(self, identity: Identity, last: int) -> None:
        """Compact a place when more than half is history."""
        assert self._keep_history is not None  # noqa: S101 - compaction was due
        _, kept = self._compacted.of(identity, (last - 1, 0))
        cutoff = before(self._clock.recording(), self._keep_history)

        def halve(entries: Sequence[Entry]) -> Sequence[Entry | None]:
            nonlocal kept
            after = compacted(entries, cutoff)
            kept = sum(entry is not None for entry in after)
            if 2 * kept < len(entries):
                return after
            kept = len(entries)
            return entries

        try:
            self._places.edit(identity, halve)
        except FactmemError as exc:
            # The save is committed, and the caller did not ask for a compaction.
            _logger.warning("A place was not compacted: %s", type(exc).__name__)
        self._compacted.set(identity, (last, kept))
