"""Proposals: values and endings that wait for a decision, beside the current values of a keyword.

What a model learns never changes what a person confirmed. `waiting` decides which values of a save
are proposals; the rule is applied whenever a ledger is folded, so that no write can come in between.
"""

from collections.abc import Collection

from factmem.ledger._items import Item, KeywordItems, values_of
from factmem.ledger._statements import digest_of, end_of
from factmem.ledger.entries import RetractedValue, StoredFact
from factmem.models._values import canonical


def is_of_one_value(held: KeywordItems | None, fact: StoredFact, at: str) -> bool:
    """Return whether a model states many values of a keyword with one confirmed value.

    It keeps its one value. Without a confirmed one it may become MULTIPLE: what a model wrote first
    may have been wrong.
    """
    return (
        held is not None
        and held.fact_type == "SINGLE"
        and fact["type"] == "MULTIPLE"
        and "stated" in fact
        and any(item.state == "confirmed" for item in held.alive(at))
    )


def waiting(
    held: KeywordItems | None, fact: StoredFact, at: str, past: Collection[int]
) -> Collection[int]:
    """Return the positions of the values of a save that become proposals.

    Those that the save proposes, and those of a statement that would replace or double a confirmed
    value of a keyword with one, or that a person has rejected. A value that is current is never a
    proposal.

    Args:
        held: The items of the keyword.
        fact: The save.
        at: When it is recorded.
        past: The positions that are superseded.
    """
    marked: Collection[int] = fact.get("proposed", ())
    if held is None or not ("stated" in fact or marked):
        return marked
    is_single = fact["type"] == "SINGLE" or held.fact_type == "SINGLE"
    is_guarded = is_single and any(item.state == "confirmed" for item in held.alive(at))
    if "stated" not in fact:
        is_guarded = False
    retractions = held.retractions
    if not (marked or is_guarded or (retractions is not None and retractions.rejected)):
        return ()
    found: list[int] = []
    for position, value in values_of(fact):
        key = canonical(value)
        item = held.get(key)
        if position in past or (item is not None and item.is_alive(at)):
            continue
        is_rejected = retractions is not None and digest_of(key) in retractions.rejected
        if position in marked or is_guarded or is_rejected:
            found.append(position)
    return found


def is_contested(item: Item, retracted: RetractedValue, at: str) -> bool:
    """Return whether a retraction of a current value waits for a decision."""
    if "confirmed" in retracted or item.last > end_of(retracted, at):
        return False
    return item.state == "confirmed" or "proposed" in retracted
