"""Conversion of Koog's facts to ledger entries.

A file maps each keyword to the list of facts that were saved under it, oldest first:

    {"ide-theme": [{"type": "ai.koog.agents.memory.model.SingleFact",
                    "concept": {"keyword": "ide-theme", "description": "...",
                                "factType": "SINGLE"},
                    "timestamp": 1748000000000, "value": "dark"}]}

Koog's versions differ in the package before the type's name, so it is ignored.
"""

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import orjson

from factmem.ledger.entries import Entry, stored
from factmem.models._names import checked_name
from factmem.models.clock import stamp
from factmem.models.facts import AnyFact, Concept, FactType, MultipleFacts, SingleFact
from factmem.models.places import Identity
from factmem.models.sources import FactSource, SourceKind

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SOURCE = FactSource(SourceKind.DOCUMENT, "koog")

_NOTHING_FOUND = "No facts extracted"
"""The marker that Koog saved when its model found no fact. Imported, it would replace the value."""


def entries_of(content: object, identity: Identity) -> tuple[list[Entry], list[str]]:
    """Return the facts of a file as entries, one for each save, and the reasons for invalid ones.

    Facts of one keyword keep Koog's order. Facts of different keywords are ordered by time. Each
    entry counts as recorded when Koog saved it, but not later than now: otherwise no later save
    could be recorded before it.

    Raises:
        ValueError: The content does not map keywords to lists.
    """
    if not isinstance(content, dict) or not all(
        isinstance(saves, list) for saves in content.values()
    ):
        raise ValueError("is JSON, but does not map keywords to lists of facts")
    dated: list[tuple[datetime, AnyFact]] = []
    flaws: list[str] = []
    for keyword, saves in content.items():
        try:
            checked_name(keyword, "keyword")
        except ValueError as exc:
            flaws.append(f"facts of an invalid keyword: {exc}")
            continue
        facts: list[AnyFact] = []
        for index, save in enumerate(saves):
            try:
                facts.append(_fact(keyword, index, save, identity))
            except ValueError as exc:
                flaws.append(f"fact {index} of {keyword!r} {exc}")
        dated += [(fact.timestamp, fact) for fact in facts]
    dated.sort(key=lambda pair: pair[0])
    now = datetime.now(UTC)
    return [{"at": stamp(min(at, now)), "facts": [stored(fact)]} for at, fact in dated], flaws


def _fact(keyword: str, index: int, save: object, identity: Identity) -> AnyFact:
    """Convert a fact of Koog; raise `ValueError` with the reason if it is invalid."""
    if not isinstance(save, dict):
        raise ValueError("is not a JSON object")  # noqa: TRY004 - data, not an argument
    values = _values(save)
    match save.get("concept"):
        case {"description": str(description), "factType": "SINGLE" | "MULTIPLE" as kind}:
            # Several values make a concept MULTIPLE whatever its factType, so that none is lost.
            is_single = kind == "SINGLE" and len(values) == 1
        case _:
            raise ValueError("has no complete concept: a description and a factType")
    fact_type = FactType.SINGLE if is_single else FactType.MULTIPLE
    concept: Concept[Any, Any] = Concept(keyword, description, fact_type)
    timestamp = _moment(save.get("timestamp"))
    content = [*identity, concept.keyword, index, stamp(timestamp), values]
    known: dict[str, Any] = {
        "timestamp": timestamp,
        "source": _SOURCE,
        # Of facts of one time the last in the list counts.
        "id": f"{index:08x}{sha256(orjson.dumps(content)).hexdigest()[:24]}",
    }
    if is_single:
        return SingleFact(concept, values[0], **known)
    return MultipleFacts(concept, tuple(values), **known)


def _values(save: dict[str, object]) -> list[str]:
    kind = str(save.get("type", "")).rpartition(".")[2]
    match kind, save.get("value"), save.get("values"):
        case "SingleFact", str(value), _:
            values = [] if value == _NOTHING_FOUND else [value]
        case "MultipleFacts", _, [*given]:
            values = [value for value in given if isinstance(value, str)]
            if len(values) < len(given):
                raise ValueError("has a value that is not a string")
        case (("SingleFact" | "MultipleFacts"), _, _):
            raise ValueError("has no string as its value, or no list of strings as its values")
        case _:
            raise ValueError("has a type that Koog's memory does not have")
    if not values:
        raise ValueError("records that the model found nothing; it was skipped")
    return values


def _moment(timestamp: object) -> datetime:
    if type(timestamp) is not int:
        raise ValueError("has no timestamp in whole milliseconds")
    try:
        return _EPOCH + timedelta(milliseconds=timestamp)
    except OverflowError:
        raise ValueError("has a timestamp outside the years 1 to 9999") from None
