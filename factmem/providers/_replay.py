"""What of a ledger that was recorded elsewhere is new in a place."""

from collections.abc import Iterable, Sequence

from factmem.entries import Entry, ForgottenItem
from factmem.ledger import Condition, Ledger

__all__ = ["unknown_entries"]


def unknown_entries(known: Sequence[Entry], entries: Iterable[Entry]) -> list[Entry]:
    """Return what is new of `entries` in a place whose ledger is `known`.

    A save is new but for the facts whose ids the place's history has; a forgetting is new if it
    names what is current when its turn comes. Times are kept as far as they do not go back.
    """
    ids = {fact["id"] for entry in known for fact in entry.get("facts", ())}
    ledger = Ledger(known)
    new: list[Entry] = []
    for entry in entries:
        rest: Entry = {"at": max(entry["at"], ledger.recorded_at)}
        if facts := [fact for fact in entry.get("facts", ()) if fact["id"] not in ids]:
            rest["facts"] = facts
        if forget := [item for item in entry.get("forget", ()) if _is_current(ledger, item)]:
            rest["forget"] = forget
        if facts or forget:
            ledger.apply(rest)
            new.append(rest)
    return new


def _is_current(ledger: Ledger, item: ForgottenItem) -> bool:
    keyword, fact_id, position = item
    condition = Condition(keyword=keyword, fact_id=fact_id)
    return (keyword, fact_id, position) in ledger.matching(condition, ledger.recorded_at)
