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
    """Find refused texts by halving, and take the vectors of the others.

    Args:
        texts: Texts that were refused in one request.
        failure: The error of that request.
        take: Sends a request and receives its vectors.
        receive: Receives the refused texts.
        cost: The requests of the recall so far.
    """

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
