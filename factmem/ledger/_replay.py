"""Entries from outside the store, which are checked before they are recorded.

Imports use `received`. The functions of an application that add or edit entries go through `amended`
and `edited`.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from factmem._arguments import expect_all, expect_function
from factmem.errors import FactmemError
from factmem.ledger.entries import (
    Amendment,
    Edit,
    Entry,
    decoded,
    encoded_entry,
    sign,
    stamped,
)
from factmem.ledger.ledger import Ledger
from factmem.models.actors import NOBODY, By

CurrentChange: TypeAlias = Callable[[Ledger, str], Entry | None]
"""A function of a place's ledger and the time that returns one entry, or None."""


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


def received(entries: Sequence[Entry]) -> list[Entry]:
    """Return entries that were recorded elsewhere as a store would read them back.

    An entry counts as recorded no earlier than the one before it.

    Raises:
        ValueError: A store could not have recorded one of `entries`.
        TypeError: They are not a list.
    """
    given: tuple[Any, ...] = expect_all(entries, object, "entries", "await store.entries(...)")
    checked = [_checked_entry(entry, number) for number, entry in enumerate(given)]
    at = ""
    for entry in checked:
        at = entry["at"] = max(entry["at"], at)
    return checked


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
