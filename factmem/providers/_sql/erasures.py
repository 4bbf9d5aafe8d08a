"""The erasures of a store, counted in its row, and the writes that came too late for one.

The row of an existing place is enough: a place that was erased and created again has another `made`,
and a purge leaves the count in `purged`. For a place that did not exist the count of the whole store
decides. So no row names a place that was erased.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from factmem.providers._sql import statements as sql
from factmem.providers._sql.session import Session


class Moment(NamedTuple):
    """A moment in the life of a place."""

    erasures: int | None
    """How many erasures the store had counted; None if there was no store."""
    made: int | None
    """The number of the place of this name; None if it did not exist."""
    here: int = 0
    """How many erasures this process had done while there was no store to count them."""


def moment_of(session: Session, store: int, place: bytes, here: int) -> Moment:
    """Return the present moment of a place, given by its key."""
    ((erasures, made),) = session.rows(sql.READ_MOMENT, [place, store])
    return Moment(erasures, made, here)


def count_erasure(session: Session, store: int) -> int:
    """Count an erasure, and return how many there are; inside its transaction.

    It locks the row of the store until the commit. Places are locked before it, never after.
    """
    ((erasures,),) = session.rows(sql.COUNT_ERASURE, [store])
    count: int = erasures
    return count


def erased_since(
    session: Session, store: int, moments: Collection[tuple[bytes, Moment]], here: int
) -> set[tuple[bytes, Moment]]:
    """Return those moments after which their place, given by its key, was erased or purged.

    Their rows must be locked: then an erasure is either counted, or waits for this transaction.
    """
    if not moments:
        return set()
    query, places = sql.among(sql.READ_ERASURES, {place for place, _ in moments})
    rows = session.rows(query, [store, *places])
    found: Mapping[bytes, tuple[int, int, int]] = {row[0]: row[1:] for row in rows}
    return {(place, since) for place, since in moments if _is_erased(since, found[place], here)}


def _is_erased(since: Moment, place: tuple[int, int, int], here: int) -> bool:
    made, purged, erasures = place
    if since.made is not None:
        return made != since.made or purged > (since.erasures or 0)
    return erasures > (since.erasures or 0) or here > since.here
