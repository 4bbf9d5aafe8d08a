"""One run of an agent: what its features, nodes and tools see, and what comes out."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeAlias, runtime_checkable

from typing_extensions import TypeVar

from factmem.concurrency.background import BackgroundWork
from factmem.errors import FactmemError
from factmem.llm.base import ChatModel, ChatResponse, Message, ToolDefinition
from factmem.llm.messages import dicts_of
from factmem.memory.agent_memory import AgentMemory
from factmem.models.checked import checked_subjects
from factmem.models.places import MemorySubject, subject_keys
from factmem.models.scopes import ScopeChoice
from factmem.usage import Usage

__all__ = [
    "MAX_STEPS",
    "AgentContext",
    "AgentFeature",
    "AgentResult",
    "AgentStep",
    "AgentTool",
    "FeatureError",
    "SkippedDetection",
    "StepFeature",
    "StepHook",
]


R = TypeVar("R")

MAX_STEPS = 20
"""How many times the model is asked for one answer, unless the agent says otherwise."""


@runtime_checkable
class AgentTool(Protocol):
    """Something that a model may ask to have run.

    `factmem.agent.tools.Tool` makes one of a Python function. Implement it for tools that have their
    schema from elsewhere, such as a server's. Calls may run at once.
    """

    @property
    def name(self) -> str:
        """What the model calls it by."""
        ...

    @property
    def definition(self) -> ToolDefinition:
        """What the model is told: name, description and the JSON schema of the arguments."""
        ...

    async def call(self, arguments: str, context: "AgentContext") -> str:
        """Run it and return what the model is to read.

        Arguments that do not fit are no exception: the answer says so. An exception ends the run.

        Args:
            arguments: What the model wrote: meant to be a JSON object, and not checked.
            context: The run.
        """
        ...


@dataclass(frozen=True, slots=True)
class AgentResult:
    """What came of a run.

    `text` is the answer, `messages` the conversation for the next run to go on with, and
    `reports_of(DetectionReport)` tells what features did; `usage` is what it cost.
    """

    text: str = field(repr=False)
    """The answer."""
    messages: list[dict[str, object]] = field(repr=False)
    """The whole conversation, the answer at its end: pass it to the next run to go on."""
    usage: Usage
    """What the run's calls to models cost; of work in the background its own report tells."""
    reports: list[object] = field(repr=False)
    """What features and nodes had to say, such as `LoadReport` and `DetectionReport`, in the order
    in which it happened. The report of work in the background joins when the work is done."""
    finish_reason: str | None = None
    """Why the model stopped at last: `stop`, `length` (cut off), `content_filter`."""
    subjects: tuple[MemorySubject, ...] = field(default=(), repr=False)
    """Whom the run concerned."""
    conversation: str | None = None
    """The application's name for the conversation."""

    def reports_of(self, kind: type[R]) -> list[R]:
        """Return the reports of one type: `result.reports_of(DetectionReport)`."""
        return [report for report in self.reports if isinstance(report, kind)]


class FeatureError(FactmemError):
    """The model has answered, and then a feature failed; `__cause__` says how.

    The answer is not lost: it is in `result`.
    """

    def __init__(self, message: str, *, result: AgentResult) -> None:
        super().__init__(message)
        self.result = result
        """The run without what failed."""


@dataclass(frozen=True, slots=True)
class AgentStep:
    """One call to the model in a run, with the tool calls that it asked for."""

    number: int
    """From 1 on, in each answer."""
    response: ChatResponse = field(repr=False)
    """What the model returned."""
    results: tuple[str, ...] = field(repr=False)
    """What its tool calls returned, in their order; empty for the answer."""
    started_at: datetime
    ended_at: datetime
    """When the last tool had returned."""

    @property
    def is_answer(self) -> bool:
        """Whether the model answered, so that no other step follows."""
        return not self.response.tool_calls


@dataclass(frozen=True, slots=True)
class SkippedDetection:
    """A report: a node that saves facts found no message of the user to read."""

    reason: str


class AgentContext:
    """One run of an agent, made for it and gone with it.

    Features, nodes and tools may change `messages` in place and append to `reports`.

    Args:
        text: What the user said.
        messages: The conversation before it.
        chat_model: Whom to ask.
        tools: What the model may ask to have run, by name.
        max_steps: How many times the model is asked for one answer.
        subjects: Whom the run concerns; without any, the memory's own subjects.
        scopes: The scopes of the run; without any, the memory's own.
        conversation: The application's name for the conversation.
        background: Where work may go on after the run.
        after_step: Functions that are called after each step.

    Raises:
        TypeError: `messages`, `tools` or `subjects` is of the wrong kind.
    """

    def __init__(
        self,
        text: str,
        messages: Iterable[Message] = (),
        *,
        chat_model: ChatModel,
        tools: Mapping[str, AgentTool] | None = None,
        max_steps: int = MAX_STEPS,
        subjects: Sequence[MemorySubject] = (),
        scopes: Sequence[ScopeChoice] | None = None,
        conversation: str | None = None,
        background: BackgroundWork | None = None,
        after_step: Iterable["StepHook"] = (),
    ) -> None:
        self.text = text
        self.messages: list[dict[str, object]] = dicts_of(messages)
        """The conversation: what the model is shown, in the form of chat completions."""
        self.chat_model = chat_model
        self.tools: dict[str, AgentTool] = dict(tools or {})
        self.max_steps = max_steps
        self.subjects: tuple[MemorySubject, ...] = checked_subjects(subjects)
        self.scopes: tuple[ScopeChoice, ...] | None = None if scopes is None else tuple(scopes)
        """The scopes of the run; None for those of the memory."""
        self.conversation = conversation
        self.usage: Usage = Usage()
        """What the calls to models have cost so far."""
        self.reports: list[object] = []
        """What features and nodes had to say so far."""
        self.answer = ""
        """What the model said at last."""
        self.finish_reason: str | None = None
        self._background = background or BackgroundWork()
        self._after_step = tuple(after_step)
        self._question: dict[str, object] | None = None
        self._memory: AgentMemory | None = None

    @property
    def memory(self) -> AgentMemory:
        """The memory, as far as it concerns the run: a view that holds its subjects only.

        Where a call names no subjects, it concerns all of the run's.

        Raises:
            RuntimeError: None is installed.
        """
        if self._memory is None:
            raise RuntimeError(
                "The agent has no memory: agent.install(AgentMemory, provider=..., agent_name=...)"
            )
        return self._memory

    @memory.setter
    def memory(self, memory: AgentMemory) -> None:
        """Set by the feature that brings it."""
        self._memory = memory

    @property
    def since(self) -> int:
        """The index in `messages` where this run begins: that of its first question.

        Earlier messages were an earlier run's. 0 before the model was asked.
        """
        question = self._question
        if question is None:
            return 0
        for index, message in enumerate(self.messages):
            if message is question:
                return index
        return self.messages.index(question) if question in self.messages else 0

    def add_question(self, text: str) -> None:
        """Append what the user says, and note where this run begins."""
        message: dict[str, object] = {"role": "user", "content": text}
        self._question = self._question or message
        self.messages.append(message)

    def bound(self, subject: MemorySubject) -> MemorySubject:
        """Return the subject, bound to the run's entity where it is per entity and names none.

        So a strategy names `USER`, and each run says who that is.

        Raises:
            UnboundSubjectError: The run does not name one.
        """
        if not subject.per_entity or subject.entity is not None:
            return subject
        named = [each for each in self.subjects if each.name == subject.name and each.entity]
        if len(named) != 1:
            subject.check_bound()
        return named[0]

    async def end_step(self, step: AgentStep) -> None:
        """Call the hooks of the run for a step, in the order of installation."""
        for hook in self._after_step:
            await hook(self, step)

    def check_background(self) -> None:
        """Make sure that work can go on after the run.

        Raises:
            RuntimeError: The agent is not open: it takes `async with agent`.
        """
        self._background.check_open()

    def start_in_background(self, work: Callable[[], Awaitable[object]], *, name: str) -> None:
        """Do work that outlives the run, in the agent's task group.

        Work for the same subjects is done in the order of their runs. What it returns joins
        `reports` unless it is None; what it raises is reported as a `FeatureError`.

        Raises:
            RuntimeError: The agent is not open: it takes `async with agent`.
        """

        async def report() -> None:
            try:
                outcome = await work()
            except Exception as exc:
                raise self.failure(name) from exc
            if outcome is not None:
                self.reports.append(outcome)

        line = subject_keys(self.subjects)
        self._background.start(report, line=line, about=line)

    def failure(self, name: str) -> FeatureError:
        """Return the error that tells of a feature that failed after the answer."""
        message = f"The model has answered, and then {name} failed: `result` has the answer"
        return FeatureError(message, result=self.result())

    def result(self) -> AgentResult:
        """Return what has come of the run so far."""
        return AgentResult(
            self.answer,
            self.messages,
            self.usage,
            self.reports,
            self.finish_reason,
            self.subjects,
            self.conversation,
        )


class AgentFeature(Protocol):
    """Something that an agent has besides a model and tools: a memory, a log, a moderator.

    Implement the three methods; inherit from nothing. A `StepFeature` has a fourth. `agent.install(MyFeature, option=...)` makes
    one and returns it.

    One instance serves all runs of the agent, which may be under way at once: what belongs to a
    run is in its context.
    """

    async def before_model(self, context: AgentContext) -> None:
        """Prepare a run, before anything is asked of a model. What it raises ends the run."""
        ...

    async def after_answer(self, context: AgentContext) -> None:
        """Do what follows from an answer, before the run returns it.

        What it raises reaches the caller of the run as a `FeatureError`, which holds the answer.
        It can put work off: `context.start_in_background`.
        """
        ...

    async def aclose(self) -> None:
        """Let go of what the feature opened itself; called at the end of `async with agent`."""
        ...


@runtime_checkable
class StepFeature(Protocol):
    """A feature that also works between the calls to the model of one run.

    Implement it besides the methods of `AgentFeature`.
    """

    async def after_step(self, context: AgentContext, step: AgentStep) -> None:
        """Work after a step: after an answer, or after all tool calls of a response have ended.

        `context.messages` ends with their results, and the next call to the model gets what it
        contains then: a feature can shorten old results, drop images or add an instruction. What it
        raises ends the run.
        """
        ...


StepHook: TypeAlias = Callable[[AgentContext, AgentStep], Awaitable[None]]
"""The method `after_step` of a feature."""
