"""Listings of a memory: trees, concepts, the newest facts, statistics, and reset reports."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from factmem.ledger.history import HistoryEntry
from factmem.ledger.resolution import PlacedFact, UnreadableConcept
from factmem.models._display import Displayed, Sheet, fact_cells, one_kind
from factmem.models._values import Canonical, canonical
from factmem.models.facts import AnyConcept, AnyFact, Concept, FactSource, FactType
from factmem.models.places import Place
from factmem.providers.provider import is_complete
from factmem.providers.results import ErasureReceipt, PlaceInfo
from factmem.providers.store import FactStore

__all__ = ["FactOrigin"]


@dataclass(frozen=True, slots=True)
class MemoryTree(Displayed):
    """A branch of a memory's tree: scopes contain subjects, subjects contain entities."""

    name: str
    """The name by level: `memory`, a scope such as `product/my-app`, a subject's name, an
    entity."""
    count: int
    """The number of current values in it and all of its branches."""
    bytes: int
    newest: datetime | None
    """When a current value was last confirmed; None if there is none."""
    place: Place | None = None
    """The place, if the branch is one; a per-entity subject is a branch but not a place."""
    branches: tuple["MemoryTree", ...] = ()
    """The branches, ordered by name."""

    def _sheet(self) -> Sheet:
        """Show each branch as a line, indented by its level."""
        rows = [
            (f"{'  ' * depth}{each.name}", f"{each.count:,}", f"{each.bytes:,}", each.newest)
            for depth, each in self._branches(0)
        ]
        return Sheet("MemoryTree", ("branch", "values", "bytes", "newest"), rows)

    def _branches(self, depth: int) -> Iterator[tuple[int, "MemoryTree"]]:
        yield depth, self
        for branch in self.branches:
            yield from branch._branches(depth + 1)

    def __str__(self) -> str:
        branches = self._branches(0)
        return "\n".join(f"{'  ' * depth}{each.name}: {each.count}" for depth, each in branches)


@dataclass(frozen=True, slots=True)
class ConceptInfo(Displayed):
    """A concept with current values in a memory."""

    keyword: str
    description: str
    """The description that was saved last."""
    fact_type: FactType
    """The fact type that was saved last."""
    count: int
    """The number of current values in all places."""
    places: int
    """The number of places with a current value."""
    newest: datetime
    """When a current value was last confirmed."""


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Statistics of a memory."""

    places: int
    entities: int
    """The number of entities with a place."""
    count: int
    """The number of current values."""
    bytes: int
    oldest: datetime | None
    """When the oldest current value was confirmed; None if there is none."""
    newest: datetime | None
    """When the newest current value was confirmed; None if there is none."""


@dataclass(frozen=True, slots=True)
class ResetReport(Displayed):
    """The places that `reset` erased, or would erase."""

    places: list[PlaceInfo]
    """The places, with their sizes before the erasure."""
    receipts: list[ErasureReceipt] = field(default_factory=list[ErasureReceipt])
    """One for each erased place; empty without `confirm`."""

    @property
    def count(self) -> int:
        """The number of current values in these places."""
        return sum(info.count for info in self.places)


class CurrentFacts(list[AnyFact], Displayed):
    """The current facts of every concept, as a list, and what could not be read."""

    def __init__(self, facts: Iterable[AnyFact], unreadable: list[UnreadableConcept]) -> None:
        super().__init__(facts)
        self.unreadable = unreadable
        """The concepts with values that do not fit their types, each with its place and error.
        Their other values are in the list."""

    def _sheet(self) -> Sheet:
        columns = ("keyword", "value", "said", "expires")
        cells = [fact_cells(each) for each in self]
        return Sheet(f"{len(self):,} facts", columns, [tuple(c[n] for n in columns) for c in cells])


class RecordPage(list[PlacedFact], Displayed):
    """A page of the facts that a listing found, as a list."""

    total: int
    """The total number of facts that the listing found."""
    is_last: bool
    """Whether this is the last page."""

    def __init__(self, found: Iterable[PlacedFact], *, offset: int, total: int) -> None:
        super().__init__(found)
        self.total = total
        self.is_last = offset + len(self) >= total

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row for each value: `pandas.DataFrame(records.to_rows())`.

        Times are datetimes. All values have one type: they stay strings, numbers or booleans if all
        have that type; otherwise each becomes JSON.
        """
        return one_kind(
            {"place": str(each.place), **fact_cells(each.fact, position)}
            for each in self
            for position in range(len(each.fact.values))
        )

    def _sheet(self) -> Sheet:
        columns = ("place", "keyword", "value", "said", "confirmed", "expires")
        cells = [{"place": each.place, **fact_cells(each.fact)} for each in self]
        rows = [tuple(each[name] for name in columns) for each in cells]
        return Sheet(f"{len(self):,} of {self.total:,} records", columns, rows)


def branch_of(name: str, found: list[tuple[tuple[str, ...], PlaceInfo]]) -> MemoryTree:
    """Build a branch with its branches from the remaining path of each place."""
    below: dict[str, list[tuple[tuple[str, ...], PlaceInfo]]] = {}
    place: Place | None = None
    for path, info in found:
        if path:
            below.setdefault(path[0], []).append((path[1:], info))
        else:
            place = info.place
    newest = [info.newest for _, info in found if info.newest is not None]
    return MemoryTree(
        name,
        sum(info.count for _, info in found),
        sum(info.bytes for _, info in found),
        max(newest, default=None),
        place,
        tuple(branch_of(each, below[each]) for each in sorted(below)),
    )


@dataclass(frozen=True, slots=True)
class FactOrigin(Displayed):
    """The place of a fact, its sources, and the history of its concept there."""

    place: Place
    sources: list[FactSource]
    """The sources, oldest first; empty if none was recorded."""
    history: list[HistoryEntry] | None = field(repr=False)
    """The saves, confirmations and deletions of the concept in that place, oldest first; None if
    the provider keeps no history."""

    @property
    def source(self) -> FactSource | None:
        """The first source."""
        return self.sources[0] if self.sources else None

    @property
    def quote(self) -> str | None:
        """The quote of the first source."""
        return self.source.quote if self.source else None


async def origin_of(
    fact: AnyFact,
    places: Sequence[Place],
    store: FactStore,
    concept: Concept[Any, Any] | None = None,
) -> FactOrigin | None:
    """Return the origin of a fact, or None if no place has or had it.

    Facts are compared by id. Superseded and forgotten facts are found through the history.
    """
    for place in places:
        history = await history_of(concept or fact.concept, place, store)
        if history is None:
            held = await store.load(fact.concept, place.subject, place.scope)
            if any(each.id == fact.id for each in held):
                sources = [] if fact.source is None else [fact.source]
                return FactOrigin(place, sources, None)
        elif any(entry.fact is not None and entry.fact.id == fact.id for entry in history):
            return FactOrigin(place, _sources(fact, history), history)
    return None


async def history_of(
    concept: AnyConcept, place: Place, store: FactStore
) -> list[HistoryEntry] | None:
    """Return the history of a concept; None if not stored."""
    if not is_complete(store):
        return None
    return await store.history(concept, place.subject, place.scope)


def _sources(fact: AnyFact, history: Sequence[HistoryEntry]) -> list[FactSource]:
    """Return the sources of a fact: those of its save and of the confirmations of its values."""
    ours = set(keys_of(fact))
    sources: dict[FactSource, None] = {}  # an ordered set
    for entry in history:
        saved = entry.fact
        if saved is None or saved.source is None:
            continue
        if saved.id == fact.id or ours.intersection(keys_of(saved)):
            sources[saved.source] = None
    return list(sources)


def keys_of(fact: AnyFact) -> list[Canonical]:
    """Return the values of a fact in canonical form, for comparison."""
    dump, keyword = fact.concept.codec.dump, fact.concept.keyword
    return [canonical(dump(value, keyword)) for value in fact.values]
