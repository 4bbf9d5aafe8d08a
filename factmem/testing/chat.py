"""A chat model that says what a test or a demonstration tells it to."""

import copy
from collections.abc import Callable, Sequence

import anyio.lowlevel
from pydantic_core import to_json
from typing_extensions import TypeForm, TypeIs, TypeVar

from factmem.llm.answer import AnswerType, Problem
from factmem.llm.base import ChatResponse, Extraction, Message, ToolDefinition
from factmem.llm.extraction import converse
from factmem.usage import Usage

__all__ = ["ScriptedChatModel"]


T = TypeVar("T")


class ScriptedChatModel:
    """A `ChatModel` that gives the answers it was made with, in order, one for each call.

        model = ScriptedChatModel("Hello, Alice.", {"items": []}, ChatModelError("down"))

    An answer is one of these:

    - a text: what the model says. `extract` reads it as tolerantly as `OpenAIChatModel` does, and
      as strictly: one that does not fit is asked for once more, which takes the next answer.
    - a `ChatResponse`: the whole of it, calls of tools, refusal and finish reason included;
    - an exception: it is raised;
    - any other object: what is to be extracted, as an instance of the type or as plain data;
    - a function of the messages that returns any of these.

    Everything is in memory and deterministic; no call takes time. Tasks that call at once get the
    answers in the order in which they call. Usage counts words instead of tokens.
    """

    def __init__(self, *answers: object) -> None:
        self._answers = answers
        self.calls: list[list[Message]] = []
        """The messages of each call, as they were then; a question asked again is a call."""
        self.tools: list[list[ToolDefinition]] = []
        """The tools that each call offered."""
        self.usage: Usage = Usage()
        """The sum over all calls so far."""

    @property
    def remaining(self) -> int:
        """How many answers have not been asked for yet."""
        return max(len(self._answers) - len(self.calls), 0)

    async def respond(
        self, messages: Sequence[Message], *, tools: Sequence[ToolDefinition] = ()
    ) -> ChatResponse:
        """See `ChatModel.respond`.

        Raises:
            AssertionError: There are no answers left.
        """
        return await self._next(messages, tools)

    async def extract(self, messages: Sequence[Message], output_type: TypeForm[T]) -> Extraction[T]:
        """See `ChatModel.extract`.

        Raises:
            AssertionError: There are no answers left.
        """

        async def ask(asked: Sequence[Message], problem: Problem | None) -> ChatResponse:
            return await self._next(asked, (), problem)

        return await converse(ask, messages, AnswerType(output_type))

    async def _next(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolDefinition],
        problem: Problem | None = None,
    ) -> ChatResponse:
        await anyio.lowlevel.checkpoint()
        number = len(self.calls)
        self.calls.append(copy.deepcopy(list(messages)))
        self.tools.append(copy.deepcopy(list(tools)))
        if number >= len(self._answers):
            raise AssertionError(self._exhausted(problem))
        answer = self._answers[number]
        response = _response(answer(messages) if _is_function(answer) else answer, messages)
        self.usage += response.usage
        return response

    def _exhausted(self, problem: Problem | None) -> str:
        message = (
            f"ScriptedChatModel was called {len(self.calls)} times and has "
            f"{len(self._answers)} answers: give it one for each call"
        )
        if problem is not None:
            message += f" (the last call asked again, since {problem.summary})"
        return message


def _is_function(answer: object) -> TypeIs[Callable[[Sequence[Message]], object]]:
    return callable(answer) and not isinstance(answer, type)


def _response(answer: object, messages: Sequence[Message]) -> ChatResponse:
    if isinstance(answer, BaseException):
        raise answer
    if isinstance(answer, ChatResponse):
        return answer
    text = answer if isinstance(answer, str) else to_json(answer).decode()
    usage = Usage(sum(map(_words, messages)), len(text.split()), calls=1)
    return ChatResponse(text, finish_reason="stop", usage=usage)


def _words(message: Message) -> int:
    return len(str(message.get("content") or "").split())
