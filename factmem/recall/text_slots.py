"""The texts of an index's facts by slot: their cosines with a question, and their common direction."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from math import hypot, isnan, nan
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from factmem.models.places import Identity
from factmem.recall.arrays import Array
from factmem.recall.place_vectors import TextRows

__all__ = ["COMMON", "Nearness", "TextSlots", "TextVectors"]

N = TypeVar("N")

COMMON = 0.3
"""How much of a fact's cosine with the mean vector of the facts is taken off where facts are ranked.
What all facts share, such as the language or the form of the texts, ranks none of them."""


class TextVectors(Protocol):
    """The vectors of the texts of some places, and one question to compare them with."""

    def cosines(self, identity: Identity, texts: TextRows) -> Sequence[float]:
        """Return the cosine between the question and each text; NaN where it has no vector."""
        ...

    def along(
        self, identity: Identity, texts: TextRows, direction: Sequence[float]
    ) -> Sequence[float]:
        """Return the cosine between a direction and each text; NaN where it has no vector."""
        ...

    def total(
        self, identity: Identity, texts: TextRows, chosen: Sequence[bool] | None
    ) -> Sequence[float] | None:
        """Return the sum of the vectors of the chosen texts, all by default; None if there is none."""

    def changes(self, identity: Identity) -> object:
        """Return a value that is another one after each change of the vectors of a place."""


class Nearness(NamedTuple, Generic[N]):
    """How near facts are to a question, by slot: dictionaries, or arrays with NaN for the others."""

    cosines: N
    ranked: N
    """The same without a part of the common direction, for ranking."""


_Held: TypeAlias = tuple[Identity, "array[int]", TextRows]


class TextSlots:
    """The digests of the texts of an index's facts, by place and slot."""

    def __init__(self) -> None:
        self._digests: dict[Identity, dict[int, bytes]] = {}
        self._rows: dict[Identity, tuple[array[int], TextRows]] = {}
        """The slots and the texts of a place in one order, until one of them changes."""
        self._totals: dict[Identity, tuple[TextRows, object, Sequence[float] | None]] = {}
        """The sum of each place's vectors, and what it was made of."""
        self._common: tuple[object, Any] = (None, None)
        """The cosine of each slot with the common direction, and what it was made of."""

    def put(self, identity: Identity, slot: int, digest: bytes) -> None:
        """Set the text of a slot, by its digest."""
        held = self._digests.setdefault(identity, {})
        if held.get(slot) != digest:
            held[slot] = digest
            self._rows.pop(identity, None)

    def drop(self, identity: Identity, slot: int) -> None:
        """Forget the text of a slot."""
        del self._digests[identity][slot]
        self._rows.pop(identity, None)

    def nearness(
        self, vectors: TextVectors, among: bytearray | None
    ) -> Nearness[Mapping[int, float]]:
        """Return how near facts are to a question; only those that are looked at count."""
        cosines = {
            slot: cosine
            for identity, slots, texts in self._held()
            for slot, cosine in zip(slots, vectors.cosines(identity, texts), strict=True)
            if not isnan(cosine) and (among is None or among[slot])
        }
        common = self._of_all(vectors) if among is None else None
        if common is None:
            common = self._common_cosines(vectors, among)
        ranked = {slot: each - COMMON * common.get(slot, 0.0) for slot, each in cosines.items()}
        return Nearness(cosines, ranked)

    def dense_nearness(
        self, np: Array, vectors: TextVectors, size: int, among: bytearray | None
    ) -> Nearness[Array]:
        """Do what `nearness` does with numpy arrays of `size` slots."""
        cosines = np.full(size, nan)
        for identity, slots, texts in self._held():
            cosines[np.frombuffer(slots, np.uint32)] = vectors.cosines(identity, texts)
        if among is not None:
            cosines[np.frombuffer(among, np.uint8) == 0] = nan
        common = self._of_all(vectors) if among is None else None
        if common is None:
            common = self._dense_common(np, vectors, size, among)
        return Nearness(cosines, cosines - COMMON * common)

    def _held(self) -> Iterator[_Held]:
        for identity, digests in self._digests.items():
            if digests:
                held = self._rows.get(identity)
                if held is None:
                    held = array("I", digests), TextRows(list(digests.values()))
                    self._rows[identity] = held
                yield identity, *held

    def _stamp(self, vectors: TextVectors) -> object:
        return [(texts, vectors.changes(identity)) for identity, _, texts in self._held()]

    def _of_all(self, vectors: TextVectors) -> Any:
        """Return the cosines with the common direction of all facts, if they are still right."""
        stamp, common = self._common
        return common if stamp == self._stamp(vectors) else None

    def _common_cosines(self, vectors: TextVectors, among: bytearray | None) -> Mapping[int, float]:
        stamp = self._stamp(vectors)  # before: what changes meanwhile makes it outdated
        direction, common = self._direction(vectors, among), dict[int, float]()
        if direction is not None:
            for identity, slots, texts in self._held():
                common.update(zip(slots, vectors.along(identity, texts, direction), strict=True))
        if among is None:
            self._common = stamp, common
        return common

    def _dense_common(
        self, np: Array, vectors: TextVectors, size: int, among: bytearray | None
    ) -> Array:
        stamp = self._stamp(vectors)
        direction, common = self._direction(vectors, among), np.zeros(size)
        if direction is not None:
            for identity, slots, texts in self._held():
                cosines = vectors.along(identity, texts, direction)
                common[np.frombuffer(slots, np.uint32)] = cosines
        if among is None:
            self._common = stamp, common
        return common

    def _direction(self, vectors: TextVectors, among: bytearray | None) -> list[float] | None:
        """Return the direction of the mean vector of all facts, or of those that are looked at."""
        whole: list[float] | None = None
        for identity, slots, texts in self._held():
            if among is None:
                total = self._total(vectors, identity, texts)
            else:
                total = vectors.total(identity, texts, [bool(among[slot]) for slot in slots])
            if total is not None:
                added = [*map(float, total)]
                whole = (
                    added if whole is None else [a + b for a, b in zip(whole, added, strict=True)]
                )
        length = hypot(*whole) if whole else 0.0
        return [number / length for number in whole] if whole and length else None

    def _total(
        self, vectors: TextVectors, identity: Identity, texts: TextRows
    ) -> Sequence[float] | None:
        changes = vectors.changes(identity)
        known = self._totals.get(identity)
        if known is None or known[0] is not texts or known[1] != changes:
            known = self._totals[identity] = (
                texts,
                changes,
                vectors.total(identity, texts, None),
            )
        return known[2]
