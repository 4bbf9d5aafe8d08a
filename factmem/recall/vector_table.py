"""Vectors under keys, and how near each is to another one.

Every vector is compared, so that none is ever missed; 5,000 of 384 numbers take well under a
millisecond with numpy. Without it everything works the same, about a hundred times slower.
"""

import json
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from logging import getLogger
from math import hypot
from operator import mul
from typing import TypeAlias

__all__ = ["Products", "VectorTable", "default_products", "numpy_products", "python_products"]


Floats: TypeAlias = "array[float]"

Products: TypeAlias = Callable[[Floats, Floats], list[float]]
"""Takes rows in single precision, one after the other, and a vector as long as each of them; gives
the scalar product of each row with it."""

_logger = getLogger(__name__)
_MAGIC = b"factmem vectors 1\n"
_KEY_BYTES = 16
_FLOAT_BYTES = 4


def numpy_products(rows: Floats, vector: Floats) -> list[float]:
    """Multiply by numpy, which the extra `recall` brings.

    In this thread alone: BLAS, which `@` goes to, wakes threads of its own that wait for each other
    longer than they work where the processors are busy.
    """
    import numpy as np

    matrix = np.frombuffer(rows, np.float32).reshape(-1, len(vector))
    products: list[float] = np.einsum("ij,j->i", matrix, np.frombuffer(vector, np.float32)).tolist()
    return products


def python_products(rows: Floats, vector: Floats) -> list[float]:
    """Multiply in plain Python."""
    width = len(vector)
    return [sum(map(mul, rows[at : at + width], vector)) for at in range(0, len(rows), width)]


@cache
def default_products() -> Products:
    """Choose numpy where it can be imported, which is tried once and may take some 0.3 seconds.

    One that is there and broken, as after an update of half of its files, is told in the log.
    """
    try:
        import numpy as np
    except Exception as exc:  # noqa: BLE001 - a broken package raises whatever it comes upon
        if not (isinstance(exc, ModuleNotFoundError) and exc.name == "numpy"):
            _logger.warning(
                "numpy is installed and cannot be imported (%s): vectors are compared without it, "
                "which takes about a hundred times as long",
                type(exc).__name__,
            )
        return python_products
    # An empty folder that an uninstallation left behind can be imported as well.
    return numpy_products if hasattr(np, "einsum") else python_products


class VectorTable:
    """Vectors of one model under keys of 16 bytes. Not safe for a change during another call.

    Only directions count: vectors are kept at length 1, and one of zeros is near to nothing.
    """

    def __init__(self, dimensions: int, *, products: Products | None = None) -> None:
        self.dimensions = dimensions
        self._products = products
        self._keys: list[bytes] = []
        """In the order of their rows."""
        self._places: dict[bytes, int] = {}
        """Which row each key has."""
        self._rows: Floats = array("f")

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._keys)

    def keys(self) -> AbstractSet[bytes]:
        """Return its keys, as a view that goes with it."""
        return self._places.keys()

    def add(self, key: bytes, vector: Sequence[float]) -> None:
        """Take in a vector; a key that is there keeps the one it has.

        Raises:
            ValueError: It has another length than the others.
        """
        if len(vector) != self.dimensions:
            raise ValueError(f"A vector has {len(vector)} dimensions, and not {self.dimensions}")
        if key not in self._places:
            self._places[key] = len(self._keys)
            self._keys.append(key)
            self._rows.extend(_unit(vector))

    def discard(self, key: bytes) -> None:
        """Let go of a vector, if it is there; the last one takes its row."""
        at = self._places.pop(key, None)
        if at is None:
            return
        last, width = self._keys.pop(), self.dimensions
        if last != key:
            self._rows[at * width : (at + 1) * width] = self._rows[-width:]
            self._keys[at] = last
            self._places[last] = at
        del self._rows[-width:]

    def similarities(self, vector: Sequence[float]) -> dict[bytes, float]:
        """Return the cosine between each vector and this one, from -1 to 1."""
        if not self._keys:
            return {}
        products = self._products or default_products()
        return dict(zip(self._keys, products(self._rows, _unit(vector)), strict=True))

    def dump(self, model: str) -> bytes:
        """Return the table as bytes, with the name of the model that made the vectors."""
        header = {"model": model, "dimensions": self.dimensions, "count": len(self)}
        rows = self._rows
        if sys.byteorder == "big":
            rows = rows[:]
            rows.byteswap()
        keys = b"".join(self._keys)
        return b"".join((_MAGIC, json.dumps(header).encode(), b"\n", keys, memoryview(rows)))

    @classmethod
    def load(cls, data: bytes, model: str, *, products: Products | None = None) -> "VectorTable":
        """Return the table that was dumped.

        Raises:
            ValueError: The bytes are no table, or one of another model.
        """
        header_end = data.find(b"\n", len(_MAGIC)) + 1
        rest = memoryview(data)[header_end:]  # which copies nothing of some hundred megabytes
        try:
            header = json.loads(data[len(_MAGIC) : header_end])
            dimensions, count = header["dimensions"], header["count"]
            is_ours = data.startswith(_MAGIC) and header["model"] == model
            keys_end = _KEY_BYTES * count
            is_whole = len(rest) == keys_end + _FLOAT_BYTES * count * dimensions
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError("no table of vectors") from None
        if not (is_ours and is_whole and dimensions > 0):
            raise ValueError("no table of vectors of this model")
        table = cls(dimensions, products=products)
        keys = bytes(rest[:keys_end])
        table._keys = [keys[at : at + _KEY_BYTES] for at in range(0, keys_end, _KEY_BYTES)]
        table._places = {key: at for at, key in enumerate(table._keys)}
        table._rows.frombytes(rest[keys_end:])
        if sys.byteorder == "big":
            table._rows.byteswap()
        if len(table._places) != count:
            raise ValueError("a table of vectors that has a key twice")
        return table


def _unit(vector: Sequence[float]) -> Floats:
    """Return a vector at length 1, in single precision."""
    length = hypot(*vector)
    if not length:
        return array("f", vector)
    return array("f", [number / length for number in vector])
