"""Entries as lines: the encoded entries without their times, which are a column of their own.

`PlaceWriter` splits a large save into several lines of the same time, so that one concept is found
without parsing all of the save. `PlaceReader` turns the opened lines of an answer into entries, many
with one call of the parser.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson

from factmem.errors import CorruptJournalError, FactmemError
from factmem.ledger.entries import Entry, decoded, encoded_entry, keywords_of, stamped
from factmem.models.clock import moment, stamp

_MOST_FACTS = 256
"""The most facts of one line."""

_SPLIT_FROM = 64 * 1024
"""Shorter lines are not split, and not parsed to count their facts."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_WIDE = b'{"wide":true,'


def micros(text: str) -> int:
    """Return a stamp as microseconds since 1970."""
    return (moment(text) - _EPOCH) // _MICROSECOND


def stamp_at(at: int) -> str:
    """Return the stamp of a time in microseconds since 1970."""
    seconds, micro = divmod(at, 1_000_000)
    return f"{_second(seconds)}{micro:06d}Z"


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    return stamp(_EPOCH + timedelta(seconds=seconds))[:-7]


class Part(NamedTuple):
    """An encoded entry, or a part of one that has many facts."""

    body: bytes
    topics: Sequence[int]
    """The numbers of its keywords."""


def split(body: bytes, *, is_sealed: bool) -> list[Part]:
    """Return an encoded save of many facts as several; any other entry as it is.

    Args:
        body: The encoded entry.
        is_sealed: Whether the topics are left out, because rows of sealed places have none.
    """
    if len(body) < _SPLIT_FROM and is_sealed:
        return [Part(body, ())]
    entry: Entry = orjson.loads(body) if not body.startswith(_WIDE) else decoded(stamped(body, ""))
    facts = entry.get("facts", [])
    is_save = entry.keys() <= {"at", "facts", "actor", "reason"}
    if len(body) < _SPLIT_FROM or not is_save or len(facts) <= _MOST_FACTS:
        return [Part(body, () if is_sealed else topics_of(entry))]
    entries: list[Entry] = [
        {**entry, "at": "", "facts": facts[n : n + _MOST_FACTS]}
        for n in range(0, len(facts), _MOST_FACTS)
    ]
    return [Part(encoded_entry(each), () if is_sealed else topics_of(each)) for each in entries]


def topics_of(entry: Entry) -> list[int]:
    """Return the numbers of the keywords that an entry is about."""
    return list(map(topic_of, keywords_of(entry)))


@lru_cache(maxsize=4096)
def topic_of(keyword: str) -> int:
    """Return the number by which the lines about a keyword are found."""
    digest = blake2b(keyword.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def entries_of(bodies: Sequence[bytes], times: Sequence[int]) -> list[Entry]:
    """Return the entries of encoded lines and their times.

    Raises:
        CorruptJournalError: A line is no entry.
    """
    try:
        if any(body.startswith(_WIDE) for body in bodies):
            pairs = zip(bodies, times, strict=True)
            return [decoded(stamped(body, stamp_at(at))) for body, at in pairs]
        return _timed(orjson.loads(b"[%b]" % b",".join(bodies)), times)
    except (ValueError, TypeError, OverflowError, FactmemError):
        # of the parser, of `zip`, of `**`, of the time
        raise CorruptJournalError(
            "A line of a place cannot be read: another program changed its row. Restore the place "
            "from a backup"
        ) from None


def _timed(entries: Iterable[Entry], times: Iterable[int]) -> list[Entry]:
    # The time is first, as in each line of a bundle: then an exported import is the same bundle.
    timed: list[Any] = []
    latest, second = -1, -1
    prefix = stamped_at = ""
    for entry, at in zip(entries, times, strict=True):
        if at != latest:  # saves of one batch have one time
            latest = at
            seconds, micro = divmod(at, 1_000_000)
            if seconds != second:
                second, prefix = seconds, _second(seconds)
            stamped_at = f"{prefix}{micro:06d}Z"
        timed.append({"at": stamped_at, **entry})
    return timed


def counted(entries: list[Entry]) -> list[Entry]:
    """Return entries with times that never decrease."""
    at = ""
    for entry in entries:
        at = entry["at"] = max(entry["at"], at)
    return entries
