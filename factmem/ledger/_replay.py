"""Entries from outside the store: validation, and selection of those new to a place.

Imports use `unknown_entries`, which makes a second import of the same entries add nothing. The
functions of an application that add or edit entries go through `amended` and `edited`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from factmem._arguments import expect_all, expect_function
from factmem.errors import FactmemError
from factmem.ledger.entries import (
    Amendment,
    Edit,
    Entry,
    ForgottenItem,
    RetractedValue,
    StoredFact,
    decoded,
    encoded_entry,
    sign,
    stamped,
)
from factmem.ledger.ledger import Ledger
from factmem.models.actors import NOBODY, By

__all__ = ["CurrentChange", "amended", "edited", "unknown_entries"]


CurrentChange: TypeAlias = Callable[[Ledger, str], Entry | None]
"""A function of a place's ledger and the time that returns one entry, or None."""

_Mark: TypeAlias = tuple[object, ...]

_PARTS = {"facts", "forget", "retract"}
"""The parts of entries that this version knows."""


def amended(known: Sequence[Entry], now: str, change: Amendment, by: By = NOBODY) -> list[Entry]:
    """Return the entries that `change` returns for a ledger, recorded at `now` and signed by `by`.

    Raises:
        ValueError: A store could not have recorded one of them.
        TypeError: `change` is not a function, or returned no list of entries.
    """
    expect_function(change, "change", "amend(change, subject, scope)")
    made: tuple[Any, ...] = expect_all(
        change(known, now), object, "The result of change", "return [entry]"
    )
    given: list[Any] = [{**entry, "at": now} for entry in made]
    for entry in given:
        sign(entry, by)
    return [_checked_entry(entry, number) for number, entry in enumerate(given)]


def edited(entries: Sequence[Entry], edit: Edit) -> list[Entry | None]:
    """Return each entry as edited, with its own time; an unchanged entry is the same object.

    Raises:
        ValueError: It returned more or fewer entries, or one that no store could have recorded.
        TypeError: `edit` is not a function, or returned no list.
    """
    example = "rewrite(edit, subject, scope)"
    expect_function(edit, "edit", example)
    edited: Any = edit([entry.copy() for entry in entries])
    members: Any = expect_all(edited, object, "The result of edit", "[None]")
    after: tuple[Entry | None, ...] = members
    if len(after) != len(entries):
        raise ValueError("An edit gives an entry, or None, for each entry: edit changes no order")
    return [
        old if new == old else new and _checked_entry({**new, "at": old["at"]}, number)
        for number, (old, new) in enumerate(zip(entries, after, strict=True))
    ]


def unknown_entries(
    known: Iterable[Entry], entries: Sequence[Entry], by: By = NOBODY
) -> list[Entry]:
    """Return the entries that a replay of `entries` adds to a place with the entries `known`.

    Entries without an actor are signed by `by`.

    A saved fact is known if the place has it, by keyword and id, as often as the entries up to that
    point. A forgetting is known if the place has it as often, or if its item is not current at that
    point. An entry of an unknown kind is known if the place has an equal one. Known facts are omitted
    from an entry with several. An entry counts as recorded no earlier than the place's last entry, and keeps in
    `origin` when it was first recorded.

    Raises:
        ValueError: A store could not have recorded one of `entries`.
        TypeError: They are not a list.
    """
    given: tuple[Any, ...] = expect_all(entries, object, "entries", "await store.entries(...)")
    checked = [_checked_entry(entry, number) for number, entry in enumerate(given)]
    known = list(known)
    # Only a forgetting depends on current items, and folding a place costs more than the rest.
    ledger = Ledger(known) if any("forget" in entry for entry in checked) else None
    recorded_at = max((entry["at"] for entry in known), default="")
    rest = Counter(mark for entry in known for mark in _marks(entry))
    unknown: list[Entry] = []
    for entry in checked:
        if entry["at"] < recorded_at:
            entry.setdefault("origin", entry["at"])
            entry["at"] = recorded_at
        if _reduce(entry, rest, ledger):
            recorded_at = entry["at"]
            sign(entry, by)
            unknown.append(entry)
            if ledger is not None:
                ledger.apply(entry)
    return unknown


def _reduce(entry: Entry, rest: Counter[_Mark], ledger: Ledger | None) -> bool:
    """Remove the known parts from an entry; return whether anything remains."""
    if not _PARTS & entry.keys():
        return not _is_known(_other(entry), rest)
    facts = [fact for fact in entry.pop("facts", []) if not _is_known(_saved(fact), rest)]
    forget = [
        name
        for name in entry.pop("forget", ())
        if not _is_known(_forgotten(name), rest)
        and (facts or (ledger is not None and ledger.is_current(name, entry["at"])))
    ]
    if facts:
        entry["facts"] = facts
    if forget:
        entry["forget"] = forget
    if retract := [r for r in entry.pop("retract", ()) if not _is_known(_retracted(r), rest)]:
        entry["retract"] = retract
    return bool(facts or forget or retract)


def _is_known(mark: _Mark, rest: Counter[_Mark]) -> bool:
    if rest[mark] <= 0:
        return False
    rest[mark] -= 1
    return True


def _marks(entry: Entry) -> Iterator[_Mark]:
    """Yield the identities of an entry's parts, independent of when they were recorded."""
    if not _PARTS & entry.keys():
        yield _other(entry)
    yield from map(_saved, entry.get("facts", ()))
    yield from map(_forgotten, entry.get("forget", ()))
    yield from map(_retracted, entry.get("retract", ()))


def _saved(fact: StoredFact) -> _Mark:
    return "saved", fact["keyword"], fact["id"]


def _forgotten(name: ForgottenItem) -> _Mark:
    return "forgotten", *name


def _retracted(retracted: RetractedValue) -> _Mark:
    return "retracted", retracted["keyword"], retracted.get("digest"), retracted["timestamp"]


def _other(entry: Entry) -> _Mark:
    return "other", encoded_entry(entry)


def _checked_entry(entry: Entry, number: int) -> Entry:
    """Return a copy of an entry as a store would read it back."""
    from factmem.ledger._entry_check import check_entry  # slow to import

    try:
        check_entry(entry)
        body = encoded_entry(entry)
        copy = decoded(stamped(body, entry["at"]))
        if encoded_entry(copy) != body or copy.get("facts") != entry.get("facts"):
            raise ValueError("its values are not plain JSON")
    except (ValueError, TypeError, FactmemError) as exc:
        raise ValueError(f"Entry {number} cannot be recorded: {exc}") from None
    return copy
