"""The tool loop: alternating requests to the model and tool calls."""

import anyio

from factmem.agent.context import AgentContext, AgentStep
from factmem.errors import FactmemError
from factmem.llm.base import ChatResponse, ToolCall
from factmem.models.clock import system_clock

__all__ = ["StepLimitError"]


_MOST_AT_ONCE = 16
"""The number of tool calls of one response that run at once: each may open a connection."""

_MOST_CALLS = 64
"""The number of tool calls of one response that run. A model may request thousands, and each of a
memory may call a model."""

_UNFINISHED = "Error: this call did not finish."
_TOO_MANY = f"Error: nothing was done. At most {_MOST_CALLS} calls of one response are run."


class StepLimitError(FactmemError):
    """The model called tools for the maximum number of steps.

    `messages` is the conversation so far, with a result for every tool call. Pass it to `run` to
    let the model continue.
    """

    def __init__(self, message: str, *, messages: list[dict[str, object]]) -> None:
        super().__init__(message)
        self.messages = messages


async def run_tool_loop(context: AgentContext, text: str) -> str:
    """Append the user's message to the conversation and return the model's answer.

    Makes one call to the model, and one more for each round of tool calls; at most
    `context.max_steps`. The calls of one round run concurrently. They are appended with their
    results when all have ended: a call never lacks a result. After an error or a cancellation, the
    result of an unfinished call is an error message. So is that of a call beyond the 64th of a
    response, which is not run.

    Raises:
        ChatModelError: The model's endpoint failed.
        StepLimitError: There was no answer after `max_steps` calls to the model.
        Exception: Raised by a tool; `Tool` describes which exceptions the model reads instead.
    """
    context.add_question(text)
    definitions = [tool.definition for tool in context.tools.values()]
    for number in range(1, context.max_steps + 1):
        started_at = system_clock()
        response = await context.chat_model.respond(context.messages, tools=definitions)
        context.usage += response.usage
        context.finish_reason = response.finish_reason
        results: tuple[str, ...] = ()
        if response.tool_calls:
            results = await _run_calls(context, response)
        else:
            context.messages.append(dict(response.message))
            context.answer = response.text or response.refusal or ""
        await context.end_step(AgentStep(number, response, results, started_at, system_clock()))
        if not response.tool_calls:
            return context.answer
    raise StepLimitError(
        f"The model called tools {context.max_steps} times and did not answer: allow more with "
        f"Agent(..., max_steps={context.max_steps * 2}), or check the results of the tools",
        messages=context.messages,
    )


async def _run_calls(context: AgentContext, response: ChatResponse) -> tuple[str, ...]:
    results: dict[int, str] = {}
    failures: list[Exception] = []

    at_once = anyio.CapacityLimiter(_MOST_AT_ONCE)

    async def run(position: int, call: ToolCall) -> None:
        try:
            async with at_once:
                results[position] = await _result(context, call)
        except Exception as exc:  # noqa: BLE001 - raised below, outside the exception group
            failures.append(exc)
            tasks.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as tasks:
            for position, call in enumerate(response.tool_calls):
                if position < _MOST_CALLS:
                    tasks.start_soon(run, position, call)
                else:
                    results[position] = _TOO_MANY
    finally:
        context.messages.append(dict(response.message))
        for position, call in enumerate(response.tool_calls):
            content = results.get(position, _UNFINISHED)
            context.messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
    if failures:
        for failure in failures[1:]:
            failures[0].add_note(f"Another tool failed as well: {type(failure).__name__}")
        raise failures[0]
    return tuple(results[position] for position in range(len(response.tool_calls)))


async def _result(context: AgentContext, call: ToolCall) -> str:
    tool = context.tools.get(call.name)
    if tool is None:
        offered = ", ".join(context.tools) or "none"
        return f"Error: there is no tool of that name. Tools: {offered}."
    return await tool.call(call.arguments, context)
