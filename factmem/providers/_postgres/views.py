"""What a process has read of each place: a ledger, and how far it goes."""

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from math import inf

from factmem.concurrency.garbage import paused_collection
from factmem.ledger.ledger import Ledger
from factmem.ledger.related import refolded
from factmem.models.places import Identity
from factmem.providers._postgres.chunks import entries_of
from factmem.providers._postgres.places import Answer, Edited, Position
from factmem.providers._postgres.sealing import Extent

_MOST_UNREAD = 64
"""Own saves that a ledger lacks until somebody reads it; from then on they are read back instead."""


class View:
    """One place's ledger as far as this process has read it. `lock` is for pure work only."""

    __slots__ = (
        "_bodies",
        "_ledger",
        "_read_to",
        "_times",
        "checked",
        "is_warm",
        "lock",
        "outdated",
        "position",
        "was_searched",
    )

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._ledger = Ledger()
        self._bodies: list[bytes] = []
        self._times: list[int] = []
        self._read_to: Position | None = None
        """The position that the ledger had before the own saves that it lacks."""
        self.position: Position | None = None
        """None before the first read, and where there is no such place."""
        self.is_warm = False
        """Whether the place was read to its end."""
        self.was_searched = False
        """Whether it was searched for a keyword instead."""
        self.checked = -inf
        """When it was known to be complete, on the monotonic clock."""
        self.outdated = -inf
        """When this process last wrote something that the ledger lacks."""

    @property
    def ledger(self) -> Ledger:
        """The ledger, with own saves that were not read until now; under the lock."""
        if self._bodies:
            for entry in entries_of(self._bodies, self._times):
                self._ledger.apply(entry)
            self._bodies, self._times = [], []
        return self._ledger

    @ledger.setter
    def ledger(self, ledger: Ledger) -> None:
        self._ledger, self._bodies, self._times = ledger, [], []

    def __len__(self) -> int:
        """About how many items there are, for those who do not hold the lock."""
        return len(self._ledger) + len(self._bodies)

    def take(self, before: Position | None, answer: Answer | None, asked: float) -> bool:
        """Take in an answer; return whether the place is now read to its end.

        Another thread may have read on meanwhile: then the answer is dropped.
        """
        with self.lock:
            if self.position is not before:
                return False
            if answer is None:
                if before is not None:  # erased; a place that never was keeps its empty ledger
                    self.ledger, self.position = Ledger(), None
                self.is_warm, self.checked = True, self._checked(asked)
                return True
            if answer.is_from_start:
                self.ledger = Ledger()
            ledger = self.ledger
            with paused_collection(len(answer.entries)):
                for entry in answer.entries:
                    ledger.apply(entry)
            if answer.position != before:
                self.position = answer.position
            self.is_warm = answer.position.extent.last == answer.position.end
            self.checked = self._checked(asked) if self.is_warm else -inf
            return self.is_warm

    def _checked(self, asked: float) -> float:
        """Return when the place was complete: a question before a write of ours lacks that write."""
        return asked if asked >= self.outdated else -inf

    def took(self, after: Position, tag: bytes, at: int, bodies: Sequence[bytes]) -> None:
        """Take in what this process has just written, if all before it was read.

        Otherwise the next read must ask the database, however stale it may be: callers see their
        own saves. It is folded when somebody reads.

        Args:
            after: The end of the place.
            tag: The tag of the line before.
            at: When it was recorded, in microseconds.
            bodies: The entries, encoded.
        """
        with self.lock:
            before = self.position
            first = Extent(*after.extent[:2], after.extent.last - len(bodies))
            if before is None:
                is_next = self.is_warm and first.last == 0 and first.snapshot == 0
            else:
                is_next = self.is_warm and (before.extent, before.tag) == (first, tag)
            if not is_next:
                self.outdate()
                return
            if not self._bodies:
                self._read_to = before
            if len(self._bodies) >= _MOST_UNREAD:
                self._bodies, self._times, self.position = [], [], self._read_to
                self.outdate()
                return
            self._bodies += bodies
            self._times += [at] * len(bodies)
            self.position = after

    def took_edit(self, seen: Position, edited: Edited) -> None:
        """Take in an edit by this process: only what it touched is folded again.

        Args:
            seen: How far the place was read when its row was locked.
            edited: The edit, also of what the same transaction added.
        """
        _, before, after, end = edited
        with self.lock:
            if self.position is not seen or end is None:
                return
            for number, entry in zip(before.numbers, before.entries, strict=True):
                if number > seen.extent.last:
                    self.ledger.apply(entry)
            ledger = refolded(self.ledger, before.entries, after)
            if ledger is not None:  # else the next read begins anew, at the new snapshot
                self.ledger, self.position = ledger, end

    def outdate(self) -> None:
        """Have the next read ask the database."""
        self.checked, self.outdated = -inf, time.monotonic()


class Views:
    """The views of many places, of which the least recently used are dropped."""

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

    def drop(self, identity: Identity) -> None:
        """Drop a place's view."""
        with self._lock:
            self._views.pop(identity, None)
