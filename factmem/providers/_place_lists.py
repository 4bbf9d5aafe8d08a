"""Lists of places: their contents, order and pages."""

from bisect import bisect_right
from collections.abc import Iterable

from factmem.concurrency.garbage import paused_collection
from factmem.errors import FactmemError
from factmem.ledger.entries import moment
from factmem.ledger.ledger import Ledger
from factmem.models.boundary import UNBOUNDED, Boundary
from factmem.models.places import Identity, Place
from factmem.providers.results import PlaceInfo
from factmem.storage.base import JournalName, Journals, PagedJournals


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


_LISTED = 8192
"""The least page size in requests to a storage, because names outside the boundary are skipped."""


def listed(
    journals: Journals, wanted: Boundary, after: Identity | None, limit: int | None
) -> list[Identity]:
    """Return up to `limit` places of a folder inside a boundary, without reading their entries."""
    if not isinstance(journals, PagedJournals):
        return page_of(filter(wanted.allows, map(_identity, journals.names())), after, limit)
    found: list[Identity] = []
    size = None if limit is None else max(limit, _LISTED)
    with paused_collection(_LISTED):
        while limit is None or len(found) < limit:
            page = list(map(_identity, journals.page(after, size)))
            found += page if wanted == UNBOUNDED else filter(wanted.allows, page)
            if size is None or len(page) < size:
                break
            after = page[-1]
    return found[:limit]


def _identity(name: JournalName) -> Identity:
    kind, scope, subject, entity = name
    if kind is None or scope is None or subject is None:
        raise FactmemError(
            "The folder contains a journal whose name is not that of a place: another program "
            "wrote it. Use a folder of its own for the store"
        )
    return (kind, scope, subject, entity)


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
