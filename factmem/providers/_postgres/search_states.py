"""The state of searched places: whether their rows are current, and the counts for scores."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from factmem.models.places import Identity
from factmem.providers._postgres import search_statements as sql
from factmem.providers._postgres.driver import Session
from factmem.providers._postgres.items import hashed, kind_numbers, metadata_hashes
from factmem.providers._postgres.session import keys, numbers
from factmem.providers._postgres.vector_spaces import Space, model_key
from factmem.providers._sql.places import PlaceReader
from factmem.providers._sql.sealing import Extent
from factmem.providers._sql.session import Row
from factmem.providers.searched import SearchFilter

_SPACE = 14
"""The first column of the vector space."""


class SearchState(NamedTuple):
    """The last entry of a place, and the last entry that its rows include."""

    extent: Extent
    bytes: int
    recorded_at: int
    search: int | None
    """The number of its search; None if it was never searched."""
    number: int
    """The number of the last line that the rows include."""
    turn: int
    facts: int
    has_expired: bool

    @property
    def is_current(self) -> bool:
        """Whether the rows are exactly the current facts of the place."""
        return 0 < self.number == self.extent.last and not self.has_expired


class SearchedPlace(NamedTuple):
    """The state of a place and the counts for one question."""

    identity: Identity
    key: str
    state: SearchState
    length: float
    """The total length of its facts."""
    holders: Mapping[str, int]
    """The number of facts with each term of the question, by the term as it is stored."""
    space: Space | None
    """Its vectors of the question's model."""
    has_new_texts: bool
    """Whether facts were added after its vectors were last complete."""
    few: int
    """The number of facts inside the filter, up to `Wanted.most`."""
    is_guarded: bool
    """Whether row level security applies to its rows."""


class Wanted(NamedTuple):
    """The parameters of a question about the state of places."""

    terms: Iterable[str]
    """The terms of the question, as they are stored."""
    space: tuple[str, int] | None
    """The model and the dimensions of its vector; None to search only by words."""
    filter: str
    """The filter as an SQL condition; empty for all facts."""
    filtered: Sequence[object]
    """The parameters of the condition."""
    most: int
    """Facts inside the filter are counted up to this number."""


def read_states(
    session: Session, reader: PlaceReader, identities: Iterable[Identity], now: int
) -> dict[Identity, SearchState]:
    """Return the states of the places that exist; none in an encrypted store."""
    if reader.store.is_sealed:
        return {}
    named = {reader.key(identity).hex(): identity for identity in identities}
    rows = session.rows(sql.READ_STATES, [now, keys(named)])
    return {named[row[0].hex]: _state(row) for row in rows if row[3]}


def read_places(
    session: Session,
    reader: PlaceReader,
    identities: Iterable[Identity],
    now: int,
    wanted: Wanted,
) -> list[SearchedPlace]:
    """Return the states and counts of the places that exist, by one statement."""
    if reader.store.is_sealed:
        return []
    named = {reader.key(identity).hex(): identity for identity in identities}
    space = [] if wanted.space is None else [model_key(wanted.space[0]), wanted.space[1]]
    counted = [*wanted.filtered, wanted.most] if wanted.filter else []
    statement = sql.READ_PLACES.format(
        space=sql.NO_SPACE if wanted.space is None else sql.SPACE,
        few=sql.COUNT_FEW.format(filter=wanted.filter) if wanted.filter else "0",
    )
    terms = "{" + ",".join(f'"{each}"' for each in wanted.terms) + "}"
    rows = session.rows(statement, [now, *counted, keys(named), terms, *space])
    return [_place(named[row[0].hex], row) for row in rows if row[3]]


def _state(row: Row) -> SearchState:
    _, made, snapshot, last, size, at, search, number, turn, facts, is_due = row[:11]
    extent = Extent(made, snapshot, last)
    return SearchState(extent, size, at, search, number or 0, turn or 0, facts, is_due)


def _place(identity: Identity, row: Row) -> SearchedPlace:
    length, terms, counts = row[11:_SPACE]
    pairs = zip(terms or (), counts or (), strict=True)
    holders: dict[str, int] = {str(term): int(count) for term, count in pairs}
    number, *rest, has_new_texts, few, is_guarded = row[_SPACE:]
    space = None if number is None else Space(number, *rest)
    state = _state(row)
    texts = has_new_texts, few, is_guarded
    return SearchedPlace(identity, row[0].hex, state, length, holders, space, *texts)


def conditions(wanted: SearchFilter) -> tuple[str, list[object]]:
    """Return a filter as SQL conditions, and their parameters."""
    parts: list[str] = []
    given: list[object] = []

    def add(part: str, argument: object) -> None:
        parts.append(f"AND {part}")
        given.append(argument)

    if wanted.keywords is not None:
        add("i.topic = ANY (%s::bigint[])", numbers(map(hashed, wanted.keywords)))
    if wanted.since is not None:
        add("i.said_at >= %s", wanted.since.timestamp())
    if wanted.until is not None:
        add("i.said_at < %s", wanted.until.timestamp())
    if wanted.source_kinds is not None:
        add("i.kind = ANY (%s::bigint[])", numbers(kind_numbers(wanted.source_kinds)))
    if wanted.min_importance is not None:
        add("i.importance >= %s", wanted.min_importance)
    if wanted.metadata:
        add("i.metadata @> %s::bigint[]", numbers(metadata_hashes(wanted.metadata)))
    return " ".join(parts), given
