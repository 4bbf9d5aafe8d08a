"""Learning: takes due chats from the queue and detects their facts."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from logging import getLogger

import anyio
from anyio.lowlevel import checkpoint

from factmem._arguments import expect_within
from factmem.detection.report import DetectionReport
from factmem.errors import ChatModelError, ExtractionError, FactmemError, StorageError
from factmem.memory._chat_detection import detect_in_chat
from factmem.memory._parts import MemoryParts
from factmem.models._display import Displayed
from factmem.models.boundary import Boundary
from factmem.models.places import Place
from factmem.providers.conversations import ConversationStore, LearningTask, Turn, checked_span

__all__: list[str] = []

_logger = getLogger("factmem.memory")

_LEASE = timedelta(minutes=10)
"""After it another worker may take the conversation."""

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
    reports: list[DetectionReport] = field(default_factory=list[DetectionReport], repr=False)
    """The reports of the detections; the last hundred of them."""


async def learn_due(
    store: ConversationStore,
    parts_at: Callable[[Place], MemoryParts],
    within: Boundary,
    *,
    workers: int,
    per_minute: int | None,
    every: timedelta | None,
) -> LearningRun:
    """Take due chats from the queue and detect their facts; see `MemoryConversations.learn`.

    A chat that fails is tried again after a pause that doubles each time, and given up after eight attempts.
    What a killed worker had taken is due again when its lease ends.

    Args:
        store: The store of the queue.
        parts_at: Returns the memory of the user of a place.
        within: The places to serve.
        workers: How many chats are learnt at the same time.
        per_minute: How many chats are begun in a minute; None for no limit.
        every: How often to look for due chats; None returns when none is due.
    """
    expect_within(workers, int, "workers", "workers=4", least=1)
    pause = 0.0
    if per_minute is not None:
        pause = 60 / expect_within(per_minute, int, "per_minute", "per_minute=30", least=1)
    idle = None if every is None else checked_span(every, "every").total_seconds()
    done, pace, failures = LearningRun(), _Pace(pause), list[FactmemError]()

    async def work() -> None:
        try:
            while True:
                await pace.wait()
                task = await store.take(_LEASE, within)
                if task is not None:
                    await _learn(store, parts_at, task, done)
                elif idle is None:
                    return
                else:
                    await anyio.sleep(idle)
        except FactmemError as exc:  # raised below, not in a group
            failures.append(exc)
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for _ in range(workers):
            group.start_soon(work)
    if failures:
        raise failures[0]
    return done


async def _learn(
    store: ConversationStore,
    parts_at: Callable[[Place], MemoryParts],
    task: LearningTask,
    done: LearningRun,
) -> None:
    """Learn one conversation, and settle its task."""
    try:
        with anyio.fail_after(_LEASE.total_seconds() * 0.8):  # it must not outlive its lease
            upto, report = await _detected(store, parts_at(task.place), task)
    except (ChatModelError, ExtractionError, StorageError, TimeoutError) as exc:
        _logger.warning("Learning from a conversation failed: %s", type(exc).__name__)
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
        is_again=task.attempts > 1,
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
    """Lets one task begin in each span of time.

    Args:
        seconds: The span; 0 for no limit.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = 0.0

    async def wait(self) -> None:
        """Wait for the next turn."""
        now = anyio.current_time()
        begin = max(now, self._next)
        self._next = begin + self._seconds
        if begin > now:
            await anyio.sleep(begin - now)
        else:
            await checkpoint()
