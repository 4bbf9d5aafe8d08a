"""Memory for smolagents: facts before each step, tools, detection after the answer.

    install_memory(agent, memory, user="alice", auto_detect=True)
    agent.run("Which editor do I use?")

It needs the extra `smolagents`. smolagents is synchronous: the memory runs in a portal. Steps as
JSON are saved and loaded:

    save_steps(agent, "monitor.json")
    load_steps(other, "monitor.json")       # in another process
    other.run("Go on.", reset=False)
"""

import base64
import io
import json
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from smolagents import ChatMessage, MultiStepAgent, Tool
from smolagents import utils as errors
from smolagents.memory import (
    ActionStep,
    FinalAnswerStep,
    MemoryStep,
    PlanningStep,
    TaskStep,
    ToolCall,
)
from smolagents.models import MessageRole
from smolagents.monitoring import Timing, TokenUsage
from typing_extensions import Unpack

from factmem.errors import InputValueError
from factmem.integrations._placement import checked_placement, said_earlier
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.runs import MemoryRuns, Placement, RunOptions
from factmem.memory.tools import MemoryTool
from factmem.sync.portal import SHARED_PORTAL

__all__ = ["count_errors", "install_memory", "load_steps", "save_steps", "stepwise"]

T = TypeVar("T")


# smolagents has types but no py.typed marker; mypy reads the types and pyright does not.
# pyright: reportMissingTypeStubs=false, reportUnnecessaryTypeIgnoreComment=false


def install_memory(
    agent: MultiStepAgent,
    memory: AgentMemory,
    *,
    placement: Placement = "instructions",
    conversation: str | None = None,
    **options: Unpack[RunOptions[MultiStepAgent]],
) -> MemoryRuns[MultiStepAgent]:
    """Add a memory to an agent, which keeps its callbacks and tools. Managed agents need their own.

    The facts are loaded for each call of the agent's model, plans included, and follow the system
    prompt. Only the call has them: no step stores them. Facts are detected in the user's task,
    never in the results of tools or pages, also after `agent.interrupt()`. `to_dict` and `save`
    leave the tools of the memory out, as they belong to a store: install the memory in the agent
    that is loaded.

    Args:
        agent: The agent; changed in place.
        memory: The memory.
        placement: `instructions` puts the facts after the system prompt, `message` into a user
            message after those of the run.
        conversation: The name of the chat: with `conversations`, the model reads what was said in
            it before the agent's own steps. Without a name each run is one of its own.
        **options: See `MemoryRuns`. `user` gets the agent; a function may read a context variable.

    Returns:
        The runs.

    Raises:
        ValueError: The agent has a tool with the name of a memory tool: pass a `prefix`.
    """
    checked_placement(placement)
    runs = MemoryRuns[MultiStepAgent](memory, **options)
    conversation = conversation and runs.named(conversation)
    for tool in runs.tools():
        if tool.name in agent.tools:
            raise ValueError(
                f"The agent already has a tool {tool.name!r}: install_memory(..., prefix='facts_')"
            )
    agent.tools |= {tool.name: _MemoryTool(tool, agent) for tool in runs.tools()}
    earlier = list[Any]()

    def with_facts(messages: Sequence[Any]) -> list[Any]:
        tasks = [step.task for step in agent.memory.steps if isinstance(step, TaskStep)]
        text = SHARED_PORTAL.call(runs.prompt, agent, tasks[-1] if tasks else "")
        if conversation and len(tasks) < 2:  # later runs with reset=False have it in their steps
            stored = SHARED_PORTAL.call(runs.history, agent, conversation)
            roles = (MessageRole.ASSISTANT, MessageRole.USER)
            earlier[:] = [_said_by(roles[own], said) for own, said in said_earlier(stored)]
        first = [e for e in messages[:1] if getattr(e, "role", None) == MessageRole.SYSTEM]
        rest = [*earlier, *messages[len(first) :]]
        if text and placement == "message":
            rest.append(_said_by(MessageRole.USER, text))
        elif text:
            first.append(_said_by(MessageRole.SYSTEM, text))
        return [*first, *rest]

    given: Any = agent
    given.model = _ModelWithFacts(agent.model, with_facts)
    for name in ("to_dict", "save"):
        setattr(given, name, _without_tools(agent, getattr(agent, name)))

    def learn(*answer: str) -> None:
        chat = chat_of(agent.memory.steps)
        since = max((i for i, each in enumerate(chat) if each["role"] == "user"), default=0)
        chat += [{"role": "assistant", "content": each} for each in answer]
        SHARED_PORTAL.call(runs.learn, agent, chat, since=since, conversation=conversation)

    def finished(step: FinalAnswerStep, agent: MultiStepAgent) -> None:
        learn(str(step.output))

    if runs.is_learning:
        agent.step_callbacks.register(FinalAnswerStep, finished)
    given.run = _run_with_memory(agent, runs, learn)
    return runs


def _said_by(role: MessageRole, text: str) -> ChatMessage:
    return ChatMessage(role=role, content=[{"type": "text", "text": text}])


class _ModelWithFacts:
    """The model of one agent, each of whose calls gets the facts; all else is that of the model.

    Agents may share a model, so it is not changed.
    """

    def __init__(self, model: Any, with_facts: Callable[[Sequence[Any]], list[Any]]) -> None:
        vars(self).update(_model=model, _with_facts=with_facts)

    # `to_dict` writes the name of the class of the model.
    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return type(self._model)

    def __getattr__(self, name: str) -> Any:
        found = getattr(vars(self)["_model"], name)
        if name not in {"generate", "generate_stream"}:
            return found

        def with_facts(messages: Sequence[Any], *given: Any, **options: Any) -> Any:
            return found(self._with_facts(messages), *given, **options)

        return with_facts

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._model, name, value)

    def __call__(self, *given: Any, **options: Any) -> Any:
        return self.generate(*given, **options)


def _without_tools(agent: MultiStepAgent, write: Callable[..., T]) -> Callable[..., T]:
    """Return a method of an agent that does not see the tools of a memory."""

    def written(*given: Any, **options: Any) -> T:
        tools = agent.tools
        agent.tools = {n: each for n, each in tools.items() if type(each) is not _MemoryTool}
        try:
            return write(*given, **options)
        finally:
            agent.tools = tools

    return written


def _run_with_memory(
    agent: MultiStepAgent, runs: MemoryRuns[MultiStepAgent], learn: Callable[[], None]
) -> Callable[..., Any]:
    """Return the `run` of an agent that needs a user.

    Learns what was said if it is interrupted.
    """
    run = agent.run

    @contextmanager
    def learning() -> Generator[None]:
        try:
            yield
        except errors.AgentError:
            if agent.interrupt_switch and runs.is_learning:
                learn()
            raise

    def streamed(events: Any) -> Iterator[Any]:
        with learning():
            yield from events

    @wraps(run)
    def call(*given: Any, **options: Any) -> Any:
        runs.view(agent)  # raises for a user without a name, before the first call to a model
        with learning():
            result = run(*given, **options)
        return streamed(result) if isinstance(result, Iterator) else result

    return call


class _MemoryTool(Tool):  # type: ignore[no-untyped-call] # its __init_subclass__ has no types
    skip_forward_signature_validation = True
    output_type = "string"

    def __init__(self, tool: MemoryTool, agent: MultiStepAgent) -> None:
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
        self._tool, self._agent = tool, agent
        super().__init__()  # type: ignore[no-untyped-call] # it has no types

    def forward(self, *values: Any, **given: Any) -> str:
        # A CodeAgent's Python passes arguments by position; omitted ones are None.
        named = dict(zip(self.inputs, values, strict=False)) | given
        arguments = {name: value for name, value in named.items() if value is not None}
        return SHARED_PORTAL.call(self._tool.call, arguments, self._agent)


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


def save_steps(agent: MultiStepAgent, path: str | os.PathLike[str]) -> None:
    """Write an agent's steps to a file, atomically, with images and without requests.

    Call it from a callback to save after each step.

    Raises:
        TypeError: A step has a type that a run does not store.
    """
    target = Path(path)
    beside = target.with_name(f"{target.name}.new")
    beside.write_text(json.dumps([*map(_dumped, agent.memory.steps)], ensure_ascii=False))
    beside.replace(target)


def load_steps(agent: MultiStepAgent, path: str | os.PathLike[str]) -> None:
    """Replace an agent's steps with those of a file; `agent.run(task, reset=False)` continues.

    It reads files of `save_steps`, and smolagents' own `json.dump(agent.memory.get_full_steps(),
    file)`, whose images are lost. The variables of a `CodeAgent`'s Python are not in the file.

    Raises:
        ValueError: The file has no steps of a run.
    """
    try:
        restored: Any = [*map(_parsed, json.loads(Path(path).read_text()))]
    except (AttributeError, LookupError, TypeError, ValueError):
        raise InputValueError("The file has no steps of a run: save_steps(agent, path)") from None
    agent.memory.steps = restored


def count_errors(steps: Iterable[MemoryStep]) -> Counter[tuple[str, str]]:
    """Count the failed steps by tool and type of error; the tool is empty if there is none."""
    counts: Counter[tuple[str, str]] = Counter()
    for step in steps:
        if isinstance(step, ActionStep) and step.error is not None:
            names = [call.name for call in step.tool_calls or ()] or [""]
            counts.update((name, type(step.error).__name__) for name in names)
    return counts


# The keys are those of smolagents' own `dict()`, which loses images, and `timing=None`.
def _dumped(step: MemoryStep) -> dict[str, Any]:
    if not isinstance(step, TaskStep | PlanningStep | ActionStep | FinalAnswerStep):
        raise TypeError(f"steps must be those of a run, not {type(step).__name__}")
    given = _fields(step)
    images = given.pop("task_images", None) or given.pop("observations_images", None)
    return {**{name: _plain(each) for name, each in given.items()}, "images": _images(images)}


def _fields(given: Any) -> dict[str, Any]:
    names = (each.name for each in fields(given))
    return {n: getattr(given, n) for n in names if n not in {"raw", "model_input_messages"}}


def _plain(value: Any) -> Any:
    match value:
        case list() | tuple():
            return [_plain(each) for each in value]
        case ToolCall() | errors.AgentError():
            return value.dict()
        case _ if is_dataclass(value):
            return {name: _plain(each) for name, each in _fields(value).items()}
        case _:
            try:
                json.dumps(value)
            except (TypeError, ValueError):
                return str(value)
            return value


def _parsed(given: Mapping[str, Any]) -> MemoryStep:
    images = _open_images(given.get("images", ()))
    if "task" in given:
        return TaskStep(given["task"], task_images=images)
    if "output" in given:
        return FinalAnswerStep(given["output"])
    times = given.get("timing")
    timing: Any = None if times is None else Timing(times["start_time"], times["end_time"])
    tokens = _read_tokens(given.get("token_usage"))
    message: Any = _read_message(given.get("model_output_message"))
    if "plan" in given:
        return PlanningStep([], message, given["plan"], timing, tokens)
    calls = [(each["function"], each["id"]) for each in given.get("tool_calls") or ()]
    same = ("model_output", "code_action", "observations", "action_output")
    return ActionStep(
        step_number=given["step_number"],
        timing=timing,
        tool_calls=[ToolCall(call["name"], call["arguments"], key) for call, key in calls] or None,
        error=_read_error(given.get("error")),
        model_output_message=message,
        observations_images=images,
        token_usage=tokens,
        is_final_answer=given.get("is_final_answer", False),
        **{name: given.get(name) for name in same},
    )


def _read_error(given: Mapping[str, str] | None) -> errors.AgentError | None:
    if given is None:
        return None
    kind = getattr(errors, given["type"], errors.AgentError)
    error: errors.AgentError = kind.__new__(kind)  # the constructor would log the error again
    Exception.__init__(error, given["message"])
    error.message = given["message"]
    return error


def _read_message(given: Mapping[str, Any] | None) -> ChatMessage | None:
    if given is None:
        return None
    return ChatMessage.from_dict(dict(given), token_usage=_read_tokens(given.get("token_usage")))


def _read_tokens(given: Mapping[str, int] | None) -> TokenUsage | None:
    return None if given is None else TokenUsage(given["input_tokens"], given["output_tokens"])


def _images(images: Sequence[Any] | None) -> list[str]:
    written: list[str] = []
    for image in images or ():
        png = io.BytesIO()
        image.save(png, "PNG")
        written.append(base64.b64encode(png.getvalue()).decode())
    return written


def _open_images(images: Sequence[str]) -> list[Any] | None:
    from PIL import Image

    return [Image.open(io.BytesIO(base64.b64decode(each))) for each in images] or None
