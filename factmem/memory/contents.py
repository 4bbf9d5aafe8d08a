"""What is in a memory: looking around in it, forgetting, and clearing it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import EllipsisType
from typing import Any

from pydantic import JsonValue
from typing_extensions import TypeVar

from factmem.errors import MemoryAccessError
from factmem.events import MemoryEvents, MemoryOperation
from factmem.ledger.resolution import PlacedFact
from factmem.memory._checks import fact_store
from factmem.memory.selection import PlaceSelection
from factmem.models.boundary import UNBOUNDED
from factmem.models.checked import checked_subjects
from factmem.models.facts import (
    AnyFact,
    Concept,
    FactType,
)
from factmem.models.places import MemorySubject, Place
from factmem.models.scopes import ScopeChoice
from factmem.models.sources import FactSource
from factmem.providers.base import (
    AgentMemoryProvider,
    ErasureReceipt,
    PlaceInfo,
)
from factmem.providers.reader import FactReader

__all__ = ["ConceptInfo", "MemoryContents", "MemoryTree", "ResetReport", "concepts_of"]


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MemoryTree:
    """A branch of what a memory holds: scopes, in them subjects, in those their entities."""

    name: str
    """`memory`, then a scope as `product/my-app`, then a subject's name, then an entity."""
    count: int
    """How many values are current in it, in all of its branches together."""
    bytes: int
    newest: datetime | None
    """When a current value was last confirmed; None where nothing is current."""
    place: Place | None = None
    """The place, where this is one; a per-entity subject is a branch and not a place."""
    branches: tuple["MemoryTree", ...] = ()
    """In the order of their names."""

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.count}"]
        for branch in self.branches:
            lines += [f"  {line}" for line in str(branch).splitlines()]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class ConceptInfo:
    """A concept that a memory knows something about."""

    keyword: str
    description: str
    """As it was last saved."""
    fact_type: FactType
    """As it was last saved."""
    count: int
    """How many values are current, in all places together."""
    places: int
    """How many places hold one of them."""
    newest: datetime
    """When one of them was last confirmed."""


@dataclass(frozen=True, slots=True)
class ResetReport:
    """What `reset` removed, or what it would remove."""

    places: list[PlaceInfo]
    """Each place as it was before."""
    receipts: list[ErasureReceipt] = field(default_factory=list[ErasureReceipt])
    """One for each place that was erased; none after a dry run."""

    @property
    def count(self) -> int:
        """How many current values that was, in all places together."""
        return sum(info.count for info in self.places)


class MemoryContents:
    """What a memory holds, place by place.

    Of a view, that is what the view shows. Of a memory that is none, it is the whole store: all
    subjects and scopes, whatever the memory's own are.

    It keeps nothing: each call reads the store anew, every place of it that is in the view and no
    other, so that what another instance or process has written is there. No call to a model.

    Args:
        provider: The provider, restricted to the boundary of `selection` and observed.
        reader: A reader of the same provider.
        selection: The places that the memory may access.
        events: Reports refused calls; the provider reports everything else.
    """

    def __init__(
        self,
        provider: AgentMemoryProvider,
        reader: FactReader,
        selection: PlaceSelection,
        events: MemoryEvents,
    ) -> None:
        self._provider = provider
        self._reader = reader
        self._selection = selection
        self._events = events

    async def places(self) -> list[PlaceInfo]:
        """Return the places that hold anything, ordered by identity.

        Raises:
            TypeError: The provider is no `FactStore`, as in every method here.
            StorageError: A place could not be read, as in every method here.
        """
        async with self._events.before(MemoryOperation.LIST):
            store = fact_store(self._provider)
        return await store.places()

    async def tree(self) -> MemoryTree:
        """Return all places as a tree: scopes, subjects, entities. `print` shows it.

        The tree of a view is a subtree: `memory.view(scopes=[...]).contents.tree()`.
        """
        found = await self.places()
        return _branch(
            "memory", [((str(info.scope), *_subject_path(info)), info) for info in found]
        )

    async def info(self, place: Place) -> PlaceInfo | None:
        """Return how much a place holds, or None where it holds nothing.

        Raises:
            TypeError: `place` is none.
        """
        async with self._events.before(MemoryOperation.LIST):
            store = fact_store(self._provider)
            if not isinstance(place, Place):
                raise TypeError(
                    f"info takes a place, not {type(place).__name__}: "
                    f"Place(MemoryScope.Product('my-app'), USER.of('alice'))"
                )
        found = await store.places(subjects=[place.subject], scopes=[place.scope])
        return found[0] if found else None

    async def concepts(self) -> list[ConceptInfo]:
        """Return the concepts that something is known about, ordered by keyword."""
        return concepts_of(await self._newest_first())

    async def records(self, limit: int = 50, offset: int = 0) -> list[PlacedFact]:
        """Return current facts of all places, those that were confirmed last first.

        Values of the memory's `concepts` have their types, as far as they fit them; all others are
        plain JSON. Nothing is left out, and nothing is resolved: what two places say about one
        concept is here twice. The order of facts that were confirmed at one moment is stable.

        Args:
            limit: How many to return at most.
            offset: How many of the newest to pass over.

        Raises:
            TypeError: `limit` or `offset` is no whole number.
            ValueError: `limit` or `offset` is negative.
        """
        async with self._events.before(MemoryOperation.LIST):
            if not all(isinstance(each, int) for each in (limit, offset)):
                raise TypeError("limit and offset count records: give whole numbers, as limit=50")
            if limit < 0 or offset < 0:
                raise ValueError("limit and offset count records: neither can be negative")
        return (await self._newest_first())[offset : offset + limit]

    async def forget(
        self,
        *,
        concept: Concept[T, Any] | None = None,
        value: T | EllipsisType = ...,
        fact_id: str | None = None,
        source: FactSource | None = None,
        older_than: datetime | timedelta | None = None,
        concepts: Iterable[Concept[Any, Any]] | None = None,
        fact_ids: Iterable[str] | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
        purge: bool = False,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[ScopeChoice] | None = None,
    ) -> int:
        """Forget current values that meet all conditions given, and return how many they were.

        Only in the places of `subjects` and `scopes`, or else of the memory's own; never in a
        place that is merely named alike. Places are written one after the other: when one fails,
        what was forgotten in others stays forgotten, and the call can be made again.

        Args:
            concept: Values of this concept.
            value: This value of `concept`.
            fact_id: What was saved as this fact.
            source: What has no other source than this.
            older_than: What was last confirmed before this moment, or longer ago than this.
            concepts: Values of these concepts.
            fact_ids: What was saved as one of these facts.
            metadata: Values whose metadata has all of these keys, with equal values.
            purge: Also remove the values from history.
            subjects: Whom they concern; those of the memory by default.
            scopes: Where they are; all scopes of the memory by default.

        Raises:
            UnboundSubjectError: A subject is per entity and names none. Nothing was forgotten.
            MemoryAccessError: A view does not let this be written. Nothing was forgotten.
            ValueError: No condition was given, `value` came without `concept`, or `older_than` is
                naive. Nothing was forgotten.
        """
        # All places before the first one is written: what is refused is not forgotten in part.
        async with self._events.before(MemoryOperation.FORGET) as operation:
            store = fact_store(self._provider)
            those = None if subjects is None else checked_subjects(subjects)
            where = None if scopes is None else self._selection.profile.scopes(scopes)
            operation.places = self._selection.requested(those, where)
            places = self._selection.writable_places(those, where)
        forgotten = 0
        for place in places:
            forgotten += await store.forget(
                place.subject,
                place.scope,
                concept=concept,
                value=value,
                fact_id=fact_id,
                source=source,
                older_than=older_than,
                concepts=concepts,
                fact_ids=fact_ids,
                metadata=metadata,
                purge=purge,
            )
        return forgotten

    async def reset(self, *, confirm: bool = False) -> ResetReport:
        """Erase all places of a view with their history, or say what that would remove.

        Without `confirm` nothing is removed, and the report says what would be. Places are erased
        one after the other, each physically; when one fails those before it are gone, and the call
        can be made again. To erase places one by one there is `memory.store.erase`.

        Args:
            confirm: Whether to do it.

        Raises:
            ValueError: The memory is no view, and to clear it would clear the whole store.
            MemoryAccessError: The view is read-only, and `confirm` is set. Nothing was read.
        """
        async with self._events.before(MemoryOperation.ERASE):
            store = fact_store(self._provider)
            self._check_erasable(confirm=confirm)
        found = await store.places()
        receipts: list[ErasureReceipt] = []
        if confirm:
            for info in found:
                receipts.append(await store.erase(info.subject, info.scope))  # noqa: PERF401
        return ResetReport(found, receipts)

    def _check_erasable(self, *, confirm: bool) -> None:
        if self._selection.boundary == UNBOUNDED:
            raise ValueError(
                "This would erase the whole store: make a view of what is to go, as in "
                "memory.view(subjects=[USER.of('alice')]).contents.reset(confirm=True)"
            )
        if confirm and self._selection.boundary.is_read_only:
            raise MemoryAccessError(
                "This view is read-only, so nothing in it can be erased: use the memory that it "
                "was made of"
            )

    async def _newest_first(self) -> list[PlacedFact]:
        places = [info.place for info in await self.places()]
        placed, unreadable = await self._reader.found(places)
        for misfit in unreadable:
            plain = await self._provider.load_all(misfit.place.subject, misfit.place.scope)
            placed += [
                PlacedFact(misfit.place, fact)
                for fact in plain
                if fact.concept.keyword == misfit.keyword
            ]
        numbered = list(enumerate(placed))
        numbered.sort(key=_newest, reverse=True)
        return [each for _, each in numbered]


def concepts_of(found: Iterable[PlacedFact]) -> list[ConceptInfo]:
    """Return what facts are about, ordered by keyword; the newest fact of each comes first."""
    by_keyword: dict[str, list[PlacedFact]] = {}
    for placed in found:
        by_keyword.setdefault(placed.fact.concept.keyword, []).append(placed)
    return [_concept_info(by_keyword[keyword]) for keyword in sorted(by_keyword)]


def _newest(numbered: tuple[int, PlacedFact]) -> tuple[datetime, int]:
    number, placed = numbered
    return placed.heard_at, number


def _subject_path(info: PlaceInfo) -> tuple[str, ...]:
    subject = info.subject
    return (subject.name,) if subject.entity is None else (subject.name, subject.entity)


def _branch(name: str, found: list[tuple[tuple[str, ...], PlaceInfo]]) -> MemoryTree:
    below: dict[str, list[tuple[tuple[str, ...], PlaceInfo]]] = {}
    place: Place | None = None
    for path, info in found:
        if path:
            below.setdefault(path[0], []).append((path[1:], info))
        else:
            place = info.place
    newest = [info.newest for _, info in found if info.newest is not None]
    return MemoryTree(
        name,
        sum(info.count for _, info in found),
        sum(info.bytes for _, info in found),
        max(newest, default=None),
        place,
        tuple(_branch(each, below[each]) for each in sorted(below)),
    )


def _concept_info(placed: list[PlacedFact]) -> ConceptInfo:
    """Return what is known of one concept; the facts about it come newest first."""
    latest: AnyFact = placed[0].fact
    return ConceptInfo(
        latest.concept.keyword,
        latest.concept.description,
        latest.concept.fact_type,
        sum(len(each.fact.values) for each in placed),
        len({each.place.identity for each in placed}),
        placed[0].heard_at,
    )
