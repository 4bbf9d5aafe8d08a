"""TurnSearch: the search for the messages that answer a question."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from factmem.errors import StorageError
from factmem.models.clock import TimeProvider
from factmem.models.places import Identity, Place
from factmem.models.recall_filter import RecallFilter
from factmem.providers.base import FactStore
from factmem.providers.conversations import ConversationStore
from factmem.recall._index_cache import IndexCache
from factmem.recall._turn_features import Telling
from factmem.recall._turn_index import Passage, TurnIndex
from factmem.recall.match import Match, TurnMatch
from factmem.recall.query import RecallQuery

__all__ = ["TurnSearch"]

_CANDIDATES = 60
"""The passages that are ranked again by what tells an answer from chatter."""

_MOST = 1_000
"""The most of these, for a recall with a large limit."""


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
        index = self._cache.of_turns(places)
        await self._follow(index, keeper)
        if not len(index):
            return []
        left_out = {*map(str.strip, known), *(query.text.strip() for query in queries)}
        return await self._cache.work(lambda: self._found(index, asked, left_out))

    async def _follow(self, index: TurnIndex, keeper: ConversationStore) -> None:
        since = index.versions
        changes = await keeper.changes(since)
        if not changes:
            return
        async with index.loading.get():
            if index.versions is not since:  # another task has read them
                changes = await keeper.changes(index.versions)
            await self._cache.work(lambda: index.follow(changes))

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
                factor = telling.factor(passage.text, passage.turn.name)
                turn = _match(match, passage, match.score * factor)
                key = match.place.identity, turn.conversation, turn.turn.number
                if key not in best or best[key].score < turn.score:
                    best[key] = turn
        ordered = sorted(best.values(), key=lambda turn: turn.score, reverse=True)
        return ordered[: queries[0].limit]


def _is_for_turns(wanted: RecallFilter) -> bool:
    return replace(wanted, since=None, until=None).is_open


def _match(match: Match, passage: Passage, score: float) -> TurnMatch:
    return TurnMatch(
        turn=passage.turn,
        conversation=passage.conversation,
        place=match.place,
        quote=passage.text,
        score=score,
        relevance=match.relevance,
    )
