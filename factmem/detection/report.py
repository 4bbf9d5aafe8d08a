"""Detection reports: the saved, retracted, confirmed, flagged and rejected items.

Detection, the options of an application, and DetectionRequest, one run over a chat.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, TypeAlias, get_args

from pydantic import JsonValue

from factmem._arguments import expect
from factmem.ledger.resolution import PlacedFact
from factmem.models._checked import concepts_by_keyword
from factmem.models._display import Displayed
from factmem.models.facts import AnyConcept, Concept, FactSource, SourceKind
from factmem.models.places import Identity, Place
from factmem.models.profile import Concepts
from factmem.prompt._transcript import Transcript, checked_trust
from factmem.providers.results import Moment
from factmem.usage import Usage

__all__ = ["Detection", "DetectionReport", "RejectionReason"]


class Doubt(StrEnum):
    """A sign that a value does not follow from the message that is cited for it."""

    NUMBER = "number"
    """The value has a number or date that is not in the chat and cannot be counted from it."""
    YEAR = "year"
    """The value has a date in another year than the quote."""
    WORDS = "words"
    """No word of the value is in the cited message or in those around it."""
    NEGATION = "negation"
    """The quote stops just before or after a negation, or its negation is not in the value."""
    CONDITION = "condition"
    """The statement depends on a condition ("if I get the job")."""
    HEDGE = "hedge"
    """The writer is not sure, or only wishes it, or it is over, and the value does not say so."""
    PERSON = "person"
    """The subject of the quote is another person, whom the item does not name."""
    QUOTATION = "quotation"
    """The quote is inside quotation marks, a quoted block or mail, or reports what another said."""
    QUESTION = "question"
    """The quote is part of a question to the assistant ("Am I a vegetarian?")."""
    JOKE = "joke"
    """The message, or the beginning of the next one, says that it is a joke."""


class RejectionReason(StrEnum):
    """The reason why an item of a model's answer was rejected."""

    MALFORMED = "malformed"
    """It is not an object, or lacks a required field."""
    UNKNOWN_ACTION = "unknown action"
    UNKNOWN_SUBJECT = "unknown subject"
    UNKNOWN_SCOPE = "unknown scope"
    UNKNOWN_CONCEPT = "unknown concept"
    """The request is limited to other concepts."""
    NOT_DETECTED = "not detected"
    """The application owns the concept: it was declared with `detect=False`."""
    INVALID_KEYWORD = "invalid keyword"
    INVALID_VALUE = "invalid value"
    """The value does not fit the concept's type, is empty, or too long."""
    SECRET = "secret"  # noqa: S105 - the name of a reason
    """The value looks like a password, a key or a card number, and no declared concept asks for it."""
    UNKNOWN_MESSAGE = "unknown message"
    """No message has that number."""
    UNTRUSTED_MESSAGE = "untrusted message"
    """The message must not be cited."""
    QUOTE_NOT_FOUND = "quote not found"
    """The message does not contain the quote."""
    WEAK_QUOTE = "weak quote"
    """The quote is in the message and proves nothing: it is too short, or ends nothing that the item
    retracts."""
    NOT_STORED = "not stored"
    """The value to retract is not current."""
    UNSUPPORTED = "unsupported"
    """The provider cannot do it."""
    DUPLICATE = "duplicate"
    """Another item states the same."""
    SUPERSEDED = "superseded"
    """Another item, about a later message, overrules it."""
    PASTED = "pasted"
    """It is an instruction, and its words may be from pasted text; see `DetectionReport.proposed`."""
    DOUBTFUL = "doubtful"
    """It is flagged, and the call asked to reject what is flagged."""
    NOT_CONFIRMED = "not confirmed"
    """The verification call found that it does not follow from its message."""
    TOO_MANY = "too many"
    """The answer has more items than are read."""


@dataclass(frozen=True, slots=True)
class RejectedItem:
    """An item of a model's answer that was rejected."""

    position: int
    """Its position in the answer, from 0."""
    reason: RejectionReason
    detail: str
    """The problem, without a word of the model."""
    item: JsonValue = field(repr=False)
    """The item as the model gave it. It is untrusted text."""


class Refusal(Exception):  # noqa: N818 - not an error: it ends the reading of one item
    """An item is rejected."""

    def __init__(self, reason: RejectionReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Retraction:
    """A value that is no longer true."""

    place: Place
    concept: Concept[Any, Any]
    value: Any = field(repr=False)
    said_at: datetime
    """When that was said."""
    source: FactSource | None = None
    """Where it was said."""


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
    """Whether it was stored or retracted all the same; not with `Detection(doubtful="reject")`."""


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

    saved: list[PlacedFact] = field(default_factory=list[PlacedFact])
    """New facts, each with its source."""
    retracted: list[Retraction] = field(default_factory=list[Retraction])
    """Values that are no longer current."""
    confirmed: list[PlacedFact] = field(default_factory=list[PlacedFact])
    """Current facts that were said again."""
    rejected: list[RejectedItem] = field(default_factory=list[RejectedItem])
    """Items of the model's answer that were rejected, each with the reason."""
    usage: Usage = field(default_factory=Usage)
    """The tokens and calls of all model calls, verification included."""
    is_dry_run: bool = False
    superseded: list[PlacedFact] = field(default_factory=list[PlacedFact])
    """Facts that something said later overrules, in this chat or in one that was read earlier. They
    are recorded in the history only."""
    doubtful: list[DoubtfulItem] = field(default_factory=list[DoubtfulItem])
    """Items that are flagged: saved, or rejected with `Detection(doubtful="reject")`."""
    joined: list[JoinedKeyword] = field(default_factory=list[JoinedKeyword])
    """Made-up keywords whose values were saved under another one."""
    erased: list[PlacedFact] = field(default_factory=list[PlacedFact])
    """Facts that were not saved, as their place was erased after the chat was read."""
    refused: list[Retraction] = field(default_factory=list[Retraction])
    """Retractions that changed nothing: the value was said again later, a person confirmed it, or the
    place was erased after the chat was read."""
    proposed: list[PlacedFact] = field(default_factory=list[PlacedFact])
    """Facts that wait for a decision: they contradict what a person confirmed, or their concept asks
    for review. They are stored as proposals; see `AgentMemory.review`. Also instructions that may be
    pasted, which are not stored: save one if the user confirms it."""


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
