"""PlaceLimit: a limit on the values and the size of a place."""

from collections.abc import Iterable
from dataclasses import dataclass

from factmem.errors import PlaceFullError
from factmem.ledger._items import values_of
from factmem.ledger.entries import StoredFact
from factmem.ledger.ledger import Ledger
from factmem.models._values import Canonical, canonical
from factmem.models.places import Identity, Place

__all__ = ["PlaceLimit"]


@dataclass(frozen=True, slots=True)
class PlaceLimit:
    """A limit on the values and the size of each place, so that one user cannot fill a store.

    Concurrent saves do not see each other and can exceed the limit by their own values.

    Raises:
        ValueError: A limit is not positive, or none is given.
    """

    values: int | None = None
    """The maximum number of current values."""
    bytes: int | None = None
    """The maximum size in bytes, history and conversations included; `contents.tidy` frees some. What
    is being saved counts without the framing and padding of its file."""

    def __post_init__(self) -> None:
        given = [each for each in (self.values, self.bytes) if each is not None]
        if not given or min(given) < 1:
            raise ValueError("PlaceLimit needs positive limits: PlaceLimit(values=10_000)")

    def check_values(
        self, identity: Identity, ledger: Ledger, facts: Iterable[StoredFact], now: str
    ) -> None:
        """Raise `PlaceFullError` if saving facts would exceed the number of current values."""
        if self.values is None:
            return
        keys: dict[str, set[Canonical]] = {}
        for fact in facts:
            keyword = fact["keyword"]
            new = {canonical(value) for _, value in values_of(fact)}
            held = keys.get(keyword, set(ledger.items(keyword, now)))
            is_one = fact["type"] == "SINGLE" and not ledger.is_wide(keyword, now)
            keys[keyword] = new if is_one else held | new
        before = len(ledger.confirmations(now))
        replaced = sum(len(ledger.items(keyword, now)) for keyword in keys)
        after = before - replaced + sum(map(len, keys.values()))
        if after > max(self.values, before):
            raise PlaceFullError(
                f"{str(Place.of_identity(identity))!r} may have {self.values} values and would "
                f"have {after}; nothing was saved. Forget some, or raise the limit"
            )

    def check_bytes(self, identity: Identity, size: int) -> None:
        """Raise `PlaceFullError` if a place of this size exceeds the limit."""
        if self.bytes is not None and size > self.bytes:
            raise PlaceFullError(
                f"{str(Place.of_identity(identity))!r} may use {self.bytes} bytes and would use "
                f"{size}; nothing was saved. Remove history with contents.tidy or messages of "
                "conversations, or raise the limit"
            )
