"""The lives of values in a ledger: when each began and ended, and what each save did."""

from collections.abc import Iterable

from factmem.ledger._items import Item
from factmem.ledger._statements import NEVER, Told
from factmem.ledger.entries import Entry, ForgottenItem, RetractedValue, StoredFact
from factmem.ledger.ledger import Ledger
from factmem.models._values import Canonical, JsonValue, canonical
from factmem.models.actors import By

__all__ = ["Life", "SavedFact", "SavedValue", "Trace"]


class SavedFact:
    """The effect of one saved fact when it was recorded."""

    __slots__ = ("at", "by", "fact", "first", "is_added", "replaced", "values")

    def __init__(self, fact: StoredFact, at: str, by: By, first: str) -> None:
        self.fact: StoredFact = fact
        self.at: str = at
        self.by: By = by
        self.first: str = first
        self.values: list[SavedValue] = []
        self.replaced: list[Life] = []
        self.is_added: bool = False
        """Whether it is among many values now."""

    @property
    def is_superseded(self) -> bool:
        """Whether none of its values became current."""
        return bool(self.values) and all(value.is_superseded for value in self.values)

    @property
    def is_proposed(self) -> bool:
        """Whether all of its values wait for a decision."""
        return bool(self.values) and all(value.is_proposed for value in self.values)


class SavedValue:
    """A value of a saved fact, and the life that it began or confirmed."""

    __slots__ = ("is_new", "is_proposed", "is_superseded", "life", "position")

    def __init__(
        self, life: "Life", position: int, *, is_new: bool, is_superseded: bool = False
    ) -> None:
        self.life: Life = life
        self.position: int = position
        self.is_new: bool = is_new
        self.is_superseded: bool = is_superseded
        """Whether the life ended at once, because a later statement superseded it."""
        self.is_proposed: bool = life.item.state == "proposed"


class Life:
    """One item, from its first save until it was replaced, forgotten or expired."""

    __slots__ = ("_ended", "born", "item", "key", "keyword")

    def __init__(self, keyword: str, item: Item) -> None:
        self.keyword: str = keyword
        self.item: Item = item
        self.key: Canonical = canonical(item.value)
        self.born: str = item.confirmed_at
        self._ended: str | None = None

    @property
    def name(self) -> ForgottenItem:
        """The name that a forgetting uses for it."""
        return (self.keyword, self.item.fact_id, self.item.position)

    @property
    def died(self) -> str | None:
        """When it ends; None if it has no known end."""
        return self._expires if self._ended is None else self._ended

    @property
    def _expires(self) -> str | None:
        """Its expiry, but not before it was last confirmed: until then it was current."""
        expires_at = self.item.expires_at
        return None if expires_at is None else max(expires_at, self.item.confirmed_at)

    def is_dead(self, now: str) -> bool:
        """Return whether it has ended at `now`."""
        return self.died is not None and self.died <= now

    @property
    def has_expired(self) -> bool:
        """Whether its expiry ends it, or ended it."""
        return self.died is not None and self.died == self._expires

    def end(self, at: str) -> None:
        """Record that it was removed, unless it had already ended."""
        self._ended = min(at, self._expires or at)


class Trace(Ledger):
    """A ledger that records the effect of each entry, by its number."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.recorded: list[str] = []
        self.saved: list[list[SavedFact]] = []
        self.forgotten: list[dict[ForgottenItem, Life]] = []
        self.retracted: list[list[tuple[Life | None, Told]]] = []
        """For each retraction the life that it ended, if any, and the floor after it."""
        self._lives: dict[int, Life] = {}  # by the id() of their items, which they reference
        self._saving: SavedFact | None = None
        super().__init__(entries)

    @property
    def lives(self) -> Iterable[Life]:
        """All values that were ever current, the oldest first."""
        return self._lives.values()

    def apply(self, entry: Entry) -> None:
        """Apply the next entry."""
        self.recorded.append(max(self.recorded_at, entry["at"]))
        self.saved.append([])
        self.forgotten.append({})
        self.retracted.append([])
        super().apply(entry)

    def forget_past(self) -> None:
        """Drop the effects of the applied entries, and the lives that ended, for long readings."""
        ended = [life for effects in self.forgotten for life in effects.values()]
        for saved in (each for saves in self.saved for each in saves):
            ended += saved.replaced
            ended += [value.life for value in saved.values if value.is_superseded]
        for life in ended:
            self._lives.pop(id(life.item), None)
        for effects in (self.recorded, self.saved, self.forgotten, self.retracted):
            effects.clear()

    def _save(self, fact: StoredFact, at: str) -> None:
        self._saving = SavedFact(fact, at, self._by, self._first)
        self.saved[-1].append(self._saving)
        super()._save(fact, at)
        held = self._by_keyword.get(fact["keyword"])
        self._saving.is_added = held is not None and held.fact_type == "MULTIPLE"
        self._saving = None

    def _touched(self, item: Item, fact: StoredFact, position: int) -> None:
        life = self._lives.get(id(item))
        is_new = life is None
        if life is None:
            life = self._lives[id(item)] = Life(fact["keyword"], item)
        if self._saving is not None:
            self._saving.values.append(SavedValue(life, position, is_new=is_new))

    def _retract(self, retracted: RetractedValue, at: str) -> None:
        before = len(self.forgotten[-1])
        super()._retract(retracted, at)
        ended = list(self.forgotten[-1].values())[before:]
        retractions = self._by_keyword[retracted["keyword"]].retractions
        floor = NEVER if retractions is None else retractions.floor
        self.retracted[-1].append((ended[0] if ended else None, floor))

    def _passed_over(self, fact: StoredFact, value: JsonValue, position: int, at: str) -> None:
        item = Item(0, value, fact, position, at, self._by, self._first)
        life = self._lives[id(item)] = Life(fact["keyword"], item)
        life.end(at)
        if self._saving is not None:
            self._saving.values.append(SavedValue(life, position, is_new=True, is_superseded=True))

    def _dropped(self, item: Item, at: str) -> None:
        life = self._lives[id(item)]
        was_alive = item.is_alive(at)
        life.end(at)
        if self._saving is None:
            self.forgotten[-1][life.name] = life
        elif was_alive:
            self._saving.replaced.append(life)
