"""Lists of places: their contents, order and pages."""

from bisect import bisect_right
from collections.abc import Iterable

from factmem.ledger.entries import moment
from factmem.ledger.ledger import Ledger
from factmem.models.places import Identity, Place
from factmem.providers.results import PlaceInfo


def place_info(identity: Identity, ledger: Ledger, size: int, now: str) -> PlaceInfo:
    """Return the contents of a place of `size` bytes at `now`, a stamp."""
    place = Place.of_identity(identity)
    confirmed = ledger.confirmations(now)
    return PlaceInfo(
        scope=place.scope,
        subject=place.subject,
        count=len(confirmed),
        bytes=size,
        oldest=moment(min(confirmed)) if confirmed else None,
        newest=moment(max(confirmed)) if confirmed else None,
        concepts=tuple(ledger.keywords(now)),
    )


def in_order(found: Iterable[PlaceInfo]) -> list[PlaceInfo]:
    """Sort places by identity. A subject without an entity precedes those with one."""
    return sorted(found, key=lambda info: _order(info.place.identity))


def page_of(
    identities: Iterable[Identity], after: Identity | None, limit: int | None
) -> list[Identity]:
    """Return up to `limit` identities that follow `after`, in the order of names."""
    found = sorted(identities, key=_order)
    if after is not None:
        found = found[bisect_right(found, _order(after), key=_order) :]
    return found[:limit]


def _order(identity: Identity) -> tuple[str, str, str, str]:
    """Return a sort key. A subject without an entity precedes those with one."""
    kind, scope, subject, entity = identity
    return kind, scope, subject, entity or ""
