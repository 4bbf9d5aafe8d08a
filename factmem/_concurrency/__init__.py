"""Worker threads, one-per-loop objects and background tasks.

Imports `errors` only.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem._concurrency.background import BackgroundWork
    from factmem._concurrency.per_loop import Workers

__all__ = [
    "BackgroundWork",
    "Workers",
]

if not TYPE_CHECKING:  # type checkers report a name that does not exist
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "factmem._concurrency.background": ("BackgroundWork",),
            "factmem._concurrency.per_loop": ("Workers",),
        },
    )
