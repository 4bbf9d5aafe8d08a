"""Posting lists: the documents of each term, with their counts."""

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import count, pairwise, repeat
from typing import NamedTuple

from factmem.recall._arrays import Array, numpy_or_none

__all__ = ["NO_TERM", "Document", "PostingLists", "Term", "TermCounts"]


_AT_ONCE = 2**16
"""The number of documents that are sorted by term at once. For facts of thirty terms this takes
100 MB of memory."""


class TermCounts:
    """The weighted counts of some terms. Compared by identity."""

    __slots__ = ("counts", "length")

    def __init__(self, counts: Mapping[str, float]) -> None:
        self.counts: Mapping[str, float] = counts
        self.length: float = sum(counts.values())


class Document(NamedTuple):
    """The terms of a document."""

    shared: Sequence[TermCounts]
    """The counts of recurring fields, shared by many documents."""
    fields: Sequence[tuple[Sequence[str], float]]
    """The terms of each other field in order, with the field's weight."""
    beside: Sequence[TermCounts] = ()
    """The counts of its neighbours' terms."""

    @property
    def length(self) -> float:
        """The sum of all counts."""
        own = sum([len(terms) * weight for terms, weight in self.fields])
        return own + sum([each.length for each in (*self.shared, *self.beside)])

    def counts(self) -> tuple[dict[str, float], dict[str, float]]:
        """Return the counts of its own terms, and of the terms that only its neighbours have."""
        own: dict[str, float] = {}
        beside: dict[str, float] = {}
        for each in self.shared:
            _add(own, each.counts.items())
        for terms, weight in self.fields:
            _add(own, zip(terms, repeat(weight)))
        for each in self.beside:
            _add(beside, each.counts.items())
        for term in own.keys() & beside.keys():
            own[term] += beside.pop(term)
        return own, beside


def _add(counts: dict[str, float], more: Iterable[tuple[str, float]]) -> None:
    for term, counted in more:
        counts[term] = counts.get(term, 0.0) + counted


class Term(NamedTuple):
    """The searched documents of a query's term."""

    holders: int
    """The number of documents that have the term themselves."""
    slots: Sequence[int]
    counts: Sequence[float]
    own: Sequence[int]
    """The slots of the documents that have the term themselves."""


NO_TERM = Term(0, (), (), ())
"""A term that no document has."""


class _Postings:
    """The documents of a term, in ascending slots."""

    __slots__ = ("arrays", "counts", "holders", "own", "slots", "term")

    def __init__(self, term: str) -> None:
        self.term = term
        """The term; cleared when no document has it, so that batches do not keep erased words."""
        self.slots = array("I")
        self.counts = array("f")
        """The weighted count of each document, including the text around it."""
        self.own = bytearray()
        """1 if the document itself has the term, 0 if only its neighbours have it."""
        self.holders = 0
        """The number of documents that have the term themselves."""
        self.arrays: Term | None = None
        """The same as numpy arrays, cached from the first search for the term to its next
        change."""

    def put(self, slot: int, count: float, *, is_own: bool) -> None:
        slots = self.slots
        at = len(slots) if not slots or slots[-1] < slot else bisect_left(slots, slot)
        slots.insert(at, slot)
        self.counts.insert(at, count)
        self.own.insert(at, is_own)
        self.holders += is_own
        self.arrays = None

    def extend(self, slots: bytes, counts: bytes, own: bytes) -> None:
        """Append documents after all others, as the bytes of arrays."""
        self.slots.frombytes(slots)
        self.counts.frombytes(counts)
        self.own += own
        self.holders += own.count(1)
        self.arrays = None

    def drop(self, slot: int) -> None:
        self.arrays = None
        at = bisect_left(self.slots, slot)
        self.holders -= self.own[at]
        del self.slots[at], self.counts[at], self.own[at]

    @property
    def is_all_own(self) -> bool:
        return self.holders == len(self.slots)


class PostingLists:
    """The terms of documents in numbered slots. Calls must not overlap with a change."""

    def __init__(self) -> None:
        self._postings: dict[str, _Postings] = {}
        self._held: list[_Batch | Sequence[_Postings] | None] = []
        """The postings of each slot, or the batch that has them; None without a document."""

    @property
    def terms(self) -> AbstractSet[str]:
        """A live view of the terms that documents have."""
        return self._postings.keys()

    def __contains__(self, slot: int) -> bool:
        return slot < len(self._held) and self._held[slot] is not None

    def __len__(self) -> int:
        """Return the number of slots, including those without a document."""
        return len(self._held)

    def put(self, slot: int, document: Document) -> None:
        """Add a document to a slot that has none.

        Args:
            slot: A number of at least 0. Slots should have few gaps.
            document: The terms of the document.
        """
        self._grow(slot + 1)
        own, beside = document.counts()
        postings: list[_Postings] = []
        for part, is_own in ((own, True), (beside, False)):
            for term, counted in part.items():
                held = self._of(term)
                held.put(slot, counted, is_own=is_own)
                postings.append(held)
        self._held[slot] = tuple(postings)

    def extend(self, documents: Iterable[tuple[int, Document]]) -> None:
        """Append documents after all others, in ascending slots.

        With numpy, the terms of many documents are sorted at once, in half the time of `put`.
        """
        np: Array = numpy_or_none()
        batch = _Batch()
        for slot, document in documents:
            if np is None:
                self.put(slot, document)
                continue
            batch.add(slot, document)
            if len(batch.slots) == _AT_ONCE:
                self._take(np, batch)
                batch = _Batch()
        if batch.slots:
            self._take(np, batch)

    def _take(self, np: Array, batch: "_Batch") -> None:
        columns = batch.by_term(np)
        lists = [self._of(term) for term in batch.numbers]
        for held, (start, end) in zip(lists, pairwise(columns.ends), strict=True):
            part = slice(start, end)
            held.extend(*(column[part].tobytes() for column in columns[:3]))
        batch.close(lists)
        self._grow(batch.slots[-1] + 1)
        for slot in batch.slots:
            self._held[slot] = batch

    def _of(self, term: str) -> _Postings:
        held = self._postings.get(term)
        if held is None:
            held = self._postings[term] = _Postings(term)
        return held

    def _grow(self, width: int) -> None:
        self._held += [None] * (width - len(self._held))

    def drop(self, slot: int) -> None:
        """Remove the document of a slot, if there is one."""
        held = self._held[slot] if slot < len(self._held) else None
        if held is None:
            return
        for postings in held.of(slot) if isinstance(held, _Batch) else held:
            postings.drop(slot)
            if not postings.slots:
                del self._postings[postings.term]
                postings.term = ""
        self._held[slot] = None

    def term(self, term: str, among: bytearray | None) -> Term:
        """Return the documents of a term.

        Args:
            term: The term.
            among: A mask of the slots to search; None searches all.
        """
        postings = self._postings.get(term)
        if postings is None:
            return NO_TERM
        slots, counts = postings.slots, postings.counts
        if postings.is_all_own and among is None:
            return Term(postings.holders, slots, counts, slots)
        kept = [
            (slot, counted, is_own)
            for slot, counted, is_own in zip(slots, counts, postings.own, strict=True)
            if among is None or among[slot]
        ]
        own = [slot for slot, _, is_own in kept if is_own]
        return Term(len(own), [slot for slot, _, _ in kept], [each for _, each, _ in kept], own)

    def dense_term(self, np: Array, term: str, mask: Array | None) -> Term:
        """Return the documents of a term as numpy arrays; `mask` is a mask of slots or None."""
        postings = self._postings.get(term)
        if postings is None:
            return NO_TERM
        held = postings.arrays
        if held is None:
            slots: Array = np.array(postings.slots, np.intp)
            own = slots
            if not postings.is_all_own:
                own = slots[np.array(postings.own, np.bool_)]
            counts = np.array(postings.counts, np.float64)
            held = postings.arrays = Term(len(own), slots, counts, own)
        if mask is None:
            return held
        slots, counts, own = held.slots, held.counts, held.own
        kept, own = mask[slots], own[mask[own]]
        return Term(len(own), slots[kept], counts[kept], own)


class _Columns(NamedTuple):
    """The concatenated arrays of all terms' documents."""

    slots: Array
    counts: Array
    own: Array
    ends: Sequence[int]
    """A 0, followed by the end of each term."""


class _Batch:
    """The terms of some documents, concatenated. A term may occur several times.

    No step for a single term runs in Python, because 50,000 facts have more than a million terms.
    """

    def __init__(self) -> None:
        self.slots = array("I")
        self._ends = array("q", [0])
        """A 0, followed by the end of each document's terms."""
        self.numbers: defaultdict[str, int] = defaultdict(count().__next__)
        """A number for each term, by first occurrence."""
        self._terms = array("I")
        self._counts = array("f")
        self._own = bytearray()
        self._shared: dict[TermCounts, tuple[array[int], array[float]]] = {}
        self._lists: Sequence[_Postings] = ()
        """The postings of each number, after `close`."""

    def add(self, slot: int, document: Document) -> None:
        number, terms, counts = self.numbers.__getitem__, self._terms, self._counts
        for each in document.shared:
            known = self._shared.get(each)
            if known is None:
                known = array("I", map(number, each.counts)), array("f", each.counts.values())
                self._shared[each] = known
            terms += known[0]
            counts += known[1]
        for found, weight in document.fields:
            terms.extend(map(number, found))
            counts.extend(repeat(weight, len(found)))
        self._own += b"\1" * (len(terms) - len(self._own))
        for each in document.beside:
            terms.extend(map(number, each.counts))
            counts.extend(each.counts.values())
        self._own += bytes(len(terms) - len(self._own))
        self.slots.append(slot)
        self._ends.append(len(terms))

    def by_term(self, np: Array) -> _Columns:
        """Return the documents of each term in ascending slots, without duplicates."""
        numbers = np.frombuffer(self._terms, np.uint32)
        if len(self.numbers) <= 2**16:
            numbers = numbers.astype(np.uint16)  # numpy sorts these ten times as fast
        order = np.argsort(numbers, kind="stable")
        numbers = numbers[order]
        slots = np.repeat(np.frombuffer(self.slots, np.uint32), np.diff(self._ends))[order]
        is_first = np.ones(len(order), np.bool_)
        is_first[1:] = (numbers[1:] != numbers[:-1]) | (slots[1:] != slots[:-1])
        first = np.flatnonzero(is_first)
        counts, own = np.frombuffer(self._counts, np.float32), np.frombuffer(self._own, np.uint8)
        if len(first):
            counts = np.add.reduceat(counts[order], first)
            own = np.maximum.reduceat(own[order], first)
        held = np.bincount(numbers[first], minlength=len(self.numbers))
        return _Columns(slots[first], counts, own, [0, *np.cumsum(held).tolist()])

    def close(self, lists: Sequence[_Postings]) -> None:
        """Release everything that `of` does not need; four bytes per term remain.

        Args:
            lists: The postings of each number.
        """
        self._lists = lists
        self.numbers.clear()
        self._shared.clear()
        self._counts, self._own = array("f"), bytearray()

    def of(self, slot: int) -> Iterator[_Postings]:
        """Yield the postings of a document."""
        at = bisect_left(self.slots, slot)
        for number in {*self._terms[self._ends[at] : self._ends[at + 1]]}:
            yield self._lists[number]
