"""Comparing meanings: vectors for questions, and for the facts that have none yet."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from logging import getLogger
from typing import TypeVar

from anyio import to_thread

from factmem.embedding._vectors import checked_vectors
from factmem.embedding.base import Embedder, QueryEmbedder
from factmem.errors import FactmemError
from factmem.events import MemoryEvents, MemoryOperation
from factmem.models import Identity, Place
from factmem.provider import AgentMemoryProvider, IndexedStore
from factmem.recall.documents import LONGEST_TEXT
from factmem.recall.index import Similarities
from factmem.recall.mirror import PlaceMirror, PlaceState, PlaceTexts
from factmem.recall.places_index import PlacesIndex
from factmem.recall.warm import WarmIndexes

__all__ = ["EmbeddingCost", "Meanings", "similarities"]

R = TypeVar("R")

_logger = getLogger(__name__)

_BATCH = 512
"""How many texts an embedder is given at a time; what came back is kept if a later batch fails."""


@dataclass(slots=True)
class EmbeddingCost:
    """What one recall asked of the embedder."""

    calls: int = 0
    texts: int = 0


class Meanings:
    """Has texts embedded, each once, and keeps the vectors where the store can.

    Args:
        embedder: Makes the vectors.
        provider: Where facts are; an `IndexedStore` keeps their vectors for the next process.
        warm: What is known from earlier recalls, and the threads to work in.
        events: Who is told of each request to the embedder.
    """

    def __init__(
        self,
        embedder: Embedder,
        provider: AgentMemoryProvider,
        warm: WarmIndexes,
        events: MemoryEvents,
    ) -> None:
        self._embedder = embedder
        self._events = events
        self._store = provider if isinstance(provider, IndexedStore) else None
        self._warm = warm

    async def vectors(
        self,
        texts: Sequence[str],
        index: PlacesIndex,
        states: Mapping[Identity, PlaceState],
        cost: EmbeddingCost,
    ) -> list[Sequence[float]]:
        """Return a vector for each question, having made sure that all facts have theirs.

        Questions come first: they tell how many dimensions the model has now.

        Raises:
            EmbeddingError: The embedder failed; the vectors that it gave before are kept.
        """
        try:
            vectors = await self._of_questions(texts, [*index.places.values()], cost)
            await self._of_facts(index, states, len(vectors[0]), cost)
        except Exception:
            self._warm.questions.clear()  # perhaps they are of a model that is there no more
            raise
        return vectors

    async def _of_questions(
        self, texts: Sequence[str], places: Sequence[Place], cost: EmbeddingCost
    ) -> list[Sequence[float]]:
        cut = [text[:LONGEST_TEXT] for text in texts]
        known = self._warm.questions.of(cut)
        new = [text for text in dict.fromkeys(cut) if text not in known]
        if new:
            embedder, dimensions = self._embedder, self._embedder.dimensions
            async with self._request(places, len(new), cost):
                if isinstance(embedder, QueryEmbedder):
                    given = await embedder.embed_queries(new)
                else:
                    given = await embedder.embed(new)
                vectors = checked_vectors(
                    given, count=len(new), dimensions=dimensions, model=embedder.model
                )
            fresh = dict(zip(new, vectors, strict=True))
            self._warm.questions.add(fresh)
            known |= fresh
        return [known[text] for text in cut]

    async def _of_facts(
        self,
        index: PlacesIndex,
        states: Mapping[Identity, PlaceState],
        dimensions: int,
        cost: EmbeddingCost,
    ) -> None:
        model = self._embedder.model
        stale = [
            (place, index.mirrors[place.identity])
            for place in sorted(index.places.values(), key=_order)
            if not index.mirrors[place.identity].vectors.are_whole(
                states[place.identity].number, model, dimensions
            )
        ]
        if not stale:
            return
        async with AsyncExitStack() as held:
            wanting: list[_Wanting] = []
            for place, mirror in stale:  # in one order everywhere, so that nobody waits in a circle
                lock = mirror.embedding.get()
                await lock.acquire()
                if mirror.vectors.are_whole(mirror.state.number, model, dimensions):
                    lock.release()  # somebody has done it all while this one waited
                    continue
                held.callback(lock.release)
                wanting.append(await self._work(partial(_Wanting, place, mirror)))
            for each in wanting:
                each.mirror.vectors.use(model, dimensions)
                await self._look_up(each, dimensions)
            await self._embed(wanting, dimensions, cost)
            for each in wanting:
                await self._write(each, await self._work(each.done))

    async def _look_up(self, wanting: "_Wanting", dimensions: int) -> None:
        """Take what an earlier process has left in the store."""
        vectors, place = wanting.mirror.vectors, wanting.place
        if vectors.is_looked_up:
            return
        index = None
        if self._store is not None:
            try:
                index = await self._store.read_index(place.subject, place.scope)
            except FactmemError as exc:  # the vectors are made again
                _logger.warning("An index could not be read: %s", type(exc).__name__)
        await self._work(lambda: vectors.take_index(index, dimensions))

    async def _embed(
        self, wanting: "Sequence[_Wanting]", dimensions: int, cost: EmbeddingCost
    ) -> None:
        """Have the texts embedded that have no vector yet, those of several places together."""
        texts = await self._work(lambda: _texts(wanting))
        digests, places = list(texts), [each.place for each in wanting]
        for start in range(0, len(digests), _BATCH):
            batch = digests[start : start + _BATCH]
            async with self._request(places, len(batch), cost):
                given = await self._embedder.embed([texts[digest] for digest in batch])
                model = self._embedder.model
                await self._work(partial(_take, wanting, batch, given, dimensions, model))

    @asynccontextmanager
    async def _request(
        self, places: Sequence[Place], texts: int, cost: EmbeddingCost
    ) -> AsyncGenerator[None]:
        """Hold one request to the embedder: what it costs counts, however it ends."""
        cost.calls += 1
        cost.texts += texts
        async with self._events.operation(MemoryOperation.EMBED, places) as seen:
            seen.count, seen.embedding_calls = texts, 1
            yield

    async def _write(
        self, wanting: "_Wanting", worth: tuple[bytes, frozenset[bytes]] | None
    ) -> None:
        """Leave the vectors in the store, unless the place has changed meanwhile."""
        vectors, place, version = wanting.mirror.vectors, wanting.place, wanting.texts.version
        if self._store is None or version is None or worth is None:
            return
        index, new = worth
        try:
            is_written = await self._store.write_index(
                place.subject, place.scope, index, version=version
            )
        except FactmemError as exc:  # they are in memory, and written another time
            _logger.warning("An index could not be written: %s", type(exc).__name__)
        else:
            if is_written:
                vectors.written(new)

    async def _work(self, work: Callable[[], R]) -> R:
        """Do what takes processor time in a worker thread."""
        return await to_thread.run_sync(work, limiter=self._warm.workers.get())


class _Wanting:
    """A place of which some texts may have no vector."""

    def __init__(self, place: Place, mirror: PlaceMirror) -> None:
        self.place = place
        self.mirror = mirror
        self.texts: PlaceTexts = mirror.texts()
        self._missing: frozenset[bytes] = frozenset()

    def missing(self) -> dict[bytes, str]:
        """Return the texts that have no vector, by their digests."""
        missing = self.mirror.vectors.missing(self.texts.facts)
        self._missing = frozenset(missing)
        return self.texts.of(missing, self.place.subject.entity)

    def take(self, vectors: Mapping[bytes, Sequence[float]]) -> None:
        """Take in those vectors that are of its texts."""
        ours = {digest: vector for digest, vector in vectors.items() if digest in self._missing}
        self.mirror.vectors.add(ours)

    def done(self) -> tuple[bytes, frozenset[bytes]] | None:
        """Let go of what is not wanted any more; return what is to be written, as vectors do."""
        self.mirror.vectors.keep(self.texts.facts.keys(), self.texts.number)
        return self.mirror.vectors.worth_writing()


def _texts(wanting: Iterable[_Wanting]) -> dict[bytes, str]:
    """Return the texts without vectors of all places, each once."""
    texts: dict[bytes, str] = {}
    for each in wanting:
        texts |= each.missing()
    return texts


def _take(
    wanting: Iterable[_Wanting], batch: Sequence[bytes], given: object, dimensions: int, model: str
) -> None:
    """Check the vectors of a batch, and give each place those that it wants."""
    vectors = checked_vectors(given, count=len(batch), dimensions=dimensions, model=model)
    for each in wanting:
        each.take(dict(zip(batch, vectors, strict=True)))


def similarities(vectors: Sequence[Sequence[float]], index: PlacesIndex) -> list[Similarities]:
    """Return for each question the cosines with all texts. Takes processor time."""
    return [
        {
            identity: mirror.vectors.similarities(vector)
            for identity, mirror in index.mirrors.items()
        }
        for vector in vectors
    ]


def _order(place: Place) -> tuple[str, str, str, str]:
    kind, scope, subject, entity = place.identity
    return kind, scope, subject, entity or ""
