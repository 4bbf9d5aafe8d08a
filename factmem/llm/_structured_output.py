"""Structured output with fallbacks: JSON schema, then JSON mode, then an instruction in words."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Generic, TypeAlias

from typing_extensions import TypeVar

from factmem.errors import ChatModelError
from factmem.llm._answer import AnswerType, Problem
from factmem.llm._api_errors import Concern
from factmem.llm._strict_schema import strict_schema
from factmem.llm.base import ChatResponse, Message
from factmem.llm.extraction import with_words
from factmem.usage import Usage

T = TypeVar("T")

_IGNORED_OFTEN = 2


class Format(IntEnum):
    """The formats to request, the most binding first."""

    STRICT_SCHEMA = 0
    SCHEMA = 1
    JSON_OBJECT = 2
    TEXT = 3


@dataclass(frozen=True, slots=True)
class Failure:
    """The error of a failed call, not raised yet."""

    error: ChatModelError
    cause: BaseException | None
    """The error's cause; None if its text would quote the prompt."""
    concern: Concern = "other"


Complete: TypeAlias = Callable[
    [Sequence[Message], dict[str, object]], Awaitable[ChatResponse | Failure]
]
"""Makes one call with these messages and these fields of the request."""


class Ladder:
    """The best format that an endpoint is known to support.

    It only descends, so concurrent tasks cannot undo each other's result.
    """

    def __init__(self) -> None:
        self.format = Format.STRICT_SCHEMA
        self._ignored = 0

    def descend(self, to: Format) -> None:
        """Use `to` as the first format from now on."""
        self.format = max(self.format, to)

    def note_ignored(self, *, was_ignored: bool) -> None:
        """Count consecutive answers without any JSON, and descend to words after the second.

        An endpoint that ignores the response format returns such answers every time; any other
        endpoint does so only occasionally.
        """
        self._ignored = self._ignored + 1 if was_ignored else 0
        if self._ignored >= _IGNORED_OFTEN:
            self.descend(Format.TEXT)


class Asking(Generic[T]):
    """The calls of one extraction; uses the next format if the endpoint rejects one."""

    def __init__(self, ladder: Ladder, wanted: AnswerType[T], complete: Complete) -> None:
        self._ladder = ladder
        self._wanted = wanted
        self._complete = complete
        self._strict = strict_schema(wanted.schema)
        least = Format.STRICT_SCHEMA if self._strict is not None else Format.SCHEMA
        self._format = max(ladder.format, least)
        self.was_ignored = False
        """Whether a request for JSON got an answer without any JSON."""

    async def __call__(self, messages: Sequence[Message], problem: Problem | None) -> ChatResponse:
        """Ask with the strictest format that the endpoint accepts.

        Raises:
            ChatModelError: The endpoint accepts no format, or failed for another reason.
        """
        if problem is not None and not problem.has_json:
            self.was_ignored = self._format is not Format.TEXT
            self._format = Format.TEXT
        refused = Usage()
        is_schema_refused = False
        while True:
            outcome = await self._complete(self._messages(messages, problem), self._request())
            if isinstance(outcome, ChatResponse):
                break
            is_of_format = outcome.concern in {"format", "schema"}
            if not is_of_format or self._format is Format.TEXT:
                outcome.error.usage += refused
                raise outcome.error from outcome.cause
            refused += Usage(calls=1)
            # Rejecting this schema does not mean that the endpoint rejects the next one.
            is_schema_refused = is_schema_refused or outcome.concern == "schema"
            below = Format(self._format + 1)
            # A loose schema is another schema, and no other format.
            self._format = below if outcome.concern == "schema" else max(below, Format.JSON_OBJECT)
        if refused.calls and not is_schema_refused:
            self._ladder.descend(self._format)
        return replace(outcome, usage=refused + outcome.usage)

    def _messages(self, messages: Sequence[Message], problem: Problem | None) -> Sequence[Message]:
        """Append the instruction in words, unless the endpoint enforces the schema.

        After an answer that does not fit the words are always appended: the endpoint might not
        enforce the schema.
        """
        if self._format is Format.STRICT_SCHEMA and problem is None:
            return messages
        return with_words(messages, self._wanted.instruction())

    def _request(self) -> dict[str, object]:
        match self._format:
            case Format.TEXT:
                return {}
            case Format.JSON_OBJECT:
                return {"response_format": {"type": "json_object"}}
            case Format.STRICT_SCHEMA | Format.SCHEMA:
                is_strict = self._format is Format.STRICT_SCHEMA
                described = {
                    "name": self._wanted.name,
                    "schema": self._strict or self._wanted.schema,
                    "strict": is_strict,
                }
                return {"response_format": {"type": "json_schema", "json_schema": described}}
