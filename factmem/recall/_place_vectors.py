"""PlaceVectors: the embedding vectors of one place, and their changes since the stored index."""

import threading
from array import array
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import nan
from time import monotonic

from factmem.recall._arrays import Array, numpy_or_none
from factmem.recall._vector_table import VectorTable

_WORTHWHILE = 64
"""An index is written when 1/64 of it has changed: writing then costs no more than embedding."""

_SECONDS = 60.0
"""Smaller changes are written if the last write was at least this many seconds ago."""


class TextRows:
    """The rows of some texts in a table, cached until the table changes.

    Args:
        digests: The digests of the texts.
    """

    def __init__(self, digests: Sequence[bytes]) -> None:
        self.digests = digests
        self._known: tuple[VectorTable | None, int] = (None, 0)
        self._rows: Array = None
        self.is_whole: bool = False
        """Whether the texts are exactly the rows of the table, in order."""

    def of(self, np: Array, table: VectorTable) -> Array:
        """Return the row of each text; -1 without one."""
        if self._known != (table, table.changes):
            self._known = table, table.changes
            rows = (-1 if row is None else row for row in table.rows(self.digests))
            self._rows = np.fromiter(rows, np.intp, len(self.digests))
            self.is_whole = bool(np.array_equal(self._rows, np.arange(table.width)))
        return self._rows


class PlaceVectors:
    """The vectors of one place's texts, of one model at a time. Thread-safe.

    Comparing and serializing vectors holds the lock for up to seconds. Therefore event loops read
    without the lock.

    Args:
        clock: A monotonic clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self.model: str = ""
        """The model in use; `use` changes it last."""
        self._table: VectorTable | None = None
        self.is_looked_up: bool = False
        """Whether the stored index was read for this model."""
        self._unsaved: set[bytes] = set()
        """Digests that are missing in the stored index, or that it has although they were
        removed."""
        self._written_at = float("-inf")
        self._whole_for = 0
        """The number of the latest snapshot whose texts all have a vector or were refused."""
        self._refused: set[bytes] = set()
        self.cut: int = 1
        """The number of parts that a batch is split into; adapts to the last requests."""

    @property
    def is_unsaved(self) -> bool:
        """Whether the stored index is out of date."""
        return self._table is not None and bool(self._unsaved)

    @property
    def refused(self) -> int:
        """The number of texts without a vector because the embedder refused them."""
        return len(self._refused)

    def use(self, model: str, dimensions: int) -> None:
        """Drop vectors of another model, or of other dimensions."""
        with self._lock:
            table = self._table
            is_same = table is not None and table.dimensions == dimensions
            if model != self.model or (table is not None and not is_same):
                self._table, self.is_looked_up, self._whole_for = None, False, 0
                self._unsaved, self._refused = set(), set()
                self.cut = 1
            self.model = model

    def are_whole(self, number: int, model: str, dimensions: int) -> bool:
        """Whether all texts of a snapshot, or of a later one, have a vector of this model.

        Refused texts count as if they had one.
        """
        return self.are_of(model, dimensions) and number <= self._whole_for

    def are_of(self, model: str, dimensions: int) -> bool:
        """Whether the vectors, if any, are of a model and have these dimensions."""
        table = self._table
        return model == self.model and (table is None or table.dimensions == dimensions)

    def take_index(self, index: bytes | None, dimensions: int) -> None:
        """Load the stored index; ignore it if it is damaged or of another model."""
        table: VectorTable | None = None
        if index is not None:
            try:
                table = VectorTable.load(index, self.model)
            except ValueError:
                table = None
        with self._lock:
            if self.is_looked_up:
                return
            self.is_looked_up = True
            if table is not None and table.dimensions == dimensions:
                self._table = table

    def missing(self, digests: AbstractSet[bytes]) -> list[bytes]:
        """Return the digests that have no vector and were not refused, in order."""
        with self._lock:
            known = set[bytes]() if self._table is None else self._table.keys()
            if known >= digests:
                return []
            refused = self._refused
            return [each for each in digests if each not in known and each not in refused]

    def add(self, vectors: Mapping[bytes, Sequence[float] | None]) -> None:
        """Add vectors of the current model and dimensions; None for a text that was refused."""
        with self._lock:
            for digest, vector in vectors.items():
                if vector is None:
                    self._refused.add(digest)  # so that it is not sent again
                    continue
                if self._table is None:
                    self._table = VectorTable(len(vector))
                if digest not in self._table:
                    self._table.add(digest, vector)
                    self._unsaved ^= {digest}

    def keep(self, digests: AbstractSet[bytes], number: int | None = None) -> None:
        """Drop all texts that are not in a snapshot.

        Args:
            digests: The digests of the snapshot's texts.
            number: The snapshot's number, if all its texts were embedded. If another event loop
                has dropped the vector of a text meanwhile, the next recall embeds it again.
        """
        with self._lock:
            if self._table is not None:
                for digest in self._table.keys() - digests:
                    self._table.discard(digest)
                    self._unsaved ^= {digest}
            self._refused &= digests
            if number is not None and not self.missing(digests):
                self._whole_for = number

    @property
    def changes(self) -> object:
        """A token that differs after each change of the vectors."""
        table = self._table
        return None if table is None else (table, table.changes)

    def cosines(self, vector: "array[float]", texts: TextRows) -> Array:
        """Return the cosine between each text and a vector of length 1.

        NaN for texts without a vector, and for all texts if the dimensions differ.
        """
        np: Array = numpy_or_none()
        with self._lock:
            table = self._table
            if table is None or table.dimensions != len(vector):
                return np.full(len(texts.digests), nan)
            rows, products = texts.of(np, table), table.products(vector)
            return products if texts.is_whole else np.append(products, nan)[rows]  # row -1 is last

    def total(
        self, texts: TextRows, chosen: Sequence[bool] | None, dimensions: int
    ) -> Sequence[float] | None:
        """Return the sum of the vectors of texts; None if no vector has these dimensions.

        Args:
            texts: The texts; repeated texts count repeatedly.
            chosen: Whether each text counts; None means all.
            dimensions: The dimensions of the sum.
        """
        np: Array = numpy_or_none()
        with self._lock:
            table = self._table
            if table is None or table.dimensions != dimensions:
                return None
            rows = texts.of(np, table)
            if chosen is None and texts.is_whole:
                return table.total(None)
            is_counted = rows >= 0 if chosen is None else (rows >= 0) & np.array(chosen, np.bool_)
            return table.total(rows[is_counted])

    def settle(
        self, digests: AbstractSet[bytes], number: int | None = None, *, is_last: bool = False
    ) -> tuple[bytes, frozenset[bytes]] | None:
        """Call `keep` and then `worth_writing`, atomically.

        Otherwise another event loop could add a text in between that was purged after that loop
        read it, and the index of this snapshot would contain it.
        """
        with self._lock:
            self.keep(digests, number)
            return self.worth_writing(is_last=is_last)

    def worth_writing(self, *, is_last: bool = False) -> tuple[bytes, frozenset[bytes]] | None:
        """Return an index for the store and its changed digests; None if writing can wait.

        The next process embeds the texts again whose vectors were not written: less than 1/64 of
        a place's texts, and only those of the last minute.

        Args:
            is_last: Write even small changes.
        """
        with self._lock:
            table, unsaved = self._table, self._unsaved
            if table is None or not unsaved:
                return None
            is_recent = self._clock() - self._written_at < _SECONDS
            if not is_last and is_recent and len(unsaved) * _WORTHWHILE < len(table):
                return None
            return table.dump(self.model), frozenset(unsaved)

    def mark_written(self, new: frozenset[bytes]) -> None:
        """Record that the stored index has these changes."""
        with self._lock:
            self._unsaved ^= new
            self._written_at = self._clock()
