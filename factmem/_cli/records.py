"""Facts, histories and places as JSON and as cells of a table."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from factmem._cli.place_names import place_name
from factmem.ledger.entries import stored
from factmem.ledger.history import HistoryEntry
from factmem.memory.listing import FactOrigin
from factmem.models.facts import AnyFact, FactSource, SourceKind
from factmem.models.places import Place
from factmem.models.when import stamp
from factmem.providers.results import PlaceInfo


def value_words(values: Iterable[object]) -> str:
    """Return values as the text of a cell: strings unchanged, everything else as JSON."""
    return ", ".join(
        each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in values
    )


def fact_record(fact: AnyFact, place: Place) -> dict[str, Any]:
    """Return a fact with plain JSON values as JSON."""
    confirmed = {} if fact.confirmed_at is None else {"confirmed_at": stamp(fact.confirmed_at)}
    by = {"actor": fact.actor, "reason": fact.reason}
    named = {name: text for name, text in by.items() if text is not None}
    return {"place": place_name(place), **stored(fact), **confirmed, **named}


def history_record(entry: HistoryEntry) -> dict[str, Any]:
    """Return an entry of a history as JSON."""
    record: dict[str, Any] = {
        "action": entry.action.value,
        "recorded_at": stamp(entry.recorded_at),
    }
    if entry.fact is not None:
        record["fact"] = stored(entry.fact)
    if entry.forgotten:
        record["forgotten"] = [*entry.forgotten]
    return record


def origin_record(fact: AnyFact, origin: FactOrigin) -> dict[str, Any]:
    """Return a fact with its sources and its history as JSON."""
    return {
        **fact_record(fact, origin.place),
        "sources": [_source_record(each) for each in origin.sources],
        "history": [history_record(each) for each in origin.history or ()],
    }


def _source_record(source: FactSource) -> dict[str, Any]:
    names = ("kind", "conversation", "message", "quote", "model", "before")
    return {name: part for name in names if (part := getattr(source, name)) is not None}


def source_words(sources: Sequence[FactSource]) -> str:
    """Describe the first of several sources in a few words, with its quote."""
    if not sources:
        return ""
    source = sources[0]
    message = None if source.message is None else f"message {source.message}"
    quote = None if source.quote is None else f'"{source.quote}"'
    parts = [source.kind.value, source.conversation, message, quote]
    return ", ".join(part for part in parts if part is not None)


def speaker(source: FactSource | None) -> str:
    """Describe who said a fact and where, without the quote."""
    if source is None:
        return ""
    return ", ".join(part for part in (source.kind.value, source.conversation) if part)


def author(actor: str | None, source: FactSource | None) -> str:
    """Describe who made a change, or who said the fact."""
    said = "" if source is None or (actor and source.kind is SourceKind.CODE) else speaker(source)
    return said if actor is None else f"{actor}: {said}" if said else actor


def place_record(info: PlaceInfo) -> dict[str, Any]:
    """Return the name, counts and times of a place as JSON."""
    return {
        "place": place_name(info.place),
        "identity": [*info.place.identity],
        "count": info.count,
        "bytes": info.bytes,
        "oldest": None if info.oldest is None else stamp(info.oldest),
        "newest": None if info.newest is None else stamp(info.newest),
    }
