"""Desk: what waits in a store for a person, and the decisions of the person about it.

The commands, the terminal browser and the page decide on a desk. `Recent` follows the store.
"""

import json
import time
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple
from zlib import crc32

import anyio
from anyio.to_thread import run_sync

from factmem._cli.opening import Store
from factmem._cli.options import Options
from factmem._cli.output import CommandError, ExitCode
from factmem._cli.readings import Reading, Row, rows_of, value_words
from factmem._cli.targets import place_name, target_of
from factmem._text.analysis import words
from factmem.embedding.base import Embedder
from factmem.errors import FactmemError, StorageError
from factmem.ledger.history import FactChange
from factmem.ledger.resolution import PlacedFact
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.review import KINDS, ItemKind, MemoryReview
from factmem.models._display import shown
from factmem.models.facts import FactSource, FactState
from factmem.models.places import Identity, Place
from factmem.models.when import moment, stamp
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.store import FactStore

DONE = {"accept": "Accepted", "correct": "Corrected", "reject": "Rejected", "restore": "Restored"}
_IDLE, _IDLE_UNKNOWN = 2.0, 30.0
"""The least seconds between two looks at a store, and at one that has to be read to notice changes.
A look that takes longer is rarer."""
_SHARE = 10
_MOST_NEW = 20
"""The new values that are kept of a place, its newest; the next follow when these are decided."""


class Waiting(NamedTuple):
    """A value that waits for a person."""

    kind: ItemKind
    at: datetime | None
    place: Place
    fact_id: str
    position: int


@dataclass(slots=True)
class _Known:
    mark: tuple[int, str]
    place: Place
    waiting: list[Waiting]
    more: int
    """The number of further new values."""
    actors: frozenset[str]
    terms: "array[int]"
    """Hashes of the words of its values."""


def review_of(store: Store, *places: Place) -> MemoryReview:
    """Return the review of some places of a store, or of all."""
    memory = AgentMemory(store)
    return (memory.view(places=places) if places else memory).review


class Recent:
    """What waits for review in a store, and which places changed last.

    The store is read once, place by place, and then only what changed. Of each place a few numbers
    are kept, and for each waiting value its id: no values. Values that models learnt are new for
    `days`. `stamp` returns a number that changes with the store, or None if that is unknown.
    """

    def __init__(
        self, store: FactStore, *, days: int, stamp: Callable[[], int | None] = lambda: None
    ) -> None:
        self._store, self._span, self._stamp = store, timedelta(days=days), stamp
        self._known: dict[Identity, _Known] = {}
        self._sorted: list[Waiting] | None = None
        self.version = 0
        """A number that changes with what waits, and when all of it was read first."""
        self.is_complete = False
        """Whether the whole store was read."""
        self.unreadable = 0
        """The number of places that could not be read."""

    async def follow(self) -> None:
        """Read the store, and again what changed, until cancelled."""
        read: int | None = None
        while True:
            was_complete, began, now = self.is_complete, time.monotonic(), self._stamp()
            if now is None or now != read:
                with suppress(FactmemError, OSError):  # pages report the errors of their own reads
                    await self.refresh()
                    read = now
            took = time.monotonic() - began
            idle = _IDLE if now is not None else _IDLE_UNKNOWN
            await anyio.sleep(max(idle, _SHARE * took if was_complete else 0))

    async def refresh(self) -> None:
        """Read the places that changed."""
        places, failed = await self._store.list_places(), 0
        for place in places:
            try:
                await self.reread(place)
            except FactmemError:  # one damaged place hides no other; its own page reports the error
                failed += 1
                self._drop(place.identity)
        self.unreadable = failed
        gone = self._known.keys() - {place.identity for place in places}
        for identity in gone:
            self._drop(identity)
        if not self.is_complete:
            self.is_complete = True
            self.version += 1

    async def reread(self, place: Place) -> None:
        """Read a place if it changed."""
        entries = await self._store.entries(place.subject, place.scope)
        if not entries:  # erased
            self._drop(place.identity)
            return
        mark = (len(entries), entries[-1]["at"])
        known = self._known.get(place.identity)
        if known is None or known.mark != mark:
            reading, since = Reading(place, entries), datetime.now(UTC) - self._span
            self._known[place.identity] = await run_sync(_known, reading, mark, since)
            self._note()

    def waiting(self, place: Place | None = None, kind: str | None = None) -> Sequence[Waiting]:
        """Return the values that wait: contradictions, proposals, doubtful and new ones."""
        if self._sorted is None:
            found = [each for known in self._known.values() for each in known.waiting]
            found.sort(key=_at, reverse=True)
            self._sorted = sorted(found, key=lambda each: KINDS.index(each.kind))
        since = datetime.now(UTC) - self._span
        return [
            each
            for each in self._sorted
            if kind in (None, each.kind)
            and (place is None or each.place.identity == place.identity)
            and (each.kind != "new" or each.at is None or each.at >= since)
        ]

    def count(self, place: Place | None = None) -> int:
        """Return how many values wait."""
        known = [*self._known.values()] if place is None else [self._known.get(place.identity)]
        more = sum(each.more for each in known if each is not None)
        return len(self.waiting(place)) + more

    def _drop(self, identity: Identity) -> None:
        if self._known.pop(identity, None) is not None:
            self._note()

    def _note(self) -> None:
        self._sorted = None
        self.version += 1

    def changed_last(self, actor: str | None = None) -> list[tuple[str, Place]]:
        """Return the places, or those that an actor changed, with the time of their last change.

        The place that changed last is the first.
        """
        known = [each for each in self._known.values() if actor is None or actor in each.actors]
        found = [(each.mark[1], each.place) for each in known]
        return sorted(found, key=lambda each: each[0], reverse=True)

    def places(self, containing: str = "") -> list[tuple[Place, datetime]]:
        """Return the places whose name contains a string, by name, with their last change."""
        wanted = containing.casefold()
        named = [(place_name(known.place).casefold(), known) for known in self._known.values()]
        found = sorted((each for each in named if wanted in each[0]), key=lambda each: each[0])
        return [(known.place, moment(known.mark[1])) for _, known in found]

    def matching(self, question: str, *, most: int) -> list[Place]:
        """Return the places with most of a question's words. Rare words weigh more.

        A store with at most `most` places returns all.
        """
        if len(self._known) <= most:
            return [known.place for known in self._known.values()]
        asked = {crc32(term.encode()) for word in words(question) for term in word}
        held = {known.place: asked.intersection(known.terms) for known in self._known.values()}
        counts = {term: sum(term in terms for terms in held.values()) for term in asked}
        scored = [(sum(1 / counts[t] for t in terms), place) for place, terms in held.items()]
        best = sorted((each for each in scored if each[0]), key=lambda each: -each[0])
        return [place for _, place in best[:most]]


def _known(reading: Reading, mark: tuple[int, str], since: datetime) -> _Known:
    rows = reading.rows
    waiting = [
        Waiting(row.item.kind, row.item.at, row.place, row.fact.id, row.position)
        for row in reading.waiting(since)
        if row.item is not None
    ]
    new = [each for each in waiting if each.kind == "new"]
    new.sort(key=_at, reverse=True)
    waiting = [each for each in waiting if each.kind != "new"] + new[:_MOST_NEW]
    more = len(new[_MOST_NEW:])
    text = "\n".join(f"{row.fact.concept.keyword} {value_words([row.value])}" for row in rows)
    terms = {crc32(term.encode()) for word in words(text) for term in word}
    actors = frozenset(entry["actor"] for entry in reading.entries if "actor" in entry)
    return _Known(mark, reading.place, waiting, more, actors, array("I", terms))


def _at(each: Waiting) -> float:
    return each.at.timestamp() if each.at else 0.0


_AROUND = 2
"""The messages that are shown before and after the one with the quote."""


@dataclass(frozen=True, slots=True)
class Line:
    """A message of a chat; `quoted` is the part that states the fact."""

    speaker: str
    before: str
    quoted: str = ""
    after: str = ""


class Desk:
    """A store that is open for review."""

    def __init__(
        self, store: Store, options: Options, *, embedder: Embedder | None = None, days: int = 7
    ) -> None:
        self.store = store
        self.embedder = embedder
        self._options = options
        self.recent = Recent(store, days=days, stamp=self.stamp)

    def stamp(self) -> int | None:
        """Return a number that changes with the store, also by other processes; None if unknown."""
        if not isinstance(self.store, LocalFileMemoryProvider):
            return None
        folder = Path(self._options.location)
        found = (folder / name for name in ("facts.db", "facts.db-wal"))
        return sum(path.stat().st_mtime_ns for path in found if path.exists())

    async def reading(self, place: Place) -> Reading:
        """Read a place."""
        entries = await self.store.entries(place.subject, place.scope)
        if not entries:
            raise CommandError("There is no such user, or all facts were erased", ExitCode.NOTHING)
        return Reading(place, entries)

    async def inbox(
        self, place: Place | None = None, kind: str | None = None, *, skip: int = 0, most: int
    ) -> list[Row]:
        """Return values that wait for a person, the most urgent first; see `Recent.waiting`."""
        readings: dict[Place, Reading] = {}
        found: list[Row] = []
        for each in self.recent.waiting(place, kind)[skip : skip + most]:
            if each.place not in readings:
                entries = await self.store.entries(each.place.subject, each.place.scope)
                readings[each.place] = Reading(each.place, entries)
            row = readings[each.place].row(each.fact_id, each.position)
            if row is not None and row.item is not None:
                found.append(row)
        return found

    async def search(self, question: str, place: Place | None = None, *, most: int) -> list[Row]:
        """Return the values that answer a question, best first, by the recall of the agents.

        Without a place it searches those with most of the question's words, and all by meaning.
        """
        if place is not None:
            places = [place]
        elif self.embedder is None:
            places = self.recent.matching(question, most=most)
        else:
            places = await self.store.list_places()
        memory = AgentMemory(self.store, embedder=self.embedder)
        found = await memory.view(places=places).recall(question, limit=most)
        return [
            row
            for match in found
            for row in rows_of(match.place, [match.fact], relevance=match.relevance)
        ]

    async def lines(self, row: Row) -> list[Line]:
        """Return the messages around the one that states a value, as far as they are stored."""
        source = row.fact.source
        if source is None:
            return []
        found: list[Line] = []
        if source.conversation is not None and source.message is not None:
            found = await self._stored_lines(row.place, source.conversation, source.message, source)
        if not any(line.quoted for line in found) and source.quote:
            before = [Line("before", source.before)] if source.before else []
            found = [*before, Line(source.kind.value, "", source.quote)]
        return found

    async def _stored_lines(
        self, place: Place, conversation: str, message: int, source: FactSource
    ) -> list[Line]:
        first, last = message + _AROUND + 1, 2 * _AROUND + 1
        try:
            kept = self.store.conversations
        except StorageError:  # this store keeps no conversations
            return []
        found: list[Line] = []
        for turn in await kept.turns(conversation, place, before=first, last=last):
            quote = source.quote if turn.number == message else None
            parts = turn.text.partition(quote) if quote else (turn.text, "", "")
            if turn.text:
                found.append(Line(turn.name or turn.role, *parts))
        return found

    async def changes(
        self, place: Place | None, actor: str | None, *, skip: int, most: int
    ) -> list[FactChange]:
        """Return changes of a place or of the store, by an actor or by all, the newest first.

        Only the places that changed last are read, as many as are needed.
        """
        last = self.recent.changed_last(actor) if place is None else [("", place)]
        found: list[FactChange] = []
        for at, each in last:
            found.sort(key=lambda change: change.at, reverse=True)
            if len(found) >= skip + most and stamp(found[skip + most - 1].at) >= at:
                break
            entries = await self.store.entries(each.subject, each.scope)  # none if it was erased
            made = await run_sync(getattr, Reading(each, entries), "changes")
            found += [change for change in made if actor is None or change.actor == actor]
        found.sort(key=lambda change: change.at, reverse=True)
        return found[skip : skip + most]

    async def decide(self, what: str, row: Row, text: str = "") -> str:
        """Accept, correct, reject or restore a value, and return the id of the change.

        The caller names the actor by `acting`. `text` is the right value, as it was typed.
        """
        place, ends = row.place, row.item is not None and row.item.is_ending
        review = review_of(self.store, place)
        if what == ("reject" if ends else "accept"):  # to reject an end keeps the value
            made = await review.accept(await self._current(row))
        elif what == "correct":
            value = typed_value(self._options, row, text)
            made = await review.correct(await self._current(row), value)
        elif what in {"accept", "reject"}:
            for other in await self._equals(row):
                await review.reject(PlacedFact(place, other.alone))
            made = await review.reject(await self._current(row))
        elif what != "restore":
            raise ValueError(f"{what!r} is no decision: accept, correct, reject or restore")
        else:
            fact: Any = replace(row.alone, id=token_hex(16), state=FactState.CONFIRMED)
            await self.store.save(fact, place.subject, place.scope)
            made = (await self.reading(place)).changes[-1].id
        await self.recent.reread(place)
        return made

    async def undo(self, place: Place, change: str) -> str:
        """Undo a change of a place, and return the id of the change that does so.

        Raises:
            ValueError: A later change rests on it, or the place has no such change.
        """
        made = await review_of(self.store, place).undo(change)
        await self.recent.reread(place)
        return made

    async def _equals(self, row: Row) -> list[Row]:
        """Return other proposals of the value, in letters of another case; the inbox shows one."""
        if not row.is_proposed:
            return []
        waits = (await self.reading(row.place)).waiting(datetime.now(UTC))
        return [
            each for each in waits if each.fact.id != row.fact.id and each.subject == row.subject
        ]

    async def _current(self, row: Row) -> PlacedFact:
        """Return a value as it is now."""
        now = (await self.reading(row.place)).row(row.fact.id, row.position)
        if now is None or now.fact.values != row.fact.values:
            raise CommandError("The value was changed or forgotten in the meantime")
        return PlacedFact(row.place, row.alone)


def editable(value: object) -> str:
    """Return a value for an editor: JSON, or a string unchanged.

    A string with control characters is shown as JSON, because they would control the terminal.
    """
    if isinstance(value, str) and shown(value.replace("\n", "")) == value.replace("\n", ""):
        return value
    if isinstance(value, str):
        return shown(json.dumps(value))
    return json.dumps(value, ensure_ascii=False, indent=2)


def typed_value(options: Options, row: Row, text: str) -> Any:
    """Parse a value that a person typed over that of a row."""
    keyword = row.fact.concept.keyword
    is_escaped = isinstance(row.value, str) and editable(row.value) != row.value
    if is_escaped and text.startswith('"'):
        try:
            text = json.loads(text)
        except ValueError:
            raise CommandError("The value must be a JSON string") from None
    target = target_of(options, keyword, [row.fact])
    value = target.value(text)
    return target.concept.codec.dump(value, keyword) if target.is_own else value
