"""WordIndex: the words and the current facts of a place as bytes, searched without any of the rest.

The index of 100,000 facts is searched in milliseconds, where reading them and cutting them into words
takes seconds. It is bound to the end of the place that it was made from. No I/O.
"""

import sys
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from math import log
from typing import Any, NamedTuple

import orjson

from factmem.ledger._items import Item, KeywordItems
from factmem.ledger.ledger import Ledger, LedgerState
from factmem.models._values import canonical
from factmem.providers._sql.items import StoredItem
from factmem.providers._sql.sealing import Extent
from factmem.providers.searched import SearchDocument

_FORM = 1
"""The form of the bytes, and of the terms: increase it with each change of either."""

_STEP = 16
"""Counts and lengths are multiples of 1/16."""

_MOST_COUNTED = 2**16 - 1

_BLOCK = 32
"""The facts that are compressed together: one of them is read in 30 microseconds."""

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
    """The index of one place.

    Args:
        data: The bytes that `encoded` returned.
    """

    def __init__(self, data: bytes) -> None:
        view = memoryview(data)
        start = data.index(b"\n") + 1
        size = int.from_bytes(view[start : start + 4], "little")
        start += 4 + size
        self._head: dict[str, Any] = orjson.loads(view[start - size : start])
        parts: list[memoryview] = []
        for length in self._head["parts"]:
            parts.append(view[start : start + length])
            start += length
        self._terms = parts[0]
        self._term_ends, self._starts, self._owns, self._numbers = (p.cast("I") for p in parts[1:5])
        self._counts = parts[5].cast("H")
        self._lengths, self._block_ends = (part.cast("I") for part in parts[6:8])
        self._blocks, self._keywords = parts[8:10]
        self._block = lru_cache(maxsize=64)(self._read_block)

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
        """Whether none of its facts has expired."""
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
        return StoredItem.load(self._block(number // _BLOCK)[number % _BLOCK])

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
                if item.expires_at is not None:
                    expiries.append((item.expires_at, keyword))
        return Ledger.restored(
            LedgerState(self._head["recorded_at"], 0, [], {}, held, {}, expiries)
        )

    @cached_property
    def _topics(self) -> dict[str, Any]:
        """The first document of each keyword and the end of them, description, type, whether it has a past."""
        found: dict[str, Any] = orjson.loads(self._keywords)
        return found

    def _read_block(self, number: int) -> list[bytes]:
        start = self._block_ends[number - 1] if number else 0
        return zlib.decompress(self._blocks[start : self._block_ends[number]]).split(b"\n")

    def _term(self, term: str) -> _Term:
        wanted = _written(term)

        def name(at: int) -> bytes:
            return bytes(self._terms[self._term_ends[at] : self._term_ends[at + 1]])

        size = len(self._owns)
        at = bisect_left(range(size), wanted, key=name)
        if at == size or name(at) != wanted:
            return _Term((), (), (), ())
        start, end = self._starts[at], self._starts[at + 1]
        middle = start + self._owns[at]
        numbers, counts = self._numbers, self._counts
        return _Term(
            numbers[start:middle], counts[start:middle], numbers[middle:end], counts[middle:end]
        )


def _rarest(terms: Iterable[_Term]) -> Iterator[_Term]:
    """Yield the rarest terms of a question: words of most facts do not affect the ranking."""
    hits = 0
    for each in sorted(terms, key=lambda term: len(term.own) + len(term.around)):
        hits += len(each.own) + len(each.around)
        if hits > _MOST_HITS and hits > len(each.own) + len(each.around):
            return
        yield each


def _written(term: str) -> bytes:
    return term.encode("utf-8", "surrogatepass")


def _start(stems: str) -> bytes:
    """Return the first line of an index."""
    return orjson.dumps([_FORM, sys.byteorder, stems, Item.__slots__]) + b"\n"


def encoded(
    state: State,
    ledger: Ledger,
    items: Sequence[StoredItem],
    documents: Iterable[SearchDocument],
    stems: str,
) -> bytes:
    """Return the index of a place's current facts.

    Args:
        state: The end of the place.
        ledger: Its ledger.
        items: The facts, those of a keyword side by side.
        documents: Their terms.
        stems: What the terms depend on beside the facts.
    """
    columns = _Columns()
    for document in documents:
        columns.add(document)
    expiries = [item.expires_at for each in items for item in each.items if item.expires_at]
    spans: dict[str, tuple[int, int]] = {}
    for number, each in enumerate(items):
        spans[each.keyword] = spans.get(each.keyword, (number, 0))[0], number + 1
    whole = ledger.state()
    topics = {
        keyword: (
            *spans.get(keyword, (0, 0)),
            held.description,
            held.fact_type,
            bool(held.retractions or held.proposals or keyword in whole.passed),
        )
        for keyword, held in whole.by_keyword.items()
    }
    blocks = [
        zlib.compress(b"\n".join(each.stored for each in items[at : at + _BLOCK]), 1)
        for at in range(0, len(items), _BLOCK)
    ]
    block_ends = array("I", accumulate(map(len, blocks)))
    parts = [*columns.parts(), block_ends.tobytes(), b"".join(blocks), orjson.dumps(topics)]
    head = {
        "extent": [*state.extent],
        "tag": state.tag.hex(),
        "size": state.size,
        "until": min(expiries, default=None),
        "recorded_at": whole.recorded_at,
        "length": columns.length,
        "parts": list(map(len, parts)),
    }
    written = orjson.dumps(head)
    return b"".join((_start(stems), len(written).to_bytes(4, "little"), written, *parts))


class _Columns:
    """The terms of documents, while they are put together."""

    def __init__(self) -> None:
        self._own: dict[str, tuple[array[int], array[int]]] = {}
        self._around: dict[str, tuple[array[int], array[int]]] = {}
        self._lengths = array("I")
        self.length = 0.0
        """The sum of all lengths."""

    def add(self, document: SearchDocument) -> None:
        """Add the next document."""
        number = len(self._lengths)
        for held, counts in ((self._own, document.own), (self._around, document.around)):
            for term, count in counts.items():
                columns = held.get(term)
                if columns is None:
                    columns = held[term] = array("I"), array("H")
                columns[0].append(number)
                columns[1].append(min(round(count * _STEP), _MOST_COUNTED))
        self._lengths.append(round(document.length * _STEP))
        self.length += document.length

    def parts(self) -> list[bytes]:
        """Return the terms, their ends, their starts, own counts, numbers, counts, and the lengths."""
        none = array("I"), array("H")
        names = sorted((_written(term), term) for term in self._own.keys() | self._around.keys())
        ends, starts, owns = array("I", [0]), array("I", [0]), array("I")
        numbers, counts = array("I"), array("H")
        for name, term in names:
            own, around = self._own.get(term, none), self._around.get(term, none)
            for column in (own, around):
                numbers += column[0]
                counts += column[1]
            ends.append(ends[-1] + len(name))
            owns.append(len(own[0]))
            starts.append(len(numbers))
        arrays = (ends, starts, owns, numbers, counts, self._lengths)
        return [b"".join(name for name, _ in names), *(each.tobytes() for each in arrays)]
