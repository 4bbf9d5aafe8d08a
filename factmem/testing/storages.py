"""The conformance suite for storages.

Subclass `StorageContract` as `TestMyStorage` and override the fixture `storage`. The tests are
synchronous. Call `pytest.register_assert_rewrite("factmem.testing")` in `conftest.py` to see values
in failures.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from factmem.errors import DecryptionError, StorageError
from factmem.storage.base import Journals, Position, Record, Storage
from factmem.testing._contracts.journals import (
    NAME,
    NAMES,
    OTHER,
    RECORDS,
    append,
    contents,
    read,
    record,
)
from factmem.testing._contracts.shared_journals import SharedJournals

__all__ = ["StorageContract"]


class StorageContract(SharedJournals):
    """The contract of `Storage`.

    Override the fixture `storage`, and the fixture `folder` if the storage does not keep its journals
    in a local folder.
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
        """Return the journals of the folder."""
        journals = storage.open(folder)
        yield journals
        journals.close()

    # Appending and reading

    def test_opening_and_reading_create_nothing(self, storage: Storage, folder: Path) -> None:
        """A reader leaves no trace."""
        journals = storage.open(folder)

        assert not journals.exists()
        assert journals.names() == []
        reading = journals.read(NAME)
        assert (reading.records, reading.position, reading.is_end) == ([], None, True)
        assert journals.is_current(NAME, None)
        assert not folder.exists()

    def test_records_come_back_in_order_with_rising_numbers(self, journals: Journals) -> None:
        """Also those read by another opening of the folder."""
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
        """A record is visible to all readers when the append returns."""
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

        assert [found == text for found in contents(journals, NAME)] == [True] * 4

    @pytest.mark.parametrize(
        "text", [b"", b"{}", b"[1]", b"text", b'{"a":1}\n', b'{"a":1}\n{"b":2}', b'{"a":\n1}']
    )
    def test_a_bad_record_is_refused(self, journals: Journals, text: bytes) -> None:
        """Before anything is written, even the valid records of the same call."""
        append(journals, NAME, record(1))

        with pytest.raises(ValueError, match=r"record|Record"):
            append(journals, NAME, record(2), text)

        assert contents(journals, NAME) == [record(1)]

    def test_an_append_of_nothing_is_refused(self, journals: Journals) -> None:
        """There is no end to return."""
        with pytest.raises(ValueError, match="nothing"):
            append(journals, NAME)

        assert journals.names() == []

    # Positions

    def test_a_position_is_where_reading_goes_on(self, journals: Journals) -> None:
        """Lines read before are not read again."""
        append(journals, NAME, record(1), record(2))
        _, end = read(journals, NAME)
        append(journals, NAME, record(3))

        reading = journals.read(NAME, end)

        assert [each.data for each in reading.records] == [record(3)]
        assert not reading.is_from_start
        assert reading.is_end

    def test_an_append_says_where_it_begins_and_ends(self, journals: Journals) -> None:
        """The writer does not have to read."""
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
        """By no reader."""
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
        """Of about a megabyte, so that a journal is never completely in memory."""
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

        right = [record(number, size) for number in range(50)]
        assert len(found) == len(right)
        assert all(each.data == text for each, text in zip(found, right, strict=True))
        assert max(pieces) * size <= 2_500_000

    # Rewriting and erasing

    def test_a_rewriting_keeps_numbers(self, journals: Journals) -> None:
        """No number is reused, not even the number of a removed record."""
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
        """The reader learns that earlier records are invalid."""
        append(journals, NAME, record(1), record(2))
        found, end = read(journals, NAME)

        with journals.exclusive() as writer:
            position = writer.rewrite(NAME, found[1:])

        reading = journals.read(NAME, end)
        assert reading.is_from_start
        assert reading.records == found[1:]
        assert journals.read(NAME, position).records == []

    def test_a_rewriting_may_change_texts_and_leave_nothing(self, journals: Journals) -> None:
        """Numbers are kept; the caller chooses the contents."""
        append(journals, NAME, record(1), record(2))
        (first, second), _ = read(journals, NAME)

        with journals.exclusive() as writer:
            writer.rewrite(NAME, [Record(first.number, b'{"changed":true}'), second])
        assert contents(journals, NAME) == [b'{"changed":true}', record(2)]
        with journals.exclusive() as writer:
            writer.rewrite(NAME, [])
        assert contents(journals, NAME) == []

        append(journals, NAME, record(3))
        (third,), _ = read(journals, NAME)
        assert third.number > second.number

    def test_a_rewriting_with_other_numbers_is_refused(self, journals: Journals) -> None:
        """Numbers ascend, and belong to the journal."""
        append(journals, NAME, record(1), record(2))
        (first, second), _ = read(journals, NAME)
        beyond = Record(second.number + 1, record(3))

        for wrong in ([second, first], [first, first], [first, second, beyond]):
            with journals.exclusive() as writer, pytest.raises(ValueError, match="number"):
                writer.rewrite(NAME, wrong)

        assert read(journals, NAME)[0] == [first, second]

    def test_an_erased_journal_is_gone(self, journals: Journals, folder: Path) -> None:
        """With its bytes. The others stay, and the name can be used again."""
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
        assert contents(journals, NAME) == [record(2)]
        assert contents(journals, OTHER) == [record(1)]

    def test_erasing_what_is_not_there(self, journals: Journals) -> None:
        """It raises nothing and removes nothing."""
        append(journals, OTHER, record(1))

        with journals.exclusive() as writer:
            assert writer.erase(NAME).bytes == 0

        assert journals.names() == [OTHER]

    # Names

    def test_any_name_is_its_own_journal(
        self, journals: Journals, storage: Storage, folder: Path
    ) -> None:
        """Also names that are similar, or have a meaning for a file system."""
        for number, name in enumerate(NAMES):
            append(journals, name, record(number))

        for opened in (journals, storage.open(folder)):
            for number, name in enumerate(NAMES):
                assert contents(opened, name) == [record(number)]
            assert len(opened.names()) == len(NAMES)
            assert set(opened.names()) == set(NAMES)
            assert opened.names() == journals.names()

    def test_no_name_leaves_the_folder(self, journals: Journals, folder: Path) -> None:
        """Nothing is created outside the folder."""
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
        assert contents(one, NAME) == [record(1)]
        assert contents(other, NAME) == [record(2)]

    # Anchors

    def test_an_anchor_stays_true(self, journals: Journals) -> None:
        """Of an empty and of a full folder, after any later append and rewrite."""
        empty = journals.anchor()
        append(journals, NAME, record(1), record(2))
        anchor = journals.anchor()
        append(journals, NAME, record(3))
        append(journals, OTHER, record(4))
        with journals.exclusive() as writer:
            writer.rewrite(NAME, read(writer, NAME)[0][1:])

        journals.verify(empty)
        journals.verify(anchor)

    def test_an_anchor_detects_lost_records(self, journals: Journals) -> None:
        """A changed journal is an error, not an empty journal."""
        append(journals, NAME, record(1), record(2))
        anchor = journals.anchor()

        with journals.exclusive() as writer:
            writer.erase(NAME)

        with pytest.raises((StorageError, DecryptionError)):
            journals.verify(anchor)

    def test_a_string_that_is_not_an_anchor_is_refused(self, journals: Journals) -> None:
        """It is the caller's mistake."""
        append(journals, NAME, record(1))

        with pytest.raises(ValueError, match="anchor"):
            journals.verify("no anchor")
