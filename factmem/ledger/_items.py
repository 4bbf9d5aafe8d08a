"""The current values of a ledger: `Item`, and `KeywordItems` for the items of one keyword.

Only `Ledger` changes items, while it folds an entry; others read them under the lock of the
ledger's owner. One class serves current, proposed and planned values. A large place has 100,000 of
them in memory: hence slots, strings and lists that are shared until one changes, and no dictionary
for a single item. Forgettings and retractions name a value by its digest; digests are computed only
for keywords that were asked for one.

A save, a retraction and a forgetting are statements, sorted by `Order`: of two, the one said later
wins. It may be recorded long after it was said, even after a later statement. So a save never
replaces a value that was said after it, and never restores a value that was retracted or forgotten
after it. Of equal times the greater id wins, so that all copies of a store agree.

A `Condition` selects the items that a forgetting removes. A `ChangeLog` lists which facts changed,
for incremental readers.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypeAlias

from factmem.ledger.entries import ForgottenItem, RetractedValue, SourceEntry, StoredFact, source_of
from factmem.models._values import Canonical, JsonValue, canonical
from factmem.models.facts import FactSource, includes
from factmem.models.places import By
from factmem.models.when import begin_of, end_of, moment, stamp

Order: TypeAlias = tuple[str, str]
"""The sort key of a statement: when it was said, and its id."""

NEVER: Order = ("", "")


def said_at(said: StoredFact | RetractedValue, at: str) -> str:
    """Return when a statement that was recorded at `at` was said: then or earlier."""
    return min(said["timestamp"], at)


def order_of(fact: StoredFact, at: str) -> Order:
    """Return the sort key of a save.

    A person's decision counts as said when it is recorded, and a plan when it begins.
    """
    said = at if "confirmed" in fact else said_at(fact, at)
    return max(said, begin_of(fact["since"])) if "since" in fact else said, fact["id"]


def last_ended(retracted: RetractedValue, at: str) -> Order:
    """Return the greatest sort key of a statement that a retraction ends."""
    return said_at(retracted, at), retracted.get("id", "")


def digest_of(key: Canonical) -> str:
    """Return the digest that names a value in a retraction, so that the value is not stored."""
    return sha256(b"s" + key.encode() if isinstance(key, str) else b"j" + key).hexdigest()[:32]


class Retractions:
    """The latest retraction of each value of one keyword."""

    __slots__ = ("_by_digest", "floor", "rejected")

    def __init__(self) -> None:
        self._by_digest: dict[str, Order] = {}
        self.floor: Order = NEVER
        """For a keyword with one value: the sort key of the last value that was retracted or
        forgotten. It had replaced all earlier statements."""
        self.rejected: set[str] = set()
        """The digests of values that a person retracted."""

    def add(self, retracted: RetractedValue, at: str) -> None:
        said, fact_id = retracted.get("floor", NEVER)
        self.floor = max(self.floor, (min(said, at), fact_id))
        if (digest := retracted.get("digest")) is not None:
            self.end(digest, last_ended(retracted, at))
            if "confirmed" in retracted:
                self.rejected.add(digest)

    def end(self, digest: str, until: Order) -> None:
        """End what was said of a value up to a sort key."""
        self._by_digest[digest] = max(self._by_digest.get(digest, NEVER), until)

    def has_ended(self, order: Order, key: Canonical) -> bool:
        """Return whether a value was retracted or forgotten after it was said."""
        return bool(self._by_digest) and order <= self._by_digest.get(digest_of(key), NEVER)


def retraction_name(retracted: RetractedValue) -> str:
    """Return the name of a retraction among the latest superseded statements."""
    return f"{retracted.get('digest')} {retracted['timestamp']} {retracted['keyword']}"


ItemState: TypeAlias = Literal["saved", "learnt", "confirmed", "proposed"]
"""Whether the application saved a value, a model learnt it, a person confirmed it, or it waits."""

NO_SOURCE: list[SourceEntry | None] = [None]
"""Shared by items without a source; an item that gains one gets its own list."""


class Item:
    """One current value of a keyword, and the save that it came from."""

    __slots__ = (
        "_last", "_said", "by", "confirmed_at", "ends_at", "expires_at", "fact_id", "importance",
        "metadata", "number", "since", "source_keys", "sources", "state", "timestamp", "until",
        "value",
    )  # fmt: skip

    def __init__(self, number: int, value: JsonValue, fact: StoredFact, at: str, by: By) -> None:
        self.number: int = number
        self.value: JsonValue = value
        self.fact_id: str = fact["id"]
        timestamp = fact["timestamp"]
        self.timestamp: datetime = moment(timestamp)
        """When it was first said; all facts of this item share the object."""
        is_said_before = timestamp <= at and "confirmed" not in fact  # see `order_of`
        self._said: str | None = None if is_said_before else at
        self._last: str | None = None
        """The id of the last save, if that is another one."""
        self.importance: float = fact.get("importance", 0.5)
        self.expires_at: str | None = fact.get("expires_at")
        self.since: str | None = fact.get("since")
        self.until: str | None = fact.get("until")
        self.confirmed_at: str = at
        self.metadata: dict[str, JsonValue] | None = fact.get("metadata")
        source = fact.get("source")
        self.sources: list[SourceEntry | None] = NO_SOURCE if source is None else [source]
        self.source_keys: set[str] | None = None
        self.state: ItemState = "learnt" if "stated" in fact else "saved"
        if "confirmed" in fact:
            self.state = "confirmed"
        self.by: By = by if "actor" not in fact else _named(fact)
        self.ends_at: str | None = self.expires_at
        if self.until is not None:
            self.ends_at = _earlier(self.expires_at, self.until)
        if self.since is not None and (begin := begin_of(self.since)) > self.said:
            self._said = begin  # see `order_of`

    @property
    def said(self) -> str:
        """When it was last said, but no later than it was recorded; a stamp."""
        return stamp(self.timestamp) if self._said is None else self._said

    @property
    def last(self) -> Order:
        """The sort key of the last save of the value."""
        return self.said, self._last or self.fact_id

    def fields(self) -> list[Any]:
        """Return this item as plain JSON, for `restored`."""
        sources = None if self.sources is NO_SOURCE else self.sources
        return [*_plain(self), stamp(self.timestamp), sources, *self.by]

    @classmethod
    def restored(cls, fields: list[Any], texts: dict[str, str]) -> "Item":
        """Return the item of `fields`; equal times share a string of `texts`."""
        item = cls.__new__(cls)
        timestamp, sources, *by = fields[len(_PLAIN) :]
        for name, field in zip(_PLAIN, fields, strict=False):
            setattr(item, name, field)
        item.by = By(*by)
        item.confirmed_at = texts.setdefault(item.confirmed_at, item.confirmed_at)
        item.timestamp = moment(timestamp)
        item.sources = NO_SOURCE if sources is None else sources
        item.source_keys = item._last = None
        item.ends_at = _earlier(item.expires_at, item.until)
        return item

    @property
    def holds_from(self) -> str:
        """From when on it holds, or when it was said, a stamp; empty if only its end is known."""
        if self.since:
            return begin_of(self.since)
        said = min(stamp(self.timestamp), self.said)
        return "" if self.until is not None and end_of(self.until) <= said else said

    def confirm(self, fact: StoredFact, at: str, by: By) -> None:
        """Apply another save of the same value; the item stays in its own save.

        Importance and expiry do not change by what was said earlier, or by a model if confirmed.
        """
        order, last = order_of(fact, at), self.last
        if "confirmed" in fact:
            self.state, self.by = "confirmed", by if "actor" not in fact else _named(fact)
        elif self.state == "learnt" and not {"stated", "proposed", "edited"} & fact.keys():
            self.state = "saved"
        is_open = self.state != "confirmed" or "stated" not in fact
        if is_open and order >= last:
            self.importance = fact.get("importance", 0.5)
            self.expires_at = fact.get("expires_at")
            self.since = fact.get("since", self.since)
            self.until = fact.get("until", self.until)
            self.ends_at = _earlier(self.expires_at, self.until)
        if "edited" not in fact:
            self._said, self._last = max(last, order)
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
        """Return whether it has neither ended nor expired at `now`."""
        return self.ends_at is None or self.ends_at > now


_PLAIN = (
    "number", "value", "fact_id", "_said", "importance", "expires_at", "confirmed_at", "metadata",
    "since", "until", "state",
)  # fmt: skip
_plain = attrgetter(*_PLAIN)


def _earlier(expires_at: str | None, until: str | None) -> str | None:
    return expires_at if until is None else min(end_of(until), expires_at or end_of(until))


def _named(fact: StoredFact) -> By:
    return By(fact.get("actor") or None, fact.get("reason"))


def _source_key(source: SourceEntry | None) -> str:
    return "" if source is None else repr(sorted(source.items()))


class Plan(NamedTuple):
    """One value that begins later; see `Ledger`."""

    fact: StoredFact
    """Its save, with this value alone; without any value if it was purged, as it still replaces."""
    item: Item
    """The item that reads return."""
    key: Canonical
    at: str
    by: By

    @property
    def begin(self) -> str:
        """When it begins, a stamp."""
        return begin_of(self.fact.get("since", ""))

    @property
    def is_stub(self) -> bool:
        """Whether its value was removed; no other save and no forgetting refers to it."""
        return "value" not in self.fact and not self.fact.get("values")

    @property
    def said(self) -> Order:
        """The sort key of the save that planned it."""
        return min(self.fact["timestamp"], self.at), self.fact["id"]


class Proposals:
    __slots__ = ("endings", "values")

    def __init__(self) -> None:
        self.values: dict[Canonical, Item] = {}
        """The proposed values, the oldest first; none of them is current."""
        self.endings: dict[Canonical, tuple[RetractedValue, str, By]] = {}
        """Retractions of current values, each with the time of recording and its actor."""

    def __bool__(self) -> bool:
        return bool(self.values or self.endings)

    def settle(self, key: Canonical, *, all_values: bool = False) -> Iterator[Item]:
        """Remove the proposals about a value that was saved, or all; yield the removed values."""
        if all_values:
            self.endings.clear()
            gone = list(self.values)
        else:
            self.endings.pop(key, None)
            gone = [key] if key in self.values else []
        for each in gone:
            yield self.values.pop(each)

    def digested(self, digest: str) -> Canonical | None:
        """Return the key of the proposed value with a digest, or None."""
        return next((key for key in self.values if digest_of(key) == digest), None)


class KeywordItems:
    """The items of one keyword, by the canonical form of their values, oldest first.

    Most keywords have one item, which is stored without a dictionary: 100,000 dictionaries take 20
    MB more. The second item creates a dictionary, which then stays.
    """

    __slots__ = (
        "_digests", "_items", "description", "fact_type", "key", "only", "plans", "proposals",
        "retractions",
    )  # fmt: skip

    def __init__(self, description: str = "", fact_type: str = "SINGLE") -> None:
        self.description: str = description
        self.fact_type: str = fact_type
        self.retractions: Retractions | None = None
        """The retracted values, and when; None if none was retracted."""
        self.proposals: Proposals | None = None
        """The proposals about the keyword; None if there never were any."""
        self.plans: list[Plan] | None = None
        """The values that begin later; None if there never were any."""
        self._digests: dict[str, Canonical] | None = None
        self.key: Canonical = ""
        """The canonical form of the value of `only`."""
        self.only: Item | None = None
        """The only item, if there never was a second one; else None."""
        self._items: dict[Canonical, Item] | None = None

    def is_wide(self, now: str) -> bool:
        """Return whether a SINGLE save, too, adds to the values instead of replacing them."""
        return self.fact_type == "MULTIPLE" and bool(self.alive(now))

    @property
    def items(self) -> dict[Canonical, Item]:
        """All items, read-only: use `add`, `clear` and `remove` to change them."""
        if self._items is not None:
            return self._items
        return {} if self.only is None else {self.key: self.only}

    def all_items(self) -> list[tuple[Canonical, Item]]:
        """Return the current items, the proposed and the planned values, each with its key."""
        found = list(self.items.items())
        if self.proposals is not None:
            found += self.proposals.values.items()
        return found + [(plan.key, plan.item) for plan in self.plans or () if not plan.is_stub]

    def copied(self) -> "KeywordItems":
        twin = KeywordItems(self.description, self.fact_type)
        items = twin._items = {key: copy(item) for key, item in self.items.items()}
        for item in items.values():
            item.source_keys = None  # a source is then added to a list of its own
        twin.retractions, twin.proposals = deepcopy((self.retractions, self.proposals))
        twin.plans = None if self.plans is None else list(self.plans)
        return twin

    def __len__(self) -> int:
        return (len(self._items or ()) if self.only is None else 1) + len(self.plans or ())

    def get(self, key: Canonical) -> Item | None:
        if self.only is not None:
            return self.only if key == self.key else None
        return (self._items or {}).get(key)

    def alive(self, now: str) -> list[Item]:
        """Return the items that have neither ended nor expired at `now`."""
        if (item := self.only) is not None:
            return [item] if item.ends_at is None or item.ends_at > now else []
        return [item for item in (self._items or {}).values() if item.is_alive(now)]

    def add(self, key: Canonical, item: Item) -> None:
        if self._items is not None:
            self._items[key] = item
        elif self.only is None:
            self.key, self.only = key, item
        else:
            self._as_dictionary()[key] = item
        if self._digests is not None:
            self._digests[digest_of(key)] = key

    def _as_dictionary(self) -> dict[Canonical, Item]:
        items = self._items = self.items
        self.only = None
        return items

    def clear(self) -> dict[Canonical, Item]:
        if self.only is None and self._items is None:
            return {}
        items = self.items
        self.only = self._items = self._digests = None
        return items

    def remove(self, key: Canonical) -> Item:
        item = self._as_dictionary().pop(key)
        if self._digests is not None:
            self._digests.pop(digest_of(key), None)
        return item

    def digested(self, digest: str) -> Canonical | None:
        """Return the key of the item with the digest of a forgetting or retraction, or None."""
        if self._digests is None:
            self._digests = {digest_of(key): key for key in self.items}
        return self._digests.get(digest)


def name_of(keyword: str, item: Item) -> ForgottenItem:
    return keyword, item.fact_id, digest_of(canonical(item.value))


def values_of(fact: StoredFact) -> Iterator[tuple[int, JsonValue]]:
    if "value" in fact:
        yield 0, fact["value"]
    elif "values" in fact:
        yield from enumerate(fact["values"])


def with_values(fact: StoredFact, kept: Sequence[int]) -> StoredFact:
    """Return a MULTIPLE fact with the values at some positions, and their marks."""
    rest: Any = fact.copy()
    rest["values"] = [rest["values"][number] for number in kept]
    for name in ("superseded", "proposed"):
        marked = rest.pop(name, ())
        if marks := [at for at, number in enumerate(kept) if number in marked]:
            rest[name] = marks
    if not kept:
        del rest["values"]
    found: StoredFact = rest
    return found


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition of a forgetting: an item must meet every field that is set."""

    keyword: str | None = None
    key: Canonical | None = None
    source: FactSource | None = None
    older_than: str | None = None
    keywords: frozenset[str] | None = None
    fact_ids: frozenset[str] | None = None
    metadata: Mapping[str, JsonValue] | None = None
    reading: Callable[[JsonValue], Canonical | None] | None = None
    """Returns the `key` of a stored value of an older type; None if its concept cannot read it."""
    is_single: bool = False
    """Whether `keywords` are those of one SINGLE concept. When its current value is removed,
    earlier values under former keywords are too, so that none of them becomes current."""

    @property
    def names(self) -> frozenset[str] | None:
        alone = None if self.keyword is None else (self.keyword,)
        named = [each for each in (alone, self.keywords, self.fact_ids) if each is not None]
        return frozenset().union(*named) if named else None

    @property
    def is_of_keywords(self) -> bool:
        others = self.key, self.source, self.older_than, self.fact_ids, self.metadata
        return all(each is None for each in others)

    def is_met_by(self, keyword: str, key: Canonical, item: Item) -> bool:
        """Return whether an item meets all fields. A source must be the only one of the item."""
        return (
            (self.keyword is None or keyword == self.keyword)
            and (self.keywords is None or keyword in self.keywords)
            and (self.key is None or key == self.key or self._reads_as_key(item))
            and (self.fact_ids is None or item.fact_id in self.fact_ids)
            and (self.older_than is None or item.confirmed_at < self.older_than)
            and (self.source is None or self._is_only_source(item))
            and (self.metadata is None or includes(item.metadata or {}, self.metadata))
        )

    def _reads_as_key(self, item: Item) -> bool:
        return self.reading is not None and self.reading(item.value) == self.key

    def _is_only_source(self, item: Item) -> bool:
        sources = [source_of(source) for source in item.sources]
        return self.source is not None and all(
            source is not None and self.source.covers(source) for source in sources
        )


_MOST_MARKS = 1024
"""The most changed facts that are kept; readers ask in every turn of an agent."""


class Touched:
    __slots__ = ("ids", "is_text", "is_whole")

    def __init__(self) -> None:
        self.ids: set[str] = set()
        """The facts that gained or lost values, or were confirmed."""
        self.is_text: bool = True
        """Whether only strings were added and removed; otherwise the type may have changed."""
        self.is_whole: bool = False
        """Whether all its facts may have changed: it was replaced or has a new description."""


class ChangeLog:
    """The latest changes of a ledger since the entry `begun`, by the number of the entry."""

    __slots__ = ("_lost", "_marks")

    def __init__(self, begun: int) -> None:
        self._marks: deque[tuple[int, str, str | None, bool]] = deque()
        self._lost = begun
        """The last entry whose change was discarded."""

    def note(self, entry: int, keyword: str, fact_id: str | None, value: JsonValue = "") -> None:
        """Record a fact that an entry changed, with the value; None means all facts."""
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
