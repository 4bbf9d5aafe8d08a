"""Updates and histories of single records of a memory."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import JsonValue

from factmem.ledger._condition import Condition
from factmem.ledger._items import name_of
from factmem.ledger._presentation import last_said
from factmem.ledger.entries import Entry, stored
from factmem.ledger.history import History, HistoryAction, HistoryEntry
from factmem.ledger.ledger import Ledger
from factmem.ledger.resolution import PlacedFact
from factmem.memory.origin import history_of
from factmem.models._metadata import checked_metadata
from factmem.models._values import canonical
from factmem.models.facts import AnyFact, Concept, SingleFact
from factmem.models.places import Place
from factmem.providers.base import FactStore


def checked_changes(**given: object) -> dict[str, Any]:
    """Return the fields of an update that were passed: all but those that are `...`.

    Raises:
        ValueError: No field was passed.
    """
    changes = {name: value for name, value in given.items() if value is not ...}
    if not changes:
        raise ValueError("update needs a field to change: update(id, value='dark')")
    return changes


def _updated(fact: AnyFact, changes: Mapping[str, Any]) -> AnyFact:
    """Return a fact with other fields.

    Raises:
        ValueError: A value does not fit the concept, or `value` was passed for a concept with many
            values or `values` for one with a single value.
    """
    right, wrong = ("value", "values") if isinstance(fact, SingleFact) else ("values", "value")
    if wrong in changes:
        raise ValueError(
            f"The concept {fact.concept.keyword!r} needs {right}, not {wrong}: update(id, {right}=...)"
        )
    # The old quote does not prove a new value.
    before: Any = replace(fact, source=None) if right in changes else fact
    updated: AnyFact = replace(before, **changes)
    return updated


async def update_record(
    store: FactStore, placed: PlacedFact[AnyFact], changes: Mapping[str, Any]
) -> bool:
    """Write an update as one entry; False if the fact is no longer current.

    Unchanged values are confirmed and keep their dates; other values are forgotten, and new values
    are added with the same id.
    """
    new = _updated(placed.fact, changes)

    def change(entries: Sequence[Entry], now: str) -> list[Entry]:
        ledger, keyword = Ledger(entries), new.concept.keyword
        names = ledger.matching(
            Condition(fact_ids=frozenset([new.id]), keywords=frozenset(new.concept.keywords)), now
        )
        if not names:
            return []
        fact = stored(new)
        items = ledger.items(keyword, now)
        kept = {canonical(each) for each in fact.get("values", [fact.get("value")])}
        own = [item for item in items.values() if item.fact_id == new.id]
        if "value" in fact and own:  # of the values of another program only the one that was shown
            own = [last_said(own)]
        if not kept <= items.keys():
            fact["timestamp"] = now
        if "metadata" in changes:
            fact["metadata"] = dict(checked_metadata(changes["metadata"]))
        gone = {name_of(keyword, item) for item in own if canonical(item.value) not in kept}
        former = [name for name in names if name[0] != keyword]
        forget = (
            former
            if "value" in fact and not ledger.is_wide(keyword, now)
            else [each for each in names if each in gone or each in former]
        )
        entry: Entry = {"at": now, "facts": [fact]}
        return [{**entry, "forget": forget} if forget else entry]

    return await store.amend(change, placed.place.subject, placed.place.scope) > 0


async def record_history(store: FactStore, places: Iterable[Place], fact_id: str) -> History:
    """Return the history of one record from the first place that ever had it, oldest first.

    It contains saves and updates, confirmations of its values, and deletions.
    """
    for place in places:
        entries = await store.entries(place.subject, place.scope)
        concept = _concept_of(entries, fact_id)
        if concept is not None:
            kept = await history_of(concept, place, store)
            return _concerning(kept or [], fact_id)
    return History()


def _concept_of(entries: Iterable[Entry], fact_id: str) -> Concept[Any, Any] | None:
    for entry in entries:
        for fact in entry.get("facts", ()):
            if fact["id"] == fact_id:
                return Concept(fact["keyword"], fact["description"], value_type=JsonValue)
    return None


def _concerning(history: Iterable[HistoryEntry], fact_id: str) -> History:
    """Return the entries of one fact, and those that confirmed a value while it had that value."""
    found = History()
    values: set[object] = set()
    for entry in history:
        fact = entry.fact
        if fact is None:
            if fact_id in entry.forgotten:
                found.append(entry)
            continue
        theirs = {canonical(value) for value in fact.values}
        if fact.id == fact_id:
            values |= theirs
            found.append(entry)
        elif entry.action is HistoryAction.CONFIRMED and values & theirs:
            found.append(entry)
    return found
