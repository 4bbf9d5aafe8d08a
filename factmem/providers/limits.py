"""PlaceLimit: the most that one place may hold."""

from collections.abc import Iterable
from dataclasses import dataclass

from factmem.errors import PlaceFullError
from factmem.ledger.entries import StoredFact
from factmem.ledger.items import values_of
from factmem.ledger.ledger import Ledger
from factmem.models.places import Identity, Place
from factmem.models.values import Canonical, canonical

__all__ = ["PlaceLimit"]


@dataclass(frozen=True, slots=True)
class PlaceLimit:
    """The most that one place may hold, so that one user cannot fill a store.

    Saves that are under way at the same moment do not see each other and can exceed it by their
    own values.

    Raises:
        ValueError: A limit is not positive, or none is given.
    """

    values: int | None = None
    """How many values may be current."""
    bytes: int | None = None
    """How much storage it may take, history included; `contents.tidy` frees some. The entry that is
    being saved counts without the framing and padding of its file."""

    def __post_init__(self) -> None:
        given = [each for each in (self.values, self.bytes) if each is not None]
        if not given or min(given) < 1:
            raise ValueError("PlaceLimit needs positive limits: PlaceLimit(values=10_000)")

    def check_values(
        self, identity: Identity, ledger: Ledger, facts: Iterable[StoredFact], now: str
    ) -> None:
        """Raise `PlaceFullError` if saving facts exceeds the limit of current values."""
        if self.values is None:
            return
        keys: dict[str, set[Canonical]] = {}
        for fact in facts:
            keyword = fact["keyword"]
            new = {canonical(value) for _, value in values_of(fact)}
            held = keys.get(keyword, set(ledger.items(keyword, now)))
            keys[keyword] = new if fact["type"] == "SINGLE" else held | new
        before = len(ledger.confirmations(now))
        replaced = sum(len(ledger.items(keyword, now)) for keyword in keys)
        after = before - replaced + sum(map(len, keys.values()))
        if after > max(self.values, before):
            raise PlaceFullError(
                f"{str(Place.of_identity(identity))!r} may hold {self.values} values and would hold "
                f"{after}; nothing was saved. Forget some, or raise the limit"
            )

    def check_bytes(self, identity: Identity, size: int) -> None:
        """Raise `PlaceFullError` if a place of this size takes too much storage."""
        if self.bytes is not None and size > self.bytes:
            raise PlaceFullError(
                f"{str(Place.of_identity(identity))!r} may take {self.bytes} bytes and would take "
                f"{size}; nothing was saved. Remove history with contents.tidy, or raise the limit"
            )
