"""The past of a place: the history of a concept, the changes, and what held at some time. Pure.

All three read a `Trace`. `history` shows each effect on one concept as a `HistoryEntry`.
`changes_of` shows what each entry added, removed, confirmed and proposed. A change is an entry,
seen by its effects. Its id is a digest of what it names, so it survives the removal of other
history and is not stored. `held_at` answers in valid time: which values held at some time, as far
as was known at another. `HistorySeries` caches the histories of the last place.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson
from anyio.to_thread import run_sync

from factmem.ledger._items import Condition, Item, KeywordItems, name_of, values_of
from factmem.ledger._reads import as_far_as_readable, as_plain, is_misfit, json_concept, presented
from factmem.ledger._trace import Life, RelatedEntries, SavedFact, Trace
from factmem.ledger.entries import Entry, ForgottenItem, StoredFact, by_of, part_about
from factmem.ledger.ledger import Ledger, LedgerState
from factmem.models._display import CELLS, Displayed, Sheet, fact_cells, one_kind
from factmem.models.facts import AnyConcept, AnyFact, Concept, FactType, stored_concept
from factmem.models.places import Identity, Place
from factmem.models.when import When, begin_of, end_of, moment, stamp

__all__ = ["FactChange", "History", "HistoryAction", "HistoryEntry"]


class HistoryAction(StrEnum):
    """The kind of a change in a concept's history."""

    SAVED = "saved"
    """At least one value was new."""
    CONFIRMED = "confirmed"
    """All values were current already."""
    FORGOTTEN = "forgotten"
    SUPERSEDED = "superseded"
    """A statement recorded after one that was said later, which changed nothing."""
    PROPOSED = "proposed"
    """A value that waits for a decision of a person or the application."""
    PLANNED = "planned"
    """A value that begins later: current from its `since`, unless it is forgotten before."""


@dataclass(frozen=True, slots=True)
class HistoryEntry(Displayed):
    """One change of a concept in one place."""

    action: HistoryAction
    recorded_at: datetime
    fact: AnyFact | None = None
    """The saved, confirmed or superseded fact; None for a forgetting."""
    forgotten: tuple[str, ...] = ()
    """The ids of the facts whose values were forgotten; the values are not repeated."""
    is_unreadable: bool = False
    """Whether a value of `fact` does not fit the concept's type. All are then plain JSON."""
    actor: str | None = None
    """Who made the change."""
    reason: str | None = None


class History(list[HistoryEntry], Displayed):
    """The history of a concept, oldest first: a list that notebooks show as a table."""

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row for each value: `pandas.DataFrame(history.to_rows())`.

        A forgetting is a row without a value. Times are datetimes. The values have one type:
        strings, numbers or booleans if all are of that type, otherwise JSON.
        """
        return one_kind(row for entry in self for row in _rows_of(entry))

    def _sheet(self) -> Sheet:
        rows: list[tuple[object, ...]] = []
        for entry in self:
            said = (entry.fact.values, entry.fact.source) if entry.fact else (None, None)
            rows.append((entry.recorded_at, entry.action.value, *said))
        return Sheet("History", ("recorded", "action", "value", "source"), rows)


def _rows_of(entry: HistoryEntry) -> Iterator[dict[str, Any]]:
    head = {"recorded": entry.recorded_at, "action": entry.action.value}
    if entry.fact is None:
        for fact_id in entry.forgotten or (None,):
            yield {**head, **_NOTHING, "id": fact_id}
    else:
        for position in range(len(entry.fact.values)):
            yield {**head, **fact_cells(entry.fact, position)}


_NOTHING: dict[str, Any] = dict.fromkeys(CELLS)
"""The columns of a missing fact."""


def history(entries: Iterable[Entry], concept: Concept[Any, Any]) -> History:
    """Return every save, confirmation and forgetting of a concept's keywords, oldest first.

    Each fact shows the description and the type that it was saved with, and in `confirmed_at` the
    time at which it was recorded. A save without remaining values is not shown. A statement that
    was superseded at once is shown with its `timestamp`, which is when it was said. A fact with a
    value that does not fit the concept's `value_type` is shown as plain JSON.
    """
    keywords = frozenset(concept.keywords)
    found = list(_concerning(entries, keywords))
    trace = Trace(found)
    events = History()
    concepts: dict[tuple[str, str], Concept[Any, Any]] = {}
    for number, (entry, at) in enumerate(zip(found, trace.recorded, strict=True)):
        for saved in trace.saved[number]:
            fact = saved.fact
            if fact["keyword"] in keywords and saved.values:
                kind = (fact["description"], fact["type"])
                as_saved = concepts.get(kind) or concepts.setdefault(kind, _as_saved(concept, fact))
                events.append(_event(saved, as_saved))
        ended = [name[1] for name in entry.get("forget", ()) if name[2]]
        ended += [life.item.fact_id for life, _ in trace.retracted[number] if life is not None]
        if ended:
            ids = tuple(dict.fromkeys(ended))
            events.append(
                HistoryEntry(HistoryAction.FORGOTTEN, moment(at), None, ids, False, *by_of(entry))
            )
        elif any("digest" in each for each in entry.get("retract", ())):
            action = HistoryAction.SUPERSEDED
            events.append(HistoryEntry(action, moment(at), None, (), False, *by_of(entry)))
    return events


class Histories:
    """The histories of many concepts of one place, whose entries are indexed once."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._related = RelatedEntries([*entries])
        self._last: tuple[Concept[Any, Any] | None, History] = None, History()
        """The last answer, as callers ask for several facts of one concept in a row."""

    def of(self, concept: Concept[Any, Any]) -> History:
        """Return the history of a concept; see `history`."""
        last, found = self._last
        if last is None or last != concept or last.was != concept.was:
            found = history(self._related.about(concept.keywords), concept)
        if not concept.codec.is_plain_text:  # such values are mutable
            return found
        self._last = concept, found
        return History(found)

    def size(self, concept: Concept[Any, Any]) -> int:
        """Return roughly how many changes `of` has to read."""
        found = self._related.about(concept.keywords)
        return sum(len(entry.get("facts", ())) or 1 for entry in found)


def _concerning(entries: Iterable[Entry], keywords: frozenset[str]) -> Iterator[Entry]:
    """Yield the parts of entries about keywords, and about facts that share an id with theirs."""
    entries = list(entries)
    ids = {
        fact["id"]
        for entry in entries
        for fact in entry.get("facts", ())
        if fact["keyword"] in keywords
    }
    at = ""
    for entry in entries:
        at = max(at, entry["at"])
        if part := part_about(entry, keywords, ids):
            yield {**part, "at": at}


def _as_saved(concept: Concept[Any, Any], fact: StoredFact) -> Concept[Any, Any]:
    fact_type = FactType(fact["type"])
    saved = stored_concept(concept.keyword, fact["description"], fact_type, concept.value_type)
    if concept.read is not None:
        object.__setattr__(saved, "read", concept.read)  # read past values like the current one
    return saved


def _event(saved: SavedFact, concept: Concept[Any, Any]) -> HistoryEntry:
    is_new = any(value.is_new for value in saved.values)
    items = [Item(0, value, saved.fact, saved.at, saved.by) for _, value in values_of(saved.fact)]
    for item, value in zip(items, saved.values, strict=True):
        if value.is_proposed:
            item.state = "proposed"
    fact, *others = as_far_as_readable(concept, items)
    is_unreadable = bool(others) or is_misfit(fact, concept)
    if others:
        (fact,) = presented(as_plain(concept), items)
    action = HistoryAction.SAVED if is_new else HistoryAction.CONFIRMED
    if saved.is_superseded:
        action = HistoryAction.SUPERSEDED
    elif saved.is_proposed:
        action = HistoryAction.PROPOSED
    elif is_new and fact.since is not None and stamp(fact.since.begin) > saved.at:
        action = HistoryAction.PLANNED
    return HistoryEntry(action, moment(saved.at), fact, (), is_unreadable, *saved.by)


_PARTS = ("added", "removed", "confirmed", "proposed", "rejected", "superseded")
_PLACE_DIGITS = 6
_DIGITS = 10


@dataclass(frozen=True, slots=True)
class FactChange(Displayed):
    """One change of a place, by its effects.

    Values have the types of the memory's concepts if they fit; all others are plain JSON.
    """

    id: str
    """Identifies it for `MemoryReview.undo`."""
    place: Place
    at: datetime
    """When it was recorded."""
    actor: str
    """Who made it: "application" if no actor was named; see `acting`."""
    reason: str | None
    added: tuple[AnyFact, ...] = ()
    """New current values, as they were saved, each with its source."""
    removed: tuple[AnyFact, ...] = ()
    """Values that it replaced or forgot."""
    confirmed: tuple[AnyFact, ...] = ()
    """Current values that were said again, or confirmed by a person."""
    proposed: tuple[AnyFact, ...] = ()
    """Values that wait for a decision since this change."""
    rejected: tuple[AnyFact, ...] = ()
    """Proposals that it decided against."""
    superseded: tuple[AnyFact, ...] = ()
    """Statements that changed nothing, because of something that was said later."""
    undoes: str | None = None
    """The id of the change that it undid."""
    position: str = field(default="", repr=False, compare=False)
    """The `since` with which `FactStore.watch` continues after it; empty elsewhere."""

    @property
    def kind(self) -> str:
        """Its main effect, in a word.

        "undone", "replaced", "saved", "planned", "forgotten", "confirmed", "proposed", "rejected"
        or "superseded".
        """
        if self.undoes is not None:
            return "undone"
        if self.added and all(each.since and each.since.begin > self.at for each in self.added):
            return "planned"
        if self.added:
            return "replaced" if self.removed else "saved"
        named = {
            "forgotten": self.removed,
            "confirmed": self.confirmed,
            "proposed": self.proposed,
            "rejected": self.rejected,
        }
        return next((name for name, facts in named.items() if facts), "superseded")

    @property
    def facts(self) -> tuple[AnyFact, ...]:
        """All facts that it affected, the new ones first."""
        first = self.added + self.confirmed + self.proposed
        return first + self.removed + self.rejected + self.superseded


def place_digits(identity: Identity) -> str:
    """Return the beginning of the ids of all changes of a place."""
    return blake2b(orjson.dumps(identity)).hexdigest()[:_PLACE_DIGITS]


class ChangeIds:
    """Numbers the entries of a place, in order, to tell equal ones apart in their ids."""

    def __init__(self, identity: Identity) -> None:
        self._first = place_digits(identity)
        self._seen: dict[str, int] = {}

    def of(self, entry: Entry) -> str:
        """Return the id of the next entry."""
        named = [
            entry["at"],
            [(fact["keyword"], fact["id"]) for fact in entry.get("facts", ())],
            [name[:2] for name in entry.get("forget", ())],
            [(each["keyword"], each["timestamp"]) for each in entry.get("retract", ())],
        ]
        body = orjson.dumps(named)
        digits = blake2b(body).hexdigest()[:_DIGITS]
        self._seen[digits] = count = self._seen.get(digits, -1) + 1
        if count:
            digits = blake2b(body + str(count).encode()).hexdigest()[:_DIGITS]
        return self._first + digits


def change_ids(identity: Identity, entries: Iterable[Entry]) -> list[str]:
    """Return the ids of all entries of a place."""
    return list(map(ChangeIds(identity).of, entries))


def changes_of(
    place: Place,
    entries: Iterable[Entry],
    concepts: Mapping[str, AnyConcept],
    *,
    since: str = "",
    until: str | None = None,
) -> Iterator[FactChange]:
    """Yield the changes of a place between two stamps, oldest first."""
    reader = ChangeReader(place, concepts)
    for entry in entries:
        change = reader.read(entry, since=since, until=until)
        if change is not None:
            yield change


class ChangeReader:
    """Reads the entries of a place one by one, as changes."""

    def __init__(self, place: Place, concepts: Mapping[str, AnyConcept]) -> None:
        self._place = place
        self._concepts = concepts
        self._trace = Trace(())
        self._ids = ChangeIds(place.identity)
        self._shapes: dict[str, tuple[str, str]] = {}

    def read(self, entry: Entry, *, since: str = "", until: str | None = None) -> FactChange | None:
        """Apply the next entry; return its change if it is one, in the time from `since` on."""
        trace, change_id = self._trace, self._ids.of(entry)
        trace.forget_past()
        trace.apply(entry)
        for saved in trace.saved[-1]:
            fact = saved.fact
            self._shapes[fact["keyword"]] = fact["description"], fact["type"]
        at = trace.recorded[-1]
        if at < since or (until is not None and at > until):
            return None
        parts = self._parts()
        if not any(parts):
            return None
        actor, reason = by_of(entry)
        named: dict[str, Any] = dict(zip(_PARTS, parts, strict=True))
        who = actor or "application"
        undoes = entry.get("undoes")
        return FactChange(change_id, self._place, moment(at), who, reason, undoes=undoes, **named)

    def _parts(self) -> Sequence[tuple[AnyFact, ...]]:
        """Return the facts that the last entry touched, in the order of `_PARTS`."""
        saves = self._trace.saved[-1]
        kept = {
            (saved.fact["keyword"], value.life.key)
            for saved in saves
            for value in saved.values
            if not value.is_superseded
        }
        gone = dict.fromkeys(life for saved in saves for life in saved.replaced)
        gone |= dict.fromkeys(self._trace.forgotten[-1].values())
        waited = [life for life in gone if life.item.state == "proposed"]
        refused = [life for life in waited if (life.keyword, life.key) not in kept]
        removed = [life for life in gone if life.item.state != "proposed"]
        return (
            self._said("added"),
            self._ended(removed),
            self._said("confirmed"),
            self._said("proposed"),
            self._ended(refused),
            self._said("superseded"),
        )

    def _said(self, part: str) -> tuple[AnyFact, ...]:
        saves = self._trace.saved[-1]
        return tuple(fact for saved in saves for fact in self._facts(saved, part))

    def _facts(self, saved: SavedFact, part: str) -> list[AnyFact]:
        items: list[Item] = []
        for (_, value), each in zip(values_of(saved.fact), saved.values, strict=False):
            if part == _part_of(each.is_superseded, each.is_proposed, each.is_new):
                item = Item(0, value, saved.fact, saved.at, saved.by)
                item.state = "proposed" if each.is_proposed else item.state
                items.append(item)
        return self._shown(saved.fact["keyword"], items)

    def _ended(self, lives: Iterable[Life]) -> tuple[AnyFact, ...]:
        return tuple(fact for life in lives for fact in self._shown(life.keyword, [life.item]))

    def _shown(self, keyword: str, items: list[Item]) -> list[AnyFact]:
        if not items:
            return []
        description, fact_type = self._shapes.get(keyword, (keyword, "SINGLE"))
        concept = self._concepts.get(keyword) or json_concept(
            keyword, description, FactType(fact_type), items
        )
        if concept.fact_type is FactType.SINGLE:
            return [fact for item in items for fact in as_far_as_readable(concept, [item])]
        return as_far_as_readable(concept, items)


def _part_of(is_superseded: bool, is_proposed: bool, is_new: bool) -> str:
    if is_superseded:
        return "superseded"
    if is_proposed:
        return "proposed"
    return "added" if is_new else "confirmed"


def held_at(entries: Sequence[Entry], when: When, known: str) -> Ledger:
    """Return a ledger of the values that held at a time; read it with an empty `now`.

    A value holds from its `since`, or from when it was said, until its `until`, or until a later
    statement ended it: its retraction, or for a SINGLE keyword the begin of the next value.
    Forgotten values never held, even if they had ended before. If several values held in a day,
    month or year, a SINGLE keyword shows the last of them, or of overlapping ones the one that was
    said last. Of a time `between` two moments all are shown, as a MULTIPLE keyword, and the end of
    a replaced value is its `until`.

    Args:
        entries: The entries of a place.
        when: A moment, or a time in which the values held at least for a moment.
        known: Only what was recorded until then counts, without what had expired by then; a stamp.
    """
    begin, end, is_between = stamp(when.begin), stamp(when.end), "/" in when.text
    trace = _traced(list(_recorded(entries, known)), max(begin, end, known))
    lives: dict[str, list[tuple[str, Life]]] = {}
    for life in trace.lives:
        first, last = _period(life)
        if life.item.state == "proposed" or _has_expired(life, known):
            continue
        # A moment has no length, so a value that begins at it holds at it.
        if first < (end if begin < end else end + "~") and begin < last and first < last:
            lives.setdefault(life.keyword, []).append((min(last, end), life))
            if is_between and life.holds_until is not None:
                life.item.since, life.item.until = life.item.since or first, last
    found: dict[str, KeywordItems] = {}
    for keyword, held in trace.state().by_keyword.items():
        if keyword in lives:
            kind = "MULTIPLE" if is_between else held.fact_type
            found[keyword] = _chosen(KeywordItems(held.description, kind), lives[keyword])
    return Ledger.restored(LedgerState(known, 0, [], {}, found, []))


def former_values(entries: Sequence[Entry], condition: Condition, now: str) -> list[ForgottenItem]:
    """Return the values that meet a condition and held before `now`, and were not forgotten."""
    related = RelatedEntries(entries)
    trace = _traced(related.at(related.to(condition.names or ()).numbers), now)
    found = {
        life.name: name_of(life.keyword, life.item)
        for life in trace.lives
        if life.holds_until != "" and life.is_dead(now) and not _has_expired(life, now)
        if condition.is_met_by(life.keyword, life.key, life.item)
    }
    return list(found.values())


def _traced(entries: Sequence[Entry], now: str) -> Trace:
    """Trace entries until `now`. Values that were over when they were forgotten never held."""
    trace = Trace(entries)
    # Plans that have begun since the last entry held, too.
    trace.advance(max(now, trace.recorded_at))
    forgettings = [n for n, each in enumerate(entries) if "forget" in each and "undoes" not in each]
    keywords = {name[0] for number in forgettings for name in entries[number].get("forget", ())}
    known: dict[object, list[Life]] = {}
    for life in trace.lives if keywords else ():
        if life.keyword in keywords:
            known.setdefault(life.keyword, []).append(life)
            known.setdefault(life.name, []).append(life)
    for number in forgettings:
        entry, at = entries[number], trace.recorded[number]
        for keyword, _, digest in entry.get("forget", ()):
            for life in known.get(keyword if "whole" in entry else (keyword, digest), ()):
                if life.is_dead(at):
                    life.holds_until = ""
    return trace


def _has_expired(life: Life, now: str) -> bool:
    expires_at = life.item.expires_at
    return expires_at is not None and expires_at <= now


def _recorded(entries: Iterable[Entry], known: str) -> Iterable[Entry]:
    at = ""
    for entry in entries:
        at = max(at, entry["at"])
        if at > known:
            return
        yield entry


_NEVER = "~"
"""Greater than any stamp."""


def _period(life: Life) -> tuple[str, str]:
    item = life.item
    first = life.holds_from if item.since is None else begin_of(item.since)
    last = _NEVER if item.until is None else end_of(item.until)
    return first, last if life.holds_until is None else min(last, life.holds_until)


def _chosen(shown: KeywordItems, lives: list[tuple[str, Life]]) -> KeywordItems:
    """Add to `shown` the items of a keyword to show, given until when each of its lives held."""
    # By the end of the period, then by when it was said last.
    lives.sort(key=lambda each: (each[0], each[1].item.last))
    if shown.fact_type == "SINGLE":
        shown.add(lives[-1][1].key, lives[-1][1].item)
        return shown
    last = {life.key: life.item for _, life in lives}
    for key, item in sorted(last.items(), key=lambda each: each[1].number):
        shown.add(key, item)
    return shown


_FEW = 1000
"""The most entries of a history that is computed on the event loop, in about 4 ms."""


class HistorySeries(NamedTuple):
    """The place whose history was read last."""

    identity: Identity | None = None
    version: str = ""
    histories: Histories | None = None
    """Set when a second history of the place is read."""

    async def of(self, concept: Concept[Any, Any]) -> History:
        """Return the history of a concept from `histories`, which must be set."""
        assert self.histories is not None  # noqa: S101 - see above
        if self.histories.size(concept) <= _FEW:
            return self.histories.of(concept)
        return await run_sync(self.histories.of, concept)
