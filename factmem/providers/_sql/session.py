"""What the core needs of a database: a session, and the statements that differ between databases.

The core writes its SQL in the part of the language that both databases have, with `%s` for each
parameter and `factmem.` before each table; SQLite's session translates it. The operations that are
faster in another form, or need one, are methods of `Session`.

Keys of places, scopes and subjects are 16 bytes. Times are microseconds since 1970.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from factmem.ledger.entries import Entry
from factmem.providers._sql.sealing import Extent

Row = tuple[Any, ...]


class Head(NamedTuple):
    """The row of a place in a batch: what it adds to the counters, and the columns of a new row."""

    place: bytes
    scope: bytes
    subject: bytes
    names: bytes
    owner: bytes
    made: int
    """The number of the place if the row is new."""
    added: int
    """How many lines are added."""
    size: int
    """Their bytes, before they are sealed."""


class Line(NamedTuple):
    """A row of the table of entries."""

    place: bytes
    number: int
    at: int
    mark: int
    stored: bytes
    topics: Sequence[int] = ()
    """The numbers of its keywords; none where the store is sealed."""


class End(NamedTuple):
    """New columns of the row of a place after lines were added; None does not change a column."""

    place: bytes
    tail: bytes | None = None
    names: bytes | None = None
    data_key: bytes | None = None


class Session(Protocol):
    """A connection that one thread uses."""

    store: int
    """The number of the store that the connection is configured for."""
    most_lines: int
    """The largest number of lines of a place in one answer."""
    appends_at_once: bool
    """Whether a plain batch is saved by one statement, because each is a round trip."""

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Run a statement and return its rows; outside a transaction it is one by itself."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """Commit what the block does, or roll all of it back. No other writer is inside."""
        ...

    def select_store(self, number: int) -> None:
        """Configure the connection for a store."""
        ...

    def read_places(self, known: Mapping[bytes, Extent]) -> list[Row]:
        """Return the places that exist, with what was added since an extent.

        Args:
            known: The places by their keys, and how far each was read.

        Returns:
            For each place: the key, `made`, `snapshot`, `last`, `bytes`, and names, data key and tail
            where they may be needed; then the numbers, times and lines.
        """
        ...

    def renew(self) -> bool:
        """Read the newest commit from now on; return False if each statement does so anyway."""
        ...

    def take_numbers(self, store: int, heads: Sequence[Head], mark: int, at: int) -> list[Row]:
        """Lock the rows of places, create missing ones, and increase their counters.

        Returns:
            For each place: the key, `made`, `snapshot`, `last`, `bytes`, `recorded_at`, the data key
            and the tail.
        """
        ...

    def insert(self, store: int, lines: Sequence[Line], ends: Sequence[End]) -> None:
        """Insert lines, and set the ends of their places."""
        ...

    def append_plain(
        self, store: int, heads: Sequence[Head], lines: Sequence[Line], mark: int, at: int
    ) -> list[Row]:
        """Do `take_numbers` and `insert` in one statement, if `appends_at_once`.

        The numbers of the lines count from 0 for each place. Returns what `take_numbers` does.
        """
        ...

    def find_mark(self, places: Sequence[bytes], marks: Sequence[int]) -> int | None:
        """Return the one of some marks with which lines were committed to places, if there is one."""
        ...

    def read_marks(self, place: bytes) -> Mapping[int, int]:
        """Return the marks of the lines of a place by their numbers."""
        ...

    def void_marks(self, places: Sequence[bytes], marks: Sequence[int]) -> None:
        """Make saves with these marks, which may still be under way, add nothing when they arrive."""
        ...

    def check_integrity(self) -> None:
        """Raise `CorruptJournalError` if the database finds its own structures damaged."""
        ...

    def on_removal(self, place: bytes, removed: Sequence[Entry] | None, *, is_purge: bool) -> None:
        """Remove what is derived from entries that are being removed from a place.

        Args:
            place: The key of the place.
            removed: The entries that are removed or changed; None for all of an erased place.
            is_purge: Whether the removed values may still be current.
        """
        ...
