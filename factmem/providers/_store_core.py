"""The methods of a `FactStore` that read and write facts and their history.

`FactStore` in `base` extends it by what a store may do better: versions, indexes, conversations,
searches. The defaults here need little: reads are `load_all` or a fold of `entries`, and writes are
amendments. They are safe only because `amend` keeps out other writes to the place.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Self, TypeVar

from anyio.lowlevel import checkpoint
from typing_extensions import Unpack, override

from factmem._arguments import expect_function
from factmem.ledger._presentation import is_misfit, misfit_of
from factmem.ledger._replay import CurrentChange
from factmem.ledger.entries import Amendment, Edit, Entry
from factmem.ledger.history import HistoryEntry, history
from factmem.ledger.ledger import Ledger
from factmem.ledger.proposals import Proposal
from factmem.models._checked import checked_concept
from factmem.models.clock import stamp, system_clock
from factmem.models.facts import AnyFact, Concept, L
from factmem.models.places import MemoryScope, MemorySubject, Place
from factmem.models.when import WhenLike
from factmem.providers._arguments import stored_facts
from factmem.providers._description import described, phrase_of
from factmem.providers._provider import AgentMemoryProvider
from factmem.providers.conditions import ForgetConditions
from factmem.providers.results import ErasureReceipt, PlaceInfo, Purge

T = TypeVar("T")


class StoreCore(AgentMemoryProvider):
    """The methods of a `FactStore` that read and write facts and their history.

    The abstract ones are what a store cannot do without. The others are built from them.
    """

    @override
    async def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        await self.save_many([fact], subject, scope)

    async def save_many(
        self, facts: Iterable[AnyFact], subject: MemorySubject, scope: MemoryScope
    ) -> None:
        """Store several facts of one place in one durable write, all or none.

        No reader sees a part of them, and neither does anyone after a crash or a failure. Facts of
        several places need several calls. An empty list does nothing. Raises as `save` does.
        """
        stored = stored_facts(facts)
        if stored:
            await self.amend(lambda _, now: [{"at": now, "facts": stored}], subject, scope)
        else:
            Place(scope, subject)  # raises for an unbound subject

    @override
    async def load(
        self,
        concept: Concept[Any, L],
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        as_of: datetime | None = None,
        valid_at: WhenLike | None = None,
    ) -> list[L]:
        """Return the facts of a concept that are current, or were at `as_of`.

        Args:
            concept: The concept.
            subject: Whom or what the facts are about.
            scope: Where they are visible.
            as_of: The time of the read, by what was recorded until then.
            valid_at: The time about which is asked, as known now or at `as_of`: a moment, or a day,
                month or year, such as "2026-06", for what held in it; of one value the last.

        Raises:
            StoredFactError: A stored value does not fit the concept's `value_type`.
            StorageError: The store could not be read.
            ValueError: `as_of` or `valid_at` is naive, or `valid_at` is no time.
        """
        checked_concept(concept)
        facts = await self.load_all(
            subject, scope, concepts=[concept], as_of=as_of, valid_at=valid_at
        )
        found: list[Any] = [fact for fact in facts if fact.concept.keyword == concept.keyword]
        for fact in found:
            if is_misfit(fact, concept):
                raise misfit_of(fact, concept)
        return found

    @override
    @abstractmethod
    async def load_all(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        concepts: Iterable[Concept[Any, Any]] = (),
        as_of: datetime | None = None,
        valid_at: WhenLike | None = None,
    ) -> list[AnyFact]:
        """Return all facts that are current, or were at `as_of`, or held at `valid_at`.

        A store does not know value types, so values are plain JSON. The facts of the concepts in
        `concepts` are returned as by `load`, with their types. Values that do not fit the type are
        returned in facts of their own, as plain JSON; the `value_type` of such a fact's concept is
        not that of the concept in `concepts`.

        Raises:
            StorageError: The store could not be read.
            ValueError: `as_of` or `valid_at` is naive, or `valid_at` is no time.
        """

    @override
    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> list[AnyFact]:
        phrase = phrase_of(description)
        return described(await self.load_all(subject, scope), phrase)

    async def history(
        self, concept: Concept[Any, Any], subject: MemorySubject, scope: MemoryScope
    ) -> list[HistoryEntry]:
        """Return every save, confirmation and forget of a concept, oldest first.

        A fact with a value that does not fit the concept's `value_type` is returned as plain JSON,
        and its entry `is_unreadable`.

        Raises:
            StorageError: The store could not be read.
        """
        checked_concept(concept)
        return history(await self.entries(subject, scope), concept)

    async def proposals(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        concepts: Iterable[Concept[Any, Any]] = (),
    ) -> list[Proposal]:
        """Return what waits for a decision in a place: values, and ends of confirmed values.

        Args:
            subject: The subject of the place.
            scope: The scope of the place.
            concepts: The concepts whose value types are known.

        Raises:
            StorageError: The store could not be read.
        """
        ledger = Ledger(await self.entries(subject, scope))
        return ledger.proposals(concepts, max(stamp(system_clock()), ledger.recorded_at))

    @abstractmethod
    async def forget(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        purge: Purge = False,
        **conditions: Unpack[ForgetConditions[T]],
    ) -> int:
        """Forget the current values that meet all given conditions, and return their number.

        They disappear from all reads at once and stay forgotten until they are said again: a save
        of them with an earlier `timestamp`, recorded when it may, is history at once. The history
        still shows the earlier saves and the forget.

        What was forgotten has never held: no `valid_at` finds a time at which a forgotten value held,
        nor, if `concept` or `concepts` is the only condition, any earlier value. Values of
        a concept that are over are forgotten even if nothing is current.

        Args:
            subject: The subject of the facts.
            scope: The scope of the facts.
            conditions: What selects the values, such as `concept` and `value`. `ForgetConditions` has
                all of them.
            purge: Also rewrite the storage without the values, including the history. Other facts
                may quote a message that contains a purged value. The result lists them in
                `quoting`, and `purge="quotes"` removes the values from their quotes. Keywords,
                descriptions and metadata are not changed. The result lists the facts where one of
                these contains a purged value in `mentioning`.

        Returns:
            The number of values that were current; if none was, of those of `concept` or `concepts`
            that had held before. A `Forgotten` if the store reports remains.

        Raises:
            ValueError: No condition was given (use `erase` to empty a place), `value` was given
                without `concept`, or `older_than` is naive.
            StorageError: The store failed.
        """

    @abstractmethod
    async def erase(
        self, subject: MemorySubject, scope: MemoryScope, *, only_empty: bool = False
    ) -> ErasureReceipt:
        """Remove a place with its whole history, physically, and return a receipt.

        Args:
            subject: The subject of the place.
            scope: The scope of the place.
            only_empty: Do nothing if the place has an entry, and return the receipt of a place
                that does not exist. No save can happen between the check and the erasure.

        Raises:
            StorageError: The store failed.
        """

    @abstractmethod
    async def places(
        self,
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[MemoryScope] | None = None,
    ) -> list[PlaceInfo]:
        """Return the places that are not empty, ordered by identity.

        Reads each returned place, to count its facts, and no others, such as those of other
        customers. Names that only look alike are different names. An empty list matches nothing.

        Args:
            subjects: Only places of these subjects; all by default.
            scopes: Only places in these scopes; all by default.

        Raises:
            UnboundSubjectError: One of `subjects` is per entity and has no entity.
            TypeError: `subjects` or `scopes` is not a list of these.
            StorageError: The store could not be read.
        """

    @abstractmethod
    async def entries(self, subject: MemorySubject, scope: MemoryScope) -> list[Entry]:
        """Return the ledger of a place as plain JSON, oldest first, in the form of `replay`.

        Raises:
            StorageError: The store could not be read.
        """

    @abstractmethod
    async def replay(
        self, entries: Sequence[Entry], subject: MemorySubject, scope: MemoryScope
    ) -> int:
        """Append entries recorded elsewhere, with their own times, and return how many were new.

        An entry is new unless the place already has all of its facts, by id, so the same
        entries can be replayed twice. What is current depends on when it was said, not on when it was replayed. After an error none of the entries is stored. After a crash the first
        ones may be stored, and the same call adds the rest.

        Raises:
            ValueError: An entry is invalid.
            StorageError: The store failed.
        """

    @abstractmethod
    async def amend(self, change: Amendment, subject: MemorySubject, scope: MemoryScope) -> int:
        """Append the entries that `change` computes from a place's ledger; return their number.

        No other write to the place happens in between. Use it for changes that depend on current
        values, such as the replacement of one value by another. Each entry is stored completely or
        not at all.

        Args:
            change: Is called with the entries, oldest first, and the time of its own entries, as a
                stamp. It may run in a worker thread, with the store locked: it must be quick and
                must not call the store. Its exceptions are raised, and nothing is stored.
            subject: The subject of the place.
            scope: The scope of the place.

        Raises:
            ValueError: An entry that it returned is invalid.
            StorageError: The store failed.
        """

    async def amend_current(
        self, change: CurrentChange, subject: MemorySubject, scope: MemoryScope
    ) -> int:
        """Append the entry that `change` computes from the current facts; `amend` without history.

        A store keeps current facts in memory, so the cost does not grow with the history. No other
        write to the place happens in between.

        Args:
            change: Is called with the ledger of the place and the time as a stamp, and returns an
                entry with `facts`, `forget` or both, or None for no change. The rules for `change`
                of `amend` apply. It may be called again.
            subject: The subject of the place.
            scope: The scope of the place.

        Returns:
            The number of entries: 1 or 0.

        Raises:
            ValueError: The entry that it returned is invalid.
            StorageError: The store failed.
        """
        expect_function(change, "change", "amend_current(change, subject, scope)")

        def append(known: Sequence[Entry], now: str) -> list[Entry]:
            entry = change(Ledger(known), now)
            return [] if entry is None else [entry]

        return await self.amend(append, subject, scope)

    @abstractmethod
    async def rewrite(self, edit: Edit, subject: MemorySubject, scope: MemoryScope) -> int:
        """Rewrite the ledger of a place, history included; return how many entries changed.

        Use it to remove old history or to rename a concept, which appending cannot do. No other
        write to the place happens in between. The result is stored completely or not at all, and no
        copy of removed entries remains. Times cannot be changed.

        Args:
            edit: Is called with the entries, oldest first, and returns for each one the same entry,
                another one, or None to remove it. The rules for `change` of `amend` apply.
            subject: The subject of the place.
            scope: The scope of the place.

        Raises:
            ValueError: An entry that it returned is invalid.
            StorageError: The store failed.
        """

    async def aclose(self) -> None:
        """Finish accepted calls and release all resources. Later calls raise `ValueError`.

        By default there is nothing to release.
        """
        await checkpoint()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()
