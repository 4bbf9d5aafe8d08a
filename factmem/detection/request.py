"""DetectionRequest: the chat, places, concepts and options of one detection."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from factmem.models.facts import Concept
from factmem.models.places import Identity, Place
from factmem.prompt.transcript import Transcript
from factmem.providers.learning import Moment

__all__ = ["DetectionRequest", "DoubtfulItems", "Verification"]


DoubtfulItems: TypeAlias = Literal["keep", "reject"]
"""What happens to items that are flagged as doubtful: they are saved, or rejected."""

Verification: TypeAlias = Literal["off", "doubtful", "all"]
"""Which new items a second call checks against their messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionRequest:
    """One request to find facts in a chat, independent of the model that answers it."""

    transcript: Transcript
    """The chat."""
    places: Sequence[Place]
    """The places where facts may be saved; no two share a subject name and a scope type."""
    declared: Sequence[Concept[Any, Any]] = ()
    """The concepts whose value types the application declared."""
    is_closed: bool = False
    """Whether facts about other concepts are ignored."""
    conversation: str | None = None
    """The name of the conversation, which becomes part of each fact's source."""
    dry_run: bool = False
    """Whether the result is only reported and nothing is written."""
    doubtful: DoubtfulItems = "keep"
    """Whether flagged items are saved or rejected."""
    verify: Verification = "off"
    """Which items a second call checks."""
    moments: Mapping[Identity, Moment] = field(default_factory=dict[Identity, Moment])
    """The moments of places before the chat was read; by default the start of the detection."""
