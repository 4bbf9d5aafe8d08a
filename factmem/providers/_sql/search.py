"""StoredSearch: candidates for a question, from the index in the database. Every method blocks.

A search returns some 200 candidates of all places together, by words and by vectors each, and
statistics of all its items, with which the ranking in memory scores them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import nlargest
from itertools import product
from logging import getLogger
from math import log
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from factmem.errors import StorageError
from factmem.ledger.resolution import seen_together
from factmem.models.facts import AnyFact, Concept
from factmem.models.places import Identity, Place
from factmem.models.recall_filter import RecallFilter, marks_of
from factmem.providers._sql import session as sql
from factmem.providers._sql.conversations import name_of
from factmem.providers._sql.places import FACT_BYTES, PlaceReader, topic_of, understood
from factmem.providers._sql.search_index import (
    FACTS,
    TURNS,
    Plan,
    SearchIndex,
    State,
    StoredItem,
    WordIndex,
    ends_of,
    loaded,
    mark_term,
    parts_of,
    turns_in,
    unwritten,
    written,
)
from factmem.providers._sql.session import Row, Session
from factmem.providers._sql.stored_places import StoredPlaces
from factmem.providers.conversations import ChangedConversation
from factmem.providers.results import (
    Letters,
    PlaceStatistics,
    SearchAnswer,
    SearchCandidate,
    SearchQuestion,
    TurnCandidates,
)

R = TypeVar("R")

_logger = getLogger(__name__)

LARGE = 2_000 * FACT_BYTES
"""The bytes of a place from which on it is searched here: reading it takes 0.1 s."""

_MOST_PLACES = 32
"""More places than these are searched in memory, as each is some statements here."""

_MOST_HITS = 50_000
"""The most items that are ranked, from the rarest words of a question on. It takes 15 ms."""

_MOST_WORDS = 64
"""The most words that are searched for, the rarest ones: a question may be a pasted document."""

_SIMILAR = 0.5
"""The weight of a similar word beside one of the question."""

_MOST_LETTERS = 16
"""The most vocabularies that are kept: that of 100,000 facts takes 4 MB."""

_SLACK = 1_000
"""So many new items may be missing in a vocabulary."""

_MOST_NEAR = 200
"""The best facts whose neighbours are candidates too. 50 have .935 of the first matches."""

_MOST_OTHERS = 200
"""The most facts of a keyword in another place that are compared with a candidate."""

_ATTEMPTS = 10

_LIST_TERMS = "SELECT term FROM factmem.terms WHERE search = %s"

_READ_HOLDERS = "SELECT term, holders FROM factmem.terms WHERE search = %s AND term IN ({keys})"

_BY_ITEM = "i.item IN ({keys})"

_LATEST = "i.topic = %s ORDER BY i.item DESC LIMIT %s"

_BESIDE = """i.item IN (
    SELECT n.item FROM factmem.items c JOIN factmem.items n ON n.search = c.search
        AND n.topic IS NOT NULL AND n.chat = c.chat
        AND n.message BETWEEN c.message - 2 AND c.message + 2
    WHERE c.search = %s AND c.item IN ({keys}))
"""

_READ_TURNS = """
SELECT DISTINCT s.place, e.number, e.at, e.line FROM factmem.items c
JOIN factmem.sources s ON s.source = c.chat
JOIN factmem.entries e ON e.place = s.place
    AND e.number BETWEEN c.message + 1 - 2 AND c.message + 1 + 2
WHERE c.search = %s AND c.item IN ({keys}) ORDER BY s.place, e.number
"""

_BEST = """
SELECT w.item, sum(w.weight) FROM ({parts}) w {inside}
GROUP BY w.item ORDER BY 2 DESC, 1 DESC LIMIT %s
"""
"""The sum of the weights of an item's words: BM25 that takes counts as 1 and ignores lengths."""

_SAID_IN = """
SELECT i.item FROM factmem.items i WHERE i.search = %s AND i.said_at >= %s AND i.said_at < %s {inside}
ORDER BY i.said_at DESC LIMIT %s
"""

_FAR = 1e12
"""Beyond all times, in seconds since 1970; a database may have no infinite numbers."""

_INSIDE = "JOIN factmem.items i ON i.search = %s AND i.item = w.item"


def marks_in(wanted: RecallFilter) -> list[str]:
    return list(map(mark_term, wanted.marks))


def conditions(wanted: RecallFilter) -> tuple[str, list[object]]:
    """Return a filter as conditions on `i`, a row of items, and their parameters, without marks."""
    found, given = list[str](), list[object]()
    if wanted.keywords is not None:
        where, topics = sql.among("i.topic IN ({keys})", map(topic_of, wanted.keywords or [""]))
        found, given = [where], list[object](topics)
    for bound, operator in ((wanted.since, ">="), (wanted.until, "<")):
        if bound is not None:
            found.append(f"i.said_at {operator} %s")
            given.append(bound.timestamp())
    return "".join(f" AND {each}" for each in found), given


def is_inside(wanted: RecallFilter, item: StoredItem) -> bool:
    """Whether a filter lets a fact through."""
    if wanted.is_open:
        return True
    fact = item.fact()
    return (
        (wanted.keywords is None or item.keyword in wanted.keywords)
        and (wanted.since is None or fact.timestamp >= wanted.since)
        and (wanted.until is None or fact.timestamp < wanted.until)
        and wanted.marks <= marks_of(fact)
    )


class _Chosen(NamedTuple):
    """The best items of a place."""

    letters: Letters
    holders: Mapping[str, int]
    items: list[int]


def _holders(session: Session, state: State, terms: Iterable[str]) -> dict[str, int]:
    names = {written(term): term for term in terms}
    found = dict.fromkeys(names.values(), 0)
    for part in parts_of([*names]):
        query, given = sql.among(_READ_HOLDERS, part)
        found |= {names[name]: few for name, few in session.rows(query, [state.search, *given])}
    return found


def _load(item: StoredItem, known: Mapping[str, Concept[Any, Any]]) -> AnyFact:
    return item.fact(known.get(item.keyword))


class StoredSearch:
    """The searches of one store, in places of at least `large` bytes. Thread-safe."""

    def __init__(
        self,
        places: StoredPlaces,
        words: WordIndex,
        *,
        large: int = LARGE,
        has_meaning: bool = False,
    ) -> None:
        self.has_meaning = has_meaning
        self._places = places
        self._index = SearchIndex(places, words)
        self._words = words
        self._from = large
        self._large: set[tuple[Identity, int]] = set()
        """What was large when it was last looked at."""
        self._letters: dict[int, tuple[int, Letters]] = {}
        """The vocabulary of each search, with the number of its next item then."""

    def is_searched(self, places: Sequence[Place], kind: int = FACTS) -> bool:
        """Return whether one of the places is large; then all of them are searched here."""
        identities = [place.identity for place in places]
        if len(places) > _MOST_PLACES:
            return False
        if any((each, kind) in self._large for each in identities):
            return True

        def read(session: Session, reader: PlaceReader) -> bool:
            for each in () if reader.store.is_sealed else identities:
                rows = ends_of(session, reader.key(each), kind)
                if rows and sum(row[-1] for row in rows) >= self._from:
                    self._large.add((each, kind))
                    return True
            return False

        return self._places.read_store(read, False)

    def candidates(self, places: Sequence[Place], question: SearchQuestion) -> SearchAnswer | None:
        """Return the facts that may answer a question; None if an index could not be written."""
        return self._asked(places, question, FACTS, partial(self._facts, places, question))

    def turns(self, places: Sequence[Place], question: SearchQuestion) -> TurnCandidates | None:
        """Return messages that may answer, with those beside them; None without an index."""
        if not self.is_searched(places, TURNS):
            return None
        return self._asked(places, question, TURNS, partial(self._turns, question))

    def _asked(
        self,
        places: Sequence[Place],
        question: SearchQuestion,
        kind: int,
        answer: "Callable[[Session, PlaceReader, Mapping[Identity, State]], R]",
    ) -> "R | None":
        """Return the answer of a session in which all indexes are complete; None without one."""

        def read(session: Session, reader: PlaceReader) -> "tuple[R | None, list[Plan]]":
            while True:
                states, plans = dict[Identity, State](), list[Plan]()
                for place in places:
                    found = self._index.plan(session, reader, place.identity, kind, question.form)
                    if isinstance(found, Plan):
                        plans.append(found)
                    elif found is not None:
                        states[place.identity] = found
                if not plans:
                    return answer(session, reader, states), []
                if is_renewed or not session.renew():
                    return None, plans
                is_renewed.append(True)  # the session was older than what this process wrote

        for _ in range(_ATTEMPTS):
            is_renewed: list[bool] = []
            nothing: tuple[R | None, list[Plan]] = None, []
            found, plans = self._places.read_store(read, nothing)
            if not plans:
                return found
            try:
                for plan in plans:
                    with understood(partial(self._places.all_entries, plan.identity)):
                        self._index.update(plan, kind, question)
            except StorageError as exc:  # a recall is a read: the disk may be full, or read-only
                _logger.info("An index was not written: %s", type(exc).__name__)
                break
        return None

    def _facts(
        self,
        places: Sequence[Place],
        question: SearchQuestion,
        session: Session,
        reader: PlaceReader,
        states: Mapping[Identity, State],
    ) -> SearchAnswer:
        keys = {reader.key(identity): state.search for identity, state in states.items()}
        meaning = self._words.meaning(session, keys, question)
        candidates, statistics = list[SearchCandidate](), dict[Identity, PlaceStatistics]()
        lacking = set[Identity]()
        keywords, chosen = list[str](), self._best(session, states, question)
        for identity, state in states.items():
            key, search = reader.key(identity), state.search
            letters, holders, best = chosen[identity]
            beside, given = sql.among(_BESIDE, best[:_MOST_NEAR])
            found = loaded(session, key, search, beside, [search, *given]) if best else {}
            cosines, more = dict[int, tuple[float, float]](), tuple[Any, ...]()
            if meaning is not None:
                best += meaning.nearest(key, search, question.filter)
            for items in parts_of([each for each in dict.fromkeys(best) if each not in found]):
                found |= loaded(session, key, search, *sql.among(_BY_ITEM, items))
            if meaning is not None:
                cosines, more = meaning.cosines(key, search, [*found]), meaning.statistics(key)
                if not meaning.is_complete(key, search):
                    lacking.add(identity)
            for item, each in found.items():
                if is_inside(question.filter, each):
                    near = cosines.get(item, (None, None))
                    candidates.append(SearchCandidate(identity, item, partial(_load, each), *near))
                    keywords.append(each.keyword)
            statistics[identity] = PlaceStatistics(
                state.size,
                state.length,
                holders,
                letters,
                *more,  # pyright: ignore[reportArgumentType]
            )
        named = [*zip(candidates, keywords, strict=True)] if len(states) > 1 else []
        others = list(self._others(session, reader, places, states, named))
        is_near = meaning is not None and any(each.cosine is not None for each in candidates)
        return SearchAnswer(candidates, statistics, others, is_near, frozenset(lacking))

    def _widened(
        self, session: Session, state: State, question: SearchQuestion
    ) -> tuple[Letters, dict[str, float]]:
        """Return the vocabulary of a place, and the terms to search for with their weights."""
        known, letters = self._letters.get(state.search, (0, None))
        if letters is None or not known <= state.next <= known + known // 10 + _SLACK:
            rows = session.rows(_LIST_TERMS, [state.search])
            letters = question.letters([unwritten(name) for (name,) in rows])
            if len(self._letters) >= _MOST_LETTERS:
                self._letters.clear()
            self._letters[state.search] = state.next, letters
        weights: dict[str, float] = {}
        for word in question.words:
            weights |= {term: _SIMILAR * share for term, share in letters.similar(word).items()}
        return letters, weights | {term: 1.0 for word in question.words for term in word}

    def _best(
        self, session: Session, states: Mapping[Identity, State], question: SearchQuestion
    ) -> dict[Identity, _Chosen]:
        """Return the best items of each place by words, best first, and then those by similar words.

        Apart, because a few similar words in one item must not outweigh the words themselves. The
        places share one limit, as statistics of all of them together make their scores comparable.
        """
        letters, weights = dict[Identity, Letters](), dict[str, float]()
        for identity, state in states.items():
            letters[identity], found = self._widened(session, state, question)
            weights |= found
        holders = {each: _holders(session, state, weights) for each, state in states.items()}
        size, total = sum(each.size for each in states.values()), Counter[str]()
        for each in holders.values():
            total.update(each)
        idf = {
            term: weights[term] * log(1 + (size - few + 0.5) / (few + 0.5))
            for term, few in total.items()
        }
        best = {identity: dict[int, None]() for identity in states}
        for is_own, limit in ((True, question.limit), (False, question.limit // 2)):
            terms = {term: of for term, of in idf.items() if (weights[term] == 1.0) == is_own}
            rows = [
                (score, identity, item)
                for identity, state in states.items()
                for item, score in self._ranked(
                    session, state, holders[identity], terms, question, limit=limit
                )
            ]
            for _, identity, item in nlargest(limit, rows, key=itemgetter(0)):
                best[identity][item] = None
        inside, given = conditions(question.filter)
        for (begin, end), (identity, state) in product(question.spans, states.items()):
            span = [state.search, max(begin, -_FAR), min(end, _FAR), *given, question.limit // 2]
            best[identity] |= dict.fromkeys(
                item for (item,) in session.rows(_SAID_IN.format(inside=inside), span)
            )
        return {each: _Chosen(letters[each], holders[each], [*best[each]]) for each in states}

    def _ranked(
        self,
        session: Session,
        state: State,
        holders: Mapping[str, int],
        idf: Mapping[str, float],
        question: SearchQuestion,
        *,
        limit: int,
    ) -> list[Row]:
        """Return the best items with the sum of the weights of their terms, best first."""
        marks, parts, given, hits = marks_in(question.filter), list[str](), list[object](), 0
        for term in sorted(filter(holders.get, idf), key=holders.__getitem__)[:_MOST_WORDS]:
            hits += holders[term]
            if parts and hits > _MOST_HITS:
                break
            parts.append(self._words.holding(session, state.search))
            asked = self._words.asked(state.search, [written(term), *marks])
            given += [max(idf[term], 1e-6), asked]
        if not parts:
            return []
        inside, inner = conditions(question.filter)
        if inside:
            inside, inner = f"{_INSIDE} {inside}", [state.search, *inner]
        statement = _BEST.format(parts=" UNION ALL ".join(parts), inside=inside)
        return session.rows(statement, [*given, *inner, limit])

    def _others(
        self,
        session: Session,
        reader: PlaceReader,
        places: Sequence[Place],
        states: Mapping[Identity, State],
        candidates: Sequence[tuple[SearchCandidate, str]],
    ) -> Iterator[SearchCandidate]:
        """Yield the facts of other places that may take precedence over candidates of some keywords."""
        together, asked = seen_together(places), dict[tuple[Identity, str], None]()
        held = {(each.identity, each.item) for each, _ in candidates}
        for each, keyword in candidates:
            asked |= {(at, keyword): None for at in together[each.identity] if at in states}
        for identity, keyword in asked:
            given = [topic_of(keyword), _MOST_OTHERS]
            key, search = reader.key(identity), states[identity].search
            for item, stored in loaded(session, key, search, _LATEST, given).items():
                if (identity, item) not in held and stored.keyword == keyword:
                    yield SearchCandidate(identity, item, partial(_load, stored))

    def _turns(
        self,
        question: SearchQuestion,
        session: Session,
        reader: PlaceReader,
        states: Mapping[Identity, State],
    ) -> TurnCandidates:
        chats = dict[Identity, list[ChangedConversation]]()
        statistics = dict[Identity, PlaceStatistics]()
        chosen = self._best(session, states, question)
        for identity, state in states.items():
            letters, holders, best = chosen[identity]
            statistics[identity] = PlaceStatistics(state.size, state.length, holders, letters)
            lines = dict[bytes, dict[int, Row]]()
            for items in parts_of(best):
                query, given = sql.among(_READ_TURNS, items)
                for key, *row in session.rows(query, [state.search, *given]):
                    lines.setdefault(bytes(key), {})[row[0]] = tuple(row)
            for key, rows in lines.items():
                for names, data_key in session.rows(sql.READ_NAMES, [key]):
                    sealer = reader.sealer(key, data_key)
                    name = name_of(reader, sealer.open_names(names), identity)
                    turns = turns_in(sealer, [rows[number] for number in sorted(rows)])
                    chats.setdefault(identity, []).append(ChangedConversation(name, turns, True))
        return TurnCandidates(chats, statistics)
