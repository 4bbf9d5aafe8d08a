"""Structured output with fallbacks: JSON schema, then JSON mode, then an instruction in words."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeAlias, get_args

from typing_extensions import TypeVar

from factmem.errors import ChatModelError
from factmem.llm._answer import AnswerType, Problem
from factmem.llm._api_errors import Concern
from factmem.llm._strict_schema import strict_schema
from factmem.llm.base import ChatResponse, Message
from factmem.llm.extraction import with_words
from factmem.usage import Usage

T = TypeVar("T")

Format: TypeAlias = Literal["json_schema", "json_object", "text"]

_FORMATS: tuple[Format, ...] = get_args(Format)
_IGNORED_OFTEN = 2


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
        self.format: Format = _FORMATS[0]
        self._ignored = 0

    def below(self, used: Format) -> Format | None:
        """Return the next format to try after `used` was rejected; None if there is none."""
        return None if used == _FORMATS[-1] else _FORMATS[_FORMATS.index(used) + 1]

    def descend(self, to: Format) -> None:
        """Use `to` as the first format from now on."""
        if _FORMATS.index(to) > _FORMATS.index(self.format):
            self.format = to

    def note_ignored(self, *, was_ignored: bool) -> None:
        """Count consecutive answers without any JSON, and descend to words after the second.

        An endpoint that ignores the response format returns such answers every time; any other
        endpoint does so only occasionally.
        """
        self._ignored = self._ignored + 1 if was_ignored else 0
        if self._ignored >= _IGNORED_OFTEN:
            self.descend("text")


class Asking(Generic[T]):
    """The calls of one extraction; uses the next format if the endpoint rejects one."""

    def __init__(self, ladder: Ladder, wanted: AnswerType[T], complete: Complete) -> None:
        self._ladder = ladder
        self._wanted = wanted
        self._complete = complete
        self._format: Format = ladder.format
        strict = strict_schema(wanted.schema)
        self._is_strict = strict is not None
        self._schema = wanted.schema if strict is None else strict
        self.was_ignored = False
        """Whether a request for JSON got an answer without any JSON."""

    async def __call__(self, messages: Sequence[Message], problem: Problem | None) -> ChatResponse:
        """Ask with the strictest format that the endpoint accepts.

        Raises:
            ChatModelError: The endpoint accepts no format, or failed for another reason.
        """
        if problem is not None and not problem.has_json:
            self.was_ignored = self._format != "text"
            self._format = "text"
        refused = Usage()
        is_schema_refused = False
        while True:
            outcome = await self._complete(self._messages(messages, problem), self._request())
            if isinstance(outcome, ChatResponse):
                break
            if not self._step_down(outcome.concern):
                outcome.error.usage += refused
                raise outcome.error from outcome.cause
            refused += Usage(calls=1)
            # Rejecting this schema does not mean that the endpoint rejects the next one.
            is_schema_refused = is_schema_refused or outcome.concern == "schema"
        if refused.calls and not is_schema_refused:
            self._ladder.descend(self._format)
        return replace(outcome, usage=refused + outcome.usage)

    def _step_down(self, concern: Concern) -> bool:
        if concern not in {"format", "schema"}:
            return False
        if concern == "schema" and self._format == "json_schema" and self._is_strict:
            self._is_strict = False
            return True
        below = self._ladder.below(self._format)
        self._format = below or self._format
        return below is not None

    def _messages(self, messages: Sequence[Message], problem: Problem | None) -> Sequence[Message]:
        """Append the instruction in words, unless the endpoint enforces the schema.

        After an answer that does not fit the words are always appended: the endpoint might not
        enforce the schema.
        """
        if self._format == "json_schema" and self._is_strict and problem is None:
            return messages
        return with_words(messages, self._wanted.instruction())

    def _request(self) -> dict[str, object]:
        if self._format == "text":
            return {}
        if self._format == "json_object":
            return {"response_format": {"type": "json_object"}}
        described = {
            "name": self._wanted.name,
            "schema": self._schema,
            "strict": self._is_strict,
        }
        return {"response_format": {"type": "json_schema", "json_schema": described}}
