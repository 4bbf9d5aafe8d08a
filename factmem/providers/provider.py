"""`AgentMemoryProvider`, the protocol of a backend with four methods."""

from typing import Any, Protocol, runtime_checkable

from factmem.models.facts import AnyFact, Concept, L
from factmem.models.places import MemoryScope, MemorySubject

__all__ = ["AgentMemoryProvider"]


@runtime_checkable
class AgentMemoryProvider(Protocol):
    """A store of facts with the four methods that every backend must have.

    The scope is always explicit. An unbound per-entity subject raises `UnboundSubjectError`
    before anything is read or written. Any number of tasks may call an instance concurrently. Every
    method raises `StorageError` if the store could not be read or written.
    """

    async def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        """Store `fact` as a statement about its concept, said at its `timestamp`.

        A SINGLE fact replaces the value of its concept in this place that was said before it; of
        equal times the greater `id` counts. If a later value is there, the fact is history at once.
        A time after the store's clock counts as now. A MULTIPLE fact adds the values that are not
        current yet, and a SINGLE one joins them. A value that is already current is confirmed, not
        duplicated.

        When this returns, the fact is as durable as the provider promises. If it raises, the fact
        is not acknowledged, and is stored completely or not at all. A save that is cancelled before
        its write begins is not stored; one that is cancelled later is.

        Raises:
            ValueError: A value would change in a round trip through JSON. Nothing was stored.
        """
        ...

    async def load(
        self, concept: Concept[Any, L], subject: MemorySubject, scope: MemoryScope
    ) -> list[L]:
        """Return the current facts of a concept; empty if it has none.

        A SINGLE concept has at most one `SingleFact`. A MULTIPLE concept has a `MultipleFacts` for
        each save that still has current values, oldest first.

        Raises:
            StoredFactError: A stored value does not fit the concept's `value_type`.
        """
        ...

    async def load_all(self, subject: MemorySubject, scope: MemoryScope) -> list[AnyFact]:
        """Return all current facts, each concept with the type it was last saved with."""
        ...

    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> list[AnyFact]:
        """Return the current facts that match a few words.

        A fact matches if its concept's description contains the phrase, or if every word of the
        phrase is in the keyword, the description or the values. Case and width (NFKC) are ignored.
        """
        ...
