"""Database: what a store needs of the database that has its places."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from factmem.providers._sql.session import Session

R = TypeVar("R")


class View(Protocol):
    """The part of a cached place that a database compares with its own."""

    found: object
    """A mark of the database at which the view was current, where it has such marks."""
    checked: float
    """The time at which the view was complete, on the monotonic clock."""

    @property
    def end(self) -> tuple[int, int, int] | None:
        """The extent up to which the place was read; None before the first read."""
        ...


class Database(Protocol):
    """The connections to a database, and its tables. Its methods block, and are thread-safe."""

    has_checksums: bool
    """Whether plain lines carry checksums."""
    has_one_store: bool
    """Whether all places belong to one store."""
    version: int
    """The version of the tables that this release makes."""
    warm_places: int
    """How many places are kept in memory."""
    is_inline: bool
    """Whether work runs on the event loop, because it does no I/O."""
    shares_reads: bool
    """Whether concurrent reads share a query, because each is a round trip."""

    # Tables

    def where(self, session: Session) -> str:
        """Name the folder or the database, for people."""
        ...

    def are_there(self, session: Session) -> bool: ...

    def make(self, session: Session) -> None:
        """Create the tables if they do not exist, once for concurrent callers."""
        ...

    def check_mark(self, mark: bytes) -> None:
        """Raise `TamperedError` if an encrypted store is not the one that was in this place before."""
        ...

    # Work

    def read(self, work: Callable[[Session, int], R]) -> R:
        """Do work that reads; its second argument counts attempts that may have committed."""
        ...

    def apart(self, work: Callable[[Session, int], R]) -> R:
        """Do long work that reads one state; no other read waits, and a fork may restart it."""
        ...

    def write(self, work: Callable[[Session, int], R]) -> R:
        """Do work that may write; see `read`."""
        ...

    def forget(self, work: Callable[[Session, int], R]) -> R:
        """Do work that forgets: it is also possible if the disk is full."""
        ...

    def write_soon(self, work: Callable[[Session, int], R]) -> R:
        """Do work that need not happen; `StoreBusyError` if others write for longer than a save."""
        ...

    # What event loops ask without waiting

    def is_current(self, view: View, key: Callable[[], bytes | None]) -> bool:
        """Return whether a view has all that the database has of its place, if that is known."""
        ...

    def has_extents(self, key: bytes, known: dict[bytes, tuple[int, ...]]) -> bool:
        """Return whether the conversations of a place have these extents, if that is known."""
        ...

    # The end of work

    def finish_erasure(self) -> bool:
        """Remove what is still kept of erased values; return whether copies remain."""
        ...

    def rest(self, is_wanted: Callable[[], bool]) -> None:
        """Do what can wait, after some idle seconds, until work is wanted."""
        ...

    def start_afresh(self) -> None:
        """Forget all connections; in a forked child they belong to the parent."""
        ...

    def close(self) -> None: ...
