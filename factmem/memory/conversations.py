"""Conversations of a user: `Conversation` has the messages of one, `MemoryConversations` the queue.

A message is queued in the write that stores it, before the answer goes out. So neither a failing
endpoint nor a killed process loses what the user said.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from logging import getLogger
from typing import Any

import anyio
import orjson
from anyio.lowlevel import checkpoint

from factmem._arguments import expect_within, guided
from factmem.detection.report import DetectionReport
from factmem.errors import ChatModelError, ExtractionError, InputValueError, StorageError
from factmem.ledger._purging import REMOVED
from factmem.llm.base import (
    OWN_MESSAGES,
    ROLES,
    answered_id,
    called_ids,
    estimate_tokens,
    is_instruction,
    is_result,
)
from factmem.memory._parts import MemoryParts, detect_in_chat
from factmem.models._display import Displayed
from factmem.models._values import checked_name
from factmem.models.facts import AnyFact
from factmem.models.places import Place, acting_unless_named
from factmem.providers.conversation_store import ConversationStore
from factmem.providers.conversations import (
    ConversationInfo,
    LearningState,
    LearningTask,
    NewTurn,
    Turn,
    checked_span,
    new_turn,
)
from factmem.providers.provider import fact_store
from factmem.providers.results import RetractedFact

__all__ = ["Conversation", "MemoryConversations"]

_logger = getLogger("factmem.memory")

_LEASE = timedelta(minutes=10)
"""The time after which another worker may take a leased conversation."""

_FIRST_PAUSE, _LONGEST_PAUSE = timedelta(seconds=30), timedelta(hours=1)
"""The pause after the first failure, which doubles with each one, and its limit."""

_MOST_ATTEMPTS = 8
"""Failed attempts after which learning is given up: about an hour and a half."""

_CONTEXT = 20
"""The messages before the new ones that a model sees."""


@dataclass(slots=True)
class LearningRun(Displayed):
    """What a worker did."""

    learnt: int = 0
    """How many chats were learnt."""
    postponed: int = 0
    """How many attempts failed and will be repeated."""
    given_up: int = 0
    """How many chats were given up after their last attempt."""
    failures: list[Exception] = field(default_factory=list[Exception], repr=False)
    """The errors of failed attempts; the last hundred of them."""
    reports: list[DetectionReport] = field(default_factory=list[DetectionReport], repr=False)
    """The reports of the detections; the last hundred of them."""


async def _learn(
    store: ConversationStore,
    parts_at: Callable[[Place], MemoryParts],
    task: LearningTask,
    done: LearningRun,
) -> None:
    try:
        with anyio.fail_after(_LEASE.total_seconds() * 0.8):  # it must not outlive its lease
            upto, report = await _detected(store, parts_at(task.place), task)
    except (ChatModelError, ExtractionError, StorageError, TimeoutError) as exc:
        _logger.warning("Learning from a conversation failed: %s", type(exc).__name__)
        done.failures[:] = [*done.failures[-99:], exc]
        await _postpone(store, task, done)
        return
    if report is not None and report.erased:  # purged meanwhile: read what is left
        await _postpone(store, task, done)
    elif await store.learnt(task, upto):
        done.learnt += 1
        if report is not None:
            done.reports[:] = [*done.reports[-99:], report]


async def _detected(
    store: ConversationStore, parts: MemoryParts, task: LearningTask
) -> tuple[int, DetectionReport | None]:
    """Detect the facts of new messages; return the number after the last of them."""
    places = parts.selection.detection_places()
    moments = await parts.detector.moments(places)  # first: facts erased after them stay erased
    turns = await _new(store, task)
    if not turns or turns[-1].number < task.since:
        return task.since, None
    report = await detect_in_chat(
        parts,
        [{"timestamp": turn.said_at, **turn.message} for turn in turns],
        since=sum(turn.number < task.since for turn in turns),
        conversation=task.conversation,
        read_at=moments,
        numbers=[turn.number for turn in turns],
    )
    return turns[-1].number + 1, report


async def _new(store: ConversationStore, task: LearningTask) -> list[Turn]:
    """Return the new messages of a conversation, with those before them as context."""
    last = 64
    while True:
        turns = await store.turns(task.conversation, task.place, last=last)
        earlier = [turn for turn in turns if turn.number < task.since]
        if len(turns) < last or len(earlier) >= _CONTEXT:
            return turns[max(len(earlier) - _CONTEXT, 0) :]
        last *= 4


async def _postpone(store: ConversationStore, task: LearningTask, done: LearningRun) -> None:
    if task.attempts < _MOST_ATTEMPTS:
        pause = min(_FIRST_PAUSE * 2 ** (task.attempts - 1), _LONGEST_PAUSE)
        if await store.failed(task, pause):
            done.postponed += 1
    elif await store.failed(task, None):
        done.given_up += 1


class _Pace:
    """Limits the rate of tasks: each starts `seconds` after the one before, or later."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = 0.0

    async def wait(self) -> None:
        now = anyio.current_time()
        begin = max(now, self._next)
        self._next = begin + self._seconds
        if begin > now:
            await anyio.sleep(begin - now)
        else:
            await checkpoint()


_PAGE = 64
"""The messages that are read first for a budget; a longer chat is read again, four times as
many."""

_TRIM_EVERY = 64
"""Old messages are removed at every 64th message: it rewrites the conversation."""


@dataclass(frozen=True, slots=True)
class RemovedTurns(Displayed):
    """The result of a removal of messages."""

    count: int
    """How many messages were removed."""
    facts: tuple[AnyFact, ...] = field(repr=False)
    """The current facts that were learnt from them. They stay; forget them if they should go
    too."""


@guided(
    {
        "add save add_message write send": "await chat.append({'role': 'user', 'content': text})",
        "get history get_messages load": "await chat.messages(last=20)",
        "delete erase reset": "await chat.clear(), or chat.remove(id)",
        "learn": "await memory.conversations.learn()",
    }
)
class Conversation:
    """A chat of one user, stored with the user's facts; see `AgentMemory.conversation`.

        chat = memory.of("alice").conversation("chat-7")
        await chat.append({"role": "user", "content": "I moved to Busan"})
        messages = await chat.messages(last=20)

    Messages are OpenAI chat-completions dicts and come back as they were appended. They are
    encrypted, restricted by views and erased like facts. Concurrent appends of any number of
    processes each get numbers of their own. factmem's own messages are not stored.

    Args:
        parts: The memory of the user.
        name: The application's name for the chat.
        learn_after: How long the chat rests before facts are learnt from it; None never learns.
        keep: How long messages are kept. Older ones are hidden from this object and, at every 64th
            message that it appends, removed. None keeps them until they are removed.
    """

    def __init__(
        self, parts: MemoryParts, name: str, learn_after: timedelta | None, keep: timedelta | None
    ) -> None:
        self._store = fact_store(parts.provider)
        self._clock = parts.clock
        self._learn_after = learn_after
        self._learnt_to = parts.selection.places()
        self._keep = None if keep is None else checked_span(keep, "keep")
        self.id: str = checked_name(name, "name of a conversation")
        """The application's name for the chat."""
        self.place: Place = parts.selection.conversation_place()
        """The place that the chat belongs to."""

    def __repr__(self) -> str:
        return f"Conversation({self.id!r}, {str(self.place)!r})"

    async def append(
        self,
        *messages: Mapping[str, object],
        said_at: datetime | None = None,
        ids: Sequence[str] | None = None,
    ) -> list[Turn]:
        """Store messages in one durable write, all or none, and queue them for learning.

        Args:
            messages: The messages, oldest first.
            said_at: When they were said; now by default.
            ids: The id of each message. A message that is stored already is left out, so that an
                append can be repeated. One that was edited since replaces the stored one: it comes
                last, and values that were learnt from the old text only are no longer current. What
                a person confirmed stays, with a proposal to end it.

        Returns:
            The stored messages, with their numbers.

        Raises:
            TypeError: A message is not a dict of JSON values.
            ValueError: A message has no role or another one than `llm.messages.ROLES`, or `ids` has
                another length.
            MemoryAccessError: The view does not contain the place, or is read-only.
            StorageError: The store failed. Nothing was stored.
        """
        if ids is not None and len(ids) != len(messages):
            raise InputValueError(f"ids must have one id for each message, {len(messages)} in all")
        named: Iterable[str | None] = [None] * len(messages) if ids is None else ids
        given = zip(messages, named, strict=True)
        checked = [new_turn(message, said_at, name) for message, name in given]
        if any(message["role"] not in ROLES for message in messages):
            raise InputValueError(
                f"role must be one of {', '.join(sorted(ROLES))}, in this spelling"
            )
        turns = [turn for turn in checked if not is_own(turn)]
        added = await self._stored.append(turns, self.id, self.place, learn_after=self._learn_after)
        if ids is not None and len(added) < len(turns):
            added += await self._replaced(turns, {turn.id for turn in added})
        if self._keep is not None and any(turn.number % _TRIM_EVERY == 0 for turn in added):
            await self._removed(before=self._clock() - self._keep)
        return added

    async def _replaced(self, turns: Sequence[NewTurn], new: set[str]) -> list[Turn]:
        """Replace the stored messages whose text was edited; return them with their numbers."""
        given = {turn.id: turn for turn in turns if turn.id not in new}
        stored = await self._stored.turns(self.id, self.place)
        edited = [turn.id for turn in stored if _is_edited(turn, given.get(turn.id))]
        if not edited:
            return []
        removed = await self._removed(ids=edited)
        with acting_unless_named("edited message"):
            for place in self._learnt_to:
                await self._withdraw(place, removed)
        again = [turn for turn in turns if turn.id in edited]
        return await self._stored.append(again, self.id, self.place, learn_after=self._learn_after)

    async def _withdraw(self, place: Place, removed: RemovedTurns) -> None:
        """End the values of a place that were learnt from removed messages only."""
        gone = {
            (each.source.conversation, each.source.message) for each in removed.facts if each.source
        }
        ended: list[RetractedFact] = []
        for fact in await self._store.load_all(place.subject, place.scope):
            if fact not in removed.facts:
                continue
            history = await self._store.history(fact.concept, place.subject, place.scope)
            saved = [each.fact for each in history if each.fact is not None]
            for value in fact.values:
                sources = [each.source for each in saved if value in each.values]
                if all(each and (each.conversation, each.message) in gone for each in sources):
                    ended.append(RetractedFact(fact.concept, value, self._clock(), fact.source))
        if ended:
            await self._store.learn([], place.subject, place.scope, retracted=ended)

    async def turns(self, *, last: int | None = None, before: int | None = None) -> list[Turn]:
        """Return stored messages with their numbers, ids and times, oldest first.

        Args:
            last: The maximum of messages to return, the newest; all by default.
            before: Only messages with a smaller number, for pages: `before=turns[0].number`.
        """
        found = await self._stored.turns(self.id, self.place, last=last, before=before)
        if self._keep is None:
            return found
        oldest = self._clock() - self._keep
        return [turn for turn in found if turn.said_at >= oldest]

    async def messages(
        self, *, last: int | None = None, before: int | None = None, max_tokens: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the messages as they were appended, oldest first; see `turns`.

        Args:
            last: The maximum of messages to return, the newest; all by default.
            before: Only messages with a smaller number.
            max_tokens: Return what a model needs to continue the chat: the newest messages that
                fit, as `estimate_tokens` counts them, from one of the user on, each tool call with
                all of its results, and no instructions.
        """
        if max_tokens is None:
            return [dict(turn.message) for turn in await self.turns(last=last, before=before)]
        expect_within(max_tokens, int, "max_tokens", "max_tokens=4000", least=0)
        page = _PAGE if last is None else last
        while True:
            turns = await self.turns(last=page, before=before)
            found, is_full = fitting([turn.message for turn in turns], max_tokens)
            if is_full or last is not None or len(turns) < page:
                return found
            page *= 4

    async def remove(self, *ids: str, older_than: timedelta | None = None) -> RemovedTurns:
        """Remove messages physically: those with the ids, or those that are `older_than` a time.

        The result names the facts that rest on them.
        """
        if older_than is None:
            return await self._removed(ids=ids)
        if ids:
            raise InputValueError("Pass ids of messages or older_than, not both")
        return await self._removed(before=self._clock() - checked_span(older_than, "older_than"))

    async def clear(self) -> RemovedTurns:
        """Remove all messages of the chat physically; see `remove`."""
        return await self._removed()

    async def _removed(
        self, *, before: datetime | None = None, ids: Sequence[str] | None = None
    ) -> RemovedTurns:
        facts = list[AnyFact]()
        for place in self._learnt_to:
            found = await self._store.load_all(place.subject, place.scope)
            facts += [each for each in found if each.source and each.source.conversation == self.id]
        left = await self._stored.turns(self.id, self.place) if facts else []
        gone = {
            turn.number
            for turn in left
            if (ids is None or turn.id in ids) and (before is None or turn.said_at < before)
        }
        count = await self._stored.remove(self.id, self.place, before=before, ids=ids)
        resting = [fact for fact in facts if fact.source and fact.source.message in gone]
        return RemovedTurns(count, tuple(resting))

    @property
    def _stored(self) -> ConversationStore:
        return self._store.conversations


def _is_edited(stored: Turn, given: NewTurn | None) -> bool:
    """Whether a message differs from the stored one; one that was purged since is left as it is."""
    is_purged = REMOVED in str(stored.message.get("content"))
    return given is not None and not is_purged and given.body["message"] != stored.message


def is_own(turn: NewTurn) -> bool:
    """Whether a message is factmem's own."""
    message = turn.body["message"]
    return isinstance(message, dict) and message.get("name") in OWN_MESSAGES


@guided(
    {
        "list all": "await memory.conversations.infos()",
        "get open create append add": "memory.conversation(name)",
    }
)
class MemoryConversations:
    """The chats of a memory's user, and the queue of those to learn.

    See `AgentMemory.conversations`.
    """

    def __init__(self, parts: MemoryParts, parts_at: Callable[[Place], MemoryParts]) -> None:
        self._store = fact_store(parts.provider)
        self._parts = parts
        self._parts_at = parts_at

    async def infos(self) -> list[ConversationInfo]:
        """Return the user's chats with titles and times, the newest first."""
        place = self._parts.selection.conversation_place()
        return await self._store.conversations.conversations(place)

    async def learn(
        self, *, workers: int = 1, per_minute: int | None = None, every: timedelta | None = None
    ) -> LearningRun:
        """Detect the facts of chats that are due, of all users of this memory, and save them.

        Any number of processes can do it at the same time: each chat is learnt by one of them. Only
        messages since the last success are read, with up to 20 earlier ones as context: one call to
        the model for each 6,000 tokens. A failure is repeated after 30 seconds, then after twice as
        long each time, and given up after eight; see `pending`. Facts of a user who is erased
        meanwhile are not saved. A cancelled or killed worker loses nothing: its chats are due again
        after ten minutes.

        Args:
            workers: How many chats are learnt at the same time.
            per_minute: How many chats are begun in a minute; as many as there are by default.
            every: Go on until cancelled, and look for due chats so often. None returns when none is
                due.

        Raises:
            StorageError: The store could not be read or written.
        """
        self._parts.required_model()
        store, within = self._store.conversations, self._parts.selection.queue()
        expect_within(workers, int, "workers", "workers=4", least=1)
        pause = 0.0
        if per_minute is not None:
            pause = 60 / expect_within(per_minute, int, "per_minute", "per_minute=30", least=1)
        idle = None if every is None else checked_span(every, "every").total_seconds()
        done, pace, failures = LearningRun(), _Pace(pause), list[Exception]()

        async def work() -> None:
            try:
                while True:
                    await pace.wait()
                    task = await store.take(_LEASE, within)
                    if task is not None:
                        await _learn(store, self._parts_at, task, done)
                    elif idle is None:
                        return
                    else:
                        await anyio.sleep(idle)
            except Exception as exc:  # noqa: BLE001 - raised below, not in a group
                failures.append(exc)
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for _ in range(workers):
                group.start_soon(work)
        if failures:
            raise failures[0]
        return done

    async def pending(self) -> LearningState:
        """Return how many chats are still to be learnt, how many were given up, since when."""
        return await self._store.conversations.state(self._parts.selection.queue())

    async def retry_failed(self) -> int:
        """Queue the chats again whose learning was given up; return how many."""
        return await self._store.conversations.retry(self._parts.selection.queue())


def fitting(
    messages: Sequence[Mapping[str, Any]], max_tokens: int
) -> tuple[list[dict[str, Any]], bool]:
    """Return the newest messages that fit, oldest first, and whether an older one did not.

    They begin with a message of the user, as some endpoints demand. A tool call is with all of its
    results or left out, because endpoints reject the one without the others. Instructions belong to
    the run that had them.
    """
    found: list[dict[str, Any]] = []
    for group in reversed([*_groups(messages)]):
        max_tokens -= sum(estimate_tokens(orjson.dumps(each).decode()) for each in group)
        if max_tokens < 0:
            return _begun(found), True
        found[:0] = map(dict, group)
    return _begun(found), False


def _begun(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    start = next((i for i, each in enumerate(messages) if each.get("role") == "user"), None)
    return [] if start is None else messages[start:]


def _groups(messages: Sequence[Mapping[str, Any]]) -> Iterable[list[Mapping[str, Any]]]:
    """Yield each message alone, and each tool call with its results."""
    index = 0
    while index < len(messages):
        message, index = messages[index], index + 1
        if is_instruction(message) or message.get("name") in OWN_MESSAGES or is_result(message):
            continue
        wanted, group = set(called_ids(message)), [message]
        answered: set[str] = set()
        while wanted and index < len(messages) and is_result(messages[index]):
            answered.add(answered_id(messages[index]))
            group.append(messages[index])
            index += 1
        if wanted == answered:
            yield group
