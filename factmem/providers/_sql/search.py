"""StoredSearch: candidates for a question, from the index in the database. Every method blocks.

A search returns some candidates of all places together, by words and by vectors each, and
statistics of all its items, with which the ranking in memory scores them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import nlargest
from itertools import chain, product
from logging import getLogger
from struct import iter_unpack
from typing import Any, TypeVar

from factmem.errors import StorageError
from factmem.ledger.resolution import seen_together
from factmem.models.places import Identity, Place
from factmem.models.recall_filter import RecallFilter, marks_of
from factmem.providers._sql import session as sql
from factmem.providers._sql.conversations import name_of
from factmem.providers._sql.places import FACT_BYTES, PlaceReader, understood
from factmem.providers._sql.sealing import Sealer
from factmem.providers._sql.search_index import (
    FACTS,
    TURNS,
    Plan,
    SearchIndex,
    State,
    StoredItem,
    VectorIndex,
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
from factmem.providers._sql.topics import topic_of
from factmem.providers.results import (
    FoundItem,
    HeldTerms,
    ItemScore,
    Letters,
    PlaceStatistics,
    SearchAnswer,
    SearchCandidate,
    SearchQuestion,
    TurnCandidate,
)

R = TypeVar("R")

_logger = getLogger(__name__)

LARGE = 2_000 * FACT_BYTES
"""The bytes of a place from which on it is searched here: reading it takes 0.1 s."""

_MOST_PLACES = 32
"""More places than these are searched in memory, as each is some statements here."""

_SCORED = 150
"""The items whose words are read."""

_TIMELY = 0.2
"""The bonus of an item of a time that the question names, beside the best score."""

_MOST_LETTERS = 16
"""The most vocabularies that are kept: that of 100,000 facts takes 4 MB."""

_SLACK = 1_000
"""So many new items may be missing in a vocabulary."""

_MOST_NEAR = 100
"""The best facts whose neighbours are candidates too."""

_MOST_OTHERS = 200
"""The most facts of a keyword in another place that are compared with a candidate."""

_ATTEMPTS = 10

_LIST_TERMS = "SELECT DISTINCT term FROM factmem.terms WHERE search = %s"

_READ_HOLDERS = """
SELECT term, sum(length(items)) / 3 FROM factmem.terms WHERE search = %s AND term IN ({keys})
GROUP BY term
"""

_READ_BLOCKS = "SELECT term, first, items FROM factmem.terms WHERE search = %s AND term IN ({keys})"

_BY_ITEM = "i.item IN ({keys})"

_LATEST = "i.topic = %s ORDER BY i.item DESC LIMIT %s"

_READ_ITEM = "SELECT i.item, coalesce(i.said_at, 0), i.length, i.counts, i.chat, i.message"
"""The columns of a `FoundItem`, but for its place."""

_READ_FOUND = f"""
{_READ_ITEM} FROM factmem.items i WHERE i.search = %s AND i.item IN ({{keys}})
"""

_READ_BESIDE = f"""
{_READ_ITEM} FROM (VALUES {{rows}}) c CROSS JOIN factmem.items i
WHERE i.search = %s AND i.message IS NOT NULL
    AND i.chat = c.column1 AND i.message BETWEEN c.column2 - 2 AND c.column2 + 2
"""
"""A cross join, as SQLite would look through all items first."""

_AT = "(CAST(%s AS bigint), CAST(%s AS bigint))"

_READ_TURNS = """
SELECT i.item, i.start, s.place, e.number, e.at, e.line FROM factmem.items i
JOIN factmem.sources s ON s.source = i.chat
JOIN factmem.entries e ON e.place = s.place AND e.number = i.message + 1
WHERE i.search = %s AND i.item IN ({keys})
"""

_SAID_IN = """
SELECT i.item FROM factmem.items i WHERE i.search = %s AND i.said_at >= %s AND i.said_at < %s
{inside} ORDER BY i.said_at DESC LIMIT %s
"""

_INSIDE = "SELECT i.item FROM factmem.items i WHERE i.search = %s{inside}"


def _conditions(wanted: RecallFilter) -> tuple[str, list[object]]:
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


_NO_WORDS = ItemScore(0.0, 0.0, ())


def _read_found(
    session: Session, identity: Identity, search: int, items: Sequence[int]
) -> dict[int, FoundItem]:
    """Return the rows of items, and of those that were said beside the first ones."""
    rows = list[Row]()
    for part in parts_of(items):
        query, given = sql.among(_READ_FOUND, part)
        rows += session.rows(query, [search, *given])
    near = {*items[:_MOST_NEAR]}
    said = {tuple(row[-2:]) for row in rows if row[-1] is not None and row[0] in near}
    if said:
        query = _READ_BESIDE.format(rows=", ".join([_AT] * len(said)))
        rows += session.rows(query, [*chain.from_iterable(said), search])
    return {row[0]: FoundItem(identity, *row) for row in rows}


def _timely(
    scored: Iterable[tuple[FoundItem, ItemScore]], question: SearchQuestion
) -> list[tuple[FoundItem, ItemScore, bool]]:
    """Return the best items, with whether they are of a time that the question names."""
    found = [
        (row, each, any(begin <= row.said_at < end for begin, end in question.spans))
        for row, each in scored
        if each.score
    ]
    bonus = _TIMELY * max((each.score for _, each, _ in found), default=0.0)
    return nlargest(question.limit, found, lambda of: (of[1].score + bonus * of[2], of[0].item))


def _of_terms(
    session: Session, state: State, statement: str, names: Mapping[str, str]
) -> Iterator[tuple[Any, ...]]:
    """Yield what a statement returns about terms, given by their names in the database."""
    for part in parts_of([*names]):
        query, given = sql.among(statement, part)
        for name, *rest in session.rows(query, [state.search, *given]):
            yield names[name], *rest


def _blocks(
    session: Session, state: State, names: Mapping[str, str]
) -> dict[str, list[tuple[int, bytes]]]:
    found = dict[str, list[tuple[int, bytes]]]()
    for term, first, block in _of_terms(session, state, _READ_BLOCKS, names):
        if len(block) % 3 or not 0 < first < state.next:
            raise StorageError("The index of a place has a damaged block of items")
        found.setdefault(term, []).append((first, block))
    return found


def _inside(session: Session, state: State, wanted: RecallFilter) -> set[int] | None:
    """Return the items that a filter lets through; None for all."""
    sets, (inside, given) = list[set[int]](), _conditions(wanted)
    if inside:
        rows = session.rows(_INSIDE.format(inside=inside), [state.search, *given])
        sets.append({item for (item,) in rows})
    marks = [mark_term(mark) for mark in wanted.marks]
    blocks = _blocks(session, state, dict(zip(marks, marks, strict=True)))
    for mark in marks:
        held = blocks.get(mark, ())
        sets.append({first + far for first, block in held for far, _ in iter_unpack("<HB", block)})
    return set.intersection(*sets) if sets else None


class StoredSearch:
    """The searches of one store, in places of at least `large` bytes. Thread-safe."""

    def __init__(
        self, places: StoredPlaces, vectors: VectorIndex | None = None, *, large: int = LARGE
    ) -> None:
        self.has_meaning: bool = vectors is not None
        self._places = places
        self._index = SearchIndex(places, vectors)
        self._vectors = vectors
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
                if rows and sum(row[-1] for row in rows.values()) >= self._from:
                    self._large.add((each, kind))
                    return True
            return False

        return self._places.read_store(read, False)

    def candidates(self, places: Sequence[Place], question: SearchQuestion) -> SearchAnswer | None:
        """Return the facts that may answer a question; None if an index could not be written."""
        return self._asked(places, question, FACTS, partial(self._facts, places, question))

    def turns(
        self, places: Sequence[Place], question: SearchQuestion
    ) -> list[TurnCandidate] | None:
        """Return passages of messages that may answer; None without an index."""
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
        if not question.can_scan():
            return None

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
        meaning = None
        if self._vectors is not None:
            meaning = self._vectors.meaning(session, keys, question)
        candidates, keywords, lacking = list[SearchCandidate](), list[str](), set[Identity]()
        wanted = question.filter
        inside = {at: _inside(session, state, wanted) for at, state in states.items()}
        nearest = dict[Identity, list[int]]()
        if meaning is not None:
            for identity, state in states.items():
                key = reader.key(identity)
                nearest[identity] = meaning.nearest(key, state.search, inside[identity])
        statistics, chosen = self._best(session, states, question, nearest, inside)
        for identity, state in states.items():
            key, search = reader.key(identity), state.search
            best, found = chosen[identity], dict[int, StoredItem]()
            cosines = dict[int, tuple[float, float]]()
            for items in parts_of([*best]):
                found |= loaded(session, key, search, *sql.among(_BY_ITEM, items))
            if meaning is not None:
                cosines = meaning.cosines(key, search, [*found])
                vectors, sums, ranked = meaning.statistics(key)
                known = statistics[identity]._replace(vectors=vectors, cosines=sums, ranked=ranked)
                statistics[identity] = known
                if not meaning.is_complete(key, search):
                    lacking.add(identity)
            for item, each in found.items():
                if is_inside(question.filter, each):
                    both = cosines.get(item, (None, None))
                    candidates.append(SearchCandidate(identity, item, each.fact, best[item], *both))
                    keywords.append(each.keyword)
        named = [*zip(candidates, keywords, strict=True)] if len(states) > 1 else []
        others = list(self._others(session, reader, places, states, named))
        is_near = meaning is not None and any(each.cosine is not None for each in candidates)
        return SearchAnswer(candidates, statistics, others, is_near, frozenset(lacking))

    def _vocabulary(self, session: Session, state: State, question: SearchQuestion) -> Letters:
        known, letters = self._letters.get(state.search, (0, None))
        if letters is None or not known <= state.next <= known + known // 10 + _SLACK:
            rows = session.rows(_LIST_TERMS, [state.search])
            letters = question.letters([unwritten(name) for (name,) in rows])
            if len(self._letters) >= _MOST_LETTERS:
                self._letters.clear()
            self._letters[state.search] = state.next, letters
        return letters

    def _best(
        self,
        session: Session,
        states: Mapping[Identity, State],
        question: SearchQuestion,
        nearest: Mapping[Identity, list[int]],
        inside: Mapping[Identity, set[int] | None],
    ) -> tuple[dict[Identity, PlaceStatistics], dict[Identity, dict[int, ItemScore]]]:
        """Return the statistics of each place, and its best items by words, with the nearest.

        The places share one limit, as statistics of all of them together make their scores
        comparable.
        """
        letters = {at: self._vocabulary(session, each, question) for at, each in states.items()}
        scan = question.scan(letters)
        statistics = dict[Identity, PlaceStatistics]()
        for at, each in states.items():
            names, holders = {written(t): t for t in scan.terms}, dict.fromkeys(scan.terms, 0)
            holders |= dict(_of_terms(session, each, _READ_HOLDERS, names))
            statistics[at] = PlaceStatistics(each.size, each.length, holders, letters[at])
        names = {written(term): term for term in scan.weigh(statistics)}
        rows, hits = list[FoundItem](), set[tuple[Identity, int]]()
        held = {
            at: HeldTerms(_blocks(session, each, names), inside[at]) for at, each in states.items()
        }
        for identity, items in scan.best(held, _SCORED).items():
            best = [*items, *nearest.get(identity, ())]
            search = states[identity].search
            rows += _read_found(session, identity, search, best).values()
            hits |= {(identity, item) for item in best}
        words = scan.scores(rows, has_meaning=bool(nearest))
        best = [*zip(rows, words, strict=True)]
        chosen = {identity: dict[int, ItemScore]() for identity in states}
        for row, scored in best if nearest else ():
            if row.item in nearest.get(row.identity, ()):
                chosen[row.identity][row.item] = scored
        if not question.filter.is_open:  # what was said beside an item may be outside
            best = [each for each in best if each[0][:2] in hits]
        found = _timely(best, question)
        for row, scored, _ in found:
            chosen[row.identity][row.item] = scored
        spans = [] if any(is_timely for *_, is_timely in found) else question.spans
        within, inner = _conditions(question.filter)
        for (begin, end), (identity, state) in product(spans, states.items()):  # all of that time
            span = [state.search, begin, end, *inner, question.limit // 2]
            for (item,) in session.rows(_SAID_IN.format(inside=within), span):
                chosen[identity].setdefault(item, _NO_WORDS)
        return statistics, chosen

    def _others(
        self,
        session: Session,
        reader: PlaceReader,
        places: Sequence[Place],
        states: Mapping[Identity, State],
        candidates: Sequence[tuple[SearchCandidate, str]],
    ) -> Iterator[SearchCandidate]:
        """Yield the facts of other places that may take precedence over candidates."""
        together, asked = seen_together(places), dict[tuple[Identity, str], None]()
        held = {(each.identity, each.item) for each, _ in candidates}
        for each, keyword in candidates:
            asked |= {(at, keyword): None for at in together[each.identity] if at in states}
        for identity, keyword in asked:
            given = [topic_of(keyword), _MOST_OTHERS]
            key, search = reader.key(identity), states[identity].search
            for item, stored in loaded(session, key, search, _LATEST, given).items():
                if (identity, item) not in held and stored.keyword == keyword:
                    yield SearchCandidate(identity, item, stored.fact, _NO_WORDS)

    def _turns(
        self,
        question: SearchQuestion,
        session: Session,
        reader: PlaceReader,
        states: Mapping[Identity, State],
    ) -> list[TurnCandidate]:
        candidates, named = list[TurnCandidate](), dict[bytes, tuple[str, Sealer]]()
        inside = {at: _inside(session, state, question.filter) for at, state in states.items()}
        _, chosen = self._best(session, states, question, {}, inside)
        for identity, state in states.items():
            best = chosen[identity]
            query, given = sql.among(_READ_TURNS, best)
            rows = session.rows(query, [state.search, *given]) if best else []
            for key in {bytes(row[2]) for row in rows} - named.keys():
                for names, data_key in session.rows(sql.READ_NAMES, [key]):
                    sealer = reader.sealer(key, data_key)
                    named[key] = name_of(reader, sealer.open_names(names), identity), sealer
            for item, part, key, *line in rows:
                name, sealer = named[bytes(key)]
                (turn,) = turns_in(sealer, [tuple(line)])
                candidates.append(TurnCandidate(identity, name, turn, part, best[item]))
        return candidates
