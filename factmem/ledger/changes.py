"""The changes of a place: what each entry added, removed, confirmed and proposed. Pure.

A change is an entry, seen by its effects. Its id is a digest of what it names, so it stays the same
when other history is removed, and needs no room in a store.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b

import orjson

from factmem.ledger._items import Item, values_of
from factmem.ledger._presentation import as_far_as_readable, json_concept
from factmem.ledger._trace import Life, SavedFact, Trace
from factmem.ledger.entries import Entry, by_of
from factmem.models._display import Displayed
from factmem.models.clock import moment
from factmem.models.facts import AnyConcept, AnyFact, FactType
from factmem.models.places import Identity, Place

__all__ = ["FactChange"]

_PARTS = ("added", "removed", "confirmed", "proposed", "rejected", "superseded")
_PLACE_DIGITS = 6
_DIGITS = 10


@dataclass(frozen=True, slots=True)
class FactChange(Displayed):
    """One change of a place, by its effects.

    Values have the types of the memory's concepts if they fit; all others are plain JSON.
    """

    id: str
    """Names it for `MemoryReview.undo`."""
    place: Place
    at: datetime
    """When it was recorded."""
    actor: str
    """Who made it: "application" if nobody was named; see `acting`."""
    reason: str | None
    added: tuple[AnyFact, ...] = ()
    """New current values, as they were saved, each with its source."""
    removed: tuple[AnyFact, ...] = ()
    """Values that it replaced or forgot."""
    confirmed: tuple[AnyFact, ...] = ()
    """Current values that were said again, or confirmed by a person."""
    proposed: tuple[AnyFact, ...] = ()
    """Values that wait for a decision since then."""
    rejected: tuple[AnyFact, ...] = ()
    """Proposals that it decided against."""
    superseded: tuple[AnyFact, ...] = ()
    """Statements that changed nothing, because of something that was said later."""
    undoes: str | None = None
    """The id of the change that it undid."""

    @property
    def kind(self) -> str:
        """What it did mainly, in a word.

        "undone", "replaced", "saved", "planned", "forgotten", "confirmed", "proposed", "rejected" or
        "superseded".
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
        """All facts that it touched, the new ones first."""
        first = self.added + self.confirmed + self.proposed
        return first + self.removed + self.rejected + self.superseded


def place_digits(identity: Identity) -> str:
    """Return the beginning of the ids of all changes of a place."""
    return blake2b(orjson.dumps(identity)).hexdigest()[:_PLACE_DIGITS]


class ChangeIds:
    """Gives the entries of a place their ids, in order; equal ones are told apart by it."""

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
    """Yield the changes of a place, oldest first.

    Args:
        place: The place.
        entries: All of its entries.
        concepts: The concepts whose types are known, by each of their keywords.
        since: Only changes from this time on, as a stamp.
        until: Only changes until this time.
    """
    reader = ChangeReader(place, concepts)
    for entry in entries:
        change = reader.read(entry, since=since, until=until)
        if change is not None:
            yield change


class ChangeReader:
    """Reads the entries of a place one by one, as changes.

    Args:
        place: The place.
        concepts: The concepts whose types are known, by each of their keywords.
    """

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
        parts = _Effects(trace, self._shapes, self._concepts).parts()
        if not any(parts):
            return None
        actor, reason = by_of(entry)
        named = dict(zip(_PARTS, parts, strict=True))
        who = actor or "application"
        undoes = entry.get("undoes")
        return FactChange(change_id, self._place, moment(at), who, reason, undoes=undoes, **named)


class _Effects:
    """The effects of the last entry, as facts."""

    def __init__(
        self,
        trace: Trace,
        shapes: Mapping[str, tuple[str, str]],
        concepts: Mapping[str, AnyConcept],
    ) -> None:
        self._saved = trace.saved[-1]
        gone: dict[Life, None] = {}
        for saved in self._saved:
            gone |= dict.fromkeys(saved.replaced)
        gone |= dict.fromkeys(trace.forgotten[-1].values())
        self._gone = list(gone)
        self._shapes = shapes
        self._concepts = concepts

    def parts(self) -> Sequence[tuple[AnyFact, ...]]:
        """Return the facts in the order of `_PARTS`."""
        kept = {
            (saved.fact["keyword"], value.life.key)
            for saved in self._saved
            for value in saved.values
            if not value.is_superseded
        }
        waited = [life for life in self._gone if life.item.state == "proposed"]
        refused = [life for life in waited if (life.keyword, life.key) not in kept]
        removed = [life for life in self._gone if life.item.state != "proposed"]
        return (
            self._said("added"),
            self._ended(removed),
            self._said("confirmed"),
            self._said("proposed"),
            self._ended(refused),
            self._said("superseded"),
        )

    def _said(self, part: str) -> tuple[AnyFact, ...]:
        return tuple(fact for saved in self._saved for fact in self._facts(saved, part))

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
