"""TurnIndex: the messages of the conversations of some places, searched by words.

Messages are cut into passages of some sentences and indexed as facts are, with the words of the
messages around them. Only messages of users and assistants are: the results of tools are long, and
nobody said them.
"""

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice

import anyio

from factmem._concurrency.per_loop import PerLoop
from factmem.ledger.resolution import PlacedFact
from factmem.llm.messages import content_text
from factmem.models.facts import Concept, FactType, SingleFact
from factmem.models.places import Identity, Place
from factmem.models.sources import FactSource, SourceKind
from factmem.providers.conversations import ChangedConversation, Turn, TurnChanges
from factmem.recall._fact_index import FactIndex
from factmem.recall.match import Match
from factmem.recall.query import RecallQuery

__all__ = ["SAID", "Passage", "TurnIndex", "passages"]

SAID = Concept("said", "What was said in earlier conversations", FactType.SINGLE, value_type=str)
"""The concept of indexed messages. No store has facts of it."""

_LONGEST = 400
"""The most characters of a passage, if its sentences are shorter."""

_MOST_PASSAGES = 100
"""The most passages of a message; a longer one is a document that somebody pasted."""

_KINDS = {"user": SourceKind.USER, "assistant": SourceKind.ASSISTANT}

_END = re.compile(r"(?<=[.!?…。\uff01\uff1f])(?=\s|[^\x00-\x7f])|\n+")


class Passage:
    """A part of a message."""

    __slots__ = ("conversation", "text", "turn")

    def __init__(self, conversation: str, turn: Turn, text: str) -> None:
        self.conversation = conversation
        self.turn = turn
        self.text = text


class TurnIndex:
    """An index of the messages of some places. The caller keeps searches and changes apart.

    Args:
        places: The places.
    """

    def __init__(self, places: Mapping[Identity, Place]) -> None:
        self.places = places
        self.lock = threading.Lock()
        self.loading: PerLoop[anyio.Lock] = PerLoop(anyio.Lock)
        """Held by the one task of an event loop that reads changes."""
        self.versions: Mapping[Place, object] = dict.fromkeys(places.values())
        """The version up to which each place was read; replaced, never mutated."""
        self._index = FactIndex(places.values())
        self._passages: dict[tuple[Identity, str], Passage] = {}
        self._ids: dict[tuple[Identity, str], dict[int, list[str]]] = {}
        """The ids of the passages of each conversation, by the number of their message."""

    def __len__(self) -> int:
        return len(self._index)

    def follow(self, changes: Mapping[Place, TurnChanges]) -> None:
        """Apply the changes of places."""
        with self.lock:
            for place, changed in changes.items():
                for chat in changed.conversations:
                    self._follow(place.identity, chat)
            self.versions = {
                **self.versions,
                **{place: each.version for place, each in changes.items()},
            }

    def _follow(self, identity: Identity, chat: ChangedConversation) -> None:
        held = self._ids.setdefault((identity, chat.id), {})
        numbers = list(held) if chat.is_whole else [turn.number for turn in chat.turns]
        for number in numbers:
            self._drop(identity, held.pop(number, []))
        for turn in chat.turns:
            self._put(identity, chat.id, turn, held)
        if not held:
            del self._ids[identity, chat.id]

    def _put(self, identity: Identity, name: str, turn: Turn, held: dict[int, list[str]]) -> None:
        kind = _KINDS.get(turn.role)
        if kind is None:
            return
        source = FactSource(kind, name, turn.number)
        for part, text in enumerate(passages(content_text(turn.message))):
            fact_id = f"{turn.number}.{part}.{name}"
            words = f"{turn.name}: {text}" if turn.name else text
            fact = SingleFact(SAID, words, id=fact_id, timestamp=turn.said_at, source=source)
            self._index.put(identity, PlacedFact(self.places[identity], fact))
            self._passages[identity, fact_id] = Passage(name, turn, text)
            held.setdefault(turn.number, []).append(fact_id)

    def _drop(self, identity: Identity, ids: Sequence[str]) -> None:
        self._index.drop(identity, SAID.keyword, ids)
        for each in ids:
            del self._passages[identity, each]

    def search(self, query: RecallQuery, now: datetime) -> list[tuple[Match, Passage]]:
        """Return the best passages for a question, best first."""
        with self.lock:
            return [
                (match, self._passages[match.place.identity, match.fact.id])
                for match in self._index.search(query, now)
            ]


def passages(text: str) -> Iterator[str]:
    """Yield the passages of a message: whole sentences, as many as fit into 400 characters."""
    return islice(_packed(text), _MOST_PASSAGES)


def _packed(text: str) -> Iterator[str]:
    passage = ""
    for sentence in filter(None, map(str.strip, _END.split(text))):
        if passage and len(passage) + len(sentence) >= _LONGEST:
            yield passage
            passage = ""
        passage = f"{passage} {sentence}".strip()
        while len(passage) > 2 * _LONGEST:
            yield passage[:_LONGEST]
            passage = passage[_LONGEST:]
    if passage:
        yield passage
