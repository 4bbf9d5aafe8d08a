"""WordSearch: finds candidates by the stored indexes of words. Every method blocks.

For each place one of three: its stored index, if the place has not changed; the index without the
keywords that changed, and a small index of these; a new index, which takes reading all of the place
and is stored for the next process. All are searched alike, as parts. An index is sealed or has a
checksum, as the lines of its place, and names the end at which it was made. Only
`SearchedFileProvider` uses it, for a process that recalls once.

WordIndex: the words and the current facts of a place as bytes, searched without any of the rest.

The index of 100,000 facts is searched in milliseconds, where reading them and cutting them into words
takes seconds. It is bound to the end of the place that it was made from. No I/O.
"""

import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import accumulate, islice
from math import log
from typing import Any, NamedTuple

import orjson

from factmem._concurrency.garbage import paused_collection
from factmem.errors import StorageError
from factmem.ledger._items import Item, KeywordItems
from factmem.ledger.entries import Entry
from factmem.ledger.ledger import Ledger, LedgerState
from factmem.ledger.resolution import seen_together
from factmem.models._values import canonical
from factmem.models.facts import AnyFact, Concept
from factmem.models.places import Identity, Place
from factmem.models.recall_filter import RecallFilter, marks_of
from factmem.providers._sql import session as sql
from factmem.providers._sql.items import StoredItem, current_facts, keywords_in
from factmem.providers._sql.places import PlaceReader, Position
from factmem.providers._sql.sealing import Extent
from factmem.providers._sql.session import PlaceRow, Session
from factmem.providers._sql.stored_places import StoredPlaces
from factmem.providers._sqlite.database import SqliteDatabase
from factmem.providers.results import (
    Describe,
    PlaceStatistics,
    SearchAnswer,
    SearchCandidate,
    SearchDocument,
    SearchQuestion,
)

_FORM = 2
"""The form of the bytes, and of the terms: increase it with each change of either."""

_STEP = 16
"""Counts and lengths are multiples of 1/16."""

_BUCKETS = 512
"""The parts into which terms are divided: a question parses those of its own terms."""

_BLOCK = 32
"""The facts that are compressed together: one of them is read in 30 microseconds."""

_LENGTHS, _KEYWORDS, _TERMS = 0, 1, 2
_ITEMS = _TERMS + _BUCKETS
"""The numbers of the first chunk of each kind."""

_MOST_HITS = 50_000
"""The most documents that are ranked, from the rarest terms of a question on: they take 20 ms."""


class State(NamedTuple):
    """The end of a place."""

    extent: Extent
    tag: bytes
    """The tag of its last line."""
    size: int
    """The bytes of all its lines."""


class Hit(NamedTuple):
    """A document that has a term of a question."""

    number: int
    counts: Mapping[str, tuple[float, bool]]
    """For each term of the question, its weighted count and whether the fact itself has it."""
    length: float


class _Term(NamedTuple):
    """The documents of a term: those that have it themselves, and those whose neighbours have it."""

    own: Sequence[int]
    own_counts: Sequence[int]
    around: Sequence[int]
    around_counts: Sequence[int]

    def counted(self, document: int) -> tuple[float, bool] | None:
        """Return the count in a document; None without the term."""
        for numbers, counts in ((self.own, self.own_counts), (self.around, self.around_counts)):
            at = bisect_left(numbers, document)
            if at < len(numbers) and numbers[at] == document:
                return counts[at] / _STEP, numbers is self.own
        return None


class WordIndex:
    """The index of one place: a line that names its form, one with a head, and compressed chunks.

    Args:
        data: The bytes that `encoded` returned.
    """

    def __init__(self, data: bytes) -> None:
        start = data.index(b"\n") + 1
        end = data.index(b"\n", start)
        self._head: dict[str, Any] = orjson.loads(data[start:end])
        self._data = memoryview(data)
        self._ends = [*accumulate(self._head["sizes"], initial=end + 1)]
        self._chunk = lru_cache(maxsize=64)(self._read)
        self._term = lru_cache(maxsize=512)(self._read_term)
        self._lengths: list[int] = orjson.loads(self._chunk(_LENGTHS))

    @staticmethod
    def is_readable(data: bytes, stems: str) -> bool:
        """Whether bytes are an index in the form of this program, for terms of such stems."""
        return data.startswith(_start(stems))

    @property
    def state(self) -> State:
        """The end of the place that it was made from."""
        head = self._head
        return State(Extent(*head["extent"]), bytes.fromhex(head["tag"]), head["size"])

    def is_valid(self, now: str) -> bool:
        """Whether none of its facts has ended or expired, and no planned one has begun."""
        until = self._head["until"]
        return until is None or now < until

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def length(self) -> float:
        """The sum of the lengths of all documents."""
        length: float = self._head["length"]
        return length

    def length_of(self, documents: Iterable[int]) -> float:
        """Return the sum of the lengths of some documents."""
        return sum(self._lengths[number] for number in documents) / _STEP

    def holders(self, term: str, hidden: Sequence[int] = ()) -> int:
        """Return how many facts have a term themselves, apart from the hidden documents."""
        found = self._term(term)
        return len(found.own) - sum((found.counted(n) or (0, False))[1] for n in hidden)

    def best(self, terms: Iterable[str]) -> Iterator[Hit]:
        """Yield the documents that have a term, in the order of their BM25 with these terms."""
        found = {term: self._term(term) for term in terms}
        scores: dict[int, float] = {}
        lengths, average = self._lengths, self.length / (len(self) or 1) or 1.0
        constant, per_length = _STEP * 0.3, 0.9 / average  # k1 = 1.2, b = 0.75
        for each in _rarest(found.values()):
            holders = len(each.own)
            idf = log(1 + (len(self) - holders + 0.5) / (holders + 0.5))
            for numbers, counts in ((each.own, each.own_counts), (each.around, each.around_counts)):
                for number, count in zip(numbers, counts, strict=True):
                    score = idf * count / (count + constant + per_length * lengths[number])
                    scores[number] = scores.get(number, 0.0) + score
        for number in sorted(scores, key=lambda number: -scores[number]):
            held = ((term, each.counted(number)) for term, each in found.items())
            counted = {term: count for term, count in held if count is not None}
            yield Hit(number, counted, self._lengths[number] / _STEP)

    def item(self, number: int) -> StoredItem:
        """Return the fact of a document."""
        block = self._chunk(_ITEMS + number // _BLOCK)
        return StoredItem.load(block.split(b"\n")[number % _BLOCK])

    def of_keyword(self, keyword: str) -> range:
        """Return the documents of a keyword's facts."""
        return range(*self._topics.get(keyword, (0, 0))[:2])

    def ledger(self, keywords: set[str]) -> Ledger | None:
        """Return a ledger of some keywords, as it was at the end of the place.

        None if one of them had superseded, retracted or proposed values, which an index does not have.
        """
        held: dict[str, KeywordItems] = {}
        expiries: list[tuple[str, str]] = []
        for keyword in keywords & self._topics.keys():
            _, _, description, fact_type, has_past = self._topics[keyword]
            if has_past:
                return None
            topic = held[keyword] = KeywordItems(description, fact_type)
            for item in (i for at in self.of_keyword(keyword) for i in self.item(at).items):
                topic.add(canonical(item.value), item)
                if item.ends_at is not None:
                    expiries.append((item.ends_at, keyword))
        return Ledger.restored(LedgerState(self._head["recorded_at"], 0, [], {}, held, expiries))

    @cached_property
    def _topics(self) -> dict[str, Any]:
        """The first document of each keyword and the end of them, description, type, whether it has a past."""
        found: dict[str, Any] = orjson.loads(self._chunk(_KEYWORDS))
        return found

    def _read(self, number: int) -> bytes:
        return zlib.decompress(self._data[self._ends[number] : self._ends[number + 1]])

    def _read_term(self, term: str) -> _Term:
        name = _written(term)
        return _Term(*orjson.loads(self._chunk(_TERMS + _bucket(name))).get(name, _NOWHERE))


def _rarest(terms: Iterable[_Term]) -> Iterator[_Term]:
    """Yield the rarest terms of a question: words of most facts do not affect the ranking."""
    hits = 0
    for each in sorted(terms, key=lambda term: len(term.own) + len(term.around)):
        hits += len(each.own) + len(each.around)
        if hits > _MOST_HITS and hits > len(each.own) + len(each.around):
            return
        yield each


_NOWHERE: tuple[Sequence[int], ...] = ((), (), (), ())


def _written(term: str) -> str:
    """Return a term in characters that any JSON may have."""
    return term.encode("utf-8", "surrogatepass").decode("latin-1")


def _bucket(name: str) -> int:
    return zlib.crc32(name.encode()) % _BUCKETS


def _start(stems: str) -> bytes:
    """Return the first line of an index."""
    return orjson.dumps([_FORM, stems, Item.__slots__]) + b"\n"


def encoded(
    state: State,
    ledger: Ledger,
    items: Sequence[StoredItem],
    documents: Iterable[SearchDocument],
    stems: str,
    *,
    begins_at: str | None = None,
) -> bytes:
    """Return the index of a place's current facts.

    Args:
        state: The end of the place.
        ledger: Its ledger.
        items: The facts, those of a keyword side by side.
        documents: Their terms.
        stems: What the terms depend on beside the facts.
        begins_at: When the next planned value begins.
    """
    lengths, length, terms = list[int](), 0.0, dict[str, _Columns]()
    for number, document in enumerate(documents):
        for at, counts in ((0, document.own), (2, document.around)):
            for term, count in counts.items():
                columns = terms.get(term) or terms.setdefault(term, ([], [], [], []))
                columns[at].append(number)
                columns[at + 1].append(round(count * _STEP))
        lengths.append(round(document.length * _STEP))
        length += document.length
    buckets: list[dict[str, _Columns]] = [{} for _ in range(_BUCKETS)]
    for term, columns in terms.items():
        name = _written(term)
        buckets[_bucket(name)][name] = columns
    chunks = [lengths, _topics(ledger, items), *buckets]
    blocks = [
        b"\n".join(each.stored for each in items[at : at + _BLOCK])
        for at in range(0, len(items), _BLOCK)
    ]
    packed = [zlib.compress(each, 1) for each in (*map(orjson.dumps, chunks), *blocks)]
    expiries = [item.ends_at for each in items for item in each.items if item.ends_at]
    expiries += [] if begins_at is None else [begins_at]
    head = {
        "extent": [*state.extent],
        "tag": state.tag.hex(),
        "size": state.size,
        "until": min(expiries, default=None),
        "recorded_at": ledger.recorded_at,
        "length": length,
        "sizes": list(map(len, packed)),
    }
    return b"".join((_start(stems), orjson.dumps(head), b"\n", *packed))


_Columns = tuple[list[int], list[int], list[int], list[int]]
"""The columns of a `_Term`."""


def _topics(ledger: Ledger, items: Sequence[StoredItem]) -> dict[str, tuple[object, ...]]:
    """Return what `WordIndex._topics` has."""
    spans: dict[str, tuple[int, int]] = {}
    for number, each in enumerate(items):
        spans[each.keyword] = spans.get(each.keyword, (number, 0))[0], number + 1
    whole = ledger.state()
    return {
        keyword: (
            *spans.get(keyword, (0, 0)),
            held.description,
            held.fact_type,
            bool(held.retractions or held.proposals or held.plans or keyword in whole.passed),
        )
        for keyword, held in whole.by_keyword.items()
    }


_MOST_OTHERS = 1000
"""The most facts of a keyword in another place that are compared with a candidate."""


_MOST_CHANGED = 2000
"""The most facts of changed keywords that are searched beside an index; with more, it is made again."""


@dataclass(frozen=True, slots=True)
class _Part:
    """An index, and its documents that are no longer current."""

    index: WordIndex
    hidden: frozenset[int] = frozenset()


class WordSearch:
    """Finds the candidates of one question in a process that has read nothing.

    Args:
        places: The places of a store.
        database: Its database.
        stems: What the terms of documents depend on beside the facts.
    """

    def __init__(self, places: StoredPlaces, database: SqliteDatabase, stems: str) -> None:
        self._places, self._database = places, database
        self._stems = stems

    def size(self, identities: Sequence[Identity]) -> int:
        """Return the bytes of the entries of some places."""

        def read(session: Session, reader: PlaceReader) -> int:
            heads = [session.rows(sql.READ_ROW, [reader.key(each)]) for each in identities]
            return sum(head[4] for rows in heads for head in rows)

        return self._places.read_store(read, 0)

    def candidates(
        self, places: Sequence[Place], question: SearchQuestion, describe: Describe, *, keep: bool
    ) -> SearchAnswer:
        """Return the candidates of a question by words.

        Args:
            places: The places to search.
            question: The question.
            describe: Returns the documents of facts.
            keep: Whether to store the indexes that had to be made.
        """
        parts: dict[Identity, Sequence[_Part]] = {}
        new: dict[Identity, bytes] = {}
        for place in places:
            found = self._stored(place, describe)
            if found is None:
                data = new[place.identity] = self._made(place, describe)
                found = [_Part(WordIndex(data))]
            parts[place.identity] = found
        if keep and new:
            self._keep(new)
        candidates: list[SearchCandidate] = []
        for identity, those in parts.items():
            for part in those:
                candidates += islice(_inside(identity, part, question), question.limit)
        counted = {identity: _counted(those, question.terms) for identity, those in parts.items()}
        statistics = {identity: each for identity, each in counted.items() if each.facts}
        return SearchAnswer(candidates, statistics, list(_others(places, parts, candidates)))

    def _stored(self, place: Place, describe: Describe) -> "Sequence[_Part] | None":
        """Return the stored index of a place and what was saved since; None if it is of no use."""
        identity = place.identity

        def read(session: Session, reader: PlaceReader) -> tuple[WordIndex, Sequence[Entry]] | None:
            key = reader.key(identity)
            for row in map(PlaceRow._make, session.rows(sql.READ_ROW, [key])):
                for _, stored in session.rows(sql.READ_INDEX, [key, sql.WORDS]):
                    sealer, extent = reader.sealer(key, row.data_key), row.extent
                    data = sealer.open_index(stored)
                    if data is None or not WordIndex.is_readable(data, self._stems):
                        return None
                    index = WordIndex(data)
                    known = index.state
                    if (known.extent, known.size) == (extent, row.size):
                        sealer.check_tail(row.counters, known.tag, row.tail)
                        return index, ()
                    if known.extent[:2] != extent[:2]:
                        return None
                    position = Position(known.extent, row.last, known.tag, row.size, known.size)
                    answer = reader.read(session, {identity: position})[identity]
                    is_whole = answer.position.extent.last == answer.position.end
                    return (index, answer.entries) if is_whole else None
            return None

        found, now = self._places.read_store(read, None), self._places.time()
        if found is None or not found[0].is_valid(now):
            return None
        index, entries = found
        return (
            [_Part(index)] if not entries else self._followed(place, index, entries, describe, now)
        )

    def _followed(
        self,
        place: Place,
        index: WordIndex,
        entries: Sequence[Entry],
        describe: Describe,
        now: str,
    ) -> "Sequence[_Part] | None":
        """Return an index without the keywords that changed since, and one of these; None if too much did.

        A fact that was saved since is found by its own words, and not by those of older messages.
        """
        keywords = keywords_in(entries)
        hidden = [number for keyword in keywords for number in index.of_keyword(keyword)]
        if len(hidden) > _MOST_CHANGED:
            return None
        ledger = index.ledger(keywords)
        if ledger is None:
            return None
        for entry in entries:
            ledger.apply(entry)
        items = [each for keyword in keywords for each in current_facts(ledger, keyword, now)]
        documents = describe([each.fact() for each in items], place.identity[3])
        begins_at = ledger.next_begin(now)
        recent = encoded(index.state, ledger, items, documents, self._stems, begins_at=begins_at)
        return [_Part(index, frozenset(hidden)), _Part(WordIndex(recent))]

    def _made(self, place: Place, describe: Describe) -> bytes:
        """Read a place, and return its index."""
        view = self._places.view(place.identity)

        def present(ledger: Ledger, now: str) -> bytes:
            position, items = view.position, list[StoredItem]()
            for keyword in ledger.state().by_keyword:
                items += current_facts(ledger, keyword, now)
            state = State(Extent(0, 0, 0), b"", 0)
            if position is not None:
                state = State(position.extent, position.tag, position.size)
            documents = describe([each.fact() for each in items], place.identity[3])
            begins_at = ledger.next_begin(now)
            return encoded(state, ledger, items, documents, self._stems, begins_at=begins_at)

        with paused_collection(len(view)):
            return self._places.present_view(view, present)

    def _keep(self, made: Mapping[Identity, bytes]) -> None:
        """Store indexes in one transaction, but those of places that have changed meanwhile.

        A store that cannot be written now is searched all the same.
        """

        def write(session: Session, _: int) -> None:
            reader = self._places.reading(session)
            if reader is None:
                return
            with session.transaction():
                for identity, data in made.items():
                    key, extent = reader.key(identity), WordIndex(data).state.extent
                    for row in map(PlaceRow._make, session.rows(sql.READ_ROW, [key])):
                        if row.extent == extent:
                            sealed = reader.sealer(key, row.data_key).seal_index(data)
                            given = [key, sql.WORDS, reader.store.number, sealed]
                            session.rows(sql.WRITE_INDEX, given)

        try:
            with self._database.writing_soon():
                self._places.write(write)
        except StorageError:
            return


def _counted(parts: Iterable[_Part], terms: Iterable[str]) -> PlaceStatistics:
    """Return the statistics of a place."""
    asked, parts = list(terms), list(parts)
    return PlaceStatistics(
        sum(len(each.index) - len(each.hidden) for each in parts),
        sum(each.index.length - each.index.length_of(each.hidden) for each in parts),
        {term: sum(e.index.holders(term, list(e.hidden)) for e in parts) for term in asked},
    )


def _inside(identity: Identity, part: _Part, question: SearchQuestion) -> Iterator[SearchCandidate]:
    """Yield the candidates of a place that a filter allows, best first."""
    wanted = question.filter
    for hit in part.index.best(question.terms):
        if hit.number in part.hidden:
            continue
        item = part.index.item(hit.number)
        if wanted.is_open or _allows(wanted, item.fact()):
            yield _candidate(identity, item, hit)


def _allows(wanted: RecallFilter, fact: AnyFact) -> bool:
    return (
        (wanted.keywords is None or fact.concept.keyword in wanted.keywords)
        and (wanted.since is None or fact.timestamp >= wanted.since)
        and (wanted.until is None or fact.timestamp < wanted.until)
        and wanted.marks <= marks_of(fact)
    )


def _candidate(identity: Identity, item: StoredItem, hit: Hit) -> SearchCandidate:
    return SearchCandidate(identity, hit.counts, hit.length, None, None, partial(_load, item))


def _load(item: StoredItem, known: Mapping[str, Concept[Any, Any]]) -> AnyFact:
    return item.fact(known.get(item.keyword))


def _others(
    places: Sequence[Place],
    indexes: Mapping[Identity, Sequence[_Part]],
    candidates: Sequence[SearchCandidate],
) -> Iterator[SearchCandidate]:
    """Yield the facts of other places that may take precedence over candidates.

    They have the same keyword, and a value of it or the keyword's type in that place.
    """
    together, held = seen_together(places), set[tuple[Identity, str, str]]()
    values: dict[tuple[Identity, str], set[object]] = {}
    for each in candidates:
        fact = each.load({})
        held.add((each.identity, fact.concept.keyword, fact.id))
        for other in together[each.identity]:
            asked = values.setdefault((other, fact.concept.keyword), set())
            asked.update(map(canonical, fact.values))
    for (identity, keyword), asked in values.items():
        items = (
            part.index.item(number)
            for part in indexes[identity]
            for number in part.index.of_keyword(keyword)
            if number not in part.hidden
        )
        for at, item in enumerate(islice(items, _MOST_OTHERS)):
            has_common = not asked.isdisjoint(canonical(each.value) for each in item.items)
            name = identity, keyword, item.items[0].fact_id
            if name not in held and (at == 0 or has_common):
                yield _candidate(identity, item, Hit(0, {}, 0.0))
