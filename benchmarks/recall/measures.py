"""Measures without a judge, and their intervals by a bootstrap over conversations."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.recall.public_sets import Asked, Turn

__all__ = ["Ranked", "Scores", "interval", "mean", "scored"]

_SAMPLES = 2000

Scores = Mapping[str, float | None]
"""The measures of one question; None where a measure does not apply to it."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """What a method returned for a question, best first."""

    turns: Sequence[Turn]
    tokens: int


def scored(asked: Asked, found: Ranked, depths: Sequence[int], order: Mapping[str, int]) -> Scores:
    """Return the measures of a question.

    any@k: a message that answers it is among the first k; all@k: all of them; recall@k: their
    share. `session@k`: one of the first k messages is of a session that answers it. MRR: one
    divided by the rank of the first right message, 0 without one. `stale`: of a question whose
    answer changed, the first right message is not the last one that was said. `empty`: nothing was
    returned.

    Args:
        asked: The question.
        found: What was returned.
        depths: The values of k; none for the full context, which has no order.
        order: The position of each message in the chat.
    """
    scores: dict[str, float | None] = {"tokens": float(found.tokens)}
    scores["empty" if asked.has_answer else "empty, no answer"] = float(not found.turns)
    if not asked.has_answer:
        return scores
    ids = [turn.id for turn in found.turns]
    ranks = [at for at, each in enumerate(ids, 1) if each in asked.turns]
    for k in depths:
        if asked.turns:
            hits = len(asked.turns.intersection(ids[:k]))
            scores[f"any@{k}"] = float(hits > 0)
            scores[f"all@{k}"] = float(hits == len(asked.turns))
            scores[f"recall@{k}"] = hits / len(asked.turns)
        if asked.sessions:
            sessions = {turn.session for turn in found.turns[:k]}
            scores[f"session@{k}"] = float(not asked.sessions.isdisjoint(sessions))
    if asked.turns and depths:
        scores["MRR"] = 1 / ranks[0] if ranks else 0.0
    if depths and asked.is_update and len(asked.turns) > 1 and ranks:
        newest = max(asked.turns, key=lambda each: order[each])
        scores["stale"] = float(ids[ranks[0] - 1] != newest)
    return scores


def mean(scores: Iterable[Scores], name: str) -> float | None:
    """Return the mean of a measure over the questions that it applies to; None if there is none."""
    known = [value for each in scores if (value := each.get(name)) is not None]
    return fmean(known) if known else None


def interval(
    clusters: Sequence[Sequence[Scores]], name: str, *, seed: int = 1
) -> tuple[float, float] | None:
    """Return the 95 % interval of a mean: conversations are drawn, with all of their questions.

    Questions about one conversation depend on each other, so drawing questions would make intervals
    too narrow. None if fewer than two conversations have the measure.
    """
    sums: list[tuple[float, int]] = []
    for cluster in clusters:
        known = [value for each in cluster if (value := each.get(name)) is not None]
        if known:
            sums.append((sum(known), len(known)))
    if len(sums) < 2:
        return None
    chance = random.Random(seed)
    means: list[float] = []
    for _ in range(_SAMPLES):
        drawn = chance.choices(sums, k=len(sums))
        means.append(sum(whole for whole, _ in drawn) / sum(count for _, count in drawn))
    means.sort()
    return means[round(0.025 * _SAMPLES)], means[round(0.975 * _SAMPLES) - 1]
