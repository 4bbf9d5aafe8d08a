"""Detection reports: the saved, retracted, confirmed, flagged and rejected items.

Detection has the options of an application, and DetectionRequest is one run over a chat.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from pydantic import JsonValue

from factmem._arguments import expect
from factmem.errors import InputValueError
from factmem.ledger.resolution import PlacedFact
from factmem.models._display import Displayed
from factmem.models.facts import AnyConcept, Concept, FactSource, SourceKind, concepts_by_keyword
from factmem.models.places import Identity, Place
from factmem.models.profile import Concepts
from factmem.models.when import zone_named
from factmem.providers.results import Moment
from factmem.usage import Usage

if TYPE_CHECKING:
    from factmem.prompt._transcript import Transcript

__all__ = ["Detection", "DetectionReport", "RejectionReason"]


class Doubt(StrEnum):
    """The reason why a value is marked, or only proposed: its quote may not prove it."""

    NEAR = "near quote"
    """The quote differs from the message, whose nearest words were stored. The value is stored and
    marked; for all other reasons it is only a proposal."""
    VALUE = "value"
    """The value shares no word or number with the quote; an instruction must be in its quote."""
    NUMBER = "number"
    """No number of the value follows from the numbers of the quote, whatever its type."""
    CUT = "cut quote"
    """The quote is inexact, and leaves out words of its clause ("My dog is" allergic to nuts)."""
    NEGATION = "negation"
    """The quote ends just before or begins just after a negation; or it has one that the value
    lacks, and the model does not say that this is meant."""
    QUESTION = "question"
    """The quote is part of a question."""
    QUOTATION = "quotation"
    """The value is in quotation marks and no title; in code, a table, a reply or a mail; or behind
    words that introduce a text: "Translate: ...", "He wrote: ..."."""
    SPEAKER = "speaker"
    """The line begins like the words of another speaker ("Sam: I live in Rome")."""
    PASTED = "pasted"
    """It is an instruction, and its words may be from pasted text."""
    MODEL = "model"
    """The model says that it is not stated about the subject, or the verifying call says so."""


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
    """The value looks like a password, a key or a card number, and no declared concept is for
    it."""
    UNKNOWN_MESSAGE = "unknown message"
    """No message has that number."""
    UNTRUSTED_MESSAGE = "untrusted message"
    """The message must not be cited."""
    QUOTE_NOT_FOUND = "quote not found"
    """The message does not contain the quote."""
    WEAK_QUOTE = "weak quote"
    """The quote is in the message but proves nothing: it is too short, or ends nothing that the
    item retracts."""
    NOT_STORED = "not stored"
    """The value to retract is not current."""
    UNSUPPORTED = "unsupported"
    """The provider cannot do it."""
    DUPLICATE = "duplicate"
    """Another item states the same."""
    SUPERSEDED = "superseded"
    """Another item, about a later message, overrules it."""
    PASTED = "pasted"
    """It is an instruction, and its words may be from pasted text; see
    `DetectionReport.proposed`."""
    LEARNT = "learnt"
    """The statement was learnt before; nothing changes."""
    NOT_CONFIRMED = "not confirmed"
    """The verifying call found that it does not follow from its message."""
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
    is_proposed: bool = False
    """Whether a person has to decide, as its quote does not prove it."""


@dataclass(frozen=True, slots=True)
class DoubtfulItem:
    """An item that is marked or only proposed, as its quote may not prove its value."""

    position: int
    """Its position in the answer, from 0."""
    doubts: tuple[Doubt, ...]
    place: Place
    concept: Concept[Any, Any]
    value: Any = field(repr=False)
    is_retraction: bool = False
    is_kept: bool = True
    """Whether it was stored or retracted, and only marked; a proposal is not kept."""


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
    """Facts that a later statement overrules, in this chat or in one read earlier. Only the history
    has them."""
    doubtful: list[DoubtfulItem] = field(default_factory=list[DoubtfulItem])
    """Items that are marked or proposed, each with the reasons."""
    joined: list[JoinedKeyword] = field(default_factory=list[JoinedKeyword])
    """Made-up keywords whose values were saved under another one."""
    erased: list[PlacedFact] = field(default_factory=list[PlacedFact])
    """Facts that were not saved, as their place was erased after the chat was read."""
    refused: list[Retraction] = field(default_factory=list[Retraction])
    """Retractions that changed nothing: the value was said again later, a person confirmed it, or
    the place was erased after the chat was read."""
    proposed: list[PlacedFact] = field(default_factory=list[PlacedFact])
    """Facts that wait for a decision: they contradict what a person confirmed, their concept asks
    for review, or their quote does not prove them (see `doubtful`). They are stored as proposals;
    see `AgentMemory.review`. Instructions that may be pasted are not stored: save one if the user
    confirms it."""
    others: tuple[str, ...] = ()
    """The names in the chat whose words did not count: they are no subject's. If they should be,
    say whose they are: `Detection(speaker={"Sam Lee": "u1"})`."""
    unknown_roles: tuple[str, ...] = ()
    """Roles whose messages were not read; known are user, assistant, tool, function, system and
    developer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """How facts are detected, for a memory, an installation, runs or a single call.

        memory = AgentMemory(store, chat_model=model, detection=Detection(verify="new"))

    Raises:
        TypeError: A field has the wrong type.
        ValueError: A word or time zone is unknown, two concepts have the same keyword, or `trust`
            contains a kind that no message has.
    """

    only: Concepts | None = None
    """Look only for these concepts; None for all."""
    trust: Iterable[SourceKind] = ()
    """Writers to trust besides the user: `SourceKind.ASSISTANT`, `SourceKind.TOOL`."""
    speaker: str | Mapping[str, str] | None = None
    """The `name` of the user who may be cited; or a mapping of names, mail addresses and ids of
    messages to entities: `{"Sam Lee": "u1"}`. By default the entity of a subject is its name."""
    verify: Literal["new"] | None = None
    """"new" lets a second call check the new values of an answer: it keeps, proposes or drops each.
    One call for 40 values; about 400 tokens with its schema, the cited messages, and 50 a value."""
    zone: tzinfo | str | None = None
    """The time zone of messages whose times have none, such as "Asia/Seoul", for "yesterday". By
    default that of the memory's `MessageForm`."""

    def __post_init__(self) -> None:
        if self.only is not None:
            object.__setattr__(self, "only", tuple(concepts_by_keyword(self.only, "only").values()))
        trusted: set[SourceKind] = set()
        if self.trust != ():
            from factmem.prompt._transcript import checked_trust  # few programs trust others

            trusted = checked_trust(self.trust)
        object.__setattr__(self, "trust", frozenset(trusted))
        example = "speaker='alice', or speaker={'Alice Lee': 'alice'}"
        if isinstance(self.speaker, Mapping):
            for each in (*self.speaker.keys(), *self.speaker.values()):
                expect(each, str, "name in speaker", example)
            object.__setattr__(self, "speaker", dict(self.speaker))
        elif self.speaker is not None:
            expect(self.speaker, str, "speaker", example)
        if isinstance(self.zone, str):
            object.__setattr__(self, "zone", zone_named(self.zone))
        elif self.zone is not None:
            expect(self.zone, tzinfo, "zone", "zone='Asia/Seoul'")
        if self.verify is not None and expect(self.verify, str, "verify", "verify='new'") != "new":
            raise InputValueError("verify must be 'new', or None")


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionRequest:
    """One request to find facts in a chat, independent of the model that answers it."""

    transcript: "Transcript"
    """The chat."""
    places: Sequence[Place]
    """The places where facts may be saved; no two share a subject name and a scope type."""
    declared: Sequence[AnyConcept] = ()
    """The concepts that the application declared, with value types."""
    is_closed: bool = False
    """Whether facts about other concepts are ignored."""
    followed: frozenset[str] = frozenset()
    """The keywords of instructions, which must be in the user's own words."""
    conversation: str | None = None
    """The name of the conversation, which becomes part of each fact's source."""
    is_about_user: bool = True
    """Whether only what users say about the subjects is a fact."""
    dry_run: bool = False
    """Whether the result is only reported and nothing is written."""
    is_verified: bool = False
    """Whether a second call checks the new values."""
    moments: Mapping[Identity, Moment] = field(default_factory=dict[Identity, Moment])
    """The moments of places before the chat was read; by default the start of the detection."""
