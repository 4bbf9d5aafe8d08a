"""VectorTable: vectors by key, and their cosines with another vector.

The comparison is exhaustive, so it never misses a vector. 5,000 vectors of 384 numbers take well
under a millisecond. Needs numpy.
"""

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from math import hypot
from typing import TypeAlias

from factmem.recall._arrays import Array, numpy_or_none

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
        """Add a vector; a key that exists keeps its vector.

        Raises:
            ValueError: Its length differs from the table's dimensions.
        """
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
        """Return the table of a dump.

        Raises:
            ValueError: The bytes are not a table of this model.
        """
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
