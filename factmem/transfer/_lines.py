"""JSON that other programs wrote, read within a budget: lines of a file, and their values.

A parsed line takes up to 30 times its bytes, mostly for lists and objects. So a line is measured
before it is parsed, and a file of a few bytes cannot fill the memory.
"""

import json
import re
from collections.abc import Iterator
from typing import BinaryIO, NoReturn

import orjson

MOST_BYTES = 16 * 1024 * 1024
"""The most bytes of a line. The largest lines of real stores are saves of many facts, below 1 MiB."""
_MOST_PARTS = 500_000
"""The most lists, objects and items of a line: together about 60 MB when they are parsed."""

_PARTS = (b"[", b"{", b",")
_LONG_INTEGER = re.compile(rb"\d{19}")
"""Such integers may have more than 64 bits. orjson would read them as floats."""


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file, with their line feeds.

    Raises:
        ValueError: A line is too long. The message has its number.
    """
    number = 1
    while line := file.readline(MOST_BYTES + 1):
        if len(line) > MOST_BYTES:
            raise ValueError(f"Line {number} has more than {MOST_BYTES:,} bytes")
        yield line
        number += 1


def is_small(text: bytes) -> bool:
    """Return whether `parsed_json` accepts JSON of this size."""
    return len(text) <= MOST_BYTES and sum(map(text.count, _PARTS)) <= _MOST_PARTS


def parsed_json(text: bytes) -> object:
    """Parse JSON. Integers are exact, and all numbers are finite.

    Raises:
        ValueError: It is not JSON, or too large to be parsed. The message quotes nothing of it.
    """
    if not is_small(text):
        raise ValueError(f"has more than {MOST_BYTES:,} bytes or {_MOST_PARTS:,} parts")
    try:
        if not _LONG_INTEGER.search(text):
            found: object = orjson.loads(text)
            return found
        found = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        json.dumps(found, ensure_ascii=False).encode()  # raises for a lone surrogate
    except (ValueError, RecursionError):
        raise ValueError("is not JSON") from None
    return found


def _finite(text: str) -> float:
    number = float(text)
    return number if abs(number) != float("inf") else _refuse(text)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant[:8]} is not a number of JSON")
