"""Statements: of two statements, the one that was said later is current.

A detected or remembered fact is a statement. It may be recorded long after it was said, even after
a later statement. So a statement never replaces a value that was said after it, and never
brings back a value whose retraction was said after it. Plain saves have no such rule: the last one is
current. If times are equal, the order of the ledger decides.
"""

from hashlib import sha256

from factmem.ledger.entries import RetractedValue, StoredFact
from factmem.models._values import Canonical

__all__ = ["Retractions", "digest_of", "name_of", "said_at"]


def said_at(said: StoredFact | RetractedValue, at: str) -> str:
    """Return when a statement recorded at `at` was said: `at` or earlier."""
    return min(said["timestamp"], at)


def digest_of(key: Canonical) -> str:
    """Return the digest that names a value in a retraction, so that the value is not stored."""
    return sha256(b"s" + key.encode() if isinstance(key, str) else b"j" + key).hexdigest()[:32]


class Retractions:
    """The latest retraction of each value of one keyword."""

    __slots__ = ("_by_digest", "floor", "rejected")

    def __init__(self) -> None:
        self._by_digest: dict[str, str] = {}
        self.floor: str = ""
        """For a keyword with one value: when the last retracted value was said. Statements before
        that time had been replaced by it."""
        self.rejected: set[str] = set()
        """The digests of values that a person retracted."""

    def add(self, retracted: RetractedValue, at: str) -> None:
        """Apply a retraction that was recorded at `at`."""
        said = said_at(retracted, at)
        self.floor = max(self.floor, retracted.get("floor", ""))
        if (digest := retracted.get("digest")) is not None:
            self._by_digest[digest] = max(self._by_digest.get(digest, ""), said)
            if "confirmed" in retracted:
                self.rejected.add(digest)

    def ended_after(self, said: str, key: Canonical) -> bool:
        """Return whether a value was retracted after it was said."""
        return bool(self._by_digest) and said < self._by_digest.get(digest_of(key), "")


def name_of(retracted: RetractedValue) -> str:
    """Return the name of a retraction among the latest superseded statements."""
    return f"{retracted.get('digest')} {retracted['timestamp']} {retracted['keyword']}"
