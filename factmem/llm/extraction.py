"""Structured output from a model that has none: what a chat model of one's own can build on."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from typing_extensions import TypeForm, TypeVar

from factmem.errors import ChatModelError, ExtractionError
from factmem.llm.answer import AnswerType, Problem, Reading
from factmem.llm.base import ChatResponse, Extraction, Message
from factmem.usage import Usage

__all__ = ["Ask", "converse", "extract_by_asking", "with_words"]


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


class Ask(Protocol):
    """One call to a model that wants structured output; `problem` is what its last answer had."""

    async def __call__(
        self, messages: Sequence[Message], problem: Problem | None, /
    ) -> ChatResponse:
        """Send `messages` and return the model's response."""
        ...


async def converse(ask: Ask, messages: Sequence[Message], wanted: AnswerType[T]) -> Extraction[T]:
    """Ask, read, and ask once more with what was wrong."""
    response = await ask(messages, None)
    usage = response.usage
    reading = _read(response, wanted, usage)
    if isinstance(reading, Problem):
        try:
            response = await ask(_asked_again(messages, response, reading), reading)
        except ChatModelError as exc:
            exc.usage += usage
            raise
        usage += response.usage
        reading = _read(response, wanted, usage)
    if isinstance(reading, Problem):
        message = f"Asked twice, and {reading.summary}. Nothing was kept; `raw` is the answer."
        raise ExtractionError(message, raw=response.text, usage=usage)
    return Extraction(reading.value, response.text, usage)


def with_words(messages: Sequence[Message], words: str) -> list[Message]:
    """Return `messages` with `words` at their end.

    They join the last user message where there is one: some chat templates take neither a system
    message that is not the first nor two user messages in a row.
    """
    if not messages or messages[-1].get("role") != "user":
        return [*messages, {"role": "user", "content": words}]
    *before, last = messages
    content = last.get("content")
    if isinstance(content, str):
        return [*before, {**last, "content": f"{content}\n\n{words}"}]
    parts: list[object] = list(content) if isinstance(content, list | tuple) else []
    return [*before, {**last, "content": [*parts, {"type": "text", "text": words}]}]


def _read(response: ChatResponse, wanted: AnswerType[T], usage: Usage) -> Reading[T] | Problem:
    """Read an answer that is whole; asking again would bring no more than this one.

    `usage` is what was spent until then.
    """
    if response.refusal:
        message = "The model refused to answer; `raw` is what it said. Nothing was kept."
        raise ExtractionError(message, raw=response.text or response.refusal, usage=usage)
    if response.finish_reason == "length":
        message = (
            "The answer was cut off at the model's output limit. Nothing was kept. Ask about "
            "fewer messages, or allow more output tokens."
        )
        raise ExtractionError(message, raw=response.text, usage=usage, is_cut_off=True)
    if response.finish_reason == "content_filter":
        message = "The endpoint's content filter held the answer back. Nothing was kept."
        raise ExtractionError(message, raw=response.text, usage=usage)
    return wanted.read(response.text)


def _asked_again(
    messages: Sequence[Message], response: ChatResponse, problem: Problem
) -> list[Message]:
    # Half a surrogate pair cannot be sent back.
    answer = response.text.encode("utf-8", "replace").decode()
    correction = (
        "That answer cannot be used:\n"
        f"{problem.details}\n"
        "Give the whole answer again with that put right, as JSON only."
    )
    if not answer.strip():
        return with_words(messages, correction)
    return [
        *messages,
        {"role": "assistant", "content": answer},
        {"role": "user", "content": correction},
    ]
