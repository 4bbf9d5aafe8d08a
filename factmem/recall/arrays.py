"""numpy, where it is installed and works, and masks of slots without it."""

from functools import cache
from logging import getLogger
from types import ModuleType
from typing import Any, TypeAlias

__all__ = ["Array", "both", "numpy_or_none"]


Array: TypeAlias = Any
"""A numpy array. numpy is optional, so its types cannot be named here."""

_logger = getLogger(__name__)


@cache
def numpy_or_none() -> ModuleType | None:
    """Return numpy, or None without it. The import is tried once and takes some 0.1 seconds.

    A broken installation, as after half an update, is logged.
    """
    try:
        import numpy as np
    except Exception as exc:  # noqa: BLE001 - a broken package raises any error
        if not (isinstance(exc, ModuleNotFoundError) and exc.name == "numpy"):
            _logger.warning(
                "numpy is installed and cannot be imported (%s): recall works without it, "
                "up to a hundred times more slowly",
                type(exc).__name__,
            )
        return None
    # An empty folder that an uninstallation left behind can be imported as well.
    return np if hasattr(np, "einsum") else None


def both(first: bytearray, second: bytearray) -> bytearray:
    """Return 1 where both masks have 1: one operation on two long numbers."""
    size = len(first)
    bits = int.from_bytes(first, "little") & int.from_bytes(second, "little")
    return bytearray(bits.to_bytes(size, "little"))
