"""How a typed value is got out of a model: ask, read, and ask once more where it does not fit."""

from collections.abc import Sequence
from typing import Protocol

from typing_extensions import TypeVar

from factmem.errors import ChatModelError, ExtractionError
from factmem.llm._answer import AnswerType, Problem, Reading
from factmem.llm.base import ChatResponse, Extraction, Message
from factmem.usage import Usage

__all__ = ["Ask", "converse", "with_words"]

T = TypeVar("T")


class Ask(Protocol):
    """One call to a model that wants structured output; `problem` is what its last answer had."""

    async def __call__(
        self, messages: Sequence[Message], problem: Problem | None, /
    ) -> ChatResponse: ...


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
        raise ExtractionError(message, raw=response.text, usage=usage)
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
