"""Posting lists: the documents of each term, with their counts."""

from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from factmem.recall._arrays import Array


class Document(NamedTuple):
    """The weighted counts of a document's terms."""

    own: Mapping[str, float]
    """Of its own terms, with the counts that its neighbours add to these."""
    beside: Mapping[str, float]
    """Of the terms that only its neighbours have."""

    @property
    def length(self) -> float:
        """The sum of all counts."""
        return sum(self.own.values()) + sum(self.beside.values())


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
        self._held: list[Sequence[_Postings] | None] = []
        """The postings of each slot; None without a document."""

    @property
    def terms(self) -> AbstractSet[str]:
        """A live view of the terms that documents have."""
        return self._postings.keys()

    def __contains__(self, slot: int) -> bool:
        return slot < len(self._held) and self._held[slot] is not None

    def put(self, slot: int, document: Document) -> None:
        """Add a document to a slot that has none.

        Args:
            slot: A number of at least 0. Slots should have few gaps.
            document: The terms of the document.
        """
        self._grow(slot + 1)
        postings: list[_Postings] = []
        for part, is_own in ((document.own, True), (document.beside, False)):
            for term, counted in part.items():
                held = self._of(term)
                held.put(slot, counted, is_own=is_own)
                postings.append(held)
        self._held[slot] = tuple(postings)

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
        for postings in held:
            postings.drop(slot)
            if not postings.slots:
                del self._postings[postings.term]
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
