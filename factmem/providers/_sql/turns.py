"""Reading conversations of a store in a database.

A conversation is read backwards from its end. Followers of a place's conversations read only what
was appended, unless messages were removed or edited.
"""

from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

from factmem.ledger.entries import Entry
from factmem.models.clock import moment
from factmem.models.places import Identity, Place
from factmem.providers._sql import statements as sql
from factmem.providers._sql.lines import entries_of, stamp_at
from factmem.providers._sql.places import PlaceReader
from factmem.providers._sql.sealing import NO_TAG, Extent
from factmem.providers._sql.session import Row, Session
from factmem.providers.conversations import (
    ChangedConversation,
    ConversationInfo,
    Turn,
    TurnChanges,
    conversation_of,
    title_of,
    turn_of,
)

_EVERYTHING = 2**62
"""More than the number of any line."""

_MOST_PLACES = 1000
"""The places that one query asks about."""

_TITLE_LINES = 4
"""The first lines of a conversation, among which the user's first message is."""


def changes_since(
    session: Session, reader: PlaceReader | None, since: Mapping[Identity, object]
) -> dict[Identity, TurnChanges]:
    """Return what changed in the conversations of places; see `ConversationStore.changes`."""
    keys = {} if reader is None else {reader.key(place): place for place in since}
    rows: dict[Identity, list[Row]] = {place: [] for place in since}
    named = iter(keys)
    while reader is not None and (some := list(islice(named, _MOST_PLACES))):
        query, given = sql.among(sql.LIST_EXTENTS, some)
        for owner, *row in session.rows(query, [reader.store.number, *given]):
            rows[keys[owner]].append(tuple(row))
    found = (
        (place, _changes(session, reader, place, since[place], rows[place])) for place in since
    )
    return {place: changes for place, changes in found if changes is not None}


def _changes(
    session: Session, reader: PlaceReader | None, place: Identity, since: object, rows: list[Row]
) -> TurnChanges | None:
    before = since if isinstance(since, Known) else Known({}, {})
    now = Known({row[0]: tuple(row[1:4]) for row in rows}, dict(before.names))
    if now.extents == before.extents and since is not None:
        return None
    changed = [
        ChangedConversation(now.names.pop(key), (), is_whole=True)
        for key in before.extents.keys() - now.extents.keys()
    ]
    for key, made, snapshot, last, names, data_key in rows:
        known = before.extents.get(key)
        if reader is not None and known != (made, snapshot, last):
            identity = reader.sealer(key, data_key).open_names(names)
            now.names[key] = name_of(reader, identity, place)
            is_whole = known is None or known[:2] != (made, snapshot)
            after = None if known is None or is_whole else known[2]
            turns = read_turns(session, reader, identity, after=after)
            changed.append(ChangedConversation(now.names[key], turns, is_whole))
    return TurnChanges(now, changed)


def body_of(entry: Entry) -> dict[str, object]:
    """Return what is stored of a message."""
    return dict(entry.get("turn", {}))


def read_turns(
    session: Session,
    reader: PlaceReader,
    identity: Identity,
    last: int | None = None,
    before: int | None = None,
    *,
    after: int | None = None,
) -> list[Turn]:
    """Return the last messages; each line is verified with the one before it.

    Args:
        session: A session.
        reader: The reader of the store.
        identity: The identity of the conversation.
        last: The most messages; all by default.
        before: Only messages with a smaller number.
        after: Only messages from this number; none of the conversation was removed.
    """
    key = reader.key(identity)
    # Messages are counted from 0, their lines from 1.
    end = _EVERYTHING if before is None else before + 1
    most = _EVERYTHING if last is None else last + 1
    head, rows, earlier = _head(session, key), list[Row](), None
    while head is not None and head != earlier:  # a message came between the two statements
        most = most if after is None else head.last - after + 1
        rows = session.rows(sql.READ_LAST, [key, end, most])[::-1]
        earlier, head = head, _head(session, key)
    if head is None or not head.size:
        return []
    sealer = reader.sealer(key, head.data_key)
    if sealer.open_names(head.names) != identity:
        raise reader.damaged("The row of a conversation belongs to another one")
    tag = NO_TAG
    if len(rows) == most:  # the line before the first one proves that none is missing between
        tag = sealer.tag(rows.pop(0)[2])
    bodies = list[bytes]()
    for number, at, line in rows:
        bodies.append(sealer.open(number, at, tag, line))
        tag = sealer.tag(line)
    if before is None:
        sealer.check_tail(Extent(head.made, head.snapshot, head.last), tag, head.tail)
    entries = entries_of(bodies, [at for _, at, _ in rows])
    return [
        turn_of(number - 1, body_of(entry), moment(entry["at"]))
        for (number, _, _), entry in zip(rows, entries, strict=True)
    ]


class Known(NamedTuple):
    """The conversations of a place at one time, by key."""

    extents: dict[bytes, tuple[int, ...]]
    names: dict[bytes, str]


def name_of(reader: PlaceReader, identity: Identity, place: Identity) -> str:
    """Return the id of a conversation."""
    named = conversation_of(identity)
    if named is None or named[0] != place:
        raise reader.damaged("The row of a conversation belongs to another place")
    return named[1]


class _Head(NamedTuple):
    """The row of a conversation."""

    made: int
    snapshot: int
    last: int
    size: int
    names: bytes
    data_key: bytes | None
    tail: bytes | None


def _head(session: Session, key: bytes) -> _Head | None:
    for row in session.rows(sql.READ_HEAD, [key]):
        return _Head(*row)
    return None


def info_of(
    session: Session, reader: PlaceReader, place: Identity, row: Row
) -> ConversationInfo | None:
    """Return the conversation of a row of `LIST_OWNED`."""
    key, recorded_at, names, data_key = row
    sealer = reader.sealer(key, data_key)
    name = name_of(reader, sealer.open_names(names), place)
    ((count,),) = session.rows(sql.COUNT_LINES, [key])
    tag = NO_TAG
    bodies, ats = list[bytes](), list[int]()
    for number, at, line in session.rows(sql.READ_FIRST, [key, _TITLE_LINES]):
        bodies.append(sealer.open(number, at, tag, line))
        tag = sealer.tag(line)
        ats.append(at)
    if not ats:
        return None
    title = title_of([body_of(each) for each in entries_of(bodies, ats)])
    return ConversationInfo(
        name,
        Place.of_identity(place),
        count,
        title,
        moment(stamp_at(ats[0])),
        moment(stamp_at(recorded_at)),
    )
