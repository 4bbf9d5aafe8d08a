"""Views: the cached ledgers of places, with the position up to which each was read.

A view is brought up to date by `PlaceReader.follow`, and by the saves and edits of its own process
without reading them back.
"""

import threading
import time
from collections import OrderedDict
from contextlib import suppress
from math import inf

from factmem._concurrency.garbage import paused_collection
from factmem.ledger._related import refolded
from factmem.ledger.ledger import Ledger
from factmem.models.places import Identity
from factmem.providers._sql.lines import entries_of
from factmem.providers._sql.places import FACT_BYTES, Answer, Edited, Position, Saved
from factmem.providers._sql.sealing import Extent

_MOST_UNREAD = 64 * 1024
"""The bytes of own saves that a view keeps for the next read; if there are more, they are read back."""


class View:
    """The cached ledger of one place. `lock` is never held during I/O."""

    __slots__ = (
        "_bodies",
        "_ledger",
        "_read_to",
        "_times",
        "_unread",
        "checked",
        "found",
        "is_warm",
        "lock",
        "outdated",
        "position",
        "was_searched",
    )

    def __init__(self) -> None:
        self.lock: threading.Lock = threading.Lock()
        self._ledger = Ledger()
        self._bodies: list[bytes] = []
        self._times: list[int] = []
        self._unread = 0
        """The bytes of the own saves that are not applied yet."""
        self._read_to: Position | None = None
        """The position of the ledger before the own saves that are not applied yet."""
        self.position: Position | None = None
        """None before the first read, and if the place does not exist."""
        self.is_warm: bool = False
        """Whether the place was read to its end."""
        self.was_searched: bool = False
        """Whether a keyword was searched for instead."""
        self.checked: float = -inf
        """The time at which it was complete, on the monotonic clock."""
        self.found: object = None
        """A mark of the database at which the position was its end, where it has such marks."""
        self.outdated: float = -inf
        """The time of this process's last write that the ledger lacks."""

    @property
    def ledger(self) -> Ledger:
        """The ledger, after applying own saves; the caller holds the lock."""
        if self._bodies:
            for entry in entries_of(self._bodies, self._times):
                self._ledger.apply(entry)
            self._bodies, self._times, self._unread = [], [], 0
        return self._ledger

    @ledger.setter
    def ledger(self, ledger: Ledger) -> None:
        self._ledger, self._bodies, self._times, self._unread = ledger, [], [], 0

    def __len__(self) -> int:
        """The approximate number of items; needs no lock."""
        return len(self._ledger) + len(self._bodies)

    def take(self, before: Position | None, answer: Answer | None, asked: float) -> bool:
        """Apply an answer; return whether the place is now read to its end.

        If another thread has read further meanwhile, the answer is dropped.
        """
        with self.lock:
            if self.position is not before:
                return False
            self.found = None
            if answer is None:
                if before is not None:  # erased; a place that never existed keeps its empty ledger
                    self.ledger, self.position = Ledger(), None
                self.is_warm, self.checked = True, self._checked(asked)
                return True
            if answer.is_from_start:
                self.ledger = Ledger()
            ledger = self.ledger
            with paused_collection(sum(answer.sizes) // FACT_BYTES):
                for entry in answer.entries:
                    ledger.apply(entry)
            if answer.position != before:
                self.position = answer.position
            self.is_warm = answer.position.extent.last == answer.position.end
            self.checked = self._checked(asked) if self.is_warm else -inf
            return self.is_warm

    def _checked(self, asked: float) -> float:
        """Return the time of completeness; a query before an own write lacks that write."""
        return asked if asked >= self.outdated else -inf

    def add(self, saved: Saved) -> None:
        """Add own saves, if everything before them was read.

        Otherwise the next read queries the database whatever `max_staleness` is, because callers see
        their own saves. Saves are applied to the ledger at the next read.
        """
        after, bodies = saved.position, saved.bodies
        with self.lock:
            before = self.position
            first = Extent(*after.extent[:2], after.extent.last - len(bodies))
            if before is None:
                is_next = self.is_warm and first.last == 0 and first.snapshot == 0
            else:
                is_next = self.is_warm and (before.extent, before.tag) == (first, saved.tag)
            if not is_next:
                self.outdate()
                return
            if not self._bodies:
                self._read_to = before
            self._unread += sum(map(len, bodies))
            if self._unread > _MOST_UNREAD:
                self._bodies, self._times, self.position = [], [], self._read_to
                self._unread = 0
                self.outdate()
                return
            self._bodies += bodies
            self._times += [saved.at] * len(bodies)
            self.position = after

    def edit(self, seen: Position, edited: Edited) -> None:
        """Apply an own edit, without folding unaffected facts again.

        Args:
            seen: The position of the view when the row was locked.
            edited: The edit, including entries that the same transaction added.
        """
        _, before, after, end = edited
        with self.lock:
            if self.position is not seen or end is None:
                return
            for number, entry in zip(before.numbers, before.entries, strict=True):
                if number > seen.extent.last:
                    self.ledger.apply(entry)
            ledger = refolded(self.ledger, before.entries, after)
            if ledger is not None:  # else the next read starts over, at the new snapshot
                self.ledger, self.position = ledger, end

    def clear(self) -> None:
        """Forget all that was read: the database is another one now."""
        with self.lock:
            self.ledger, self.position = Ledger(), None
            self.is_warm = self.was_searched = False
            self.outdate()

    def outdate(self) -> None:
        """Make the next read ask the database."""
        self.checked, self.outdated = -inf, time.monotonic()


class Views:
    """A cache of views that evicts the least recently used."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._views: OrderedDict[Identity, View] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, identity: Identity) -> View | None:
        """Return the view of a place, if there is one."""
        view = self._views.get(identity)
        if view is not None:
            with self._lock, suppress(KeyError):  # dropped by another thread meanwhile
                self._views.move_to_end(identity)
        return view

    def of(self, identity: Identity) -> View:
        """Return the view of a place, a new one if there is none."""
        with self._lock:
            view = self._views.setdefault(identity, View())
            self._views.move_to_end(identity)
            if len(self._views) > self._most:
                self._views.popitem(last=False)
            return view

    def clear(self) -> None:
        """Drop all views, and clear them, as some are in use."""
        with self._lock:
            views = list(self._views.values())
            self._views.clear()
        for view in views:
            view.clear()

    def drop(self, identity: Identity) -> None:
        """Drop a place's view."""
        with self._lock:
            self._views.pop(identity, None)
