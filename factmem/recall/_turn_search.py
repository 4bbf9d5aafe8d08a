"""TurnSearch: the search by words for the messages of conversations that answer a question.

Messages are cut into passages of some sentences and indexed as facts are, with the words of the
messages around them. Only messages of users and assistants are: the results of tools are long, and
no statements.
"""

import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import NamedTuple

import anyio

from factmem._concurrency.per_loop import PerLoop
from factmem.errors import StorageError
from factmem.ledger.resolution import PlacedFact
from factmem.llm.messages import content_text
from factmem.models.clock import TimeProvider
from factmem.models.facts import Concept, FactType, SingleFact
from factmem.models.places import Identity, Place
from factmem.models.recall_filter import OPEN, RecallFilter
from factmem.models.sources import FactSource, SourceKind
from factmem.providers.base import FactStore
from factmem.providers.conversations import ChangedConversation, Turn, TurnChanges
from factmem.recall._fact_index import FactIndex
from factmem.recall._index_cache import IndexCache
from factmem.recall._turn_features import Telling
from factmem.recall.match import Match, TurnMatch
from factmem.recall.query import RecallQuery

_CANDIDATES = 60
"""The passages that are ranked again by what tells an answer from chatter."""

_MOST = 1_000
"""The most of these, for a recall with a large limit."""

SAID = Concept("said", "What was said in earlier conversations", FactType.SINGLE, value_type=str)
"""The concept of indexed messages. No store has facts of it."""

_LONGEST = 400
"""The most characters of a passage, if its sentences are shorter."""

_MOST_PASSAGES = 100
"""The most passages of a message; a longer one is a pasted document."""

_KINDS = {"user": SourceKind.USER, "assistant": SourceKind.ASSISTANT}

_END = re.compile(r"(?<=[.!?…。\uff01\uff1f])(?=\s|[^\x00-\x7f])|\n+")


class Passage(NamedTuple):
    """A part of a message."""

    conversation: str
    turn: Turn
    text: str


class TurnIndex:
    """An index of the messages of some places. Thread-safe.

    Args:
        places: The places.
    """

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = {each.identity: each for each in places}
        self._lock = threading.Lock()
        self.loading: PerLoop[anyio.Lock] = PerLoop(anyio.Lock)
        """Held by the one task of an event loop that reads changes."""
        self.versions: Mapping[Place, object] = dict.fromkeys(self._places.values())
        """The version up to which each place was read; replaced, never mutated."""
        self._index = FactIndex(places)
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
        kind = _KINDS.get(turn.role)
        if kind is None:
            return
        source = FactSource(kind, name, turn.number)
        for part, text in enumerate(passages(content_text(turn.message))):
            fact_id = f"{turn.number}.{part}.{name}"
            words = f"{turn.name}: {text}" if turn.name else text
            fact = SingleFact(SAID, words, id=fact_id, timestamp=turn.said_at, source=source)
            self._index.put(identity, PlacedFact(self._places[identity], fact))
            self.passages[identity, fact_id] = Passage(name, turn, text)
            held.setdefault(turn.number, []).append(fact_id)

    def _drop(self, identity: Identity, ids: Sequence[str]) -> None:
        self._index.drop(identity, SAID.keyword, ids)
        for each in ids:
            del self.passages[identity, each]

    def search(self, query: RecallQuery, now: datetime) -> list[tuple[Match, Passage]]:
        """Return the best passages for a question, best first."""
        with self._lock:
            return [
                (match, self.passages[match.place.identity, match.fact.id])
                for match in self._index.search(query, now)
            ]


def passages(text: str) -> Iterator[str]:
    """Yield the passages of a message: whole sentences, as many as fit into 400 characters."""
    return islice(_packed(text), _MOST_PASSAGES)


def _packed(text: str) -> Iterator[str]:
    passage = ""
    for sentence in filter(None, map(str.strip, _END.split(text))):
        if passage and len(passage) + len(sentence) >= _LONGEST:
            yield passage
            passage = ""
        passage = f"{passage} {sentence}".strip()
        while len(passage) > 2 * _LONGEST:
            yield passage[:_LONGEST]
            passage = passage[_LONGEST:]
    if passage:
        yield passage


class TurnSearch:
    """Searches the conversations of one store by words, with indexes kept between searches.

    Only what was appended since the last search is read. Any number of tasks, threads and event
    loops may call an instance.

    Args:
        store: The store.
        cache: The indexes; views of one store may share it.
        clock: Returns the time that recency is relative to.
    """

    def __init__(self, store: FactStore, cache: IndexCache, clock: TimeProvider) -> None:
        self._store = store
        self._cache = cache
        self._clock = clock

    async def find(
        self, places: Sequence[Place], queries: Sequence[RecallQuery], known: Collection[str] = ()
    ) -> list[TurnMatch]:
        """Return the messages in some places that may answer a question, best first.

        Args:
            places: The places to search.
            queries: The question, or each sentence of it. A filter by concepts or metadata finds
                no message.
            known: Texts of messages to leave out, such as those of the present chat.
        """
        asked = [query for query in queries if _is_for_turns(query.filter)]
        try:
            keeper = self._store.conversations
        except StorageError:  # it keeps none
            return []
        if not (places and asked):
            return []
        index = self._cache.of_turns(places, TurnIndex)
        since = index.versions
        changes = await keeper.changes(since)
        if changes:
            async with index.loading.get():
                if index.versions is not since:  # another task has read them
                    changes = await keeper.changes(index.versions)
                await self._cache.work(lambda: index.follow(changes))
        if not index.passages:
            return []
        left_out = {*map(str.strip, known), *(query.text.strip() for query in queries)}
        return await self._cache.work(lambda: self._found(index, asked, left_out))

    def _found(
        self, index: TurnIndex, queries: Sequence[RecallQuery], left_out: Collection[str]
    ) -> list[TurnMatch]:
        best: dict[tuple[Identity, str, int], TurnMatch] = {}
        for query in queries:
            many = replace(query, limit=min(max(_CANDIDATES, 3 * query.limit), _MOST))
            found = index.search(many, self._clock())
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


def _is_for_turns(wanted: RecallFilter) -> bool:
    return wanted is OPEN or replace(wanted, since=None, until=None).is_open
