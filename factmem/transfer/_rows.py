"""Imports of rows; checks, erasures and JSON parsing within a budget, for all imports.

A parsed line takes up to 30 times its bytes, mostly for lists and objects. So a line is measured
before it is parsed, and a file of a few bytes cannot fill the memory.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import IO, Any, NoReturn, TypeAlias

import orjson

from factmem._arguments import expect, kind_of
from factmem.errors import InputTypeError, InputValueError
from factmem.ledger._items import values_of
from factmem.ledger.entries import MOST_BYTES, MOST_PARTS, Entry, StoredFact, is_small, stored
from factmem.ledger.resolution import PlacedFact
from factmem.models._values import Canonical, canonical
from factmem.models.facts import FactType
from factmem.models.places import Identity, Place
from factmem.models.when import stamp
from factmem.providers.provider import fact_store
from factmem.providers.results import ErasureReceipt
from factmem.providers.store import FactStore
from factmem.transfer.reports import ImportReport


def check_store(store: object, name: str) -> None:
    """Raise `TypeError` if an argument is not a `FactStore`."""
    if not isinstance(store, FactStore):
        raise InputTypeError(
            f"{name} must be a FactStore, not {kind_of(store)}: LocalFileMemoryProvider(path)"
        )
    fact_store(store)


async def erased_until(store: FactStore, place: Place, erased: Mapping[Identity, str]) -> str:
    """Return the stamp of the last erasure of a place, or "".

    Args:
        store: The store; it may know of an erasure.
        place: The place.
        erased: The times of erasures that are known from receipts.
    """
    known = await store.erased_at(place.subject, place.scope)
    return max("" if known is None else stamp(known), erased.get(place.identity, ""))


def times_of(erased: Iterable[ErasureReceipt]) -> dict[Identity, str]:
    """Return the time of the last erasure of each place, as a stamp."""
    found: dict[Identity, str] = {}
    for receipt in erased:
        expect(receipt, ErasureReceipt, "erased", "erased=[receipt]")
        identity = receipt.place.identity
        found[identity] = max(found.get(identity, ""), stamp(receipt.erased_at))
    return found


_Content: TypeAlias = tuple[str, str, tuple[Canonical, ...]]


async def import_rows(
    rows: Iterable[PlacedFact[Any]],
    into: FactStore,
    wanted: set[Identity] | None,
    erased: Mapping[Identity, str],
    progress: Callable[[int, int], None] | None,
) -> ImportReport:
    """Write rows to a store, each recorded at the time of its fact.

    All rows are checked before the first is written. Each place is written in one step.
    """
    by_place = _by_place(rows, wanted)
    for place, _ in by_place:  # a view raises here, before anything is written
        await into.replay([], place.subject, place.scope)
    new = read = skipped = 0
    for done, (place, facts) in enumerate(by_place, 1):
        read += len(facts)
        known = await into.entries(place.subject, place.scope)
        unknown = _unknown(known, facts)
        until = await erased_until(into, place, erased)
        kept = [entry for entry in unknown if entry["at"] > until]
        new += await into.replay(kept, place.subject, place.scope)
        skipped += len(unknown) - len(kept)
        if progress is not None:
            progress(done, len(by_place))
    return ImportReport(tuple(place for place, _ in by_place), read, new, skipped=skipped)


def _by_place(
    rows: Iterable[PlacedFact[Any]], wanted: set[Identity] | None
) -> list[tuple[Place, list[StoredFact]]]:
    found: dict[Identity, tuple[Place, list[StoredFact]]] = {}
    for row in rows:
        if not isinstance(row, PlacedFact):
            raise InputTypeError(
                f"rows must be PlacedFacts, not {kind_of(row)}: "
                f"[PlacedFact(Place(scope, subject), SingleFact(concept, value, timestamp=when))]"
            )
        identity = row.place.identity
        if wanted is None or identity in wanted:
            found.setdefault(identity, (row.place, []))[1].append(stored(row.fact))
    for _, facts in found.values():
        facts.sort(key=_time)  # stable: rows with equal times keep their order
    return list(found.values())


def _unknown(known: Sequence[Entry], facts: Sequence[StoredFact]) -> list[Entry]:
    """Return one entry for each row that a place does not have.

    Rows are compared by content, because a fact built again from the same row has a new id.
    """
    # A row with a future time is recorded now. Otherwise no later save could be recorded before it.
    now = stamp(datetime.now(UTC))
    saved = {_content(fact) for entry in known for fact in entry.get("facts", ())}
    ids = {(fact["keyword"], _own_id(fact)) for entry in known for fact in entry.get("facts", ())}
    entries: list[Entry] = []
    for fact in _ranked(facts):
        content, name = _content(fact), (fact["keyword"], _own_id(fact))
        if content not in saved and name not in ids:
            entries.append({"at": min(fact["timestamp"], now), "facts": [fact]})
    return entries


_RANK = "~"
"""Begins the ids of rows that are not the first of their keyword and time. It sorts after
letters."""
_RANK_WIDTH = 10


def _ranked(facts: Sequence[StoredFact]) -> list[StoredFact]:
    """Return the rows, each of equal content once, with ids by which the last of one time wins.

    The greater id decides between values of equal times, in every copy of a store.
    """
    unique: dict[_Content, StoredFact] = {}
    for fact in facts:
        content = _content(fact)
        unique.pop(content, None)
        unique[content] = fact  # the place of the last
    ranks: Counter[tuple[str, str]] = Counter()
    for fact in unique.values():
        rank = ranks[fact["keyword"], fact["timestamp"]]
        ranks[fact["keyword"], fact["timestamp"]] += 1
        if rank and fact["type"] == FactType.SINGLE:
            fact["id"] = f"{_RANK}{rank:0{_RANK_WIDTH - 2}d}{_RANK}{fact['id']}"
    return list(unique.values())


def _own_id(fact: StoredFact) -> str:
    """Return the id of a row without its rank."""
    return fact["id"][_RANK_WIDTH:] if fact["id"].startswith(_RANK) else fact["id"]


def _time(fact: StoredFact) -> str:
    return fact["timestamp"]


def _content(fact: StoredFact) -> _Content:
    values = tuple(canonical(value) for _, value in values_of(fact))
    return fact["keyword"], fact["timestamp"], values


_LONG_INTEGER = re.compile(rb"(?:^|[^\w\"])\d{19}")
"""Such integers may have more than 64 bits. orjson would read them as floats."""
_DIGITS = bytes(ord("0") if ord("0") <= byte <= ord("9") else ord(" ") for byte in range(256))
"""Replaces each digit by a zero: most lines have no 19 digits, and this finds them ten times as
fast."""


def lines_of(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file, with their line feeds."""
    number = 1
    while line := file.readline(MOST_BYTES + 1):
        if len(line) > MOST_BYTES:
            raise InputValueError(f"Line {number} has more than {MOST_BYTES:,} bytes")
        yield line
        number += 1


def parsed_json(text: bytes) -> object:
    """Parse JSON. Integers are exact, and all numbers are finite.

    Raises:
        ValueError: It is not JSON, or too large to be parsed. The message quotes nothing of it.
    """
    if not is_small(text):
        raise InputValueError(f"has more than {MOST_BYTES:,} bytes or {MOST_PARTS:,} parts")
    try:
        if b"0" * 19 not in text.translate(_DIGITS) or not _LONG_INTEGER.search(text):
            found: object = orjson.loads(text)
            return found
        found = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        json.dumps(found, ensure_ascii=False).encode()  # raises for a lone surrogate
    except (ValueError, RecursionError):
        raise InputValueError("is not JSON") from None
    return found


def _finite(text: str) -> float:
    number = float(text)
    return number if abs(number) != float("inf") else _refuse(text)


def _refuse(constant: str) -> NoReturn:
    raise InputValueError(f"{constant[:8]} is not a number of JSON")
