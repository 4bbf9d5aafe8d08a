"""Results of exports and imports: ExportReport, ImportReport, ImportProblem."""

from dataclasses import dataclass

from factmem.models._display import Displayed
from factmem.models.places import Place

__all__: list[str] = []


@dataclass(frozen=True, slots=True)
class ExportReport(Displayed):
    """The contents of a bundle that was written."""

    places: tuple[Place, ...]
    entries: int
    """How many entries (saves and forgets) were written, in all places together."""
    bytes: int
    turns: int = 0
    """How many messages of conversations were written."""


@dataclass(frozen=True, slots=True)
class ImportProblem:
    """A file, fact or memory of another library that was not imported. It is left unchanged."""

    item: str
    """The path of a file of Koog; the id of a memory or chat, or its position if it has none."""
    reason: str
    """The reason, without any content of the item."""

    def __str__(self) -> str:
        return f"{self.item!r}: {self.reason}"


MOST_PROBLEMS = 1_000
"""A file of a few bytes may have a million flaws; more are only counted."""


class Problems:
    """The problems of an import, of which the first are kept."""

    def __init__(self) -> None:
        self.failed: int = 0
        self._kept: list[ImportProblem] = []

    def add(self, item: str, reason: str, *, is_failure: bool = True) -> None:
        """Add a problem."""
        self.failed += is_failure
        if len(self._kept) < MOST_PROBLEMS:
            self._kept.append(ImportProblem(item, reason))

    @property
    def kept(self) -> tuple[ImportProblem, ...]:
        """The first problems."""
        return tuple(self._kept)


@dataclass(frozen=True, slots=True)
class ImportReport(Displayed):
    """The result of an import: from a bundle, from rows, or from another library.

    The subjects of a bundle's places have no description, as in the bundle.
    """

    places: tuple[Place, ...]
    entries: int
    """How many entries (saves and forgets) were read for these places; messages of chats count,
    too."""
    new: int
    """How many of these entries were not in the store before."""
    problems: tuple[ImportProblem, ...] = ()
    """What could not be imported from another library, at most the first thousand problems. An
    invalid bundle raises instead."""

    skipped: int = 0
    """How many of the entries were recorded before their place was erased, and not imported."""
    turns: int = 0
    """How many messages of conversations these places have from the import, now or before."""

    failed: int = 0
    """How many problems there were. What Koog's model had not found is no problem, but listed."""

    @property
    def known(self) -> int:
        """How many of the entries were skipped, because an earlier import had added them."""
        return self.entries - self.new - self.skipped
