"""ConversationStore: the operations of a store on its conversations, `FactStore.conversations`.

It checks arguments and passes one blocking function to the backend, which calls it with its
`StoredConversations`: in a worker thread, or in memory at once. One backend has the facts and the
messages of a place, so that an erasure removes both, and `append` counts the bytes of both against
the limit.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol, TypeVar

import orjson
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from factmem.ledger.entries import Entry
from factmem.models._values import checked_name
from factmem.models.places import UNBOUNDED, Boundary, Identity, Place
from factmem.models.when import MICROSECOND, stamp, utc
from factmem.providers._backend import Backend
from factmem.providers.conversations import (
    ConversationInfo,
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

__all__ = ["ConversationStore"]

R = TypeVar("R")


class Conversing(Protocol):
    """Runs operations on the stored conversations."""

    async def converse(self, call: "Callable[[StoredConversations], R]") -> R:
        """Return the result of a blocking operation on the store's conversations."""
        ...

    def is_unchanged(self, place: Identity, since: object) -> bool:
        """Return True if `changes` would surely return nothing, without I/O and waiting."""
        ...


class ConversationStore:
    """The conversations of a store. The methods raise as those of `FactStore` do.

    Args:
        stored: Calls the stored conversations.
        backend: The backend of the store, which has their sizes.
        enter: Checks a place, and that the store is open.
        limit: The most that one place may have.
    """

    def __init__(
        self,
        stored: Conversing,
        backend: Backend,
        enter: Callable[[Place], Identity],
        limit: PlaceLimit | None,
    ) -> None:
        self._stored = stored
        self._backend = backend
        self._enter = enter
        self._limit = limit

    async def append(
        self,
        turns: Sequence[NewTurn],
        conversation: str,
        place: Place,
        *,
        learn_after: timedelta | None = None,
    ) -> list[Turn]:
        """Append messages in one durable write, all or none, and return them.

        A message with an id that the conversation has already is left out. With `learn_after` the
        conversation is queued for learning, when it has rested for this long or, if it never rests,
        after ten times as long.
        """
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
        return await self._stored.converse(
            lambda stored: stored.append(identity, name, turns, rest)
        )

    async def turns(
        self, conversation: str, place: Place, *, last: int | None = None, before: int | None = None
    ) -> list[Turn]:
        """Return the last messages of those with a number less than `before`, oldest first."""
        checked_last(last, before)
        identity, name = self._enter(place), checked_name(conversation, "conversation")
        return await self._stored.converse(
            lambda stored: stored.turns(identity, name, last, before)
        )

    async def conversations(self, place: Place) -> list[ConversationInfo]:
        """Return the conversations of a place, the one that was active last first."""
        identity = self._enter(place)
        return await self._stored.converse(lambda stored: stored.conversations(identity))

    async def changes(self, since: Mapping[Place, object]) -> dict[Place, TurnChanges]:
        """Return what changed in the conversations of places; those without changes are left out.

        Args:
            since: The places, each with the `version` of an earlier answer for it; None returns all
                messages.
        """
        places = {self._enter(place): place for place in since}
        # Followers ask often and mostly nothing is new: that is answered without a worker thread.
        asked = {
            identity: since[place]
            for identity, place in places.items()
            if since[place] is None or not self._stored.is_unchanged(identity, since[place])
        }
        if not asked:
            await checkpoint_if_cancelled()
            return {}
        found = await self._stored.converse(lambda stored: stored.changes(asked))
        return {places[identity]: changes for identity, changes in found.items()}

    async def remove(
        self,
        conversation: str,
        place: Place,
        *,
        before: datetime | None = None,
        ids: Sequence[str] | None = None,
    ) -> int:
        """Remove messages physically, and return how many.

        Those that were appended `before` a time, or have one of the `ids`; without both, all.
        """
        identity, name = self._enter(place), checked_name(conversation, "conversation")
        until = None if before is None else stamp(utc(before, "before"))
        return await self._stored.converse(
            lambda stored: stored.remove(identity, name, before=until, ids=ids)
        )

    async def states(self, known: Collection[str] = ()) -> dict[str, tuple[Place, str] | None]:
        """Return a string for the state of each conversation, without reading it.

        Each with the place and the id; None if the string is in `known`. See `FactStore.states`.
        """
        found = await self._stored.converse(lambda stored: stored.states(frozenset(known)))
        return {
            state: named and (Place.of_identity(named[0]), named[1])
            for state, named in found.items()
        }

    async def lines(self, conversation: str, place: Place) -> dict[int, Entry]:
        """Return messages as they are stored, by number."""
        identity = self._enter(place)
        return await self._stored.converse(lambda stored: stored.lines(identity, conversation))

    async def removed_at(self, conversation: str, place: Place) -> str | None:
        """Return when the last message had been appended, as a stamp, before all were removed.

        None if that never happened.
        """
        identity = self._enter(place)
        return await self._stored.converse(lambda stored: stored.removed_at(identity, conversation))

    async def rewrite(
        self,
        edit: Callable[[dict[int, Entry], int], dict[int, Entry]],
        conversation: str,
        place: Place,
    ) -> None:
        """Replace the messages of a conversation in one step, with no append in between.

        `edit` is called with the messages by number, and with the first number that was never used.
        It returns all messages, under known numbers or later ones.
        """
        identity, name = self._enter(place), checked_name(conversation, "conversation")
        await self._stored.converse(lambda stored: stored.rewrite(identity, name, edit))

    async def take(self, lease: timedelta, within: Boundary = UNBOUNDED) -> LearningTask | None:
        """Lease the conversation that is due longest; None if none is due.

        No other process gets it until the lease ends.

        Args:
            lease: How long the caller has it.
            within: Only conversations of these places; also of `retry` and `state`.

        Raises:
            ValueError: `within` names subjects without entities or scopes, so that its places are
                unknown.
        """
        span = checked_span(lease, "lease") // MICROSECOND
        named_places(within)
        return await self._stored.converse(lambda stored: stored.take(span, within))

    async def learnt(self, task: LearningTask, upto: int) -> bool:
        """Record that all messages before the number `upto` were learnt.

        Return whether the lease held.
        """
        return await self._stored.converse(lambda stored: stored.learnt(task, upto))

    async def failed(self, task: LearningTask, again_in: timedelta | None) -> bool:
        """Record a failed attempt, to be repeated after a pause; None gives up."""
        pause = _micros(again_in, "again_in")
        return await self._stored.converse(lambda stored: stored.failed(task, pause))

    async def retry(self, within: Boundary = UNBOUNDED) -> int:
        """Queue the conversations that were given up again, and return how many."""
        named_places(within)
        return await self._stored.converse(lambda stored: stored.retry(within))

    async def state(self, within: Boundary = UNBOUNDED) -> LearningState:
        """Return the state of the queue."""
        named_places(within)
        return await self._stored.converse(lambda stored: stored.state(within))


def _micros(span: timedelta | None, argument: str) -> int | None:
    return None if span is None else checked_span(span, argument) // MICROSECOND
