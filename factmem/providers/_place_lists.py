"""Lists of places: what each holds, their order, and pages of them."""

from bisect import bisect_right
from collections.abc import Iterable

from factmem.ledger.entries import moment
from factmem.ledger.ledger import Ledger
from factmem.models.places import Identity, Place
from factmem.providers.base import PlaceInfo


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
        concepts=tuple(ledger.keywords(now)),
    )


def in_order(found: Iterable[PlaceInfo]) -> list[PlaceInfo]:
    """Return places by identity; a subject without entity comes before its namesakes with one."""
    return sorted(found, key=lambda info: _order(info.place.identity))


def page_of(
    identities: Iterable[Identity], after: Identity | None, limit: int | None
) -> list[Identity]:
    """Return those identities that come after one, in the order of their names."""
    found = sorted(identities, key=_order)
    if after is not None:
        found = found[bisect_right(found, _order(after), key=_order) :]
    return found[:limit]


def _order(identity: Identity) -> tuple[str, str, str, str]:
    """Return the order of places: a subject without entity comes before its namesakes with one."""
    kind, scope, subject, entity = identity
    return kind, scope, subject, entity or ""
