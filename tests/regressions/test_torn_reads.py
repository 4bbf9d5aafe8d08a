"""A torn record at the end of a journal costs each cold read its own size once, and no more."""

from collections import Counter

import pytest

from factmem.storage.base import Position
from tests.storage.memory_disk import MemoryDisk
from tests.storage.stores import ANN, PLAIN, SEALED, Kind, append, read, record

MEGABYTE = 1 << 20


class CountingDisk(MemoryDisk):
    """Counts the bytes that are read from the files of journals."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.bytes_read = Counter[str]()

    def read(self, fd: int, count: int, offset: int) -> bytes:
        data = super().read(fd, count, offset)
        self.bytes_read["all"] += len(data)
        return data


@pytest.mark.parametrize("kind", [PLAIN, SEALED], ids=lambda kind: kind.name)
@pytest.mark.parametrize(
    "size", [2 * MEGABYTE, pytest.param(16 * MEGABYTE, marks=pytest.mark.storm)]
)
def test_a_torn_large_record_is_read_in_linear_time(kind: Kind, size: int) -> None:
    """By bytes, not by time: reading on from the same start again and again was quadratic."""
    disk = MemoryDisk()
    append(kind.open(disk), ANN, record(1))
    append(kind.open(disk), ANN, record(2, size))
    ((file, content),) = disk.files().items()
    torn = CountingDisk(disk.image())
    torn.put(f"journals/{file}", content[:-5])

    for _ in range(3):  # each time by a process that knows nothing of it
        torn.bytes_read.clear()
        assert len(read(kind.open(torn), ANN)) == 1
        assert torn.bytes_read["all"] < 6 * len(content)


@pytest.mark.parametrize("kind", [PLAIN, SEALED], ids=lambda kind: kind.name)
def test_following_a_torn_record_reads_it_once(kind: Kind) -> None:
    """A reader who asks again takes no more than the tail."""
    disk = MemoryDisk()
    folder = kind.open(disk)
    append(folder, ANN, record(1))
    append(folder, ANN, record(2, MEGABYTE))
    ((file, content),) = disk.files().items()
    torn = CountingDisk(disk.image())
    torn.put(f"journals/{file}", content[:-5])
    reader = kind.open(torn)
    position: Position | None = None
    for _ in range(5):
        torn.bytes_read.clear()
        reading = reader.read(ANN, position)
        position = reading.position
        assert torn.bytes_read["all"] < 6 * len(content)
    assert reader.is_current(ANN, position)
