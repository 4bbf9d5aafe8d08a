"""The checks that exports and imports have in common."""

from collections.abc import Iterable, Mapping

from factmem._arguments import expect, kind_of
from factmem.ledger.entries import Entry
from factmem.models.clock import stamp
from factmem.models.places import Identity, Place
from factmem.providers.base import FactStore, fact_store
from factmem.providers.results import ErasureReceipt


def check_store(store: object, name: str) -> None:
    """Raise `TypeError` if an argument is not a `FactStore`."""
    if not isinstance(store, FactStore):
        raise TypeError(
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


async def not_erased(
    store: FactStore, place: Place, entries: list[Entry], erased: Mapping[Identity, str]
) -> list[Entry]:
    """Return the entries that were recorded after the last erasure of their place."""
    until = await erased_until(store, place, erased)
    return [entry for entry in entries if entry["at"] > until]


def times_of(erased: Iterable[ErasureReceipt]) -> dict[Identity, str]:
    """Return the time of the last erasure of each place, as a stamp."""
    found: dict[Identity, str] = {}
    for receipt in erased:
        expect(receipt, ErasureReceipt, "erased", "erased=[receipt]")
        identity = receipt.place.identity
        found[identity] = max(found.get(identity, ""), stamp(receipt.erased_at))
    return found
