"""What this process has seen of one place: its facts, and the vectors of their texts."""

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import anyio

from factmem._per_loop import PerLoop
from factmem.errors import StoredFactError
from factmem.models import AnyFact, Identity
from factmem.recall.documents import meaning_of, text_digest
from factmem.recall.index import FactKey, fact_key
from factmem.recall.vectors import VectorTable

__all__ = ["PlaceMirror", "PlaceState", "PlaceVectors"]

_SMALL_INDEX = 8 << 20
"""Bytes of vectors that are written as soon as one is new: 5,000 of 384 numbers."""
_WORTHWHILE = 64
"""A larger index is written when a 64th of it is new: so writing costs no more than embedding."""


@dataclass(frozen=True, slots=True)
class PlaceState:
    """What was current in a place at one time."""

    number: int
    """Grows with time, over all places: a greater one was read later."""
    version: str | None
    """What the store said before it was read."""
    facts: Sequence[AnyFact]
    unreadable: Sequence[tuple[str, StoredFactError]]
    """Keywords whose values do not fit their type, and how."""
    digests: Mapping[FactKey, bytes]
    """The texts that stand for the facts where meanings are compared; empty where none are."""

    def followed_by(
        self, other: "PlaceState", entity: str | None, *, has_meaning: bool
    ) -> "PlaceState":
        """Return the other state with digests, or this one where it says the same.

        Digests of facts that are in both are not computed anew.
        """
        if self._says_the_same(other) and self.version == other.version:
            return self
        if not has_meaning:
            return other
        ours = {fact_key(fact): fact for fact in self.facts}
        digests: dict[FactKey, bytes] = {}
        for fact in other.facts:
            key = fact_key(fact)
            known = self.digests.get(key)
            if known is None or ours[key] != fact:
                known = text_digest(meaning_of(fact, entity))
            digests[key] = known
        return PlaceState(other.number, other.version, other.facts, other.unreadable, digests)

    def _says_the_same(self, other: "PlaceState") -> bool:
        return (
            list(self.facts) == list(other.facts)
            and all(
                a.confirmed_at == b.confirmed_at
                for a, b in zip(self.facts, other.facts, strict=True)
            )
            and [keyword for keyword, _ in self.unreadable]
            == [keyword for keyword, _ in other.unreadable]
        )

    def texts(self, digests: Collection[bytes], entity: str | None) -> dict[bytes, str]:
        """Return the texts of which these are the digests."""
        wanted = ((self.digests.get(fact_key(fact)), fact) for fact in self.facts)
        return {
            digest: meaning_of(fact, entity)
            for digest, fact in wanted
            if digest and digest in digests
        }


EMPTY = PlaceState(0, None, (), (), {})


class PlaceVectors:
    """The vectors of one place's texts, by one model at a time. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._model = ""
        self._table: VectorTable | None = None
        self._saved: frozenset[bytes] | None = None
        """What the store's index holds as far as is known; None before it was looked at."""
        self._whole_for = 0
        """The number of the latest state of which every text has a vector."""

    def use(self, model: str, dimensions: int) -> None:
        """Let go of vectors of another model, or of other dimensions."""
        with self._lock:
            table = self._table
            is_same = table is not None and table.dimensions == dimensions
            if model != self._model or (table is not None and not is_same):
                self._table, self._saved, self._whole_for = None, None, 0
            self._model = model

    def are_whole(self, number: int, model: str, dimensions: int) -> bool:
        """Whether every text of a state, or of a later one, has a vector of this model."""
        with self._lock:
            table = self._table
            return (
                model == self._model
                and number <= self._whole_for
                and (table is None or table.dimensions == dimensions)
            )

    @property
    def is_looked_up(self) -> bool:
        """Whether the store's index was looked at for this model."""
        return self._saved is not None

    def take_index(self, index: bytes | None, dimensions: int) -> None:
        """Take in what the store's index has; one of another model, or damaged, has nothing."""
        with self._lock:
            self._saved = frozenset()
            if index is None:
                return
            try:
                table = VectorTable.load(index, self._model)
            except ValueError:
                return
            if table.dimensions != dimensions:
                return
            self._saved = frozenset(table)
            if self._table is None:
                self._table = table

    def missing(self, digests: Collection[bytes]) -> list[bytes]:
        """Return the digests that have no vector, each once, in their order."""
        with self._lock:
            table = self._table
            return list(
                dict.fromkeys(each for each in digests if table is None or each not in table)
            )

    def add(self, vectors: Mapping[bytes, Sequence[float]]) -> None:
        """Take in vectors of the model and the dimensions in use."""
        with self._lock:
            for digest, vector in vectors.items():
                if self._table is None:
                    self._table = VectorTable(len(vector))
                self._table.add(digest, vector)

    def keep(self, state: PlaceState) -> None:
        """Let go of the vectors of all texts but a state's, which all have theirs."""
        with self._lock:
            if self._table is not None:
                self._table.keep(frozenset(state.digests.values()))
            self._whole_for = state.number

    def similarities(self, vector: Sequence[float]) -> dict[bytes, float]:
        """Return the cosine between each text and a vector; nothing where dimensions differ."""
        with self._lock:
            if self._table is None or self._table.dimensions != len(vector):
                return {}
            return self._table.similarities(vector)

    def worth_writing(self) -> tuple[bytes, frozenset[bytes]] | None:
        """Return an index for the store, and what it holds; None where it need not be written."""
        with self._lock:
            table, saved = self._table, self._saved or frozenset()
            held = frozenset[bytes]() if table is None else frozenset(table)
            changed = len(held ^ saved)
            if table is None or not changed:
                return None
            if table.size > _SMALL_INDEX and changed * _WORTHWHILE < len(table):
                return None
            return table.dump(self._model), held

    def written(self, held: frozenset[bytes]) -> None:
        """Note what the store's index holds now."""
        with self._lock:
            self._saved = held


class PlaceMirror:
    """One place as this process knows it; shared by all recalls that concern it."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.vectors: PlaceVectors = PlaceVectors()
        self.loading: PerLoop[anyio.Lock] = PerLoop(anyio.Lock)
        """Held in each event loop by the one task that reads the place."""
        self.embedding: PerLoop[anyio.Lock] = PerLoop(anyio.Lock)
        """Held in each event loop by the one task that has its texts embedded."""
        self._lock = threading.Lock()
        self._state = EMPTY

    @property
    def state(self) -> PlaceState:
        """What was read last."""
        return self._state

    def follow(self, read: PlaceState, *, has_meaning: bool) -> PlaceState:
        """Take in what was read, unless somebody began to read later; return what holds."""
        with self._lock:
            if read.number > self._state.number:
                self._state = self._state.followed_by(
                    read, self.identity[3], has_meaning=has_meaning
                )
            return self._state
