"""Memory for the OpenAI Agents SDK: facts in the instructions, tools, detection, and sessions.

    agent = with_memory(agent, memory, user=lambda context: context.context.user)
    session = ConversationSession(memory.of("alice").conversation("chat-7"))
    result = await Runner.run(agent, "Hi", context=Context(user="alice"), session=session)

It needs the extra `openai-agents`.

Nothing of a run is kept here: instructions and hooks get the context of the run, by which
`MemoryRuns` finds the user. An item of a session that is no message, such as a call, is stored
whole in a message of the role "tool".
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import orjson
from agents import Agent, AgentHooks, FunctionTool, RunContextWrapper, Tool, TResponseInputItem
from agents.memory import SessionSettings
from agents.run import CallModelData, ModelInputData
from agents.tool_context import ToolContext
from typing_extensions import TypeVar, Unpack

from factmem.integrations._placement import put_before_question
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.conversations import Conversation
from factmem.memory.runs import MemoryRuns, RunOptions
from factmem.memory.tools import MemoryTool

__all__ = ["ConversationSession", "memory_filter", "with_memory"]

T = TypeVar("T", default=Any)


def with_memory(
    agent: Agent[T], memory: AgentMemory, **options: "Unpack[RunOptions[RunContextWrapper[T]]]"
) -> Agent[T]:
    """Return a copy of an agent with a memory.

    The facts follow the agent's instructions. They are loaded for each model call: a fact that a
    tool saves is in the next call. No session and no `RunState` stores them. Add a memory to each
    agent of a handoff; facts are detected by the agent that answers. With `conversations`, the
    messages of a run are one conversation; those of a `ConversationSession` are stored by the
    session.

    Args:
        agent: The agent. The copy keeps its instructions, tools and hooks.
        memory: The memory.
        **options: See `MemoryRuns`. `user` gets the `RunContextWrapper`.

    Raises:
        ValueError: The agent has a tool with the name of a memory tool: pass a `prefix`.
    """
    runs = MemoryRuns[RunContextWrapper[T]](memory, **options)
    tools = [_tool(tool) for tool in runs.tools()]
    taken = {tool.name for tool in tools} & {tool.name for tool in agent.tools}
    if taken:
        raise ValueError(
            f"The agent already has a tool {min(taken)!r}: with_memory(..., prefix='facts_')"
        )
    base = agent.instructions

    async def instructions(context: RunContextWrapper[T], running: Agent[T]) -> str:
        given = base(context, running) if callable(base) else base
        own = await given if inspect.isawaitable(given) else given
        facts = await runs.prompt(context, chat_of(context.turn_input))
        return "\n\n".join(text for text in (own, facts) if text)

    hooks = _LearningHooks(runs, agent.hooks) if runs.is_learning else agent.hooks
    return agent.clone(instructions=instructions, tools=[*agent.tools, *tools], hooks=hooks)


def memory_filter(
    memory: AgentMemory, **options: "Unpack[RunOptions[RunContextWrapper[T]]]"
) -> Callable[[CallModelData[T]], Awaitable[ModelInputData]]:
    """Return a filter that puts the facts into a message of their own before each model call.

        config = RunConfig(call_model_input_filter=memory_filter(memory))
        await Runner.run(agent, "Hi", run_config=config)

    It serves every agent of a run, after handoffs too, and keeps the cached prompt when a fact
    changes: the facts are in a user message before the user's last one. No session stores it. Use
    it in place of `with_memory`, which gives agents tools and detects facts.

    Args:
        memory: The memory.
        **options: See `MemoryRuns`. `user` gets a `RunContextWrapper`.
    """
    options["tools"] = False
    runs = MemoryRuns[RunContextWrapper[T]](memory, **options)

    async def put(data: CallModelData[T]) -> ModelInputData:
        items, context = list(data.model_data.input), RunContextWrapper[Any](data.context)
        facts = await runs.prompt(context, chat_of(items))
        if facts:
            own: TResponseInputItem = {"role": "user", "content": facts}
            items = put_before_question(items, own, lambda each: each.get("role") == "user")
        return ModelInputData(items, data.model_data.instructions)

    return put


class _LearningHooks(AgentHooks[Any]):
    """The agent's own hooks, and the detection of facts at the end of a run."""

    def __init__(self, runs: MemoryRuns[RunContextWrapper[T]], own: AgentHooks[Any] | None) -> None:
        self._runs = runs
        self._own: AgentHooks[Any] = AgentHooks() if own is None else own
        for name in dir(AgentHooks):  # the hooks differ between versions of the SDK
            if name.startswith("on_") and name != "on_end":
                setattr(self, name, getattr(self._own, name))

    async def on_end(self, context: Any, agent: Any, output: Any) -> None:
        await self._own.on_end(context, agent, output)
        chat = chat_of(context.turn_input)
        # With a session the input begins with earlier turns: new is what follows the last answer.
        since = max((i + 1 for i, each in enumerate(chat) if each["role"] != "user"), default=0)
        answer = {"role": "assistant", "content": str(output)}
        used = _SESSION.get()
        name = await used[0].holding(chat) if used else None
        if used and name is not None:
            used.clear()  # a later run in this task may have no session
        await self._runs.learn(
            context, [*chat, answer], since=since, conversation=name, is_stored=name is not None
        )


_SESSION: ContextVar["list[ConversationSession] | None"] = ContextVar(
    "factmem_session", default=None
)
"""The session of the run in this task, until its end; hooks do not get it."""


class ConversationSession:
    """A `Session` of the SDK, in a stored conversation of the user.

    Its items are encrypted, restricted by views, erased and learnt from like the messages of any
    other `Conversation`. Several processes may add to one session; each item is stored once. No
    call to a model.

    Args:
        conversation: The conversation. Its `id` is the id of the session.
        session_settings: The default limit of `get_items`.
    """

    def __init__(
        self, conversation: Conversation, *, session_settings: SessionSettings | None = None
    ) -> None:
        self.session_id: str = conversation.id
        self.session_settings: SessionSettings | None = session_settings or SessionSettings()
        self._conversation = conversation

    async def holding(self, chat: Sequence[Mapping[str, object]]) -> str | None:
        """Return the name of the conversation if it has the user's last message of a run."""
        last = next((each for each in reversed(chat) if each["role"] == "user"), None)
        stored = await self._conversation.messages()  # after a handoff, calls follow the question
        users = [each for each in stored if each.get("role") == "user"]
        is_of_run = users and last and users[-1].get("content") == last.get("content")
        return self._conversation.id if is_of_run else None

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the last items, oldest first; by default as many as the settings say."""
        _SESSION.set([self])
        settings = self.session_settings
        last = settings.limit if limit is None and settings is not None else limit
        if last is not None and last <= 0:
            return []
        return [_item(message) for message in await self._conversation.messages(last=last)]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Store items in one durable write, all or none, and queue them for learning."""
        await self._conversation.append(*map(_message, items))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the last item physically and return it; None if there is none."""
        while turns := await self._conversation.turns(last=1):
            if (await self._conversation.remove(turns[0].id)).count:
                return _item(turns[0].message)
        return None

    async def clear_session(self) -> None:
        """Remove all items physically. Facts that were learnt from them stay."""
        await self._conversation.clear()


_ITEM = "item"
"""The field of a stored message with an item of the SDK that is no message: a call, its result."""


def _message(item: TResponseInputItem) -> dict[str, Any]:
    given = orjson.loads(orjson.dumps(item))  # tuples become lists, as in the sessions of the SDK
    if isinstance(given.get("role"), str) and _ITEM not in given:
        return dict(given)
    return {"role": "tool", "content": given.get("output"), _ITEM: given}


def _item(message: Mapping[str, Any]) -> TResponseInputItem:
    item: TResponseInputItem = message.get(_ITEM, message)
    return item


def chat_of(items: Iterable[Any]) -> list[dict[str, object]]:
    chat: list[dict[str, object]] = []
    for given in items:
        item = given if isinstance(given, Mapping) else given.model_dump(exclude_unset=True)
        if item.get("role") in {"user", "assistant", "system", "developer"}:
            chat.append({"role": item["role"], "content": item.get("content")})
        elif item.get("type") == "function_call_output":
            chat.append({"role": "tool", "content": item.get("output")})
    return chat


def _tool(tool: MemoryTool) -> Tool:
    async def call(context: ToolContext[Any], arguments: str) -> str:
        return await tool.call(arguments, context)

    # A strict schema would require the arguments with a default as well.
    return FunctionTool(tool.name, tool.description, tool.schema, call, strict_json_schema=False)
