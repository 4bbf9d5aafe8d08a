"""Requests to an embedder, and the search for texts that it refuses."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from json import JSONDecodeError
from typing import TypeAlias

from factmem.embedding._vectors import checked_vectors
from factmem.embedding.base import Embedder, QueryEmbedder
from factmem.errors import EmbeddingError
from factmem.events import MemoryEvents, MemoryOperation
from factmem.models.places import Place
from factmem.recall._index_cache import IndexCache
from factmem.recall._place_vectors import PlaceVectors
from factmem.recall._vector_table import unit

__all__ = ["EmbeddingCost", "EmbeddingRequests", "ReceivedVectors"]


_MOST_SEARCHING = 32
"""The maximum number of requests per recall to find refused texts. One among 512 takes up to 20."""

_REFUSALS = frozenset({400, 413, 422})
"""The HTTP statuses for texts that are too long, too many in one request, or not allowed."""

_CRASHES = frozenset({500})
"""The HTTP statuses that local servers return for such texts too, and for temporary failures."""

_HARMLESS = "test"
"""A harmless text. If the endpoint refuses it too, the facts are not the cause."""


class ReceivedVectors:
    """The vectors of a batch, by digest; None for texts that the embedder refused."""

    def __init__(self, model: str) -> None:
        self.model: str = model
        self.vectors: dict[bytes, Sequence[float] | None] = {}

    def add(self, vectors: Mapping[bytes, Sequence[float]]) -> None:
        """Add vectors."""
        self.vectors.update((digest, unit(vector)) for digest, vector in vectors.items())

    def refuse(self, digest: bytes) -> None:
        """Record that the embedder refused a text."""
        self.vectors[digest] = None


_Receiver: TypeAlias = PlaceVectors | ReceivedVectors
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
    """Sends requests to an embedder. Any number of tasks and event loops may call an instance.

    Args:
        embedder: Returns the vectors.
        cache: Provides the worker threads.
        events: Receives an event for each request.
    """

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
        vectors: _Receiver,
        cost: EmbeddingCost,
    ) -> None:
        """Embed texts and add their vectors to `vectors`, normally with one request.

        If the embedder refuses texts, they are found by halving the batch and recorded as refused;
        the others get their vectors.

        Raises:
            EmbeddingError: The embedder failed, or refused too many texts to find all of them.
                Vectors and refusals received before are kept.
        """

        async def ask(texts: Sequence[str]) -> Sequence[Sequence[float]]:
            given = await self._request(self._embedder.embed, texts, [place], dimensions, cost)
            if self._embedder.model != vectors.model:
                raise EmbeddingError(
                    f"The embedder switched from {vectors.model!r} to another model during a "
                    f"request: the next recall embeds all texts with that one"
                )
            return given

        async def take(texts: Mapping[bytes, str]) -> None:
            given = dict(zip(texts, await ask([*texts.values()]), strict=True))
            await self._cache.work(partial(vectors.add, given))

        try:
            await take(texts)
        except Exception as exc:  # embedders raise their own errors; all but refusals are re-raised
            if not _may_be_of_the_input(exc) or cost.searching >= _MOST_SEARCHING:
                raise
            cost.searching += 1
            await ask([_HARMLESS])  # raises if the endpoint itself fails, and not the texts
            await _RefusalSearch(take, vectors, cost, exc).search(texts)

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


class _RefusalSearch:
    """Finds refused texts by halving, and adds the vectors of the others.

    Args:
        take: Sends a request and adds its vectors.
        vectors: Records the refused texts.
        cost: The requests of the recall so far.
        failure: The error of the refused request.
    """

    def __init__(
        self,
        take: Callable[[Mapping[bytes, str]], Awaitable[None]],
        vectors: _Receiver,
        cost: EmbeddingCost,
        failure: Exception,
    ) -> None:
        self._take = take
        self._vectors = vectors
        self._cost = cost
        self._failure = self._latest = failure

    async def search(self, texts: Mapping[bytes, str]) -> None:
        """Search among texts that were refused in one request."""
        digests = list(texts)
        if len(digests) == 1:
            if _is_of_the_input(self._latest) or not await self._is_taken(texts):
                self._vectors.refuse(digests[0])
                self._cost.refusal = self._failure
            return
        middle = len(digests) // 2
        for part in (digests[:middle], digests[middle:]):
            half = {each: texts[each] for each in part}
            if not await self._is_taken(half):
                await self.search(half)

    async def _is_taken(self, texts: Mapping[bytes, str]) -> bool:
        """Embed texts; return whether they were accepted."""
        if self._cost.searching >= _MOST_SEARCHING:
            raise self._failure
        self._cost.searching += 1
        try:
            await self._take(texts)
        except Exception as exc:  # as above
            if not _may_be_of_the_input(exc):
                raise
            self._latest = exc
            return False
        return True


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
