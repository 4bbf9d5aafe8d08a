"""Random damage of a journal: reported, harmless, or logged as a torn end; never silent."""

import random
from collections import Counter

import pytest

from factmem.errors import CorruptJournalError, TamperedError
from tests.storage.memory_disk import MemoryDisk
from tests.storage.stores import ANN, PLAIN, SEALED, Kind, append, read, record, texts

pytestmark = pytest.mark.storm

_CASES = 300
"""The number for each store; 10,000 in all are run with 1,250."""


def _changed(content: bytes, header: int, rng: random.Random) -> bytes:
    at = rng.randrange(header, len(content))
    lines = content[header:].splitlines(keepends=True)
    match rng.randrange(6):
        case 0:
            return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]
        case 1:
            return content[:at] + content[at + rng.randint(1, 40) :]
        case 2:
            count = rng.randint(1, 600)
            return content[:at] + bytes(len(content[at : at + count])) + content[at + count :]
        case 3:
            del lines[rng.randrange(len(lines))]
        case 4:
            return content[:at]
        case _:
            lines.insert(rng.randrange(len(lines)), rng.choice(lines))
    return content[:header] + b"".join(lines)


def _store(kind: Kind, *, is_batched: bool, is_closed: bool) -> tuple[MemoryDisk, list[bytes]]:
    disk = MemoryDisk()
    folder = kind.open(disk)
    append(folder, ANN, record(1, 80))
    append(folder, ANN, record(2, 300))
    last = [record(number, 120) for number in range(3, 9 if is_batched else 4)]
    append(folder, ANN, *last)
    if is_closed:
        folder.rest()
    return disk, [record(1, 80), record(2, 300), *last]


@pytest.mark.parametrize("is_closed", [False, True], ids=["open", "closed"])
@pytest.mark.parametrize("is_batched", [False, True], ids=["single", "batch"])
@pytest.mark.parametrize("kind", [PLAIN, SEALED], ids=lambda kind: kind.name)
def test_no_accident_is_silent(
    kind: Kind, is_batched: bool, is_closed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """An anchor tells every loss. Without one a loss at the end is logged, as a torn write is.

    Where a whole last line is gone nothing is left to log. After a clean close everything raises.
    """
    disk, saved = _store(kind, is_batched=is_batched, is_closed=is_closed)
    anchor = kind.open(disk).anchor()
    image = disk.image()
    [(file, content)] = [each for each in disk.files().items() if "." in each[0]]
    header, rng = content.index(b"\n") + 1, random.Random(5)
    verdicts: Counter[str] = Counter()
    for _ in range(_CASES):
        disk = MemoryDisk(image)
        disk.put(f"journals/{file}", _changed(content, header, rng))
        caplog.clear()
        try:
            found = texts(read(kind.open(disk), ANN))
        except (CorruptJournalError, TamperedError):
            verdicts["told"] += 1
            continue
        if found == saved:
            verdicts["right"] += 1
            continue
        assert found in (saved[:2], saved[:1]), "the remaining records are not whole batches"
        with pytest.raises((CorruptJournalError, TamperedError)):
            kind.open(disk).verify(anchor)
        assert not is_closed, "the end mark vouched for it"
        verdicts["logged" if caplog.records else "cut off at a line's end"] += 1

    assert verdicts["told"] > _CASES / 5
