"""The conversations of facts: neighbouring messages, and the text around a fact."""

from array import array
from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from factmem.models.facts import AnyFact
from factmem.models.sources import FactSource
from factmem.recall._documents import said

AROUND = ((-1, 0.5), (-2, 0.25), (1, 0.25))
"""The offsets of the neighbouring messages whose words also find a fact, with their weights."""

BEFORE = 0.25
"""The weight of `FactSource.before`, the message before the fact's own."""

_UNNUMBERED = -1


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


class _Conversation:
    __slots__ = ("code", "messages")

    def __init__(self, code: int) -> None:
        self.code = code
        self.messages: dict[int, set[int]] = {}
        """The slots of each message's facts."""


class Conversations:
    """The conversations of the facts in the slots of an index."""

    def __init__(self) -> None:
        self._known: dict[str, _Conversation] = {}
        self._free: list[int] = []
        self._codes: array[int] = array("i")
        self._loose: array[int] = array("i")
        self._unnumbered = 0

    @property
    def codes(self) -> "array[int] | None":
        """A number for the conversation of each slot, -1 without one; None if all are -1."""
        return self._codes if self._known else None

    @property
    def loose(self) -> "array[int] | None":
        """The same numbers, but only for facts whose message has no number."""
        return self._loose if self._unnumbered else None

    def put(self, slot: int, source: FactSource) -> set[int]:
        """Add a fact's source; return the slots that have its message as a neighbour."""
        if source.conversation is None:
            return set()
        while len(self._codes) <= slot:
            self._codes.extend([_UNNUMBERED] * 256)
            self._loose.extend([_UNNUMBERED] * 256)
        known = self._known.get(source.conversation)
        if known is None:
            code = heappop(self._free) if self._free else len(self._known)
            known = self._known[source.conversation] = _Conversation(code)
        message = _UNNUMBERED if source.message is None else source.message
        known.messages.setdefault(message, set()).add(slot)
        self._codes[slot] = known.code
        if message == _UNNUMBERED:
            self._loose[slot] = known.code
            self._unnumbered += 1
            return set()
        return _around(known, message)

    def drop(self, slot: int, source: FactSource) -> set[int]:
        """Remove a fact's source; return the slots that had its message as a neighbour."""
        if source.conversation is None:
            return set()
        known = self._known[source.conversation]
        message = _UNNUMBERED if source.message is None else source.message
        slots = known.messages[message]
        slots.remove(slot)
        if not slots:
            del known.messages[message]
        if not known.messages:
            del self._known[source.conversation]
            heappush(self._free, known.code)
        self._codes[slot] = _UNNUMBERED
        if message == _UNNUMBERED:
            self._loose[slot] = _UNNUMBERED
            self._unnumbered -= 1
            return set()
        return _around(known, message)

    def at(self, conversation: str, message: int) -> set[int]:
        """Return the slots of a message's facts."""
        known = self._known.get(conversation)
        return set() if known is None or message < 0 else known.messages.get(message, set())


def _around(conversation: _Conversation, message: int) -> set[int]:
    return {
        slot
        for offset, _ in AROUND
        if message - offset >= 0
        for slot in conversation.messages.get(message - offset, ())
    }
