"""The context and the result of one run of an agent; protocols of tools and features."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeAlias, runtime_checkable

from typing_extensions import TypeVar

from factmem.detection.report import DetectionReport
from factmem.errors import FactmemError
from factmem.llm.base import (
    STEP_MESSAGE,
    ChatModel,
    ChatResponse,
    Message,
    ToolDefinition,
    dicts_of,
)
from factmem.memory.agent_memory import AgentMemory
from factmem.models.places import MemorySubject, ScopeChoice, checked_subjects
from factmem.prompt.memory_message import LoadReport
from factmem.usage import Usage

__all__ = ["AgentContext", "AgentFeature", "AgentResult", "AgentStep", "AgentTool", "FeatureError"]

R = TypeVar("R")

MAX_STEPS = 20
"""The default number of calls to the model for one answer."""


@runtime_checkable
class AgentTool(Protocol):
    """A tool that a model can call.

    `factmem.agent.tools.Tool` is a tool for a Python function. Implement the protocol for tools
    with a schema from elsewhere, such as a server. Several calls may run at once.
    """

    @property
    def name(self) -> str:
        """The name that the model calls."""
        ...

    @property
    def definition(self) -> ToolDefinition:
        """Name, description and the JSON schema of the arguments, for the model."""
        ...

    async def call(self, arguments: str, context: "AgentContext") -> str:
        """Run the tool and return its result for the model.

        Return an error message for invalid arguments. An exception ends the run.

        Args:
            arguments: The arguments as the model wrote them, not validated: usually a JSON object.
            context: The run.
        """
        ...


@dataclass(frozen=True, slots=True)
class AgentResult:
    """The result of a run.

    `text` is the answer, `messages` the conversation for the next run, `usage` the cost. `loading`
    and `detection` are the reports of the memory, and `reports_of(kind)` returns all of one type.
    """

    text: str = field(repr=False)
    """The answer."""
    messages: list[dict[str, object]] = field(repr=False)
    """The conversation with the answer. Pass it to the next run to continue."""
    usage: Usage
    """The usage of the run's calls to models."""
    reports: list[object] = field(repr=False)
    """The reports of features and nodes, such as `LoadReport` and `DetectionReport`, in order."""
    finish_reason: str | None = None
    """Why the model stopped: `stop`, `length` (cut off), `content_filter`."""
    subjects: tuple[MemorySubject, ...] = field(default=(), repr=False)
    """The subjects of the run."""
    conversation: str | None = None
    """The application's name for the conversation."""

    @property
    def loading(self) -> LoadReport | None:
        """The report of the facts that the memory put into the prompt; None if it put none."""
        return next(iter(self.reports_of(LoadReport)), None)

    @property
    def detection(self) -> DetectionReport | None:
        """The report of the facts that were learnt from the run; None without `auto_detect`."""
        return next(iter(self.reports_of(DetectionReport)), None)

    def reports_of(self, kind: type[R]) -> list[R]:
        """Return the reports of one type: `result.reports_of(DetectionReport)`."""
        return [report for report in self.reports if isinstance(report, kind)]


class FeatureError(FactmemError):
    """A feature failed after the model had answered; `__cause__` is the error.

    `result` has the answer.
    """

    def __init__(self, message: str, *, result: AgentResult) -> None:
        super().__init__(message)
        self.result = result
        """The result of the run, without the feature that failed."""


@dataclass(frozen=True, slots=True)
class AgentStep:
    """One call to the model in a run, with the tool calls that it requested."""

    number: int
    """The number of the step, from 1 for each answer."""
    response: ChatResponse = field(repr=False)
    """The response of the model."""
    results: tuple[str, ...] = field(repr=False)
    """The results of its tool calls, in their order; empty for the answer."""
    started_at: datetime
    ended_at: datetime
    """When the last tool returned."""


class AgentContext:
    """The state of one run of an agent.

    Features, nodes and tools may change `messages` in place and append to `reports`.

    Args:
        text: The user's message.
        messages: The conversation before it.
        chat_model: The model that answers.
        tools: The tools that the model can call, by name.
        max_steps: The maximum of calls to the model for one answer.
        subjects: The subjects of the run; by default those of the memory.
        scopes: The scopes of the run; by default those of the memory.
        conversation: The application's name for the conversation.
        is_continued: Whether `messages` has the conversation, also if it is empty: stored messages
            are then not loaded.
        after_step: Functions that are called after each step.

    Raises:
        TypeError: `messages`, `tools` or `subjects` has the wrong type.
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
        is_continued: bool = False,
        after_step: Iterable["StepHook"] = (),
    ) -> None:
        self.text = text
        self.messages: list[dict[str, object]] = dicts_of(messages)
        """The conversation that the model gets, in the format of chat completions."""
        self.chat_model = chat_model
        self.tools: dict[str, AgentTool] = dict(tools or {})
        self.max_steps = max_steps
        self.subjects: tuple[MemorySubject, ...] = checked_subjects(subjects)
        self.scopes: tuple[ScopeChoice, ...] | None = None if scopes is None else tuple(scopes)
        """The scopes of the run; None for those of the memory."""
        self.conversation = conversation
        self.is_continued = is_continued
        self.usage: Usage = Usage()
        """The usage of the calls to models so far."""
        self.reports: list[object] = []
        """The reports of features and nodes so far."""
        self.answer = ""
        """The model's answer."""
        self.finish_reason: str | None = None
        self._after_step = tuple(after_step)
        self._question: dict[str, object] | None = None
        self._memory: AgentMemory | None = None

    @property
    def memory(self) -> AgentMemory:
        """The memory of the run: a view of the subjects of the run.

        Raises:
            RuntimeError: The agent has no memory.
        """
        if self._memory is None:
            raise RuntimeError(
                "The agent has no memory: agent.install(AgentMemory, provider=..., scopes=...)"
            )
        return self._memory

    @memory.setter
    def memory(self, memory: AgentMemory) -> None:
        """Set the memory of the run; called by a feature."""
        self._memory = memory

    @property
    def since(self) -> int:
        """The index in `messages` of the first question of this run.

        Earlier messages belong to earlier runs. 0 before the model was called.
        """
        question = self._question
        if question is None:
            return 0
        for index, message in enumerate(self.messages):
            if message is question:
                return index
        return self.messages.index(question) if question in self.messages else 0

    def add_question(self, text: str) -> None:
        """Append a question in the role of the user.

        Only the first question of a run is taken for the user's words; `since` is its index. Later
        questions are the results of a strategy's steps: a model may have copied them from a page.
        """
        message: dict[str, object] = {"role": "user", "content": text}
        if self._question is None:
            self._question = message
        else:
            message["name"] = STEP_MESSAGE
        self.messages.append(message)

    def bound(self, subject: MemorySubject) -> MemorySubject:
        """Return the subject, bound to the entity of the run if it is per entity and unbound.

        A strategy can use the unbound `USER`: each run binds it to its user.

        Raises:
            UnboundSubjectError: The run has no entity of this subject, or more than one.
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
    """An extension of an agent: a memory, a log, a moderator.

    Implement the two methods; no base class is needed. `agent.install(MyFeature, option=...)`
    creates one and returns it.

    A feature may also have `async def after_step(self, context: AgentContext, step: AgentStep)`,
    which is called after an answer, and after all tool calls of a response have ended.
    `context.messages` ends with their results and is sent with the next call to the model: a
    feature can shorten old results, remove images or add an instruction. An exception ends the run.

    One instance serves all runs of the agent, several at once: keep the state of a run in its
    context.
    """

    async def before_model(self, context: AgentContext) -> None:
        """Prepare a run before the model is called. An exception ends the run."""
        ...

    async def after_answer(self, context: AgentContext) -> None:
        """Process an answer before the run returns it.

        The caller of the run gets an exception as a `FeatureError` with the answer.
        """
        ...


StepHook: TypeAlias = Callable[[AgentContext, AgentStep], Awaitable[None]]
"""The method `after_step` of a feature."""
