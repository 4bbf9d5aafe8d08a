"""The embedded texts of an index's facts, by slot: cosines with a question, common direction."""

from array import array
from collections.abc import Callable, Iterator, Sequence
from math import fsum, hypot, nan
from typing import Any, NamedTuple, Protocol

from factmem.models.places import Identity
from factmem.recall._arrays import Array
from factmem.recall._place_vectors import TextRows

__all__ = ["COMMON", "Nearness", "Spread", "TextSlots", "TextVectors"]

COMMON = 0.3
"""The share of a fact's cosine with the mean vector of the facts that ranking subtracts. This
removes what all texts have in common, such as their language or form."""


class TextVectors(Protocol):
    """The vectors of the texts of some places, and the vector of a question."""

    def cosines(self, identity: Identity, texts: TextRows) -> Sequence[float]:
        """Return the cosine between the question and each text; NaN without a vector."""
        ...

    def along(
        self, identity: Identity, texts: TextRows, direction: Sequence[float]
    ) -> Sequence[float]:
        """Return the cosine between a direction and each text; NaN without a vector."""
        ...

    def total(
        self, identity: Identity, texts: TextRows, chosen: Sequence[bool] | None
    ) -> Sequence[float] | None:
        """Return the sum of the vectors of the chosen texts, or of all; None if there is none."""

    def changes(self, identity: Identity) -> object:
        """Return a token that differs after each change of the vectors of a place."""


class Spread(NamedTuple):
    """Statistics of all cosines, for use if only those of some candidates are known."""

    usual: float
    """The cosine of a random fact."""
    mean: float
    """The mean of the ranked cosines."""
    least: float
    """The least of the ranked cosines."""


class Nearness(NamedTuple):
    """The cosines of facts with a question, as numpy arrays by slot; NaN without a vector."""

    cosines: Array
    ranked: Array
    """The cosines minus a share of the common direction, for ranking."""
    spread: Spread | None = None
    """Statistics of all facts; None if `cosines` has all of them."""


class _Held(NamedTuple):
    """The slots and the texts of a place, in the same order."""

    slots: "array[int]"
    texts: TextRows
    is_row: bool
    """Whether the slots are consecutive."""

    def where(self, np: Array) -> Any:
        """Return an index of the slots in a numpy array: a slice if possible, which is faster."""
        if self.is_row:
            return slice(self.slots[0], self.slots[-1] + 1)
        return np.frombuffer(self.slots, np.uint32)


class TextSlots:
    """The digests of the texts of an index's facts, by place and slot."""

    def __init__(self) -> None:
        self._digests: dict[Identity, dict[int, bytes]] = {}
        self._rows: dict[Identity, _Held] = {}
        """The slots and the texts of each place, cached until one of them changes."""
        self._common: tuple[object, Any] = (None, None)
        """The cosine of each slot with the common direction, and the texts and the changes of the
        vectors that it was computed from."""

    def put(self, identity: Identity, slot: int, digest: bytes) -> None:
        """Set the text of a slot, by its digest."""
        held = self._digests.setdefault(identity, {})
        if held.get(slot) != digest:
            held[slot] = digest
            self._rows.pop(identity, None)

    def drop(self, identity: Identity, slot: int) -> None:
        """Remove the text of a slot."""
        del self._digests[identity][slot]
        self._rows.pop(identity, None)

    def nearness(
        self, np: Array, vectors: TextVectors, size: int, among: bytearray | None
    ) -> Nearness:
        """Return the cosines of `size` slots with a question; `among` restricts those that count."""
        cosines = np.full(size, nan)
        for identity, held in self._held():
            cosines[held.where(np)] = vectors.cosines(identity, held.texts)
        if among is not None:
            cosines[np.frombuffer(among, np.uint8) == 0] = nan

        def compute() -> Array:
            common = np.zeros(size)
            for held, along in self._along(vectors, among):
                common[held.where(np)] = along
            return common

        common = self._cached(vectors, among, compute)
        return Nearness(cosines, cosines - COMMON * common)

    def _held(self) -> Iterator[tuple[Identity, _Held]]:
        for identity, digests in self._digests.items():
            if digests:
                held = self._rows.get(identity)
                if held is None:
                    slots = array("I", digests)
                    is_row = slots == array("I", range(slots[0], slots[0] + len(slots)))
                    held = _Held(slots, TextRows(list(digests.values())), is_row)
                    self._rows[identity] = held
                yield identity, held

    def _cached(
        self, vectors: TextVectors, among: bytearray | None, compute: Callable[[], Any]
    ) -> Any:
        """Return the cosines with the common direction; those of all facts are cached."""
        if among is not None:
            return compute()
        # The stamp comes first, so that a change meanwhile invalidates the result.
        stamp = [(held.texts, vectors.changes(identity)) for identity, held in self._held()]
        if self._common[0] != stamp:
            self._common = stamp, compute()
        return self._common[1]

    def _along(
        self, vectors: TextVectors, among: bytearray | None
    ) -> Iterator[tuple[_Held, Sequence[float]]]:
        """Yield the cosines of each place's texts with the common direction."""
        direction = self._direction(vectors, among)
        if direction is not None:
            for identity, held in self._held():
                yield held, vectors.along(identity, held.texts, direction)

    def _direction(self, vectors: TextVectors, among: bytearray | None) -> list[float] | None:
        """Return the direction of the mean vector of all facts, or of those in `among`."""
        totals: list[Sequence[float]] = []
        for identity, (slots, texts, _) in self._held():
            chosen = None if among is None else [bool(among[slot]) for slot in slots]
            total = vectors.total(identity, texts, chosen)
            if total is not None:
                totals.append(total)
        whole = [*map(fsum, zip(*totals, strict=True))]
        length = hypot(*whole)
        return [number / length for number in whole] if length else None
