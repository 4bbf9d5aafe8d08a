"""StoredConversations: the conversations of a store in a database. Every method blocks.

A conversation is stored like a place: its messages are lines, sealed and chained as those of facts,
with their own data key. Its row names its place as the `owner`, so that a listing shows that place
and an erasure finds the conversation. The last lines are read backwards from the end, whatever its
length. Readers get only appended messages, unless some were removed or edited.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice
from secrets import randbits
from typing import Any, NamedTuple, TypeVar

from factmem.errors import CorruptJournalError, FactmemError
from factmem.ledger.entries import Entry
from factmem.models.places import Boundary, Identity, Place
from factmem.models.when import micros, moment
from factmem.providers._sql import session as sql
from factmem.providers._sql.places import (
    MOST_LISTED,
    ODD_ENTRIES,
    PlaceReader,
    among,
    entries_of,
    stamp_at,
)
from factmem.providers._sql.sealing import NO_TAG, UnknownGenerationError
from factmem.providers._sql.session import PlaceRow, Row, Session
from factmem.providers._sql.stored_places import StoredPlaces
from factmem.providers._sql.writing import new_mark
from factmem.providers.conversations import (
    ChangedConversation,
    ConversationInfo,
    LearningState,
    LearningTask,
    NewTurn,
    Turn,
    TurnChanges,
    conversation_of,
    identity_in,
    named_places,
    title_of,
    turn_of,
)

R = TypeVar("R")

_EVERYTHING = 2**62
"""Greater than the number of any line."""

_TITLE_LINES = 4
"""The number of first lines in which the title, the user's first message, is searched."""


def changes_since(
    session: Session, reader: PlaceReader | None, since: Mapping[Identity, object]
) -> dict[Identity, TurnChanges]:
    keys = {} if reader is None else {reader.key(place): place for place in since}
    rows: dict[Identity, list[Row]] = {place: [] for place in since}
    named = iter(keys)
    while reader is not None and (some := list(islice(named, MOST_LISTED))):
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


def body_of(entry: Entry) -> dict[str, Any]:
    """Return the message of an entry."""
    turn: Any = entry.get("turn")
    with suppress(*ODD_ENTRIES):
        datetime.fromisoformat(turn.get("said", entry["at"]))
        if isinstance(turn["id"], str) and isinstance(turn["message"]["role"], str):
            return dict(turn)
    raise CorruptJournalError(
        "A message of a conversation cannot be read: another program changed its row. Restore the "
        "place from a backup"
    )


def read_turns(
    session: Session,
    reader: PlaceReader,
    identity: Identity,
    last: int | None = None,
    before: int | None = None,
    *,
    after: int | None = None,
) -> list[Turn]:
    """Return the last messages, each verified with the one before it, or those from `after` on.

    `after` is a number since which no message of the conversation was removed.
    """
    key = reader.key(identity)
    # Messages are counted from 0, their lines from 1.
    end = _EVERYTHING if before is None else before + 1
    most = _EVERYTHING if last is None else last + 1
    head, rows, earlier = reader.row(session, identity), list[Row](), None
    while head is not None and head != earlier:  # a message came between the two statements
        most = most if after is None else head.last - after + 1
        rows = session.rows(sql.READ_LAST, [key, end, most])[::-1]
        earlier, head = head, reader.row(session, identity)
    if head is None or not head.size:
        return []
    sealer = reader.sealer(key, head.data_key)
    tag = NO_TAG
    if len(rows) == most:  # the line before the first one proves that none is missing between
        tag = sealer.tag(rows.pop(0)[2])
    bodies = list[bytes]()
    for number, at, line in rows:
        bodies.append(sealer.open(number, at, tag, line))
        tag = sealer.tag(line)
    if before is None:
        sealer.check_tail(head.counters, tag, head.tail)
    entries = entries_of(bodies, [at for _, at, _ in rows])
    return [
        turn_of(number - 1, body_of(entry), moment(entry["at"]))
        for (number, _, _), entry in zip(rows, entries, strict=True)
    ]


class Known(NamedTuple):
    """The extents and names of the conversations of a place at one time, by key."""

    extents: dict[bytes, tuple[int, ...]]
    names: dict[bytes, str]


def name_of(reader: PlaceReader, identity: Identity, place: Identity) -> str:
    named = conversation_of(identity)
    if named is None or named[0] != place:
        raise reader.damaged("The row of a conversation belongs to another place")
    return named[1]


def info_of(
    session: Session, reader: PlaceReader, place: Identity, row: Row
) -> ConversationInfo | None:
    head = PlaceRow(*row)
    key, sealer = head.place, reader.sealer(head.place, head.data_key)
    identity = sealer.open_names(head.names)
    name = name_of(reader, identity, place)
    reader.check_row(head, identity)
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
        moment(stamp_at(head.recorded_at)),
    )


_RESTLESS = 10
"""An always active conversation is due after this many times its `learn_after`."""


class StoredConversations:
    def __init__(self, places: StoredPlaces) -> None:
        self._places = places
        self._now = places.clock.recording

    async def converse(self, call: "Callable[[StoredConversations], R]") -> R:
        return await self._places.work(lambda: call(self))

    # Messages

    def append(
        self, place: Identity, conversation: str, turns: Sequence[NewTurn], learn_after: int | None
    ) -> list[Turn]:
        identity, mark = identity_in(place, conversation), new_mark()
        added: list[Turn] = []

        def write(session: Session, unknown: int) -> list[Turn]:
            reader, writer = self._places.writing(session)
            key = reader.key(identity)
            with session.transaction():
                locked = writer.lock_or_make(session, identity)
                if unknown and writer.is_marked(session, identity, mark):
                    return added
                # Under the lock of the row, so that two calls with one message store it once.
                new = _unknown(turns, lambda: _ids(session, reader, identity))
                before = reader.row(session, identity)
                at = self._now("" if before is None else stamp_at(before.recorded_at))
                numbered = enumerate(new, locked.last)
                added[:] = [turn_of(number, each.body, moment(at)) for number, each in numbered]
                if new:
                    entries: list[Entry] = [{"at": at, "turn": each.body} for each in new]
                    writer.add(session, identity, entries, mark)
                    if learn_after is not None:
                        now, most = micros(at), _RESTLESS * learn_after
                        names = [key, reader.key(place), reader.new_row(place).scope]
                        times = [now + learn_after, now, most, most]
                        learnt = added[0].number
                        session.rows(sql.QUEUE, [*names, reader.store.number, learnt, *times])
                else:
                    writer.delete_empty(session, identity)
            return added

        return self._places.write(write)

    def turns(
        self, place: Identity, conversation: str, last: int | None, before: int | None
    ) -> list[Turn]:
        identity = identity_in(place, conversation)
        return self._places.read_store(
            lambda session, reader: read_turns(session, reader, identity, last, before), []
        )

    def conversations(self, place: Identity) -> list[ConversationInfo]:

        def read(session: Session, reader: PlaceReader) -> list[ConversationInfo]:
            rows = session.rows(sql.LIST_OWNED, [reader.store.number, reader.key(place)])
            found = (info_of(session, reader, place, row) for row in rows)
            return [info for info in found if info is not None]

        return self._places.read_store(read, [])

    def changes(self, since: Mapping[Identity, object]) -> dict[Identity, TurnChanges]:
        read = self._places.reading
        return self._places.run(lambda session, _: changes_since(session, read(session), since))

    def is_unchanged(self, place: Identity, since: object) -> bool:
        return isinstance(since, Known) and self._places.has_extents(place, since.extents)

    def remove(
        self,
        place: Identity,
        conversation: str,
        *,
        before: str | None = None,
        ids: Sequence[str] | None = None,
    ) -> int:
        from factmem.ledger._merging import numbered  # slow to import

        removed = 0

        def edit(known: dict[int, Entry], _: int) -> dict[int, Entry]:
            nonlocal removed
            left = {n: entry for n, entry in known.items() if not _is_removed(entry, before, ids)}
            removed = removed or len(known) - len(left)
            if len(left) == len(known):
                return known
            # Kept messages keep their order among those of equal times, also after a sync.
            places = dict(zip(known, numbered([*known.values()]), strict=True))
            return {number: places[number] for number in left}

        if self.lines(place, conversation):  # else the store may not exist
            self.rewrite(place, conversation, edit)
        return removed

    def states(self, known: Collection[str]) -> dict[str, tuple[Identity, str] | None]:
        found = self._places.states_of(known, chats=True).items()
        return {state: identity and conversation_of(identity) for state, identity in found}

    def lines(self, place: Identity, conversation: str) -> dict[int, Entry]:
        identity = identity_in(place, conversation)
        return self._places.read_store(
            lambda session, reader: _lines(session, reader, identity), {}
        )

    def removed_at(self, place: Identity, conversation: str) -> str | None:
        return self._places.noted_at(identity_in(place, conversation))

    def rewrite(
        self,
        place: Identity,
        conversation: str,
        edit: Callable[[dict[int, Entry], int], dict[int, Entry]],
    ) -> None:
        identity, mark, is_purge = identity_in(place, conversation), new_mark(), False

        def write(session: Session, unknown: int) -> None:
            nonlocal is_purge
            reader, writer = self._places.writing(session)
            key = reader.key(identity)
            with session.transaction():
                locked = writer.lock_or_make(session, identity)
                if unknown and writer.is_marked(session, identity, mark):
                    return
                known, last = _lines(session, reader, identity), locked.last
                wanted = edit(known, last)
                numbers = range(last, max([last - 1, *wanted]) + 1)
                empty: Entry = {"at": max([each["at"] for each in wanted.values()], default="")}
                # Lines are contiguous: an unused number gets an empty line, which the edit removes.
                new = [wanted.get(number, empty) for number in numbers]
                if new:
                    writer.add(session, identity, new, mark)
                lines = [*known, *numbers]
                after = [wanted.get(number) for number in lines]
                if after != [*known.values(), *new]:
                    is_purge = True
                    writer.count_purge(session, place)
                    writer.edit(session, identity, lambda old: _same(old, after), is_purge=True)
                if known:
                    writer.drop_if_empty(session, key)
                elif not wanted:
                    writer.delete_empty(session, identity)

        self._places.write(write)
        if is_purge:
            self._places.database.finish_erasure()

    # The queue

    def take(self, lease: int, within: Boundary) -> LearningTask | None:
        # Never 0, which is the lease of a conversation that no worker has.
        token = randbits(62) | 1

        def write(session: Session, _: int) -> LearningTask | None:
            reader = self._places.reading(session)
            if reader is None:
                return None
            now = micros(self._now(""))
            where, given = _wanted(reader, within)
            query = sql.TAKE.format(where=where)
            while True:
                rows = session.rows(
                    query, [token, now + lease, reader.store.number, now, now, *given]
                )
                if not rows:
                    return None
                ((key, learnt, attempts),) = rows
                identity = _name(session, reader, key)
                named = None if identity is None else conversation_of(identity)
                if named is not None:
                    owner, conversation = named
                    return LearningTask(
                        conversation, Place.of_identity(owner), learnt, attempts, token
                    )
                session.rows(sql.DELETE_QUEUED, [key])  # its conversation was removed

        return self._places.write(write)

    def learnt(self, task: LearningTask, upto: int) -> bool:
        return self._settle(
            task, lambda key, now: (sql.SET_LEARNT, [upto, now, key, upto, key, task.lease])
        )

    def failed(self, task: LearningTask, again_in: int | None) -> bool:
        is_over, pause = int(again_in is None), again_in or 0
        return self._settle(
            task, lambda key, now: (sql.SET_FAILED, [now + pause, is_over, key, task.lease])
        )

    def _settle(
        self, task: LearningTask, change: Callable[[bytes, int], tuple[str, list[object]]]
    ) -> bool:
        identity = identity_in(task.place.identity, task.conversation)

        def write(session: Session, unknown: int) -> bool:
            reader = self._places.reading(session)
            if reader is None:
                return False
            rows = session.rows(*change(reader.key(identity), micros(self._now(""))))
            return bool(rows) or unknown > 0  # an earlier attempt may have ended the lease

        return self._places.write(write)

    def retry(self, within: Boundary) -> int:

        def write(session: Session, _: int) -> int:
            reader = self._places.reading(session)
            if reader is None:
                return 0
            where, given = _wanted(reader, within)
            now, number = micros(self._now("")), reader.store.number
            return len(session.rows(sql.QUEUE_FAILED.format(where=where), [now, number, *given]))

        return self._places.write(write)

    def state(self, within: Boundary) -> LearningState:

        def read(session: Session, reader: PlaceReader) -> LearningState:
            where, given = _wanted(reader, within)
            query = sql.READ_QUEUE.format(where=where)
            ((count, failed, oldest),) = session.rows(query, [reader.store.number, *given])
            since = None if oldest is None else moment(stamp_at(oldest))
            return LearningState(count - int(failed), int(failed), since)

        return self._places.read_store(read, LearningState(0, 0, None))


def _unknown(turns: Sequence[NewTurn], known: Callable[[], set[str]]) -> list[NewTurn]:
    """Return the messages that are not stored yet; only ids given by the application can be."""
    if all(each.id is None for each in turns):
        return list(turns)
    ids, new = known(), list[NewTurn]()
    for each in turns:
        name = str(each.body["id"])
        if name not in ids:
            ids.add(name)
            new.append(each)
    return new


def _ids(session: Session, reader: PlaceReader, identity: Identity) -> set[str]:
    answer = reader.whole(session, identity)
    return set() if answer is None else {body_of(each)["id"] for each in answer.entries}


def _name(session: Session, reader: PlaceReader, key: bytes) -> Identity | None:
    for names, data_key in session.rows(sql.READ_NAMES, [key]):
        with suppress(UnknownGenerationError, FactmemError):
            return reader.sealer(key, data_key).open_names(names)
    return None


def _lines(session: Session, reader: PlaceReader, identity: Identity) -> dict[int, Entry]:
    answer = reader.whole(session, identity)
    if answer is None:
        return {}
    return {number - 1: entry for number, entry in zip(answer.numbers, answer.entries, strict=True)}


def _same(old: Sequence[Entry], after: Sequence[Entry | None]) -> list[Entry | None]:
    """Return what comes afterwards, with the same objects where nothing changes."""
    return [one if one == other else other for one, other in zip(old, after, strict=True)]


def _is_removed(entry: Entry, before: str | None, ids: Sequence[str] | None) -> bool:
    if before is None and ids is None:
        return True
    is_old = before is not None and entry["at"] < before
    return is_old or (ids is not None and body_of(entry).get("id") in ids)


def _wanted(reader: PlaceReader, within: Boundary) -> tuple[str, list[bytes]]:
    """Return an SQL condition for rows of the queue, and its parameters."""
    named, key = named_places(within), reader.store.sealing.key
    if named is not None:
        return among("owner", map(reader.key, named))
    if within.scopes is None:
        return "", []
    return among("scope", (key("scope", each) for each in within.scopes))
