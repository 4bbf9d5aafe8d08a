"""Lists of places: their contents, order and pages."""

from bisect import bisect_right
from collections.abc import Iterable

from factmem._arguments import expect
from factmem.ledger.ledger import Ledger
from factmem.models.clock import moment
from factmem.models.places import Identity, Place
from factmem.providers.results import PlaceInfo


def place_info(
    identity: Identity, ledger: Ledger, size: int, now: str, *, conversations: int = 0
) -> PlaceInfo:
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
        conversations=conversations,
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


def checked_page(after: Place | None, limit: int | None) -> tuple[Identity | None, int | None]:
    """Check the arguments of `list_places`; return them for `page_of`.

    Raises:
        TypeError: One is of the wrong type.
        ValueError: `limit` is less than 1.
    """
    first = None if after is None else expect(after, Place, "after", "after=page[-1]").identity
    if limit is not None and expect(limit, int, "limit", "limit=1000") < 1:
        raise ValueError("limit must be at least 1: limit=1000")
    return first, limit


def _order(identity: Identity) -> tuple[str, str, str, str]:
    """Return a sort key. A subject without an entity precedes those with one."""
    kind, scope, subject, entity = identity
    return kind, scope, subject, entity or ""
