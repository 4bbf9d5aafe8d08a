"""Listings of a memory: trees, concepts, the newest facts, figures, reports of a reset."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from heapq import heappush, heapreplace
from typing import Any

from factmem.ledger.resolution import PlacedFact
from factmem.models.display import Displayed, Sheet, fact_cells, one_kind
from factmem.models.facts import FactType
from factmem.models.places import Identity, Place
from factmem.providers.results import ErasureReceipt, PlaceInfo

__all__ = [
    "ConceptCounts",
    "ConceptInfo",
    "MemoryStats",
    "MemoryTree",
    "Newest",
    "RecordPage",
    "ResetReport",
    "branch_of",
    "stats_of",
    "subject_path",
]


@dataclass(frozen=True, slots=True)
class MemoryTree(Displayed):
    """A branch of a memory's tree: scopes contain subjects, and these contain entities."""

    name: str
    """`memory`, then a scope as `product/my-app`, then a subject's name, then an entity."""
    count: int
    """How many values are current in it, in all of its branches together."""
    bytes: int
    newest: datetime | None
    """When a current value was last confirmed; None where nothing is current."""
    place: Place | None = None
    """The place, where this is one; a per-entity subject is a branch and not a place."""
    branches: tuple["MemoryTree", ...] = ()
    """In the order of their names."""

    def cut(self, depth: int) -> "MemoryTree":
        """Return the tree without what lies more than `depth` levels below its root."""
        branches = () if depth == 0 else tuple(each.cut(depth - 1) for each in self.branches)
        return replace(self, branches=branches)

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
        lines = [f"{self.name}: {self.count}"]
        for branch in self.branches:
            lines += [f"  {line}" for line in str(branch).splitlines()]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class ConceptInfo(Displayed):
    """A concept that a memory knows something about."""

    keyword: str
    description: str
    """As it was last saved."""
    fact_type: FactType
    """As it was last saved."""
    count: int
    """How many values are current, in all places together."""
    places: int
    """How many places hold one of them."""
    newest: datetime
    """When one of them was last confirmed."""


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """How much a memory holds."""

    places: int
    entities: int
    """How many entities of subjects have a place."""
    count: int
    """How many values are current."""
    bytes: int
    oldest: datetime | None
    """When the first current value was confirmed; None without any."""
    newest: datetime | None
    """When the last one was confirmed."""


@dataclass(frozen=True, slots=True)
class ResetReport(Displayed):
    """What `reset` removed, or what it would remove."""

    places: list[PlaceInfo]
    """Each place as it was before."""
    receipts: list[ErasureReceipt] = field(default_factory=list[ErasureReceipt])
    """One for each place that was erased; none after a dry run."""

    @property
    def count(self) -> int:
        """How many current values that was, in all places together."""
        return sum(info.count for info in self.places)


class RecordPage(list[PlacedFact], Displayed):
    """Some of the facts that a listing found, as a list."""

    total: int
    """How many facts it found."""
    is_last: bool
    """Whether no facts come after these."""

    def __init__(self, found: Iterable[PlacedFact], *, offset: int, total: int) -> None:
        super().__init__(found)
        self.total = total
        self.is_last = offset + len(self) >= total

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row for each value: `pandas.DataFrame(records.to_rows())`.

        Times are datetimes. The values are of one type: strings, numbers or booleans where all
        are, and JSON otherwise.
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


class ConceptCounts:
    """Counts of the values of each concept, over any number of places."""

    def __init__(self) -> None:
        self._infos: dict[str, ConceptInfo] = {}
        self._last: dict[str, Identity] = {}

    def add(self, placed: PlacedFact) -> None:
        """Count a fact. The facts of one place come one after the other."""
        concept, keyword = placed.fact.concept, placed.fact.concept.keyword
        known, where = self._infos.get(keyword), placed.place.identity
        is_elsewhere = self._last.get(keyword) != where
        self._last[keyword] = where
        newest = placed.heard_at
        if known is not None and known.newest > newest:
            concept_info = known
        else:
            description, fact_type = concept.description, concept.fact_type
            concept_info = ConceptInfo(keyword, description, fact_type, 0, 0, newest)
        self._infos[keyword] = replace(
            concept_info,
            count=(known.count if known else 0) + len(placed.fact.values),
            places=(known.places if known else 0) + is_elsewhere,
        )

    def infos(self) -> list[ConceptInfo]:
        """Return the concepts, ordered by keyword."""
        return [self._infos[keyword] for keyword in sorted(self._infos)]


class Newest:
    """The facts that were confirmed last, as many as are wanted."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heap: list[tuple[datetime, int, PlacedFact]] = []
        self.total: int = 0
        """How many facts there were."""

    def add(self, placed: PlacedFact) -> None:
        """Take a fact in, if it is among the newest."""
        self.total += 1
        item = (placed.heard_at, self.total, placed)
        if len(self._heap) < self._most:
            heappush(self._heap, item)
        elif self._most and item[0] >= self._heap[0][0]:
            heapreplace(self._heap, item)

    def sorted(self) -> list[PlacedFact]:
        """Return the facts, the newest first."""
        return [placed for _, _, placed in sorted(self._heap, key=_age, reverse=True)]


def _age(item: tuple[datetime, int, PlacedFact]) -> tuple[datetime, int]:
    return item[:2]


def stats_of(found: Iterable[PlaceInfo]) -> MemoryStats:
    """Return the figures of places together."""
    infos = list(found)
    return MemoryStats(
        places=len(infos),
        entities=len({(i.subject.name, i.subject.entity) for i in infos if i.subject.entity}),
        count=sum(info.count for info in infos),
        bytes=sum(info.bytes for info in infos),
        oldest=min((info.oldest for info in infos if info.oldest is not None), default=None),
        newest=max((info.newest for info in infos if info.newest is not None), default=None),
    )


def subject_path(info: PlaceInfo) -> tuple[str, ...]:
    """Return name and levels of a place's subject."""
    subject = info.subject
    return (subject.name, *subject.levels)


def branch_of(name: str, found: list[tuple[tuple[str, ...], PlaceInfo]]) -> MemoryTree:
    """Return a branch and all below it, from the rest of the path of each place."""
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
