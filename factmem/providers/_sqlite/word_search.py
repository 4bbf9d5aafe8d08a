"""WordSearch: finds candidates by the stored indexes of words. Every method blocks.

For each place one of three: its stored index, if the place has not changed; the index without the
keywords that changed, and a small index of these; a new index, which takes reading all of the place
and is stored for the next process. All are searched alike, as parts. An index is sealed or has a
checksum, as the lines of its place, and names the end at which it was made. Only
`SearchedFileProvider` uses it, for a process that recalls once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from factmem._concurrency.garbage import paused_collection
from factmem.errors import StorageError
from factmem.ledger.entries import Entry
from factmem.ledger.ledger import Ledger
from factmem.ledger.resolution import seen_together
from factmem.models._values import canonical
from factmem.models.facts import AnyFact, Concept
from factmem.models.places import Identity, Place
from factmem.models.recall_filter import RecallFilter, marks_of
from factmem.providers._sql import statements as sql
from factmem.providers._sql.items import StoredItem, current_facts, keywords_in
from factmem.providers._sql.places import PlaceReader, Position
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


_MOST_CHANGED = 2000
"""The most facts of changed keywords that are searched beside an index; with more, it is made again."""


@dataclass(frozen=True, slots=True)
class _Part:
    """An index, and its documents that are no longer current."""

    index: WordIndex
    hidden: frozenset[int] = frozenset()


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

        def read(session: Session, reader: PlaceReader) -> int:
            heads = [session.rows(sql.READ_HEAD, [reader.key(each)]) for each in identities]
            return sum(head[3] for rows in heads for head in rows)

        return self._places.read_store(read, 0)

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
        parts: dict[Identity, Sequence[_Part]] = {}
        new: dict[Identity, bytes] = {}
        for place in places:
            found = self._stored(place, describe)
            if found is None:
                data = new[place.identity] = self._made(place, describe)
                found = [_Part(WordIndex(data))]
            parts[place.identity] = found
        if keep and new:
            self._keep(new)
        candidates: list[SearchCandidate] = []
        for identity, those in parts.items():
            for part in those:
                candidates += islice(_inside(identity, part, question), question.limit)
        counted = {identity: _counted(those, question.terms) for identity, those in parts.items()}
        statistics = {identity: each for identity, each in counted.items() if each.facts}
        return SearchAnswer(candidates, statistics, list(_others(places, parts, candidates)))

    def _stored(self, place: Place, describe: Describe) -> "Sequence[_Part] | None":
        """Return the stored index of a place and what was saved since; None if it is of no use."""
        identity = place.identity

        def read(session: Session, reader: PlaceReader) -> tuple[WordIndex, Sequence[Entry]] | None:
            key = reader.key(identity)
            for made, snapshot, last, size, _, data_key, tail in session.rows(sql.READ_HEAD, [key]):
                for _, stored in session.rows(sql.READ_INDEX, [key, sql.WORDS]):
                    sealer, extent = reader.sealer(key, data_key), Extent(made, snapshot, last)
                    data = sealer.open_index(stored)
                    if data is None or not WordIndex.is_readable(data, self._stems):
                        return None
                    index = WordIndex(data)
                    known = index.state
                    if (known.extent, known.size) == (extent, size):
                        sealer.check_tail(extent, known.tag, tail)
                        return index, ()
                    if known.extent[:2] != extent[:2]:
                        return None
                    position = Position(known.extent, last, known.tag, size, known.size)
                    answer = reader.read(session, {identity: position})[identity]
                    is_whole = answer.position.extent.last == answer.position.end
                    return (index, answer.entries) if is_whole else None
            return None

        found, now = self._places.read_store(read, None), self._places.time()
        if found is None or not found[0].is_valid(now):
            return None
        index, entries = found
        return (
            [_Part(index)] if not entries else self._followed(place, index, entries, describe, now)
        )

    def _followed(
        self,
        place: Place,
        index: WordIndex,
        entries: Sequence[Entry],
        describe: Describe,
        now: str,
    ) -> "Sequence[_Part] | None":
        """Return an index without the keywords that changed since, and one of these; None if too much did.

        A fact that was saved since is found by its own words, and not by those of older messages.
        """
        keywords = keywords_in(entries)
        hidden = [number for keyword in keywords for number in index.of_keyword(keyword)]
        if len(hidden) > _MOST_CHANGED:
            return None
        ledger = index.ledger(keywords)
        if ledger is None:
            return None
        for entry in entries:
            ledger.apply(entry)
        items = [each for keyword in keywords for each in current_facts(ledger, keyword, now)]
        documents = describe([each.fact() for each in items], place.identity[3])
        begins_at = ledger.next_begin(now)
        recent = encoded(index.state, ledger, items, documents, self._stems, begins_at=begins_at)
        return [_Part(index, frozenset(hidden)), _Part(WordIndex(recent))]

    def _made(self, place: Place, describe: Describe) -> bytes:
        """Read a place, and return its index."""
        view = self._places.view(place.identity)

        def present(ledger: Ledger, now: str) -> bytes:
            position, items = view.position, list[StoredItem]()
            for keyword in ledger.state().by_keyword:
                items += current_facts(ledger, keyword, now)
            state = State(Extent(0, 0, 0), b"", 0)
            if position is not None:
                state = State(position.extent, position.tag, position.size)
            documents = describe([each.fact() for each in items], place.identity[3])
            begins_at = ledger.next_begin(now)
            return encoded(state, ledger, items, documents, self._stems, begins_at=begins_at)

        with paused_collection(len(view)):
            return self._places.present_view(view, present)

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


def _counted(parts: Iterable[_Part], terms: Iterable[str]) -> PlaceStatistics:
    """Return the statistics of a place."""
    asked, parts = list(terms), list(parts)
    return PlaceStatistics(
        sum(len(each.index) - len(each.hidden) for each in parts),
        sum(each.index.length - each.index.length_of(each.hidden) for each in parts),
        {term: sum(e.index.holders(term, list(e.hidden)) for e in parts) for term in asked},
    )


def _inside(identity: Identity, part: _Part, question: SearchQuestion) -> Iterator[SearchCandidate]:
    """Yield the candidates of a place that a filter allows, best first."""
    wanted = question.filter
    for hit in part.index.best(question.terms):
        if hit.number in part.hidden:
            continue
        item = part.index.item(hit.number)
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
    indexes: Mapping[Identity, Sequence[_Part]],
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
        items = (
            part.index.item(number)
            for part in indexes[identity]
            for number in part.index.of_keyword(keyword)
            if number not in part.hidden
        )
        for at, item in enumerate(islice(items, _MOST_OTHERS)):
            has_common = not asked.isdisjoint(canonical(each.value) for each in item.items)
            name = identity, keyword, item.items[0].fact_id
            if name not in held and (at == 0 or has_common):
                yield _candidate(identity, item, Hit(0, {}, 0.0))
