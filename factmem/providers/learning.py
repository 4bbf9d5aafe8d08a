"""LearningStore: a store that orders the statements of chats by the time they were said."""

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
    """When it was said, as an aware datetime."""


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """An opaque marker for the state of a place, as one process saw it."""

    state: object = field(repr=False)


@dataclass(frozen=True, slots=True)
class Learned:
    """The result of recording statements."""

    superseded: frozenset[str] = frozenset()
    """The ids of facts that are only in the history, because of a statement that was said later."""
    refused: tuple[RetractedFact, ...] = ()
    """The retractions without effect, because their values were said later."""
    is_erased: bool = False
    """Whether nothing was recorded, because the place was erased after the chat was read."""


@runtime_checkable
class LearningStore(Protocol):
    """A `FactStore` for facts learned from chats. All stores of factmem implement it.

    Several workers may learn from one chat, and the slowest one writes last. Therefore statements
    are ordered by the time they were said, not by the time they were written.
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
        """Record statements in one place, all or none, in one durable write.

        A fact never replaces a value that was said later, and never restores a value whose
        retraction was said later. A retraction never ends a value that was said later. Such late
        statements are recorded only in the history. If times are equal, the order of recording
        decides. A time after the store's clock counts as now. Values saved with `save` count as
        said at their `timestamp`.

        Args:
            facts: The facts; the `timestamp` of each is the time it was said.
            subject: The subject of the facts.
            scope: The scope of the facts.
            retracted: Values that are no longer true.
            since: The moment before the chat was read. Nothing is recorded if any process has
                erased or purged the place since then. A place that did not exist at that moment
                counts as erased if any place was.

        Raises:
            ValueError: A value would change in a round trip through JSON. Nothing was recorded.
            PlaceFullError: The facts exceed the limit of the place. Nothing was recorded.
            StorageError: The store failed. Nothing was acknowledged.
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
    """Whether a provider can record that values are no longer true."""
    return isinstance(provider, LearningStore | _Forgets)


@dataclass(frozen=True, slots=True, eq=False)
class _ReadPlace:
    """The state of a place when a chat was read, for a provider that is not a `LearningStore`."""

    watch: Watch
    had_facts: bool

    async def is_erased(self, provider: AgentMemoryProvider) -> bool:
        """Whether the place has lost all of its facts, such as by a provider's own erasure."""
        place = Place.of_identity(self.watch.identity)
        return self.had_facts and not await provider.load_all(place.subject, place.scope)


async def moment(
    provider: AgentMemoryProvider, subject: MemorySubject, scope: MemoryScope
) -> Moment:
    """Return the present moment of a place; see `LearningStore.moment`.

    If the provider is not a `LearningStore`, `learn` detects the erasures in this process that
    factmem does or `erasing` announces, and places that have lost all of their facts. It does not
    detect the unannounced erasure of an empty place.
    """
    if isinstance(provider, LearningStore):
        return await provider.moment(subject, scope)
    watched = watch(provider, subject, scope)  # before reading, so that no erasure is missed
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
    """Record statements as well as the provider can; see `LearningStore.learn`.

    If it is not a `LearningStore`, the statement recorded last is current. Without `save_many`
    facts are saved one by one. Without `forget` retractions have no effect.
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
