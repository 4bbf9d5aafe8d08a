"""A stand-alone lexical index: `TermIndex` with ids instead of slots, and sorted hits."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from typing import Any, Generic, NamedTuple

from typing_extensions import TypeVar

from factmem._text.analysis import words
from factmem.recall._bm25 import TermIndex, query_words
from factmem.recall._documents import FIELD_WEIGHTS, document_of
from factmem.recall._place_vectors import numpy_or_none

__all__ = ["LexicalHit", "LexicalIndex"]

K = TypeVar("K", bound=Hashable, default=str)


class LexicalHit(NamedTuple, Generic[K]):
    """A document that shares a term with the query."""

    id: K
    score: float
    coverage: float


class LexicalIndex(Generic[K]):
    """An index of documents by id.

    Args:
        dense: Whether to search with numpy.
        weights: The weights of fields.
    """

    def __init__(self, *, dense: bool = True, weights: Mapping[str, float] = FIELD_WEIGHTS) -> None:
        self._terms = TermIndex()
        self._weights = weights
        self._is_dense = dense and numpy_or_none() is not None
        self._slots: dict[K, int] = {}
        self._ids: list[K | None] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._terms)

    def __iter__(self) -> Iterator[K]:
        return iter(self._slots)

    def add(self, id: K, text: str | Mapping[str, str], **options: Any) -> None:  # noqa: A002
        """Index a document; it replaces the document with the same id."""
        fields = {"": text} if isinstance(text, str) else text
        self._terms.put(self._slot(id), document_of(fields, weights=self._weights, **options))

    def _slot(self, id: K) -> int:  # noqa: A002
        if id not in self._slots:
            if not self._free:
                self._ids.append(None)
            slot = heappop(self._free) if self._free else len(self._ids) - 1
            self._slots[id], self._ids[slot] = slot, id
        return self._slots[id]

    def remove(self, id: K) -> bool:  # noqa: A002
        """Remove a document. Return False if there is none with this id."""
        slot = self._slots.pop(id, None)
        if slot is None:
            return False
        heappush(self._free, slot)
        return self._terms.drop(slot)

    def search(
        self, query: str, *, limit: int | None = None, candidates: Iterable[K] | None = None
    ) -> list[LexicalHit[K]]:
        """Return the documents that share a term with the query, best first."""
        among = None
        if candidates is not None:
            among = bytearray(len(self._ids))
            for each in candidates:
                if each in self._slots:
                    among[self._slots[each]] = 1
        asked = query_words(words(query))
        if self._is_dense:
            bm25, coverage = self._terms.dense_scan(asked, among)
            found = {
                slot: (float(bm25[slot]), float(coverage[slot]))
                for slot in bm25.nonzero()[0].tolist()
            }
        else:
            found = self._terms.scan(asked, among)
        best = sorted(found.items(), key=lambda each: -each[1][0])[:limit]
        return [LexicalHit(self._ids[slot], *parts) for slot, parts in best]
