"""Tests of one folder with many threads and openings."""

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import sleep

import pytest

from factmem.storage.base import Journals, Record, Storage
from factmem.testing._contracts.journals import NAME, append, contents, read, record

__all__ = ["SharedJournals"]


class SharedJournals:
    """One writer at a time; readers see every write."""

    def test_no_other_writer_enters_while_the_lock_is_held(
        self, storage: Storage, folder: Path
    ) -> None:
        """A value read under the lock is unchanged until the write: no update is lost."""
        opened = [storage.open(folder), storage.open(folder)]

        def count_up(journals: Journals) -> None:
            for _ in range(10):
                with journals.exclusive() as writer:
                    so_far = len(read(writer, NAME)[0])
                    sleep(0.0002)  # the others run now
                    writer.append(NAME, [record(so_far)])

        _all_at_once([partial(count_up, each) for each in opened * 4])

        assert contents(opened[0], NAME) == [record(number) for number in range(80)]

    def test_what_was_appended_is_read_by_all(self, storage: Storage, folder: Path) -> None:
        """At once, by other threads and openings, during appends and rewrites."""
        opened = [storage.open(folder) for _ in range(3)]
        append(opened[0], NAME, record(0))
        wrong: list[str] = []

        def write(journals: Journals, first: int) -> None:
            for number in range(first, first + 10):
                append(journals, NAME, record(number))
                if record(number) not in contents(journals, NAME):
                    wrong.append(f"{number} is not read by the one who wrote it")

        def rewrite(journals: Journals) -> None:
            for _ in range(10):
                with journals.exclusive() as writer:
                    writer.rewrite(NAME, read(writer, NAME)[0])

        def follow(journals: Journals) -> None:
            before: list[Record] = []
            for _ in range(20):
                now, _ = read(journals, NAME)
                if now[: len(before)] != before:
                    wrong.append("an entry that was read once is not read again")
                before = now

        _all_at_once(
            [
                lambda: write(opened[0], 100),
                lambda: write(opened[1], 200),
                lambda: rewrite(opened[2]),
                lambda: follow(opened[0]),
                lambda: follow(opened[2]),
            ]
        )

        assert wrong == []
        assert len(contents(opened[0], NAME)) == 21

    def test_the_lock_is_given_back_after_an_error(self, journals: Journals) -> None:
        """After any error inside it."""
        with pytest.raises(ZeroDivisionError), journals.exclusive():
            _ = 1 / 0

        append(journals, NAME, record(1))
        assert contents(journals, NAME) == [record(1)]


def _all_at_once(parts: list[Callable[[], None]]) -> None:
    """Run all parts in threads that start together, and raise the first error."""
    start = threading.Barrier(len(parts))
    errors: list[Exception] = []

    def run(part: Callable[[], None]) -> None:
        start.wait()
        try:
            part()
        except Exception as exc:  # noqa: BLE001 - raised below, in the test's own thread
            errors.append(exc)

    threads = [threading.Thread(target=run, args=(part,)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
