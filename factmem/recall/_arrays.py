"""Access to numpy, which is optional, and masks of slots that work without it."""

from functools import cache
from logging import getLogger
from types import ModuleType
from typing import Any, TypeAlias

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
