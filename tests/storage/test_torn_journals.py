"""A power cut at any byte of a journal: exactly its whole entries are read, and the next save
works.
"""

from bisect import bisect_right
from functools import cache
from itertools import accumulate

import pytest

from factmem.errors import CorruptJournalError
from factmem.storage.base import Record
from tests.storage.disk_model import Image
from tests.storage.memory_disk import MemoryDisk
from tests.storage.stores import ANN, PLAIN, SEALED, Kind, append, followed, read, record, texts
from tests.tables import table

KINDS = pytest.mark.parametrize("kind", [PLAIN, SEALED], ids=lambda kind: kind.name)

_ENTRIES = 30
_NEXT, _ONE_MORE = record(1000), record(1001)


@cache
def _journal(kind: Kind) -> tuple[Image, str, bytes, list[Record]]:
    """Return a store, the file of its only journal, that file's content, and its records."""
    disk = MemoryDisk()
    folder = kind.open(disk)
    append(folder, ANN, record(1))
    for number in range(2, _ENTRIES + 1):
        append(folder, ANN, record(number, size=number * 7 % 60))
    ((file, content),) = disk.files().items()
    return disk.image(), f"journals/{file}", content, read(folder, ANN)


def _first_end(kind: Kind) -> int:
    """Return the length of the file when it was created: it was never shorter."""
    return len(b"".join(_lines(kind)[: 3 if kind.is_sealed else 2]))


def _lines(kind: Kind) -> list[bytes]:
    return _journal(kind)[2].splitlines(keepends=True)


@KINDS
def test_every_cut_keeps_exactly_the_complete_entries(kind: Kind, stride: int) -> None:
    """No finished save is lost, no partial one appears, and later saves are stored."""
    image, path, content, records = _journal(kind)
    first = _first_end(kind)
    ends = list(accumulate(map(len, _lines(kind))))[-_ENTRIES:]
    assert ends[0] == first
    assert ends[-1] == len(content)

    for cut in range(first, len(content) + 1, stride):
        disk = MemoryDisk(image)
        disk.put(path, content[:cut])
        folder = kind.open(disk)
        whole = records[: bisect_right(ends, cut)]

        assert read(folder, ANN) == whole, cut
        append(folder, ANN, _NEXT)
        append(folder, ANN, _ONE_MORE)

        found = read(kind.open(disk), ANN)
        assert found[:-2] == whole, cut
        assert texts(found[-2:]) == [_NEXT, _ONE_MORE], cut
        assert found[-2].number == len(whole) + 1, cut


@KINDS
def test_a_torn_entry_never_returns(kind: Kind) -> None:
    """This holds even if only its line end is missing: it was never acknowledged."""
    image, path, content, records = _journal(kind)
    disk = MemoryDisk(image)
    disk.put(path, content[:-1])
    folder = kind.open(disk)

    for number in range(2000, 2005):
        append(folder, ANN, record(number))

    assert texts(read(kind.open(disk), ANN)) == [
        *texts(records[:-1]),
        *map(record, range(2000, 2005)),
    ]


@KINDS
def test_a_following_reader_never_sees_a_torn_entry(kind: Kind) -> None:
    """While a line arrives byte by byte, a reader sees nothing and then the whole entry."""
    image, path, content, records = _journal(kind)
    before = content.rindex(b"\n", 0, -1) + 1
    disk = MemoryDisk(image)
    folder = kind.open(disk)
    disk.put(path, content[:before])
    seen, position = followed(folder, ANN, [], None)

    for end in range(before, len(content)):
        disk.put(path, content[:end])
        seen, position = followed(folder, ANN, seen, position)
        assert seen == records[:-1]
    disk.put(path, content)

    assert followed(folder, ANN, seen, position)[0] == records


def _batched(kind: Kind) -> tuple[Image, str, bytes, bytes]:
    """Return a store, its journal's file, and the file's content before and after a batch of 5."""
    disk = MemoryDisk()
    append(kind.open(disk), ANN, record(1))
    ((file, before),) = disk.files().items()
    append(kind.open(disk), ANN, *_BATCH)
    return disk.image(), file, before, disk.files()[file]


_BATCH = [record(number, 600) for number in range(2, 7)]


@KINDS
def test_a_batch_is_complete_or_absent(kind: Kind, stride: int) -> None:
    """A batch that was cut was not acknowledged: none of its records is read."""
    image, file, before, content = _batched(kind)

    for cut in range(len(before), len(content) + 1, 7 * stride):
        disk = MemoryDisk(image)
        disk.put(f"journals/{file}", content[:cut])
        found = texts(read(kind.open(disk), ANN))
        append(kind.open(disk), ANN, _NEXT)

        assert found == [record(1), *(_BATCH if cut == len(content) else ())]
        assert texts(read(kind.open(disk), ANN)) == [*found, _NEXT]


@KINDS
@table("at", range(4))
def test_a_lost_sector_tears_a_batch(kind: Kind, at: int) -> None:
    """A power cut leaves a sector of zeros: it is neither damage nor a record."""
    image, file, before, content = _batched(kind)
    disk = MemoryDisk(image)
    start = (len(before) // disk.sector + 2 + at * 5) * disk.sector
    torn = content[:start] + bytes(disk.sector) + content[start + disk.sector :]
    disk.put(f"journals/{file}", torn)

    assert texts(read(kind.open(disk), ANN)) == [record(1)]
    append(kind.open(disk), ANN, _NEXT)

    assert texts(read(kind.open(disk), ANN)) == [record(1), _NEXT]
    aside = [found for name, found in disk.files().items() if ".torn-" in name]
    assert aside == [before[: before.index(b"\n") + 1] + torn[len(before) :]]


@KINDS
def test_a_line_removed_from_the_last_batch_is_damage(kind: Kind) -> None:
    """No power cut moves the lines after it."""
    image, file, before, content = _batched(kind)
    lines = content[len(before) :].splitlines(keepends=True)
    for at in range(4):
        disk = MemoryDisk(image)
        disk.put(f"journals/{file}", before + b"".join(lines[:at] + lines[at + 1 :]))
        for call in (read, lambda folder, name: append(folder, name, _NEXT)):
            with pytest.raises(CorruptJournalError):
                call(kind.open(disk), ANN)
        with kind.open(disk).exclusive() as writer:
            salvaged = writer.salvage(ANN)

        assert (salvaged.kept, salvaged.missing) == (5, 1)
        kept = [record(1), *_BATCH[:at], *_BATCH[at + 1 :]]
        assert texts(read(kind.open(disk), ANN)) == kept


@KINDS
def test_a_flipped_bit_between_kept_lines_is_damage(kind: Kind) -> None:
    """The sectors of a short line contain its neighbours, which verify: they were kept."""
    disk = MemoryDisk()
    append(kind.open(disk), ANN, record(1))
    append(kind.open(disk), ANN, *(record(number, 1) for number in range(2, 12)))
    image = disk.image()
    ((file, content),) = disk.files().items()
    ends = list(accumulate(map(len, content.splitlines(keepends=True))))
    told = 0
    for start in ends[-11:-2]:
        disk = MemoryDisk(image)
        disk.sector = 4096
        flipped = bytes([content[start + 9] ^ 1])
        disk.put(f"journals/{file}", content[: start + 9] + flipped + content[start + 10 :])
        try:
            found = texts(read(kind.open(disk), ANN))
        except CorruptJournalError:
            told += 1
        else:
            assert found == [record(1)]
    assert told == 9


@KINDS
def test_an_end_mark_vouches_for_the_last_record(kind: Kind) -> None:
    """After a clean close an invalid last line is damage, and not a torn write."""
    disk = MemoryDisk()
    folder = kind.open(disk)
    append(folder, ANN, record(1))
    append(folder, ANN, record(2))
    ((file, before),) = disk.files().items()
    folder.close()
    content = disk.files()[file]
    assert content == before
    assert texts(read(kind.open(disk), ANN)) == [record(1), record(2)]

    for at in range(before.rindex(b"\n", 0, -1) + 1, len(before)):
        disk.put(f"journals/{file}", content[:at] + b"?" + content[at + 1 :])
        with pytest.raises(CorruptJournalError):
            read(kind.open(disk), ANN)


@KINDS
def test_closing_a_store_does_not_change_its_journals(kind: Kind) -> None:
    """The end mark is beside them, and the next save continues as if there were none."""
    disk = MemoryDisk()
    folder = kind.open(disk)
    append(folder, ANN, record(1))
    folder.rest()
    folder.rest()
    ((file, content),) = disk.files().items()
    append(folder, ANN, record(2))
    folder.rest()

    assert disk.files()[file].startswith(content)
    assert disk.files()[file].count(b"\n") == content.count(b"\n") + 1
    assert texts(read(kind.open(disk), ANN)) == [record(1), record(2)]


@KINDS
def test_a_torn_write_is_logged_and_set_aside(kind: Kind, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged once per process, without a value."""
    image, path, content, records = _journal(kind)
    disk = MemoryDisk(image)
    disk.put(path, content[:-5])
    folder = kind.open(disk)
    for _ in range(3):
        assert read(folder, ANN) == records[:-1]
    append(folder, ANN, _NEXT)

    [told] = [each.getMessage() for each in caplog.records]
    assert "never acknowledged" in told
    assert path in told
    [aside] = [each for name, each in disk.files().items() if ".torn-" in name]
    assert content[:-5].endswith(aside.partition(b"\n")[2])


@KINDS
def test_the_last_acknowledged_record_is_not_torn(kind: Kind) -> None:
    """The time of a file vouches for its end: a changed byte with an unchanged time is damage."""
    image, path, content, _ = _journal(kind)
    disk = MemoryDisk(image)
    assert path in image.vouched
    disk.put(path, content[:-5] + b"?" + content[-4:])
    disk.vouch_for(path)

    with pytest.raises(CorruptJournalError, match="acknowledged"):
        read(kind.open(disk), ANN)
    with pytest.raises(CorruptJournalError, match="acknowledged"):
        append(kind.open(disk), ANN, _NEXT)
