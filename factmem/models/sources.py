"""Where a fact comes from: a message, a tool, a document, the application."""

from dataclasses import dataclass
from enum import StrEnum

from factmem._arguments import (
    checked_member,
)
from factmem.models.names import (
    checked_text,
)

__all__ = ["FactSource", "SourceKind"]


class SourceKind(StrEnum):
    """Who or what said it."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    DOCUMENT = "document"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class FactSource:
    """Where a fact comes from: what `why()` shows and what forgetting by source goes by.

    Raises:
        ValueError: There is no such kind, or `message` is no index from 0 on.
        TypeError: A field is of the wrong kind.
    """

    kind: SourceKind
    conversation: str | None = None
    """The application's name for the conversation or document."""
    message: int | None = None
    """The index of the message in its conversation, from 0."""
    quote: str | None = None
    """The words that say so."""
    model: str | None = None
    """The model that extracted the fact."""

    def __post_init__(self) -> None:
        if type(self.kind) is not SourceKind:
            kind = checked_member(SourceKind, self.kind, "The kind of a source")
            object.__setattr__(self, "kind", kind)
        if self.message is not None and (type(self.message) is not int or self.message < 0):
            raise ValueError("A source's message is an index from 0 on")
        for name in ("conversation", "quote", "model"):
            if (text := getattr(self, name)) is not None:
                checked_text(text, name)

    def covers(self, other: "FactSource") -> bool:
        """Whether `other` agrees with everything that this source states."""
        return all(getattr(self, name) in (None, getattr(other, name)) for name in self.__slots__)
