"""LearningStore: a store that orders statements of chats by the time at which they were said."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from factmem.models.facts import AnyFact, Concept
from factmem.models.places import MemoryScope, MemorySubject, Place
from factmem.providers.base import AgentMemoryProvider
from factmem.providers.erasures import Watch, watch

__all__ = ["Learned", "LearningStore", "Moment", "RetractedFact", "can_retract", "learn", "moment"]


@dataclass(frozen=True, slots=True)
class RetractedFact:
    """A statement that a value is no longer true."""

    concept: Concept[Any, Any]
    value: Any = field(repr=False)
    said_at: datetime
    """When it was said; aware."""


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """A moment in the life of a place, as one process saw it; opaque."""

    state: object = field(repr=False)


@dataclass(frozen=True, slots=True)
class Learned:
    """What became of statements that were recorded."""

    superseded: frozenset[str] = frozenset()
    """The ids of facts that are in the history alone: something said later had settled them."""
    refused: tuple[RetractedFact, ...] = ()
    """The retractions whose values stay current, as these were said later."""
    is_erased: bool = False
    """Whether nothing was recorded, as the place was erased after the chat was read."""


@runtime_checkable
class LearningStore(Protocol):
    """A `FactStore` for facts that were learned from chats; all stores of factmem are ones.

    Several workers may learn from one chat, and the slower one may write last. So statements are
    compared by when they were said, and not by when they were written.
    """

    async def moment(self, subject: MemorySubject, scope: MemoryScope) -> Moment:
        """Return the present moment of a place; see `learn`.

        Raises:
            StorageError: The store could not be read.
        """
        ...

    async def learn(
        self,
        facts: Iterable[AnyFact],
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        retracted: Iterable[RetractedFact] = (),
        since: Moment | None = None,
    ) -> Learned:
        """Record statements in one place at once, all or none, in one durable write.

        A fact never replaces a value that was said later, and never brings back a value whose
        retraction was said later; a retraction never ends a value that was said later. Such a
        statement goes into the history alone. Where times are equal, the order of recording
        decides. A time after the store's clock counts as now. Values that were saved with `save`
        count as said at their `timestamp`.

        Args:
            facts: The facts; the `timestamp` of each says when it was said.
            subject: Their subject.
            scope: Where they are visible.
            retracted: Values that are no longer true.
            since: The moment before the chat was read. Nothing is recorded where the place was
                erased or purged since then, by any process; a place that did not exist then counts
                as erased if any place was.

        Raises:
            ValueError: A value would not come back equal from its JSON. Nothing was recorded.
            PlaceFullError: The facts exceed the limit of the place. Nothing was recorded.
            StorageError: The store refused. Nothing was acknowledged.
        """
        ...


@runtime_checkable
class _SavesMany(Protocol):
    async def save_many(
        self, facts: Iterable[AnyFact], subject: MemorySubject, scope: MemoryScope
    ) -> None: ...


@runtime_checkable
class _Forgets(Protocol):
    async def forget(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        concept: Concept[Any, Any],
        value: object,
    ) -> int: ...


def can_retract(provider: AgentMemoryProvider) -> bool:
    """Whether a provider can end values."""
    return isinstance(provider, LearningStore | _Forgets)


@dataclass(frozen=True, slots=True, eq=False)
class _ReadPlace:
    """A place of a provider that compares no moments, as it was when a chat was read."""

    watch: Watch
    had_facts: bool

    async def is_erased(self, provider: AgentMemoryProvider) -> bool:
        """Whether the place lost all of its facts, as by a provider's own way of erasing."""
        place = Place.of_identity(self.watch.identity)
        return self.had_facts and not await provider.load_all(place.subject, place.scope)


async def moment(
    provider: AgentMemoryProvider, subject: MemorySubject, scope: MemoryScope
) -> Moment:
    """Return the present moment of a place; see `LearningStore.moment`.

    Of a provider that compares no moments, `learn` notices the erasures of this process that go
    through factmem or are announced by `erasing`, and a place that has lost all of its facts. It
    does not notice an erasure of an empty place that is not announced.
    """
    if isinstance(provider, LearningStore):
        return await provider.moment(subject, scope)
    watched = watch(provider, subject, scope)  # before it is read: an erasure after it counts
    return Moment(_ReadPlace(watched, bool(await provider.load_all(subject, scope))))


async def learn(
    provider: AgentMemoryProvider,
    facts: Sequence[AnyFact],
    subject: MemorySubject,
    scope: MemoryScope,
    *,
    retracted: Sequence[RetractedFact] = (),
    since: Moment | None = None,
) -> Learned:
    """Record statements as well as a provider can; see `LearningStore.learn`.

    Where it cannot compare them, the last one recorded is current. Without `save_many` facts are
    saved one by one; without `forget` retractions change nothing.
    """
    if isinstance(provider, LearningStore):
        return await provider.learn(facts, subject, scope, retracted=retracted, since=since)
    read = since.state if since is not None else None
    if not isinstance(read, _ReadPlace):
        await _save(provider, facts, subject, scope, retracted)
        return Learned()
    with read.watch.writing() as is_free:
        if not is_free or await read.is_erased(provider):
            return Learned(is_erased=True)
        await _save(provider, facts, subject, scope, retracted)
        return Learned()


async def _save(
    provider: AgentMemoryProvider,
    facts: Sequence[AnyFact],
    subject: MemorySubject,
    scope: MemoryScope,
    retracted: Sequence[RetractedFact],
) -> None:
    if isinstance(provider, _SavesMany):
        if facts:
            await provider.save_many(facts, subject, scope)
    else:
        for fact in facts:
            await provider.save(fact, subject, scope)
    if isinstance(provider, _Forgets):
        for each in retracted:
            await provider.forget(subject, scope, concept=each.concept, value=each.value)
