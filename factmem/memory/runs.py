"""MemoryRuns: a memory around the runs of an agent, in any framework."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeAlias, TypeVar

from anyio.lowlevel import current_token
from typing_extensions import TypedDict

from factmem._arguments import expect, expect_function, kind_of
from factmem.concurrency.background import BackgroundWork
from factmem.detection.report import DetectionReport
from factmem.errors import (
    FactmemError,
    KeyRequiredError,
    MemoryAccessError,
    MissingExtraError,
    UnboundSubjectError,
    WrongKeyError,
)
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.tools import MemoryTool
from factmem.models.checked import checked_subjects
from factmem.models.places import MemorySubject, subject_keys

__all__ = ["UNREACHABLE", "Chat", "MemoryRuns", "RunOptions", "RunTool", "Who"]

C = TypeVar("C")
T = TypeVar("T")

Who: TypeAlias = str | MemorySubject | Iterable[MemorySubject] | None
"""The user of a run: the entity of the memory's per-entity subjects, or subjects. None if the
memory is bound already."""

Chat: TypeAlias = Sequence[Mapping[str, object]]
"""Messages in the form of chat completions."""

UNREACHABLE = "The memory of earlier conversations cannot be reached now."
"""The text that a model gets in place of facts when the store fails."""

_TOOL_UNREACHABLE = "Error: the memory cannot be reached now. Go on without it."
_MISTAKES = (
    UnboundSubjectError,
    MemoryAccessError,
    MissingExtraError,
    KeyRequiredError,
    WrongKeyError,
)
_STAND_IN = "someone"
_log = logging.getLogger("factmem.memory")


class RunOptions(TypedDict, Generic[C], total=False):
    """The options of `MemoryRuns`, as adapters take them; see there."""

    user: "Who | Callable[[C], Who]"
    auto_load: bool
    recall: int | None
    auto_detect: bool
    tools: bool
    save: bool
    prefix: str
    on_report: Callable[[DetectionReport], None] | None
    on_failure: Callable[[Exception], None] | None


class RunTool(Generic[C]):
    """A memory tool that learns the user when it is called, not when it is made."""

    def __init__(
        self,
        tool: MemoryTool,
        action: str,
        call: Callable[[str, "str | Mapping[str, object] | None", C], Awaitable[str]],
    ) -> None:
        self.name: str = tool.name
        """The name that the model calls."""
        self.action = action
        """`recall`, `list_concepts`, `remember`, `save` or `forget`."""
        function: Any = tool.definition["function"]
        self.description: str = function["description"]
        """The description for the model."""
        self.schema: dict[str, Any] = function["parameters"]
        """The JSON schema of the arguments."""
        self._call = call

    def __repr__(self) -> str:
        return f"RunTool({self.name!r})"

    async def call(self, arguments: str | Mapping[str, object] | None, context: C) -> str:
        """Run the tool for the user of a run; see `MemoryTool.call`.

        If the store fails, the answer says so.
        """
        return await self._call(self.name, arguments, context)


class MemoryRuns(Generic[C]):
    """What a memory does around each run of an agent, whatever framework runs it.

        runs = MemoryRuns(memory, user=lambda context: context.user, auto_detect=True)
        text = await runs.prompt(context, question)     # before a model call
        await runs.learn(context, chat, since=1)        # after the answer

    A failure of the store, or of a model that the memory asks, ends no run: `on_failure` gets it
    and the model reads that the memory cannot be reached. A mistake is raised, and before the
    first model call: a subject without its entity, a view that does not allow the write, a missing
    key or extra.

    Use it as an async context manager to detect facts after the run has returned. Leaving the
    block waits for them. Outside of it, and in another event loop, `learn` detects at once.

    Args:
        memory: The memory. `C` is the framework's context of a run.
        user: The user of all runs, or a function of the context. See `Who`.
        auto_load: Whether `prompt` gives facts.
        recall: The most facts that `prompt` gives, those that the question is about; all by
            default.
        auto_detect: Whether `learn` finds facts in what the user said. One model call each.
        tools: Whether the model gets tools.
        save: Whether `save` is among them; see `AgentMemory.tools`.
        prefix: The beginning of the tools' names.
        on_report: Gets the report of each detection, with what was rejected.
        on_failure: Gets each failure; by default it is logged by its type.

    Raises:
        TypeError: An argument is of another type, or the provider of `tools` is no `FactStore`.
        ValueError: The memory has no scope, no per-entity subject for `user`, no chat model for
            `auto_detect`, or `recall` is less than 1.
        UnboundSubjectError: There is no `user`, and a per-entity subject has no entity.
    """

    def __init__(
        self,
        memory: AgentMemory,
        *,
        user: "Who | Callable[[C], Who]" = None,
        auto_load: bool = True,
        recall: int | None = None,
        auto_detect: bool = False,
        tools: bool = True,
        save: bool = False,
        prefix: str = "memory_",
        on_report: Callable[[DetectionReport], None] | None = None,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        self.memory: AgentMemory = expect(memory, AgentMemory, "memory", "AgentMemory(provider)")
        self._user = user
        self._auto_load = auto_load
        self._recall = _checked_recall(recall, auto_load=auto_load)
        self.is_detecting = auto_detect
        """Whether `learn` does anything."""
        if auto_detect and memory.chat_model is None:
            raise ValueError(
                "auto_detect needs a model that finds facts: AgentMemory(..., chat_model=...)"
            )
        self._tool_options: dict[str, Any] = {"prefix": prefix, "save": save}
        if on_report is not None:
            expect_function(on_report, "on_report", "on_report=reports.append")
        if on_failure is not None:
            expect_function(on_failure, "on_failure", "on_failure=failures.append")
        self.on_report: Callable[[DetectionReport], None] = on_report or _ignore
        """Gets the report of each detection."""
        self.on_failure: Callable[[Exception], None] = on_failure or _log_failure
        """Gets each failure of the store or of a model."""
        self._background = BackgroundWork(self.on_failure)
        self._loop: object = None
        sample = _bound(memory, _STAND_IN) if callable(user) else _view(memory, user)
        self._tools = [self._run_tool(each, prefix) for each in self._made(sample)] if tools else []

    def _made(self, view: AgentMemory) -> list[MemoryTool]:
        return view.tools(**self._tool_options)

    def _run_tool(self, tool: MemoryTool, prefix: str) -> RunTool[C]:
        return RunTool(tool, tool.name.removeprefix(prefix), self._call)

    @classmethod
    def over(
        cls, memory: "AgentMemory | MemoryRuns[C]", options: "RunOptions[C]"
    ) -> "MemoryRuns[C]":
        """Return runs over a memory with options, or the runs themselves.

        An adapter that takes either lets the application open the runs around its own loop.

        Raises:
            TypeError: There are runs and options.
        """
        if not isinstance(memory, MemoryRuns):
            return cls(memory, **options)
        if options:
            raise TypeError(
                f"{next(iter(options))} belongs to the MemoryRuns that you pass: "
                f"MemoryRuns(memory, {next(iter(options))}=...)"
            )
        return memory

    async def __aenter__(self) -> Self:
        await self._background.__aenter__()
        self._loop = current_token()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._loop = None
        await self._background.__aexit__(exc_type, exc, traceback)

    def view(self, context: C) -> AgentMemory:
        """Return the memory of the run's user.

        Raises:
            UnboundSubjectError: The context names no user, and a per-entity subject has no entity.
            TypeError: `user` returned another type.
        """
        given = self._user
        if callable(given) and not isinstance(given, MemorySubject):
            return _view(self.memory, given(context))
        return _view(self.memory, given)

    async def prompt(self, context: C, question: str | None = None) -> str:
        """Return the facts to show the model; empty if there are none.

        The same facts give the same text, so it may be made anew before every model call. If the
        store fails, the text says so.

        Args:
            context: The framework's context of the run.
            question: The user's text, for `recall`.
        """
        view = self.view(context)
        if not self._auto_load:
            return ""
        if self._recall is None:
            text = await self.attempt(view.text)
        else:
            limit, asked = self._recall, question or ""
            text = await self.attempt(lambda: view.text(asked, limit)) if asked.strip() else ""
        return UNREACHABLE if text is None else text

    async def learn(
        self, context: C, chat: Chat, *, since: int = 0, conversation: str | None = None
    ) -> DetectionReport | None:
        """Find facts in a chat; at once, or in the background of an open block.

        Args:
            context: The framework's context of the run.
            chat: The messages, with the answer.
            since: The index of the first message of this run.
            conversation: The application's name for the conversation.

        Returns:
            The report, if the facts were looked for at once and nothing failed.
        """
        if not self.is_detecting or len(chat) <= since:
            return None
        view, messages = self.view(context), [dict(each) for each in chat]

        read_at = await self.attempt(view.moment)
        if read_at is None:
            return None

        async def detect() -> DetectionReport:
            report = await view.auto_detect_facts(
                messages, since=since, conversation=conversation, read_at=read_at
            )
            self.on_report(report)
            return report

        if self._loop is None or self._loop != current_token():
            return await self.attempt(detect)

        async def detect_later() -> None:
            await self.attempt(detect)

        line = subject_keys(view.subjects)
        self._background.start(detect_later, line=line, about=line)
        return None

    async def flush(
        self, *, subjects: Iterable[MemorySubject] | None = None, deadline: float | None = None
    ) -> None:
        """Wait for detections that were started before this call.

        Args:
            subjects: Only detections for runs with any of these subjects.
            deadline: The most seconds to wait.

        Raises:
            TimeoutError: A detection was pending at the deadline. It goes on.
        """
        about = None if subjects is None else subject_keys(checked_subjects(subjects))
        await self._background.drain(about, deadline=deadline)

    def pending(self, *, subjects: Iterable[MemorySubject] | None = None) -> int:
        """Return the number of detections that are not done, or of those for these subjects."""
        about = None if subjects is None else subject_keys(checked_subjects(subjects))
        return self._background.count(about)

    def tools(self) -> list[RunTool[C]]:
        """Return the tools, made once; empty with `tools=False`."""
        return list(self._tools)

    async def _call(
        self, name: str, arguments: str | Mapping[str, object] | None, context: C
    ) -> str:
        (tool,) = (each for each in self._made(self.view(context)) if each.name == name)
        answer = await self.attempt(lambda: tool.call(arguments))
        return _TOOL_UNREACHABLE if answer is None else answer

    async def attempt(self, work: Callable[[], Awaitable[T]]) -> T | None:
        """Return what a function returns, or None if the store or a model failed."""
        try:
            return await work()
        except _MISTAKES:
            raise
        except (FactmemError, OSError) as exc:
            self.on_failure(exc)
            return None


def _view(memory: AgentMemory, who: object) -> AgentMemory:
    if who is None:
        for subject in memory.subjects:
            subject.check_bound()
        return memory
    if isinstance(who, str):
        return memory.of(who)
    if isinstance(who, MemorySubject):
        return memory.view(subjects=[who])
    if isinstance(who, Iterable):
        return memory.view(subjects=who)
    raise TypeError(
        f"user must be a string, a MemorySubject or a function of the run's context that returns "
        f"one, not {kind_of(who)}: user=lambda context: context.user"
    )


def _bound(memory: AgentMemory, entity: str) -> AgentMemory:
    return memory.view(
        subjects=[
            each.of(entity) if each.per_entity and each.entity is None else each
            for each in memory.subjects
        ]
    )


def _checked_recall(recall: int | None, *, auto_load: bool) -> int | None:
    if recall is None:
        return None
    expect(recall, int, "recall", "recall=10")
    if recall < 1:
        raise ValueError("recall is the most facts to show: a number from 1 on")
    if not auto_load:
        raise ValueError("recall chooses what is loaded: leave out recall or auto_load=False")
    return recall


def _ignore(report: DetectionReport) -> None:
    """The default of `on_report`."""


def _log_failure(failure: Exception) -> None:
    # The class alone: messages of other libraries may quote requests.
    _log.error("The memory failed and the run went on: %s", type(failure).__name__)
