"""FactEmbedding: embeds queries and new facts for semantic search.

EmbeddingRequests sends the texts to the embedder, and finds those that it refuses.
"""

from array import array
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from json import JSONDecodeError
from logging import getLogger
from typing import TypeAlias, TypeVar

from anyio import (
    CancelScope,
    Lock,
    Semaphore,
    WouldBlock,
    create_task_group,
    current_time,
    get_cancelled_exc_class,
    move_on_after,
)

from factmem._concurrency import PerLoop
from factmem.embedding.base import Embedder, QueryEmbedder, checked_vectors
from factmem.errors import EmbeddingError
from factmem.events import MemoryEvents, MemoryOperation
from factmem.models.places import Identity, Place
from factmem.providers.store import FactStore
from factmem.recall._documents import LONGEST_TEXT, meaning_of
from factmem.recall._place_cache import IndexCache, PlaceCache, PlacesIndex, Snapshots
from factmem.recall._place_vectors import PlaceVectors, unit

R = TypeVar("R")

_MOST_SEARCHING = 32
"""The maximum number of requests per recall to find refused texts. One among 512 takes up to 20."""

_REFUSALS = frozenset({400, 413, 422})
"""The HTTP statuses for texts that are too long, too many in one request, or not allowed."""

_CRASHES = frozenset({500})
"""The HTTP statuses that local servers return for such texts too, and for temporary failures."""

_HARMLESS = "test"
"""A harmless text. If the endpoint refuses it too, the facts are not the cause."""

Receive: TypeAlias = Callable[[Mapping[bytes, Sequence[float] | None]], object]
"""Takes vectors by the digests of their texts; None for a text that the embedder refused."""

_Embed: TypeAlias = Callable[[Sequence[str]], Awaitable[object]]


@dataclass(slots=True)
class EmbeddingCost:
    """The requests of one recall to the embedder."""

    calls: int = 0
    texts: int = 0
    seconds: float = 0.0
    """The time that the recall has waited for vectors, in seconds."""
    searching: int = 0
    """The calls that searched for refused texts."""
    refusal: Exception | None = None
    """The error for a refused text, if this recall found one."""


class EmbeddingRequests:
    """Sends requests to an embedder. Any number of tasks and event loops may call an instance."""

    def __init__(self, embedder: Embedder, cache: IndexCache, events: MemoryEvents) -> None:
        self._embedder = embedder
        self._cache = cache
        self._events = events

    async def embed_questions(
        self, texts: Sequence[str], places: Sequence[Place], cost: EmbeddingCost
    ) -> Sequence[Sequence[float]]:
        """Return a vector for each question, with one request."""
        embedder = self._embedder
        embed = embedder.embed_queries if isinstance(embedder, QueryEmbedder) else embedder.embed
        return await self._request(embed, texts, places, embedder.dimensions, cost)

    async def embed_facts(
        self,
        texts: Mapping[bytes, str],
        place: Place,
        dimensions: int,
        model: str,
        *,
        receive: Receive,
        cost: EmbeddingCost,
    ) -> None:
        """Embed texts and pass their vectors to `receive`, normally with one request.

        If the embedder refuses texts, they are found by halving the batch and received as refused;
        the others get their vectors.

        Raises:
            EmbeddingError: The embedder failed, or refused too many texts to find all of them.
                Vectors and refusals received before are kept.
        """

        async def ask(texts: Sequence[str]) -> Sequence[Sequence[float]]:
            given = await self._request(self._embedder.embed, texts, [place], dimensions, cost)
            if self._embedder.model != model:
                raise EmbeddingError(
                    f"The embedder switched from {model!r} to another model during a request: the "
                    f"next recall embeds all texts with that one"
                )
            return given

        async def take(texts: Mapping[bytes, str]) -> None:
            given = dict(zip(texts, await ask([*texts.values()]), strict=True))
            await self._cache.work(lambda: receive(given))

        try:
            await take(texts)
        except Exception as exc:  # embedders raise their own errors; all but refusals are re-raised
            if not _may_be_of_the_input(exc) or cost.searching >= _MOST_SEARCHING:
                raise
            cost.searching += 1
            await ask([_HARMLESS])  # raises if the endpoint itself fails, and not the texts
            await _find_refused(texts, exc, take, receive, cost)

    async def _request(
        self,
        embed: _Embed,
        texts: Sequence[str],
        places: Sequence[Place],
        dimensions: int | None,
        cost: EmbeddingCost,
    ) -> Sequence[Sequence[float]]:
        """Send one request. Its cost counts even if it fails."""
        cost.calls += 1
        cost.texts += len(texts)
        async with self._events.operation(MemoryOperation.EMBED, places) as progress:
            progress.count, progress.embedding_calls = len(texts), 1
            given, model = await embed(texts), self._embedder.model
            check = partial(checked_vectors, count=len(texts), dimensions=dimensions, model=model)
            return await self._cache.work(lambda: check(given))


async def _find_refused(
    texts: Mapping[bytes, str],
    failure: Exception,
    take: Callable[[Mapping[bytes, str]], Awaitable[None]],
    receive: Receive,
    cost: EmbeddingCost,
) -> None:
    """Find refused texts by halving, and take the vectors of the others."""

    async def refusal(part: Mapping[bytes, str]) -> Exception | None:
        if cost.searching >= _MOST_SEARCHING:
            raise failure
        cost.searching += 1
        try:
            await take(part)
        except Exception as exc:  # as above
            if not _may_be_of_the_input(exc):
                raise
            return exc
        return None

    async def search(digests: Sequence[bytes], latest: Exception) -> None:
        if len(digests) == 1:
            (digest,) = digests
            if _is_of_the_input(latest) or await refusal({digest: texts[digest]}) is not None:
                receive({digest: None})
                cost.refusal = failure
            return
        middle = len(digests) // 2
        for half in (digests[:middle], digests[middle:]):
            if again := await refusal({each: texts[each] for each in half}):
                await search(half, again)

    await search([*texts], failure)


def _may_be_of_the_input(exc: Exception) -> bool:
    """Whether the input may be the cause of a failure, rather than a time-out, a quota or a key."""
    status, cause = _status_of(exc), _cause_of(exc)
    if status is not None:
        return status in _REFUSALS | _CRASHES
    # A custom embedder or function. A JSONDecodeError is about the response, not the input.
    is_likely = isinstance(cause, ValueError | RuntimeError | LookupError)
    return is_likely and not isinstance(cause, JSONDecodeError)


def _is_of_the_input(exc: Exception) -> bool:
    """Whether the error is certainly about the input, so that no single text needs a retry."""
    status = _status_of(exc)
    return isinstance(_cause_of(exc), ValueError) if status is None else status in _REFUSALS


def _cause_of(exc: Exception) -> BaseException | None:
    return exc.__cause__ if isinstance(exc, EmbeddingError) else exc


def _status_of(exc: Exception) -> int | None:
    """Return the HTTP status that an SDK attached to an exception; None without one."""
    cause = _cause_of(exc)
    for holder in (exc, cause, getattr(cause, "response", None)):
        for name in ("status", "status_code"):
            status: object = getattr(holder, name, None)
            if isinstance(status, int):
                return status
    return None


_logger = getLogger(__name__)

_BATCH = 512
"""The number of texts in a batch. The vectors of a batch are kept if a later batch fails."""
_MOST_QUESTIONS = 256

_SECONDS = 30.0
"""The time limit of a recall for vectors: for the embedder, and for other recalls that embed facts
of the same place. After it the recall compares only words."""

_AT_ONCE = 4
"""The number of places that one recall embeds concurrently."""


class FactEmbedding:
    """Embeds each text once and caches the vectors, in the store if it supports that.

    Vectors of queries are cached only in this instance, because another view must not learn which
    questions were asked.
    """

    def __init__(
        self, embedder: Embedder, store: FactStore, cache: IndexCache, events: MemoryEvents
    ) -> None:
        self._embedder = embedder
        self._requests = EmbeddingRequests(embedder, cache, events)
        self._store = store
        self._cache = cache
        self._storing: PerLoop[Lock] = PerLoop(Lock)
        """Held by the task of an event loop that embeds facts for a store."""
        self._questions: Mapping[tuple[str, str], array[float]] = {}
        """The vectors of the last queries, by model and text; replaced, never mutated."""

    @property
    def model(self) -> str:
        """The model of the vectors."""
        return self._embedder.model

    async def vectors(
        self, texts: Sequence[str], index: PlacesIndex, snapshots: Snapshots, cost: EmbeddingCost
    ) -> "list[array[float]]":
        """Embed the queries, and all facts without a vector; return the vectors of the queries.

        The vectors have length 1. Facts that the embedder refuses have no vector. Queries are
        embedded first because their vectors show the dimensions of the model.

        Raises:
            EmbeddingError: The embedder failed or timed out. Vectors received before are kept.
        """

        async def embed() -> "list[array[float]]":
            vectors = await self._embed_questions(texts, [*index.places.values()], cost)
            model, dimensions = self._embedder.model, len(vectors[0])
            if not all(
                cache.vectors.are_whole(snapshots[identity].number, model, dimensions)
                for identity, cache in index.caches.items()
            ):
                await self._embed_places(index, snapshots, dimensions, cost)
            return vectors

        return await self._in_time(embed, cost)

    async def embed_questions(
        self, texts: Sequence[str], places: Sequence[Place], cost: EmbeddingCost
    ) -> "list[array[float]]":
        """Return a vector of length 1 for each query."""
        return await self._in_time(lambda: self._embed_questions(texts, places, cost), cost)

    async def embed_missing(
        self,
        vectors: "Sequence[array[float]]",
        places: Sequence[Place],
        store: FactStore,
        cost: EmbeddingCost,
    ) -> "Sequence[array[float]]":
        """Embed the facts without a vector in a store; return the vectors of the queries.

        Raises:
            EmbeddingError: The embedder failed or timed out. Vectors received before are kept.
        """

        async def embed() -> "Sequence[array[float]]":
            for place in places:
                await self._embed_stored(place, store, len(vectors[0]), cost)
            return vectors

        return await self._in_time(embed, cost)

    async def _embed_stored(
        self, place: Place, store: FactStore, dimensions: int, cost: EmbeddingCost
    ) -> None:
        """Embed the facts of a place that have no vector in a store."""
        model, entity = self._embedder.model, place.subject.entity
        vectors: dict[bytes, Sequence[float] | None] = {}

        def receive(given: Mapping[bytes, Sequence[float] | None]) -> None:
            for each, vector in given.items():
                vectors[each] = None if vector is None else unit(vector)

        async with self._storing.get():
            while facts := await store.facts_to_embed(
                place, model=model, dimensions=dimensions, limit=_BATCH
            ):
                texts = {each: meaning_of(fact, entity) for each, fact in facts.items()}
                vectors = {}
                try:
                    await self._requests.embed_facts(
                        texts, place, dimensions, model, receive=receive, cost=cost
                    )
                finally:
                    with CancelScope(shield=True):
                        await store.add_vectors(place, vectors, model=model, dimensions=dimensions)

    async def _in_time(self, embed: Callable[[], Awaitable[R]], cost: EmbeddingCost) -> R:
        """Run `embed` with the rest of the recall's time limit for vectors."""
        started = current_time()
        with move_on_after(_SECONDS - cost.seconds):
            try:
                return await embed()
            except Exception:
                self._questions = {}  # the model may have changed
                raise
            finally:
                cost.seconds += current_time() - started
        raise EmbeddingError(
            f"{self._embedder.model!r} did not return all vectors within {_SECONDS:g} s. The "
            f"vectors received are kept, and the next recall embeds the rest"
        )

    async def _embed_questions(
        self, texts: Sequence[str], places: Sequence[Place], cost: EmbeddingCost
    ) -> "list[array[float]]":
        cut = [text[:LONGEST_TEXT] for text in texts]
        model, known = self._embedder.model, self._questions
        new = [text for text in dict.fromkeys(cut) if (model, text) not in known]
        if new:
            vectors = await self._requests.embed_questions(new, places, cost)
            fresh = {(model, text): unit(each) for text, each in zip(new, vectors, strict=True)}
            known = {**known, **fresh}
            latest = [*{**self._questions, **fresh}.items()][-_MOST_QUESTIONS:]
            self._questions = dict(latest)
        return [known[model, text] for text in cut]

    async def _embed_places(
        self, index: PlacesIndex, snapshots: Snapshots, dimensions: int, cost: EmbeddingCost
    ) -> None:
        """Embed the facts of places that lack vectors, up to four places concurrently.

        Each place has its own requests, so that a request never mixes the texts of two users.
        """
        model = self._embedder.model
        turns, failures, at_work = Semaphore(_AT_ONCE), list[BaseException](), set[Identity]()

        async def do(place: Place, cache: PlaceCache) -> None:
            async with turns:
                try:
                    if not failures:
                        await self._embed_place(place, cache, dimensions, cost)
                except get_cancelled_exc_class():
                    raise
                except BaseException as exc:  # noqa: BLE001 - raised after the running ones end
                    failures.append(exc)
                    if not isinstance(exc, Exception):  # a group would lose the code of SystemExit
                        group.cancel_scope.cancel()
            at_work.remove(place.identity)

        async with create_task_group() as group:
            for identity, place in index.places.items():
                cache = index.caches[identity]
                if not cache.vectors.are_whole(snapshots[identity].number, model, dimensions):
                    at_work.add(identity)
                    group.start_soon(do, place, cache)
        if failures:
            raise next((each for each in failures if not isinstance(each, Exception)), failures[0])
        if at_work:  # an embedder that raises CancelledError itself ends its asyncio task silently
            raise EmbeddingError(
                f"A request to {model!r} was cancelled from outside; the next recall repeats it"
            )

    async def _embed_place(
        self, place: Place, cache: PlaceCache, dimensions: int, cost: EmbeddingCost
    ) -> None:
        model, vectors, work = self._embedder.model, cache.vectors, self._cache.work
        async with cache.embedding.get():
            snapshot = cache.snapshot
            if vectors.are_whole(snapshot.number, model, dimensions):
                return  # another task embedded it while this one waited
            if not vectors.is_looked_up or not vectors.are_of(model, dimensions):
                await work(lambda: vectors.use(model, dimensions))
                await self._look_up(place, vectors, dimensions)
            digests, missing = await work(lambda: cache.to_embed(snapshot))
            await self._embed_texts(missing, place, vectors, dimensions, cost)
            worth = await work(lambda: vectors.settle(digests, snapshot.number))
            await self._write(place, vectors, snapshot.version, worth)

    async def keep(self, place: Place, cache: PlaceCache) -> None:
        """Write the vectors of a place to the store, even if only a few have changed.

        Skips a place that another task is about to write.
        """
        lock = cache.embedding.get()
        try:
            lock.acquire_nowait()
        except WouldBlock:
            return
        try:
            snapshot, vectors = cache.snapshot, cache.vectors
            digests = (await self._cache.work(snapshot.by_digest)).keys()
            worth = await self._cache.work(lambda: vectors.settle(digests, is_last=True))
            await self._write(place, vectors, snapshot.version, worth)
        finally:
            lock.release()

    async def _look_up(self, place: Place, vectors: PlaceVectors, dimensions: int) -> None:
        """Load the stored index, once for each model."""
        if vectors.is_looked_up:
            return
        index = None
        try:
            index = await self._store.read_index(place.subject, place.scope)
        except Exception as exc:  # noqa: BLE001 - without it, facts are embedded again
            _logger.warning("An index could not be read: %s", type(exc).__name__)
        await self._cache.work(lambda: vectors.take_index(index, dimensions))

    async def _embed_texts(
        self,
        texts: Mapping[bytes, str],
        place: Place,
        vectors: PlaceVectors,
        dimensions: int,
        cost: EmbeddingCost,
    ) -> None:
        """Embed texts in batches."""
        digests = list(texts)
        while digests:
            cut, size = vectors.cut, max(_BATCH // vectors.cut, 1)
            vectors.cut = min(4 * cut, _BATCH)  # if this request fails, smaller batches come next
            batch = {each: texts[each] for each in digests[:size]}
            await self._requests.embed_facts(
                batch, place, dimensions, vectors.model, receive=vectors.add, cost=cost
            )
            vectors.cut = max(cut // 2, 1)
            del digests[:size]

    async def _write(
        self,
        place: Place,
        vectors: PlaceVectors,
        version: str | None,
        worth: tuple[bytes, frozenset[bytes]] | None,
    ) -> None:
        """Write the vectors to the store, unless the place changed meanwhile."""
        if version is None or worth is None:
            return
        index, new = worth
        try:
            async with self._cache.writing.get():
                is_written = await self._store.write_index(
                    place.subject, place.scope, index, version=version
                )
        except Exception as exc:  # noqa: BLE001 - the vectors stay in memory and are written later
            _logger.warning("An index could not be written: %s", type(exc).__name__)
        else:
            if is_written:
                vectors.mark_written(new)
