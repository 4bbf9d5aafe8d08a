"""Parameters in PostgreSQL's binary form, which neither side has to parse."""

import struct
from collections.abc import Iterable

_UUID, _BIGINT, _BYTEA = 2950, 20, 17

_EMPTY = struct.Struct(">iiI")
_HEADER = struct.Struct(">iiIii")
_INTEGER = struct.Struct(">q")
_NULL = b"\xff\xff\xff\xff"


def integer(value: int) -> bytes:
    """Return a `bigint`."""
    return _INTEGER.pack(value)


def key(value: str) -> bytes:
    """Return a key in hex as a `uuid`."""
    return bytes.fromhex(value)


def integers(values: Iterable[int]) -> bytes:
    """Return a `bigint[]`."""
    given = [_INTEGER.pack(value) for value in values]
    if not given:
        return _EMPTY.pack(0, 0, _BIGINT)
    return _header(len(given), _BIGINT) + b"\0\0\0\x08" + b"\0\0\0\x08".join(given)


def keys(values: Iterable[str]) -> bytes:
    """Return keys in hex as a `uuid[]`."""
    given = [bytes.fromhex(value) for value in values]
    if not given:
        return _EMPTY.pack(0, 0, _UUID)
    return _header(len(given), _UUID) + b"\0\0\0\x10" + b"\0\0\0\x10".join(given)


def byte_strings(values: Iterable[bytes | None]) -> bytes:
    """Return a `bytea[]`, whose elements may be NULL."""
    given = list(values)
    if not given:
        return _EMPTY.pack(0, 0, _BYTEA)
    parts = [_HEADER.pack(1, None in given, _BYTEA, len(given), 1)]
    for value in given:
        if value is None:
            parts.append(_NULL)
        else:
            parts += (len(value).to_bytes(4), value)
    return b"".join(parts)


def _header(count: int, element: int) -> bytes:
    """Return what precedes the elements of an array of one dimension without NULLs."""
    return _HEADER.pack(1, 0, element, count, 1)
