"""The lives of values in a ledger: when each began and ended, and what each save did.

A `Ledger` has what is current, but not how it became so. `Trace` folds the same entries by the same
code, and its hooks record what each of them did, so that history, changes and purges agree with
what is current. While a save is applied, `_saving` is set: an item that is dropped then was
replaced, otherwise withdrawn. Each life has two spans: recorded (`born`, `died`) and held
(`holds_from`, `holds_until`). Lives are found by the `id` of their item, which they keep alive.

The effect of a keyword's entries depends on another keyword only through entries with facts of
several keywords, and through facts saved under several. `RelatedEntries` finds these, so that a
purge of one keyword traces only them: of 100,000 entries usually a hundred.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple, TypeVar

from factmem.ledger._items import NEVER, Item, KeywordItems, Order, Plan, digest_of, said_at
from factmem.ledger.entries import Entry, RetractedValue, SourceEntry, StoredFact
from factmem.ledger.ledger import Ledger
from factmem.models._values import Canonical, JsonValue, canonical
from factmem.models.places import By
from factmem.models.when import begin_of, end_of

V = TypeVar("V")


class SavedFact:
    """The effect of one saved fact when it was recorded."""

    __slots__ = ("at", "by", "fact", "is_added", "replaced", "values")

    def __init__(self, fact: StoredFact, at: str, by: By) -> None:
        self.fact: StoredFact = fact
        self.at: str = at
        self.by: By = by
        self.values: list[SavedValue] = []
        self.replaced: list[Life] = []
        self.is_added: bool = False
        """Whether it was added to the values of a MULTIPLE keyword."""

    @property
    def is_superseded(self) -> bool:
        """Whether none of its values became current."""
        return bool(self.values) and all(value.is_superseded for value in self.values)

    @property
    def is_proposed(self) -> bool:
        """Whether all of its values wait for a decision."""
        return bool(self.values) and all(value.is_proposed for value in self.values)

    @property
    def is_planned(self) -> bool:
        """Whether none of its values has begun."""
        return bool(self.values) and all(value.is_planned for value in self.values)


class SavedValue:
    """A value of a saved fact, and the life that it began or confirmed."""

    __slots__ = ("is_new", "is_planned", "is_proposed", "is_superseded", "life")

    def __init__(self, life: "Life", *, is_new: bool, is_superseded: bool = False) -> None:
        self.life: Life = life
        self.is_new: bool = is_new
        self.is_superseded: bool = is_superseded
        """Whether the life ended at once, because a later statement superseded it."""
        self.is_proposed: bool = life.item.state == "proposed"
        self.is_planned: bool = False
        """Whether it begins later, or was cancelled before it began."""


class Life:
    """One item, from its first save until it was replaced or forgotten, ended or expired."""

    __slots__ = (
        "_ended", "born", "holds_from", "holds_until", "is_withdrawn", "item", "key", "keyword",
    )  # fmt: skip

    def __init__(self, keyword: str, item: Item) -> None:
        self.keyword: str = keyword
        self.item: Item = item
        self.key: Canonical = canonical(item.value)
        self.born: str = item.confirmed_at
        self.holds_from: str = item.holds_from
        """The time from which on it held, unless a later save moved its `since`; a stamp."""
        self.holds_until: str | None = None
        """When a later statement ended it, a stamp; empty if it was forgotten."""
        self.is_withdrawn: bool = False
        """Whether a forgetting or a retraction ended it."""
        self._ended: str | None = None

    @property
    def name(self) -> tuple[str, str]:
        """The keyword and value digest that a `forget` entry uses for this value."""
        return self.keyword, digest_of(self.key)

    @property
    def died(self) -> str | None:
        """When it ends; None if it has no known end."""
        return self._ends(self.item.ends_at) if self._ended is None else self._ended

    def _ends(self, at: str | None) -> str | None:
        """Return a time, but none before its last confirmation, when it was still current."""
        return None if at is None else max(at, self.item.confirmed_at)

    def is_dead(self, now: str) -> bool:
        return self.died is not None and self.died <= now

    @property
    def has_expired(self) -> bool:
        """Whether its expiry is what ends it, or ended it."""
        return self.died is not None and self.died == self._ends(self.item.expires_at)

    def end(self, at: str, holds_until: str | None = None) -> None:
        """Record that it was removed, unless it had already ended."""
        self._ended = min(at, self._ends(self.item.ends_at) or at)
        self.holds_until = holds_until


class Trace(Ledger):
    """A ledger that records the effect of each entry, by its number."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.recorded: list[str] = []
        self.saved: list[list[SavedFact]] = []
        self.forgotten: list[dict[tuple[str, str], Life]] = []
        self.retracted: list[list[tuple[Life | None, Order]]] = []
        """For each retraction the life that it ended, if any, and the floor after it."""
        self._lives: dict[int, Life] = {}  # by the id() of their items, which they reference
        self._saving: SavedFact | None = None
        self._plans: dict[int, tuple[SavedFact, SavedValue]] = {}
        """The saves of planned values, by the id() of their items."""
        self._beginning: tuple[Plan, SavedValue] | None = None
        """The plan that is beginning."""
        self._holds_until: str = ""
        """Until when the values held that the current statement drops."""
        super().__init__(entries)

    @property
    def lives(self) -> Iterable[Life]:
        """All values that were ever current, the oldest first."""
        return self._lives.values()

    def apply(self, entry: Entry) -> None:
        # Before applying the entry, because the hooks write to the last item of each list.
        self.recorded.append(max(self.recorded_at, entry["at"]))
        self.saved.append([])
        self.forgotten.append({})
        self.retracted.append([])
        super().apply(entry)

    def forget_past(self) -> None:
        """Drop the effects of applied entries, and the lives that ended, to save memory."""
        ended = [life for effects in self.forgotten for life in effects.values()]
        for saved in (each for saves in self.saved for each in saves):
            ended += saved.replaced
            ended += [value.life for value in saved.values if value.is_superseded]
        for life in ended:
            self._lives.pop(id(life.item), None)
        for effects in (self.recorded, self.saved, self.forgotten, self.retracted):
            effects.clear()

    def _save(self, fact: StoredFact, at: str) -> None:
        if self._beginning is None:
            self._saving = SavedFact(fact, at, self._by)
            self.saved[-1].append(self._saving)
        self._holds_until = begin_of(fact["since"]) if "since" in fact else said_at(fact, at)
        super()._save(fact, at)
        self._holds_until = ""
        held = self._by_keyword.get(fact["keyword"])
        if self._saving is not None:
            self._saving.is_added = held is not None and held.fact_type == "MULTIPLE"
        self._saving = None

    def _plan(self, fact: StoredFact, at: str) -> None:
        self._holds_until = ""  # earlier plans of the same value never held
        super()._plan(fact, at)

    def _planned(self, plan: Plan) -> None:
        life = Life(plan.fact["keyword"], plan.item)
        value = SavedValue(life, is_new=True)
        value.is_planned = True
        if not plan.is_stub:
            self._lives[id(plan.item)] = life
        if self._saving is not None:
            self._saving.values += [] if plan.is_stub else [value]
            self._plans[id(plan.item)] = self._saving, value

    def _begin_plan(self, held: KeywordItems, plan: Plan) -> None:
        known = self._plans.pop(id(plan.item), None)
        if known is not None:
            self._saving, self._beginning = known[0], (plan, known[1])
        super()._begin_plan(held, plan)
        self._saving = self._beginning = None

    def _began(self, item: Item, plan: Plan, value: SavedValue) -> None:
        """Give the life of a plan the item that it became."""
        value.is_planned = False
        planned = self._lives.pop(id(plan.item), value.life)
        value.is_proposed = item.state == "proposed"
        if (life := self._lives.get(id(item))) is None:
            life, planned.item = planned, item
            self._lives[id(item)] = life
        value.is_new, value.life = life is planned, life

    def _touched(self, item: Item, fact: StoredFact) -> None:
        if self._beginning is not None:
            self._began(item, *self._beginning)
            return
        life = self._lives.get(id(item))
        is_new = life is None
        if life is None:
            life = self._lives[id(item)] = Life(fact["keyword"], item)
        if self._saving is not None:
            self._saving.values.append(SavedValue(life, is_new=is_new))

    def _retract(self, retracted: RetractedValue, at: str) -> None:
        before = len(self.forgotten[-1])
        self._holds_until = said_at(retracted, at)
        super()._retract(retracted, at)
        self._holds_until = ""
        ended = list(self.forgotten[-1].values())[before:]
        retractions = self._by_keyword[retracted["keyword"]].retractions
        floor = NEVER if retractions is None else retractions.floor
        self.retracted[-1].append((ended[0] if ended else None, floor))

    def _passed_over(self, fact: StoredFact, value: JsonValue, at: str) -> None:
        if self._beginning is not None:
            self._beginning[1].life.end(at, "")
            return
        item = Item(0, value, fact, at, self._by)
        life = self._lives[id(item)] = Life(fact["keyword"], item)
        life.end(at, self._followed(life))
        if self._saving is not None:
            self._saving.values.append(SavedValue(life, is_new=True, is_superseded=True))

    def _followed(self, life: Life) -> str | None:
        """Return the end of a value that was superseded at once; empty if it was retracted."""
        item, held = life.item, self._by_keyword.get(life.keyword)
        if held is None or (item.until is not None and end_of(item.until) <= item.said):
            return None
        later = [each.holds_from for each in held.items.values() if each.last > item.last]
        return min(later, default="")

    def _dropped(self, item: Item, at: str) -> None:
        life = self._lives[id(item)]
        if self._beginning is not None and item is self._beginning[0].item:
            life.end(at, "")  # replaced by a later statement: it does not begin
            return
        was_alive = item.is_alive(at)
        life.end(at, self._holds_until)
        if self._saving is None:
            life.is_withdrawn = was_alive
            known = self.forgotten[-1].setdefault(life.name, life)
            if str(known.died) < str(life.died):  # a plan of the value was cancelled, too
                self.forgotten[-1][life.name] = life
        elif was_alive:
            self._saving.replaced.append(life)


KINDS = frozenset(("facts", "forget", "retract"))
"""The parts of entries; later versions may add others."""


class Related(NamedTuple):
    """A group of entries on which no other entries depend."""

    numbers: list[int]
    names: set[str]
    """Their keywords, and the ids of their facts."""


class RelatedEntries:
    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self._names: list[tuple[str, ...]] = list(map(_names, entries))
        self.recorded: list[str] = list(accumulate((entry["at"] for entry in entries), max))
        """The time at which each entry counts as recorded: no earlier than the one before it."""

    @property
    def recorded_at(self) -> str:
        """When the last entry was recorded; empty before the first."""
        return self.recorded[-1] if self.recorded else ""

    def to(self, names: Iterable[str]) -> Related:
        """Return the entries about some keywords and facts, and all that are related to those."""
        wanted, found = set(names), list[int]()
        while True:
            known = len(found)
            found = [n for n, each in enumerate(self._names) if not wanted.isdisjoint(each)]
            if len(found) == known:
                return Related(found, wanted)
            for number in found:
                wanted.update(self._names[number])

    @cached_property
    def _numbers(self) -> dict[str, list[int]]:
        """The numbers of the entries with each name, built by the first `about`."""
        found: dict[str, list[int]] = {}
        for number, names in enumerate(self._names):
            for name in names:
                found.setdefault(name, []).append(number)
        return found

    def about(self, keywords: Iterable[str]) -> list[Entry]:
        """Return the entries about some keywords, and those about facts with an id of theirs."""
        wanted = set(keywords)
        found = {number for each in wanted for number in self._numbers.get(each, ())}
        ids = {
            fact["id"]
            for number in found
            for fact in self._entries[number].get("facts", ())
            if fact["keyword"] in wanted
        }
        found.update(number for each in ids for number in self._numbers.get(each, ()))
        return self.at(sorted(found))

    def changed(self, after: Sequence[Entry | None]) -> Related:
        """Return the entries that an edit changed, and all related ones."""
        names = set[str]()
        for number, (old, new) in enumerate(zip(self._entries, after, strict=True)):
            if new is not old:
                names.update(self._names[number], () if new is None else _names(new))
        return self.to(names)

    def at(self, numbers: Iterable[int]) -> list[Entry]:
        """Return entries with the times at which they count as recorded; not for unknown kinds."""
        found: list[Entry] = []
        for number in numbers:
            entry, at = self._entries[number], self.recorded[number]
            is_as_it_counts = entry["at"] == at or KINDS.isdisjoint(entry)
            found.append(entry if is_as_it_counts else {**entry, "at": at})
        return found

    def sharing(self, sources: Collection[SourceEntry]) -> set[str]:
        """Return the facts that share a quote or a conversation with one of these sources."""
        quotes = {source["quote"] for source in sources if "quote" in source}
        talks = {source.get("conversation") for source in sources}
        return {
            fact["id"]
            for entry in self._entries
            for fact in entry.get("facts", ())
            if (source := fact.get("source")) is not None
            and (source.get("quote") in quotes or source.get("conversation") in talks)
        }


def refolded(
    ledger: Ledger, before: Sequence[Entry], after: Sequence[Entry | None]
) -> Ledger | None:
    """Return a ledger after an edit by folding only the changed parts; do not use the old one.

    None if the edit added something, as items are ordered by all saves.
    """
    touched = RelatedEntries(before).changed(after)
    times = list(accumulate(("" if each is None else each["at"] for each in after), max))
    left = ((times[number], after[number]) for number in touched.numbers)
    folded = Ledger({**each, "at": at} for at, each in left if each is not None)
    folded.advance(max(times, default=""))
    part = folded.state()
    whole = ledger.state()
    numbers: list[tuple[Item, int]] = []
    for keyword, held in part.by_keyword.items():
        known = whole.by_keyword.get(keyword)
        for key, item in held.items.items():
            old = None if known is None else known.get(key)
            if old is None or old.fact_id != item.fact_id:
                return None
            numbers.append((item, old.number))
    for item, number in numbers:
        item.number = number
    return Ledger.restored(
        whole._replace(
            recorded_at=times[-1] if times else "",
            passed=_replaced(whole.passed, part.passed, touched.names),
            by_keyword=_replaced(whole.by_keyword, part.by_keyword, touched.names),
            expiries=[each for each in whole.expiries if each[1] not in touched.names]
            + part.expiries,
            begins=[each for each in whole.begins if each[1] not in touched.names] + [*part.begins],
        )
    )


def _replaced(whole: dict[str, V], part: dict[str, V], names: Iterable[str]) -> dict[str, V]:
    for name in names:
        whole.pop(name, None)
    return whole | part


def _names(entry: Entry) -> tuple[str, ...]:
    facts = entry.get("facts", ())
    if len(facts) == 1 and "forget" not in entry and "retract" not in entry:  # nearly every entry
        return facts[0]["keyword"], facts[0]["id"]
    names = [name for fact in facts for name in (fact["keyword"], fact["id"])]
    for keyword, fact_id, _ in entry.get("forget", ()):
        names += keyword, fact_id
    names += [each["keyword"] for each in entry.get("retract", ())]
    return tuple(names)
