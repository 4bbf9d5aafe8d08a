"""Requests to an embedder, and what to do where it refuses a text."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from json import JSONDecodeError
from typing import TypeAlias

from factmem.embedding.base import Embedder, QueryEmbedder
from factmem.embedding.vectors import checked_vectors
from factmem.errors import EmbeddingError
from factmem.events import MemoryEvents, MemoryOperation
from factmem.models.places import Place
from factmem.recall.index_cache import IndexCache
from factmem.recall.place_vectors import PlaceVectors

__all__ = ["EmbeddingCost", "EmbeddingRequests"]


_MOST_SEARCHING = 32
"""How many requests a recall makes at most to find refused texts: one among 512 takes up to 20."""

_REFUSALS = frozenset({400, 413, 422})
"""What endpoints answer to texts that are too long, too many at once, or not allowed."""

_CRASHES = frozenset({500})
"""What servers on one's own machine answer to such texts too, and to what soon passes."""

_HARMLESS = "test"
"""A text that no endpoint refuses: where one does, it is not the facts that it refuses."""

_Embed: TypeAlias = Callable[[Sequence[str]], Awaitable[object]]


@dataclass(slots=True)
class EmbeddingCost:
    """What one recall asked of the embedder."""

    calls: int = 0
    texts: int = 0
    searching: int = 0
    """How many of the calls looked for refused texts."""
    refusal: Exception | None = None
    """Why a text was refused, where this recall found one."""


class EmbeddingRequests:
    """Asks an embedder. Any number of tasks and event loops may call an instance.

    Args:
        embedder: Makes the vectors.
        cache: Provides the worker threads.
        events: Who is told of each request.
    """

    def __init__(self, embedder: Embedder, cache: IndexCache, events: MemoryEvents) -> None:
        self._embedder = embedder
        self._cache = cache
        self._events = events

    async def of_questions(
        self, texts: Sequence[str], places: Sequence[Place], cost: EmbeddingCost
    ) -> Sequence[Sequence[float]]:
        """Return a vector for each question, by one request."""
        embedder = self._embedder
        embed = embedder.embed_queries if isinstance(embedder, QueryEmbedder) else embedder.embed
        return await self._asked(embed, texts, places, embedder.dimensions, cost)

    async def of_facts(
        self,
        texts: Mapping[bytes, str],
        place: Place,
        dimensions: int,
        vectors: PlaceVectors,
        cost: EmbeddingCost,
    ) -> None:
        """Have a place take in the vectors of texts, by their digests: by one request as a rule.

        Where the embedder refuses them for what they are, those that it refuses are looked for by
        halving, and noted as refused; the others get their vectors.

        Raises:
            EmbeddingError: The embedder failed, or refuses so much that not all of it was found.
                What came back is kept, and so is what is known to be refused.
        """

        async def ask(texts: Sequence[str]) -> Sequence[Sequence[float]]:
            given = await self._asked(self._embedder.embed, texts, [place], dimensions, cost)
            if self._embedder.model != vectors.model:
                raise EmbeddingError(
                    f"{vectors.model!r} gave way to another model while it was asked: the next "
                    f"recall has all vectors made by that one"
                )
            return given

        async def take(texts: Mapping[bytes, str]) -> None:
            given = dict(zip(texts, await ask([*texts.values()]), strict=True))
            await self._cache.work(partial(vectors.add, given))

        try:
            await take(texts)
        except Exception as exc:
            if not _may_be_of_the_input(exc) or cost.searching >= _MOST_SEARCHING:
                raise
            cost.searching += 1
            await ask([_HARMLESS])
            await _Search(take, vectors, cost, exc).go_on(texts)

    async def _asked(
        self,
        embed: _Embed,
        texts: Sequence[str],
        places: Sequence[Place],
        dimensions: int | None,
        cost: EmbeddingCost,
    ) -> Sequence[Sequence[float]]:
        """Make one request: what it costs counts, however it ends."""
        cost.calls += 1
        cost.texts += len(texts)
        async with self._events.operation(MemoryOperation.EMBED, places) as progress:
            progress.count, progress.embedding_calls = len(texts), 1
            given, model = await embed(texts), self._embedder.model
            check = partial(checked_vectors, count=len(texts), dimensions=dimensions, model=model)
            return await self._cache.work(lambda: check(given))


class _Search:
    """Looks for the texts that are refused among some, and has the others' vectors taken in.

    Args:
        take: Makes a request, and takes in what comes back.
        vectors: Where to note what is refused.
        cost: What the recall has spent so far.
        failure: How it came out that a text is refused.
    """

    def __init__(
        self,
        take: Callable[[Mapping[bytes, str]], Awaitable[None]],
        vectors: PlaceVectors,
        cost: EmbeddingCost,
        failure: Exception,
    ) -> None:
        self._take = take
        self._vectors = vectors
        self._cost = cost
        self._failure = self._latest = failure

    async def go_on(self, texts: Mapping[bytes, str]) -> None:
        """Look among texts that were refused together."""
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
                await self.go_on(half)

    async def _is_taken(self, texts: Mapping[bytes, str]) -> bool:
        """Have texts embedded; return whether they were not refused."""
        if self._cost.searching >= _MOST_SEARCHING:
            raise self._failure
        self._cost.searching += 1
        try:
            await self._take(texts)
        except Exception as exc:
            if not _may_be_of_the_input(exc):
                raise
            self._latest = exc
            return False
        return True


def _may_be_of_the_input(exc: Exception) -> bool:
    """Whether an embedder may have failed for what it was given: no time-out, quota, wrong key."""
    status, cause = _status_of(exc), _cause_of(exc)
    if status is not None:
        return status in _REFUSALS | _CRASHES
    # Of a function, or of an embedder of one's own. What cannot be parsed is the answer.
    is_likely = isinstance(cause, ValueError | RuntimeError | LookupError)
    return is_likely and not isinstance(cause, JSONDecodeError)


def _is_of_the_input(exc: Exception) -> bool:
    """Whether that is sure, so that a text need not be tried once more by itself."""
    status = _status_of(exc)
    return isinstance(_cause_of(exc), ValueError) if status is None else status in _REFUSALS


def _cause_of(exc: Exception) -> BaseException | None:
    return exc.__cause__ if isinstance(exc, EmbeddingError) else exc


def _status_of(exc: Exception) -> int | None:
    """Return the HTTP status that an exception tells, as the packages of endpoints do."""
    cause = _cause_of(exc)
    for told in (exc, cause, getattr(cause, "response", None)):
        for name in ("status", "status_code"):
            status: object = getattr(told, name, None)
            if isinstance(status, int):
                return status
    return None
