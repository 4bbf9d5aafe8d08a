"""What became of a concept over time, and ledgers from which history was taken out.

Pure, like the ledger: entries in, entries out. A changed entry keeps its place and its time, so
that a journal can be written again record by record.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from factmem.ledger.entries import (
    Entry,
    ForgottenItem,
    StoredFact,
    moment,
)
from factmem.ledger.items import Item, values_of
from factmem.ledger.ledger import Condition, Ledger
from factmem.ledger.presentation import presented
from factmem.models.facts import (
    AnyFact,
    Concept,
    FactType,
    stored_concept,
)
from factmem.models.values import Canonical, canonical

__all__ = [
    "HistoryAction",
    "HistoryEntry",
    "Life",
    "Rest",
    "SavedFact",
    "SavedValue",
    "Trace",
    "compacted",
    "history",
    "purged",
]


class HistoryAction(StrEnum):
    """What happened to a concept."""

    SAVED = "saved"
    """At least one value was new."""
    CONFIRMED = "confirmed"
    """All values were current already."""
    FORGOTTEN = "forgotten"


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One thing that happened to a concept in one place."""

    action: HistoryAction
    recorded_at: datetime
    fact: AnyFact | None = None
    """What was saved or confirmed; None for a forgetting."""
    forgotten: tuple[str, ...] = ()
    """The ids of the facts of which values were forgotten; their values are not repeated."""


def history(entries: Iterable[Entry], concept: Concept[Any, Any]) -> list[HistoryEntry]:
    """Return every save, confirmation and forgetting of a concept's keyword, oldest first.

    Each fact shows the description and the type that it was saved with, and in `confirmed_at` the
    time at which it was recorded. A save of which nothing is left is not shown.

    Raises:
        StoredFactError: A value does not fit the concept's `value_type`.
    """
    found = list(_concerning(entries, concept.keyword))
    trace = Trace(found)
    told: list[HistoryEntry] = []
    concepts: dict[tuple[str, str], Concept[Any, Any]] = {}
    for entry, at, saves in zip(found, trace.recorded, trace.saved, strict=True):
        for saved in saves:
            fact = saved.fact
            if fact["keyword"] == concept.keyword and saved.values:
                kind = (fact["description"], fact["type"])
                as_saved = concepts.get(kind) or concepts.setdefault(kind, _as_saved(concept, fact))
                told.append(_told(saved, as_saved))
        if gone := entry.get("forget"):
            ids = tuple(dict.fromkeys(fact_id for _, fact_id, _ in gone))
            told.append(HistoryEntry(HistoryAction.FORGOTTEN, moment(at), forgotten=ids))
    return told


def _concerning(entries: Iterable[Entry], keyword: str) -> Iterator[Entry]:
    """Give what entries say of a keyword, and of facts that share an id with one of its own."""
    entries = list(entries)
    ids = {
        fact["id"]
        for entry in entries
        for fact in entry.get("facts", ())
        if fact["keyword"] == keyword
    }
    at = ""
    for entry in entries:
        at = max(at, entry["at"])
        facts = [fact for fact in entry.get("facts", ()) if fact["id"] in ids]
        gone = [name for name in entry.get("forget", ()) if name[0] == keyword]
        if facts or gone:
            yield {"at": at, "facts": facts, "forget": gone}


def _as_saved(concept: Concept[Any, Any], fact: StoredFact) -> Concept[Any, Any]:
    fact_type = FactType(fact["type"])
    return stored_concept(concept.keyword, fact["description"], fact_type, concept.value_type)


class SavedFact:
    """What one saved fact did when it was recorded."""

    __slots__ = ("at", "fact", "replaced", "values")

    def __init__(self, fact: StoredFact, at: str) -> None:
        self.fact: StoredFact = fact
        self.at: str = at
        self.values: list[SavedValue] = []
        self.replaced: list[Life] = []


def _told(saved: SavedFact, concept: Concept[Any, Any]) -> HistoryEntry:
    is_new = any(value.is_new for value in saved.values)
    items = [
        Item(0, value, saved.fact, position, saved.at) for position, value in values_of(saved.fact)
    ]
    (fact,) = presented(concept, items)
    action = HistoryAction.SAVED if is_new else HistoryAction.CONFIRMED
    return HistoryEntry(action, moment(saved.at), fact)


def compacted(entries: Sequence[Entry], cutoff: str | None) -> list[Entry | None]:
    """Return a ledger's entries without what was over at `cutoff`, a stamp; None keeps all.

    Values that were replaced, forgotten or expired at that time or before it go, with their saves
    and forgettings as far as nothing else is in them. Whatever is read from the rest, now or as of
    any moment from `cutoff` on, is what was read before.

    Returns:
        For each entry the entry itself, the same object if nothing of it went, or None if nothing
        of it is left. Entries of kinds that this version does not know stay as they are.
    """
    if cutoff is None:
        return list(entries)
    trace = Trace(entries)
    gone = {life for life in trace.lives if life.is_dead(cutoff)}
    return Rest(trace, gone, cutoff=cutoff).of(entries)


def purged(entries: Sequence[Entry], condition: Condition, now: str) -> list[Entry | None]:
    """Return a ledger's entries without what meets a condition and is not current at `now`.

    That is every value of its history that meets the condition, and wherever else the same value
    stands in the history of the same keyword. The quotes of their sources go with them. What is
    current is not touched: forget it first.

    Returns:
        As `compacted` does. A past that is asked for with `as_of` is the same but for those values.
    """
    trace = Trace(entries)
    now = max(now, trace.recorded_at)
    dead = [life for life in trace.lives if life.is_dead(now)]
    keys = {
        (life.keyword, life.key)
        for life in dead
        if condition.is_met_by(life.keyword, life.key, life.item)
    }
    gone = {life for life in dead if (life.keyword, life.key) in keys}
    quotes = {
        saved.fact["source"].get("quote")
        for saves in trace.saved
        for saved in saves
        if "source" in saved.fact and any(value.life in gone for value in saved.values)
    }
    kept = {life for life in trace.lives if not life.is_dead(now)}
    return Rest(trace, gone, quotes=quotes - {None}, current=kept).of(entries)


class Life:
    """One item, from the save that made it until it was replaced, forgotten or expired."""

    __slots__ = ("_ended", "born", "item", "key", "keyword")

    def __init__(self, keyword: str, item: Item) -> None:
        self.keyword: str = keyword
        self.item: Item = item
        self.key: Canonical = canonical(item.value)
        self.born: str = item.confirmed_at
        self._ended: str | None = None

    @property
    def name(self) -> ForgottenItem:
        """What a forgetting calls it."""
        return (self.keyword, self.item.fact_id, self.item.position)

    @property
    def died(self) -> str | None:
        """When it ends; None if nothing known ends it."""
        return self._expires if self._ended is None else self._ended

    @property
    def _expires(self) -> str | None:
        """Its expiry, but not before it was last confirmed: until then it was there to see."""
        expires_at = self.item.expires_at
        return None if expires_at is None else max(expires_at, self.item.confirmed_at)

    def is_dead(self, now: str) -> bool:
        """Whether it has ended at `now`."""
        return self.died is not None and self.died <= now

    @property
    def has_expired(self) -> bool:
        """Whether its expiry ends it, or ended it."""
        return self.died is not None and self.died == self._expires

    def end(self, at: str) -> None:
        """Note that it was dropped, for which it may have been too late already."""
        self._ended = min(at, self._expires or at)


class Trace(Ledger):
    """A ledger that remembers; for each entry, by its number, what it did."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.recorded: list[str] = []
        self.saved: list[list[SavedFact]] = []
        self.forgotten: list[dict[ForgottenItem, Life]] = []
        self._lives: dict[int, Life] = {}  # by the identity of their items, which they keep
        self._saving: SavedFact | None = None
        super().__init__(entries)

    @property
    def lives(self) -> Iterable[Life]:
        """All that ever was current, the oldest first."""
        return self._lives.values()

    def apply(self, entry: Entry) -> None:
        """Take in the next entry."""
        self.recorded.append(max(self.recorded_at, entry["at"]))
        self.saved.append([])
        self.forgotten.append({})
        super().apply(entry)

    def _save(self, fact: StoredFact, at: str) -> None:
        self._saving = SavedFact(fact, at)
        self.saved[-1].append(self._saving)
        super()._save(fact, at)
        self._saving = None

    def _touched(self, item: Item, fact: StoredFact, position: int) -> None:
        life = self._lives.get(id(item))
        is_new = life is None
        if life is None:
            life = self._lives[id(item)] = Life(fact["keyword"], item)
        if self._saving is not None:
            self._saving.values.append(SavedValue(life, position, is_new=is_new))

    def _dropped(self, item: Item, at: str) -> None:
        life = self._lives[id(item)]
        was_alive = item.is_alive(at)
        life.end(at)
        if self._saving is None:
            self.forgotten[-1][life.name] = life
        elif was_alive:
            self._saving.replaced.append(life)


class Rest:
    """A ledger without some of its lives."""

    def __init__(
        self,
        trace: Trace,
        gone: set[Life],
        *,
        cutoff: str = "",
        quotes: Iterable[str | None] = (),
        current: Iterable[Life] = (),
    ) -> None:
        self._trace = trace
        self._gone = gone
        self._cutoff = cutoff
        self._quotes = frozenset(quotes)
        self._current = frozenset(current)
        self._births: dict[str, list[str]] = {}
        self._deaths: dict[str, list[str]] = {}
        for life in trace.lives:
            if life not in gone:
                self._births.setdefault(life.keyword, []).append(life.born)
                if life.died is not None:
                    self._deaths.setdefault(life.keyword, []).append(life.died)
        for times in (*self._births.values(), *self._deaths.values()):
            times.sort()
        self._last = {
            saved.fact["keyword"]: saved
            for saves in trace.saved
            for saved in saves
            if saved.at <= cutoff
        }

    def of(self, entries: Sequence[Entry]) -> list[Entry | None]:
        """Return the entries as they are without what is gone."""
        return [self._entry(number, entry) for number, entry in enumerate(entries)]

    def _entry(self, number: int, entry: Entry) -> Entry | None:
        if "facts" not in entry and "forget" not in entry:
            return entry
        facts = [fact for each in self._trace.saved[number] if (fact := self._fact(each))]
        forget = self._forget(number, entry)
        if not facts and not forget:
            return None
        rest = entry.copy()
        rest["at"] = self._trace.recorded[number]
        rest["facts"] = facts
        rest["forget"] = forget
        if not facts:
            rest.pop("facts")
        if not forget:
            rest.pop("forget")
        return entry if rest == entry else rest

    def _forget(self, number: int, entry: Entry) -> list[ForgottenItem]:
        lives = self._trace.forgotten[number]
        return [
            name
            for name in entry.get("forget", ())
            if (life := lives.get((name[0], name[1], name[2]))) and life not in self._gone
        ]

    def _fact(self, saved: SavedFact) -> StoredFact | None:
        values = [each for each in saved.values if each.life not in self._gone]
        if not values:
            return self._stub(saved.fact) if self._is_needed(saved) else None
        fact = self._unquoted(saved)
        if fact["type"] == "SINGLE":
            return fact
        natural = [position for position, _ in values_of(fact)]
        is_renamed = any(
            each.is_new and each.position != position
            for each, position in zip(saved.values, natural, strict=True)
        )
        if len(values) == len(saved.values) and not is_renamed:
            return fact
        kept = [
            (each.position if is_renamed else position, value)
            for each, (position, value) in zip(saved.values, values_of(fact), strict=True)
            if each.life not in self._gone
        ]
        return {**fact, "positions": [at for at, _ in kept], "values": [v for _, v in kept]}

    def _is_needed(self, saved: SavedFact) -> bool:
        """Whether reading still needs to know of a save whose values are all gone.

        It does for what the save replaced and is still there, and for the keyword's description
        and type, as long as something else of the keyword can be seen.
        """
        keyword, at = saved.fact["keyword"], saved.at
        if any(life not in self._gone for life in saved.replaced):
            return True
        if at <= self._cutoff and self._last[keyword] is not saved:
            return False
        born = bisect_right(self._births.get(keyword, []), at)
        return born > bisect_right(self._deaths.get(keyword, []), at)

    def _stub(self, fact: StoredFact) -> StoredFact:
        return {
            "id": fact["id"],
            "keyword": fact["keyword"],
            "description": fact["description"],
            "type": fact["type"],
            "timestamp": fact["timestamp"],
        }

    def _unquoted(self, saved: SavedFact) -> StoredFact:
        """Return a fact, without its quote if that was said of a purged value and is history."""
        fact = saved.fact
        source = fact.get("source")
        if source is None or source.get("quote") not in self._quotes:
            return fact
        if any(each.life in self._current for each in saved.values):
            return fact
        rest = source.copy()
        rest.pop("quote")
        return {**fact, "source": rest}


class SavedValue:
    """A value of a saved fact, and the life that it began or confirmed."""

    __slots__ = ("is_new", "life", "position")

    def __init__(self, life: Life, position: int, *, is_new: bool) -> None:
        self.life: Life = life
        self.position: int = position
        self.is_new: bool = is_new
