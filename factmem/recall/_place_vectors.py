"""Vectors of facts, and their comparison with a question. Needs numpy, except for masks of slots.

VectorTable   vectors by key, and their cosines with another vector
PlaceVectors  the vectors of one place, and their changes since the stored index
TextSlots     the texts of an index's facts by slot, with cosines and the common direction

All vectors are compared, so none is missed: 5,000 of 384 numbers take well under a millisecond.
"""

import json
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from logging import getLogger
from math import fsum, hypot, nan
from time import monotonic
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

from factmem.models.places import Identity

Array: TypeAlias = Any
"""A numpy array. Its own type cannot be named here, because numpy is optional."""

_logger = getLogger(__name__)


@cache
def numpy_or_none() -> ModuleType | None:
    """Return numpy, or None if it cannot be imported.

    The import is attempted once and takes about 0.1 seconds. A broken installation is logged.
    """
    try:
        import numpy as np
    except Exception as exc:  # noqa: BLE001 - a broken package can raise any exception
        if not (isinstance(exc, ModuleNotFoundError) and exc.name == "numpy"):
            _logger.warning(
                "numpy is installed and cannot be imported (%s): recall works without it, "
                "up to a hundred times more slowly",
                type(exc).__name__,
            )
        return None
    # An empty folder that an uninstallation left behind is an importable namespace package.
    return np if hasattr(np, "einsum") else None


def both(first: bytearray, second: bytearray) -> bytearray:
    """Return the intersection of two masks, computed as one operation on two large integers."""
    size = len(first)
    bits = int.from_bytes(first, "little") & int.from_bytes(second, "little")
    return bytearray(bits.to_bytes(size, "little"))


Floats: TypeAlias = "array[float]"

_MAGIC = b"factmem vectors 1\n"
_KEY_BYTES = 16
_FLOAT, _FLOAT_BYTES = "<f4", 4
_LONGEST_HEAD = 2**16
"""The maximum size of a table's header, in bytes."""


class VectorTable:
    """Vectors of one model by keys of 16 bytes. Calls must not overlap with a change.

    Only directions count: vectors are stored at length 1. A vector of zeros has cosine 0 with all.
    """

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._rows: dict[bytes, int] = {}
        """The row of each key."""
        self._free: list[int] = []
        """The rows of discarded keys."""
        self._numbers: array[float] = array("f")
        """The rows, concatenated."""
        self.changes: int = 0
        """Increases with each change of the keys."""
        self._total: Array = None
        """The sum of all vectors, cached after its first use."""

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._rows)

    def keys(self) -> AbstractSet[bytes]:
        """Return a live view of the keys."""
        return self._rows.keys()

    def rows(self, keys: Iterable[bytes]) -> list[int | None]:
        """Return the row of each key; None for an unknown key."""
        return list(map(self._rows.get, keys))

    def add(self, key: bytes, vector: Sequence[float]) -> None:
        """Add a vector; a key that exists keeps its vector."""
        if len(vector) != self.dimensions:
            raise ValueError(f"vector must have {self.dimensions} dimensions, not {len(vector)}")
        if key in self._rows:
            return
        self.changes += 1
        numbers = unit(vector)
        if self._free:
            row = self._rows[key] = self._free.pop()
            self._numbers[row * self.dimensions : (row + 1) * self.dimensions] = numbers
        else:
            self._rows[key] = self.width
            self._numbers.extend(numbers)
        if self._total is not None:
            self._total += numbers

    def discard(self, key: bytes) -> None:
        """Remove a vector, if it exists. A later vector reuses its row."""
        row = self._rows.pop(key, None)
        if row is not None:
            self.changes += 1
            if self._total is not None:
                at = row * self.dimensions
                self._total -= self._numbers[at : at + self.dimensions]
            self._free.append(row)

    @property
    def width(self) -> int:
        """The number of rows, including those of discarded keys."""
        return len(self._numbers) // self.dimensions

    def products(self, vector: Floats) -> Array:
        """Return the cosine between each row and a vector of length 1, from -1 to 1.

        The operator `@` would use BLAS, whose threads spend more time waiting for each other than
        working if the processors are busy.
        """
        np: Array = numpy_or_none()
        return np.einsum("ij,j->i", self._matrix(np), np.frombuffer(vector, np.float32))

    def _matrix(self, np: Array) -> Array:
        return np.frombuffer(self._numbers, np.float32).reshape(-1, self.dimensions)

    def total(self, rows: Sequence[int] | Array | None) -> Sequence[float] | None:
        """Return the sum of some rows, or of all keys; None if there is none.

        The sum is in double precision, so that in single precision it depends neither on the order
        of the rows nor on vectors that were added and removed.
        """
        if not len(self._rows if rows is None else rows):
            return None
        np: Array = numpy_or_none()
        total = self._total if rows is None else None
        if total is None:
            chosen = np.array([*self._rows.values()] if rows is None else rows, np.intp)
            total = np.add.reduce(self._matrix(np)[chosen], axis=0, dtype=np.float64)
            self._total = total if rows is None else self._total
        numbers: Sequence[float] = total.tolist()
        return numbers

    def dump(self, model: str) -> bytes:
        """Return the table as bytes, with the name of the model that made the vectors."""
        np: Array = numpy_or_none()
        header = {"model": model, "dimensions": self.dimensions, "count": len(self)}
        keys = sorted(self._rows, key=self._rows.__getitem__)
        rows = np.array([self._rows[key] for key in keys], np.intp)
        numbers = self._matrix(np)[rows].astype(_FLOAT, copy=False)
        return b"".join((_MAGIC, json.dumps(header).encode(), b"\n", *keys, numbers))

    @classmethod
    def load(cls, data: bytes, model: str) -> "VectorTable":
        """Return the table of a dump."""
        header_end = data.find(b"\n", len(_MAGIC), _LONGEST_HEAD) + 1
        rest = memoryview(data)[header_end:]  # without copying hundreds of megabytes
        try:
            header = json.loads(data[len(_MAGIC) : header_end])
            dimensions, count = header["dimensions"], header["count"]
            is_ours = data.startswith(_MAGIC) and header["model"] == model
            keys_end = _KEY_BYTES * count
            is_whole = len(rest) == keys_end + _FLOAT_BYTES * count * dimensions
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError("The data is not a table of vectors") from None
        if not (is_ours and is_whole and dimensions > 0):
            raise ValueError("The data is not a table of vectors of this model")
        table = cls(dimensions)
        keys = bytes(rest[:keys_end])
        table._rows = {
            keys[at : at + _KEY_BYTES]: row for row, at in enumerate(range(0, keys_end, _KEY_BYTES))
        }
        np: Array = numpy_or_none()
        table._numbers.frombytes(
            np.frombuffer(rest[keys_end:], _FLOAT).astype("f4", copy=False).tobytes()
        )
        if len(table._rows) != count:
            raise ValueError("The table of vectors has a duplicate key")
        return table


def unit(vector: Sequence[float]) -> "array[float]":
    """Return a vector scaled to length 1, in single precision."""
    length = hypot(*vector)
    if not length:
        return array("f", vector)
    return array("f", [number / length for number in vector])


_WORTHWHILE = 64
"""An index is written when 1/64 of it has changed: writing then costs no more than embedding."""

_SECONDS = 60.0
"""Smaller changes are written if the last write was at least this many seconds ago."""


class TextRows:
    """The rows of some texts in a table, cached until the table changes."""

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
        try:
            table = None if index is None else VectorTable.load(index, self.model)
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

        A repeated text counts repeatedly; without `chosen` all texts count.
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


COMMON = 0.3
"""The share of a fact's cosine with the mean vector of the facts that ranking subtracts. This
removes what all texts have in common, such as their language or form."""


class QuestionVectors(NamedTuple):
    """The vector of a question, and the vectors of the texts of some places."""

    vector: "array[float]"
    places: Mapping[Identity, PlaceVectors]


class Spread(NamedTuple):
    """Statistics of all cosines, for use if only those of some candidates are known."""

    usual: float
    """The cosine of a random fact."""
    mean: float
    """The mean of the ranked cosines."""
    least: float
    """The least of the ranked cosines."""


class Nearness(NamedTuple):
    """The cosines of facts with a question, as numpy arrays by slot; NaN without a vector."""

    cosines: Array
    ranked: Array
    """The cosines minus a share of the common direction, for ranking."""
    spread: Spread | None = None
    """Statistics of all facts; None if `cosines` has all of them."""


class _Held(NamedTuple):
    """The slots and the texts of a place, in the same order."""

    slots: "array[int]"
    texts: TextRows
    is_row: bool
    """Whether the slots are consecutive."""

    def where(self, np: Array) -> Any:
        """Return an index of the slots in a numpy array: a slice if possible, which is faster."""
        if self.is_row:
            return slice(self.slots[0], self.slots[-1] + 1)
        return np.frombuffer(self.slots, np.uint32)


class TextSlots:
    """The digests of the texts of an index's facts, by place and slot."""

    def __init__(self) -> None:
        self._digests: dict[Identity, dict[int, bytes]] = {}
        self._rows: dict[Identity, _Held] = {}
        """The slots and the texts of each place, cached until one of them changes."""
        self._common: tuple[object, Any] = (None, None)
        """The cosine of each slot with the common direction, and the texts and the changes of the
        vectors that it was computed from."""

    def put(self, identity: Identity, slot: int, digest: bytes) -> None:
        """Set the text of a slot, by its digest."""
        held = self._digests.setdefault(identity, {})
        if held.get(slot) != digest:
            held[slot] = digest
            self._rows.pop(identity, None)

    def drop(self, identity: Identity, slot: int) -> None:
        """Remove the text of a slot."""
        del self._digests[identity][slot]
        self._rows.pop(identity, None)

    def nearness(
        self, np: Array, vectors: QuestionVectors, size: int, among: bytearray | None
    ) -> Nearness:
        """Return the cosines of `size` slots with a question.

        `among` restricts those that count.
        """
        question, places = vectors
        cosines = np.full(size, nan)
        held = [(each, places[identity]) for identity, each in self._held()]
        for each, of_place in held:
            cosines[each.where(np)] = of_place.cosines(question, each.texts)
        if among is not None:
            cosines[np.frombuffer(among, np.uint8) == 0] = nan
        # The stamp comes first, so that a change meanwhile invalidates the result.
        stamp = [(each.texts, of_place.changes) for each, of_place in held]
        if among is None and self._common[0] == stamp:
            return Nearness(cosines, cosines - COMMON * self._common[1])
        common, direction = np.zeros(size), _direction(held, len(question), among)
        for each, of_place in held if direction else ():
            common[each.where(np)] = of_place.cosines(direction, each.texts)
        if among is None:
            self._common = stamp, common
        return Nearness(cosines, cosines - COMMON * common)

    def _held(self) -> Iterator[tuple[Identity, _Held]]:
        for identity, digests in self._digests.items():
            if digests:
                held = self._rows.get(identity)
                if held is None:
                    slots = array("I", digests)
                    is_row = slots == array("I", range(slots[0], slots[0] + len(slots)))
                    held = _Held(slots, TextRows(list(digests.values())), is_row)
                    self._rows[identity] = held
                yield identity, held


def _direction(
    held: Iterable[tuple[_Held, PlaceVectors]], dimensions: int, among: bytearray | None
) -> "array[float]":
    """Return the direction of the mean vector of all facts, or of those in `among`.

    Empty for none.
    """
    totals: list[Sequence[float]] = []
    for each, vectors in held:
        chosen = None if among is None else [bool(among[slot]) for slot in each.slots]
        total = vectors.total(each.texts, chosen, dimensions)
        if total is not None:
            totals.append(total)
    whole = [*map(fsum, zip(*totals, strict=True))]
    length = hypot(*whole)
    return array("f", [number / length for number in whole] if length else ())
