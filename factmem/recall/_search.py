"""FactSearch: the search for the facts that answer a question.

The search for what held at another time, for questions that name one.

Current facts are in indexes. What held at another time is read and indexed for one question, in
worker threads, and compared by words alone.
"""

from array import array
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from logging import getLogger
from time import perf_counter
from typing import Any, TypeAlias

from anyio import move_on_after

from factmem.embedding.base import Embedder
from factmem.errors import MissingExtraError
from factmem.events import MemoryEvents, OperationInProgress
from factmem.ledger.resolution import PlacedFact, UnreadableConcept, resolve
from factmem.models.facts import AnyFact, Concept
from factmem.models.places import Identity, Place
from factmem.models.when import EVER, TimeProvider, When, between
from factmem.providers._reader import FactReader, each_of
from factmem.providers.provider import is_complete
from factmem.providers.store import FactStore
from factmem.recall._documents import Span, asked_spans, clause_of_time
from factmem.recall._fact_index import FactIndex
from factmem.recall._place_cache import (
    IndexCache,
    PlaceCache,
    PlacesIndex,
    PlaceSnapshot,
    Snapshots,
)
from factmem.recall._place_vectors import numpy_or_none
from factmem.recall._semantic import EmbeddingCost, FactEmbedding
from factmem.recall._store_search import StoreMatches, question_of, ranked
from factmem.recall.match import Match, RecallQuery, RecallResult

MOST_FACTS = 10_000
"""The most current facts of places that are searched for what held at other times: that takes up to
a second, and 50 ms with 1,000."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST = 2
"""The most sentences, and the most times of each, that are searched. Each time reads the places."""


def asks_of_time(query: RecallQuery, now: datetime) -> bool:
    """Return whether a question names a time that may have other facts than now."""
    return bool(_times(query, now) or clause_of_time(query.text))


def _times(query: RecallQuery, now: datetime) -> list[Span]:
    """Return the times that a question names, without other years and the present day."""
    day = now.timestamp() - 86_400, now.timestamp() + 86_400
    spans = [each for each in asked_spans(query.text, now) if each.is_sure]
    return [
        each for each in spans if not day[0] < each.begin <= now.timestamp() < each.end < day[1]
    ]


async def held_then(
    store: FactStore,
    cache: IndexCache,
    places: Sequence[Place],
    queries: Sequence[RecallQuery],
    *,
    now: datetime,
    concepts: Iterable[Concept[Any, Any]],
) -> list[list[Match]]:
    """Return the matches of queries among what held at the time of their filter."""
    when = When.of(queries[0].filter.valid_at or "", "valid_at")
    held = await _held(store, places, when, concepts)

    def search() -> list[list[Match]]:
        index = _indexed(places, resolve(held).placed)
        return [index.search(query, now) for query in queries]

    return await cache.work(search)


async def held_beside(
    store: FactStore,
    cache: IndexCache,
    places: Sequence[Place],
    queries: Sequence[RecallQuery],
    *,
    now: datetime,
    is_past: Callable[[Place, AnyFact], bool],
) -> list[Match]:
    """Return the matches among what held at the times that questions name, and no longer holds.

    What was replaced has the time of that as its `until`. Values are plain JSON.
    """
    found: list[Match] = []
    for query in queries[:_MOST]:
        times = _times(query, now)
        if clause := clause_of_time(query.text):
            ever = await _held(store, places, EVER)
            index = await cache.work(partial(_indexed, places, ever))
            times += await cache.work(partial(index.periods_of, clause))
        for span in times[:_MOST]:
            held = await _held(store, places, _when(span))
            # Current facts only count how rare words are: without a past fact, nothing is found.
            if any(is_past(each.place, each.fact) for each in held):
                index = await cache.work(partial(_indexed, places, held))
                matches = await cache.work(partial(index.search, query, now))
                found += [each for each in matches if is_past(each.place, each.fact)]
    return found


async def _held(
    store: FactStore,
    places: Sequence[Place],
    when: When,
    concepts: Iterable[Concept[Any, Any]] = (),
) -> list[PlacedFact[AnyFact]]:
    """Return what held at a time."""

    async def read(place: Place) -> list[PlacedFact[AnyFact]]:
        about, where = place.subject, place.scope
        held = await store.load_all(about, where, concepts=concepts, valid_at=when)
        return [PlacedFact(place, each) for each in held]

    return [*chain.from_iterable(await each_of(read, places))]


def _indexed(places: Sequence[Place], placed: Iterable[PlacedFact[AnyFact]]) -> FactIndex:
    index = FactIndex(places)
    for each in placed:
        index.put(each.place.identity, each)
    return index


def _when(asked: Span) -> When:
    first, last = EVER.begin.timestamp(), EVER.end.timestamp()
    return between(*(_EPOCH + timedelta(seconds=min(max(at, first), last)) for at in asked[:2]))


_logger = getLogger(__name__)

_CLOSING_SECONDS = 5.0
"""The time limit for writing vectors when a memory is closed."""
_FAR = 0.0001
"""If a version takes more seconds, the store is in another process. In this one it takes 20 us."""


@dataclass(slots=True)
class _Progress:
    """The costs of a recall, and the failures that it continued without."""

    failures: list[Exception] = field(default_factory=list[Exception])
    cost: EmbeddingCost = field(default_factory=EmbeddingCost)

    def result(
        self,
        found: Sequence[list[Match]],
        unreadable: Iterable[UnreadableConcept],
        limit: int,
        *,
        is_semantic: bool,
        refused: int = 0,
    ) -> RecallResult:
        """Return the result of a recall with the matches of its queries."""
        return RecallResult(
            _merged(found, limit),
            is_semantic=is_semantic,
            failures=self.failures,
            unreadable=unreadable,
            embedding_calls=self.cost.calls,
            embedded_texts=self.cost.texts,
            refused_texts=refused,
        )

    def fall_back(self, failure: Exception, what: str) -> None:
        """Record a failure that the recall continues without."""
        kind = type(failure).__name__
        _logger.warning("%s failed; the recall continues without it: %s", what, kind)
        self.failures.append(failure)


_Embed: TypeAlias = "Callable[[FactEmbedding, list[str]], Awaitable[Sequence[array[float]]]]"


class FactSearch:
    """Searches the facts of one store, with indexes that are kept between searches.

    A place is read again only if its version changed, or if the store returns no versions. Views of
    one store may share the cache. A search runs in a worker thread. Any number of tasks, threads
    and event loops may call an instance.
    """

    def __init__(
        self,
        store: FactStore,
        reader: FactReader,
        cache: IndexCache,
        events: MemoryEvents,
        *,
        embedder: Embedder | None,
        clock: TimeProvider,
    ) -> None:
        self._store = store
        # A store indexes facts by the keyword that they were saved with.
        self._is_renaming = any(concept.was for concept in reader.concepts.values())
        self._reader = reader
        self._cache = cache
        self._embedding = (
            None if embedder is None else FactEmbedding(embedder, store, cache, events)
        )
        self._clock = clock

    async def recall(
        self,
        places: Sequence[Place],
        queries: Sequence[RecallQuery],
        operation: OperationInProgress,
    ) -> RecallResult:
        """Return the facts in the places that may answer a question, best first.

        Raises:
            StorageError: A place could not be read.
            MissingExtraError: There is an embedder and no numpy.
        """
        if not places:
            return RecallResult()
        if self._embedding is not None and numpy_or_none() is None:
            raise MissingExtraError(
                "Search by meaning needs the package numpy: pip install 'factmem[recall]'"
            )
        progress = _Progress()
        try:
            if queries[0].filter.valid_at is not None:
                now, concepts = self._clock(), self._reader.concepts.values()
                found = await held_then(
                    self._store, self._cache, places, queries, now=now, concepts=concepts
                )
                return progress.result(found, (), queries[0].limit, is_semantic=False)
            index = self._cache.of(places, has_meaning=self._embedding is not None)
            if not (self._is_renaming or index.is_complete):
                result = await self._in_store(index, queries, progress)
                if result is not None:
                    return result
            snapshots = await self._snapshots(index)
            vectors = None
            if any(each.topics for each in snapshots.values()):
                vectors = await self._try_embedding(
                    lambda embedding, texts: embedding.vectors(
                        texts, index, snapshots, progress.cost
                    ),
                    queries,
                    progress,
                )
            return await self._search_index(index, snapshots, queries, vectors, progress)
        finally:
            operation.embedding_calls = progress.cost.calls

    async def _snapshots(self, index: PlacesIndex) -> Snapshots:
        """Return the snapshot of each place; read the place again if it changed.

        A store in another process answers for several places together, so these are read
        concurrently.
        """

        async def read(place: Place) -> PlaceSnapshot:
            return await self._snapshot(place, index.caches[place.identity])

        first, *others = index.places.values()
        started = perf_counter()
        found = [await read(first)]
        if others and perf_counter() - started > _FAR:
            found += await each_of(read, others)
        else:
            found += [await read(place) for place in others]
        return dict(zip(index.places, found, strict=True))

    async def _snapshot(self, place: Place, cache: PlaceCache) -> PlaceSnapshot:
        snapshot, version = cache.snapshot, await self._version(place)
        if version is not None and version == snapshot.version:
            return snapshot
        async with cache.loading.get():
            number = cache.next_number()  # before the version, so the facts are not older than it
            snapshot, version = cache.snapshot, await self._version(place)
            since = snapshot.version
            if version is not None and version == since:
                return snapshot  # another task read the place while this one waited
            changes = None if since is None else await self._reader.changes(place, since)
            if since is not None and changes is not None:
                known, new = since, changes
                followed = await self._cache.work(lambda: cache.follow(number, known, new))
                if followed is not None:
                    return followed
            found, unreadable = await self._reader.found([place])
            facts = [placed.fact for placed in found]
            errors = {each.keyword: each.error for each in unreadable}
            return await self._cache.work(lambda: cache.take(number, version, facts, errors))

    async def _version(self, place: Place) -> str | None:
        return await self._store.version(place.subject, place.scope)

    async def _try_embedding(
        self, embed: _Embed, queries: Sequence[RecallQuery], progress: _Progress
    ) -> "Sequence[array[float]] | None":
        """Return the vectors of the queries; None without an embedder, or if it failed."""
        if self._embedding is None:
            return None
        try:
            return await embed(self._embedding, [query.text for query in queries])
        except MissingExtraError:
            raise
        except Exception as exc:  # noqa: BLE001 - custom embedders raise any error
            progress.fall_back(exc, "Embedding")
            return None
        finally:
            refusal = progress.cost.refusal
            if refusal is not None and refusal not in progress.failures:
                progress.fall_back(refusal, "Embedding a text")

    async def keep_vectors(self, is_ours: Callable[[Identity], bool]) -> None:
        """Write vectors to the store that it does not have yet, for at most 5 s, even if cancelled.

        Failures are logged and not raised, because the texts can be embedded again.
        """
        if self._embedding is None:
            return
        with move_on_after(_CLOSING_SECONDS, shield=True):
            for place, cache in self._cache.places():
                if not (cache.vectors.is_unsaved and is_ours(place.identity)):
                    continue
                try:
                    if await self._version(place) is None:
                        continue  # the store does not keep indexes
                    await self._snapshot(place, cache)  # the store accepts only the latest version
                    await self._embedding.keep(place, cache)
                except Exception as exc:  # noqa: BLE001 - for example, the store may be closed
                    _logger.info("Vectors were not written: %s", type(exc).__name__)

    async def _in_store(
        self, index: PlacesIndex, queries: Sequence[RecallQuery], progress: _Progress
    ) -> RecallResult | None:
        """Return the matches among the candidates of the store; None if it does not search.

        After some questions, each one adds a part of the places to the index in memory.
        """
        places = [*index.places.values()]
        if not await self._store.is_searched(places, meaning=self._embedding is not None):
            return None
        vectors = await self._try_embedding(
            lambda embedding, texts: embedding.embed_questions(texts, places, progress.cost),
            queries,
            progress,
        )
        found = await self._found_in_store(places, queries, vectors)
        lacking = frozenset[Identity]().union(*(each.unembedded for each in found or ()))
        if vectors is not None and lacking:
            left, known = [each for each in places if each.identity in lacking], vectors
            vectors = await self._try_embedding(
                lambda embedding, _: embedding.embed_missing(
                    known, left, self._store, progress.cost
                ),
                queries,
                progress,
            )
            found = await self._found_in_store(places, queries, vectors)
        if found is None:
            return None
        now, matches = self._clock(), [part.matches for part in found]
        timed = [each for each in queries if asks_of_time(each, now)]
        matches += await self._beside(
            places, timed, found[0].size, now, lambda _, fact: fact.until is not None
        )
        if self._embedding is None and index.is_worth_reading(found[0].size, len(queries)):
            await self._read_on(index)
        unreadable = {
            (each.place.identity, each.keyword): each for part in found for each in part.unreadable
        }
        return progress.result(
            matches,
            unreadable.values(),
            queries[0].limit,
            is_semantic=any(part.has_meaning for part in found),
        )

    async def _beside(
        self,
        places: Sequence[Place],
        timed: Sequence[RecallQuery],
        size: int,
        now: datetime,
        is_past: Callable[[Place, AnyFact], bool],
    ) -> list[list[Match]]:
        """Return what `held_beside` finds, unless places of that size are too large to read."""
        if not timed or size > MOST_FACTS or not is_complete(self._store):
            return []
        store, cache = self._store, self._cache
        return [await held_beside(store, cache, places, timed, now=now, is_past=is_past)]

    async def _read_on(self, index: PlacesIndex) -> None:
        turn = index.turn.get()
        if not turn.locked():  # no question waits for the part of another one
            async with turn:
                await self._snapshots(index)
                await self._cache.work(index.read_on)

    async def _found_in_store(
        self,
        places: Sequence[Place],
        queries: Sequence[RecallQuery],
        vectors: "Sequence[array[float]] | None",
    ) -> list[StoreMatches] | None:
        given = [None] * len(queries) if vectors is None else vectors
        now, concepts = self._clock(), self._reader.concepts
        model = "" if self._embedding is None else self._embedding.model
        found = list[StoreMatches]()
        for query, vector in zip(queries, given, strict=True):
            asked = partial(question_of, places, query, now, model=model, vector=vector)
            question = await self._cache.work(asked)
            answer = await self._store.candidates(places, question)
            if answer is None:
                return None
            rank = partial(ranked, places, query, now, answer, concepts)
            found.append(await self._cache.work(rank))
        return found

    async def _search_index(
        self,
        index: PlacesIndex,
        snapshots: Snapshots,
        queries: Sequence[RecallQuery],
        vectors: "Sequence[array[float]] | None",
        progress: _Progress,
    ) -> RecallResult:
        now = self._clock()
        async with index.turn.get():
            (matches, unreadable), timed = await self._cache.work(
                lambda: (
                    index.search(snapshots, queries, now, vectors),
                    [each for each in queries if asks_of_time(each, now)],
                )
            )
        matches += await self._beside(
            [*index.places.values()],
            timed,
            len(index),
            now,
            lambda place, fact: not _is_current(place, fact, snapshots),
        )
        caches = () if self._embedding is None else index.caches.values()
        return progress.result(
            matches,
            unreadable,
            queries[0].limit,
            is_semantic=vectors is not None,
            refused=sum(cache.vectors.refused for cache in caches),
        )


def _is_current(place: Place, fact: AnyFact, snapshots: Snapshots) -> bool:
    return fact.id in snapshots[place.identity].facts(fact.concept.keyword)


def _merged(found: Sequence[list[Match]], limit: int) -> list[Match]:
    """Merge the matches of several questions; a fact keeps its best match."""
    if len(found) == 1:
        return found[0]
    best: dict[object, Match] = {}
    for match in (match for matches in found for match in matches):
        key = match.place.identity, match.fact.concept.keyword, match.fact.id
        if key not in best or best[key].score < match.score:
            best[key] = match
    return sorted(best.values(), key=lambda match: match.score, reverse=True)[:limit]
