"""Maintenance of places: tidying, moving, renaming and converting."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, TypeAlias

from factmem._arguments import expect_within
from factmem.ledger.entries import Entry, StoredFact, moment, stamp
from factmem.ledger.removal import tidied
from factmem.models.display import Displayed
from factmem.models.facts import Concept
from factmem.models.names import checked_name
from factmem.models.places import Place
from factmem.providers.base import FactStore
from factmem.providers.results import ErasureReceipt

__all__ = [
    "ConversionReport",
    "MoveReport",
    "TidyReport",
    "convert_place",
    "move_place",
    "rename_in_place",
    "tidy_place",
]

Conversion: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class TidyReport(Displayed):
    """The result of `tidy`."""

    places: list[Place]
    """The places that were rewritten."""
    entries: int
    """The number of entries of their histories that were removed or shortened."""


@dataclass(frozen=True, slots=True)
class MoveReport(Displayed):
    """The result of `move`."""

    entries: int
    """The number of entries that were new in the target."""
    receipt: ErasureReceipt
    """The receipt of the source's erasure, which was already empty."""


@dataclass(frozen=True, slots=True)
class ConversionReport(Displayed):
    """The result of `convert`, without values."""

    places: list[Place]
    """The places whose values were converted, or would be in a dry run."""
    values: int
    """The number of values, including history."""
    failed: list[tuple[Place, str]] = field(default_factory=list[tuple[Place, str]])
    """The place and id of each fact with a value that cannot be converted."""


async def tidy_place(
    store: FactStore, place: Place, now: str, *, expired: bool, keep: timedelta | None
) -> int:
    """Remove expired values and old history from a place; return the number of changed entries."""
    if keep is not None:
        example = "history_older_than=timedelta(days=365)"
        expect_within(keep, timedelta, "history_older_than", example, least=timedelta(0))
    cutoff = "" if keep is None else stamp(moment(now) - keep)

    def edit(entries: Sequence[Entry]) -> Sequence[Entry | None]:
        return tidied(entries, now, expired=expired, cutoff=cutoff)

    return await store.rewrite(edit, place.subject, place.scope)


async def move_place(store: FactStore, source: Place, target: Place) -> MoveReport:
    """Copy the history of a place to another one, remove it from the source, then erase the source.

    Copying again adds nothing: repeat the call to finish an interrupted move. Only copied entries
    are removed, in one atomic step. Entries that are saved in the meantime are copied in the next
    round. The source is erased only if it is empty.
    """
    if source.identity == target.identity:
        raise ValueError("source and target must be two places: move(guest, account)")
    new = 0
    while True:
        while entries := await store.entries(source.subject, source.scope):
            new += await store.replay(entries, target.subject, target.scope)
            await store.rewrite(partial(_without, entries), source.subject, source.scope)
        receipt = await store.erase(source.subject, source.scope, only_empty=True)
        if not await store.entries(source.subject, source.scope):
            return MoveReport(new, receipt)


def _without(copied: Sequence[Entry], entries: Sequence[Entry]) -> Sequence[Entry | None]:
    """Return a ledger without its copied entries; unchanged if these were rewritten meanwhile."""
    count = len(copied)
    if list(entries[:count]) != list(copied):
        return entries
    return [*[None] * count, *entries[count:]]


async def rename_in_place(store: FactStore, place: Place, old: str, new: Concept[Any, Any]) -> int:
    """Rename a keyword and change its description in one place and its history.

    Raises:
        ValueError: The place already has facts with the new keyword.
    """
    checked_name(old, "keyword")

    def edit(entries: Sequence[Entry]) -> Sequence[Entry | None]:
        keywords = {fact["keyword"] for entry in entries for fact in entry.get("facts", ())}
        if old not in keywords:
            return entries
        if new.keyword in keywords:
            raise ValueError(
                f"{str(place)!r} already has facts with {new.keyword!r}: nothing was renamed there"
            )
        return [_renamed(entry, old, new) for entry in entries]

    return await store.rewrite(edit, place.subject, place.scope)


def _renamed(entry: Entry, old: str, new: Concept[Any, Any]) -> Entry:
    entry = entry.copy()
    if facts := entry.get("facts"):
        entry["facts"] = [
            _described(fact, new) if fact["keyword"] == old else fact for fact in facts
        ]
    if forget := entry.get("forget"):
        entry["forget"] = [
            (new.keyword if keyword == old else keyword, fact_id, position)
            for keyword, fact_id, position in forget
        ]
    return entry


def _described(fact: StoredFact, concept: Concept[Any, Any]) -> StoredFact:
    return {**fact, "keyword": concept.keyword, "description": concept.description}


async def convert_place(
    store: FactStore,
    place: Place,
    concept: Concept[Any, Any],
    function: Conversion,
    *,
    dry_run: bool,
) -> tuple[int, list[str]]:
    """Convert the values of a concept in one place and its history.

    Returns:
        The number of values, and the ids of the facts that cannot be converted; nothing is written
        if there are any.
    """
    counted, failed = 0, list[str]()

    def edit(entries: Sequence[Entry]) -> Sequence[Entry | None]:
        nonlocal counted
        counted = 0
        failed.clear()
        after: list[Entry] = []
        for entry in entries:
            copy = deepcopy(entry)
            for fact in copy.get("facts", ()):
                if fact["keyword"] == concept.keyword:
                    counted += _convert(fact, concept, function, failed)
            after.append(copy)
        return entries if failed or dry_run else after

    if dry_run:
        edit(await store.entries(place.subject, place.scope))
    else:
        await store.rewrite(edit, place.subject, place.scope)
    return counted, list(dict.fromkeys(failed))


def _convert(
    fact: StoredFact, concept: Concept[Any, Any], function: Conversion, failed: list[str]
) -> int:
    """Convert the values of one stored fact in place; return their number."""
    values = fact["values"] if "values" in fact else [fact["value"]] if "value" in fact else []
    try:
        new = [
            concept.codec.dump(
                concept.codec.check(function(value), concept.keyword), concept.keyword
            )
            for value in values
        ]
    except Exception:  # noqa: BLE001 - the function is the application's; the report has the id
        failed.append(fact["id"])
        return len(values)
    if "values" in fact:
        fact["values"] = new
    elif new:
        fact["value"] = new[0]
    fact["description"] = concept.description
    return len(values)
