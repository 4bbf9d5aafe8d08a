"""Structured output from a model that has none: what a chat model of one's own can build on."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from typing_extensions import TypeForm, TypeVar

from factmem.llm._answer import AnswerType, Problem
from factmem.llm._conversation import converse, with_words
from factmem.llm.base import ChatResponse, Extraction, Message

__all__ = ["extract_by_asking"]

T = TypeVar("T")

Respond: TypeAlias = Callable[[Sequence[Message]], Awaitable[ChatResponse]]


async def extract_by_asking(
    respond: Respond, messages: Sequence[Message], output_type: TypeForm[T]
) -> Extraction[T]:
    """Get a value of `output_type` from a model that can only talk. One call, or two.

    The schema is put into words at the end of the messages, the answer is read tolerantly, and
    what does not fit is asked for once more, with the reasons. That makes `ChatModel.extract` out
    of `respond`:

        async def extract(self, messages, output_type):
            return await extract_by_asking(self.respond, messages, output_type)

    Args:
        respond: Answers messages, as `ChatModel.respond` does. What it raises is passed on.
        messages: The conversation, oldest first; it is not changed.
        output_type: Anything that pydantic can validate and write a JSON schema for.

    Raises:
        ExtractionError: The answer was refused, cut off, or does not fit the type, not even the
            second time; `raw` is its text.
        TypeError: There is no JSON schema for `output_type`.
    """
    wanted = AnswerType(output_type)

    async def ask(asked: Sequence[Message], _: Problem | None) -> ChatResponse:
        return await respond(with_words(asked, wanted.instruction()))

    return await converse(ask, messages, wanted)
