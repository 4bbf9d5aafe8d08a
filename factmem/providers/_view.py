"""A view of a store: its places inside a boundary, each operation reported as one event.

A memory and its views use this wrapper, never the application's store. `StoreView` declares for
each method with a place whether it writes, what a read outside the boundary returns and what its
event counts; `_restricted` builds the method from that, with the signature of `FactStore`. A view
caches nothing, and never closes the store, which the memory and other views use.

`FactReader` reads the current facts of several places through it, for loads, recall, detection and
review. Values that do not fit the type of a declared concept never fail such a read: they are set
apart as an `UnreadableConcept`, and the rest is returned.
"""

# pyright: reportUnknownLambdaType=false, reportPrivateUsage=false
# The rules count results of many types, and a method built from a rule uses its view's attributes.

from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Sized,
)
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from functools import partial, wraps
from inspect import signature
from typing import Any, Self, TypeAlias, TypeVar

import anyio
from anyio.lowlevel import checkpoint
from typing_extensions import override

from factmem._concurrency import Workers
from factmem.errors import MemoryAccessError, StoredFactError
from factmem.events import MemoryEvents, MemoryOperation
from factmem.ledger._reads import is_misfit, misfit_of
from factmem.ledger.history import FactChange
from factmem.ledger.resolution import PlacedFact, Resolution, UnreadableConcept, resolve
from factmem.models.facts import AnyFact, Concept, L
from factmem.models.places import (
    UNBOUNDED,
    Boundary,
    Place,
    check_writable,
    checked_places,
    identity_of,
)
from factmem.providers._definitions import Definition
from factmem.providers.conversation_store import ConversationStore
from factmem.providers.conversations import TurnChanges
from factmem.providers.provider import AgentMemoryProvider, as_store
from factmem.providers.results import Moment, PlaceChanges, ShredReceipt
from factmem.providers.store import FactStore

R = TypeVar("R")


def view_of(
    provider: AgentMemoryProvider, boundary: Boundary | None, events: MemoryEvents
) -> FactStore:
    """Restrict a provider to a boundary, and report its operations to listeners.

    Returns the provider itself if there are no boundary and no listeners. A provider that is not a
    `FactStore` becomes one, so that none of its methods escapes the view.
    """
    store = as_store(provider)
    if boundary is None and not events.listeners:
        return store
    return StoreView(store, boundary, events)


_SAVE, _LOAD = MemoryOperation.SAVE, MemoryOperation.LOAD
_HISTORY, _FORGET = MemoryOperation.HISTORY, MemoryOperation.FORGET


def _values(facts: Iterable[AnyFact]) -> int:
    return sum(len(fact.values) for fact in facts)


def _length(found: Sized, _: object) -> int:
    return len(found)


def _number(count: int, _: object) -> int:
    return count


def _changed(found: PlaceChanges | None, _: object) -> int | None:
    if found is None:
        return None  # the caller now loads the whole place
    each = (fact for facts in found.facts.values() for fact in facts)
    return _values(fact for fact in each if not isinstance(fact, str))


class _Restricted:
    """Builds a method of a view, which checks the places of a call, forwards it and reports it.

    Args:
        operation: The name of its event; None reports nothing.
        writes: Whether it raises outside the boundary and in a read-only view; else it returns
            the result of `nothing` there.
        nothing: See `writes`.
        counts: Returns the `count` of its event from the result and the first argument; None if
            the call is only a step of another operation, and reports nothing.
    """

    def __init__(
        self,
        operation: MemoryOperation | None = None,
        *,
        writes: bool = False,
        nothing: Callable[[], object] = list,
        counts: Callable[[Any, Any], int | None] = lambda result, _: _values(result),
    ) -> None:
        self._operation = operation
        self._writes = writes
        self._nothing = nothing
        self._counts = counts

    def __set_name__(self, view: "type[_View]", name: str) -> None:
        setattr(view, name, self._method(getattr(super(view, view), name)))

    def _method(self, function: Callable[..., Any]) -> Callable[..., Any]:
        form, name = signature(function), function.__name__
        names = [*form.parameters][1:]
        wanted = next(each for each in _WHERE if each[0] in names)
        positions = [(each, names.index(each)) for each in wanted]

        @wraps(function)
        async def method(view: "_View", *given: Any, **options: Any) -> Any:
            given = tuple(list(each) if isinstance(each, Iterator) else each for each in given)
            try:
                where = [given[at] if at < len(given) else options[each] for each, at in positions]
            except KeyError:
                form.bind(view, *given, **options)  # raises, as the place is missing
                raise

            async def checked() -> Any:
                view._check_open()
                if self._writes and view._is_view:
                    check_writable(_places(where)[0], view._boundary)
                elif not view._allows(where):
                    await checkpoint()
                    return self._nothing()
                return await getattr(view._viewed, name)(*given, **options)

            if self._operation is None or not view._events.listeners:
                return await checked()
            async with view._events.operation(self._operation) as progress:
                progress.places = _places(where)
                result = await checked()
                count = self._counts(result, given[0] if given else None)
                progress.count, progress.is_handed_over = count or 0, count is None
                return result

        return method


_WHERE = (("places",), ("place",), ("subject", "scope"))
"""The arguments with the places of a method."""


def _places(where: Sequence[Any]) -> Sequence[Place]:
    if len(where) > 1:
        return [Place(where[1], where[0])]
    return where if isinstance(where[0], Place) else where[0]


class _Narrowed(_Restricted):
    """Makes a method about all places of a store, or of those `within` a boundary."""

    def _method(self, function: Callable[..., Any]) -> Callable[..., Any]:
        form, name = signature(function), function.__name__

        @wraps(function)
        async def method(view: "_View", *given: Any, **options: Any) -> Any:
            call = form.bind(view, *given, **options)
            if "within" in form.parameters:
                within = call.arguments.get("within", UNBOUNDED)
                call.arguments["within"] = within.within(view._boundary)

            async def checked() -> Any:
                view._check_open()
                return await getattr(view._viewed, name)(*call.args[1:], **call.kwargs)

            if self._operation is None:
                return await checked()
            async with view._events.operation(self._operation) as progress:
                result = await checked()
                progress.count = len(result)
                return result

        return method


_restricted: Any = _Restricted
_narrowed: Any = _Narrowed
"""For type checkers: what replaces a method has its signature."""


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

    def _allows(self, where: Sequence[Any]) -> bool:
        """Return whether places may be read: a subject and a scope, a place, or a list of them."""
        if not self._is_view:
            return True
        if len(where) > 1:
            return self._boundary.allows(identity_of(where[0], where[1]))
        return all(self._boundary.allows(each.identity) for each in _places(where))

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

    save = _restricted(_SAVE, writes=True, counts=lambda _, fact: len(fact.values))
    save_many = _restricted(_SAVE, writes=True, counts=lambda _, facts: _values(facts))
    learn = _restricted(
        _SAVE, writes=True, counts=lambda done, facts: 0 if done.is_erased else _values(facts)
    )
    load = _restricted(_LOAD)
    load_all = _restricted(_LOAD)
    find = _restricted(
        _LOAD, nothing=lambda: None, counts=lambda fact, _: len(fact.values) if fact else 0
    )
    load_by_description = _restricted(_LOAD)
    proposals = _restricted(_LOAD, counts=lambda found, _: _values(each.fact for each in found))
    history = _restricted(
        _HISTORY, counts=lambda found, _: _values(each.fact for each in found if each.fact)
    )
    entries = _restricted(_HISTORY, counts=_length)
    forget = _restricted(_FORGET, writes=True, counts=lambda count, _: int(count))
    erase = _restricted(
        MemoryOperation.ERASE, writes=True, counts=lambda receipt, _: receipt.count or 0
    )
    replay = amend = amend_current = rewrite = _restricted(_SAVE, writes=True, counts=_number)
    erased_at = read_index = add_vectors = turn_candidates = _restricted(nothing=lambda: None)
    # Indexes and vectors are no facts: a read-only view may write them.
    write_index = is_searched = _restricted(nothing=lambda: False)
    facts_to_embed = _restricted(nothing=dict)
    version = _restricted(nothing=str)
    moment = _restricted(nothing=lambda: Moment(None))
    changes = _restricted(_LOAD, nothing=lambda: None, counts=_changed)
    candidates = _restricted(
        _LOAD, nothing=lambda: None, counts=lambda found, _: len(found.candidates) if found else 0
    )
    places = list_places = _narrowed(MemoryOperation.LIST)
    # Definitions contain nothing of a user.
    concepts = begin = _narrowed()

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
    async def watch(
        self,
        places: Iterable[Place],
        *,
        since: datetime | str | None = None,
        concepts: Iterable[Concept[Any, Any]] = (),
    ) -> AsyncGenerator[FactChange]:
        inside = [each for each in checked_places(places) if self._allows([each])]
        found = self._store.watch(inside, since=since, concepts=concepts)
        async with aclosing(found) as changes:
            async for change in changes:
                async with self._events.operation(MemoryOperation.HISTORY, [change.place]) as done:
                    self._check_open()
                    done.count = 1
                yield change

    async def define(self, concepts: Iterable[Definition]) -> None:
        """Store the definitions of a program's concepts, unless this is a read-only view."""
        self._check_open()
        if self._boundary.is_read_only:
            raise MemoryAccessError("This view is read-only, so it cannot define concepts")
        await self._store.define(concepts)

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

    append = _restricted(_SAVE, writes=True, counts=_length)
    turns = _restricted(_LOAD, counts=_length)
    conversations = _restricted(MemoryOperation.LIST, counts=_length)
    remove = _restricted(_FORGET, writes=True, counts=_number)
    lines = _restricted(_LOAD, nothing=dict, counts=_length)
    removed_at = _restricted(nothing=lambda: None)
    rewrite = _restricted(_SAVE, writes=True, counts=lambda _, __: 0)
    # `take` gives only tasks inside the boundary.
    take = learnt = failed = retry = state = _narrowed()

    @property
    def _viewed(self) -> ConversationStore:
        return self._store.conversations

    @override
    async def changes(self, since: Mapping[Place, object]) -> dict[Place, TurnChanges]:
        self._check_open()
        inside = {place: each for place, each in since.items() if self._allows([place])}
        return await self._viewed.changes(inside)

    @override
    async def states(self, known: Collection[str] = ()) -> dict[str, tuple[Place, str] | None]:
        self._check_open()
        # Known conversations are listed too: only their places show whether they are inside.
        found = await self._viewed.states(() if self._is_view else known)
        return {
            state: None if state in known else named
            for state, named in found.items()
            if named is None or self._allows([named[0]])
        }


MANY = 500
"""More facts than these are resolved and written in a worker thread: 1,000 take 10 ms."""


class FactReader:
    """Reads many places concurrently; the first failure cancels the other reads and is raised."""

    def __init__(
        self, provider: AgentMemoryProvider, concepts: Iterable[Concept[Any, Any]] = ()
    ) -> None:
        self._store = as_store(provider)
        self._concepts = {concept.keyword: concept for concept in concepts}
        self._workers = Workers()

    @property
    def concepts(self) -> Mapping[str, Concept[Any, Any]]:
        return self._concepts

    async def concept(self, concept: Concept[Any, L], places: Sequence[Place]) -> Resolution[L]:
        placed, unreadable = _together(await each_of(partial(self._load, concept), places))
        return resolve(placed, unreadable)

    async def everything(self, places: Sequence[Place]) -> Resolution[AnyFact]:
        placed, unreadable = await self.found(places)
        if len(placed) > MANY:
            return await self._workers.run(lambda: resolve(placed, unreadable))
        return resolve(placed, unreadable)

    async def found(
        self, places: Sequence[Place], concepts: Iterable[Concept[Any, Any]] = ()
    ) -> "_Found[AnyFact]":
        known = self._concepts | {concept.keyword: concept for concept in concepts}
        return _together(await each_of(lambda place: self._load_all(place, known), places))

    async def as_stored(self, places: Sequence[Place]) -> list[PlacedFact]:
        """Return all current facts of the places, unresolved; misfits as plain JSON."""

        async def read(place: Place) -> list[PlacedFact]:
            known = self._concepts.values()
            facts = await self._store.load_all(place.subject, place.scope, concepts=known)
            return [PlacedFact(place, fact) for fact in facts]

        return [placed for found in await each_of(read, places) for placed in found]

    async def changes(self, place: Place, since: str) -> PlaceChanges | None:
        """Return a place's changes since a version; None if unknown, or a value is a misfit."""
        try:
            return await self._store.changes(
                place.subject, place.scope, since=since, concepts=self._concepts.values()
            )
        except StoredFactError:
            return None

    async def _load(self, concept: Concept[Any, L], place: Place) -> "_Found[L]":
        try:
            facts: list[Any] = await self._store.load(concept, place.subject, place.scope)
        except StoredFactError:  # read the others of its values, and find the misfits
            facts = await self._store.load_all(place.subject, place.scope, concepts=[concept])
            facts = [fact for fact in facts if fact.concept.keyword == concept.keyword]
        return _separated(place, facts, {concept.keyword: concept})

    async def _load_all(
        self, place: Place, known: Mapping[str, Concept[Any, Any]]
    ) -> "_Found[AnyFact]":
        facts = await self._store.load_all(place.subject, place.scope, concepts=known.values())
        if len(facts) > MANY:
            return await self._workers.run(lambda: _separated(place, facts, known))
        return _separated(place, facts, known)


_Found: TypeAlias = tuple[list[PlacedFact[L]], list[UnreadableConcept]]


def _separated(
    place: Place, facts: Iterable[Any], known: Mapping[str, Concept[Any, Any]]
) -> "_Found[Any]":
    """Separate the facts of a place from those that a store returned as plain JSON."""
    placed: list[PlacedFact[Any]] = []
    misfits: dict[str, UnreadableConcept] = {}
    for fact in facts:
        declared = known.get(fact.concept.keyword)
        if declared is None or not is_misfit(fact, declared):
            placed.append(PlacedFact(place, fact))
            continue
        count = len(fact.values)
        before = misfits.get(declared.keyword)
        misfits[declared.keyword] = (
            UnreadableConcept(place, declared.keyword, misfit_of(fact, declared), count)
            if before is None
            else replace(before, count=before.count + count)
        )
    return placed, list(misfits.values())


def _together(found: Iterable["_Found[L]"]) -> "_Found[L]":
    placed: list[PlacedFact[L]] = []
    unreadable: list[UnreadableConcept] = []
    for facts, misfits in found:
        placed += facts
        unreadable += misfits
    return placed, unreadable


async def each_of(read: Callable[[Place], Awaitable[R]], places: Sequence[Place]) -> list[R]:
    """Call `read` for all places concurrently; return the results in the order of places."""
    if len(places) == 1:
        return [await read(places[0])]
    results: dict[int, R] = {}
    failures: list[Exception] = []

    async def run(index: int, place: Place) -> None:
        try:
            results[index] = await read(place)
        except Exception as exc:  # noqa: BLE001 - raised below, without an exception group
            failures.append(exc)
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for index, place in enumerate(places):
            tasks.start_soon(run, index, place)
    if failures:
        raise failures[0]
    return [results[index] for index in range(len(places))]
