"""A view of a store: its places inside a boundary, each operation reported as one event.

The parts of a memory, and of each of its views, get this and not the application's store. The table
in `StoreView` says of each method with a place whether it writes, what a read outside returns, and
what its event counts; `_restricted` makes the method from that, with the signature of `FactStore`.
A view keeps nothing that was read, and never closes the store, which the memory and other views
use.
"""

# pyright: reportUnknownLambdaType=false, reportPrivateUsage=false
# The rules count results of many types, and a method made from a rule acts for its view.

from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from datetime import datetime, timedelta
from functools import wraps
from inspect import signature
from typing import Any, NamedTuple, Self

from anyio.lowlevel import checkpoint
from typing_extensions import override

from factmem.errors import MemoryAccessError
from factmem.events import MemoryEvents, MemoryOperation
from factmem.ledger.history import FactChange
from factmem.models.facts import AnyFact, Concept, ConceptDefinition
from factmem.models.places import (
    UNBOUNDED,
    Boundary,
    MemoryScope,
    MemorySubject,
    Place,
    check_writable,
    checked_places,
    identity_of,
)
from factmem.providers._definitions import Told
from factmem.providers._four_methods import as_store
from factmem.providers.conversation_store import ConversationStore
from factmem.providers.conversations import LearningState, LearningTask, TurnChanges
from factmem.providers.provider import AgentMemoryProvider
from factmem.providers.results import (
    Moment,
    PlaceChanges,
    PlaceInfo,
    SearchAnswer,
    SearchQuestion,
    ShredReceipt,
    TurnCandidates,
)
from factmem.providers.store import FactStore


def view_of(
    provider: AgentMemoryProvider, boundary: Boundary | None, events: MemoryEvents
) -> FactStore:
    """Restrict a provider to a boundary, and report its operations to listeners.

    Returns the provider itself if there are no boundary and no listeners. A provider that is not a
    `FactStore` becomes one, so that none of its methods escapes the view.
    """
    store = as_store(provider)
    if boundary is None and not events:
        return store
    return StoreView(store, boundary, events)


class _Rule(NamedTuple):
    operation: MemoryOperation | None = None
    """What its event is called; None reports nothing."""
    writes: bool = False
    """Whether it raises outside the boundary and in a read-only view; else it returns nothing."""
    nothing: Callable[[], object] = list
    counts: Callable[[Any, Any], int] = lambda result, _: _values(result)
    """Returns the `count` of its event from the result and the first argument."""


def _values(facts: Iterable[AnyFact]) -> int:
    return sum(len(fact.values) for fact in facts)


_SAVE, _LOAD = MemoryOperation.SAVE, MemoryOperation.LOAD
_AMEND = _Rule(_SAVE, writes=True, counts=lambda result, _: result)
_UNSEEN = _Rule(nothing=lambda: None)
_LISTED = _Rule(_LOAD, counts=lambda result, _: len(result))


def _restricted(kind: type, name: str, rule: _Rule) -> Any:
    """Return the method of a view that checks a call of a store, makes it, and reports it."""
    function = getattr(kind, name)
    form = signature(function)
    names = [*form.parameters][1:]
    wanted = ["place"] if "place" in names else ["subject", "scope"]
    positions = [(each, names.index(each)) for each in wanted]

    @wraps(function)
    async def method(self: "_View", *given: Any, **options: Any) -> Any:
        try:
            where = [given[at] if at < len(given) else options[each] for each, at in positions]
        except KeyError:
            form.bind(self, *given, **options)  # raises, as the place is missing
            raise
        subject, scope = where if len(where) > 1 else (where[0].subject, where[0].scope)
        given = tuple(list(each) if isinstance(each, Iterator) else each for each in given)

        async def checked() -> Any:
            self._check_open()
            if rule.writes and self._is_view:
                check_writable(Place(scope, subject), self._boundary)
            elif self._is_view and not self._boundary.allows(identity_of(subject, scope)):
                await checkpoint()
                return rule.nothing()
            return await getattr(self._viewed, name)(*given, **options)

        if rule.operation is None or not self._events:
            return await checked()
        async with self._events.operation(rule.operation) as progress:
            progress.places = [Place(scope, subject)]
            result = await checked()
            progress.count = rule.counts(result, given[0] if given else None)
            return result

    return method


class _View:
    """Restricts the calls of a store to a boundary and reports each one as one event."""

    def __init__(self, store: FactStore, boundary: Boundary | None, events: MemoryEvents) -> None:
        self._store = store
        self._given = boundary
        self._is_view = boundary is not None
        outer = getattr(store, "boundary", UNBOUNDED) if boundary is None else boundary
        self._boundary: Boundary = outer if isinstance(outer, Boundary) else UNBOUNDED
        self._events = events
        self._is_closed = False

    @property
    def boundary(self) -> Boundary:
        return self._boundary

    @property
    def _viewed(self) -> Any:
        return self._store

    def _is_inside(self, places: Iterable[Place]) -> bool:
        return not self._is_view or all(self._boundary.allows(each.identity) for each in places)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ValueError("This view of a store is closed: create a new one")


class StoreView(_View, FactStore):
    """A wrapper that restricts a `FactStore` to a boundary and reports each operation as one event.

    A read outside the boundary returns nothing, as for a place that was never written, and does not
    call the wrapped store. A write outside the boundary, or any write if the boundary is read-only,
    raises `MemoryAccessError` before the wrapped store is called. Places outside are not listed,
    counted or exported. A bundle with such a place is not imported: `import_facts` raises
    `MemoryAccessError` before it writes anything. Reading versions and indexes is not reported.
    """

    save = _restricted(
        FactStore, "save", _Rule(_SAVE, True, counts=lambda _, fact: len(fact.values))
    )
    save_many = _restricted(
        FactStore, "save_many", _Rule(_SAVE, True, counts=lambda _, all_: _values(all_))
    )
    learn = _restricted(
        FactStore,
        "learn",
        _Rule(_SAVE, True, counts=lambda done, all_: 0 if done.is_erased else _values(all_)),
    )
    load = _restricted(FactStore, "load", _Rule(_LOAD))
    load_all = _restricted(FactStore, "load_all", _Rule(_LOAD))
    find = _restricted(
        FactStore,
        "find",
        _Rule(_LOAD, nothing=lambda: None, counts=lambda fact, _: len(fact.values) if fact else 0),
    )
    load_by_description = _restricted(FactStore, "load_by_description", _Rule(_LOAD))
    proposals = _restricted(
        FactStore,
        "proposals",
        _Rule(_LOAD, counts=lambda all_, _: _values(each.fact for each in all_)),
    )
    history = _restricted(
        FactStore,
        "history",
        _Rule(
            MemoryOperation.HISTORY,
            counts=lambda all_, _: _values(each.fact for each in all_ if each.fact is not None),
        ),
    )
    entries = _restricted(
        FactStore, "entries", _Rule(MemoryOperation.HISTORY, counts=lambda all_, _: len(all_))
    )
    forget = _restricted(
        FactStore, "forget", _Rule(MemoryOperation.FORGET, True, counts=lambda count, _: int(count))
    )
    erase = _restricted(
        FactStore,
        "erase",
        _Rule(MemoryOperation.ERASE, True, counts=lambda receipt, _: receipt.count or 0),
    )
    replay = _restricted(FactStore, "replay", _AMEND)
    amend = _restricted(FactStore, "amend", _AMEND)
    amend_current = _restricted(FactStore, "amend_current", _AMEND)
    rewrite = _restricted(FactStore, "rewrite", _AMEND)
    erased_at = _restricted(FactStore, "erased_at", _UNSEEN)
    read_index = _restricted(FactStore, "read_index", _UNSEEN)
    # Indexes and vectors are no facts: a read-only view may write them.
    write_index = _restricted(FactStore, "write_index", _Rule(nothing=lambda: False))
    facts_to_embed = _restricted(FactStore, "facts_to_embed", _Rule(nothing=dict))
    add_vectors = _restricted(FactStore, "add_vectors", _UNSEEN)
    version = _restricted(FactStore, "version", _Rule(nothing=str))
    moment = _restricted(FactStore, "moment", _Rule(nothing=lambda: Moment(None)))
    _changes = _restricted(FactStore, "changes", _UNSEEN)

    @property
    @override
    def small_provider(self) -> str | None:
        return self._store.small_provider

    @property
    @override
    def conversations(self) -> "ConversationsView":
        _ = self._store.conversations  # raises if it keeps none
        return ConversationsView(self._store, self._given, self._events)

    @override
    async def changes(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        since: str,
        concepts: Iterable[Concept[Any, Any]] = (),
    ) -> PlaceChanges | None:
        async with self._events.operation(_LOAD) as progress:
            progress.places = [Place(scope, subject)]
            found: PlaceChanges | None
            found = await self._changes(subject, scope, since=since, concepts=concepts)
            if found is None:
                progress.is_handed_over = True  # the caller now loads the whole place
            else:
                each = (fact for facts in found.facts.values() for fact in facts)
                progress.found(fact for fact in each if not isinstance(fact, str))
            return found

    @override
    async def watch(
        self,
        places: Iterable[Place],
        *,
        since: datetime | str | None = None,
        concepts: Iterable[Concept[Any, Any]] = (),
    ) -> AsyncGenerator[FactChange]:
        inside = [each for each in checked_places(places) if self._is_inside([each])]
        found = self._store.watch(inside, since=since, concepts=concepts)
        async with aclosing(found) as changes:
            async for change in changes:
                async with self._events.operation(MemoryOperation.HISTORY, [change.place]) as done:
                    self._check_open()
                    done.count = 1
                yield change

    @override
    async def places(
        self,
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[MemoryScope] | None = None,
        within: Boundary = UNBOUNDED,
    ) -> list[PlaceInfo]:
        async with self._events.operation(MemoryOperation.LIST) as operation:
            self._check_open()
            inside = within.within(self._boundary)
            found = await self._store.places(subjects=subjects, scopes=scopes, within=inside)
            operation.count = len(found)
            return found

    async def concepts(self) -> list[ConceptDefinition]:
        """Return the definitions of the whole store: they contain nothing of a user."""
        self._check_open()
        return await self._store.concepts()

    async def define(self, concepts: Iterable[Told]) -> None:
        """Tell the store the concepts of a program, unless this is a read-only view."""
        self._check_open()
        if self._boundary.is_read_only:
            raise MemoryAccessError("This view is read-only, so it cannot define concepts")
        await self._store.define(concepts)

    async def begin(self, operation: str) -> datetime:
        self._check_open()
        return await self._store.begin(operation)

    @override
    async def list_places(
        self,
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[MemoryScope] | None = None,
        within: Boundary = UNBOUNDED,
        after: Place | None = None,
        limit: int | None = None,
    ) -> list[Place]:
        async with self._events.operation(MemoryOperation.LIST) as operation:
            self._check_open()
            inside = within.within(self._boundary)
            found = await self._store.list_places(
                subjects=subjects, scopes=scopes, within=inside, after=after, limit=limit
            )
            operation.count = len(found)
            return found

    @override
    async def is_searched(self, places: Sequence[Place], *, meaning: bool) -> bool:
        self._check_open()
        if not self._is_inside(places):
            return False  # the recall reads the places instead
        return await self._store.is_searched(places, meaning=meaning)

    @override
    async def candidates(
        self, places: Sequence[Place], question: SearchQuestion
    ) -> SearchAnswer | None:
        self._check_open()
        if not self._is_inside(places):
            await checkpoint()
            return None
        async with self._events.operation(MemoryOperation.LOAD, places) as operation:
            answer = await self._store.candidates(places, question)
            operation.count = 0 if answer is None else len(answer.candidates)
            return answer

    @override
    async def turn_candidates(
        self, places: Sequence[Place], question: SearchQuestion
    ) -> TurnCandidates | None:
        self._check_open()
        if not self._is_inside(places):
            await checkpoint()
            return None
        return await self._store.turn_candidates(places, question)

    @override
    async def shred(self) -> ShredReceipt:
        self._check_open()
        if self._is_view:
            raise MemoryAccessError(
                "A view cannot destroy the keys of all places: call shred of the store itself"
            )
        return await self._store.shred()

    @override
    async def aclose(self) -> None:
        if self._is_view:
            await checkpoint()
            self._is_closed = True
        else:
            await self._store.aclose()

    async def __aenter__(self) -> Self:
        self._check_open()
        if not self._is_view:
            await self._store.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


class ConversationsView(_View, ConversationStore):
    """The conversations of a store, restricted to its boundary and reported as events."""

    append = _restricted(
        ConversationStore, "append", _Rule(_SAVE, True, counts=lambda added, _: len(added))
    )
    turns = _restricted(ConversationStore, "turns", _LISTED)
    conversations = _restricted(
        ConversationStore, "conversations", _LISTED._replace(operation=MemoryOperation.LIST)
    )
    remove = _restricted(
        ConversationStore, "remove", _AMEND._replace(operation=MemoryOperation.FORGET)
    )

    lines = _restricted(ConversationStore, "lines", _LISTED._replace(nothing=dict))
    removed_at = _restricted(ConversationStore, "removed_at", _UNSEEN)
    rewrite = _restricted(ConversationStore, "rewrite", _AMEND._replace(counts=lambda _, __: 0))

    @property
    def _viewed(self) -> ConversationStore:
        return self._store.conversations

    @override
    async def changes(self, since: Mapping[Place, object]) -> dict[Place, TurnChanges]:
        self._check_open()
        inside = {place: each for place, each in since.items() if self._is_inside([place])}
        return await self._viewed.changes(inside)

    @override
    async def states(self, known: Collection[str] = ()) -> dict[str, tuple[Place, str] | None]:
        self._check_open()
        # Those that are known are asked again, as their places decide whether they are inside.
        found = await self._viewed.states(() if self._is_view else known)
        return {
            state: None if state in known else named
            for state, named in found.items()
            if named is None or self._is_inside([named[0]])
        }

    @override
    async def take(self, lease: timedelta, within: Boundary = UNBOUNDED) -> LearningTask | None:
        return await self._viewed.take(lease, self._within(within))

    @override
    async def learnt(self, task: LearningTask, upto: int) -> bool:
        # `take` gives only tasks inside the boundary.
        return await self._viewed.learnt(task, upto)

    @override
    async def failed(self, task: LearningTask, again_in: timedelta | None) -> bool:
        return await self._viewed.failed(task, again_in)

    @override
    async def retry(self, within: Boundary = UNBOUNDED) -> int:
        return await self._viewed.retry(self._within(within))

    @override
    async def state(self, within: Boundary = UNBOUNDED) -> LearningState:
        return await self._viewed.state(self._within(within))

    def _within(self, within: Boundary) -> Boundary:
        self._check_open()
        return self._boundary.within(within)
