"""The conversations of a bundle: read from a store, checked, and appended to another one."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from factmem.errors import StorageError
from factmem.models.clock import stamp
from factmem.models.places import Place
from factmem.providers.base import FactStore
from factmem.providers.conversations import NewTurn, Turn, new_turn

_LONGEST_GAP = 100_000
"""The most numbers of removed messages that a conversation of a bundle may skip: an import fills them."""
_GAP = "factmem-gap-"
"""The beginning of the ids of messages that keep the numbers of the others for a moment."""


class StoredTurn(NamedTuple):
    """A message in a bundle."""

    number: int
    said: datetime
    turn: NewTurn


def stored_turn(fields: dict[str, Any], before: Sequence[int]) -> StoredTurn:
    """Return the message of a line, or raise `KeyError`, `TypeError` or `ValueError`.

    Args:
        fields: The line.
        before: How many messages of the conversation are before it, and the number after the last.
    """
    number, said, body = fields["number"], fields["said"], fields["turn"]
    count, least = before
    if type(number) is not int or not least <= number <= count + _LONGEST_GAP:
        raise ValueError("its number is wrong")
    if str(body["id"]).startswith(_GAP):
        raise ValueError("its id is reserved")
    said_at = datetime.fromisoformat(said)
    return StoredTurn(number, said_at, new_turn(body["message"], said_at, body["id"]))


async def conversations_of(store: FactStore, place: Place) -> list[tuple[str, list[Turn]]]:
    """Return the conversations of a place, by their ids; none if the store keeps none."""
    try:
        stored = store.conversations
    except StorageError:
        return []
    names = [info.id for info in await stored.conversations(place)]
    return [(name, await stored.turns(name, place)) for name in sorted(names)]


async def append_turns(
    store: FactStore, place: Place, conversation: str, turns: Sequence[StoredTurn], erased: str
) -> int:
    """Append the messages that are not stored yet; return how many were not erased.

    Messages of a new conversation keep their numbers, which facts cite.

    Args:
        store: The store.
        place: The place of the conversation.
        conversation: Its id.
        turns: The messages, oldest first.
        erased: The stamp of the last erasure of the place; what was said before is left out.
    """
    kept = [each for each in turns if stamp(each.said) > erased]
    stored = store.conversations
    present = await stored.turns(conversation, place)
    new = [each.turn for each in kept] if present else _with_gaps(kept)
    await stored.append(new, conversation, place)
    names = [*(each.id for each in present), *(each.id for each in new)]
    if gaps := [name for name in names if name is not None and name.startswith(_GAP)]:
        await stored.remove(conversation, place, ids=gaps)
    return len(kept)


def _with_gaps(turns: Sequence[StoredTurn]) -> list[NewTurn]:
    filled: list[NewTurn] = []
    for each in turns:
        while len(filled) < each.number:
            filled.append(new_turn({"role": "system"}, None, f"{_GAP}{len(filled)}"))
        filled.append(each.turn)
    return filled
