"""Tidying after saves: old history is taken out, and older lines of large places go into chunks."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import timedelta
from logging import getLogger
from threading import Lock
from typing import Generic, Protocol, TypeVar

from factmem.errors import FactmemError
from factmem.ledger.entries import Edit, Entry
from factmem.ledger.removal import compacted
from factmem.models.places import Identity
from factmem.providers._arguments import before
from factmem.providers._clock import StoreClock
from factmem.providers._postgres import rewriting
from factmem.providers._postgres.driver import Session
from factmem.providers._postgres.rewriting import PlaceRewriter

V = TypeVar("V")

_logger = getLogger(__name__)

_CHECK_EVERY = 256
"""Entries between two looks at how much of a place is history, at the least."""

_MOST_CHECKED = 4096
"""Of how many places it is known when they were looked at last."""


class LockedPlaces(Protocol):
    """Places that can be edited under their locks."""

    def edit_locked(self, identity: Identity, edit: Callable[[Session, PlaceRewriter], int]) -> int:
        """Edit a place under its lock; 0 where there is none."""
        ...

    def edit(self, identity: Identity, edit: Edit) -> int:
        """Apply an edit to all entries of a place, and return how many bytes that freed."""
        ...


class _Recent(Generic[V]):
    """What is known of the places that were used last. Safe for threads."""

    def __init__(self) -> None:
        self._known: OrderedDict[Identity, V] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._known)

    def of(self, identity: Identity, default: V) -> V:
        """Return what is known of a place; from now on at least the default."""
        with self._lock:
            known = self._known.setdefault(identity, default)
            self._known.move_to_end(identity)
            self._trim()
            return known

    def set(self, identity: Identity, value: V) -> None:
        """Take note of something."""
        with self._lock:
            self._known[identity] = value
            self._known.move_to_end(identity)
            self._trim()

    def _trim(self) -> None:
        if len(self._known) > _MOST_CHECKED:
            self._known.popitem(last=False)


class Tidying:
    """Decides after each save whether its place is worth tidying. Safe for threads.

    Args:
        places: The places of a store.
        clock: The clock of the store.
        keep_history: How long older history is kept; None keeps it for ever.
    """

    def __init__(
        self, places: LockedPlaces, clock: StoreClock, keep_history: timedelta | None
    ) -> None:
        self._places = places
        self._clock = clock
        self._keep_history = keep_history
        self.start_afresh()

    def start_afresh(self) -> None:
        """Forget everything seen so far."""
        self._compacted: _Recent[tuple[int, int]] = _Recent()
        """At which number a place was last looked at for history, and how many entries it kept."""
        self._folded: _Recent[int] = _Recent()
        """Up to which number it is known whether a place has lines to fold."""

    def is_due(self, identity: Identity, last: int, folded: int) -> bool:
        """Whether `tidy` would look at a place that has so many numbers.

        Args:
            identity: The place.
            last: The number of its last line.
            folded: The number of the last line that is in a chunk.
        """
        return self._is_compaction_due(identity, last) or self._is_folding_due(
            identity, last, folded
        )

    def tidy(self, identity: Identity, last: int, folded: int) -> None:
        """Compact a place, and move its older lines into chunks, where that is worthwhile."""
        if self._is_compaction_due(identity, last):
            self._compact_halved(identity, last)
        self.fold(identity, last, folded)

    def _is_compaction_due(self, identity: Identity, last: int) -> bool:
        """Whether a place has doubled since it was looked at."""
        if self._keep_history is None:
            return False
        checked, size = self._compacted.of(identity, (last - 1, 0))
        return last - checked >= max(size, _CHECK_EVERY)

    def _is_folding_due(self, identity: Identity, last: int, folded: int) -> bool:
        """Whether there are a chunk's lines that nobody has looked at."""
        if not rewriting.is_worthwhile(last, folded):
            return False
        return rewriting.is_worthwhile(last, max(folded, self._folded.of(identity, 0)))

    def fold(self, identity: Identity, last: int, folded: int) -> None:
        """Move older lines of a large place into chunks; looked at once for each chunk's lines."""
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
        """Take out the history that is older, and return how many bytes that freed."""
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
            # The save is committed; tidying up is not what the caller asked for.
            _logger.warning("A place was not compacted: %s", type(exc).__name__)
        self._compacted.set(identity, (last, kept))
