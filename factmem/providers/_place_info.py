"""What a store tells of its places."""

from collections.abc import Iterable
from typing import Any

from factmem.entries import moment
from factmem.ledger import Ledger
from factmem.models import Concept, Identity, Place
from factmem.provider import PlaceChanges, PlaceInfo

__all__ = ["changes_of", "in_order", "place_info"]


def place_info(identity: Identity, ledger: Ledger, size: int, now: str) -> PlaceInfo:
    """Return what a place holds at `now`, a stamp, in `size` bytes."""
    place = Place.of_identity(identity)
    confirmed = ledger.confirmations(now)
    return PlaceInfo(
        scope=place.scope,
        subject=place.subject,
        count=len(confirmed),
        bytes=size,
        oldest=moment(min(confirmed)) if confirmed else None,
        newest=moment(max(confirmed)) if confirmed else None,
    )


def changes_of(
    ledger: Ledger, since: str, concepts: Iterable[Concept[Any, Any]], now: str
) -> PlaceChanges | None:
    """Return what has changed since a version; None where the ledger cannot tell."""
    changes = ledger.changes(since, concepts, now)
    return None if changes is None else PlaceChanges(ledger.version(now), changes)


def in_order(found: Iterable[PlaceInfo]) -> list[PlaceInfo]:
    """Return places by identity; a subject without entity comes before its namesakes with one."""
    return sorted(found, key=_order)


def _order(info: PlaceInfo) -> tuple[str, str, str, str]:
    kind, scope, subject, entity = info.place.identity
    return kind, scope, subject, entity or ""
