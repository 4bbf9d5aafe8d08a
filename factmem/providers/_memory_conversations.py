"""The conversations of an `InMemoryProvider`, in dictionaries."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import NamedTuple

from factmem.ledger.entries import Edit
from factmem.models.clock import moment
from factmem.models.places import Identity, Place
from factmem.providers._clock import StoreClock
from factmem.providers.conversations import (
    Among,
    ChangedConversation,
    ConversationInfo,
    Extent,
    LearningState,
    LearningTask,
    NewTurn,
    Turn,
    TurnChanges,
    title_of,
    turn_of,
)

_NEVER = datetime.min.replace(tzinfo=UTC)
_RESTLESS = 10
"""A conversation that never rests is due after so many spans of rest."""


@dataclass(slots=True)
class _Chat:
    """A conversation and its row of the queue."""

    made: int
    turns: list[tuple[Turn, NewTurn, datetime]] = field(default_factory=list)
    last: int = 0
    edits: int = 0
    learnt: int | None = None
    """None before it was queued."""
    since: datetime | None = None
    due: datetime | None = None
    lease: int = 0
    leased_until: datetime = _NEVER
    attempts: int = 0
    is_failed: bool = False


class _Known(NamedTuple):
    """The conversations of a place at one time."""

    changes: int
    extents: dict[str, Extent]


class MemoryConversations:
    """The conversations of one store; the caller holds its lock.

    Args:
        clock: The clock of the store.
    """

    def __init__(self, clock: StoreClock) -> None:
        self._clock = clock
        self._chats: dict[tuple[Identity, str], _Chat] = {}
        self._leases = count(1)
        self._lives = count(1)
        self._changes: Counter[Identity] = Counter()
        """How often the conversations of each place changed."""

    def append(
        self, place: Identity, conversation: str, turns: Sequence[NewTurn], learn_after: int | None
    ) -> list[Turn]:
        """See `ConversationStore.append`."""
        chat = self._chats.get((place, conversation)) or _Chat(next(self._lives))
        known = {turn.id for turn, _, _ in chat.turns}
        now, first, added = self._now(), chat.last, list[Turn]()
        for each in turns:
            turn = turn_of(chat.last, each.body, now)
            if each.id is None or turn.id not in known:
                known.add(turn.id)
                chat.turns.append((turn, each, now))
                chat.last += 1
                added.append(turn)
        if added:
            self._chats[place, conversation] = chat
            self._changes[place] += 1
        if added and learn_after is not None:
            rest = timedelta(microseconds=learn_after)
            chat.learnt = first if chat.learnt is None else chat.learnt
            chat.since = chat.since or now
            chat.due, chat.is_failed = min(now + rest, chat.since + _RESTLESS * rest), False
        return added

    def turns(
        self, place: Identity, conversation: str, last: int | None, before: int | None
    ) -> list[Turn]:
        """See `ConversationStore.turns`."""
        chat = self._chats.get((place, conversation), _Chat(0))
        found = [turn for turn, _, _ in chat.turns if before is None or turn.number < before]
        return found if last is None else found[-last:]

    def conversations(self, place: Identity) -> list[ConversationInfo]:
        """See `ConversationStore.conversations`."""
        infos = [
            ConversationInfo(
                name,
                Place.of_identity(place),
                len(chat.turns),
                title_of([each.body for _, each, _ in chat.turns]),
                chat.turns[0][2],
                chat.turns[-1][2],
            )
            for (owner, name), chat in self._chats.items()
            if owner == place and chat.turns
        ]
        return sorted(infos, key=lambda info: info.last_at, reverse=True)

    def changes(self, place: Identity, since: object) -> TurnChanges | None:
        """See `ConversationStore.changes`."""
        if since is not None and self.is_unchanged(place, since):
            return None
        before = since.extents if isinstance(since, _Known) else {}
        now = {
            name: Extent(chat.made, chat.edits, chat.last)
            for (owner, name), chat in self._chats.items()
            if owner == place
        }
        changed = [ChangedConversation(name, (), is_whole=True) for name in before.keys() - now]
        for name, extent in now.items():
            known = before.get(name)
            if known != extent:
                is_whole = known is None or known[:2] != extent[:2]
                first = 0 if known is None or is_whole else known.last
                turns = [each for each, _, _ in self._chats[place, name].turns]
                new = [each for each in turns if each.number >= first]
                changed.append(ChangedConversation(name, new, is_whole))
        return TurnChanges(_Known(self._changes[place], now), changed)

    def is_unchanged(self, place: Identity, since: object) -> bool:
        """See `Conversations.is_unchanged`."""
        return isinstance(since, _Known) and since.changes == self._changes[place]

    def remove(
        self,
        place: Identity,
        conversation: str,
        *,
        before: str | None = None,
        ids: Sequence[str] | None = None,
    ) -> int:
        """See `ConversationStore.remove`."""
        chat = self._chats.get((place, conversation), _Chat(0))
        until = None if before is None else moment(before)
        kept = [
            (turn, each, at)
            for turn, each, at in chat.turns
            if (before is not None or ids is not None)
            and not (until is not None and at < until)
            and not (ids is not None and turn.id in ids)
        ]
        removed = len(chat.turns) - len(kept)
        chat.turns, chat.edits = kept, chat.edits + bool(removed)
        self._changes[place] += 1
        if not kept:
            self._chats.pop((place, conversation), None)
        return removed

    def edit(self, place: Identity, edit: Edit) -> None:
        """Apply an edit to all messages of a place."""
        for (owner, _), chat in self._chats.items():
            if owner == place:
                edited = edit([{"at": "", "turn": each.body} for _, each, _ in chat.turns])
                chat.edits += 1
                self._changes[place] += 1
                chat.turns = [
                    (turn_of(turn.number, entry["turn"], at), NewTurn(entry["turn"], each.id), at)
                    for entry, (turn, each, at) in zip(edited, chat.turns, strict=True)
                    if entry is not None and "turn" in entry
                ]

    def places(self) -> dict[Identity, tuple[int, int]]:
        """Return the places that have conversations, with their number and size."""
        found: dict[Identity, tuple[int, int]] = {}
        for (place, _), chat in self._chats.items():
            count, size = found.get(place, (0, 0))
            found[place] = count + 1, size + sum(len(str(each.body)) for _, each, _ in chat.turns)
        return found

    def erase(self, place: Identity) -> tuple[int, int]:
        """Remove all conversations of a place; return how many, and their size."""
        found = self.places().get(place, (0, 0))
        self._changes[place] += 1
        for key in [key for key in self._chats if key[0] == place]:
            del self._chats[key]
        return found

    # The queue

    def take(self, lease: int, among: Among) -> LearningTask | None:
        """See `ConversationStore.take`."""
        now = self._now()
        due = [
            (chat.due, key)
            for key, chat in self._queued(among)
            if chat.due is not None
            and chat.due <= now
            and chat.leased_until <= now
            and not chat.is_failed
        ]
        if not due:
            return None
        _, (place, conversation) = min(due, key=lambda each: each[0])
        chat = self._chats[place, conversation]
        chat.lease = next(self._leases)
        chat.leased_until = now + timedelta(microseconds=lease)
        chat.attempts += 1
        return LearningTask(
            conversation, Place.of_identity(place), chat.learnt or 0, chat.attempts, chat.lease
        )

    def learnt(self, task: LearningTask, upto: int) -> bool:
        """See `ConversationStore.learnt`."""
        chat = self._leased(task)
        if chat is None:
            return False
        chat.learnt, chat.attempts = upto, 0
        is_left = any(turn.number >= upto for turn, _, _ in chat.turns)
        chat.since = self._now() if is_left else None
        chat.due = chat.due if is_left else None
        return True

    def failed(self, task: LearningTask, again_in: int | None) -> bool:
        """See `ConversationStore.failed`."""
        chat = self._leased(task)
        if chat is None:
            return False
        chat.is_failed = again_in is None
        chat.due = self._now() + timedelta(microseconds=again_in or 0)
        return True

    def retry(self, among: Among) -> int:
        """See `ConversationStore.retry`."""
        chats = [chat for _, chat in self._queued(among) if chat.is_failed]
        for chat in chats:
            chat.is_failed, chat.attempts, chat.due = False, 1, self._now()
        return len(chats)

    def state(self, among: Among) -> LearningState:
        """See `ConversationStore.state`."""
        open_ = [(chat.since, chat) for _, chat in self._queued(among) if chat.since is not None]
        failed = sum(chat.is_failed for _, chat in open_)
        oldest = min((since for since, _ in open_), default=None)
        return LearningState(len(open_) - failed, failed, oldest)

    def _queued(self, among: Among) -> list[tuple[tuple[Identity, str], _Chat]]:
        return [
            (key, chat)
            for key, chat in self._chats.items()
            if (among.places is None or key[0] in among.places)
            and (among.scopes is None or key[0][:2] in among.scopes)
        ]

    def _leased(self, task: LearningTask) -> _Chat | None:
        """Return the conversation of a task, with its lease ended; None if another worker has it."""
        chat = self._chats.get((task.place.identity, task.conversation))
        if chat is None or chat.lease != task.lease:
            return None
        chat.lease, chat.leased_until = 0, _NEVER
        return chat

    def _now(self) -> datetime:
        return moment(self._clock.recording())
