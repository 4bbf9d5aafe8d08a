"""Storages with one fault each, and the tests of the contract that must notice."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from factmem.storage._folder import JournalFolder
from factmem.storage._writer import FolderWriter
from factmem.storage.base import (
    Appended,
    ErasedJournal,
    JournalName,
    Journals,
    Position,
    Reading,
    Record,
    Storage,
)
from factmem.storage.simple import SimpleStorage

__all__ = ["WRONG"]


class _Wrapped:
    """Journals that pass everything on; the faults are in what subclasses do not."""

    def __init__(self, folder: Path) -> None:
        journals = SimpleStorage().open(folder)
        assert isinstance(journals, JournalFolder)
        self._journals = journals

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journals, name)

    def read(self, name: JournalName, after: Position | None = None) -> Reading:
        return self._journals.read(name, after)

    def is_current(self, name: JournalName, position: Position | None) -> bool:
        return self._journals.is_current(name, position)

    @contextmanager
    def exclusive(self) -> Iterator["_Writer"]:
        with self._journals.exclusive() as writer:
            yield self.writer(writer)

    def writer(self, writer: FolderWriter) -> "_Writer":
        return _Writer(writer)


class _Writer:
    def __init__(self, writer: FolderWriter) -> None:
        self._writer = writer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def append(self, name: JournalName, records: Sequence[bytes]) -> Appended:
        return self._writer.append(name, records)

    def rewrite(self, name: JournalName, records: Iterable[Record]) -> Position:
        return self._writer.rewrite(name, records)

    def erase(self, name: JournalName) -> ErasedJournal:
        return self._writer.erase(name)


class CreatesAtOnce:
    """Makes the folder when it is opened."""

    def open(self, folder: Path) -> Journals:
        folder.mkdir(parents=True, exist_ok=True)
        return SimpleStorage().open(folder)


class HasNoLock:
    """Lets all processes write at once."""

    def open(self, folder: Path) -> Journals:
        class Unlocked(_Wrapped):
            @contextmanager
            def exclusive(self) -> Iterator[Any]:
                yield _Careless(self._journals)

        return Unlocked(folder)


class _Careless:
    """Reads without the lock, and takes it for each write."""

    def __init__(self, journals: JournalFolder) -> None:
        self._journals = journals

    def read(self, name: JournalName, after: Position | None) -> Reading:
        return self._journals.read(name, after)

    def append(self, name: JournalName, records: Sequence[bytes]) -> Appended:
        with self._journals.exclusive() as writer:
            return writer.append(name, records)


class UsesNumbersAgain:
    """Counts from one when it rewrites."""

    def open(self, folder: Path) -> Journals:
        class Renumbering(_Wrapped):
            def writer(self, writer: FolderWriter) -> _Writer:
                return Counting(writer)

        class Counting(_Writer):
            def rewrite(self, name: JournalName, records: Iterable[Record]) -> Position:
                numbered = enumerate((each.data for each in records), 1)
                return self._writer.rewrite(name, [Record(*each) for each in numbered])

        return Renumbering(folder)


class TakesAnyNumbers:
    """Sorts what it should refuse."""

    def open(self, folder: Path) -> Journals:
        class Sorting(_Wrapped):
            def writer(self, writer: FolderWriter) -> _Writer:
                return Sorted(writer)

        class Sorted(_Writer):
            def rewrite(self, name: JournalName, records: Iterable[Record]) -> Position:
                numbered = sorted(dict(records).items())
                return self._writer.rewrite(name, [Record(*each) for each in numbered])

        return Sorting(folder)


class ForgetsRewritings:
    """Goes on from a position that a rewriting made void."""

    def open(self, folder: Path) -> Journals:
        class Unaware(_Wrapped):
            def read(self, name: JournalName, after: Position | None = None) -> Reading:
                reading = self._journals.read(name, after)
                if after is None or not reading.is_from_start:
                    return reading
                return reading._replace(records=[], is_from_start=False)

        return Unaware(folder)


class IsAlwaysCurrent:
    """Never checks whether another process wrote."""

    def open(self, folder: Path) -> Journals:
        class Stale(_Wrapped):
            def is_current(self, name: JournalName, position: Position | None) -> bool:
                return True

        return Stale(folder)


class FoldsNames:
    """Has one journal for names that differ in case, or in None and nothing."""

    def open(self, folder: Path) -> Journals:
        class Folding(_Wrapped):
            def read(self, name: JournalName, after: Position | None = None) -> Reading:
                return self._journals.read(_folded(name), after)

            def writer(self, writer: FolderWriter) -> _Writer:
                return Folded(writer)

        class Folded(_Writer):
            def append(self, name: JournalName, records: Sequence[bytes]) -> Appended:
                return self._writer.append(_folded(name), records)

        return Folding(folder)


def _folded(name: JournalName) -> JournalName:
    return tuple((part or "").casefold() for part in name)


class EmptiesWhatItErases:
    """Erases a journal's records and keeps its name."""

    def open(self, folder: Path) -> Journals:
        class Emptying(_Wrapped):
            def writer(self, writer: FolderWriter) -> _Writer:
                return Empty(writer)

        class Empty(_Writer):
            def erase(self, name: JournalName) -> ErasedJournal:
                self._writer.rewrite(name, [])
                return ErasedJournal(1, key_destroyed=False)

        return Emptying(folder)


class ReadsAllAtOnce:
    """Has every journal in memory whole."""

    def open(self, folder: Path) -> Journals:
        class Whole(_Wrapped):
            def read(self, name: JournalName, after: Position | None = None) -> Reading:
                records: list[Record] = []
                is_from_start = None
                while True:
                    reading = self._journals.read(name, after)
                    if is_from_start is None:
                        is_from_start = reading.is_from_start
                    records += reading.records
                    after = reading.position
                    if reading.is_end:
                        return reading._replace(records=records, is_from_start=is_from_start)

        return Whole(folder)


class BelievesItsRecords:
    """Parses and rewrites what it should keep as it is."""

    def open(self, folder: Path) -> Journals:
        class Parsing(_Wrapped):
            def writer(self, writer: FolderWriter) -> _Writer:
                return Stripping(writer)

        class Stripping(_Writer):
            def append(self, name: JournalName, records: Sequence[bytes]) -> Appended:
                return self._writer.append(name, [each.replace(b" ", b"") for each in records])

        return Parsing(folder)


class KeepsTheGoodOnes:
    """Appends the records before a bad one."""

    def open(self, folder: Path) -> Journals:
        class Partial(_Wrapped):
            def writer(self, writer: FolderWriter) -> _Writer:
                return OneByOne(writer)

        class OneByOne(_Writer):
            def append(self, name: JournalName, records: Sequence[bytes]) -> Appended:
                done = [self._writer.append(name, [each]) for each in records]
                if not done:
                    raise ValueError("There is nothing to append")
                return Appended(done[0].before, done[-1].after)

        return Partial(folder)


WRONG: dict[type[Storage], set[str]] = {
    CreatesAtOnce: {"test_opening_and_reading_create_nothing"},
    HasNoLock: {"test_no_other_writer_enters_while_the_lock_is_held"},
    UsesNumbersAgain: {
        "test_a_rewriting_keeps_numbers",
        "test_a_rewriting_with_other_numbers_is_refused",
    },
    TakesAnyNumbers: {"test_a_rewriting_with_other_numbers_is_refused"},
    ForgetsRewritings: {"test_a_rewriting_makes_positions_start_over"},
    IsAlwaysCurrent: {"test_a_position_is_current_until_something_is_written"},
    FoldsNames: {"test_any_name_is_its_own_journal"},
    EmptiesWhatItErases: {
        "test_an_erased_journal_is_gone",
        "test_an_anchor_detects_lost_records",
    },
    ReadsAllAtOnce: {"test_a_long_journal_is_read_in_pieces"},
    BelievesItsRecords: {"test_any_record_comes_back_as_it_was"},
    KeepsTheGoodOnes: {"test_a_bad_record_is_refused"},
}
"""Each wrong storage, and the tests that catch it."""
