"""Structured output for chat models that do not support it themselves."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from typing_extensions import TypeForm, TypeVar

from factmem.errors import ChatModelError, ExtractionError
from factmem.llm._answer import AnswerType, Problem, Reading
from factmem.llm.base import ChatResponse, Extraction, Message
from factmem.models._values import sendable
from factmem.usage import Usage

__all__ = ["extract_by_asking"]

T = TypeVar("T")


async def extract_by_asking(
    respond: Callable[[Sequence[Message]], Awaitable[ChatResponse]],
    messages: Sequence[Message],
    output_type: TypeForm[T],
) -> Extraction[T]:
    """Get a value of `output_type` from a model without structured output. One call, or two.

    The schema is appended to the messages and the answer is parsed leniently. If it does not fit,
    the model is asked once more, with the reasons. Use it to implement `ChatModel.extract`:

        async def extract(self, messages, output_type):
            return await extract_by_asking(self.respond, messages, output_type)

    Args:
        respond: A function like `ChatModel.respond`. Its exceptions propagate.
        messages: The conversation, oldest first; it is not changed.
        output_type: Any type that pydantic can validate and has a JSON schema for.

    Raises:
        ExtractionError: The model refused, or its answer was cut off or did not fit the type in two
            attempts; `raw` is its text.
        TypeError: There is no JSON schema for `output_type`.
    """
    wanted = AnswerType(output_type)

    async def ask(asked: Sequence[Message], _: Problem | None) -> ChatResponse:
        return await respond(with_words(asked, wanted.instruction()))

    return await converse(ask, messages, wanted)


Ask: TypeAlias = Callable[[Sequence[Message], Problem | None], Awaitable[ChatResponse]]
"""Sends messages; the problem is the reason why the last answer was rejected."""


async def converse(ask: Ask, messages: Sequence[Message], wanted: AnswerType[T]) -> Extraction[T]:
    """Ask and parse the answer; if it does not fit, ask once more with the reasons."""
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
        message = f"Asked twice, and {reading.summary}. Nothing was saved; `raw` is the answer."
        is_cut_off = reading.is_cut_off
        raise ExtractionError(message, raw=response.text, usage=usage, is_cut_off=is_cut_off)
    return Extraction(reading.value, response.text, usage)


def with_words(messages: Sequence[Message], words: str) -> list[Message]:
    """Return `messages` with `words` appended.

    They are appended to the last message if it is the user's: some chat templates reject a later
    system message and two user messages in a row.
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
    """Parse an answer; raise if it is a refusal or cut off, because asking again would not help."""
    if response.refusal:
        message = "The model refused to answer; `raw` is its answer. Nothing was saved."
        raise ExtractionError(message, raw=response.text or response.refusal, usage=usage)
    if response.finish_reason == "length":
        message = (
            "The answer was cut off at the model's output limit. Nothing was saved. Ask about "
            "fewer messages, or allow more output tokens."
        )
        raise ExtractionError(message, raw=response.text, usage=usage, is_cut_off=True)
    if response.finish_reason == "content_filter":
        message = "The endpoint's content filter blocked the answer. Nothing was saved."
        raise ExtractionError(message, raw=response.text, usage=usage)
    return wanted.read(response.text)


def _asked_again(
    messages: Sequence[Message], response: ChatResponse, problem: Problem
) -> list[Message]:
    # Half a surrogate pair cannot be sent back.
    answer = sendable(response.text)
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
