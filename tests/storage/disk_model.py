"""A model of a disk: its cache, its platter, and every mixture that a power cut may leave.

Content that was not synced survives by sectors, each as it was written, as it was before, as zeros
or, where it is new, as the stale content of a file that is gone; and the file may be cut at any
size in between. Changes of a folder that was not synced survive in any combination. What was synced
stays.
"""

import random
from collections.abc import Iterable, Iterator
from itertools import product
from typing import TypeAlias

__all__ = ["FOLDER", "SECTOR", "Flight", "Folder", "Image", "Inode"]

SECTOR = 128


class Image(dict[str, bytes | None]):
    """The content of a disk: files with their bytes, folders with None."""

    vouched: frozenset[str] = frozenset()
    """The files whose time still vouches for them."""


_MOST_COMBINED = 5
"""Changes of a folder that are combined in every way; of more, only the first ones are."""


class Inode:
    """A file's content, as processes see it and as it is durable."""

    __slots__ = ("_flights", "data", "dirty", "doubtful", "kept", "lost", "vouched")

    def __init__(self, content: bytes = b"") -> None:
        self.data = bytearray(content)
        """The content that processes see."""
        self.kept = content
        """The content that survives every power cut."""
        self.dirty: set[int] = set()
        """The sectors that were written since the last sync."""
        self.doubtful: set[int] = set()
        """The sectors that a failed sync may have written, or not."""
        self.lost: set[int] = set()
        """Those of them whose blocks are marked unwritten: no later sync of this file keeps what is
        written there, although it succeeds, and they read as zeros after a power cut."""
        self.vouched = False
        self._flights: list[Flight] = []

    def write(self, data: bytes, offset: int) -> None:
        """Write data at an offset, visible to processes; the file's time changes."""
        self.vouched = False
        if data:
            end = offset + len(data)
            self.data[offset:end] = data
            written = range(offset // SECTOR, (end - 1) // SECTOR + 1)
            self.dirty.update(written)
            for flight in self._flights:
                flight.rewritten.update(written)

    def begin_sync(self) -> "Flight":
        """Start a sync: until it ends, any part of the written data may be durable."""
        flight = Flight(bytes(self.data), frozenset(self.dirty))
        self._flights.append(flight)
        return flight

    def end_sync(self, flight: "Flight") -> None:
        """Make durable what was written before the sync began, except data lost earlier."""
        self._flights.remove(flight)
        kept = flight.sectors - self.lost
        size = max(len(self.kept), len(flight.data))
        self.kept = _mixed(self.kept, flight.data, size, kept)
        self.doubtful -= kept
        self.dirty -= flight.sectors - flight.rewritten

    def drop(self, flight: "Flight") -> None:
        """Fail a sync, or kill its process: its data stays not durable."""
        self._flights.remove(flight)

    def sync(self) -> None:
        """Make durable what was written since the last sync, except data lost earlier."""
        self.end_sync(self.begin_sync())

    def fail_to_sync(self, *, keeps_cache: bool) -> None:
        """Keep an unknown part and treat all of it as durable, like Linux after an error."""
        if keeps_cache:
            self.doubtful |= self.dirty
            self.lost |= {each for each in self.dirty if each * SECTOR >= len(self.kept)}
        else:
            self.data[:] = self.kept
        self.dirty.clear()

    def _left(self, size: int, written: set[int]) -> bytes:
        """Return the durable content, at some size, with some sectors as they were written."""
        return _mixed(self.kept, self.data, size, written)

    def is_kept(self) -> bool:
        """Return True if only one content is possible."""
        return not self.dirty and not self.doubtful and len(self.kept) == len(self.data)

    def some_content(self, rng: random.Random, stale: list[bytes]) -> bytes:
        """Return a content that a power cut may leave; `stale` is the content of removed files."""
        if self.is_kept():
            return self.kept
        low, high = len(self.kept), len(self.data)
        size = high if rng.random() < 0.4 else rng.randint(low, high)
        is_whole = rng.random() < 0.25
        unkept = self.dirty | self.doubtful
        written = {sector for sector in unkept if is_whole or rng.random() < 0.6}
        content = self._left(size, written)
        if stale and rng.random() < 0.2:
            content = self._with_stale(content, unkept - written, rng.choice(stale))
        return content

    def _with_stale(self, content: bytes, unwritten: set[int], stale: bytes) -> bytes:
        left = bytearray(content)
        for sector in unwritten:
            start, end = sector * SECTOR, min(len(left), (sector + 1) * SECTOR)
            if start >= len(self.kept) and start < end:
                part = stale[start:end]
                left[start : start + len(part)] = part
        return bytes(left)

    def all_contents(self) -> list[bytes]:
        """Return every content that a power cut may leave, except stale ones."""
        contents: dict[bytes, None] = {}
        unkept = sorted(self.dirty | self.doubtful)
        for size in range(len(self.kept), len(self.data) + 1):
            for chosen in product((True, False), repeat=len(unkept)):
                written = {sector for sector, is_in in zip(unkept, chosen, strict=True) if is_in}
                contents[self._left(size, written)] = None
        return list(contents)


class Flight:
    """A sync that has begun and not ended, with the data that it covers."""

    __slots__ = ("data", "rewritten", "sectors")

    def __init__(self, data: bytes, sectors: frozenset[int]) -> None:
        self.data = data
        self.sectors = sectors
        self.rewritten: set[int] = set()
        """The sectors that were written since it began: only another sync covers them."""


def _mixed(kept: bytes, data: bytes | bytearray, size: int, written: Iterable[int]) -> bytes:
    """Return durable content, at some size, with some sectors of other content."""
    left = bytearray(kept[:size])
    left += bytes(size - len(left))
    for sector in written:
        part = slice(sector * SECTOR, min(size, (sector + 1) * SECTOR))
        left[part] = data[part]
    return bytes(left)


FOLDER = Inode()
"""Represents a folder in its parent folder."""

_Change: TypeAlias = tuple[tuple[str, Inode | None], ...]
"""The effect of a folder operation on names, which is atomic."""


class Folder:
    """Names, as processes see them and as they are durable."""

    def __init__(self) -> None:
        self.seen: dict[str, Inode] = {}
        self.kept: dict[str, Inode] = {}
        self._pending: list[_Change] = []

    def change(self, *change: tuple[str, Inode | None]) -> None:
        """Set names to files, or remove names set to None, in one step."""
        self._pending.append(change)
        _apply(change, self.seen)

    def sync(self) -> None:
        """Make the names durable."""
        if self._pending:
            self.kept = dict(self.seen)
            self._pending = []

    def outcomes(self) -> Iterator[dict[str, Inode]]:
        """Yield every combination of names that a power cut may leave; the visible ones first."""
        count = len(self._pending)
        if count <= _MOST_COMBINED:
            chosen = list(product((True, False), repeat=count))
        else:
            chosen = [tuple(at < first for at in range(count)) for first in range(count, -1, -1)]
        for each in chosen:
            names = dict(self.kept)
            for is_chosen, change in zip(each, self._pending, strict=True):
                if is_chosen:
                    _apply(change, names)
            yield names


def _apply(change: _Change, names: dict[str, Inode]) -> None:
    for name, inode in change:
        if inode is None:
            names.pop(name, None)
        else:
            names[name] = inode
