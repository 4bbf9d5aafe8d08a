"""Names, records, and short ways to use journals, for the conformance suite for storages."""

from factmem.storage.base import JournalName, Journals, JournalWriter, Position, Record

__all__ = ["NAME", "NAMES", "OTHER", "RECORDS", "append", "contents", "read", "record"]


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
"""Allowed names, all different."""

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
"""Records that a storage might confuse with its own data."""


def record(number: int, size: int = 0) -> bytes:
    """Return a unique record."""
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


def contents(journals: Journals | JournalWriter, name: JournalName) -> list[bytes]:
    """Return the contents of all records."""
    return [each.data for each in read(journals, name)[0]]
