"""The search for what held at another time, for questions that name one.

Current facts are in indexes. What held at another time is read and indexed for one question, in worker
threads, and compared by words alone.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from factmem.ledger.resolution import PlacedFact, resolve
from factmem.models.facts import AnyFact, Concept
from factmem.models.places import Place
from factmem.models.when import EVER, When, between
from factmem.providers._reader import each_of
from factmem.providers.base import FactStore
from factmem.recall._fact_index import FactIndex
from factmem.recall._hints import Span, asked_spans, clause_of_time
from factmem.recall._index_cache import IndexCache
from factmem.recall.match import Match
from factmem.recall.query import RecallQuery

MOST_FACTS = 10_000
"""The most current facts of places that are searched for what held at other times: that takes up to a
second, and 50 ms with 1,000."""

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
    index = await _index(store, cache, places, when, concepts)
    return await cache.work(lambda: [index.search(query, now) for query in queries])


async def held_beside(
    store: FactStore,
    cache: IndexCache,
    places: Sequence[Place],
    queries: Sequence[RecallQuery],
    now: datetime,
) -> list[Match]:
    """Return the matches among what held at the times that questions name, current facts too.

    What was replaced has the time of that as its `until`. Values are plain JSON.
    """
    found: list[Match] = []
    for query in queries[:_MOST]:
        times = _times(query, now)
        if clause := clause_of_time(query.text):
            ever = await _index(store, cache, places, EVER)
            times += await cache.work(partial(ever.periods_of, clause))
        for span in times[:_MOST]:
            index = await _index(store, cache, places, _when(span))
            found += await cache.work(partial(index.search, query, now))
    return found


async def _index(
    store: FactStore,
    cache: IndexCache,
    places: Sequence[Place],
    when: When,
    concepts: Iterable[Concept[Any, Any]] | None = None,
) -> FactIndex:
    """Index what held at a time; with the concepts of the application as a load resolves it."""

    async def read(place: Place) -> tuple[Place, list[AnyFact]]:
        about, where = place.subject, place.scope
        return place, await store.load_all(about, where, concepts=concepts or (), valid_at=when)

    def indexed() -> FactIndex:
        index, placed = (
            FactIndex(places),
            [PlacedFact(at, each) for at, held in found for each in held],
        )
        for each in placed if concepts is None else resolve(placed).placed:
            index.put(each.place.identity, each)
        return index

    found = await each_of(read, places)
    return await cache.work(indexed)


def _when(asked: Span) -> When:
    first, last = EVER.begin.timestamp(), EVER.end.timestamp()
    return between(*(_EPOCH + timedelta(seconds=min(max(at, first), last)) for at in asked[:2]))
