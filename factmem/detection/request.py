"""Detection, the options of an application, and DetectionRequest, one run over a chat."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from factmem._arguments import expect
from factmem.models._checked import concepts_by_keyword
from factmem.models.facts import AnyConcept
from factmem.models.places import Identity, Place
from factmem.models.profile import Concepts
from factmem.models.sources import SourceKind
from factmem.prompt._transcript import Transcript, checked_trust
from factmem.providers.results import Moment

__all__ = ["Detection"]


DoubtfulItems: TypeAlias = Literal["keep", "verify", "reject"]
"""What happens to flagged items: they are saved, checked by a second call, or rejected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """How facts are detected, for a memory, an installation, runs or a single call.

        memory = AgentMemory(store, chat_model=model, detection=Detection(doubtful="verify"))

    Raises:
        TypeError: A field has the wrong type.
        ValueError: A word is unknown, two concepts have the same keyword, or `trust` contains a
            kind that no message has.
    """

    only: Concepts | None = None
    """Look only for these concepts; None for all."""
    trust: Iterable[SourceKind] = ()
    """Writers to trust besides the user: `SourceKind.ASSISTANT`, `SourceKind.TOOL`."""
    speaker: str | None = None
    """The `name` of the user who may be cited; by default the entity of a subject."""
    doubtful: DoubtfulItems = "keep"
    """What happens to items that are flagged in `report.doubtful`. "verify" makes a second call:
    about 250 tokens, the messages, and 40 tokens for each flagged item."""

    def __post_init__(self) -> None:
        if self.only is not None:
            object.__setattr__(self, "only", tuple(concepts_by_keyword(self.only, "only").values()))
        object.__setattr__(self, "trust", frozenset(checked_trust(self.trust)))
        if self.speaker is not None:
            expect(self.speaker, str, "speaker", "speaker='alice'")
        words = get_args(DoubtfulItems)
        if expect(self.doubtful, str, "doubtful", "doubtful='verify'") not in words:
            raise ValueError(f"doubtful must be one of {', '.join(map(repr, words))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionRequest:
    """One request to find facts in a chat, independent of the model that answers it."""

    transcript: Transcript
    """The chat."""
    places: Sequence[Place]
    """The places where facts may be saved; no two share a subject name and a scope type."""
    declared: Sequence[AnyConcept] = ()
    """The concepts whose value types the application declared."""
    is_closed: bool = False
    """Whether facts about other concepts are ignored."""
    followed: frozenset[str] = frozenset()
    """The keywords of instructions, which must stand in the user's own prose."""
    conversation: str | None = None
    """The name of the conversation, which becomes part of each fact's source."""
    dry_run: bool = False
    """Whether the result is only reported and nothing is written."""
    doubtful: DoubtfulItems = "keep"
    """What happens to flagged items."""
    is_again: bool = False
    """Whether an earlier detection of the same messages may have saved facts: they are not saved
    twice. It costs a reading of the history."""
    moments: Mapping[Identity, Moment] = field(default_factory=dict[Identity, Moment])
    """The moments of places before the chat was read; by default the start of the detection."""
