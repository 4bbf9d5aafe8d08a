"""Compaction of old history after saves."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from logging import getLogger

from factmem.errors import FactmemError
from factmem.ledger._removal import compacted
from factmem.ledger.entries import Edit, Entry
from factmem.models.places import Identity
from factmem.models.when import before
from factmem.providers._backend import StoreClock

_logger = getLogger(__name__)

_CHECK_EVERY = 256
"""The least number of entries between two checks of how much of a place is history."""

_MOST_KNOWN = 4096
"""The places whose last check is remembered."""


class Tidying:
    """Compacts places after saves, when more than half of them is old history. Thread-safe."""

    def __init__(
        self,
        edit: Callable[[Identity, Edit], int],
        clock: StoreClock,
        keep_history: timedelta | None,
    ) -> None:
        self._edit = edit
        self._clock = clock
        self._keep_history = keep_history
        self._compacted: dict[Identity, tuple[int, int]] = {}
        """The last number of a place at its last check for history, and the entries it kept."""

    def compact(self, identity: Identity, keep_history: timedelta) -> int:
        cutoff = before(self._clock.recording(), keep_history)
        return self._edit(identity, lambda entries: compacted(entries, cutoff))

    def tidy(self, identity: Identity, last: int) -> None:
        """Compact a place if it has doubled since the last check, and more than half is history."""
        if self._keep_history is None:
            return
        if len(self._compacted) >= _MOST_KNOWN:  # a process may save to millions of places
            self._compacted.clear()
        checked, kept = self._compacted.setdefault(identity, (last - 1, 0))
        if last - checked < max(kept, _CHECK_EVERY):
            return
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
            self._edit(identity, halve)
        except FactmemError as exc:
            # The save is committed, and the caller did not ask for a compaction.
            _logger.warning("A place was not compacted: %s", type(exc).__name__)
        self._compacted[identity] = last, kept
