"""The vectors of one place's texts, and what the store's index has of them."""

import threading
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import nan
from time import monotonic
from typing import cast

from factmem.recall.arrays import Array, numpy_or_none
from factmem.recall.vector_table import VectorTable

__all__ = ["PlaceVectors", "TextRows"]


_WORTHWHILE = 64
"""An index is written when a 64th of it is new or gone: so writing costs no more than embedding."""

_SECONDS = 60.0
"""Less than that is written when the last writing was a minute ago."""


class TextRows:
    """The rows of some texts in a table, kept until the table changes.

    Args:
        digests: Those of the texts.
    """

    def __init__(self, digests: Sequence[bytes]) -> None:
        self.digests = digests
        self._table: VectorTable | None = None
        self._changes = 0
        self._rows: Sequence[int] = ()
        self._is_whole = False
        """Whether the texts are those of all rows, in the order of the rows."""

    def taken_from(self, table: VectorTable, products: Sequence[float]) -> Sequence[float]:
        """Return each text's product; NaN where it has no row."""
        self._follow(table)
        np = numpy_or_none()
        if np is None or not self._rows or not len(products):
            return [products[row] if row >= 0 else nan for row in self._rows]
        if self._is_whole and len(products) == len(self._rows):
            return products
        rows = np.frombuffer(self._rows, np.int64)
        taken: Array = np.asarray(products)[rows]
        taken[rows < 0] = nan
        return cast("Sequence[float]", taken)

    def chosen(self, table: VectorTable, chosen: Sequence[bool] | None) -> Sequence[int] | None:
        """Return the rows of the chosen texts that have one; None for every row of the table."""
        self._follow(table)
        if chosen is None:
            return None if self._is_whole else [row for row in self._rows if row >= 0]
        held = zip(self._rows, chosen, strict=True)
        return [row for row, is_chosen in held if is_chosen and row >= 0]

    def _follow(self, table: VectorTable) -> None:
        if self._table is not table or self._changes != table.changes:
            rows = table.rows(self.digests)
            self._table, self._changes = table, table.changes
            self._rows = array("q", [-1 if row is None else row for row in rows])
            self._is_whole = list(self._rows) == list(range(table.width))


class PlaceVectors:
    """The vectors of one place's texts, by one model at a time. Safe for threads.

    The lock is held while vectors are compared and written, which takes up to seconds: only what
    worker threads call waits for it. What event loops ask reads what is there.

    Args:
        clock: Tells seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._model = ""
        self._table: VectorTable | None = None
        self._is_looked_up = False
        self._unsaved: set[bytes] = set()
        """What the store's index lacks, or has too much, as far as is known."""
        self._written_at = float("-inf")
        self._whole_for = 0
        """The number of the latest reading of which every text has a vector, or was refused."""
        self._refused: set[bytes] = set()
        self.cut: int = 1
        """Into how many parts a batch of texts is cut, by how the last requests went."""

    @property
    def is_unsaved(self) -> bool:
        """Whether the store's index lacks something, as far as is known."""
        return self._table is not None and bool(self._unsaved)

    @property
    def refused(self) -> int:
        """How many texts go without a vector, as the embedder refused them."""
        return len(self._refused)

    @property
    def model(self) -> str:
        """The model in use."""
        return self._model

    def use(self, model: str, dimensions: int) -> None:
        """Let go of vectors of another model, or of other dimensions."""
        with self._lock:
            table = self._table
            is_same = table is not None and table.dimensions == dimensions
            if model != self._model or (table is not None and not is_same):
                self._table, self._is_looked_up, self._whole_for = None, False, 0
                self._unsaved, self._refused = set(), set()
                self.cut = 1
            self._model = model

    def are_whole(self, number: int, model: str, dimensions: int) -> bool:
        """Whether every text of a reading, or of a later one, has a vector of this model.

        Those that it refused count as if they had one.
        """
        table = self._table
        return (
            model == self._model  # which `use` changes last
            and number <= self._whole_for
            and (table is None or table.dimensions == dimensions)
        )

    @property
    def is_looked_up(self) -> bool:
        """Whether the store's index was looked at for this model."""
        return self._is_looked_up

    def take_index(self, index: bytes | memoryview | None, dimensions: int) -> None:
        """Take in what the store's index has; one of another model, or damaged, has nothing."""
        table: VectorTable | None = None
        if index is not None:
            try:
                table = VectorTable.load(index, self._model)
            except ValueError:
                table = None
        with self._lock:
            if self._is_looked_up:
                return
            self._is_looked_up = True
            if table is not None and table.dimensions == dimensions:
                self._table = table

    def missing(self, digests: Collection[bytes]) -> list[bytes]:
        """Return the digests that have no vector and were not refused, in their order."""
        with self._lock:
            known = self._refused if self._table is None else self._refused | self._table.keys()
            return [each for each in digests if each not in known]

    def refuse(self, digest: bytes) -> None:
        """Note that the embedder refuses a text, so that it is not given it again and again."""
        with self._lock:
            self._refused.add(digest)

    def add(self, vectors: Mapping[bytes, Sequence[float]]) -> None:
        """Take in vectors of the model and the dimensions in use."""
        with self._lock:
            for digest, vector in vectors.items():
                if self._table is None:
                    self._table = VectorTable(len(vector))
                if digest not in self._table:
                    self._table.add(digest, vector)
                    self._unsaved ^= {digest}

    def keep(self, digests: AbstractSet[bytes], number: int | None = None) -> None:
        """Let go of all texts but those of a reading.

        Args:
            digests: Those of the reading's texts.
            number: The reading's, where all of them were to get their vectors. One that has none,
                as another event loop let go of it meanwhile, gets it in the next recall.
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
        """A value that is another one after each change of the vectors."""
        table = self._table
        return None if table is None else (table, table.changes)

    def cosines(self, vector: "array[float]", texts: "TextRows") -> Sequence[float]:
        """Return the cosine between each text and a vector of length 1.

        It is NaN where a text has no vector, and for all texts where the dimensions differ.
        """
        with self._lock:
            table = self._table
            if table is None or table.dimensions != len(vector):
                return [nan] * len(texts.digests)
            return texts.taken_from(table, table.products(vector))

    def total(
        self, texts: "TextRows", chosen: Sequence[bool] | None, dimensions: int
    ) -> Sequence[float] | None:
        """Return the sum of the vectors of texts; None where none has one of these dimensions.

        Args:
            texts: The texts; one that is there twice counts twice.
            chosen: Whether each of them counts; None means all.
            dimensions: Those of the sum.
        """
        with self._lock:
            table = self._table
            if table is None or table.dimensions != dimensions:
                return None
            return table.total(texts.chosen(table, chosen))

    def settle(
        self, digests: AbstractSet[bytes], number: int | None = None, *, is_last: bool = False
    ) -> tuple[bytes, frozenset[bytes]] | None:
        """Do what `keep` and then `worth_writing` do, with nothing between them.

        Another event loop may be about to take in a text that was purged after it had read it: an
        index of this reading must not have it.
        """
        with self._lock:
            self.keep(digests, number)
            return self.worth_writing(is_last=is_last)

    def worth_writing(self, *, is_last: bool = False) -> tuple[bytes, frozenset[bytes]] | None:
        """Return an index for the store, and what is new in it; None where it can wait.

        What a process has not written when it ends is embedded again by the next one: less than a
        64th of a place's texts, and only if they came within a minute.

        Args:
            is_last: Whether nothing can wait any longer.
        """
        with self._lock:
            table, unsaved = self._table, self._unsaved
            if table is None or not unsaved:
                return None
            is_recent = self._clock() - self._written_at < _SECONDS
            if not is_last and is_recent and len(unsaved) * _WORTHWHILE < len(table):
                return None
            return table.dump(self._model), frozenset(unsaved)

    def written(self, new: frozenset[bytes]) -> None:
        """Note that the store's index has what was new in it, or gone from it."""
        with self._lock:
            self._unsaved ^= new
            self._written_at = self._clock()
