"""A Pydantic AI capability: facts before each request, memory tools, detection after the run.

    agent = Agent("openai:gpt-4o-mini", deps_type=Deps, capabilities=[
        MemoryCapability(memory, user=lambda ctx: ctx.deps.user, auto_detect=True)
    ])

It needs the extra `pydantic-ai`.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import AgentDepsT, Tool
from pydantic_ai.toolsets import FunctionToolset
from typing_extensions import Unpack

from factmem.integrations._placement import checked_placement, said_earlier
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.runs import MemoryRuns, Placement, RunOptions
from factmem.memory.tools import MemoryTool

__all__ = ["MemoryCapability"]


class MemoryCapability(AbstractCapability[AgentDepsT]):
    """The memory of a run's user, for `Agent(capabilities=[...])`. It serves any number of runs.

    With `conversations`, a run with a `conversation_id` and without a `message_history` shows the
    model what was said before in this conversation.

    Args:
        placement: `instructions` puts the facts after the agent's instructions. Pydantic AI stores
            them in the message history: a saved history keeps a fact that is deleted later.
            `message` puts them before the last message of each request and not into the history.
        id: Two capabilities of one agent need different ids and tool prefixes: if two have the same
            id, Pydantic AI uses the last one.
        **options: See `MemoryRuns`. `user` gets the `RunContext`.

    Raises:
        ValueError: `placement` is another string, or this Pydantic AI is too old for `message`.
    """

    id: str | None = "factmem"

    def __init__(
        self,
        memory: AgentMemory,
        *,
        placement: Placement = "instructions",
        id: str = "factmem",  # noqa: A002 - the framework's name for it
        **options: Unpack[RunOptions[RunContext[AgentDepsT]]],
    ) -> None:
        self.runs: MemoryRuns[RunContext[AgentDepsT]] = MemoryRuns(memory, **options)
        self.id = id
        self._placement = checked_placement(placement)
        if placement == "message" and "scope" not in inspect.signature(SystemPromptPart).parameters:
            raise ValueError('placement="message" needs pydantic-ai-slim 2.59 or newer')
        self._toolset = FunctionToolset[AgentDepsT](
            [_tool(tool) for tool in self.runs.tools()], id=id
        )

    def get_instructions(
        self,
    ) -> "Callable[[RunContext[AgentDepsT]], Awaitable[str | None]] | None":
        """Return the function that Pydantic AI calls for the instructions of each request."""
        if self._placement == "message":
            return None

        async def facts(ctx: RunContext[AgentDepsT]) -> str | None:
            return await self.runs.prompt(ctx, _text(ctx.prompt)) or None

        return facts

    def get_toolset(self) -> FunctionToolset[AgentDepsT] | None:
        """Return the memory's tools; None if there are none."""
        return self._toolset if self._toolset.tools else None

    async def before_model_request(
        self, ctx: RunContext[AgentDepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Put in what was said in the conversation and, with `placement="message"`, the facts."""
        *earlier, last = request_context.messages
        if all(each.run_id == ctx.run_id for each in earlier):  # there is no `message_history`
            stored = await self.runs.history(ctx, ctx.conversation_id)
            earlier = [*map(_message, said_earlier(stored)), *earlier]
        is_message = self._placement == "message"
        text = await self.runs.prompt(ctx, _text(ctx.prompt)) if is_message else ""
        if text and isinstance(last, ModelRequest):
            last = ModelRequest([SystemPromptPart(text, scope="request"), *last.parts])
        request_context.messages = [*earlier, last]
        return request_context

    async def after_run(
        self, ctx: RunContext[AgentDepsT], *, result: AgentRunResult[Any]
    ) -> AgentRunResult[Any]:
        """Detect facts in the run's messages. Pydantic AI does not call it after a failed run."""
        new = result.new_messages()
        earlier = chat_of(result.all_messages()[: -len(new) or None])
        chat = [*earlier, *chat_of(new)]
        await self.runs.learn(ctx, chat, since=len(earlier), conversation=ctx.conversation_id)
        return result


def chat_of(messages: Iterable[ModelMessage]) -> list[dict[str, object]]:
    chat: list[dict[str, object]] = []
    for message in messages:
        for part in message.parts:
            match part:
                case UserPromptPart():
                    chat.append({"role": "user", "content": _text(part.content)})
                case TextPart():
                    chat.append({"role": "assistant", "content": part.content})
                case ToolReturnPart():
                    chat.append({"role": "tool", "content": part.model_response_str()})
                case _:
                    pass  # instructions, tool calls, thinking and files state no facts
    return chat


def _message(said: tuple[bool, str]) -> ModelMessage:
    is_users, text = said
    return ModelRequest([UserPromptPart(text)]) if is_users else ModelResponse([TextPart(text)])


def _tool(tool: MemoryTool) -> Tool[AgentDepsT]:
    async def call(ctx: RunContext[AgentDepsT], **arguments: Any) -> str:
        return await tool.call(arguments, ctx)

    return Tool.from_schema(call, tool.name, tool.description, tool.schema, takes_ctx=True)


def _text(content: str | Sequence[object] | None) -> str:
    """Return the text of a prompt, without other parts such as images."""
    if content is None or isinstance(content, str):
        return content or ""
    texts = (each if isinstance(each, str) else getattr(each, "content", None) for each in content)
    return "\n".join(each for each in texts if isinstance(each, str))
