"""ConversingStore: a store over a backend that keeps conversations, and its guarded form.

`StoreConversations` checks arguments and passes one blocking function to the backend, which calls
it with its `StoredConversations`: in a worker thread, or in memory at once. One backend has the
facts and the messages of a place, so that an erasure removes both, and `append` counts the bytes of
both against the limit. `GuardedConversations` is what the parts of a memory get: it checks the
boundary before each call, and a worker of a view takes only conversations inside it.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol, TypeVar

import orjson
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled
from typing_extensions import override

from factmem.models._values import checked_name
from factmem.models.boundary import UNBOUNDED, Boundary
from factmem.models.places import Identity, Place
from factmem.models.when import stamp, utc
from factmem.providers._backend import Backend
from factmem.providers.base import FactStore
from factmem.providers.conversations import (
    ConversationInfo,
    ConversationStore,
    LearningState,
    LearningTask,
    NewTurn,
    Turn,
    TurnChanges,
    checked_last,
    checked_span,
    named_places,
)
from factmem.providers.results import PlaceLimit

if TYPE_CHECKING:
    from factmem.providers._sql.conversations import StoredConversations

R = TypeVar("R")

_MICROSECOND = timedelta(microseconds=1)


class ConversingBackend(Backend, Protocol):
    """The storage of a store that keeps conversations as well."""

    @property
    def conversations(self) -> "StoredConversations":
        """The conversations; call only `is_unchanged` of them on an event loop."""
        ...

    async def converse(self, call: "Callable[[StoredConversations], R]") -> R:
        """Return the result of a blocking call of the conversations of the store."""
        ...


class ConversingStore(FactStore):
    """A `FactStore` that keeps conversations.

    Args:
        backend: Stores the entries and the messages.
        limit: The most that one place may have.
    """

    def __init__(self, backend: ConversingBackend, limit: PlaceLimit | None = None) -> None:
        super().__init__(backend, limit)
        self._conversations = StoreConversations(backend, self._enter_place, self._limit)

    @property
    @override
    def conversations(self) -> ConversationStore:
        return self._conversations


class StoreConversations(ConversationStore):
    """The conversations of a store over a backend.

    Args:
        backend: The backend of the store.
        enter: Checks a place, and that the store is open.
        limit: The most that one place may have.
    """

    def __init__(
        self,
        backend: ConversingBackend,
        enter: Callable[[Place], Identity],
        limit: PlaceLimit | None,
    ) -> None:
        self._backend = backend
        self._enter = enter
        self._limit = limit

    @override
    async def append(
        self,
        turns: Sequence[NewTurn],
        conversation: str,
        place: Place,
        *,
        learn_after: timedelta | None = None,
    ) -> list[Turn]:
        identity, name = self._enter(place), checked_name(conversation, "conversation")
        rest = _micros(learn_after, "learn_after")
        if not turns:
            await checkpoint()
            return []
        if self._limit is not None and self._limit.bytes is not None:
            boundary = UNBOUNDED.narrowed(places=[place])
            size = sum(info.bytes for info in await self._backend.places(boundary))
            new = sum(len(orjson.dumps(turn.body)) for turn in turns)
            self._limit.check_bytes(identity, size + new)
        return await self._backend.converse(
            lambda stored: stored.append(identity, name, turns, rest)
        )

    @override
    async def turns(
        self, conversation: str, place: Place, *, last: int | None = None, before: int | None = None
    ) -> list[Turn]:
        checked_last(last, before)
        identity, name = self._enter(place), checked_name(conversation, "conversation")
        return await self._backend.converse(
            lambda stored: stored.turns(identity, name, last, before)
        )

    @override
    async def conversations(self, place: Place) -> list[ConversationInfo]:
        identity = self._enter(place)
        return await self._backend.converse(lambda stored: stored.conversations(identity))

    @override
    async def changes(self, since: Mapping[Place, object]) -> dict[Place, TurnChanges]:
        places = {self._enter(place): place for place in since}
        # Followers ask often and mostly nothing is new: that is answered without a worker thread.
        asked = {
            identity: since[place]
            for identity, place in places.items()
            if since[place] is None
            or not self._backend.conversations.is_unchanged(identity, since[place])
        }
        if not asked:
            await checkpoint_if_cancelled()
            return {}
        found = await self._backend.converse(lambda stored: stored.changes(asked))
        return {places[identity]: changes for identity, changes in found.items()}

    @override
    async def remove(
        self,
        conversation: str,
        place: Place,
        *,
        before: datetime | None = None,
        ids: Sequence[str] | None = None,
    ) -> int:
        identity, name = self._enter(place), checked_name(conversation, "conversation")
        until = None if before is None else stamp(utc(before, "before"))
        return await self._backend.converse(
            lambda stored: stored.remove(identity, name, before=until, ids=ids)
        )

    @override
    async def take(
        self, lease: timedelta, within: Boundary = UNBOUNDED, *, conversation: str | None = None
    ) -> LearningTask | None:
        span = checked_span(lease, "lease") // _MICROSECOND
        named_places(within)
        return await self._backend.converse(lambda stored: stored.take(span, within, conversation))

    @override
    async def learnt(self, task: LearningTask, upto: int) -> bool:
        return await self._backend.converse(lambda stored: stored.learnt(task, upto))

    @override
    async def failed(self, task: LearningTask, again_in: timedelta | None) -> bool:
        pause = _micros(again_in, "again_in")
        return await self._backend.converse(lambda stored: stored.failed(task, pause))

    @override
    async def retry(self, within: Boundary = UNBOUNDED) -> int:
        named_places(within)
        return await self._backend.converse(lambda stored: stored.retry(within))

    @override
    async def state(self, within: Boundary = UNBOUNDED) -> LearningState:
        named_places(within)
        return await self._backend.converse(lambda stored: stored.state(within))


def _micros(span: timedelta | None, argument: str) -> int | None:
    return None if span is None else checked_span(span, argument) // _MICROSECOND
