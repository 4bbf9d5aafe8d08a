"""Rejected items: the reasons, and the report entries that carry them."""

from dataclasses import dataclass, field
from enum import StrEnum

from pydantic import JsonValue

__all__ = ["Refusal", "RejectedItem", "RejectionReason"]


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
    """The quote is in the message and proves nothing: it is too short, ends nothing that the item
    retracts, or stands for more values than it has words."""
    NOT_STORED = "not stored"
    """The value to retract is not current."""
    UNSUPPORTED = "unsupported"
    """The provider cannot do it."""
    DUPLICATE = "duplicate"
    """Another item states the same."""
    SUPERSEDED = "superseded"
    """Another item, about a later message, overrules it."""
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
