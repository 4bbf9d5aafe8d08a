"""One run of an agent: what its features, nodes and tools see, and what comes out."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeAlias, runtime_checkable

from typing_extensions import TypeVar

from factmem.concurrency.background import BackgroundWork
from factmem.errors import FactmemError
from factmem.llm.base import ChatModel, ChatResponse, Message, ToolDefinition
from factmem.llm.messages import STEP_MESSAGE, dicts_of
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
"""The default number of calls to the model for one answer."""


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
        """Name, description and the JSON schema of the arguments, for the model."""
        ...

    async def call(self, arguments: str, context: "AgentContext") -> str:
        """Run it and return what the model is to read.

        Arguments that do not fit are no exception: the answer says so. An exception ends the run.

        Args:
            arguments: The arguments as the model wrote them: usually a JSON object, not checked.
            context: The run.
        """
        ...


@dataclass(frozen=True, slots=True)
class AgentResult:
    """The result of a run.

    `text` is the answer, `messages` the conversation for the next run, `usage` the cost, and
    `reports_of(DetectionReport)` returns the reports of features.
    """

    text: str = field(repr=False)
    """The answer."""
    messages: list[dict[str, object]] = field(repr=False)
    """The conversation with the answer. Pass it to the next run to continue."""
    usage: Usage
    """The cost of the run's calls to models; work in the background has a report of its own."""
    reports: list[object] = field(repr=False)
    """The reports of features and nodes, such as `LoadReport` and `DetectionReport`, in order. The
    report of work in the background is appended when the work is done."""
    finish_reason: str | None = None
    """Why the model stopped: `stop`, `length` (cut off), `content_filter`."""
    subjects: tuple[MemorySubject, ...] = field(default=(), repr=False)
    """The subjects of the run."""
    conversation: str | None = None
    """The application's name for the conversation."""

    def reports_of(self, kind: type[R]) -> list[R]:
        """Return the reports of one type: `result.reports_of(DetectionReport)`."""
        return [report for report in self.reports if isinstance(report, kind)]


class FeatureError(FactmemError):
    """A feature failed after the model had answered; `__cause__` is the error.

    The answer is in `result`.
    """

    def __init__(self, message: str, *, result: AgentResult) -> None:
        super().__init__(message)
        self.result = result
        """The run, without the feature that failed."""


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
    """The state of one run of an agent.

    Features, nodes and tools may change `messages` in place and append to `reports`.

    Args:
        text: The user's message.
        messages: The conversation before it.
        chat_model: The model that answers.
        tools: The tools that the model can call, by name.
        max_steps: The most calls to the model for one answer.
        subjects: The subjects of the run; the memory's own by default.
        scopes: The scopes of the run; the memory's own by default.
        conversation: The application's name for the conversation.
        background: Runs work that continues after the run.
        after_step: Functions that are called after each step.

    Raises:
        TypeError: `messages`, `tools` or `subjects` is of the wrong type.
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
        """The conversation that the model gets, in the form of chat completions."""
        self.chat_model = chat_model
        self.tools: dict[str, AgentTool] = dict(tools or {})
        self.max_steps = max_steps
        self.subjects: tuple[MemorySubject, ...] = checked_subjects(subjects)
        self.scopes: tuple[ScopeChoice, ...] | None = None if scopes is None else tuple(scopes)
        """The scopes of the run; None for those of the memory."""
        self.conversation = conversation
        self.usage: Usage = Usage()
        """The cost of the calls to models so far."""
        self.reports: list[object] = []
        """The reports of features and nodes so far."""
        self.answer = ""
        """The model's answer."""
        self.finish_reason: str | None = None
        self._background = background or BackgroundWork()
        self._after_step = tuple(after_step)
        self._question: dict[str, object] | None = None
        self._memory: AgentMemory | None = None

    @property
    def memory(self) -> AgentMemory:
        """The memory of the run: a view with the subjects of the run only.

        Raises:
            RuntimeError: The agent has no memory.
        """
        if self._memory is None:
            raise RuntimeError(
                "The agent has no memory: agent.install(AgentMemory, provider=..., agent_name=...)"
            )
        return self._memory

    @memory.setter
    def memory(self, memory: AgentMemory) -> None:
        """Set the memory of the run; a feature does."""
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
        """Append a question in the role of the user. The first one is where this run begins.

        It alone is taken for the user's words. The others are what a step of the strategy returned,
        and may be the words of a page that a model repeated.
        """
        message: dict[str, object] = {"role": "user", "content": text}
        if self._question is None:
            self._question = message
        else:
            message["name"] = STEP_MESSAGE
        self.messages.append(message)

    def bound(self, subject: MemorySubject) -> MemorySubject:
        """Return the subject, bound to the entity of the run if it is per entity and unbound.

        A strategy names `USER`, and each run binds it to a user.

        Raises:
            UnboundSubjectError: The run names no entity of this subject.
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
        """Check that work can continue after the run.

        Raises:
            RuntimeError: The agent is not open; use `async with agent`.
        """
        self._background.check_open()

    def start_in_background(self, work: Callable[[], Awaitable[object]], *, name: str) -> None:
        """Run work that outlives the run, in the agent's task group.

        Work for the same subjects runs in the order of their runs. Its result is appended to
        `reports` unless it is None. An exception is reported as a `FeatureError`.

        Raises:
            RuntimeError: The agent is not open; use `async with agent`.
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
        """Return the error for a feature that failed after the answer."""
        message = f"The model has answered, and then {name} failed: `result` has the answer"
        return FeatureError(message, result=self.result())

    def result(self) -> AgentResult:
        """Return the result of the run so far."""
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
        """Prepare a run before the model is called. An exception ends the run."""
        ...

    async def after_answer(self, context: AgentContext) -> None:
        """Process an answer before the run returns it.

        An exception reaches the caller of the run as a `FeatureError`, which holds the answer. Use
        `context.start_in_background` for work that can wait.
        """
        ...

    async def aclose(self) -> None:
        """Close what the feature opened; called at the end of `async with agent`."""
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
