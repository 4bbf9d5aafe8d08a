"""MemoryRuns: loads and detects facts around the runs of an agent, in any framework."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from typing_extensions import TypedDict

from factmem._arguments import expect, expect_function, expect_within
from factmem.detection.report import Detection, DetectionReport
from factmem.errors import (
    ExtractionError,
    FactmemError,
    InputError,
    InputValueError,
    KeyRequiredError,
    MemoryAccessError,
    MissingExtraError,
    UnboundSubjectError,
    WrongKeyError,
)
from factmem.llm.base import MEMORY_MESSAGE, History, last_said, put_own_text
from factmem.memory._selection import Who
from factmem.memory.agent_memory import AgentMemory, view_for, view_of_anyone
from factmem.memory.tools import MemoryTool
from factmem.models._values import checked_name
from factmem.models.facts import new_id
from factmem.prompt.memory_message import LoadReport

__all__ = ["MemoryRuns", "RunOptions", "Who"]

C = TypeVar("C")
T = TypeVar("T")

Chat: TypeAlias = Sequence[Mapping[str, object]]
"""Messages in the format of chat completions."""

Placement: TypeAlias = Literal["instructions", "message"]
"""Where an adapter puts the facts; beside the user's last message they leave the cached prompt as
it is."""

UNREACHABLE = "The memory of earlier conversations cannot be reached now."
"""The text that a model gets instead of facts if the store fails."""

AT_ONCE = timedelta(microseconds=1)
"""The `learn_after` of a chat that is due when it is stored."""

_HISTORY_TOKENS = 8000
"""The most tokens of earlier messages: twenty exchanges of 400 tokens, a tenth of a small
context."""

PREFIX = "memory_"
"""The default prefix of the tools' names."""

_MISTAKES = (
    InputError,
    UnboundSubjectError,
    MemoryAccessError,
    MissingExtraError,
    KeyRequiredError,
    WrongKeyError,
)
_log = logging.getLogger("factmem.memory")


class LoadAndLearnOptions(TypedDict, total=False):
    """The options of `MemoryRuns` without `user`, which `agent.install` has as well."""

    recall: int | None
    auto_detect: bool
    conversations: bool
    learn: bool
    history_tokens: int | None
    detection: Detection | None
    tools: bool
    save: bool
    prefix: str
    on_report: Callable[[DetectionReport], None] | None
    on_failure: Callable[[Exception], None] | Literal["raise"] | None


class RunOptions(LoadAndLearnOptions, Generic[C], total=False):
    """The options of `MemoryRuns` for adapters; see there."""

    user: "Who | Callable[[C], Who]"


class MemoryRuns(Generic[C]):
    """Loads facts before and detects facts after each run of an agent, for any framework.

        runs = MemoryRuns(memory, user=lambda context: context.user, auto_detect=True)
        text = await runs.prompt(context, chat)         # before a model call
        await runs.learn(context, chat, since=1)        # after the answer

    A failure of the store or of the memory's models does not end a run: `on_failure` gets the
    error, and the model reads that the memory cannot be reached. Errors of the application are
    raised before the first call to a model: a subject without its entity, a read-only view, a
    missing key or extra.

    Args:
        memory: The memory. `C` is the framework's context of a run.
        user: The user of all runs, or a function of the context. See `Who`.
        recall: The most facts and quotes of `prompt`, those relevant to the question; else all
            facts.
        auto_detect: Whether `learn` detects facts in the user's words at once. One model call each.
        conversations: Whether `learn` stores the messages of the run under its conversation, and
            queues them for `MemoryConversations.learn`, which detects their facts in any process:
            no run waits for it, and neither a failing model nor a killed process loses anything.
            With `auto_detect` they are due at once, else when the chat has rested for 30 seconds.
        learn: Whether stored messages are queued. False only stores them.
        history_tokens: The most tokens of `history`, as `estimate_tokens` counts them; 8,000 by
            default, 0 for none.
        detection: How `auto_detect` detects facts; by default the memory's `detection`.
        tools: Whether the model gets tools.
        save: Whether `save` is among them; see `AgentMemory.tools`.
        prefix: The prefix of the tools' names.
        on_report: Called with each report of `auto_detect`, which includes rejected items.
        on_failure: Called with each error; by default its type is logged. With "raise" the error
            ends the run.

    Raises:
        TypeError: An argument has the wrong type, or `tools` or `conversations` needs a provider
            that is a `FactStore`.
        ValueError: The memory has no scope, no per-entity subject for `user`, no chat model for
            `auto_detect`, `recall` is less than 1, or an option has no effect.
        UnboundSubjectError: There is no `user`, and a per-entity subject has no entity.
    """

    def __init__(
        self,
        memory: AgentMemory,
        *,
        user: "Who | Callable[[C], Who]" = None,
        recall: int | None = None,
        auto_detect: bool = False,
        conversations: bool = False,
        learn: bool = True,
        history_tokens: int | None = None,
        detection: Detection | None = None,
        tools: bool = True,
        save: bool = False,
        prefix: str = PREFIX,
        on_report: Callable[[DetectionReport], None] | None = None,
        on_failure: Callable[[Exception], None] | Literal["raise"] | None = None,
    ) -> None:
        self.memory: AgentMemory = expect(memory, AgentMemory, "memory", "AgentMemory(provider)")
        self._user = user
        if recall is not None:
            expect_within(recall, int, "recall", "recall=10", least=1)
        self._recall = recall
        self.is_learning: bool = auto_detect or conversations
        """Whether `learn` does anything: an adapter without it need not call it."""
        self._is_keeping, self._is_queueing = conversations, learn
        self._learn_after = AT_ONCE if auto_detect and conversations else None
        at_once = auto_detect and not conversations
        if at_once and memory.chat_model is None:
            raise InputValueError(
                "auto_detect needs a model to detect facts: AgentMemory(..., chat_model=...)"
            )
        if conversations:
            _ = memory.store  # raises for a provider that keeps none
        stored = "conversations=True"
        run = "auto_detect=True alone: stored chats are learnt by a worker, by the memory's options"
        for option, is_idle, needed in (
            ("learn=False", not learn and not conversations, stored),
            ("history_tokens", history_tokens is not None and not conversations, stored),
            ("learn=False", not learn and auto_detect, "auto_detect=False"),
            ("detection", detection is not None and not at_once, run),
            ("on_report", on_report is not None and not at_once, run),
            ("save=True", save and not tools, "tools=True"),
            ("prefix", prefix != PREFIX and not tools, "tools=True"),
        ):
            if is_idle:
                raise InputValueError(f"{option} has no effect without {needed}")
        self._history_tokens = _HISTORY_TOKENS
        if history_tokens is not None:
            self._history_tokens = expect_within(
                history_tokens, int, "history_tokens", "history_tokens=4000", least=0
            )
        if detection is not None:
            expect(detection, Detection, "detection", "detection=Detection(verify='new')")
        self._detection = detection
        if on_report is not None:
            expect_function(on_report, "on_report", "on_report=reports.append")
        if on_failure is not None and on_failure != "raise":
            expect_function(on_failure, "on_failure", "on_failure=failures.append or 'raise'")
        self.on_report: Callable[[DetectionReport], None] = on_report or (lambda _: None)
        """Called with the report of each detection."""
        listener = on_failure or _log_failure
        self.on_failure: Callable[[Exception], None] = _raise if listener == "raise" else listener
        """Called with each error of the store or of a model."""
        view = view_of_anyone(memory) if callable(user) else view_for(memory, user)
        sample = view.tools(prefix, save=save) if tools else []
        self._tools: list[MemoryTool] = MemoryTool.late(
            sample, lambda each: self.view(each).tools(prefix, save=save), self.attempt
        )

    def view(self, context: C) -> AgentMemory:
        """Return the memory of the run's user.

        Raises:
            UnboundSubjectError: The context has no user, and a per-entity subject has no entity.
            TypeError: `user` returned another type.
        """
        given = self._user
        return view_for(self.memory, given(context) if callable(given) else given)

    async def prompt(self, context: C, chat: str | Chat = ()) -> str:
        """Return the facts for the model as text; empty if there are none.

        Equal facts give equal text: you can call it before every model call. If the store fails,
        the text tells the model that the memory cannot be reached.

        Args:
            context: The framework's context of the run.
            chat: The messages, or the user's text, for `recall`.
        """
        view = self.view(context)
        if self._recall is None:
            text = await self.attempt(view.text)
            return UNREACHABLE if text is None else text
        said = [{"role": "user", "content": chat}] if isinstance(chat, str) else chat
        most, asked = self._recall, last_said(said)
        if not asked.strip():
            return ""
        recall = view.recall_facts_to_agent  # with the chat, so that nothing of it is quoted
        found = await self.attempt(lambda: recall([*said], asked, limit=most))
        return UNREACHABLE if found is None else found.text

    async def history(self, context: C, conversation: str | None) -> list[dict[str, Any]]:
        """Return the newest stored messages of a conversation, for the model that continues it.

        Put them before the messages of the run, in hosts that keep no history, and pass their
        number as part of `since` to `learn`. There are none without `conversations`, and if the
        store fails. Within `history_tokens` they are those of
        `Conversation.messages(max_tokens=...)`.

        Args:
            context: The framework's context of the run.
            conversation: The application's name for the conversation.

        Raises:
            ValueError: The messages are stored, and the conversation has no name.
        """
        name = self.named(conversation)
        if not self._is_keeping or not self._history_tokens:
            return []
        chat, most = self.view(context).conversation(name), self._history_tokens
        return await self.attempt(lambda: chat.messages(max_tokens=most)) or []

    async def load(
        self, context: C, messages: list[History], question: str | None = None
    ) -> LoadReport | None:
        """Put the facts into a chat as its memory message, or `UNREACHABLE` if the store fails.

        Args:
            context: The framework's context of the run.
            messages: The chat; changed in place.
            question: The text for `recall`; by default the user's last message.

        Returns:
            The report; None if the store failed.
        """
        view, limit = self.view(context), self._recall

        async def put() -> LoadReport:
            if limit is None:
                return await view.load_facts_to_agent(messages)
            asked = question or last_said(messages)
            return await view.recall_facts_to_agent(messages, asked, limit=limit)

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
        ids: Sequence[str] | None = None,
        is_stored: bool = False,
    ) -> DetectionReport | None:
        """Detect the facts that a chat states, and save them.

        With `conversations` the messages of this run are stored and queued, in one durable write.
        Those of a run without a conversation are one of their own.

        Args:
            context: The framework's context of the run.
            chat: The messages, with the answer.
            since: The index of the first message of this run.
            conversation: The application's name for the conversation.
            said_at: The time of messages without a time; by default the time of this call.
            ids: The ids of the messages of this run: those that are stored are left out.
            is_stored: Whether a history adapter stores the messages of this conversation.

        Returns:
            The report of the detection; None without one, and after a failure.
        """
        if len(chat) <= since or not self.is_learning:
            return None
        view = self.view(context)

        if self._is_keeping:
            name, rest = conversation or f"run-{new_id()}", self._learn_after
            kept = view.conversation(name, learn=self._is_queueing, learn_after=rest)
            if not is_stored:
                await self.attempt(lambda: kept.append(*chat[since:], said_at=said_at, ids=ids))
            return None
        report = await self.attempt(
            lambda: view.auto_detect_facts(
                chat,
                since=since,
                conversation=conversation,
                said_at=said_at,
                detection=self._detection,
            )
        )
        if report is not None:
            self.on_report(report)
        return report

    def named(self, conversation: str | None) -> str:
        """Return the name of a conversation whose messages are to be stored.

        Raises:
            ValueError: It has none, or one that is not valid.
        """
        if not self._is_keeping:
            return conversation or ""
        if conversation is None:
            raise InputValueError(
                "conversations=True stores messages under the name of their conversation: "
                "agent.run(text, conversation='chat-7'), or runs.learn(..., conversation='chat-7')"
            )
        return checked_name(conversation, "name of a conversation")

    def tools(self) -> list[MemoryTool]:
        """Return the tools, always the same objects; empty with `tools=False`.

        The context of a call is that of the run. If the store fails, the answer is an error message
        for the model.
        """
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


def _raise(failure: Exception) -> None:
    raise failure


def _log_failure(failure: Exception) -> None:
    # Of a cause only the class: messages of other libraries may quote requests.
    cause = failure.__cause__
    reason = f"{failure}" if isinstance(failure, ExtractionError) else ""
    if cause is not None:
        reason = type(cause).__name__
    name = type(failure).__name__
    _log.error("The memory failed, the run continues: %s", f"{name}: {reason}" if reason else name)
