"""Middleware for LangChain agents and deep agents.

    middleware = FactmemMiddleware(memory, user=lambda runtime: runtime.context.user)
    agent = create_agent(model, middleware=[middleware], context_schema=Context)

It needs the extra `langchain`.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain.tools import ToolRuntime
from langchain_core.messages import (
    AnyMessage,
    HumanMessage,
    SystemMessage,
    convert_to_messages,
    convert_to_openai_messages,
)
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.config import get_config
from langgraph.runtime import Runtime
from typing_extensions import Unpack

from factmem.integrations._placement import checked_placement, put_before_question
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.runs import MemoryRuns, Placement, RunOptions
from factmem.memory.tools import MemoryTool
from factmem.sync.portal import SHARED_PORTAL

__all__ = ["FactmemMiddleware"]


class PromptMiddleware(AgentMiddleware[Any, Any]):
    """Changes the request of each model call, in sync and async runs."""

    # Quoted, because LangChain 1.1's requests and responses are not generic at run time.
    def wrap_model_call(
        self,
        request: "ModelRequest[Any]",
        handler: "Callable[[ModelRequest[Any]], ModelResponse[Any]]",
    ) -> "ModelResponse[Any]":
        """Call the model of a sync run."""
        return handler(SHARED_PORTAL.call(self.changed, request))

    async def awrap_model_call(
        self,
        request: "ModelRequest[Any]",
        handler: "Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]",
    ) -> "ModelResponse[Any]":
        """Call the model of an async run."""
        return await handler(await self.changed(request))

    async def changed(self, request: "ModelRequest[Any]") -> "ModelRequest[Any]":
        """Return the request that the model gets."""
        raise NotImplementedError


class FactmemMiddleware(PromptMiddleware):
    """The memory of a run's user, for `create_agent(middleware=[...])`. Use one per agent.

    The facts follow the system prompt and are loaded for each model call. They are not in the
    state: they are never stale within a thread, and no checkpoint contains a fact that is deleted
    later. With `conversations`, a thread without a checkpointer goes on: the model reads what was
    said before under its `thread_id`. A subagent of a deep agent has a memory if its own
    specification lists the middleware.

    Sync and async runs are supported. An async run uses its own event loop.

    Args:
        placement: `instructions` puts the facts after the system prompt, `message` into a user
            message before the user's last one.
        **options: See `MemoryRuns`. `user` gets LangGraph's `Runtime`.
    """

    def __init__(
        self,
        memory: AgentMemory,
        *,
        placement: Placement = "instructions",
        **options: Unpack[RunOptions[Runtime[Any]]],
    ) -> None:
        super().__init__()
        self.runs: MemoryRuns[Runtime[Any]] = MemoryRuns(memory, **options)
        self.tools: Sequence[BaseTool] = [_tool(tool) for tool in self.runs.tools()]
        is_message = checked_placement(placement) == "message"
        self._with_facts = _with_message if is_message else _with_instructions

    def after_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Detect facts in a sync run. LangChain does not call it after a failed run."""
        if self.runs.is_learning:
            SHARED_PORTAL.call(self._learn, state["messages"], runtime)

    async def aafter_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Detect facts in an async run. LangChain does not call it after a failed run."""
        if self.runs.is_learning:
            await self._learn(state["messages"], runtime)

    async def changed(self, request: "ModelRequest[Any]") -> "ModelRequest[Any]":
        """Add the facts, and what was said before in the thread."""
        chat = chat_of(request.messages)
        facts = await self.runs.prompt(request.runtime, chat)
        earlier = chat[: _start_of_run(chat)]
        conversation = _conversation()
        if conversation and all(each["role"] != "assistant" for each in earlier):
            stored = await self.runs.history(request.runtime, conversation)
            messages: list[Any] = [*convert_to_messages(stored), *request.messages]
            request = request.override(messages=messages)
        return self._with_facts(request, facts) if facts else request

    async def _learn(self, messages: list[AnyMessage], runtime: Runtime[Any]) -> None:
        chat = chat_of(messages)
        since, name = _start_of_run(chat), _conversation()
        await self.runs.learn(runtime, chat, since=since, conversation=name)


def _start_of_run(chat: Sequence[Mapping[str, object]]) -> int:
    """Return the index of the last messages of the user: the state has the whole thread."""
    since = max((i for i, each in enumerate(chat) if each["role"] == "user"), default=0)
    while since and chat[since - 1]["role"] == "user":
        since -= 1
    return since


def chat_of(messages: Iterable[AnyMessage]) -> list[dict[str, object]]:
    chat: list[dict[str, object]] = convert_to_openai_messages(list(messages))
    return chat


def _with_message(request: "ModelRequest[Any]", facts: str) -> "ModelRequest[Any]":
    messages = put_before_question(
        request.messages, HumanMessage(facts), lambda each: isinstance(each, HumanMessage)
    )
    return request.override(messages=messages)


def _with_instructions(request: "ModelRequest[Any]", facts: str) -> "ModelRequest[Any]":
    base = request.system_message
    if base is None:
        return request.override(system_message=SystemMessage(facts))
    if isinstance(base.content, str):  # some endpoints reject a list of parts
        return request.override(system_message=SystemMessage(f"{base.content}\n\n{facts}"))
    parts: list[Any] = [*base.content, {"type": "text", "text": f"\n\n{facts}"}]
    return request.override(system_message=SystemMessage(content=parts))


def _tool(tool: MemoryTool) -> BaseTool:
    # ToolRuntime has the same `context` as Runtime, which a `user` function reads.
    async def acall(runtime: ToolRuntime[Any, Any], **arguments: Any) -> str:
        return await tool.call(arguments, runtime)

    def call(runtime: ToolRuntime[Any, Any], **arguments: Any) -> str:
        return SHARED_PORTAL.call(tool.call, arguments, runtime)

    return StructuredTool(
        name=tool.name,
        description=tool.description,
        args_schema=tool.schema,
        func=call,
        coroutine=acall,
    )


def _conversation() -> str | None:
    thread = get_config().get("configurable", {}).get("thread_id")
    return None if thread is None else str(thread)
