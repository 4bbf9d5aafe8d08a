"""Summaries: the state of a ledger as blocks of JSON, of which a keyword needs only one.

Block 0 describes the others. Keywords are distributed over the following blocks by a checksum of their
names. The last blocks have the next free positions of facts.
"""

import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from operator import itemgetter
from typing import Any

import orjson
import pydantic_core

from factmem.concurrency.garbage import paused_collection
from factmem.ledger.items import Topic
from factmem.ledger.ledger import Ledger, LedgerState

__all__ = ["restored", "restored_keyword", "summarized"]

_BLOCK = 1 << 16
"""The approximate bytes of a block, which is read and parsed in 0.25 ms."""

_FREE_PER_BLOCK = 4096
_KEYWORDS_AT_ONCE = 4096

Block = Callable[[int], bytes]
"""Returns a block by its number; raises `ValueError` if it does not verify."""


def summarized(
    ledger: Ledger, size: int, unchanged: Callable[[], AbstractContextManager[None]]
) -> Iterator[bytes]:
    """Yield the blocks of a ledger's summary.

    Args:
        ledger: The ledger; it is read in short pieces.
        size: The approximate bytes of the summary.
        unchanged: Returns a context manager for each piece, which prevents changes of the ledger, and
            raises if it was changed since the first piece.
    """
    count = max(1, size // _BLOCK)
    with unchanged():
        state = ledger.state()
        keywords, free = list(state.topics), list(state.free)
        about = {
            "at": state.recorded_at,
            "number": state.number,
            "late": state.late,
            "passed": state.passed,
            "buckets": count,
            "free": -(-len(free) // _FREE_PER_BLOCK),
        }
        first = _dumped(about)
    yield first
    buckets: list[list[str]] = [[] for _ in range(count)]
    for keyword in keywords:
        buckets[_bucket(keyword, count)].append(keyword)
    for bucket in buckets:
        with unchanged():
            topics = {keyword: state.topics[keyword].fields() for keyword in bucket}
        yield _dumped(topics)
    for start in range(0, len(free), _FREE_PER_BLOCK):
        with unchanged():
            part = {each: state.free[each] for each in free[start : start + _FREE_PER_BLOCK]}
        yield _dumped(part)


def restored(block: Block) -> Ledger:
    """Return the ledger of a summary.

    Raises:
        ValueError: A block does not verify.
    """
    about = _loaded(block(0))
    buckets, parts = about["buckets"], about["free"]
    found: list[tuple[int, str, Topic]] = []
    expiries: list[tuple[str, str]] = []
    texts: dict[str, str] = {}
    for bucket in range(1, 1 + buckets):
        with paused_collection(_KEYWORDS_AT_ONCE):
            for keyword, fields in _loaded(block(bucket)).items():
                items = fields[_ITEMS]
                number = items[0][_NUMBER] if items else 0
                found.append((number, keyword, Topic.restored(fields, texts)))
                expiries += [(each[_EXPIRY], keyword) for each in items if each[_EXPIRY]]
    free: dict[str, int] = {}
    for part in range(1 + buckets, 1 + buckets + parts):
        free |= _loaded(block(part))
    found.sort(key=itemgetter(0))
    topics = {keyword: topic for _, keyword, topic in found}
    return _ledger(about, topics, free, expiries)


def restored_keyword(block: Block, keyword: str) -> Ledger:
    """Return a ledger of one keyword, without the next free positions of facts.

    Raises:
        ValueError: A block does not verify.
    """
    about = _loaded(block(0))
    fields = _loaded(block(1 + _bucket(keyword, about["buckets"]))).get(keyword)
    if fields is None:
        return _ledger(about, {}, {}, [])
    expiries = [(each[_EXPIRY], keyword) for each in fields[_ITEMS] if each[_EXPIRY]]
    return _ledger(about, {keyword: Topic.restored(fields, {})}, {}, expiries)


_ITEMS = 2
"""The index of the items in the fields of a topic."""
_NUMBER, _EXPIRY = 0, 7
"""The indexes of the number and the expiry in the fields of an item."""


def _ledger(
    about: dict[str, Any],
    topics: dict[str, Topic],
    free: dict[str, int],
    expiries: list[tuple[str, str]],
) -> Ledger:
    at, number, late, passed = (about[each] for each in ("at", "number", "late", "passed"))
    return Ledger.restored(LedgerState(at, number, late, passed, topics, free, expiries))


def _bucket(keyword: str, count: int) -> int:
    return zlib.crc32(keyword.encode()) % count


_WIDE = b" "
"""The first byte of a block with an integer beyond 64 bits, which needs an exact parser."""


def _dumped(fields: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(fields)
    except TypeError:
        return _WIDE + pydantic_core.to_json(fields)


def _loaded(block: bytes) -> dict[str, Any]:
    loaded: dict[str, Any] = (json if block.startswith(_WIDE) else orjson).loads(block)
    return loaded
