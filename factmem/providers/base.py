"""The protocols of a store.

`AgentMemoryProvider` is the small protocol, for a backend of your own; `FactStore` is the complete
one, which factmem's own providers implement. Both are structural: implement the methods, inherit
from nothing, then run the suites in `factmem.testing` against the class. They are the contract.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import EllipsisType
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from factmem.ledger.entries import Amendment, Edit, Entry
from factmem.ledger.history import HistoryEntry
from factmem.ledger.replay import CurrentChange
from factmem.models.facts import AnyFact, Concept, L
from factmem.models.places import MemoryScope, MemorySubject
from factmem.models.sources import FactSource
from factmem.models.values import JsonValue
from factmem.providers.results import ErasureReceipt, PlaceInfo, Purge

__all__ = ["AgentMemoryProvider", "FactStore", "fact_store"]


T = TypeVar("T")


@runtime_checkable
class AgentMemoryProvider(Protocol):
    """A place that keeps facts: the four methods a backend must have.

    The scope is always explicit. An unbound per-entity subject raises `UnboundSubjectError`
    before anything is read or written. Any number of tasks may call an instance at once.
    """

    async def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        """Keep `fact` as the newest of its concept.

        A SINGLE fact replaces what its concept held in this place, a MULTIPLE one adds the values
        that are not there yet; a value that is current already is confirmed, not doubled. Once
        this returns the fact is as durable as the provider promises. If it raises, the fact is not
        acknowledged and is kept whole or not at all; a save that is cancelled before its write
        has begun is not kept, later it is.

        Raises:
            ValueError: A value would not come back equal from its JSON. Nothing was kept.
            StorageError: The store refused. Nothing was acknowledged.
        """
        ...

    async def load(
        self, concept: Concept[Any, L], subject: MemorySubject, scope: MemoryScope
    ) -> list[L]:
        """Return the current facts of a concept; empty if it has none.

        A SINGLE concept gives at most one `SingleFact`, a MULTIPLE one a `MultipleFacts` per save
        that still holds values, oldest first.

        Raises:
            StoredFactError: A stored value does not fit the concept's `value_type`.
            StorageError: The store could not be read.
        """
        ...

    async def load_all(self, subject: MemorySubject, scope: MemoryScope) -> list[AnyFact]:
        """Return all current facts, each concept in the type it was last saved with.

        Raises:
            StorageError: The store could not be read.
        """
        ...

    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> list[AnyFact]:
        """Return the current facts that a few words describe.

        A fact matches when its concept's description holds the phrase, or when every word of it
        is in the keyword, the description or the values; case and width (NFKC) are ignored.

        Raises:
            StorageError: The store could not be read.
        """
        ...


@runtime_checkable
class FactStore(AgentMemoryProvider, Protocol):
    """A provider with history, forgetting and listing: what factmem's own providers are."""

    async def save_many(
        self, facts: Iterable[AnyFact], subject: MemorySubject, scope: MemoryScope
    ) -> None:
        """Keep several facts in one place at once, all or none, in one durable write.

        No reader, no crash and no failure ever shows a part of them. Facts for several places are
        several calls. No facts, nothing happens. Raises as `save` does.
        """
        ...

    async def load(
        self,
        concept: Concept[Any, L],
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        as_of: datetime | None = None,
    ) -> list[L]:
        """Return the facts of a concept that are current, or were at `as_of`.

        Raises:
            StoredFactError: A stored value does not fit the concept's `value_type`.
            StorageError: The store could not be read.
            ValueError: `as_of` is naive.
        """
        ...

    async def load_all(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        concepts: Iterable[Concept[Any, Any]] = (),
        as_of: datetime | None = None,
    ) -> list[AnyFact]:
        """Return all facts that are current, or were at `as_of`.

        A store does not know value types: values are plain JSON, but for the concepts named in
        `concepts`, which come as `load` gives them.

        Raises:
            StoredFactError: A stored value does not fit the type of a concept in `concepts`.
            StorageError: The store could not be read.
            ValueError: `as_of` is naive.
        """
        ...

    async def history(
        self, concept: Concept[Any, Any], subject: MemorySubject, scope: MemoryScope
    ) -> list[HistoryEntry]:
        """Return every save, confirmation and forgetting of a concept, oldest first.

        Raises:
            StoredFactError: A value of the history does not fit the concept's `value_type`.
            StorageError: The store could not be read.
        """
        ...

    async def forget(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        concept: Concept[T, Any] | None = None,
        value: T | EllipsisType = ...,
        fact_id: str | None = None,
        source: FactSource | None = None,
        older_than: datetime | timedelta | None = None,
        concepts: Iterable[Concept[Any, Any]] | None = None,
        fact_ids: Iterable[str] | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
        purge: Purge = False,
    ) -> int:
        """Forget the current values that meet all given conditions, and return their number.

        They disappear from every read at once, and do not come back by themselves. History still
        shows the earlier saves, and that a value was forgotten.

        Args:
            subject: The subject of the facts.
            scope: Where they are visible.
            concept: Values of this concept's keyword.
            value: This value of `concept`.
            fact_id: Values saved as this fact.
            source: Values whose sources are all covered by `source`: each of its fields
                that is not None must agree.
            older_than: Values last confirmed before this moment, or longer ago than this.
            concepts: Values of these concepts' keywords.
            fact_ids: Values saved as one of these facts.
            metadata: Values whose metadata has all of these keys, with equal values.
            purge: Also rewrite the storage without the values, in history too. Facts of other
                values may quote a message that contains one: the result names them in `quoting`,
                and `purge="quotes"` takes the values out of their quotes. Keywords, descriptions
                and metadata stay as they are: `mentioning` names the facts where one contains a
                value.

        Returns:
            How many values were current, as a `Forgotten` where the store reports what is left.

        Raises:
            ValueError: No condition was given (`erase` empties a place), `value` came without
                `concept`, or `older_than` is naive.
            StorageError: The store refused.
        """
        ...

    async def erase(
        self, subject: MemorySubject, scope: MemoryScope, *, only_empty: bool = False
    ) -> ErasureReceipt:
        """Remove a place with its whole history, physically, and return a receipt.

        Args:
            subject: The subject of the place.
            scope: The scope of the place.
            only_empty: Leave a place that holds any entry as it is; the receipt is that of a place
                that does not exist. Nothing is saved between the look and the erasure.

        Raises:
            StorageError: The store refused.
        """
        ...

    async def places(
        self,
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[MemoryScope] | None = None,
    ) -> list[PlaceInfo]:
        """Return the places that hold anything, ordered by identity; reads every one of them.

        Reads only the requested places, not those of other customers. Names are compared as
        everywhere: a subject or a scope whose name only looks alike is another one, and an empty
        list asks for nothing.

        Args:
            subjects: Only what concerns one of these; all by default.
            scopes: Only places visible in one of these; all by default.

        Raises:
            UnboundSubjectError: One of `subjects` is per entity and names none.
            TypeError: They are no lists of subjects and scopes.
            StorageError: The store could not be read.
        """
        ...

    async def entries(self, subject: MemorySubject, scope: MemoryScope) -> list[Entry]:
        """Return the ledger of a place as plain JSON, oldest first: what `replay` takes.

        Raises:
            StorageError: The store could not be read.
        """
        ...

    async def replay(
        self, entries: Sequence[Entry], subject: MemorySubject, scope: MemoryScope
    ) -> int:
        """Append entries recorded elsewhere, with their own times, and return how many were new.

        An entry is new unless all of its facts, by id, are in the place already; so the same
        bundle can be imported twice. On an error none of them is kept; after a crash the first ones
        may be, and the same call adds the rest.

        Raises:
            ValueError: No store could have recorded an entry.
            StorageError: The store refused.
        """
        ...

    async def amend(self, change: Amendment, subject: MemorySubject, scope: MemoryScope) -> int:
        """Append what `change` makes of the ledger of a place, and return how many entries that is.

        No other write to the place happens in between: what `change` sees is what its entries follow.
        It is for changes that depend on current values, such as one value taking the place of
        another. Each entry is kept whole or not at all.

        Args:
            change: Takes the entries, oldest first, and the time at which its own are recorded, as
                a stamp. It may run in a worker thread, with the store held: it must be quick, and
                call nothing of the store. What it raises is raised, and nothing is kept.
            subject: The subject of the place.
            scope: Where its facts are visible.

        Raises:
            ValueError: No store could have recorded an entry that it returned.
            StorageError: The store refused.
        """
        ...

    async def amend_current(
        self, change: CurrentChange, subject: MemorySubject, scope: MemoryScope
    ) -> int:
        """Append an entry that `change` makes from the current facts; `amend` without history.

        A store keeps current facts in memory, so the cost does not grow with the history. Nothing
        else is written to the place in between.

        Args:
            change: Takes the ledger of the place and the time as a stamp, and returns an entry with
                `facts`, `forget` or both, or None for no change. The rules for `change` of `amend`
                hold. It may be called again.
            subject: The subject of the place.
            scope: The scope of the place.

        Returns:
            The number of entries: 1 or 0.

        Raises:
            ValueError: A store could not have recorded the entry.
            StorageError: The store failed.
        """
        ...

    async def rewrite(self, edit: Edit, subject: MemorySubject, scope: MemoryScope) -> int:
        """Rewrite the ledger of a place, history included; return how many entries changed.

        Use it to remove old history or to rename a concept, which appending cannot do. No other
        write happens in between. The result is stored completely or not at all, and no copy of
        removed entries stays. Times cannot change.

        Args:
            edit: Takes the entries, oldest first, and returns for each one the entry as it was,
                another one, or None to remove it. The rules for `change` of `amend` hold.
            subject: The subject of the place.
            scope: The scope of the place.

        Raises:
            ValueError: A store could not have recorded the entries that it returned.
            StorageError: The store refused.
        """
        ...

    async def aclose(self) -> None:
        """Finish accepted work and release all resources. Later calls raise `ValueError`."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc_info: object) -> None: ...


def fact_store(provider: AgentMemoryProvider) -> FactStore:
    """Return a provider as a `FactStore`, or raise `TypeError` if it lacks the methods."""
    if isinstance(provider, FactStore):
        return provider
    raise TypeError(
        f"{type(provider).__name__} is not a FactStore: listing, forgetting, erasing, merging, "
        f"exporting and tools need a provider with the methods of FactStore, such as "
        f"LocalFileMemoryProvider(path)"
    )
