"""`AgentMemoryProvider`, the protocol of a provider with four methods, and the store over one."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, NoReturn, Protocol, runtime_checkable

from anyio.lowlevel import checkpoint
from typing_extensions import override

from factmem.errors import StoredFactError
from factmem.models.facts import AnyFact, Concept, ConceptDefinition, FactType, L
from factmem.models.places import MemoryScope, MemorySubject
from factmem.models.when import WhenLike
from factmem.providers.results import Learned, Moment, RetractedFact
from factmem.providers.store import FactStore

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


def as_store(provider: AgentMemoryProvider) -> FactStore:
    return provider if isinstance(provider, FactStore) else _FourMethods(provider)


def is_complete(store: FactStore) -> bool:
    """Return whether a store can do more than the four methods of a small provider."""
    return not isinstance(store.small_provider, str)


def fact_store(store: FactStore) -> FactStore:
    """Return a store, or raise `TypeError` if it wraps a provider with four methods."""
    if is_complete(store):
        return store
    raise TypeError(
        f"{store.small_provider} is not a FactStore: listing, forgetting, merging, exporting and "
        "tools need a subclass of FactStore, such as LocalFileMemoryProvider(path)"
    )


class _FourMethods(FactStore):
    """A provider with four methods as a store. What these cannot do raises `TypeError`.

    Facts are learnt one by one, without retractions. Closing the store does not close it.
    """

    def __init__(self, provider: AgentMemoryProvider) -> None:
        self._provider = provider

    @property
    @override
    def small_provider(self) -> str:
        return type(self._provider).__name__

    @override
    async def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        await self._provider.save(fact, subject, scope)

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
        if as_of is not None or valid_at is not None:
            await self._raise()
        found: list[Any] = await self._provider.load(concept, subject, scope)
        for keyword in concept.was:
            former: Concept[Any, Any] = Concept(
                keyword,
                concept.description,
                concept.fact_type,
                value_type=concept.value_type,
                read=concept.read,
            )
            facts: list[Any] = await self._provider.load(former, subject, scope)
            found = [*found, *(replace(fact, concept=concept) for fact in facts)]
        if concept.was and concept.fact_type is FactType.SINGLE:
            found = sorted(found, key=attrgetter("timestamp"))[-1:]
        return found

    @override
    async def load_all(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        concepts: Iterable[Concept[Any, Any]] = (),
        as_of: datetime | None = None,
        valid_at: WhenLike | None = None,
    ) -> list[AnyFact]:
        if as_of is not None or valid_at is not None:
            await self._raise()
        known = {concept.keyword: concept for concept in concepts}
        facts = await self._provider.load_all(subject, scope)
        named = {keyword: each for each in known.values() for keyword in each.was} | known
        found = [fact for fact in facts if fact.concept.keyword not in named]
        held = [named.get(fact.concept.keyword) for fact in facts]
        for concept in {each.keyword: each for each in held if each is not None}.values():
            try:
                found += await self.load(concept, subject, scope)
            except StoredFactError:
                found += [fact for fact in facts if fact.concept.keyword in concept.keywords]
        return found

    @override
    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> list[AnyFact]:
        return await self._provider.load_by_description(description, subject, scope)

    @override
    async def moment(self, subject: MemorySubject, scope: MemoryScope) -> Moment:
        return Moment(bool(await self._provider.load_all(subject, scope)))

    @override
    async def learn(
        self,
        facts: Iterable[AnyFact],
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        retracted: Iterable[RetractedFact] = (),
        since: Moment | None = None,
    ) -> Learned:
        # A place that had facts when the chat was read, and has none now, was erased meanwhile.
        had_facts = since is not None and bool(since.state)
        if had_facts and not await self._provider.load_all(subject, scope):
            return Learned(is_erased=True)
        for fact in facts:
            await self._provider.save(fact, subject, scope)
        return Learned()

    async def _raise(self, *_: Any, **__: Any) -> NoReturn:
        fact_store(self)
        raise AssertionError

    @override
    def watch(self, *_: Any, **__: Any) -> NoReturn:
        fact_store(self)
        raise AssertionError

    save_many = forget = erase = places = list_places = entries = _raise
    history = proposals = replay = amend = amend_current = rewrite = _raise

    async def _unknown(self, *_: Any, **__: Any) -> None:
        return None

    changes = erased_at = define = _unknown
    version = read_index = write_index = _unknown  # type: ignore[assignment]

    @override
    async def concepts(self) -> list[ConceptDefinition]:
        return []

    @override
    async def begin(self, operation: str) -> datetime:
        return datetime.now(UTC)

    @override
    async def aclose(self) -> None:
        await checkpoint()

    def _check_open(self) -> None: ...
