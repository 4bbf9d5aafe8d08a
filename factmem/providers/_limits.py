"""Whether a place has room for what is to be saved."""

from typing import Any

from factmem.ledger.entries import Entry, encoded_entry
from factmem.ledger.ledger import Ledger
from factmem.models.boundary import UNBOUNDED
from factmem.models.places import Identity, Place
from factmem.providers._backend import Backend
from factmem.providers.results import PlaceLimit


async def check_room(
    limit: PlaceLimit, backend: Backend, identity: Identity, entry: dict[str, Any]
) -> None:
    """Raise `PlaceFullError` if a place has no room for an entry; retractions always fit."""
    facts = entry.get("facts", ())
    if limit.values is not None:
        await backend.present(
            identity, lambda ledger, now: limit.check_values(identity, ledger, facts, now)
        )
    if limit.bytes is not None:
        boundary = UNBOUNDED.narrowed(places=[Place.of_identity(identity)])
        size = sum(info.bytes for info in await backend.places(boundary))
        limit.check_bytes(identity, size + len(encoded_entry(entry)))


def check_fitting(
    limit: PlaceLimit | None, identity: Identity, known: list[Entry], new: list[Entry], now: str
) -> None:
    """Raise `PlaceFullError` if a place has no room for new entries; forgettings always fit."""
    facts = [fact for entry in new for fact in entry.get("facts", ())]
    if limit is None or not facts:
        return
    forget = [name for entry in new for name in entry.get("forget", ())]
    ledger = Ledger([*known, {"at": now, "forget": forget}])
    limit.check_values(identity, ledger, facts, now)
    limit.check_bytes(identity, sum(len(encoded_entry(entry)) for entry in (*known, *new)))
