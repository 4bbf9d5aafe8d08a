"""Asking a model, and running what it asks for, until it answers."""

from collections.abc import Mapping

import anyio

from factmem.agent.context import AgentContext, AgentTool
from factmem.errors import FactmemError
from factmem.llm.base import ChatResponse, ToolCall

__all__ = ["StepLimitError", "answered"]


_UNFINISHED = "Error: this call did not finish."


class StepLimitError(FactmemError):
    """The model went on calling tools for as many steps as it is allowed.

    `messages` is the conversation up to then, every tool call with its result: run the agent with
    it to let the model go on.
    """

    def __init__(self, message: str, *, messages: list[dict[str, object]]) -> None:
        super().__init__(message)
        self.messages = messages


async def answered(context: AgentContext, text: str, *, allow_tool_calls: bool = True) -> str:
    """Append a user's text to the conversation, and return the model's answer to it.

    One call to the model, and one more for each round of tool calls; `context.max_steps` at most.
    The calls of one round run at once. They join the conversation together with their results when
    all have ended, so that no call ever stands there without its result; after an error or a
    cancellation the results of those that did not end say so.

    Args:
        context: The run; its `messages` go on.
        text: What the user says.
        allow_tool_calls: Whether tools are offered.

    Raises:
        ChatModelError: The model's endpoint failed.
        StepLimitError: There was no answer after `max_steps` calls to the model.
        Exception: What a tool raised; see `factmem.agent.tools.Tool` for what is told to the model.
    """
    context.add_question(text)
    tools = context.tools if allow_tool_calls else {}
    definitions = [tool.definition for tool in tools.values()]
    for _ in range(context.max_steps):
        response = await context.chat_model.respond(context.messages, tools=definitions)
        context.usage += response.usage
        context.finish_reason = response.finish_reason
        if not response.tool_calls:
            context.messages.append(dict(response.message))
            context.answer = response.text or response.refusal or ""
            return context.answer
        await _run_calls(context, response, tools)
    raise StepLimitError(
        f"The model called tools {context.max_steps} times and did not answer: allow more, as in "
        f"Agent(..., max_steps={context.max_steps * 2}), or look into what the tools tell it",
        messages=context.messages,
    )


async def _run_calls(
    context: AgentContext, response: ChatResponse, tools: Mapping[str, AgentTool]
) -> None:
    results: dict[int, str] = {}
    failures: list[Exception] = []

    async def run(position: int, call: ToolCall) -> None:
        try:
            results[position] = await _result(context, call, tools)
        except Exception as exc:  # noqa: BLE001 - raised below, without the group around it
            failures.append(exc)
            tasks.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as tasks:
            for position, call in enumerate(response.tool_calls):
                tasks.start_soon(run, position, call)
    finally:
        context.messages.append(dict(response.message))
        for position, call in enumerate(response.tool_calls):
            content = results.get(position, _UNFINISHED)
            context.messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
    if failures:
        for failure in failures[1:]:
            failures[0].add_note(f"Another tool failed as well: {type(failure).__name__}")
        raise failures[0]


async def _result(context: AgentContext, call: ToolCall, tools: Mapping[str, AgentTool]) -> str:
    tool = tools.get(call.name)
    if tool is None:
        offered = ", ".join(tools) or "none"
        return f"Error: there is no tool of that name. Tools: {offered}."
    return await tool.call(call.arguments, context)
