"""The conversations of facts: neighbouring messages, and the text around a fact."""

from array import array
from collections.abc import Callable, Iterable
from itertools import count
from typing import NamedTuple

from factmem.models.facts import AnyFact
from factmem.models.sources import FactSource
from factmem.recall._documents import said

AROUND = ((-1, 0.5), (-2, 0.25), (1, 0.25))
"""The offsets of the neighbouring messages whose words also find a fact, with their weights."""

BEFORE = 0.25
"""The weight of `FactSource.before`, the message before the fact's own."""


def said_around(
    source: FactSource | None, at: Callable[[str, int], Iterable[AnyFact]]
) -> list[tuple[str, float]]:
    """Return the strings said around a fact, without duplicates, each with its greatest weight.

    Args:
        source: The fact's source.
        at: Returns the facts of a message of a conversation.
    """
    around: dict[str, float] = {}
    if source is None:
        return []
    if source.conversation is not None and source.message is not None:
        for offset, weight in AROUND:
            for each in at(source.conversation, source.message + offset):
                text = said(each)
                around[text] = max(around.get(text, 0.0), weight)
    if source.before is not None:
        around.setdefault(source.before, BEFORE)
    return [each for each in around.items() if each[1]]


class _Conversation(NamedTuple):
    code: int
    messages: dict[int | None, set[int]]
    """The slots of the facts of each message; those of facts without a message number under None."""


class Conversations:
    """The conversations of the facts in the slots of an index."""

    def __init__(self) -> None:
        self._known: dict[str, _Conversation] = {}
        self._codes = count()
        self._loose: array[int] = array("i")
        self._unnumbered = 0

    @property
    def loose(self) -> "array[int] | None":
        """A number for the conversation of each slot whose fact has no message number, -1 for others.

        None if all are -1. It may be shorter than the facts; the remaining ones count as -1.
        """
        return self._loose if self._unnumbered else None

    def put(self, slot: int, source: FactSource) -> set[int]:
        """Add a fact's source; return the slots that have its message as a neighbour."""
        if source.conversation is None:
            return set()
        known = self._known.get(source.conversation)
        if known is None:
            known = self._known[source.conversation] = _Conversation(next(self._codes), {})
        known.messages.setdefault(source.message, set()).add(slot)
        if source.message is None:
            if slot >= len(self._loose):
                self._loose.extend([-1] * (slot + 256 - len(self._loose)))
            self._loose[slot] = known.code
            self._unnumbered += 1
        return _around(known, source.message)

    def drop(self, slot: int, source: FactSource) -> set[int]:
        """Remove a fact's source; return the slots that had its message as a neighbour."""
        if source.conversation is None:
            return set()
        known = self._known[source.conversation]
        slots = known.messages[source.message]
        slots.remove(slot)
        if not slots:
            del known.messages[source.message]
        if not known.messages:
            del self._known[source.conversation]
        if source.message is None:
            self._loose[slot] = -1
            self._unnumbered -= 1
        return _around(known, source.message)

    def at(self, conversation: str, message: int) -> set[int]:
        """Return the slots of a message's facts."""
        known = self._known.get(conversation)
        return set() if known is None else known.messages.get(message, set())


def _around(conversation: _Conversation, message: int | None) -> set[int]:
    if message is None:
        return set()
    return {
        slot for offset, _ in AROUND for slot in conversation.messages.get(message - offset, ())
    }
