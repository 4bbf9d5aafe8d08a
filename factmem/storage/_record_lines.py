"""Checks of records, and their conversion to lines. Pure functions."""

from collections.abc import Iterable, Iterator, Sequence

from factmem.storage._journal import CHUNK
from factmem.storage._plain_codec import LineSealer, batch_mark
from factmem.storage.base import Record

_OPENING, _CLOSING = b"{}"


def check_records(records: Iterable[bytes]) -> None:
    """Raise `ValueError` unless each record looks like a JSON object on one line."""
    for record in records:
        if len(record) < 3 or record[0] != _OPENING or record[-1] != _CLOSING:
            raise ValueError("A record is the text of a JSON object with at least one member")
        if b"\n" in record:
            raise ValueError("A record must be one line, without a newline")


def checked_records(records: Iterable[Record], last: int) -> list[Record]:
    """Return the records of a rewrite; raise `ValueError` if they cannot be the journal's."""
    checked = list(records)
    numbers = [record.number for record in checked]
    if numbers != sorted(set(numbers)) or (numbers and not 0 < numbers[0] <= numbers[-1] <= last):
        raise ValueError("A rewrite keeps records of the journal, with their numbers ascending")
    check_records(record.data for record in checked)
    return checked


def sealed_batch(
    sealer: LineSealer, number: int, tag: bytes, records: Sequence[bytes]
) -> tuple[bytes, bytes]:
    """Return the lines of an appended batch, each with its newline, and the tag of the last."""
    if len(records) == 1:
        line, tag = sealer.seal(number, 0, tag, records[0])
        return line + b"\n", tag
    lines: list[bytes] = []
    count = len(records)
    for index, record in enumerate(records):
        line, tag = sealer.seal(number + index, batch_mark(index, count), tag, record)
        lines.append(line)
    return b"\n".join(lines) + b"\n", tag


def snapshot_lines(header: bytes, sealer: LineSealer, keep: Iterable[Record]) -> Iterator[bytes]:
    """Yield the lines of a new file: its header and its first records."""
    yield header
    tag = sealer.start
    for record in keep:
        line, tag = sealer.seal(record.number, 0, tag, record.data)
        yield line


def chunks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield joined lines, about a megabyte at a time."""
    chunk: list[bytes] = []
    size = 0
    for line in lines:
        chunk.append(line)
        size += len(line) + 1
        if size >= CHUNK:
            yield b"\n".join(chunk) + b"\n"
            chunk, size = [], 0
    if chunk:
        yield b"\n".join(chunk) + b"\n"
