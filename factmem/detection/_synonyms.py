"""Synonyms: made-up keywords that mean a known concept, found by an embedder."""

import re
from array import array
from collections.abc import Sequence
from logging import getLogger
from math import hypot
from operator import mul
from typing import TypeAlias

from anyio import move_on_after

from factmem._concurrency import Workers
from factmem.detection._reconciliation import Synonym
from factmem.embedding.base import Embedder, checked_vectors
from factmem.events import MemoryEvents, MemoryOperation
from factmem.models.facts import AnyConcept
from factmem.models.places import Place

SIMILARITY = 0.75
"""The least similarity of a synonym, from 0 (unrelated concepts) to 1 (the same text).

On the 40 synonyms and 60 other concepts of `benchmarks/detection/synonyms.json` MiniLM joins 26
and none wrongly; at 0.7 it joins 30 and 3 wrongly. A wrong join costs more than a missed one.
"""

_logger = getLogger(__name__)

_SECONDS = 10.0
"""The time limit for vectors; after it the keywords are saved as the model wrote them."""
_MOST_KNOWN = 480
"""The most known concepts that are compared; with the new ones they usually fit in one request."""
_BATCH = 512
_MOST_KEPT = 4_096
"""The most vectors that are kept for later calls: 6 MB with 384 numbers each."""

_UNRELATED = (
    "weather: What the weather is like",
    "invoice: Invoices of the company",
    "recipe: A recipe for a cake",
    "server: The server on which the program runs",
    "chess opening: A chess opening",
    "planet: A planet of the solar system",
    "painting: A painting in a museum",
    "contract: The date of the contract",
)
"""Strings that are no synonyms of any concept. Their similarity counts as 0: unrelated texts have a
cosine of 0.1 with MiniLM and 0.7 with models of the E5 kind, and one threshold is for both."""

_WORD = re.compile(r"[a-z]+")
_OPPOSED = """\
not no never without dislike dislikes disliked hate hates hated avoid avoids avoided |
former formerly previous previously past earlier before old ex |
next future plan plans planned upcoming | mother mom mum | father dad | parent parents |
brother brothers | sister sisters | son sons | daughter daughters | child children kid kids |
husband | wife | partner | friend friends | pet pets dog dogs cat cats | boss manager"""
"""Groups of words that change what a concept is about, or negate it, which embedders hardly notice:
"foods that the user likes" and "dislikes" have a cosine of 0.8. Two concepts are compared only if
both or neither have words of each group."""
_GROUPS = [frozenset(group.split()) for group in _OPPOSED.split("|")]

_Vector: TypeAlias = "array[float]"


class KeywordSynonyms:
    """Finds the known concept that a made-up one means. Any number of tasks may share an instance.

    Vectors of keywords with their descriptions are kept in memory, so that a known concept is
    embedded once. `least` is the least similarity of a synonym; see `SIMILARITY`.
    """

    def __init__(
        self, embedder: Embedder, events: MemoryEvents, *, least: float = SIMILARITY
    ) -> None:
        self._embedder = embedder
        self._events = events
        self._least = least
        self._vectors: dict[tuple[str, str], _Vector] = {}
        self._workers = Workers()

    async def find(
        self, new: Sequence[AnyConcept], known: Sequence[AnyConcept], places: Sequence[Place]
    ) -> list[Synonym]:
        """Return the made-up concepts that mean a known one, or an earlier made-up one.

        If the embedder fails or takes more than ten seconds, it returns none and logs a warning.
        """
        known = known[:_MOST_KNOWN]
        if not new or len(new) + len(known) < 2:
            return []
        texts = {_text(each): None for each in (*new, *known)} | dict.fromkeys(_UNRELATED)
        vectors: dict[str, _Vector] = {}
        try:
            with move_on_after(_SECONDS) as limit:
                vectors = await self._vectors_of(list(texts), places)
        except Exception as exc:  # noqa: BLE001 - a detection must not fail for its keywords
            _logger.warning(
                "Keywords were not compared: the embedder raised %s", type(exc).__name__
            )
            return []
        if limit.cancelled_caught:
            _logger.warning("Keywords were not compared: the embedder took over %s s", _SECONDS)
            return []
        return await self._workers.run(lambda: _synonyms(new, known, vectors, self._least))

    async def _vectors_of(
        self, texts: Sequence[str], places: Sequence[Place]
    ) -> dict[str, _Vector]:
        model = self._embedder.model
        found = {text: self._vectors.get((model, text)) for text in texts}
        missing = [text for text, vector in found.items() if vector is None]
        for start in range(0, len(missing), _BATCH):
            batch = missing[start : start + _BATCH]
            async with self._events.operation(MemoryOperation.EMBED, places) as operation:
                operation.count, operation.embedding_calls = len(batch), 1
                given = await self._embedder.embed(batch)
            checked = checked_vectors(
                given, count=len(batch), dimensions=self._embedder.dimensions, model=model
            )
            found |= {text: _unit(vector) for text, vector in zip(batch, checked, strict=True)}
        if len(self._vectors) > _MOST_KEPT:
            self._vectors = {}
        vectors = {text: vector for text, vector in found.items() if vector is not None}
        self._vectors |= {(model, text): vector for text, vector in vectors.items()}
        return vectors


def _text(concept: AnyConcept) -> str:
    words = concept.keyword.replace("-", " ")
    return f"{words}: {concept.description}" if concept.description else words


def _unit(vector: _Vector) -> _Vector:
    length = hypot(*vector) or 1.0
    return array("f", [each / length for each in vector])


def _synonyms(
    new: Sequence[AnyConcept],
    known: Sequence[AnyConcept],
    vectors: dict[str, _Vector],
    least: float,
) -> list[Synonym]:
    targets = [(each.keyword, _text(each)) for each in known]
    found: list[Synonym] = []
    for concept in new:
        text = _text(concept)
        unrelated = sum(_cosine(vectors[text], vectors[each]) for each in _UNRELATED)
        base = min(unrelated / len(_UNRELATED), 0.99)
        groups = _groups(text)
        comparable = [(name, other) for name, other in targets if _groups(other) == groups]
        cosine, keyword = max(
            ((_cosine(vectors[text], vectors[other]), name) for name, other in comparable),
            default=(-1.0, ""),
        )
        similarity = (cosine - base) / (1 - base)
        if similarity >= least:
            found.append(Synonym(concept.keyword, keyword, round(similarity, 3)))
        else:
            targets.append((concept.keyword, text))
    return found


def _cosine(one: _Vector, other: _Vector) -> float:
    return float(sum(map(mul, one, other)))


def _groups(text: str) -> frozenset[int]:
    words = set(_WORD.findall(text.casefold()))
    return frozenset(number for number, group in enumerate(_GROUPS) if words & group)
