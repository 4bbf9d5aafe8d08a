"""Insertion and deletion of the rows of items, with the counts of their terms.

All functions run inside a transaction that has locked the row of the place, as for a save.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from factmem.ledger.entries import Entry
from factmem.providers._postgres import search_statements as sql
from factmem.providers._postgres.driver import Session
from factmem.providers._postgres.items import (
    Found,
    ItemRow,
    conversations_of,
    hashed,
    item_row,
    touched_by,
)
from factmem.providers._postgres.session import byte_strings, keys, numbers
from factmem.providers.searched import SearchDocument


def add_items(
    session: Session,
    place: tuple[str, int],
    search: int,
    found: Sequence[tuple[Found, SearchDocument]],
) -> None:
    """Insert facts of a place, given by its key and its store."""
    rows: list[ItemRow] = []
    holders: Counter[str] = Counter()
    for fact, document in found:
        row, own = item_row(fact, document, search)
        rows.append(row)
        holders.update(own)
    if not rows:
        return
    key, store = place
    columns = [_array(column) for column in zip(*rows, strict=True)]
    session.rows(sql.ADD, [key, store, *columns])
    session.rows(sql.COUNT_ADDED, [len(rows), sum(row.length for row in rows), key])
    # In one order everywhere, so that two transactions cannot deadlock.
    terms = sorted(holders)
    counts = numbers(holders[term] for term in terms)
    session.rows(sql.COUNT_TERMS, [key, store, _array(terms), counts])


def _array(values: Sequence[object]) -> str:
    """Return a column as array text. Its strings contain no quotes and no backslashes."""
    if values and isinstance(values[0], bytes):
        return byte_strings(each for each in values if isinstance(each, bytes))
    return "{" + ",".join(map(_element, values)) + "}"


def _element(value: object) -> str:
    if value is None:
        return "NULL"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def remove_items(session: Session, key: str, items: Iterable[int], *, has_vectors: bool) -> None:
    """Delete rows of a place, and the vectors of strings that no other row has."""
    wanted = numbers(items)
    if wanted != "{}":
        _removed(session, key, sql.BY_ITEM, [wanted], has_vectors=has_vectors)


def _removed(
    session: Session, key: str, condition: str, given: list[str], *, has_vectors: bool
) -> None:
    if has_vectors:
        session.rows(sql.LOCK_SPACES, [key])
    statement = sql.REMOVE.format(condition=condition)
    texts = session.rows(statement, [key, *given, key, key, key])
    if texts and has_vectors:
        session.rows(sql.REMOVE_VECTORS, [key, keys(text.hex for (text,) in texts)])


def take_out(session: Session, key: str, entries: Iterable[Entry]) -> None:
    """Delete the rows that a purge may affect: all facts of its keywords, and their neighbours.

    The rows of neighbours contain words of the purged facts. The next search inserts the rows of
    facts that are still current.
    """
    if not session.rows(sql.IS_SEARCHED, [key]):
        return
    purged = list(entries)
    has_vectors = bool(session.rows(sql.HAS_VECTORS))
    topics = numbers(map(hashed, touched_by(purged)))
    given = [topics, numbers(conversations_of(purged))]
    _removed(session, key, sql.BY_TOPIC, given, has_vectors=has_vectors)
    session.rows(sql.FORGET_TOTALS, [key])
    session.rows(sql.RESTART, [key])


def erase_items(session: Session, key: str) -> None:
    """Delete all rows of a place."""
    if not session.rows(sql.IS_SEARCHED, [key]):
        return
    if session.rows(sql.HAS_VECTORS):
        session.rows(sql.LOCK_SPACES, [key])
        session.rows(sql.ERASE_VECTORS, [key])
    for statement in sql.ERASE:
        session.rows(statement, [key])
