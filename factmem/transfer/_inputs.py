"""Files of other programs: opened once, and read value by value.

`opened` makes a pipe seekable, because the format of a file is detected before it is read.
`json_values` reads JSON Lines, a list, or an object that wraps lists such as {"results": [...]}. It
continues after a line that is not JSON.
"""

import io
import json
import re
import stat
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from os import PathLike, fstat
from shutil import copyfileobj
from tempfile import SpooledTemporaryFile
from typing import IO, Any, BinaryIO, TextIO, TypeAlias

from factmem.errors import InputValueError
from factmem.ledger.entries import MOST_BYTES
from factmem.transfer._rows import parsed_json

InputFile: TypeAlias = str | PathLike[str] | BinaryIO
"""A path, or a file object in binary mode."""

_MOST_IN_MEMORY = 64 * 1024 * 1024
_CHUNK = 1024 * 1024
_MOST = 64 * 1024 * 1024
"""The most characters of a value: a parsed one may take twenty times its size."""
_BETWEEN = re.compile(r"[\s,]*")
_DEEPEST = 100
"""The most indentation of an item, by which the next one is found if it is no JSON."""


@contextmanager
def opened(source: InputFile) -> Generator[IO[bytes]]:
    """Yield a seekable file; what can be read only once, such as a pipe, is copied first.

    "-" is standard input.
    """
    if not isinstance(source, str | PathLike):
        yield from _seekable(source, is_file=source.seekable())
        return
    is_standard = source == "-"
    with open(0 if is_standard else source, "rb", closefd=not is_standard) as file:
        yield from _seekable(file, is_file=stat.S_ISREG(fstat(file.fileno()).st_mode))


def _seekable(file: IO[bytes], *, is_file: bool) -> Iterator[IO[bytes]]:
    if is_file:
        yield file
        return
    with SpooledTemporaryFile(_MOST_IN_MEMORY) as copy:
        copyfileobj(file, copy)
        copy.seek(0)
        yield copy


def _as_text(file: IO[bytes]) -> io.TextIOWrapper:
    """Decode a file as UTF-8, or as UTF-16 if it begins so."""
    start = file.read(len(BOM_UTF8))
    file.seek(-len(start), io.SEEK_CUR)
    is_wide = start.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
    encoding = "utf-16" if is_wide else "utf-8-sig"
    return io.TextIOWrapper(file, encoding=encoding, errors="surrogateescape")


def has_wrong_bytes(text: str) -> bool:
    """Return whether bytes of a string could not be decoded; see `json_values`."""
    return any("\udc80" <= each <= "\udcff" for each in text)


class DamagedError(InputValueError):
    """The rest of a file cannot be read. The message quotes nothing of it."""


def json_values(file: IO[bytes]) -> Iterator[tuple[str, Any]]:
    """Yield the values of a file, with their positions, or a `ValueError` for one that is not JSON.

    A value is an item of a list, an object on a line, or an item of a list in an object around
    all of them. A byte that is not UTF-8 becomes a lone surrogate, so that it spoils one string
    and not the file.

    Raises:
        DamagedError: The rest cannot be read.
    """
    begin = file.tell()
    lines = (line for line in iter(lambda: file.readline(MOST_BYTES + 1), b"") if line.strip())
    first, second = next(lines, b""), next(lines, b"")
    file.seek(begin)
    if _is_line(first, second):
        yield from _line_values(file)
        return
    text = _as_text(file)
    try:
        yield from _items(text)
    finally:
        if not file.closed:
            text.detach()  # the file is closed by who opened it


def _is_line(first: bytes, second: bytes) -> bool:
    """Return whether each line of a file is a value of its own."""
    first, second = first.removeprefix(BOM_UTF8).strip(), second.strip()
    if not first or first.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return False
    try:
        parsed_json(first)
    except ValueError:
        return second.startswith(b"{") and not first.startswith(b"[")
    return bool(second)  # a file of one line may be too large to be parsed at once


def _line_values(file: IO[bytes]) -> Iterator[tuple[str, Any]]:
    number = 0
    while line := file.readline(MOST_BYTES + 1):
        number += 1
        where = f"line {number}"
        if len(line) > MOST_BYTES:
            raise DamagedError(f"line {number} has more than {MOST_BYTES:,} bytes")
        try:
            found: Any = parsed_json(line.removeprefix(BOM_UTF8)) if line.strip() else []
        except ValueError as exc:
            yield where, exc
            continue
        for item in found if isinstance(found, list) else unwrapped(found):
            yield where, item


def unwrapped(found: Any) -> list[Any]:
    """Return the items of the lists in an object that only wraps them, or the object itself."""
    if not isinstance(found, dict):
        return [found]
    every: list[list[Any]] = [each for each in found.values() if isinstance(each, list)]
    lists = [each for each in every if any(isinstance(item, dict) for item in each)]
    is_record = not lists or bool({"id", "uuid", "type", "chat_messages"} & found.keys())
    return [found] if is_record else [item for each in lists for item in each]


_DECODER = json.JSONDecoder()


def _items(file: TextIO) -> Iterator[tuple[str, Any]]:
    """Yield the items of a list, or of objects one after the other, a chunk at a time."""
    text, number = file.read(_CHUNK).lstrip(), 0
    if not text.startswith(("[", "{")):
        raise DamagedError("The file is not JSON")
    is_list = text.startswith("[")
    at = int(is_list)
    while True:
        found = _BETWEEN.match(text, at)
        at = at if found is None else found.end()
        if is_list and text.startswith("]", at):
            return
        try:
            item, at = _DECODER.raw_decode(text, at)
        except RecursionError:
            raise DamagedError("The file is nested too deeply") from None
        except ValueError:  # or a number of thousands of digits
            start, size = max(at - _DEEPEST, 0), len(text) - at
            # Twice as much each time, as it is read again.
            if size <= _MOST and (more := file.read(max(_CHUNK, size))):
                text, at = text[start:] + more, at - start
                continue
            if not size and not is_list:
                return
            if not (following := _next_item(text, at)):
                raise DamagedError(
                    f"The file is cut off or damaged after item {number}, or the next is too large"
                ) from None
            item, at = InputValueError("is not JSON"), following
        for each in [item] if is_list else unwrapped(item):
            number += 1
            yield f"number {number}", each


def _next_item(text: str, at: int) -> int:
    """Return where the next object begins, if each begins on a line and is indented alike; or 0."""
    line = text.rfind("\n", 0, at)
    indent = text[line:at]
    if line < 0 or indent.strip():
        return 0
    following = text.find(f"{indent}{{", at)
    return 0 if following < 0 else following + len(indent)
