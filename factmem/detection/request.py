"""DetectionRequest: the chat, places, concepts and options of one detection."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from factmem.models.facts import Concept
from factmem.models.places import Place
from factmem.prompt.transcript import Transcript

__all__ = ["DetectionRequest"]


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
