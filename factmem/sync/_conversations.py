"""The conversations of a memory without await.

Written by tests/sync/generate.py: change the async class.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from factmem.memory.conversations import (
    Conversation,
    LearningRun,
    MemoryConversations,
    RemovedTurns,
)
from factmem.providers.conversations import ConversationInfo, LearningState, Turn
from factmem.sync._wrapping import Wraps


class ConversationSync(Wraps[Conversation]):
    """A chat of one user for code that does not use `await`.

    Each method is that of `Conversation` with its name, which says more.
    """

    def append(
        self,
        *messages: Mapping[str, object],
        said_at: datetime | None = None,
        ids: Sequence[str] | None = None,
    ) -> list[Turn]:
        """Store messages in one durable write, all or none, and queue them for learning."""
        return self._portal.call(self._wrapped.append, *messages, said_at=said_at, ids=ids)

    def turns(self, *, last: int | None = None, before: int | None = None) -> list[Turn]:
        """Return stored messages with their numbers, ids and times, oldest first."""
        return self._portal.call(self._wrapped.turns, last=last, before=before)

    def messages(
        self, *, last: int | None = None, before: int | None = None, max_tokens: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the messages as they were appended, oldest first; see `turns`."""
        return self._portal.call(
            self._wrapped.messages, last=last, before=before, max_tokens=max_tokens
        )

    def remove(self, *ids: str, older_than: timedelta | None = None) -> RemovedTurns:
        """Remove messages physically: those with the ids, or those that are `older_than` a time."""
        return self._portal.call(self._wrapped.remove, *ids, older_than=older_than)

    def clear(self) -> RemovedTurns:
        """Remove all messages of the chat physically; see `remove`."""
        return self._portal.call(self._wrapped.clear)


class ConversationsSync(Wraps[MemoryConversations]):
    """The chats of a memory's user for code that does not use `await`.

    Each method is that of `MemoryConversations` with its name, which says more.
    """

    def infos(self) -> list[ConversationInfo]:
        """Return the user's chats with titles and times, the newest first."""
        return self._portal.call(self._wrapped.infos)

    def learn(
        self, *, workers: int = 1, per_minute: int | None = None, every: timedelta | None = None
    ) -> LearningRun:
        """Detect the facts of chats that are due, of all users of this memory, and save them."""
        return self._portal.call(
            self._wrapped.learn, workers=workers, per_minute=per_minute, every=every
        )

    def pending(self) -> LearningState:
        """Return how many chats are still to be learnt, how many were given up, since when."""
        return self._portal.call(self._wrapped.pending)

    def retry_failed(self) -> int:
        """Queue the chats again whose learning was given up; return how many."""
        return self._portal.call(self._wrapped.retry_failed)
