"""DetectionReport: the saved, retracted, confirmed, flagged and rejected items of a detection."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from factmem.detection.doubts import Doubt
from factmem.detection.rejections import RejectedItem
from factmem.ledger.resolution import PlacedFact
from factmem.models.display import Displayed
from factmem.models.facts import Concept
from factmem.models.places import Place
from factmem.usage import Usage

__all__ = ["DetectionReport", "DoubtfulItem", "JoinedKeyword", "Retraction"]


@dataclass(frozen=True, slots=True)
class Retraction:
    """A value that is no longer true."""

    place: Place
    concept: Concept[Any, Any]
    value: Any = field(repr=False)
    said_at: datetime
    """When that was said."""


@dataclass(frozen=True, slots=True)
class DoubtfulItem:
    """An item that passed all checks, and whose value may not follow from its message."""

    position: int
    """Its position in the answer, from 0."""
    doubts: tuple[Doubt, ...]
    place: Place
    concept: Concept[Any, Any]
    value: Any = field(repr=False)
    is_retraction: bool = False
    is_kept: bool = True
    """Whether it was stored or retracted all the same; not with `doubtful="reject"`."""


@dataclass(frozen=True, slots=True)
class JoinedKeyword:
    """A made-up keyword whose values were saved under another one of the same meaning."""

    written: str
    keyword: str
    similarity: float | None = None
    """How near the embedder found the two, from 0 to 1; None for keywords of the same words."""


@dataclass(frozen=True, slots=True)
class DetectionReport(Displayed):
    """The result of a detection; with `dry_run`, the result that it would have."""

    saved: list[PlacedFact]
    """New facts, each with its source."""
    retracted: list[Retraction]
    """Values that are no longer current."""
    confirmed: list[PlacedFact]
    """Current facts that were said again."""
    rejected: list[RejectedItem]
    """Items of the model's answer that were rejected, each with the reason."""
    usage: Usage
    """The tokens and calls of all model calls, verification included."""
    is_dry_run: bool = False
    superseded: list[PlacedFact] = field(default_factory=list[PlacedFact])
    """Facts that something said later overrules, in this chat or in one that was read earlier. They
    are recorded in the history only."""
    doubtful: list[DoubtfulItem] = field(default_factory=list[DoubtfulItem])
    """Items that are flagged: saved with `doubtful="keep"`, rejected with `"reject"`."""
    joined: list[JoinedKeyword] = field(default_factory=list[JoinedKeyword])
    """Made-up keywords whose values were saved under another one."""
    erased: list[PlacedFact] = field(default_factory=list[PlacedFact])
    """Facts that were not saved, as their place was erased after the chat was read."""
    refused: list[Retraction] = field(default_factory=list[Retraction])
    """Retractions that changed nothing: the value was said again later, or the place was erased after
    the chat was read."""
