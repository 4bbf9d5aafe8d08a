"""SearchIndex: the items of places and their words, which searches read. Every method blocks.

    place ────────▶ current facts ─▶ item: line, start and size of its JSON   ┐ words of each item:
    conversation ─▶ messages ──────▶ item: conversation and number of message ┘ blocks of items

An item is a row for a fact, or for a passage of a message. It names the line that has it and has no
copy of its text; only a fact that no single save describes, such as one that was confirmed later,
and one of a long line is in its row. A save writes no items. A search first adds those of the lines
since the last search, whose words are found outside of the transaction. The words of replaced facts
stay until the index is made again.

A purge, an erasure, a compaction and an edit drop the index of the place in their own transaction.
A sealed store has no index, because that would reveal its words.
"""

import json
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from hashlib import blake2b
from itertools import islice
from struct import pack
from typing import Any, NamedTuple, Protocol, TypeVar

import orjson
import pydantic_core

from factmem._concurrency import paused_collection
from factmem.errors import StorageError
from factmem.ledger._items import Item, KeywordItems, values_of
from factmem.ledger._reads import concept_of, presented
from factmem.ledger.entries import Entry, StoredFact, keywords_of
from factmem.ledger.ledger import Ledger
from factmem.models.facts import AnyFact, Concept
from factmem.models.places import NOBODY, Identity
from factmem.models.recall_filter import marks_of
from factmem.models.when import micros, moment
from factmem.providers._sql import session as sql
from factmem.providers._sql.conversations import body_of
from factmem.providers._sql.places import ODD_ENTRIES, PlaceReader, Searched, entries_of, stamp_at
from factmem.providers._sql.sealing import NO_TAG, Sealer
from factmem.providers._sql.session import Row, Session
from factmem.providers._sql.stored_places import StoredPlaces
from factmem.providers._sql.topics import topic_of
from factmem.providers.conversations import Turn, turn_of
from factmem.providers.results import SearchDocument, SearchQuestion

K = TypeVar("K")


class StoredItem(NamedTuple):
    """A current fact as a row stores it, with the type that it was saved with."""

    keyword: str
    description: str
    fact_type: str
    items: list[Item]
    stored: bytes

    @classmethod
    def load(cls, stored: bytes) -> "StoredItem":
        keyword, description, fact_type, fields = json.loads(stored)
        items = [Item.restored(each, {}) for each in fields]
        return cls(keyword, description, fact_type, items, stored)

    @classmethod
    def of_save(cls, saved: bytes, at: str) -> "StoredItem":
        """Return the fact of a save that nothing has changed since, by its JSON and its time."""
        fact: StoredFact = orjson.loads(saved)
        about = fact["keyword"], fact["description"], fact["type"]
        items = [Item(0, value, fact, at, NOBODY) for _, value in values_of(fact)]
        return cls(*about, items, _stored(about, items))

    @property
    def digest(self) -> bytes:
        return blake2b(self.stored, digest_size=8).digest()

    def fact(self, concepts: Mapping[str, Concept[Any, Any]] = {}) -> AnyFact:
        """Return the fact, in the type of its concept if that is given; see `SearchCandidate`."""
        concept = concepts.get(self.keyword)
        if concept is None:
            topic = KeywordItems()
            topic.description, topic.fact_type = self.description, self.fact_type
            concept = concept_of(self.keyword, topic, self.items)
        return presented(concept, self.items)[0]


def current_facts(ledger: Ledger, keyword: str, now: str) -> list[StoredItem]:
    topic = ledger.at(now).get(keyword)
    items = [] if topic is None else topic.alive(now)
    if topic is None or not items:
        return []
    if topic.fact_type == "SINGLE":
        items = items[-1:]
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(item.fact_id, []).append(item)
    about = keyword, topic.description, topic.fact_type
    return [StoredItem(*about, group, _stored(about, group)) for group in groups.values()]


def _stored(about: tuple[str, str, str], items: Iterable[Item]) -> bytes:
    # The numbers of items depend on the entries that were folded; a digest must not.
    whole = [*about, [[0, *item.fields()[1:]] for item in items]]
    try:
        return orjson.dumps(whole)
    except TypeError:  # an integer beyond 64 bits
        return pydantic_core.to_json(whole)


FACTS = 0

TURNS = 1
"""The kinds of indexes of a place."""

_LINES = 2000
"""The lines that are read at once."""

_LONG = 4096
"""A line of more bytes, of many facts, is not read for one of them: its items have a copy then."""

_CHATS = 100
"""The conversations whose messages are added in one transaction."""

_PARAMETERS = 8_000
"""The parameters of one statement."""

_BLOCK = 300
"""The most items of a block, so that SQLite and PostgreSQL store it in one piece."""

_FARTHEST = 0xFFFF
"""The greatest distance of an item from the first one of its block."""

_SLACK = 1_000
"""So many replaced items are no reason to make an index again."""

_READ_STATE = """
SELECT search, form, next, size, length, begins_at FROM factmem.searches
WHERE place = %s AND kind = %s
"""

_LIST_ENDS = """
SELECT place, made, snapshot, last, bytes FROM factmem.places
WHERE owner = %s AND last > 0 AND place {of} owner
"""

_LIST_SOURCES = "SELECT place, made, snapshot, last FROM factmem.sources WHERE search = %s"

_MAKE = """
INSERT INTO factmem.searches (place, kind, store, form) VALUES (%s, %s, %s, %s)
ON CONFLICT (place, kind) DO NOTHING
"""

_HOLD = "SELECT made FROM factmem.places WHERE owner = %s FOR SHARE"
"""Waits for purges that are under way, as these do not know the new search."""

_LOCK = "SELECT next, size FROM factmem.searches WHERE search = %s FOR UPDATE"

_READ_EXTENT = "SELECT made, snapshot FROM factmem.places WHERE place = %s"

_SET_SOURCE = """
INSERT INTO factmem.sources (search, place, store, made, snapshot, last)
VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (search, place) DO UPDATE SET last = excluded.last RETURNING source
"""

_SET_STATE = """
UPDATE factmem.searches SET next = %s, size = %s, length = %s, begins_at = %s WHERE search = %s
"""

_READ_LINES = """
SELECT number, at, line FROM factmem.entries WHERE place = %s AND number > %s
ORDER BY number LIMIT %s
"""

_ADD_ITEMS = """
INSERT INTO factmem.items (search, item, store, length, counts, text, topic, digest, line, start,
    size, chat, message, said_at, ends_at, fact) VALUES {rows}
"""

_LAST_BLOCKS = """
SELECT term, first, items FROM factmem.terms t WHERE search = %s AND first = (
    SELECT max(first) FROM factmem.terms l WHERE l.search = t.search AND l.term = t.term
) AND term IN ({keys})
"""

_PUT_BLOCKS = """
INSERT INTO factmem.terms (search, term, first, store, items) VALUES {rows}
ON CONFLICT (search, term, first) DO UPDATE SET items = excluded.items
"""

_OF_TOPICS = """
SELECT item, digest, length FROM factmem.items WHERE search = %s AND topic IN ({keys})
"""

_DELETE_ITEMS = "DELETE FROM factmem.items WHERE search = %s AND item IN ({keys}) RETURNING text"

_LOAD = """
SELECT i.item, i.topic, i.fact, e.at,
    CASE WHEN i.fact IS NULL THEN substr(e.line, i.start + 1, i.size) END
FROM factmem.items i LEFT JOIN factmem.entries e ON e.place = %s AND e.number = i.line
WHERE i.search = %s AND {which}
"""

_ENDED = "i.ends_at <= %s"

_OWNER = "SELECT owner FROM factmem.places WHERE place = %s"

_DROP = (
    "DELETE FROM factmem.items WHERE search = %s",
    "DELETE FROM factmem.terms WHERE search = %s",
    "DELETE FROM factmem.sources WHERE search = %s",
    "DELETE FROM factmem.searches WHERE search = %s",
)


class Meaning(Protocol):
    """Compares the vectors of places with a question."""

    def nearest(self, key: bytes, search: int, inside: Collection[int] | None) -> list[int]:
        """Return the items of a place whose texts are nearest, of all or of some."""
        ...

    def cosines(
        self, key: bytes, search: int, items: Sequence[int]
    ) -> dict[int, tuple[float, float]]:
        """Return the cosines of items that have a vector, as they are and for ranking."""
        ...

    def statistics(self, key: bytes) -> tuple[int, float, float]:
        """Return the number of vectors of a place, and the sums of both cosines."""
        ...

    def is_complete(self, key: bytes, search: int) -> bool:
        """Whether each text of a place has a vector, or was refused."""
        ...


class VectorIndex(Protocol):
    """The vectors of the texts of items, where a database has them."""

    def remove(
        self, session: Session, key: bytes, search: int, texts: Iterable[bytes | None]
    ) -> None:
        """Delete the vectors of texts that no item has any more."""
        ...

    def drop(
        self, session: Session, key: bytes, search: int, removed: Collection[str] | None
    ) -> None:
        """Delete the items of a search, with the vectors of removed keywords.

        `removed` is None for an erasure.
        """
        ...

    def patience(self, session: Session) -> AbstractContextManager[None]:
        """Let a session take as long as a large index needs."""
        ...

    def meaning(
        self, session: Session, searches: Mapping[bytes, int], question: SearchQuestion
    ) -> Meaning | None:
        """Compare vectors; None if the question or the database has none."""
        ...


class State(NamedTuple):
    """The index of a place."""

    search: int
    form: str
    next: int
    """The number of the next item."""
    size: int
    length: float
    begins_at: int | None
    """When the next planned value begins, in microseconds."""


class Plan(NamedTuple):
    """What an index lacks."""

    identity: Identity
    old: State | None
    """The index as it is."""
    is_new: bool
    """Whether it is made again."""
    ends: Mapping[bytes, Row]
    """See `ends_of`."""
    known: Mapping[bytes, int]
    """The last line of each in the index."""
    ended: frozenset[str] = frozenset()
    """The keywords of facts that have ended."""


class _Piece(NamedTuple):
    line: int
    start: int
    at: str
    json: bytes


class _Saved(NamedTuple):
    """What new lines of a place change."""

    pieces: Mapping[tuple[str, str], _Piece]
    """The new facts, by keyword and id."""
    keywords: set[str]
    items: Sequence[Row]
    """The items of these keywords."""
    searched: Searched | None
    """The ledgers of these keywords; None if that of the place is needed."""


class _NewItem(NamedTuple):
    """An item to add."""

    document: SearchDocument
    topic: int | None = None
    digest: bytes | None = None
    line: int | None = None
    start: int | None = None
    size: int | None = None
    chat: int | bytes | None = None
    """The number of a conversation; that of a message is known in the transaction by its key."""
    message: int | None = None
    said_at: float | None = None
    ends_at: int | None = None
    fact: bytes | None = None


class _Changes(NamedTuple):
    new: Sequence[_NewItem]
    read: Mapping[bytes, int]
    """The last line of each source that is then in the index."""
    gone: Mapping[int, float] = {}
    """The lengths of the items to delete."""
    begins_at: int | None = None


def written(term: str) -> str:
    """Return a term in ASCII: a database may have any encoding, and refuses U+0000."""
    if term.isascii() and term.isalnum():
        return term
    return "_" + term.encode("utf-8", "surrogatepass").hex()


def unwritten(name: str) -> str:
    """Return the term of `written`; empty for a mark."""
    if not name.startswith("_"):
        return name
    return "" if name.startswith("__") else bytes.fromhex(name[1:]).decode("utf-8", "surrogatepass")


def _named(terms: Mapping[str, int]) -> dict[str, int]:
    return {written(term): byte for term, byte in terms.items()}


def mark_term(mark: bytes) -> str:
    return f"__{blake2b(mark, digest_size=8).hexdigest()}"


def ends_of(session: Session, key: bytes, kind: int) -> dict[bytes, Row]:
    """Return `made`, `snapshot`, `last` and bytes of a place, or of each of its conversations."""
    rows = session.rows(_LIST_ENDS.format(of="=" if kind == FACTS else "<>"), [key])
    return {bytes(row[0]): row[1:] for row in rows}


def _state(session: Session, key: bytes, kind: int) -> State | None:
    for row in session.rows(_READ_STATE, [key, kind]):
        return State(*row)
    return None


def loaded(
    session: Session, key: bytes, search: int, which: str, given: Sequence[object]
) -> dict[int, StoredItem]:
    """Return the facts of items that meet a condition."""
    found = dict[int, StoredItem]()
    query = _LOAD.format(which=which)
    for item, topic, stored, at, piece in session.rows(query, [key, search, *given]):
        saved = piece if stored is None else stored
        if saved is None:
            continue  # purged since, between two statements
        try:
            fact = StoredItem.load(saved) if at is None else StoredItem.of_save(saved, stamp_at(at))
        except ODD_ENTRIES:
            fact = None
        if fact is None or topic_of(fact.keyword) != topic:
            raise StorageError("The index of a place names other facts than its lines have")
        found[item] = fact
    return found


def _entries(sealer: Sealer, rows: Sequence[Row]) -> list[Entry]:
    bodies = [sealer.open(number, at, NO_TAG, line) for number, at, line in rows]
    return entries_of(bodies, [at for _, at, _ in rows])


def turns_in(sealer: Sealer, rows: Sequence[Row]) -> list[Turn]:
    return [
        turn_of(number - 1, body_of(entry), moment(entry["at"]))
        for (number, _, _), entry in zip(rows, _entries(sealer, rows), strict=True)
    ]


def _pieces(
    number: int, at: str, line: bytes, entry: Entry
) -> Iterator[tuple[tuple[str, str], _Piece]]:
    """Yield where the facts of an entry are in its line, by keyword and id."""
    start = 0
    if "actor" in entry or len(line) > _LONG:
        return
    for fact in entry.get("facts", ()):
        try:
            json = orjson.dumps(fact)
        except TypeError:  # an integer beyond 64 bits
            return
        start = line.find(json, start)
        if start < 0:
            return
        yield (fact["keyword"], fact["id"]), _Piece(number, start, at, json)
        start += len(json)


def _item_of(
    stored: StoredItem, pieces: Mapping[tuple[str, str], _Piece], document: SearchDocument
) -> _NewItem:
    """Return the item of a fact: where its save is if that is all of it, else with a copy."""
    fact = stored.fact()
    source, piece = fact.source, pieces.get((stored.keyword, fact.id))
    chat = None if source is None or source.conversation is None else topic_of(source.conversation)
    ends = [item.ends_at for item in stored.items if item.ends_at is not None]
    terms = _named(document.terms) | dict.fromkeys(map(mark_term, marks_of(fact)), 0)
    new = _NewItem(
        document._replace(terms=terms),
        topic=topic_of(stored.keyword),
        digest=stored.digest,
        chat=chat,
        message=None if source is None else source.message,
        said_at=fact.timestamp.timestamp(),
        ends_at=_micros(min(ends, default=None)),
    )
    if piece is None or StoredItem.of_save(piece.json, piece.at).stored != stored.stored:
        return new._replace(fact=stored.stored)
    return new._replace(line=piece.line, start=piece.start, size=len(piece.json))


def _micros(at: str | None) -> int | None:
    return None if at is None else micros(at)


def parts_of(values: Sequence[K], columns: int = 1) -> Iterator[Sequence[K]]:
    """Yield what one statement can have as parameters."""
    step = _PARAMETERS // columns
    for at in range(0, len(values), step):
        yield values[at : at + step]


def _insert_rows(session: Session, query: str, rows: Sequence[Row]) -> None:
    for part in parts_of(rows, len(rows[0]) if rows else 1):
        marks = ", ".join([f"({', '.join(['%s'] * len(part[0]))})"] * len(part))
        session.rows(query.format(rows=marks), [each for row in part for each in row])


def _blocks(items: Sequence[int], first: int, block: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the blocks of more items with a term, each with its byte, given the last block."""
    at = 0
    while at < len(items):
        end = min(bisect_left(items, first + _FARTHEST + 1 << 8), at + _BLOCK - len(block) // 3)
        if end > at:
            yield (
                first,
                block
                + b"".join(pack("<HB", (each >> 8) - first, each & 255) for each in items[at:end]),
            )
        at = end
        first, block = items[min(at, len(items) - 1)] >> 8, b""


class SearchIndex:
    """The indexes of one store. Thread-safe."""

    def __init__(self, places: StoredPlaces, vectors: VectorIndex | None) -> None:
        self._vectors = vectors
        self._places = places
        places.opening.on_removal = self.drop

    def update(self, plan: Plan, kind: int, question: SearchQuestion) -> None:
        """Add what an index lacks; a plan that has become outdated is dropped."""
        state = self._made(plan, kind, question.form)
        if state is not None and kind == FACTS:
            self._add_facts(plan, state, question)
        elif state is not None:
            self._add_turns(plan, state, question)

    def plan(
        self, session: Session, reader: PlaceReader, identity: Identity, kind: int, form: str
    ) -> Plan | State | None:
        """Return what an index lacks, or its state; None for an empty place."""
        key = reader.key(identity)
        ends, state = ends_of(session, key, kind), _state(session, key, kind)
        if not ends and state is None:
            return None
        now, known, is_new = micros(self._places.clock.now()), dict[bytes, int](), True
        if state is not None and state.form == form and state.next <= 2 * state.size + _SLACK:
            is_new = state.begins_at is not None and state.begins_at <= now
            for place, *end in session.rows(_LIST_SOURCES, [state.search]):
                known[bytes(place)] = end[2]
                is_new = is_new or tuple(end[:2]) != ends.get(bytes(place), ())[:2]
            is_new = is_new or bool(ends and not known)  # a process died before it wrote any item
        if state is None or is_new:
            return Plan(identity, state, True, ends, {})
        ended = frozenset[str]()
        if kind == FACTS:
            found = loaded(session, key, state.search, _ENDED, [now])
            ended = frozenset(each.keyword for each in found.values())
        if not ended and all(known.get(each) == end[2] for each, end in ends.items()):
            return state
        return Plan(identity, state, False, ends, known, ended)

    def _made(self, plan: Plan, kind: int, form: str) -> State | None:
        """Return the index of a plan, a new one if it needs that; None if it was changed since."""

        def write(session: Session, _: int) -> State | None:
            reader, _writer = self._places.writing(session)
            key = reader.key(plan.identity)
            with session.transaction():
                session.rows(_HOLD, [key])
                ends, found = ends_of(session, key, kind), _state(session, key, kind)
                if found != plan.old or any(
                    ends.get(each, ())[:2] != end[:2] for each, end in plan.ends.items()
                ):
                    return None
                if found is not None:
                    self._drop(session, key, found.search, ())
                session.rows(_MAKE, [key, kind, reader.store.number, form])
                return _state(session, key, kind)

        return self._places.write_soon(write) if plan.is_new else plan.old

    def _write(self, plan: Plan, state: State, changes: _Changes) -> State | None:
        """Write items in one transaction; return None if the place or its index was changed."""

        def write(session: Session, _: int) -> State | None:
            reader, _writer = self._places.writing(session)
            vectors = self._vectors
            patience = nullcontext() if vectors is None else vectors.patience(session)
            with patience, session.transaction():
                if session.rows(_LOCK, [state.search]) != [(state.next, state.size)]:
                    return None
                sources = dict[bytes, int]()
                for each, last in changes.read.items():
                    made, snapshot = plan.ends[each][:2]
                    heads = session.rows(_READ_EXTENT, [each])
                    if not heads or heads[0] != (made, snapshot):
                        return None
                    given = [state.search, each, reader.store.number, made, snapshot, last]
                    ((sources[each],),) = session.rows(_SET_SOURCE, given)
                self._remove(session, reader.key(plan.identity), state.search, [*changes.gone])
                self._insert(session, reader.store.number, state, changes.new, sources)
                new = changes.new
                length = state.length + sum(each.document.length for each in new)
                after = state._replace(
                    next=state.next + len(new),
                    size=state.size + len(new) - len(changes.gone),
                    length=length - sum(changes.gone.values()),
                    begins_at=changes.begins_at,
                )
                session.rows(_SET_STATE, [*after[2:], state.search])
                return after

        return self._places.write_soon(write)

    def _remove(self, session: Session, key: bytes, search: int, gone: Sequence[int]) -> None:
        for items in parts_of(gone):
            query, given = sql.among(_DELETE_ITEMS, items)
            rows = session.rows(query, [search, *given])
            if self._vectors is not None:
                self._vectors.remove(session, key, search, [text for (text,) in rows])

    def _insert(
        self,
        session: Session,
        store: int,
        state: State,
        new: Sequence[_NewItem],
        sources: Mapping[bytes, int],
    ) -> None:
        rows, held, search = list[Row](), dict[str, "array[int]"](), state.search
        for item, each in enumerate(new, state.next):
            (terms, length, counts, digest), *columns = each
            columns[5] = sources[each.chat] if isinstance(each.chat, bytes) else each.chat
            text = (digest or None) if self._vectors else None
            rows.append((search, item, store, length, counts, text, *columns))
            for term, byte in terms.items():
                held.setdefault(term, array("q")).append(item << 8 | byte)
        _insert_rows(session, _ADD_ITEMS, rows)
        last = dict[str, tuple[int, bytes]]()
        for part in parts_of([*held]) if state.next > 1 else ():
            query, given = sql.among(_LAST_BLOCKS, part)
            rows = session.rows(query, [search, *given])
            last |= {term: (first, block) for term, first, block in rows if first < state.next}
        blocks = [
            (search, term, first, store, block)
            for term, items in sorted(held.items())
            for first, block in _blocks(items, *last.get(term, (items[0] >> 8, b"")))
        ]
        _insert_rows(session, _PUT_BLOCKS, blocks)

    def _add_facts(self, plan: Plan, state: State, question: SearchQuestion) -> None:
        """Add and remove the facts of keywords that changed."""
        places, identity = self._places, plan.identity
        if not plan.ends:
            return
        (key,) = plan.ends
        read, nothing = partial(self._saved, plan, state, key), _Saved({}, set(), [], None)
        pieces, keywords, rows, searched = places.read_store(read, nothing)
        current, begins = list[StoredItem](), [state.begins_at]
        if searched is None:
            view = places.view(identity)
            with view.lock:
                whole, now = view.ledger, places.now(view.ledger)
                names = whole.state().by_keyword if plan.is_new else keywords
                current = [each for name in names for each in current_facts(whole, name, now)]
                begins.append(_micros(whole.next_begin(now)))
        else:
            places.write_topics(identity, searched)
            for name, ledger in searched.ledgers.items():
                now = places.now(ledger)
                current += current_facts(ledger, name, now)
                begins.append(_micros(ledger.next_begin(now)))
        found, known = {each.digest: each for each in current}, {bytes(row[1]) for row in rows}
        gone = {item: length for item, digest, length in rows if bytes(digest) not in found}
        with paused_collection(len(current)):
            new = [
                _item_of(each, pieces, question.describe(each.fact(), identity[3]))
                for digest, each in found.items()
                if digest not in known
            ]
        first = min((each for each in begins if each is not None), default=None)
        self._write(plan, state, _Changes(new, {key: plan.ends[key][2]}, gone, first))

    def _saved(
        self, plan: Plan, state: State, key: bytes, session: Session, reader: PlaceReader
    ) -> _Saved:
        pieces, keywords = dict[tuple[str, str], _Piece](), set(plan.ended)
        sealer, last = reader.sealer(key, None), plan.known.get(key, 0)
        while rows := session.rows(_READ_LINES, [key, last, _LINES]):
            for (number, at, line), entry in zip(rows, _entries(sealer, rows), strict=True):
                keywords.update(keywords_of(entry))
                pieces.update(_pieces(number, stamp_at(at), line, entry))
            last = rows[-1][0]
        if plan.is_new:
            return _Saved(pieces, keywords, [], None)
        items = list[Row]()
        for part in parts_of([*map(topic_of, keywords)]):
            query, given = sql.among(_OF_TOPICS, part)
            items += session.rows(query, [state.search, *given])
        searched = reader.searched(session, plan.identity, keywords)
        return _Saved(pieces, keywords, items, searched)

    def _add_turns(self, plan: Plan, state: State, question: SearchQuestion) -> None:
        """Add new messages, those of some conversations at a time."""
        behind = iter([key for key, end in plan.ends.items() if plan.known.get(key) != end[2]])
        now: State | None = state
        while now is not None and (keys := list(islice(behind, _CHATS))):
            changes = self._places.read_store(partial(self._said, plan, keys, question), None)
            now = None if changes is None else self._write(plan, now, changes)

    def _said(
        self,
        plan: Plan,
        keys: Iterable[bytes],
        question: SearchQuestion,
        session: Session,
        reader: PlaceReader,
    ) -> _Changes:
        new, read = list[_NewItem](), dict[bytes, int]()
        for key in keys:
            last, sealer = plan.known.get(key, 0), reader.sealer(key, None)
            while rows := session.rows(_READ_LINES, [key, last, _LINES]):
                for turn in turns_in(sealer, rows):
                    said_at = turn.said_at.timestamp()
                    for part, each in enumerate(question.describe_turn(turn)):
                        document = each._replace(terms=_named(each.terms))
                        item = _NewItem(document, start=part, chat=key, message=turn.number)
                        new.append(item._replace(said_at=said_at))
                last = rows[-1][0]
            read[key] = last
        return _Changes(new, read)

    def drop(self, session: Session, place: bytes, removed: Sequence[Entry] | None) -> None:
        """Drop the index that has a place or a conversation; see `Opening.on_removal`."""
        for (owner,) in session.rows(_OWNER, [place]):
            state = _state(session, owner, FACTS if owner == place else TURNS)
            if state is not None and session.rows(_LOCK, [state.search]):
                named = None if removed is None else {n for e in removed for n in keywords_of(e)}
                self._drop(session, owner, state.search, named)

    def _drop(
        self, session: Session, key: bytes, search: int, removed: Collection[str] | None
    ) -> None:
        if self._vectors is not None:
            self._vectors.drop(session, key, search, removed)
        for statement in _DROP:
            session.rows(statement, [search])
