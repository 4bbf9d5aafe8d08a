"""Which values of a save are already superseded when it is recorded."""

from collections.abc import Collection

from factmem.ledger._items import Item, KeywordItems, values_of
from factmem.ledger._statements import Told, told
from factmem.ledger.entries import StoredFact
from factmem.models._values import Canonical, canonical
from factmem.models.when import end_of


def outdated(held: KeywordItems | None, fact: StoredFact, at: str) -> Collection[int]:
    """Return the positions of the values of a save that later statements supersede."""
    marked = fact.get("superseded", ())
    if held is None:
        return marked
    place = told(fact, at)
    is_single, retractions = fact["type"] == "SINGLE" and not held.is_wide(at), held.retractions
    found: set[int] = set()
    for position, value in values_of(fact):
        key = canonical(value)
        if (
            position in marked
            or (retractions is not None and retractions.has_ended(place, key))
            or (is_single and retractions is not None and place < retractions.floor)
            or (is_single and _has_later(held, key, place, at))
            or _is_of_the_past(held.get(key), fact, place, at)
        ):
            found.add(position)
    return found


def _is_of_the_past(item: Item | None, fact: StoredFact, place: Told, at: str) -> bool:
    """Return whether a value had ended when it was said, and is not the end of the current one."""
    if "until" not in fact:
        return False
    end = end_of(fact["until"])
    return end <= place[0] and (item is None or not item.is_alive(at) or end <= item.holds_from)


def _has_later(held: KeywordItems, key: Canonical, place: Told, at: str) -> bool:
    return any(
        item.last > place and other != key and item.is_alive(at)
        for other, item in held.items.items()
    )
