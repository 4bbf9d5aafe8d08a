"""Sources of facts: a message, a tool, a document, the application."""

from dataclasses import dataclass
from enum import StrEnum

from factmem._arguments import expect_all, expect_member, expect_within
from factmem.models._names import checked_text

__all__ = ["FactSource", "SourceKind"]

MAX_BEFORE = 500
"""The largest length of `FactSource.before`, in characters."""


class SourceKind(StrEnum):
    """The kinds of sources."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    DOCUMENT = "document"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class FactSource:
    """The source of a fact. `why()` returns it, and facts can be deleted by their source.

    Raises:
        ValueError: `kind` is unknown, `message` is negative, or `before` is too long.
        TypeError: A field has the wrong type.
    """

    kind: SourceKind
    conversation: str | None = None
    """The application's name for the conversation or document."""
    message: int | None = None
    """The index of the message in its conversation, from 0."""
    quote: str | None = None
    """The words that state the fact."""
    model: str | None = None
    """The model that extracted the fact."""
    before: str | None = None
    """The end of the message before the one that states the fact, at most 500 characters. It lets a
    search find the answer "By ferry" by the words of its question. No model reads it."""
    doubts: tuple[str, ...] = ()
    """Why a detected value may not follow from the quote; the values of `Doubt`."""

    def __post_init__(self) -> None:
        if type(self.kind) is not SourceKind:
            kind = expect_member(self.kind, SourceKind, "kind")
            object.__setattr__(self, "kind", kind)
        if self.message is not None:
            example = "FactSource(SourceKind.USER, message=0)"
            expect_within(self.message, int, "message", example, least=0)
        for name in ("conversation", "quote", "model", "before"):
            if (text := getattr(self, name)) is not None:
                checked_text(text, name)
        if self.doubts:
            doubts = expect_all(self.doubts, str, "doubts", "doubts=['hedge']")
            object.__setattr__(self, "doubts", tuple(map(str, doubts)))
        if self.before is not None and len(self.before) > MAX_BEFORE:
            raise ValueError(
                f"before has {len(self.before)} characters: at most {MAX_BEFORE} are allowed, "
                f"before=text[-{MAX_BEFORE}:]"
            )

    def covers(self, other: "FactSource") -> bool:
        """Return whether each field of this source is empty or equal to the one of `other`."""
        return all(
            getattr(self, name) in (None, (), getattr(other, name)) for name in self.__slots__
        )
