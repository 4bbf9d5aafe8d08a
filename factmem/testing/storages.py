"""The conformance suite for storages: what every `Storage` owes the providers above it.

Subclass `StorageContract` as `TestMyStorage` and override the fixture `storage`. The tests are
synchronous. Call `pytest.register_assert_rewrite("factmem.testing")` in `conftest.py` to see values
in failures.
"""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from factmem.errors import DecryptionError, StorageError
from factmem.storage.base import (
    JournalName,
    Journals,
    JournalWriter,
    Position,
    Record,
    Storage,
)

__all__ = ["StorageContract"]

NAME: JournalName = ("agent", "support", "user", "Ann")
OTHER: JournalName = ("agent", "support", "user", "Bob")

NAMES: list[JournalName] = [
    ("a", "bc"),
    ("ab", "c"),
    ("a", "b", "c"),
    ("abc",),
    ("abc", None),
    ("abc", ""),
    ("ABC",),
    ("",),
    (None,),
    ("..", "x"),
    ("../x",),
    ("/etc/passwd",),
    ("con",),
    ("journals", "lock"),
    ("a\x00b",),
    ("a\nb",),
    ("caf\u00e9",),
    ("cafe\u0301",),
    ("\u6d4b\u8bd5", "\U0001f600"),
    ("x" * 200, "x" * 200, "x" * 200),
    ("x" * 200, "x" * 200, "x" * 199 + "y"),
]
"""Names that are all different, and all allowed."""

RECORDS = [
    b'{"a":1}',
    b'{"n":7,"d":6,"crc":"00000000"}',
    b'{"d":6}',
    b'{"d":"six"}',
    b'{"text":"{\\"n\\":1}\\u2028\\r","x":"\xe2\x80\xa8\r\x00"}',
    b'{ "spaces" : "around" } '.rstrip(),
    b'{"text":"' + "na\u00efve \u6d4b\u8bd5 \U0001f600".encode() + b'"}',
    b'{"long":"' + b"x" * 100_000 + b'"}',
]
"""Records that a storage might take for something of its own."""


def record(number: int, size: int = 0) -> bytes:
    """Return a record that is like no other."""
    return b'{"id":%d,"text":"%s"}' % (number, b"x" * size)


def append(journals: Journals, name: JournalName, *records: bytes) -> Position:
    """Append records under the lock, and return the journal's end."""
    with journals.exclusive() as writer:
        return writer.append(name, records).after


def read(
    journals: Journals | JournalWriter, name: JournalName, after: Position | None = None
) -> tuple[list[Record], Position | None]:
    """Return all records after a position, and the journal's end."""
    records: list[Record] = []
    while True:
        reading = journals.read(name, after)
        if reading.is_from_start:
            records = []
        records += reading.records
        after = reading.position
        if reading.is_end:
            return records, after


def texts(journals: Journals | JournalWriter, name: JournalName) -> list[bytes]:
    """Return the texts of all records."""
    return [each.data for each in read(journals, name)[0]]


class StorageContract:
    """What every `Storage` owes its callers.

    Override the fixture `storage`; and `folder`, where a folder of the local disk is not what the
    storage keeps its journals in.
    """

    @pytest.fixture
    def storage(self) -> Storage:
        """Return the storage."""
        raise NotImplementedError("Override the fixture `storage` to return your storage")

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """Return a folder that does not exist yet."""
        return tmp_path / "store"

    @pytest.fixture
    def journals(self, storage: Storage, folder: Path) -> Iterator[Journals]:
        """Give the journals of the folder."""
        journals = storage.open(folder)
        yield journals
        journals.close()

    # Appending and reading

    def test_opening_and_reading_create_nothing(self, storage: Storage, folder: Path) -> None:
        """Whoever only looks leaves no trace."""
        journals = storage.open(folder)

        assert not journals.exists()
        assert journals.names() == []
        reading = journals.read(NAME)
        assert (reading.records, reading.position, reading.is_end) == ([], None, True)
        assert journals.is_current(NAME, None)
        assert not folder.exists()

    def test_records_come_back_in_order_with_rising_numbers(self, journals: Journals) -> None:
        """Also those that another opening of the folder reads."""
        append(journals, NAME, record(1))
        append(journals, NAME, record(2), record(3))

        found, _ = read(journals, NAME)

        assert [each.data for each in found] == [record(1), record(2), record(3)]
        numbers = [each.number for each in found]
        assert numbers == sorted(set(numbers))
        assert numbers[0] > 0
        assert journals.exists()
        assert not journals.is_current(NAME, None)

    def test_another_opening_reads_the_same(
        self, journals: Journals, storage: Storage, folder: Path
    ) -> None:
        """What an append returned from is there for everybody."""
        append(journals, NAME, record(1), record(2))

        assert read(storage.open(folder), NAME)[0] == read(journals, NAME)[0]

    @pytest.mark.parametrize("text", RECORDS, ids=range(len(RECORDS)))
    def test_any_record_comes_back_as_it_was(self, journals: Journals, text: bytes) -> None:
        """A record is opaque: appended to something, appended to nothing, and rewritten."""
        append(journals, NAME, text)
        append(journals, NAME, text, text)
        with journals.exclusive() as writer:
            writer.rewrite(NAME, read(writer, NAME)[0])
        append(journals, NAME, text)

        assert texts(journals, NAME) == [text] * 4

    @pytest.mark.parametrize(
        "text", [b"", b"{}", b"[1]", b"text", b'{"a":1}\n', b'{"a":1}\n{"b":2}', b'{"a":\n1}']
    )
    def test_a_bad_record_is_refused(self, journals: Journals, text: bytes) -> None:
        """Before anything is written, the good records of the same call included."""
        append(journals, NAME, record(1))

        with pytest.raises(ValueError, match=r"record|Record"):
            append(journals, NAME, record(2), text)

        assert texts(journals, NAME) == [record(1)]

    def test_an_append_of_nothing_is_refused(self, journals: Journals) -> None:
        """It would have no end to return."""
        with pytest.raises(ValueError, match="nothing"):
            append(journals, NAME)

        assert journals.names() == []

    # Positions

    def test_a_position_is_where_reading_goes_on(self, journals: Journals) -> None:
        """What was read before is not read again."""
        append(journals, NAME, record(1), record(2))
        _, end = read(journals, NAME)
        append(journals, NAME, record(3))

        reading = journals.read(NAME, end)

        assert [each.data for each in reading.records] == [record(3)]
        assert not reading.is_from_start
        assert reading.is_end

    def test_an_append_says_where_it_begins_and_ends(self, journals: Journals) -> None:
        """So that the one who wrote need not read."""
        with journals.exclusive() as writer:
            first = writer.append(NAME, [record(1)])
            second = writer.append(NAME, [record(2), record(3)])

        assert first.before is None
        assert second.before is not None
        assert second.before.last == first.after.last
        assert second.after.last == read(journals, NAME)[0][-1].number
        assert [each.data for each in journals.read(NAME, second.before).records] == [
            record(2),
            record(3),
        ]
        assert journals.read(NAME, second.after).records == []

    def test_a_position_is_current_until_something_is_written(
        self, journals: Journals, storage: Storage, folder: Path
    ) -> None:
        """By anybody."""
        end: Position | None = append(journals, NAME, record(1))
        assert journals.is_current(NAME, end)

        append(storage.open(folder), NAME, record(2))
        assert not journals.is_current(NAME, end)

        _, end = read(journals, NAME)
        assert end is not None
        assert journals.is_current(NAME, end)
        with storage.open(folder).exclusive() as writer:
            writer.rewrite(NAME, read(writer, NAME)[0])
        assert not journals.is_current(NAME, end)

    def test_a_long_journal_is_read_in_pieces(self, journals: Journals) -> None:
        """Of about a megabyte, so that no journal is ever in memory whole."""
        size = 100_000
        append(journals, NAME, *(record(number, size) for number in range(50)))

        pieces: list[int] = []
        found: list[Record] = []
        position, is_end = None, False
        while not is_end:
            reading = journals.read(NAME, position)
            assert reading.is_from_start == (position is None)
            found += reading.records
            pieces.append(len(reading.records))
            position, is_end = reading.position, reading.is_end

        assert [each.data for each in found] == [record(number, size) for number in range(50)]
        assert max(pieces) * size <= 2_500_000

    # Rewriting and erasing

    def test_a_rewriting_keeps_numbers(self, journals: Journals) -> None:
        """And no number is ever used again, not even that of a record that is gone."""
        append(journals, NAME, *(record(number) for number in range(1, 6)))
        found, _ = read(journals, NAME)

        with journals.exclusive() as writer:
            writer.rewrite(NAME, [found[0], found[2]])
        append(journals, NAME, record(6))

        after, _ = read(journals, NAME)
        assert after[:2] == [found[0], found[2]]
        assert after[2].data == record(6)
        assert after[2].number > found[-1].number

    def test_a_rewriting_makes_positions_start_over(self, journals: Journals) -> None:
        """What was read before is void, and the reader is told."""
        append(journals, NAME, record(1), record(2))
        found, end = read(journals, NAME)

        with journals.exclusive() as writer:
            position = writer.rewrite(NAME, found[1:])

        reading = journals.read(NAME, end)
        assert reading.is_from_start
        assert reading.records == found[1:]
        assert journals.read(NAME, position).records == []

    def test_a_rewriting_may_change_texts_and_leave_nothing(self, journals: Journals) -> None:
        """Numbers are kept, texts are whatever the caller gives."""
        append(journals, NAME, record(1), record(2))
        (first, second), _ = read(journals, NAME)

        with journals.exclusive() as writer:
            writer.rewrite(NAME, [Record(first.number, b'{"changed":true}'), second])
        assert texts(journals, NAME) == [b'{"changed":true}', record(2)]
        with journals.exclusive() as writer:
            writer.rewrite(NAME, [])
        assert texts(journals, NAME) == []

        append(journals, NAME, record(3))
        (third,), _ = read(journals, NAME)
        assert third.number > second.number

    def test_a_rewriting_with_other_numbers_is_refused(self, journals: Journals) -> None:
        """Numbers ascend, and are those of the journal."""
        append(journals, NAME, record(1), record(2))
        (first, second), _ = read(journals, NAME)
        beyond = Record(second.number + 1, record(3))

        for wrong in ([second, first], [first, first], [first, second, beyond]):
            with journals.exclusive() as writer, pytest.raises(ValueError, match="number"):
                writer.rewrite(NAME, wrong)

        assert read(journals, NAME)[0] == [first, second]

    def test_an_erased_journal_is_gone(self, journals: Journals, folder: Path) -> None:
        """Its bytes too; the others stay, and the name may be used again."""
        append(journals, NAME, b'{"secret":"tangerine"}')
        append(journals, OTHER, record(1))

        with journals.exclusive() as writer:
            erased = writer.erase(NAME)

        assert erased.bytes > 0
        assert journals.names() == [OTHER]
        assert read(journals, NAME) == ([], None)
        content = b"".join(each.read_bytes() for each in folder.rglob("*") if each.is_file())
        assert b"tangerine" not in content
        append(journals, NAME, record(2))
        assert texts(journals, NAME) == [record(2)]
        assert texts(journals, OTHER) == [record(1)]

    def test_erasing_what_is_not_there(self, journals: Journals) -> None:
        """It is no error, and removes nothing."""
        append(journals, OTHER, record(1))

        with journals.exclusive() as writer:
            assert writer.erase(NAME).bytes == 0

        assert journals.names() == [OTHER]

    # Names

    def test_any_name_is_its_own_journal(
        self, journals: Journals, storage: Storage, folder: Path
    ) -> None:
        """However alike two names are, and whatever they mean to a file system."""
        for number, name in enumerate(NAMES):
            append(journals, name, record(number))

        for opened in (journals, storage.open(folder)):
            for number, name in enumerate(NAMES):
                assert texts(opened, name) == [record(number)]
            assert len(opened.names()) == len(NAMES)
            assert set(opened.names()) == set(NAMES)
            assert opened.names() == journals.names()

    def test_no_name_leaves_the_folder(self, journals: Journals, folder: Path) -> None:
        """Beside the folder nothing comes to be."""
        before = set(folder.parent.iterdir())

        for name in NAMES:
            append(journals, name, record(1))

        assert set(folder.parent.iterdir()) - before <= {folder}

    def test_folders_have_nothing_in_common(self, storage: Storage, folder: Path) -> None:
        """One storage serves many."""
        one, other = storage.open(folder), storage.open(folder.with_name("another"))

        append(one, NAME, record(1))

        assert other.names() == []
        append(other, NAME, record(2))
        assert texts(one, NAME) == [record(1)]
        assert texts(other, NAME) == [record(2)]

    # Many at once

    def test_nobody_else_writes_while_the_lock_is_held(
        self, storage: Storage, folder: Path
    ) -> None:
        """What is read under the lock is still so when it is written: no update is lost."""
        opened = [storage.open(folder), storage.open(folder)]

        def count_up(journals: Journals) -> None:
            for _ in range(10):
                with journals.exclusive() as writer:
                    so_far = len(read(writer, NAME)[0])
                    writer.append(NAME, [record(so_far)])

        _all_at_once([partial(count_up, each) for each in opened * 4])

        assert texts(opened[0], NAME) == [record(number) for number in range(80)]

    def test_what_was_appended_is_read_by_all(self, storage: Storage, folder: Path) -> None:
        """At once, by other threads and other openings, while more is appended and rewritten."""
        opened = [storage.open(folder) for _ in range(3)]
        append(opened[0], NAME, record(0))
        wrong: list[str] = []

        def write(journals: Journals, first: int) -> None:
            for number in range(first, first + 10):
                append(journals, NAME, record(number))
                if record(number) not in texts(journals, NAME):
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
                    wrong.append("what was read once is not read again")
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
        assert len(texts(opened[0], NAME)) == 21

    def test_the_lock_is_given_back_after_an_error(self, journals: Journals) -> None:
        """Whatever goes wrong under it."""
        with pytest.raises(ZeroDivisionError), journals.exclusive():
            _ = 1 / 0

        append(journals, NAME, record(1))
        assert texts(journals, NAME) == [record(1)]

    # Anchors

    def test_an_anchor_stays_true(self, journals: Journals) -> None:
        """Of an empty folder and of a full one, whatever is saved and rewritten afterwards."""
        empty = journals.anchor()
        append(journals, NAME, record(1), record(2))
        anchor = journals.anchor()
        append(journals, NAME, record(3))
        append(journals, OTHER, record(4))
        with journals.exclusive() as writer:
            writer.rewrite(NAME, read(writer, NAME)[0][1:])

        journals.verify(empty)
        journals.verify(anchor)

    def test_an_anchor_tells_what_was_lost(self, journals: Journals) -> None:
        """A journal that is not what it was is an error, not an empty journal."""
        append(journals, NAME, record(1), record(2))
        anchor = journals.anchor()

        with journals.exclusive() as writer:
            writer.erase(NAME)

        with pytest.raises((StorageError, DecryptionError)):
            journals.verify(anchor)

    def test_a_text_that_is_no_anchor_is_refused(self, journals: Journals) -> None:
        """It is the caller's mistake."""
        append(journals, NAME, record(1))

        with pytest.raises(ValueError, match="anchor"):
            journals.verify("no anchor")


def _all_at_once(parts: list[Callable[[], None]]) -> None:
    """Run all parts in threads that start together, and raise what one of them raised."""
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
