"""A stand-alone lexical index: `TermIndex` with ids instead of slots, and sorted hits."""

from collections.abc import Container, Hashable, Mapping
from typing import Any, Generic, NamedTuple

from typing_extensions import TypeVar

from factmem._text.analysis import words
from factmem.recall._bm25 import TermIndex, query_words
from factmem.recall._documents import FIELD_WEIGHTS, document_of

__all__ = ["LexicalHit", "LexicalIndex"]

K = TypeVar("K", bound=Hashable, default=str)


class LexicalHit(NamedTuple, Generic[K]):
    """A document that shares a term with the query."""

    id: K
    score: float
    coverage: float


class LexicalIndex(Generic[K]):
    """An index of documents by id, searched with numpy or without, with weights of fields."""

    def __init__(self, *, dense: bool = True, weights: Mapping[str, float] = FIELD_WEIGHTS) -> None:
        self._terms = TermIndex()
        self._weights = weights
        self._is_dense = dense
        self._ids: list[K] = []

    def __len__(self) -> int:
        return len(self._terms)

    def add(self, id: K, text: str | Mapping[str, str], **options: Any) -> None:  # noqa: A002
        """Index a document; it replaces the document with the same id."""
        if id not in self._ids:
            self._ids.append(id)
        fields = {"": text} if isinstance(text, str) else text
        document = document_of(fields, weights=self._weights, **options)
        self._terms.put(self._ids.index(id), document)

    def remove(self, id: K) -> bool:  # noqa: A002
        """Remove a document. Return False if there is none with this id."""
        return id in self._ids and self._terms.drop(self._ids.index(id))

    def search(self, query: str, *, candidates: Container[K] | None = None) -> list[LexicalHit[K]]:
        """Return the documents that share a term with the query, best first."""
        among = None if candidates is None else bytearray(each in candidates for each in self._ids)
        asked = query_words(words(query))
        if self._is_dense:
            bm25, coverage = self._terms.dense_scan(asked, among)
            found = {
                slot: (float(bm25[slot]), float(coverage[slot]))
                for slot in bm25.nonzero()[0].tolist()
            }
        else:
            found = self._terms.scan(asked, among)
        best = sorted(found.items(), key=lambda each: -each[1][0])
        return [LexicalHit(self._ids[slot], *parts) for slot, parts in best]
