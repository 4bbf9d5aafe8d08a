"""A power cut at any byte of a journal: exactly its whole entries are read, and the next save works."""

from bisect import bisect_right
from functools import cache
from itertools import accumulate

import pytest

from factmem.storage.base import Record
from tests.storage.disk_model import Image
from tests.storage.memory_disk import MemoryDisk
from tests.storage.stores import ANN, PLAIN, SEALED, Kind, append, followed, read, record, texts

KINDS = pytest.mark.parametrize("kind", [PLAIN, SEALED], ids=lambda kind: kind.name)

_ENTRIES = 30
_NEXT, _ONE_MORE = record(1000), record(1001)


@cache
def _journal(kind: Kind) -> tuple[Image, str, bytes, list[Record]]:
    """Return a store, the file of its only journal, that file's content, and what it holds."""
    disk = MemoryDisk()
    folder = kind.open(disk)
    append(folder, ANN, record(1))
    for number in range(2, _ENTRIES + 1):
        append(folder, ANN, record(number, size=number * 7 % 60))
    ((file, content),) = disk.files().items()
    return disk.image(), f"journals/{file}", content, read(folder, ANN)


def _first_end(kind: Kind) -> int:
    """Return how long the file was when it was put in place: it was never shorter."""
    return len(b"".join(_lines(kind)[: 3 if kind.is_sealed else 2]))


def _lines(kind: Kind) -> list[bytes]:
    return _journal(kind)[2].splitlines(keepends=True)


@KINDS
def test_every_cut_keeps_exactly_the_whole_entries(kind: Kind) -> None:
    """No finished save is lost, no half one appears, and what is saved next is there, twice."""
    image, path, content, records = _journal(kind)
    first = _first_end(kind)
    ends = list(accumulate(map(len, _lines(kind))))[-_ENTRIES:]
    assert ends[0] == first
    assert ends[-1] == len(content)

    for cut in range(first, len(content) + 1):
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
def test_a_torn_entry_never_comes_back(kind: Kind) -> None:
    """Not even one that lacks only its line end: it was never acknowledged, and never will be."""
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
def test_a_reader_who_follows_never_sees_a_torn_entry(kind: Kind) -> None:
    """While a line arrives byte by byte a reader sees it not, not, and then whole."""
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


@KINDS
def test_a_torn_batch_keeps_its_whole_records(kind: Kind) -> None:
    """A batch cut in the middle was acknowledged to nobody; each of its records is whole or gone."""
    disk = MemoryDisk()
    append(kind.open(disk), ANN, record(1))
    ((file, before),) = disk.files().items()
    batch = [record(number) for number in range(2, 7)]
    append(kind.open(disk), ANN, *batch)
    image, content = disk.image(), disk.files()[file]

    for cut in range(len(before), len(content) + 1):
        disk = MemoryDisk(image)
        disk.put(f"journals/{file}", content[:cut])
        found = texts(read(kind.open(disk), ANN))
        append(kind.open(disk), ANN, _NEXT)

        assert found == [record(1), *batch[: content[len(before) : cut].count(b"\n")]]
        assert texts(read(kind.open(disk), ANN)) == [*found, _NEXT]


@KINDS
def test_a_hole_in_a_batch_is_mended_at_the_next_save(kind: Kind) -> None:
    """Of a batch that the power cut short a later record may be there and an earlier one not."""
    disk = MemoryDisk()
    append(kind.open(disk), ANN, record(1))
    append(kind.open(disk), ANN, *(record(number) for number in range(2, 6)))
    ((file, content),) = disk.files().items()
    lines = content.splitlines(keepends=True)
    lines[-3] = bytes(len(lines[-3]) - 1) + b"\n"
    disk.put(f"journals/{file}", b"".join(lines))

    found = read(kind.open(disk), ANN)
    append(kind.open(disk), ANN, _NEXT)
    append(kind.open(disk), ANN, _ONE_MORE)

    assert [each.number for each in found] == [1, 2, 4, 5]
    after = read(kind.open(disk), ANN)
    assert after[:4] == found
    assert [each.number for each in after[4:]] == [6, 7]
    assert b"\0" not in disk.files()[file]
