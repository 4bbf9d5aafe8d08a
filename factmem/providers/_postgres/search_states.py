"""The state of searched places: whether their rows are current, and the counts for a question."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from factmem.models.places import Identity
from factmem.models.recall_filter import RecallFilter
from factmem.providers._postgres import search_statements as sql
from factmem.providers._postgres.items import hashed
from factmem.providers._postgres.session import PostgresSession, byte_strings, numbers
from factmem.providers._postgres.vector_spaces import Space, model_key
from factmem.providers._sql.places import PlaceReader
from factmem.providers._sql.sealing import Extent
from factmem.providers._sql.session import Row


class SearchedPlace(NamedTuple):
    """The state of a place, and its counts for one question."""

    identity: Identity
    key: bytes
    extent: Extent
    bytes: int
    search: int
    """The number of its search; 0 if it was never searched."""
    number: int
    """The number of the last line that its rows include."""
    facts: int
    length: float
    """The total length of its facts."""
    has_expired: bool
    """Whether a fact has ended or expired, or a planned one has begun."""
    is_guarded: bool
    """Whether row level security applies to its rows."""
    holders: Mapping[str, int]
    """The number of facts with each term of the question, by the term as it is stored."""
    space: Space | None
    """Its vectors of the question's model."""
    has_new_texts: bool
    """Whether facts were added after its vectors were last complete."""

    @property
    def is_current(self) -> bool:
        """Whether the rows are exactly the current facts of the place."""
        return 0 < self.number == self.extent.last and not self.has_expired


def read_places(
    session: PostgresSession,
    reader: PlaceReader,
    identities: Iterable[Identity],
    now: int,
    *,
    terms: Iterable[str] = (),
    space: tuple[str, int] | None = None,
) -> list[SearchedPlace]:
    """Return the states of the places that exist, by one statement; none in an encrypted store.

    Args:
        session: A connection.
        reader: The reader of the store.
        identities: The places.
        now: The time for expiry, in microseconds.
        terms: The terms of a question, as they are stored.
        space: The model and the dimensions of its vector; None to search only by words.
    """
    if reader.store.is_sealed:
        return []
    named = {reader.key(identity): identity for identity in identities}
    asked = "{" + ",".join(f'"{each}"' for each in terms) + "}"
    statement = sql.READ_PLACES.format(space=sql.NO_SPACE if space is None else sql.SPACE)
    of_space = [] if space is None else [model_key(space[0]), space[1]]
    rows = session.rows(statement, [now, asked, *of_space, byte_strings(named)])
    return [_place(named[row[0]], row) for row in rows if row[3]]


def _place(identity: Identity, row: Row) -> SearchedPlace:
    key, made, snapshot, last, *known = row[:11]
    terms, counts, has_new_texts, *space = row[11:]
    holders = dict(zip(terms or (), counts or (), strict=True))
    found = None if space[0] is None else Space(*space)
    extent = Extent(made, snapshot, last)
    columns = identity, key, extent, *known, holders, found, has_new_texts
    return SearchedPlace._make(columns)


def conditions(wanted: RecallFilter) -> tuple[str, list[object]]:
    """Return a filter as SQL conditions, and their parameters."""
    found: dict[str, object] = {}
    if wanted.keywords is not None:
        found["i.topic = ANY (%s::bigint[])"] = numbers(map(hashed, wanted.keywords))
    if wanted.since is not None:
        found["i.said_at >= %s"] = wanted.since.timestamp()
    if wanted.until is not None:
        found["i.said_at < %s"] = wanted.until.timestamp()
    if wanted.marks:
        found["i.marks @> %s::bigint[]"] = numbers(map(hashed, wanted.marks))
    return " ".join(f"AND {each}" for each in found), [*found.values()]
