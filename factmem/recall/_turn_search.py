"""TurnSearch: the search by words for the messages of conversations that answer a question.

Messages are cut into passages of some sentences and indexed as facts are, with the words of the
messages around them. Only messages of users and assistants are: the results of tools are long, and
no statements.

Telling: what tells a message that answers a question from chatter with the same words.

The score of a message is multiplied by 1 plus the weights of its features. The weights were found
by `python -m benchmarks.recall.both weights`, in steps of 0.2: over the questions that were not
used to find them, they raise hit@5 of messages from .309 to .383.
"""

import re
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import NamedTuple, TypeAlias

import anyio

from factmem._concurrency.threads import PerLoop
from factmem.errors import StorageError
from factmem.ledger.resolution import PlacedFact
from factmem.models.places import Identity, Place
from factmem.models.recall_filter import OPEN, RecallFilter
from factmem.models.when import TimeProvider
from factmem.providers.conversations import ChangedConversation, Turn, TurnChanges
from factmem.providers.results import TurnCandidate
from factmem.providers.store import FactStore
from factmem.recall._documents import SAID, passage_facts
from factmem.recall._fact_index import FactIndex
from factmem.recall._place_cache import IndexCache
from factmem.recall._store_search import question_of
from factmem.recall.match import Match, RecallQuery, TurnMatch

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
"""The passages that are ranked again by what tells an answer from chatter."""

_MOST = 1_000
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
    return replace(query, limit=min(max(_CANDIDATES, 3 * query.limit), _MOST))


def _ranked(
    places: Sequence[Place], query: RecallQuery, found: Sequence[TurnCandidate], now: datetime
) -> _Passages:
    """Return the best of the candidates of a store, best first."""
    by_identity = {place.identity: place for place in places}
    index = FactIndex(places, has_letters=False)
    known, scores = dict[tuple[Identity, str], Passage](), list[tuple[float, float]]()
    for each in found:
        for part, (text, fact) in enumerate(passage_facts(each.conversation, each.turn)):
            if part == each.part:
                placed = PlacedFact(by_identity[each.identity], fact)
                index.put(each.identity, placed, words=each.words.terms)  # in the next slot
                known[each.identity, fact.id] = Passage(each.conversation, each.turn, text)
                scores.append(each.words[:2])
    matches = index.search(query, now, None, scores)
    return [(match, known[match.place.identity, match.fact.id]) for match in matches]


def _is_for_turns(wanted: RecallFilter) -> bool:
    return wanted is OPEN or replace(wanted, since=None, until=None).is_open
