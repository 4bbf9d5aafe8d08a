"""FactReader: the current facts of several places, read from any provider.

Loads, recall, detection and review read places through it. Values that do not fit the type of a
declared concept never fail a read of several places: they are set apart as an `UnreadableConcept`,
and the rest is returned. It caches nothing; stores and recall have caches of their own.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, TypeVar

import anyio

from factmem._concurrency.threads import Workers
from factmem.errors import StoredFactError
from factmem.ledger._presentation import is_misfit, misfit_of
from factmem.ledger.resolution import PlacedFact, Resolution, UnreadableConcept, resolve
from factmem.models.facts import AnyFact, Concept, L
from factmem.models.places import Place
from factmem.providers.provider import AgentMemoryProvider, as_store
from factmem.providers.results import PlaceChanges

R = TypeVar("R")

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
