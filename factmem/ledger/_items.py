"""The current values of a ledger: Item, and KeywordItems for the items of one keyword.

`outdated` decides which values of a statement are already superseded when it is recorded.
`ChangeLog` remembers which facts changed, for readers that follow a place without loading it again.
"""

from collections import deque
from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from factmem.ledger._statements import Retractions, digest_of, said_at
from factmem.ledger.entries import SourceEntry, StoredFact
from factmem.models._values import Canonical, JsonValue, canonical
from factmem.models.clock import moment, stamp

__all__ = ["ChangeLog", "Item", "KeywordItems", "LedgerState", "Touched", "outdated", "values_of"]


NO_SOURCE: list[SourceEntry | None] = [None]
"""Shared by items without a source; an item that gains one gets its own list."""


class Item:
    """One current value of a keyword, and the save that it came from."""

    __slots__ = (
        "_said",
        "confirmed_at",
        "expires_at",
        "fact_id",
        "importance",
        "metadata",
        "number",
        "position",
        "since",
        "source_keys",
        "sources",
        "timestamp",
        "until",
        "value",
    )

    def __init__(
        self, number: int, value: JsonValue, fact: StoredFact, position: int, at: str
    ) -> None:
        self.number: int = number
        self.value: JsonValue = value
        self.fact_id: str = fact["id"]
        self.position: int = position
        timestamp = fact["timestamp"]
        self.timestamp: datetime = moment(timestamp)
        """When it was first said; all facts of this item share the object."""
        self._said: str | None = None if timestamp <= at else at
        self.importance: float = fact.get("importance", 0.5)
        self.expires_at: str | None = fact.get("expires_at")
        self.since: str | None = fact.get("since")
        self.until: str | None = fact.get("until")
        self.confirmed_at: str = at
        self.metadata: dict[str, JsonValue] | None = fact.get("metadata")
        source = fact.get("source")
        self.sources: list[SourceEntry | None] = NO_SOURCE if source is None else [source]
        self.source_keys: set[str] | None = None

    @property
    def said(self) -> str:
        """When it was last said, but no later than it was recorded; a stamp."""
        return stamp(self.timestamp) if self._said is None else self._said

    def fields(self) -> list[Any]:
        """Return this item as plain JSON, for `restored`."""
        return [
            self.number,
            self.value,
            self.fact_id,
            self.position,
            stamp(self.timestamp),
            self._said,
            self.importance,
            self.expires_at,
            self.confirmed_at,
            self.metadata,
            None if self.sources is NO_SOURCE else self.sources,
            self.since,
            self.until,
        ]

    @classmethod
    def restored(cls, fields: list[Any], texts: dict[str, str]) -> "Item":
        """Return the item of `fields`; equal times share a string of `texts`."""
        item = cls.__new__(cls)
        (
            item.number,
            item.value,
            item.fact_id,
            item.position,
            timestamp,
            item._said,
            item.importance,
            item.expires_at,
            at,
            item.metadata,
            sources,
            item.since,
            item.until,
        ) = fields
        item.confirmed_at = texts.setdefault(at, at)
        item.timestamp = moment(timestamp)
        item.sources = NO_SOURCE if sources is None else sources
        item.source_keys = None
        return item

    def confirm(self, fact: StoredFact, at: str) -> None:
        """Apply a later save of the same value; the item stays in its own save.

        A statement that was said earlier does not change importance and expiry.
        """
        said = min(fact["timestamp"], at)
        last = self.said
        if "stated" not in fact or said >= last:
            self.importance = fact.get("importance", 0.5)
            self.expires_at = fact.get("expires_at")
            self.since = fact.get("since", self.since)
            self.until = fact.get("until", self.until)
        self._said = max(last, said)
        self.confirmed_at = at
        # Models confirm values without knowing their metadata, so a save without any keeps it.
        self.metadata = fact.get("metadata", self.metadata)
        source = fact.get("source")
        if source != self.sources[-1]:
            self._add_source(source)

    def _add_source(self, source: SourceEntry | None) -> None:
        """Add a source unless the item has it: the same value may be said many times."""
        if self.source_keys is None:
            self.sources = list(self.sources)
            self.source_keys = {_source_key(each) for each in self.sources}
        if (key := _source_key(source)) not in self.source_keys:
            self.source_keys.add(key)
            self.sources.append(source)

    def is_alive(self, now: str) -> bool:
        """Return whether it has not expired at `now`."""
        return self.expires_at is None or self.expires_at > now


def _source_key(source: SourceEntry | None) -> str:
    return "" if source is None else repr(sorted(source.items()))


class KeywordItems:
    """The items of one keyword, by the canonical form of their values, oldest first.

    Most keywords have one item, which is stored without a dictionary: 100,000 dictionaries take 20 MB
    more. The second item creates a dictionary, which then stays.
    """

    __slots__ = (
        "_digests",
        "_items",
        "_names",
        "description",
        "fact_type",
        "key",
        "only",
        "retractions",
    )

    def __init__(self, description: str = "", fact_type: str = "SINGLE") -> None:
        self.description: str = description
        self.fact_type: str = fact_type
        self.retractions: Retractions | None = None
        """The retracted values, and when; None if none was retracted."""
        self._digests: dict[str, Canonical] | None = None
        self.key: Canonical = ""
        """The canonical form of the value of `only`."""
        self.only: Item | None = None
        """The item if there never was a second one, else None."""
        self._items: dict[Canonical, Item] | None = None
        self._names: dict[tuple[str, int], Canonical] | None = None

    def fields(self) -> list[Any]:
        """Return the items as plain JSON, for `restored`."""
        retractions = None if self.retractions is None else self.retractions.fields()
        items = [item.fields() for item in self.items.values()]
        return [self.description, self.fact_type, items, retractions]

    @classmethod
    def restored(cls, fields: list[Any], texts: dict[str, str]) -> "KeywordItems":
        """Return the items of `fields`; see `Item.restored`."""
        description, fact_type, items, retractions = fields
        single = "SINGLE" if fact_type == "SINGLE" else "MULTIPLE"
        held = cls(texts.setdefault(description, description), single)
        if len(items) == 1:
            held.only = item = Item.restored(items[0], texts)
            held.key = canonical(item.value)
        else:
            for each in items:
                item = Item.restored(each, texts)
                held.add(canonical(item.value), item)
        if retractions is not None:
            held.retractions = Retractions.restored(retractions)
        return held

    def is_wide(self, now: str) -> bool:
        """Return whether also a SINGLE save adds to the values."""
        return self.fact_type == "MULTIPLE" and bool(self.alive(now))

    @property
    def items(self) -> dict[Canonical, Item]:
        """All items, read-only: use `add`, `clear` and `remove` to change them."""
        if self._items is not None:
            return self._items
        return {} if self.only is None else {self.key: self.only}

    def __len__(self) -> int:
        return len(self._items or ()) if self.only is None else 1

    def get(self, key: Canonical) -> Item | None:
        """Return the item with a value of this canonical form, if there is one."""
        if self.only is not None:
            return self.only if key == self.key else None
        return (self._items or {}).get(key)

    def alive(self, now: str) -> list[Item]:
        """Return the items that have not expired at `now`."""
        if (item := self.only) is not None:
            return [item] if item.expires_at is None or item.expires_at > now else []
        return [item for item in (self._items or {}).values() if item.is_alive(now)]

    def add(self, key: Canonical, item: Item) -> None:
        """Add an item as the newest."""
        if self._items is not None:
            self._items[key] = item
        elif self.only is None:
            self.key, self.only = key, item
        else:
            self._as_dictionary()[key] = item
        if self._names is not None:
            self._names[item.fact_id, item.position] = key
        if self._digests is not None:
            self._digests[digest_of(key)] = key

    def _as_dictionary(self) -> dict[Canonical, Item]:
        items = self._items = self.items
        self.only = None
        return items

    def clear(self) -> dict[Canonical, Item]:
        """Remove all items, and return them."""
        if self.only is None and self._items is None:
            return {}
        items = self.items
        self.only = self._items = self._names = self._digests = None
        return items

    def remove(self, key: Canonical) -> Item:
        """Remove an item."""
        item = self._as_dictionary().pop(key)
        if self._names is not None:
            self._names.pop((item.fact_id, item.position), None)
        if self._digests is not None:
            self._digests.pop(digest_of(key), None)
        return item

    def named(self, fact_id: str, position: int) -> Canonical | None:
        """Return the key of the item that a forgetting names, or None."""
        if self._names is None:
            self._names = {(item.fact_id, item.position): key for key, item in self.items.items()}
        return self._names.get((fact_id, position))

    def digested(self, digest: str) -> Canonical | None:
        """Return the key of the item that a retraction names, or None."""
        if self._digests is None:
            self._digests = {digest_of(key): key for key in self.items}
        return self._digests.get(digest)

    def free_position(self, fact_id: str, free: int, at: str) -> int:
        """Return the first position that no current item of a fact has.

        `free` is the next position after MULTIPLE saves. A SINGLE save takes position 0 and does not
        count; its item is always the first.
        """
        first = self.only if self._items is None else next(iter(self._items.values()), None)
        if first is not None and first.fact_id == fact_id and first.is_alive(at):
            return max(free, first.position + 1)
        return free


def values_of(fact: StoredFact) -> Iterator[tuple[int, JsonValue]]:
    """Yield the values of a stored fact, each with its position."""
    if "value" in fact:
        yield 0, fact["value"]
    elif "positions" in fact and "values" in fact:
        yield from zip(fact["positions"], fact["values"], strict=True)
    elif "values" in fact:
        yield from enumerate(fact["values"])


def outdated(held: KeywordItems | None, fact: StoredFact, at: str) -> Collection[int]:
    """Return the positions of the values of a statement that later statements supersede."""
    marked = fact.get("superseded", ())
    said = said_at(fact, at)
    is_single = fact["type"] == "SINGLE" and (held is None or not held.is_wide(at))
    retractions = None if held is None else held.retractions
    found: set[int] = set()
    for position, value in values_of(fact):
        key = canonical(value)
        if (
            position in marked
            or (retractions is not None and retractions.ended_after(said, key))
            or (is_single and retractions is not None and said < retractions.floor)
            or (is_single and held is not None and _has_later(held, key, said, at))
        ):
            found.add(position)
    return found


def _has_later(held: KeywordItems, key: Canonical, said: str, at: str) -> bool:
    return any(
        item.said > said and other != key and item.is_alive(at)
        for other, item in held.items.items()
    )


_MOST_MARKS = 1024
"""The most changed facts that are kept. Readers that follow a place ask at every turn of an agent."""


class Touched:
    """The changes of one keyword."""

    __slots__ = ("ids", "is_text", "is_whole")

    def __init__(self) -> None:
        self.ids: set[str] = set()
        """The facts that gained or lost values, or were confirmed."""
        self.is_text: bool = True
        """Whether only strings were added and removed; otherwise the type may have changed."""
        self.is_whole: bool = False
        """Whether all its facts may have changed: it was replaced or has a new description."""


class ChangeLog:
    """The latest changes of a ledger, by the number of the applied entry.

    Not thread-safe, like its ledger.

    Args:
        begun: The last entry before the first change.
    """

    __slots__ = ("_lost", "_marks")

    def __init__(self, begun: int) -> None:
        self._marks: deque[tuple[int, str, str | None, bool]] = deque()
        self._lost = begun
        """The last entry whose change was discarded."""

    def note(self, entry: int, keyword: str, fact_id: str | None, value: JsonValue = "") -> None:
        """Record a fact changed by an entry, with the added or removed value; None means all facts."""
        marks = self._marks
        if len(marks) == _MOST_MARKS:
            self._lost = marks.popleft()[0]
        marks.append((entry, keyword, fact_id, type(value) is str))

    def since(self, entry: int) -> dict[str, Touched] | None:
        """Return the changes after an entry, by keyword; None if they were discarded."""
        if entry < self._lost:
            return None
        found: dict[str, Touched] = {}
        for number, keyword, fact_id, is_text in reversed(self._marks):
            if number <= entry:
                break
            touched = found.setdefault(keyword, Touched())
            if fact_id is None:
                touched.is_whole = True
            else:
                touched.ids.add(fact_id)
                touched.is_text &= is_text
        return found


class LedgerState(NamedTuple):
    """The state of a ledger, without history."""

    recorded_at: str
    number: int
    """The number of the last item."""
    late: list[str]
    """The latest superseded statements."""
    passed: dict[str, str]
    """The last descriptions of keywords, if they are not current."""
    by_keyword: dict[str, KeywordItems]
    free: dict[str, int]
    """The next free position of each fact."""
    expiries: list[tuple[str, str]]
    """The expiries of current values and possibly of others, each with its keyword."""
