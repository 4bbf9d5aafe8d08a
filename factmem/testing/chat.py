"""ScriptedChatModel: a chat model with prepared answers, for tests and demonstrations."""

import copy
from collections.abc import Callable, Sequence

import anyio.lowlevel
from pydantic_core import to_json
from typing_extensions import TypeForm, TypeIs, TypeVar

from factmem.llm.base import ChatResponse, Extraction, Message, ToolDefinition
from factmem.llm.extraction import AnswerType, Problem, converse
from factmem.usage import Usage

__all__ = ["ScriptedChatModel"]

T = TypeVar("T")


class ScriptedChatModel:
    """A `ChatModel` that returns prepared answers in order, one for each call.

        model = ScriptedChatModel("Hello, Alice.", {"items": []}, ChatModelError("down"))

    An answer is one of these:

    - a string: the model's words. `extract` parses it exactly as `OpenAIChatModel` does: if it does
      not fit, the model is asked once more, which takes the next answer.
    - a `ChatResponse`: the whole response, with tool calls, refusal and finish reason;
    - an exception: it is raised;
    - any other object: the extracted value, as an instance of the type or as plain data;
    - a function of the messages that returns any of these.

    Everything is in memory and deterministic; no call takes time. Concurrent tasks get the answers
    in the order of their calls. Usage counts words instead of tokens.
    """

    def __init__(self, *answers: object) -> None:
        self._answers = answers
        self.calls: list[list[Message]] = []
        """A copy of the messages of each call; asking again is another call."""
        self.tools: list[list[ToolDefinition]] = []
        """The tools of each call."""
        self.usage: Usage = Usage()
        """The sum over all calls so far."""

    @property
    def remaining(self) -> int:
        """The number of unused answers."""
        return max(len(self._answers) - len(self.calls), 0)

    async def respond(
        self, messages: Sequence[Message], *, tools: Sequence[ToolDefinition] = ()
    ) -> ChatResponse:
        """See `ChatModel.respond`.

        Raises:
            AssertionError: No answers are left.
        """
        return await self._next(messages, tools)

    async def extract(self, messages: Sequence[Message], output_type: TypeForm[T]) -> Extraction[T]:
        """See `ChatModel.extract`.

        Raises:
            AssertionError: No answers are left.
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
