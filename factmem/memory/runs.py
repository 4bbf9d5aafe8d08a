"""MemoryRuns: a memory around the runs of an agent, in any framework."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Generic, Self, TypeAlias, TypeVar

from anyio.lowlevel import current_token

from factmem._arguments import expect, expect_function
from factmem.concurrency.background import BackgroundWork
from factmem.detection.report import DetectionReport
from factmem.detection.request import DoubtfulItems, Verification
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
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.chat_detection import check_options
from factmem.memory.run_options import DetectionOptions, RunOptions, checked_recall
from factmem.memory.selection import keys_of
from factmem.memory.tools import MemoryTool
from factmem.memory.users import Who, view_for, view_of_anyone
from factmem.models.checked import checked_concepts
from factmem.models.facts import Concept
from factmem.models.places import MemorySubject, subject_keys
from factmem.prompt.memory_message import LoadReport
from factmem.prompt.transcript import CONTEXT

__all__ = ["UNREACHABLE", "Chat", "MemoryRuns", "RunOptions", "RunTool", "Who"]

C = TypeVar("C")
T = TypeVar("T")

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
_log = logging.getLogger("factmem.memory")


class RunTool(Generic[C]):
    """A memory tool that serves the user of the run it is called in. A failing store is an answer.

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
        """Name, description and the JSON schema of the arguments, as chat completions take it."""
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

        If the store fails, the answer says so.
        """
        answer = await self._attempt(lambda: self._tool.call(arguments, context))
        return _TOOL_UNREACHABLE if answer is None else answer


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
        detect: The only concepts to look for; all by default.
        context: See `AgentMemory.auto_detect_facts`, like the next two.
        doubtful: Whether doubtful items are saved.
        verify: The new items that a second call checks.
        speaker: The `name` of the user in chats of several people, or a function of the context.
        tools: Whether the model gets tools.
        save: Whether `save` is among them; see `AgentMemory.tools`.
        prefix: The beginning of the tools' names.
        on_report: Gets the report of each detection, with the rejected items.
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
        detect: Iterable[Concept[Any, Any]] | None = None,
        context: int | None = CONTEXT,
        doubtful: DoubtfulItems = "keep",
        verify: Verification = "off",
        speaker: "str | Callable[[C], str | None] | None" = None,
        tools: bool = True,
        save: bool = False,
        prefix: str = "memory_",
        on_report: Callable[[DetectionReport], None] | None = None,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        self.memory: AgentMemory = expect(memory, AgentMemory, "memory", "AgentMemory(provider)")
        self._user = user
        self._auto_load = auto_load
        self._recall = checked_recall(recall, auto_load=auto_load)
        self.is_detecting = auto_detect
        """Whether `learn` does anything."""
        if auto_detect and memory.chat_model is None:
            raise ValueError(
                "auto_detect needs a model that finds facts: AgentMemory(..., chat_model=...)"
            )
        check_options(doubtful, verify)
        if detect is not None and not auto_detect:
            raise ValueError("detect names the concepts to detect: set auto_detect as well")
        self._detection = DetectionOptions(
            only=None if detect is None else checked_concepts(detect, "detect=[THEME]"),
            context=context,
            doubtful=doubtful,
            verify=verify,
        )
        self._speaker = speaker
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
        return view_for(self.memory, given(context) if callable(given) else given)

    async def prompt(self, context: C, question: str | None = None) -> str:
        """Return the facts to show the model; empty if there are none.

        The same facts give the same text, so it may be made again before every model call. If the
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

    async def load(
        self, context: C, messages: list[History], question: str | None = None
    ) -> LoadReport | None:
        """Put the facts into a chat, as its memory message. If the store fails, it says so.

        Args:
            context: The framework's context of the run.
            messages: The chat; changed in place.
            question: The user's text, for `recall`; the user's last message by default.

        Returns:
            The report; None with `auto_load=False` and if the store failed.
        """
        view, limit = self.view(context), self._recall
        if not self._auto_load:
            return None

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
        """Find facts in a chat; at once, or in the background of an open block.

        Args:
            context: The framework's context of the run.
            chat: The messages, with the answer.
            since: The index of the first message of this run.
            conversation: The application's name for the conversation.
            said_at: The time of messages that carry none; the time of this call by default.

        Returns:
            The report, if the facts were looked for at once and nothing failed.
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
        """Return a function that finds facts in a chat, for your own background; see `learn`.

        The chat, the time and the moment of erasures are those of this call. The function raises
        what fails. None if there is nothing to look for.
        """
        if not self.is_detecting or len(chat) <= since:
            return None
        view, messages = self.view(context), [dict(each) for each in chat]
        speaker = self._speaker(context) if callable(self._speaker) else self._speaker
        when = self.memory.clock() if said_at is None else said_at
        read_at = await view.moment()

        async def detect() -> DetectionReport:
            report = await view.auto_detect_facts(
                messages,
                since=since,
                conversation=conversation,
                said_at=when,
                read_at=read_at,
                speaker=speaker,
                **self._detection,
            )
            self.on_report(report)
            return report

        return detect

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
        await self._background.drain(keys_of(subjects), deadline=deadline)

    def pending(self, *, subjects: Iterable[MemorySubject] | None = None) -> int:
        """Return the number of detections that are not done, or of those for these subjects."""
        return self._background.count(keys_of(subjects))

    def tools(self) -> list[RunTool[C]]:
        """Return the tools, made once; empty with `tools=False`."""
        return list(self._tools)

    async def attempt(self, work: Callable[[], Awaitable[T]]) -> T | None:
        """Return what a function returns, or None if the store or a model failed."""
        try:
            return await work()
        except _MISTAKES:
            raise
        except (FactmemError, OSError) as exc:
            self.on_failure(exc)
            return None


def _ignore(report: DetectionReport) -> None:
    """The default of `on_report`."""


def _log_failure(failure: Exception) -> None:
    # The class alone: messages of other libraries may quote requests.
    _log.error("The memory failed and the run went on: %s", type(failure).__name__)
