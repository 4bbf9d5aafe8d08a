"""The state of searched places: how far their rows have come, and the counts that scores need."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from factmem.models.places import Identity
from factmem.providers._postgres import search_statements as sql
from factmem.providers._postgres.driver import Row, Session
from factmem.providers._postgres.items import hashed, kind_numbers, metadata_hashes
from factmem.providers._postgres.places import PlaceReader
from factmem.providers._postgres.sealing import Extent
from factmem.providers._postgres.statements import keys, numbers
from factmem.providers._postgres.stores import SEALED
from factmem.providers._postgres.vector_spaces import Space, model_key
from factmem.providers.searched import SearchFilter

_SPACE = 14
"""The column at which those of the space begin."""


class SearchState(NamedTuple):
    """How far a place has come, and how far its rows."""

    extent: Extent
    bytes: int
    recorded_at: int
    search: int | None
    """The number of its search; None if it never was searched."""
    number: int
    """The number of the last line whose facts are in the rows."""
    turn: int
    facts: int
    has_expired: bool

    @property
    def is_current(self) -> bool:
        """Whether the rows hold every fact of the place and no other one."""
        return 0 < self.number == self.extent.last and not self.has_expired


class SearchedPlace(NamedTuple):
    """What a question must know of a place before it can look for candidates there."""

    identity: Identity
    key: str
    state: SearchState
    length: float
    """The sum of the lengths of its facts."""
    holders: Mapping[str, int]
    """How many facts have each term of the question, as terms are written."""
    space: Space | None
    """Its vectors by the question's model."""
    has_new_texts: bool
    """Whether facts were added since its vectors were last complete."""
    few: int
    """How many facts a filter leaves, up to a number."""


class Wanted(NamedTuple):
    """What a question needs to know of each place."""

    terms: Iterable[str]
    """Its terms, as they are written."""
    space: tuple[str, int] | None
    """The model of its vector and the dimensions; None to compare words alone."""
    filter: str
    """A condition in SQL; empty for all facts."""
    filtered: Sequence[object]
    """The arguments of the condition."""
    most: int
    """Up to which number the facts that a filter leaves are counted."""


def read_states(
    session: Session, reader: PlaceReader, identities: Iterable[Identity], now: int
) -> dict[Identity, SearchState]:
    """Return the states of the places that exist; of an encrypted store nothing is searched."""
    if reader.store.mode == SEALED:
        return {}
    named = {reader.key(identity): identity for identity in identities}
    rows = session.rows(sql.READ_STATES, [now, keys(named)])
    return {named[row[0].hex]: _state(row) for row in rows if row[3]}


def read_places(
    session: Session,
    reader: PlaceReader,
    identities: Iterable[Identity],
    now: int,
    wanted: Wanted,
) -> list[SearchedPlace]:
    """Return what a question must know of the places that exist, by one statement."""
    if reader.store.mode == SEALED:
        return []
    named = {reader.key(identity): identity for identity in identities}
    space = [] if wanted.space is None else [model_key(wanted.space[0]), wanted.space[1]]
    counted = [*wanted.filtered, wanted.most] if wanted.filter else []
    statement = sql.READ_PLACES.format(
        space=sql.NO_SPACE if wanted.space is None else sql.SPACE,
        few=sql.COUNT_FEW.format(filter=wanted.filter) if wanted.filter else "0",
    )
    terms = "{" + ",".join(f'"{each}"' for each in wanted.terms) + "}"
    rows = session.rows(statement, [now, *counted, terms, *space, keys(named)])
    return [_place(named[row[0].hex], row) for row in rows if row[3]]


def _state(row: Row) -> SearchState:
    _, made, snapshot, last, size, at, search, number, turn, facts, is_due = row[:11]
    extent = Extent(made, snapshot, last)
    return SearchState(extent, size, at, search, number or 0, turn or 0, facts, is_due)


def _place(identity: Identity, row: Row) -> SearchedPlace:
    length, terms, counts = row[11:_SPACE]
    pairs = zip(terms or (), counts or (), strict=True)
    holders: dict[str, int] = {str(term): int(count) for term, count in pairs}
    number, *rest, has_new_texts, few = row[_SPACE:]
    space = None if number is None else Space(number, *rest)
    state = _state(row)
    return SearchedPlace(identity, row[0].hex, state, length, holders, space, has_new_texts, few)


def conditions(wanted: SearchFilter) -> tuple[str, list[object]]:
    """Return a filter as SQL, and its arguments."""
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
