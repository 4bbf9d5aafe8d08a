"""WordSearch: finds candidates by the stored indexes of words. Every method blocks."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from factmem._concurrency.garbage import paused_collection
from factmem.errors import StorageError
from factmem.ledger.ledger import Ledger
from factmem.ledger.resolution import seen_together
from factmem.models._values import canonical
from factmem.models.facts import AnyFact, Concept
from factmem.models.places import Identity, Place
from factmem.models.recall_filter import RecallFilter, marks_of
from factmem.providers._sql import statements as sql
from factmem.providers._sql.items import StoredItem, current_facts
from factmem.providers._sql.sealing import Extent
from factmem.providers._sql.session import Session
from factmem.providers._sqlite.places import SqlitePlaces
from factmem.providers._sqlite.word_index import Hit, State, WordIndex, encoded
from factmem.providers.searched import (
    Describe,
    PlaceStatistics,
    SearchAnswer,
    SearchCandidate,
    SearchQuestion,
)

_MOST_OTHERS = 1000
"""The most facts of a keyword in another place that are compared with a candidate."""


class WordSearch:
    """Finds the candidates of one question in a process that has read nothing.

    Args:
        places: The places of a store.
        stems: What the terms of documents depend on beside the facts.
    """

    def __init__(self, places: SqlitePlaces, stems: str) -> None:
        self._places = places
        self._stems = stems

    def size(self, identities: Sequence[Identity]) -> int:
        """Return the bytes of the entries of some places."""

        def read(session: Session, _: int) -> int:
            reader = self._places.reading(session)
            if reader is None:
                return 0
            heads = [session.rows(sql.READ_HEAD, [reader.key(each)]) for each in identities]
            return sum(head[3] for rows in heads for head in rows)

        return self._places.run(read)

    def candidates(
        self, places: Sequence[Place], question: SearchQuestion, describe: Describe, *, keep: bool
    ) -> SearchAnswer:
        """Return the candidates of a question by words.

        Args:
            places: The places to search.
            question: The question.
            describe: Returns the documents of facts.
            keep: Whether to store the indexes that had to be made.
        """
        indexes: dict[Identity, WordIndex] = {}
        new: dict[Identity, bytes] = {}
        for place in places:
            data = self._stored(place.identity)
            if data is None:
                data = new[place.identity] = self._made(place, describe)
            indexes[place.identity] = WordIndex(data)
        if keep and new:
            self._keep(new)
        found: list[SearchCandidate] = []
        for identity, index in indexes.items():
            found += islice(_inside(identity, index, question), question.limit)
        statistics = {
            identity: PlaceStatistics(
                len(index), index.length, {term: index.holders(term) for term in question.terms}
            )
            for identity, index in indexes.items()
            if len(index)
        }
        return SearchAnswer(found, statistics, list(_others(places, indexes, found)))

    def _stored(self, identity: Identity) -> bytes | None:
        """Return the stored index of a place; None if there is none that is current."""

        def read(session: Session, _: int) -> tuple[State, bytes] | None:
            reader = self._places.reading(session)
            if reader is None:
                return None
            key = reader.key(identity)
            for made, snapshot, last, _, _, data_key, tail in session.rows(sql.READ_HEAD, [key]):
                for _, stored in session.rows(sql.READ_INDEX, [key, sql.WORDS]):
                    sealer, extent = reader.sealer(key, data_key), Extent(made, snapshot, last)
                    data = sealer.open_index(stored)
                    if data is None or not WordIndex.is_readable(data, self._stems):
                        return None
                    state = WordIndex(data).state
                    if state.extent == extent:
                        sealer.check_tail(extent, state.tag, tail)
                        return state, data
            return None

        found = self._places.run(read)
        if found is None or not WordIndex(found[1]).is_current(found[0], self._places.time()):
            return None
        return found[1]

    def _made(self, place: Place, describe: Describe) -> bytes:
        """Read a place, and return its index."""
        view = self._places.view(place.identity)

        def present(ledger: Ledger, now: str) -> tuple[State, list[StoredItem]]:
            position, items = view.position, list[StoredItem]()
            for keyword in ledger.state().by_keyword:
                items += current_facts(ledger, keyword, now)
            if position is None:
                return State(Extent(0, 0, 0), b""), items
            return State(position.extent, position.tag), items

        with paused_collection(len(view)):
            state, items = self._places.present_view(view, present)
            facts = [each.fact() for each in items]
            return encoded(state, items, describe(facts, place.identity[3]), self._stems)

    def _keep(self, made: Mapping[Identity, bytes]) -> None:
        """Store indexes in one transaction, but those of places that have changed meanwhile.

        A store that cannot be written now is searched all the same.
        """

        def write(session: Session, _: int) -> None:
            reader = self._places.reading(session)
            if reader is None:
                return
            with session.transaction():
                for identity, data in made.items():
                    key, extent = reader.key(identity), WordIndex(data).state.extent
                    for row in session.rows(sql.READ_HEAD, [key]):
                        if Extent(*row[:3]) == extent:
                            sealed = reader.sealer(key, row[5]).seal_index(data)
                            given = [key, sql.WORDS, reader.store.number, sealed]
                            session.rows(sql.WRITE_INDEX, given)

        try:
            with self._places.database.writing_soon():
                self._places.write(write)
        except StorageError:
            return


def _inside(
    identity: Identity, index: WordIndex, question: SearchQuestion
) -> Iterator[SearchCandidate]:
    """Yield the candidates of a place that a filter allows, best first."""
    wanted = question.filter
    for hit in index.best(question.terms):
        item = index.item(hit.number)
        if wanted.is_open or _allows(wanted, item.fact()):
            yield _candidate(identity, item, hit)


def _allows(wanted: RecallFilter, fact: AnyFact) -> bool:
    return (
        (wanted.keywords is None or fact.concept.keyword in wanted.keywords)
        and (wanted.since is None or fact.timestamp >= wanted.since)
        and (wanted.until is None or fact.timestamp < wanted.until)
        and wanted.marks <= marks_of(fact)
    )


def _candidate(identity: Identity, item: StoredItem, hit: Hit) -> SearchCandidate:
    return SearchCandidate(identity, hit.counts, hit.length, None, None, partial(_load, item))


def _load(item: StoredItem, known: Mapping[str, Concept[Any, Any]]) -> AnyFact:
    return item.fact(known.get(item.keyword))


def _others(
    places: Sequence[Place],
    indexes: Mapping[Identity, WordIndex],
    candidates: Sequence[SearchCandidate],
) -> Iterator[SearchCandidate]:
    """Yield the facts of other places that may take precedence over candidates.

    They have the same keyword, and a value of it or the keyword's type in that place.
    """
    together, held = seen_together(places), set[tuple[Identity, str, str]]()
    values: dict[tuple[Identity, str], set[object]] = {}
    for each in candidates:
        fact = each.load({})
        held.add((each.identity, fact.concept.keyword, fact.id))
        for other in together[each.identity]:
            asked = values.setdefault((other, fact.concept.keyword), set())
            asked.update(map(canonical, fact.values))
    for (identity, keyword), asked in values.items():
        index = indexes[identity]
        for at, number in enumerate(islice(index.of_keyword(keyword), _MOST_OTHERS)):
            item = index.item(number)
            has_common = not asked.isdisjoint(canonical(each.value) for each in item.items)
            name = identity, keyword, item.items[0].fact_id
            if name not in held and (at == 0 or has_common):
                yield _candidate(identity, item, Hit(number, {}, 0.0))
