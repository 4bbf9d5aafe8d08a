"""Insertion and deletion of the rows of items, with the counts of their terms.

A purge and an erasure delete rows in their own transaction. Every transaction that writes rows of a
place or vectors of its texts first locks the row of its search, so that none adds what another one
purges.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from factmem.ledger.entries import Entry
from factmem.models.facts import AnyFact
from factmem.providers._postgres import search_statements as sql
from factmem.providers._postgres.items import (
    conversations_in,
    hashed,
    item_row,
)
from factmem.providers._postgres.schema import extension_schema
from factmem.providers._postgres.session import PostgresSession, byte_strings, keys, numbers
from factmem.providers._sql.items import StoredItem, keywords_in
from factmem.providers.results import SearchDocument


def add_items(
    session: PostgresSession,
    place: tuple[bytes, int],
    search: int,
    items: Sequence[tuple[StoredItem, AnyFact, SearchDocument]],
) -> None:
    """Insert facts of a place, given by its key and its store."""
    found = [item_row(*item, search) for item in items]
    rows, holders = [row for row, _ in found], Counter(term for _, own in found for term in own)
    if not rows:
        return
    columns = [_array(column) for column in zip(*rows, strict=True)]
    session.rows(sql.ADD, [*place, *columns])
    session.rows(sql.COUNT_ADDED, [len(rows), sum(row.length for row in rows), place[0]])
    session.rows(sql.COUNT_TERMS, [*place, _array([*holders]), numbers(holders.values())])


def _array(values: Sequence[object]) -> str:
    """Return a column as array text. Its strings contain no quotes and no backslashes."""
    if values and isinstance(values[0], bytes):
        return byte_strings(each for each in values if isinstance(each, bytes))
    return "{" + ",".join(map(_element, values)) + "}"


def _element(value: object) -> str:
    if value is None:
        return "NULL"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def remove_items(
    session: PostgresSession, key: bytes, condition: str, given: Sequence[object]
) -> str:
    """Delete the rows of a place that meet a condition; return their texts for `drop_vectors`."""
    statement = sql.REMOVE.format(condition=condition)
    texts = session.rows(statement, [key, *given, key, key, key])
    return keys(text.hex for (text,) in texts)


def drop_vectors(session: PostgresSession, key: bytes, texts: str) -> None:
    """Delete the vectors of texts that no row of the place has."""
    if texts != "{}" and session.rows(sql.HAS_VECTORS):
        statement = sql.REMOVE_VECTORS.format(extension=extension_schema(session))
        session.rows(statement, [key, texts])


def take_out(session: PostgresSession, key: bytes, entries: Iterable[Entry]) -> None:
    """Delete the rows that a purge may affect: all facts of its keywords, and their neighbours.

    The rows of neighbours contain words of the purged facts. The next search inserts the rows of
    facts that are still current.
    """
    if not session.rows(sql.LOCK_SEARCH, [key]):
        return
    purged = list(entries)
    topics = numbers(map(hashed, keywords_in(purged)))
    texts = remove_items(session, key, sql.BY_TOPIC, [topics, numbers(conversations_in(purged))])
    drop_vectors(session, key, texts)
    session.rows(sql.SET_NUMBER, [0, None, key])


def erase_items(session: PostgresSession, key: bytes) -> None:
    """Delete all rows of a place."""
    if not session.rows(sql.LOCK_SEARCH, [key]):
        return
    if session.rows(sql.HAS_VECTORS):
        session.rows(sql.ERASE_VECTORS, [key])
    for statement in sql.ERASE:
        session.rows(statement, [key])
