"""Finding the facts that a question is about."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from logging import getLogger
from typing import TypeAlias, TypeVar

from anyio import move_on_after, to_thread

from factmem.embedding.base import Embedder
from factmem.errors import (
    ChatModelError,
    ExtractionError,
    MissingExtraError,
)
from factmem.events import MemoryEvents, OperationInProgress
from factmem.ledger.resolution import UnreadableConcept
from factmem.llm.base import ChatModel
from factmem.models.clock import TimeProvider
from factmem.models.places import Identity, Place
from factmem.prompt.tokens import estimate_tokens
from factmem.providers.base import AgentMemoryProvider
from factmem.providers.indexed import IndexedStore
from factmem.providers.reader import FactReader
from factmem.recall.embedding_requests import EmbeddingCost
from factmem.recall.index_cache import WarmIndexes
from factmem.recall.match import Match, RecallResult
from factmem.recall.place_cache import PlaceMirror, PlaceState
from factmem.recall.places_index import PlacesIndex
from factmem.recall.query import Depth, RecallQuery, RecallSettings
from factmem.recall.query_planning import RecallPlan, planned
from factmem.recall.semantic import Meanings, similarities
from factmem.usage import ONE_CALL, Usage

__all__ = ["FactSearch"]


_logger = getLogger(__name__)

R = TypeVar("R")

_States: TypeAlias = Mapping[Identity, PlaceState]
_numbers = count(1)

_CLOSING_SECONDS = 5.0


@dataclass(slots=True)
class _Course:
    """How a recall goes."""

    failures: list[Exception] = field(default_factory=list[Exception])
    cost: EmbeddingCost = field(default_factory=EmbeddingCost)
    plan: RecallPlan | None = None
    usage: Usage = field(default_factory=Usage)

    def fell_back(self, failure: Exception, what: str) -> None:
        """Note that something went wrong that is not needed for an answer."""
        _logger.warning("%s failed, and a recall goes on without: %s", what, type(failure).__name__)
        self.failures.append(failure)


class FactSearch:
    """Searches the facts of one provider; indexes stay warm between searches.

    Places are asked for their version, and read again only when they changed. Searching takes
    place in worker threads. Any number of tasks, threads and event loops may call an instance.

    Args:
        provider: Where facts are. Of one that is no `IndexedStore`, places are read each time.
        reader: Reads the same provider.
        warm: What is kept between searches; may be shared by searches of views of one provider.
        events: Who is told of requests to the embedder.
        embedder: Makes vectors; without one only words are compared.
        chat_model: Takes long questions apart.
        settings: What holds where a call does not say.
        clock: Tells the time that recency is reckoned from.
    """

    def __init__(
        self,
        provider: AgentMemoryProvider,
        reader: FactReader,
        warm: WarmIndexes,
        events: MemoryEvents,
        *,
        embedder: Embedder | None,
        chat_model: ChatModel | None,
        settings: RecallSettings,
        clock: TimeProvider,
    ) -> None:
        self._store = provider if isinstance(provider, IndexedStore) else None
        self._reader = reader
        self._warm = warm
        self._meanings = (
            None
            if embedder is None
            else Meanings(embedder, provider, warm, events, seconds=settings.embedding_seconds)
        )
        self._chat_model = chat_model
        self._settings = settings
        self._clock = clock

    async def recall(
        self,
        places: Sequence[Place],
        query: RecallQuery,
        depth: Depth,
        parts: Sequence[RecallQuery],
        seen: OperationInProgress,
    ) -> RecallResult:
        """Return the facts in the places that a question may be about, best first.

        Args:
            places: Where to look.
            query: What to look for.
            depth: Whether the chat model takes it apart.
            parts: What to look for in its stead, unless the chat model has taken it apart.
            seen: Where to note what it costs, however it ends.

        Raises:
            ValueError: `depth` is "deep", and there is no chat model.
            StorageError: A place could not be read.
        """
        is_deep = self._is_deep(query, depth)
        if not places:
            return RecallResult()
        course = _Course()
        try:
            return await self._recalled(places, query, is_deep, parts, course)
        finally:
            seen.spent(course.usage)
            seen.embedding_calls = course.cost.calls

    async def _recalled(
        self,
        places: Sequence[Place],
        query: RecallQuery,
        is_deep: bool,
        parts: Sequence[RecallQuery],
        course: _Course,
    ) -> RecallResult:
        index = self._warm.of(places, has_meaning=self._meanings is not None)
        states = await self._states(index)
        if not any(state.has_facts for state in states.values()):
            return RecallResult(unreadable=_unreadable(index, states))
        if is_deep and self._chat_model is not None:
            await self._take_apart(query, self._chat_model, index, course)
            states = await self._states(index)  # that took a while
        queries = [*parts] or [query]
        if course.plan is not None:
            queries = course.plan.queries
        vectors = await self._vectors(queries, index, states, course)
        return await self._searched(index, states, queries, vectors, course)

    def _is_deep(self, query: RecallQuery, depth: Depth) -> bool:
        if depth == "deep" and self._chat_model is None:
            raise ValueError("A deep recall takes a model: AgentMemory(..., chat_model=...)")
        is_long = depth == "auto" and estimate_tokens(query.text) > self._settings.auto_tokens
        return depth == "deep" or is_long

    async def _states(self, index: PlacesIndex) -> _States:
        """Return what is current in each place, read anew where it changed."""
        return {
            identity: await self._state(place, index.mirrors[identity])
            for identity, place in index.places.items()
        }

    async def _state(self, place: Place, mirror: PlaceMirror) -> PlaceState:
        state, version = mirror.state, await self._version(place)
        if version is not None and version == state.version:
            return state
        async with mirror.loading.get():
            number = next(_numbers)  # before the version is asked for, so that it is no older
            state, version = mirror.state, await self._version(place)
            if version is not None and version == state.version:
                return state
            followed = await self._followed(place, mirror, number, state)
            return followed or await self._read(place, mirror, number, version)

    async def _followed(
        self, place: Place, mirror: PlaceMirror, number: int, state: PlaceState
    ) -> PlaceState | None:
        """Have a mirror follow what has changed; None where all of the place is to be read."""
        since = state.version
        changes = None if since is None else await self._reader.changes(place, since)
        if since is None or changes is None:
            return None
        return await self._work(lambda: mirror.follow(number, since, changes))

    async def _read(
        self, place: Place, mirror: PlaceMirror, number: int, version: str | None
    ) -> PlaceState:
        found, unreadable = await self._reader.found([place])
        facts = [placed.fact for placed in found]
        errors = {each.keyword: each.error for each in unreadable}
        return await self._work(lambda: mirror.take(number, version, facts, errors))

    async def _work(self, work: Callable[[], R]) -> R:
        """Do what takes processor time in a worker thread."""
        return await to_thread.run_sync(work, limiter=self._warm.workers.get())

    async def _version(self, place: Place) -> str | None:
        if self._store is None:
            return None
        return await self._store.version(place.subject, place.scope)

    async def _take_apart(
        self, query: RecallQuery, chat_model: ChatModel, index: PlacesIndex, course: _Course
    ) -> None:
        subjects = [place.subject for place in index.places.values()]
        try:
            course.plan = await planned(
                query,
                chat_model,
                subjects,
                self._clock().date(),
                seconds=self._settings.planning_seconds,
            )
            course.usage += course.plan.usage
        except (ChatModelError, ExtractionError) as exc:
            course.usage += exc.usage
            course.fell_back(exc, "Taking a question apart")
        except Exception as exc:  # noqa: BLE001 - whatever it is, the question itself is answered
            course.usage += ONE_CALL
            course.fell_back(exc, "Taking a question apart")

    async def _vectors(
        self, queries: Sequence[RecallQuery], index: PlacesIndex, states: _States, course: _Course
    ) -> Sequence[Sequence[float]] | None:
        if self._meanings is None:
            return None
        texts = [query.text for query in queries]
        try:
            return await self._meanings.vectors(texts, index, states, course.cost)
        except MissingExtraError:
            raise
        except Exception as exc:  # noqa: BLE001 - embedders have errors of their own; words remain
            course.fell_back(exc, "Embedding")
            return None
        finally:
            refusal = course.cost.refusal
            if refusal is not None and refusal not in course.failures:
                course.fell_back(refusal, "Embedding a text")

    async def keep_vectors(self, is_ours: Callable[[Identity], bool]) -> None:
        """Leave vectors in the store that are not in it yet, also when cancelled: for 5 s at most.

        What fails is logged, and nothing is raised: the vectors can be made again.

        Args:
            is_ours: Tells of which places.
        """
        meanings = self._meanings
        if meanings is None:
            return
        with move_on_after(_CLOSING_SECONDS, shield=True):
            for place, mirror in self._warm.places():
                if not (mirror.vectors.is_unsaved and is_ours(place.identity)):
                    continue
                try:
                    if await self._version(place) is None:
                        continue  # the store keeps no index
                    await self._state(place, mirror)  # only what is of the latest version is taken
                    await meanings.keep(place, mirror)
                except Exception as exc:  # noqa: BLE001 - such as that the store is closed already
                    _logger.info("Vectors were not kept: %s", type(exc).__name__)

    async def _searched(
        self,
        index: PlacesIndex,
        states: _States,
        queries: Sequence[RecallQuery],
        vectors: Sequence[Sequence[float]] | None,
        course: _Course,
    ) -> RecallResult:
        wider = [] if course.plan is None else course.plan.wider
        now = self._clock()

        def search() -> tuple[list[Match], list[UnreadableConcept]]:
            similar = None if vectors is None else similarities(vectors, index)
            found, unreadable = index.search(states, queries, now, similar)
            if wider and not any(found):
                found, unreadable = index.search(states, wider, now, similar)
            return _merged(found, queries[0].limit), unreadable

        async with index.turn.get():
            matches, unreadable = await self._work(search)
        return RecallResult(
            matches,
            depth="shallow" if course.plan is None else "deep",
            is_semantic=vectors is not None,
            queries=[query.text for query in queries],
            failures=course.failures,
            unreadable=unreadable,
            usage=course.usage,
            embedding_calls=course.cost.calls,
            embedded_texts=course.cost.texts,
            refused_texts=sum(mirror.vectors.refused for mirror in index.mirrors.values()),
        )


def _unreadable(index: PlacesIndex, states: _States) -> Iterable[UnreadableConcept]:
    return [
        UnreadableConcept(place, keyword, error)
        for identity, place in index.places.items()
        for keyword, error in states[identity].unreadable.items()
    ]


def _merged(found: Sequence[list[Match]], limit: int) -> list[Match]:
    """Return the best matches of several questions, each fact once, where it scored best."""
    if len(found) == 1:
        return found[0]
    best: dict[object, Match] = {}
    for match in (match for matches in found for match in matches):
        key = match.place.identity, match.fact.concept.keyword, match.fact.id
        if key not in best or best[key].score < match.score:
            best[key] = match
    return sorted(best.values(), key=lambda match: match.score, reverse=True)[:limit]
