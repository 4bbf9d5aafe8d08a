"""Conversations: the messages of a user's chats, and the queue of those that are to be learnt.

    Turn, ConversationInfo   what is read
    LearningTask             a conversation that a worker has leased from the queue

A conversation belongs to a place, as facts do: it is encrypted with the place's store, restricted
by the same views and erased with the place. Its queue is one row, written in the transaction of the
message, so that any process can learn what another one has stored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from secrets import token_hex
from typing import Any, NamedTuple

import orjson

from factmem._arguments import expect, expect_within, kind_of
from factmem.errors import InputTypeError, InputValueError
from factmem.llm.base import content_text
from factmem.models._display import Displayed
from factmem.models._values import JsonValue, checked_name, sendable
from factmem.models.places import Boundary, Identity, Place
from factmem.models.when import utc

__all__ = ["ConversationInfo", "LearningState", "LearningTask", "NewTurn", "Turn", "TurnChanges"]

_EXAMPLE = '{"role": "user", "content": "I moved to Busan"}'


@dataclass(frozen=True, slots=True)
class Turn(Displayed):
    """A stored message of a conversation."""

    number: int
    """Its index in the conversation, from 0. Removed messages leave a gap."""
    id: str
    """Its id, given by the application or random."""
    message: Mapping[str, Any] = field(repr=False)
    """The message as it was appended, an OpenAI chat-completions dict."""
    said_at: datetime
    """When it was said, in the time zone that was given; by default when it was appended."""

    @property
    def role(self) -> str:
        """The role of its author, such as "user"."""
        return str(self.message.get("role", ""))

    @property
    def name(self) -> str | None:
        """The name of its author, if the message has one."""
        name = self.message.get("name")
        return name if isinstance(name, str) else None

    @property
    def text(self) -> str:
        """Its text; text parts are joined, and other parts left out."""
        return content_text(self.message)


@dataclass(frozen=True, slots=True)
class ConversationInfo(Displayed):
    """A conversation of a place."""

    id: str
    place: Place
    count: int
    """The number of its messages."""
    title: str = field(repr=False)
    """The beginning of the user's first message, at most 80 characters."""
    first_at: datetime
    """When its first stored message was appended."""
    last_at: datetime


class ChangedConversation(NamedTuple):
    """A conversation that changed."""

    id: str
    turns: Sequence[Turn]
    """The messages since the version, or all of them."""
    is_whole: bool
    """Whether `turns` are all messages, as some were removed or edited, or all were."""


class TurnChanges(NamedTuple):
    """The changes of a place's conversations since a version."""

    version: object
    """The argument of the next call of `changes`."""
    conversations: Sequence[ChangedConversation]


@dataclass(frozen=True, slots=True)
class LearningTask:
    """A conversation leased from the queue. Another worker may take it when the lease has ended."""

    conversation: str
    place: Place
    since: int
    """The number of the first message that was not learnt yet."""
    attempts: int
    """How often it was leased since the last success, this time included. An earlier worker may
    have crashed after it saved facts."""
    lease: int = field(repr=False)


@dataclass(frozen=True, slots=True)
class LearningState(Displayed):
    """The state of a store's queue, the same in every process."""

    pending: int
    """The number of conversations with messages to learn, those under way included."""
    failed: int
    """The number of conversations whose learning was given up; `retry` queues them again."""
    oldest: datetime | None
    """When the oldest message that is still to be learnt was appended."""


class NewTurn(NamedTuple):
    """A validated message to append."""

    body: dict[str, JsonValue]
    """The fields to store: `id`, `message`, and `said` if the time is known."""
    id: str | None
    """The id that the application gave; a message with a known id is not appended again."""


REST = timedelta(seconds=30)
"""How long a conversation rests before it is learnt: people write several messages in a row."""


def rest_of(learn_after: timedelta | None, *, is_queued: bool) -> timedelta | None:
    """Return how long a conversation rests before it is learnt; None if it is only stored."""
    if is_queued:
        return REST if learn_after is None else learn_after
    if learn_after is not None:
        raise ValueError("learn_after has no effect with learn=False: pass one of them")
    return None


def new_turn(
    message: Mapping[str, object], said_at: datetime | None = None, given_id: str | None = None
) -> NewTurn:
    """Validate a message."""
    if not isinstance(message, Mapping):
        raise InputTypeError(
            f"A message must be a dict, not {kind_of(message)}: await chat.append(*messages), or "
            f"append({_EXAMPLE})"
        )
    if not isinstance(message.get("role"), str):
        raise InputValueError(f"A message must have a role: {_EXAMPLE}")
    given = dict(message)
    try:
        orjson.dumps(given)
    except TypeError:
        given = _without_half_pairs(given)
    try:
        same = orjson.loads(orjson.dumps(given)) == given
    except TypeError as exc:
        raise InputTypeError(
            "A message must have JSON values only: message.model_dump(exclude_none=True), or "
            f"{_EXAMPLE}"
        ) from exc
    if not same:  # a tuple, NaN
        raise InputValueError(f"A message would change when it is stored as JSON: {_EXAMPLE}")
    turn_id = token_hex(16) if given_id is None else checked_name(given_id, "id")
    body: dict[str, Any] = {"id": turn_id, "message": given}
    if said_at is not None:
        utc(said_at, "said_at")
        body["said"] = said_at.isoformat()
    return NewTurn(body, given_id)


def _without_half_pairs(message: Mapping[str, object]) -> dict[str, object]:
    """Return a message in which half an emoji, which no endpoint accepts, is replaced."""

    def replaced(value: object) -> object:
        if isinstance(value, str):
            return sendable(value)
        if isinstance(value, dict):
            return {replaced(name): replaced(each) for name, each in value.items()}
        return [replaced(each) for each in value] if isinstance(value, list) else value

    return {str(replaced(name)): replaced(each) for name, each in message.items()}


def turn_of(number: int, body: Mapping[str, Any], recorded_at: datetime) -> Turn:
    """Return a stored message."""
    said = body.get("said")
    said_at = recorded_at if said is None else datetime.fromisoformat(said)
    return Turn(number, body["id"], body["message"], said_at)


def title_of(turns: Sequence[Mapping[str, Any]]) -> str:
    """Return the title of a conversation, from its first messages."""
    for body in turns:
        if body["message"].get("role") == "user" and (
            text := content_text(body["message"]).strip()
        ):
            return text if len(text) <= _TITLE else f"{text[: _TITLE - 1]}…"
    return ""


_TITLE = 80

_KIND = "conversation"
"""The scope type of a conversation's identity. No `MemoryScope` has it."""


def identity_in(identity: Identity, conversation: str) -> Identity:
    """Return the identity under which a place's conversation is stored."""
    kind, scope, subject, entity = identity
    return _KIND, orjson.dumps([kind, scope, conversation]).decode(), subject, entity


def owner_of(identity: Identity) -> Identity:
    """Return the place of a conversation's identity; that of a place is the place itself."""
    if identity[0] != _KIND:
        return identity
    kind, scope, _ = orjson.loads(identity[1])
    return kind, scope, identity[2], identity[3]


def conversation_of(identity: Identity) -> tuple[Identity, str] | None:
    """Return the place and the id of a conversation; None for the identity of a place."""
    kind, names, subject, entity = identity
    if kind != _KIND:
        return None
    kind, scope, conversation = orjson.loads(names)
    return (kind, scope, subject, entity), conversation


def named_places(within: Boundary) -> list[Identity] | None:
    """Return the places of a queue; None for those of all subjects."""
    found = within.identities(_MOST_PLACES)
    if found is None and (within.subjects, within.places) != (None, None):
        raise InputValueError(
            "This view does not name its places: learn with the whole memory, or with a view of "
            "named subjects and scopes"
        )
    return found


_MOST_PLACES = 1000


def checked_span(span: timedelta, argument: str) -> timedelta:
    """Return a positive span of time."""
    example = f"{argument}=timedelta(seconds=30)"
    if expect(span, timedelta, argument, example) <= timedelta(0):
        raise InputValueError(f"{argument} must be positive: {example}")
    return span


def checked_last(last: int | None, before: int | None) -> None:
    """Check the arguments of `turns`."""
    if last is not None:
        expect_within(last, int, "last", "last=20", least=1)
    if before is not None:
        expect_within(before, int, "before", "before=turns[0].number", least=0)
