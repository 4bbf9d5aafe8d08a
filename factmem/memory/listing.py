"""What lists the contents of a memory: trees, concepts, reports of a reset."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from factmem.ledger.resolution import PlacedFact
from factmem.models.display import Displayed, Sheet, fact_cells, one_kind
from factmem.models.facts import AnyFact, FactType
from factmem.models.places import Place
from factmem.providers.base import ErasureReceipt, PlaceInfo

__all__ = [
    "ConceptInfo",
    "MemoryTree",
    "RecordPage",
    "ResetReport",
    "branch_of",
    "concepts_of",
    "subject_path",
]


@dataclass(frozen=True, slots=True)
class MemoryTree(Displayed):
    """A branch of what a memory holds: scopes, in them subjects, in those their entities."""

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


def concepts_of(found: Iterable[PlacedFact]) -> list[ConceptInfo]:
    """Return what facts are about, ordered by keyword; the newest fact of each comes first."""
    by_keyword: dict[str, list[PlacedFact]] = {}
    for placed in found:
        by_keyword.setdefault(placed.fact.concept.keyword, []).append(placed)
    return [_concept_info(by_keyword[keyword]) for keyword in sorted(by_keyword)]


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


def _concept_info(placed: list[PlacedFact]) -> ConceptInfo:
    """Return what is known of one concept; the facts about it come newest first."""
    latest: AnyFact = placed[0].fact
    return ConceptInfo(
        latest.concept.keyword,
        latest.concept.description,
        latest.concept.fact_type,
        sum(len(each.fact.values) for each in placed),
        len({each.place.identity for each in placed}),
        placed[0].heard_at,
    )
