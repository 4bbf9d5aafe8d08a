"""The search for the facts (FactSearch) and the messages (TurnSearch) that answer a question.

Current facts are in indexes. What held at another time, for questions that name one, is read and
indexed for one question, in worker threads, and compared by words alone.

Messages are cut into passages of some sentences and indexed as facts are, with the words of the
messages around them. Only messages of users and assistants are: results of tools are long and state
nothing. The score of a message is multiplied by 1 plus the weights of its features, which
distinguish answers from small talk with the same words. The weights were found by
`python -m benchmarks.recall.both weights`, in steps of 0.2. On held-out questions they raise hit@5
of messages from .309 to .383.
"""

import re
import threading
from array import array
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from logging import getLogger
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

import anyio
from anyio import move_on_after

from factmem._concurrency import PerLoop
from factmem.embedding.base import Embedder
from factmem.errors import MissingExtraError, StorageError
from factmem.events import MemoryEvents, OperationInProgress
from factmem.ledger.resolution import PlacedFact, UnreadableConcept, resolve
from factmem.models.facts import AnyFact, Concept
from factmem.models.places import Identity, Place
from factmem.models.recall_filter import OPEN, RecallFilter
from factmem.models.when import EVER, TimeProvider, When, between
from factmem.providers._view import FactReader, each_of
from factmem.providers.conversations import ChangedConversation, Turn, TurnChanges
from factmem.providers.provider import is_complete
from factmem.providers.results import TurnCandidate
from factmem.providers.store import FactStore
from factmem.recall._documents import SAID, Span, asked_spans, clause_of_time, passage_facts
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
from factmem.recall.match import Match, RecallQuery, RecallResult, TurnMatch

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


WEIGHTS = {"asks": -0.4, "named": 0.4, "other": -0.4, "first": 0.4, "number": 0.4}
"""asks: the message has a question mark. named: the question names its speaker. other: the question
names only another speaker. first: it has a word of the first person. number: the question asks for
a number or a time, and the message has one."""

_FIRST = re.compile(
    r"(?<!\w)(?:i|my|me|mine|we|our|us|ich|mein\w*|mir|mich|wir|unser\w*|yo|mi|mis|me|nosotros|je|j"
    r"|moi|mon|ma|mes|nous|io|mio|mia|noi|eu|meu|minha|nós|ik|mijn|wij|я|мне|меня|мой|моя|мы|нас"
    r"|наш\w*|(?:나|내|저|제|우리)(?:는|가|도|를|의|한테|에게)?|أنا)(?!\w)|[我私僕俺咱]",
    re.IGNORECASE,
)
_ASKS_NUMBER = re.compile(
    r"(?<!\w)(?:how (?:many|much|old|long|far|often|tall|big)|when|what (?:time|year|date|day)"
    r"|which (?:day|date|year|month)|wann|wie (?:viele?|lange?|alt|oft|weit|hoch)|cu[aá]nt[oa]s?"
    r"|cu[aá]ndo|combien|quand|quanti|quando|quant[oa]s?|hoeveel|wanneer|сколько|когда)(?!\w)"
    r"|몇|언제|얼마|几|幾|多少|什么时候|何時|何人|何歳|いつ|いくつ|いくら|متى|كم",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"\d|(?<!\w)(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|twenty"
    r"|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|half|\w+day|january|february"
    r"|march|april|june|july|august|september|october|november|december|yesterday|tomorrow)(?!\w)",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+")


class Telling:
    """The features of messages for one question."""

    def __init__(self, question: str, speakers: Iterable[str | None]) -> None:
        asked = set(_WORD.findall(question.casefold()))
        self._named = {name for name in speakers if name and _is_named(name, asked)}
        self._is_number_asked = _ASKS_NUMBER.search(question) is not None

    def features(self, text: str, speaker: str | None) -> dict[str, bool]:
        """Return the features of a message."""
        return {
            "asks": "?" in text or "\uff1f" in text,
            "named": speaker in self._named,
            "other": bool(self._named) and speaker not in self._named,
            "first": _FIRST.search(text) is not None,
            "number": self._is_number_asked and _NUMBER.search(text) is not None,
        }

    def factor(self, text: str, speaker: str | None) -> float:
        """Return the factor on the score of a message."""
        found = self.features(text, speaker)
        return 1 + sum(WEIGHTS[name] for name, has in found.items() if has)


def _is_named(name: str, asked: set[str]) -> bool:
    """Whether words of a question contain the first word of a name."""
    first = _WORD.search(name.casefold())
    return first is not None and first[0] in asked


_CANDIDATES = 60
"""The passages that are ranked again by the features of their messages."""

_MOST_MESSAGES = 1_000
"""The most of these, for a recall with a large limit."""


class Passage(NamedTuple):
    """A part of a message."""

    conversation: str
    turn: Turn
    text: str


_Passages: TypeAlias = list[tuple[Match, Passage]]
"""The passages that answer a question, best first."""


class TurnIndex:
    """An index of the messages of some places. Thread-safe."""

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = {each.identity: each for each in places}
        self._lock = threading.Lock()
        self.loading: PerLoop[anyio.Lock] = PerLoop(anyio.Lock)
        """Held by the one task of an event loop that reads changes."""
        self.versions: Mapping[Place, object] = dict.fromkeys(self._places.values())
        """The version up to which each place was read; replaced, never mutated."""
        # Messages are long, so that they have letters of any question by chance: without them the
        # text of 800 tokens in `benchmarks.recall.both` has evidence for .03 more questions.
        self._index = FactIndex(places, has_letters=False)
        self.passages: dict[tuple[Identity, str], Passage] = {}
        """The passages by their place and the id of their fact."""
        self._ids: dict[tuple[Identity, str], dict[int, list[str]]] = {}
        """The ids of the passages of each conversation, by the number of their message."""

    def __len__(self) -> int:
        return len(self._index)

    def follow(self, changes: Mapping[Place, TurnChanges]) -> None:
        """Apply the changes of places."""
        with self._lock:
            for place, changed in changes.items():
                for chat in changed.conversations:
                    self._follow(place.identity, chat)
            self.versions = {
                **self.versions,
                **{place: each.version for place, each in changes.items()},
            }

    def _follow(self, identity: Identity, chat: ChangedConversation) -> None:
        held = self._ids.setdefault((identity, chat.id), {})
        numbers = list(held) if chat.is_whole else [turn.number for turn in chat.turns]
        for number in numbers:
            self._drop(identity, held.pop(number, []))
        for turn in chat.turns:
            self._put(identity, chat.id, turn, held)
        if not held:
            del self._ids[identity, chat.id]

    def _put(self, identity: Identity, name: str, turn: Turn, held: dict[int, list[str]]) -> None:
        for text, fact in passage_facts(name, turn):
            self._index.put(identity, PlacedFact(self._places[identity], fact))
            self.passages[identity, fact.id] = Passage(name, turn, text)
            held.setdefault(turn.number, []).append(fact.id)

    def _drop(self, identity: Identity, ids: Sequence[str]) -> None:
        self._index.drop(identity, SAID.keyword, ids)
        for each in ids:
            del self.passages[identity, each]

    def search(self, query: RecallQuery, now: datetime) -> _Passages:
        """Return the best passages for a question, best first."""
        with self._lock:
            return [
                (match, self.passages[match.place.identity, match.fact.id])
                for match in self._index.search(query, now)
            ]


class TurnSearch:
    """Searches the conversations of one store by words, with indexes kept between searches.

    Only what was appended since the last search is read. Any number of tasks, threads and event
    loops may call an instance.
    """

    def __init__(self, store: FactStore, cache: IndexCache, clock: TimeProvider) -> None:
        self._store = store
        self._cache = cache
        self._clock = clock

    async def find(
        self, places: Sequence[Place], queries: Sequence[RecallQuery], known: Collection[str] = ()
    ) -> list[TurnMatch]:
        """Return the messages in some places that may answer a question, best first."""
        asked = [query for query in queries if _is_for_turns(query.filter)]
        try:
            keeper = self._store.conversations
        except StorageError:  # it keeps none
            return []
        if not (places and asked):
            return []
        left_out = {*map(str.strip, known), *(query.text.strip() for query in queries)}
        index = self._cache.of_turns(places, TurnIndex)
        since = index.versions
        if not any(since.values()):  # not read by this process
            found = await self._in_store(places, asked, left_out)
            if found is not None:
                return found
        changes = await keeper.changes(since)
        if changes:
            async with index.loading.get():
                if index.versions is not since:  # another task has read them
                    changes = await keeper.changes(index.versions)
                await self._cache.work(lambda: index.follow(changes))
        if not index.passages:
            return []

        def ranked() -> list[TurnMatch]:
            found = [index.search(_many(query), self._clock()) for query in asked]
            return self._best(found, asked, left_out)

        return await self._cache.work(ranked)

    async def _in_store(
        self, places: Sequence[Place], queries: Sequence[RecallQuery], left_out: Collection[str]
    ) -> list[TurnMatch] | None:
        """Return the matches among the candidates of the store; None if it does not search."""
        found = list[_Passages]()
        for query in queries:
            asked = partial(
                question_of, places, query, self._clock(), has_letters=False, limit=_CANDIDATES
            )
            answer = await self._store.turn_candidates(places, await self._cache.work(asked))
            if answer is None:
                return None
            rank = partial(_ranked, places, _many(query), answer, self._clock())
            found.append(await self._cache.work(rank))
        return await self._cache.work(lambda: self._best(found, queries, left_out))

    def _best(
        self,
        found_of: Sequence[_Passages],
        queries: Sequence[RecallQuery],
        left_out: Collection[str],
    ) -> list[TurnMatch]:
        """Return the best of the passages that each query found."""
        best: dict[tuple[Identity, str, int], TurnMatch] = {}
        for found, query in zip(found_of, queries, strict=True):
            telling = Telling(query.text, {passage.turn.name for _, passage in found})
            for match, passage in found:
                if passage.turn.text.strip() in left_out:
                    continue
                score = match.score * telling.factor(passage.text, passage.turn.name)
                key = match.place.identity, passage.conversation, passage.turn.number
                if key not in best or best[key].score < score:
                    best[key] = TurnMatch(
                        turn=passage.turn,
                        conversation=passage.conversation,
                        place=match.place,
                        quote=passage.text,
                        score=score,
                        relevance=match.relevance,
                    )
        ordered = sorted(best.values(), key=lambda turn: turn.score, reverse=True)
        return ordered[: queries[0].limit]


def _many(query: RecallQuery) -> RecallQuery:
    """Return a query for the passages that are ranked again."""
    return replace(query, limit=min(max(_CANDIDATES, 3 * query.limit), _MOST_MESSAGES))


def _ranked(
    places: Sequence[Place], query: RecallQuery, found: Sequence[TurnCandidate], now: datetime
) -> _Passages:
    """Return the best of the candidates of a store, best first."""
    by_identity = {place.identity: place for place in places}
    index = FactIndex(places, has_letters=False)
    known, scores = dict[tuple[Identity, str], Passage](), list[tuple[float, float]]()
    for each in found:
        for part, (text, fact) in enumerate(passage_facts(each.conversation, each.turn)):
            name = each.identity, fact.id
            if part == each.part and name not in known:  # a changed index may have it twice
                placed = PlacedFact(by_identity[each.identity], fact)
                index.put(each.identity, placed, words=each.words.terms)  # in the next slot
                known[name] = Passage(each.conversation, each.turn, text)
                scores.append(each.words[:2])
    matches = index.search(query, now, None, scores)
    return [(match, known[match.place.identity, match.fact.id]) for match in matches]


def _is_for_turns(wanted: RecallFilter) -> bool:
    return wanted is OPEN or replace(wanted, since=None, until=None).is_open
