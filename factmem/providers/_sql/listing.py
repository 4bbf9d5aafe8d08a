"""Listing the places of a store inside a boundary, without reading their entries."""

from collections.abc import Iterable, Iterator

from factmem.models.places import Boundary, Identity
from factmem.providers._sql import session as sql
from factmem.providers._sql.places import PlaceReader, subject_path
from factmem.providers._sql.session import Row, Session

MOST_LISTED = 1000
"""Places that one query lists or reads."""

_MOST_PROBED = 1024
"""Up to this many named places are looked up by key instead of listed and filtered."""


def identities(
    session: Session, reader: PlaceReader, wanted: Boundary, after: Identity | None = None
) -> Iterator[list[Identity]]:
    """Yield the places inside a boundary, some at a time, without reading their entries."""
    where, given = _conditions(reader, wanted)
    first = wanted.first_levels
    if first is not None:
        yield from _below(session, reader, wanted, first, after)
        return
    last, rows = sql.FIRST_PLACE if after is None else reader.key(after), []
    statement, number = sql.LIST.format(where=where), reader.store.number
    while rows := session.rows(statement, [number, last, *given, MOST_LISTED]):
        last = rows[-1][3]
        yield list(filter(wanted.allows, reader.owners(rows)))
        if len(rows) < MOST_LISTED:
            return


def conversations(
    session: Session, reader: PlaceReader, places: Iterable[Identity]
) -> dict[Identity, tuple[int, int]]:
    keys = {reader.key(identity): identity for identity in places}
    rows = session.rows(*sql.among(sql.COUNT_OWNED, keys))
    return {keys[owner]: (count, int(size)) for owner, count, size in rows}


def _below(
    session: Session,
    reader: PlaceReader,
    wanted: Boundary,
    first: tuple[str, str | None],
    after: Identity | None,
) -> Iterator[list[Identity]]:
    """Yield the places of every entity with some first levels, ordered by subject."""
    start = subject_path(reader.store.sealing, *first)
    last, key = start, b""
    if after is not None:
        last, key = reader.new_row(after).subject, reader.key(after)
    end = (int.from_bytes(start) + 1).to_bytes(len(start))
    rows: list[Row] = []
    while rows := session.rows(sql.LIST_BELOW, [reader.store.number, last, key, end, MOST_LISTED]):
        _, _, _, key, last = rows[-1]
        yield list(filter(wanted.allows, reader.owners(rows)))
        if len(rows) < MOST_LISTED:
            return


def _conditions(reader: PlaceReader, wanted: Boundary) -> tuple[str, list[bytes]]:
    """Return an SQL condition that restricts a listing to a boundary, and its parameters."""
    sealing, named = reader.store.sealing, wanted.identities(_MOST_PROBED)
    if named is not None:
        return among("owner", map(reader.key, named))
    if wanted.subjects is not None and not wanted.is_wide:
        return among("subject", (subject_path(sealing, *each) for each in wanted.subjects))
    if wanted.scopes is not None:
        return among("scope", (sealing.key("scope", each) for each in wanted.scopes))
    return "", []


def among(column: str, keys: Iterable[bytes]) -> tuple[str, list[bytes]]:
    """Return an SQL condition that a column is among keys, and its parameters."""
    found = list(keys)
    if not found:
        return "AND 1 = 0", []
    return sql.among(f"AND {column} IN ({{keys}})", found)
