"""Memory for Microsoft's Agent Framework: facts and tools before a run, detection after it.

    provider = MemoryContextProvider(memory, user=lambda session: session.state["user"])
    agent = Agent(client=client, context_providers=[provider])

It needs the extra `agent-framework`.
"""

from collections.abc import Iterable
from typing import Any

from agent_framework import AgentSession, ContextProvider, FunctionTool, Message, SessionContext
from typing_extensions import Unpack

from factmem._arguments import expect_word
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.runs import MemoryRuns, Placement, RunOptions
from factmem.memory.tools import MemoryTool

__all__ = ["MemoryContextProvider"]


class MemoryContextProvider(ContextProvider):
    """The memory of a run's user, for `Agent(context_providers=[...])`. It serves any number of runs.

    The facts are loaded once for each run. The framework stores none of them in a session.

    Args:
        memory: The memory, or `MemoryRuns` that the application opens itself.
        placement: `instructions` puts the facts after the agent's instructions, `message` into a
            user message before those of the run.
        source_id: The framework's name for the provider; two of one agent need different ones.
        **options: See `MemoryRuns`. `user` gets the `AgentSession`.

    Raises:
        TypeError: `memory` has the wrong type.
        ValueError: `placement` is another string.
    """

    def __init__(
        self,
        memory: AgentMemory | MemoryRuns[AgentSession],
        *,
        placement: Placement = "instructions",
        source_id: str = "factmem",
        **options: Unpack[RunOptions[AgentSession]],
    ) -> None:
        super().__init__(source_id)
        self.runs: MemoryRuns[AgentSession] = MemoryRuns.over(memory, options)
        """The runs of the memory; open them to detect facts in the background."""
        expect_word(placement, ("instructions", "message"), "placement", "placement='message'")
        self._placement = placement

    async def before_run(
        self, *, agent: Any, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Add the user's facts and the tools of the memory to a run."""
        facts = await self.runs.prompt(session, chat_of(context.input_messages))
        if facts and self._placement == "message":
            context.extend_messages(self.source_id, [Message("user", [facts])])
        elif facts:
            context.extend_instructions(self.source_id, facts)
        # Made for each run, because the framework tells a tool nothing about its session.
        context.extend_tools(self.source_id, [_tool(each, session) for each in self.runs.tools()])

    async def after_run(
        self, *, agent: Any, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Detect facts in the run's messages. The framework does not call it after a failed run."""
        if not self.runs.is_detecting or context.response is None:
            return
        earlier = chat_of(
            message
            for source, messages in context.context_messages.items()
            if source != self.source_id
            for message in messages
        )
        new = chat_of([*context.input_messages, *context.response.messages])
        await self.runs.learn(
            session, [*earlier, *new], since=len(earlier), conversation=session.session_id
        )


def chat_of(messages: Iterable[Message]) -> list[dict[str, object]]:
    """Convert the messages of user and model to the format of chat completions."""
    return [{"role": str(each.role), "content": each.text} for each in messages if each.text]


def _tool(tool: MemoryTool, session: AgentSession) -> FunctionTool:
    async def call(**arguments: Any) -> str:
        return await tool.call(arguments, session)

    return FunctionTool(
        name=tool.name, description=tool.description, func=call, input_model=tool.schema
    )
