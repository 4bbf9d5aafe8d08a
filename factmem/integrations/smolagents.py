"""Memory for smolagents: facts before each step, tools, detection after the answer.

    install_memory(agent, memory, user="alice", auto_detect=True)
    agent.run("Which editor do I use?")

It needs the extra `smolagents`. smolagents is synchronous: the memory runs in a portal.
`factmem.integrations.smolagents_steps` saves the steps of a run in a file.
"""

# smolagents has types but no py.typed marker; mypy reads the types and pyright does not.
# pyright: reportMissingTypeStubs=false, reportUnnecessaryTypeIgnoreComment=false

from collections.abc import Iterable, Iterator
from typing import Any

from smolagents import ChatMessage, MultiStepAgent, Tool
from smolagents.memory import ActionStep, FinalAnswerStep, MemoryStep, TaskStep
from smolagents.models import MessageRole
from typing_extensions import Unpack

from factmem.integrations._placement import checked_placement
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.runs import MemoryRuns, Placement, RunOptions
from factmem.memory.tools import MemoryTool
from factmem.sync.portal import SHARED_PORTAL, Portal

__all__ = ["install_memory", "stepwise"]


def install_memory(
    agent: MultiStepAgent,
    memory: AgentMemory | MemoryRuns[MultiStepAgent],
    *,
    placement: Placement = "instructions",
    portal: Portal = SHARED_PORTAL,
    **options: Unpack[RunOptions[MultiStepAgent]],
) -> MemoryRuns[MultiStepAgent]:
    """Add a memory to an agent, which keeps its callbacks and tools. Managed agents need their own.

    The facts are loaded before each step and follow the system prompt. No step stores them. Facts
    are detected in the user's task, never in the results of tools or pages.

    Args:
        agent: The agent; changed in place.
        memory: The memory, or `MemoryRuns`.
        placement: `instructions` puts the facts after the system prompt, `message` into a user message
            after those of the run.
        portal: The portal in which the memory runs.
        **options: See `MemoryRuns`. `user` gets the agent; a function may read a context variable.

    Returns:
        The runs.

    Raises:
        ValueError: The agent has a tool with the name of a memory tool: pass a `prefix`. Or
            `placement` is another string.
        TypeError: `memory` has the wrong type.
    """
    checked_placement(placement)
    runs = MemoryRuns[MultiStepAgent].over(memory, options)
    for tool in runs.tools():
        if tool.name in agent.tools:
            raise ValueError(
                f"The agent already has a tool {tool.name!r}: install_memory(..., prefix='facts_')"
            )
    agent.tools |= {tool.name: _MemoryTool(tool, agent, portal) for tool in runs.tools()}
    written = agent.write_memory_to_messages

    def write_memory_to_messages(summary_mode: bool = False) -> list[ChatMessage]:
        messages = written(summary_mode=summary_mode)
        text = "" if summary_mode else portal.call(runs.prompt, agent, _task(agent))
        if not text:
            return messages
        content = [{"type": "text", "text": text}]
        if placement == "message":
            return [*messages, ChatMessage(role=MessageRole.USER, content=content)]
        facts = ChatMessage(role=MessageRole.SYSTEM, content=content)
        return [*messages[:1], facts, *messages[1:]]

    def learn(step: FinalAnswerStep, agent: MultiStepAgent) -> None:
        chat = chat_of(agent.memory.steps)
        since = max((i for i, each in enumerate(chat) if each["role"] == "user"), default=0)
        chat.append({"role": "assistant", "content": str(step.output)})
        portal.call(runs.learn, agent, chat, since=since)

    agent.write_memory_to_messages = write_memory_to_messages  # type: ignore[method-assign] # each step calls it
    if runs.is_detecting:
        agent.step_callbacks.register(FinalAnswerStep, learn)
    return runs


class _MemoryTool(Tool):  # type: ignore[no-untyped-call] # its __init_subclass__ has no types
    skip_forward_signature_validation = True
    output_type = "string"

    def __init__(self, tool: MemoryTool, agent: MultiStepAgent, portal: Portal) -> None:
        self.name, self.description = tool.name, tool.description
        required = tool.schema.get("required", ())
        self.inputs = {
            name: {
                "type": each.get("type", "any"),
                "description": each.get("description", name),
                **({} if name in required else {"nullable": True}),
            }
            for name, each in tool.schema.get("properties", {}).items()
        }
        self._tool, self._agent, self._portal = tool, agent, portal
        super().__init__()  # type: ignore[no-untyped-call] # it has no types

    def forward(self, *values: Any, **given: Any) -> str:
        # A CodeAgent's Python passes arguments by position; omitted ones are None.
        named = dict(zip(self.inputs, values, strict=False)) | given
        arguments = {name: value for name, value in named.items() if value is not None}
        return self._portal.call(self._tool.call, arguments, self._agent)


def stepwise(agent: MultiStepAgent, task: str, **options: Any) -> Iterator[MemoryStep]:
    """Run a task one step at a time: the next step begins when the caller iterates.

    Between two steps you can read, change and save the agent's memory. If you stop iterating, the
    agent stops. `options` are those of `agent.run`, such as `max_steps` and `reset`.
    """
    events: Any = agent.run(task, stream=True, **options)
    for event in events:
        if isinstance(event, MemoryStep):
            yield event


def chat_of(steps: Iterable[MemoryStep]) -> list[dict[str, object]]:
    """Convert the messages of user, model and tools to the format of chat completions."""
    chat: list[dict[str, object]] = []
    for step in steps:
        if isinstance(step, TaskStep):
            chat.append({"role": "user", "content": step.task})
        elif isinstance(step, ActionStep):
            if step.model_output:
                chat.append({"role": "assistant", "content": str(step.model_output)})
            if step.observations:
                chat.append({"role": "tool", "content": step.observations})
    return chat


def _task(agent: MultiStepAgent) -> str:
    tasks = [step.task for step in agent.memory.steps if isinstance(step, TaskStep)]
    return tasks[-1] if tasks else ""
