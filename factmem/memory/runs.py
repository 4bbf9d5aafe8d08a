"""MemoryRuns: loads and detects facts around the runs of an agent, in any framework."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Generic, Self, TypeAlias, TypeVar

from anyio.lowlevel import current_token
from typing_extensions import TypedDict

from factmem._arguments import expect, expect_function, expect_within
from factmem._concurrency.background import BackgroundWork
from factmem.detection.report import DetectionReport
from factmem.detection.request import Detection
from factmem.errors import (
    FactmemError,
    KeyRequiredError,
    MemoryAccessError,
    MissingExtraError,
    UnboundSubjectError,
    WrongKeyError,
)
from factmem.llm.base import ToolDefinition
from factmem.llm.messages import MEMORY_MESSAGE, History, put_own_text
from factmem.memory._selection import keys_of
from factmem.memory._users import Who, view_for, view_of_anyone
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.tools import MemoryTool
from factmem.models.boundary import check_writable
from factmem.models.places import MemorySubject, subject_keys
from factmem.prompt.memory_message import LoadReport
from factmem.providers._four_methods import as_store

__all__ = ["MemoryRuns", "RunOptions", "RunTool"]

C = TypeVar("C")
T = TypeVar("T")

Chat: TypeAlias = Sequence[Mapping[str, object]]
"""Messages in the format of chat completions."""

UNREACHABLE = "The memory of earlier conversations cannot be reached now."
"""The text that a model gets instead of facts if the store fails."""

_TOOL_UNREACHABLE = "Error: the memory cannot be reached now. Go on without it."
_MISTAKES = (
    UnboundSubjectError,
    MemoryAccessError,
    MissingExtraError,
    KeyRequiredError,
    WrongKeyError,
)
_log = logging.getLogger("factmem.memory")


class RunOptions(TypedDict, Generic[C], total=False):
    """The options of `MemoryRuns` for adapters; see there."""

    user: "Who | Callable[[C], Who]"
    recall: int | None
    auto_detect: bool
    detection: Detection | None
    tools: bool
    save: bool
    prefix: str
    on_report: Callable[[DetectionReport], None] | None
    on_failure: Callable[[Exception], None] | None


class RunTool(Generic[C]):
    """A memory tool for the user of the current run; a failure of the store becomes an answer.

    The context of a call is that of the run.
    """

    def __init__(
        self,
        tool: MemoryTool,
        action: str,
        attempt: Callable[[Callable[[], Awaitable[str]]], Awaitable[str | None]],
    ) -> None:
        self.name: str = tool.name
        """The name that the model calls."""
        self.action = action
        """`recall`, `list_concepts`, `remember`, `save` or `forget`."""
        self.definition: ToolDefinition = tool.definition
        """Name, description and the JSON schema of the arguments, in the format of chat
        completions."""
        function: Any = tool.definition["function"]
        self.description: str = function["description"]
        """The description for the model."""
        self.schema: dict[str, Any] = function["parameters"]
        """The JSON schema of the arguments."""
        self._tool = tool
        self._attempt = attempt

    def __repr__(self) -> str:
        return f"RunTool({self.name!r})"

    async def call(self, arguments: str | Mapping[str, object] | None, context: C) -> str:
        """Run the tool for the user of a run; see `MemoryTool.call`.

        If the store fails, the answer is an error message.
        """
        answer = await self._attempt(lambda: self._tool.call(arguments, context))
        return _TOOL_UNREACHABLE if answer is None else answer


class MemoryRuns(Generic[C]):
    """Loads facts before and detects facts after each run of an agent, for any framework.

        runs = MemoryRuns(memory, user=lambda context: context.user, auto_detect=True)
        text = await runs.prompt(context, question)     # before a model call
        await runs.learn(context, chat, since=1)        # after the answer

    A failure of the store or of the memory's models does not end a run: `on_failure` gets the
    error, and the model reads that the memory cannot be reached. Errors of the application are
    raised before the first call to a model: a subject without its entity, a view that is not
    writable, a missing key or extra.

    Use it as an async context manager to detect facts after the run has returned; the end of the
    block waits for that. Elsewhere, or in another event loop, `learn` detects facts immediately.

    Args:
        memory: The memory. `C` is the framework's context of a run.
        user: The user of all runs, or a function of the context. See `Who`.
        recall: The maximum of facts that `prompt` returns, those relevant to the question; else
            all.
        auto_detect: Whether `learn` detects facts in the user's words. One model call each.
        detection: How `learn` detects facts; by default the memory's `detection`.
        tools: Whether the model gets tools.
        save: Whether `save` is among them; see `AgentMemory.tools`.
        prefix: The prefix of the tools' names.
        on_report: Called with the report of each detection, which includes rejected items.
        on_failure: Called with each error; by default its type is logged.

    Raises:
        TypeError: An argument has the wrong type, or `tools` needs a provider that is a
            `FactStore`.
        ValueError: The memory has no scope, no per-entity subject for `user`, no chat model for
            `auto_detect`, or `recall` is less than 1.
        UnboundSubjectError: There is no `user`, and a per-entity subject has no entity.
    """

    def __init__(
        self,
        memory: AgentMemory,
        *,
        user: "Who | Callable[[C], Who]" = None,
        recall: int | None = None,
        auto_detect: bool = False,
        detection: Detection | None = None,
        tools: bool = True,
        save: bool = False,
        prefix: str = "memory_",
        on_report: Callable[[DetectionReport], None] | None = None,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        self.memory: AgentMemory = expect(memory, AgentMemory, "memory", "AgentMemory(provider)")
        self._user = user
        if recall is not None:
            expect_within(recall, int, "recall", "recall=10", least=1)
        self._recall = recall
        self.is_detecting = auto_detect
        """Whether `learn` detects facts."""
        if auto_detect and memory.chat_model is None:
            raise ValueError(
                "auto_detect needs a model to detect facts: AgentMemory(..., chat_model=...)"
            )
        if detection is not None and not auto_detect:
            raise ValueError("detection needs auto_detect=True: nothing else detects facts")
        example = "detection=Detection(doubtful='verify')"
        self._detection = (
            memory.detection
            if detection is None
            else expect(detection, Detection, "detection", example)
        )
        if on_report is not None:
            expect_function(on_report, "on_report", "on_report=reports.append")
        if on_failure is not None:
            expect_function(on_failure, "on_failure", "on_failure=failures.append")
        self.on_report: Callable[[DetectionReport], None] = on_report or _ignore
        """Called with the report of each detection."""
        self.on_failure: Callable[[Exception], None] = on_failure or _log_failure
        """Called with each error of the store or of a model."""
        self._background = BackgroundWork(self.on_failure)
        self._loop: object = None
        view = view_of_anyone(memory) if callable(user) else view_for(memory, user)
        sample = view.tools(prefix, save=save) if tools else []
        late = MemoryTool.late(sample, lambda each: self.view(each).tools(prefix, save=save))
        self._tools: list[RunTool[C]] = [
            RunTool(each, each.name.removeprefix(prefix), self.attempt) for each in late
        ]

    @classmethod
    def over(
        cls, memory: "AgentMemory | MemoryRuns[C]", options: "RunOptions[C]"
    ) -> "MemoryRuns[C]":
        """Return `MemoryRuns` for a memory and options, or the `MemoryRuns` that was passed.

        Adapters accept both: an application can open the runs itself, in its own event loop.

        Raises:
            TypeError: Options were passed with `MemoryRuns`.
        """
        if not isinstance(memory, MemoryRuns):
            return cls(memory, **options)
        if options:
            raise TypeError(
                f"{next(iter(options))} must be set on the MemoryRuns that you pass: "
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
            UnboundSubjectError: The context has no user, and a per-entity subject has no entity.
            TypeError: `user` returned another type.
        """
        given = self._user
        return view_for(self.memory, given(context) if callable(given) else given)

    async def prompt(self, context: C, question: str | None = None) -> str:
        """Return the facts for the model as text; empty if there are none.

        Equal facts give equal text: you can call it before every model call. If the store fails,
        the text tells the model that the memory cannot be reached.

        Args:
            context: The framework's context of the run.
            question: The user's text, for `recall`.
        """
        view = self.view(context)
        if self._recall is None:
            text = await self.attempt(view.text)
        else:
            limit, asked = self._recall, question or ""
            text = await self.attempt(lambda: view.text(asked, limit)) if asked.strip() else ""
        return UNREACHABLE if text is None else text

    async def load(
        self, context: C, messages: list[History], question: str | None = None
    ) -> LoadReport | None:
        """Put the facts into a chat as its memory message, or `UNREACHABLE` if the store fails.

        Args:
            context: The framework's context of the run.
            messages: The chat; changed in place.
            question: The user's text, for `recall`; by default the user's last message.

        Returns:
            The report; None if the store failed.
        """
        view, limit = self.view(context), self._recall

        async def put() -> LoadReport:
            if limit is None:
                return await view.load_all_facts_to_agent(messages)
            return await view.recall_facts_to_agent(messages, question, limit=limit)

        report = await self.attempt(put)
        if report is None:
            put_own_text(messages, MEMORY_MESSAGE, UNREACHABLE)
        return report

    async def learn(
        self,
        context: C,
        chat: Chat,
        *,
        since: int = 0,
        conversation: str | None = None,
        said_at: datetime | None = None,
    ) -> DetectionReport | None:
        """Detect facts in a chat, immediately or in the background of an open block.

        Args:
            context: The framework's context of the run.
            chat: The messages, with the answer.
            since: The index of the first message of this run.
            conversation: The application's name for the conversation.
            said_at: The time of messages without a time; by default the time of this call.

        Returns:
            The report of an immediate detection; None in the background or after a failure.
        """
        detect = await self.attempt(
            lambda: self.detection(
                context, chat, since=since, conversation=conversation, said_at=said_at
            )
        )
        if detect is None:
            return None
        if self._loop is None or self._loop != current_token():
            return await self.attempt(detect)

        async def detect_later() -> None:
            await self.attempt(detect)

        line = subject_keys(self.view(context).subjects)
        self._background.start(detect_later, line=line, about=line)
        return None

    async def detection(
        self,
        context: C,
        chat: Chat,
        *,
        since: int = 0,
        conversation: str | None = None,
        said_at: datetime | None = None,
    ) -> Callable[[], Awaitable[DetectionReport]] | None:
        """Return a function that detects facts in a chat, for your own background; see `learn`.

        The function uses the chat, the time and the moment of erasures of this call, and raises its
        errors. None if there is nothing to detect.
        """
        if not self.is_detecting or len(chat) <= since:
            return None
        view, messages = self.view(context), [dict(each) for each in chat]
        when = self.memory.clock() if said_at is None else said_at
        for place in view.places:
            check_writable(place, view.boundary)  # here, because later errors are in the background
        store = as_store(view.provider)
        read_at = {
            place.identity: await store.moment(place.subject, place.scope) for place in view.places
        }

        async def detect() -> DetectionReport:
            report = await view.auto_detect_facts(
                messages,
                since=since,
                conversation=conversation,
                said_at=when,
                detection=self._detection,
                read_at=read_at,
            )
            self.on_report(report)
            return report

        return detect

    async def flush(
        self, *, subjects: Iterable[MemorySubject] | None = None, deadline: float | None = None
    ) -> None:
        """Wait for detections that were started before this call.

        Args:
            subjects: Wait only for runs with any of these subjects.
            deadline: The maximum time to wait, in seconds.

        Raises:
            TimeoutError: A detection was pending at the deadline. It continues.
        """
        await self._background.drain(keys_of(subjects), deadline=deadline)

    def pending(self, *, subjects: Iterable[MemorySubject] | None = None) -> int:
        """Return the number of pending detections, of all subjects or of these."""
        return self._background.count(keys_of(subjects))

    def tools(self) -> list[RunTool[C]]:
        """Return the tools, always the same objects; empty with `tools=False`."""
        return list(self._tools)

    async def attempt(self, work: Callable[[], Awaitable[T]]) -> T | None:
        """Return the result of a function; None if the store or a model fails."""
        try:
            return await work()
        except _MISTAKES:
            raise
        except (FactmemError, OSError) as exc:
            self.on_failure(exc)
            return None


def _ignore(report: DetectionReport) -> None:
    """Do nothing; the default of `on_report`."""


def _log_failure(failure: Exception) -> None:
    # Only the class: messages of other libraries may quote requests.
    _log.error("The memory failed, the run continues: %s", type(failure).__name__)
