"""The order of statements: of two statements, the one that was said later is current.

Each save is a statement, and so are a retraction and a forgetting. It may be recorded long after it
was said, even after a later statement. So a save never replaces a value that was said after it, and
never brings back a value that was retracted or forgotten after it. Of equal times the greater id
counts, so that every copy of a store decides alike.
"""

from hashlib import sha256
from typing import TypeAlias

from factmem.ledger.entries import RetractedValue, StoredFact
from factmem.models._values import Canonical
from factmem.models.when import begin_of

Told: TypeAlias = tuple[str, str]
"""When a statement was said, and its id."""

NEVER: Told = ("", "")


def said_at(said: StoredFact | RetractedValue, at: str) -> str:
    """Return when a statement that was recorded at `at` was said: then or earlier."""
    return min(said["timestamp"], at)


def told(fact: StoredFact, at: str) -> Told:
    """Return the place of a save in the order.

    A decision of a person counts as said when it is recorded: it settles what was said before. A value
    that begins later counts as said when it begins.
    """
    said = at if "confirmed" in fact else said_at(fact, at)
    return max(said, begin_of(fact["since"])) if "since" in fact else said, fact["id"]


def end_of(retracted: RetractedValue, at: str) -> Told:
    """Return the last place in the order whose value a retraction ends."""
    return said_at(retracted, at), retracted.get("id", "")


def digest_of(key: Canonical) -> str:
    """Return the digest that names a value in a retraction, so that the value is not stored."""
    return sha256(b"s" + key.encode() if isinstance(key, str) else b"j" + key).hexdigest()[:32]


class Retractions:
    """The latest retraction of each value of one keyword."""

    __slots__ = ("_by_digest", "floor", "rejected")

    def __init__(self) -> None:
        self._by_digest: dict[str, Told] = {}
        self.floor: Told = NEVER
        """For a keyword with one value: the place of the last value that was retracted or
        forgotten. Statements before it had been replaced by it."""
        self.rejected: set[str] = set()
        """The digests of values that a person retracted."""

    def add(self, retracted: RetractedValue, at: str) -> None:
        """Apply a retraction that was recorded at `at`."""
        said, fact_id = retracted.get("floor", NEVER)
        self.floor = max(self.floor, (said, fact_id))
        if (digest := retracted.get("digest")) is not None:
            self.end(digest, end_of(retracted, at))
            if "confirmed" in retracted:
                self.rejected.add(digest)

    def end(self, digest: str, until: Told) -> None:
        """End what was said of a value up to a place in the order."""
        self._by_digest[digest] = max(self._by_digest.get(digest, NEVER), until)

    def has_ended(self, place: Told, key: Canonical) -> bool:
        """Return whether a value was retracted or forgotten after it was said."""
        return bool(self._by_digest) and place <= self._by_digest.get(digest_of(key), NEVER)


def retraction_name(retracted: RetractedValue) -> str:
    """Return the name of a retraction among the latest superseded statements."""
    return f"{retracted.get('digest')} {retracted['timestamp']} {retracted['keyword']}"
