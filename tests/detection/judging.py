"""Judges one item of an answer about a short chat, without a model and a store."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from factmem.detection._candidates import Rules
from factmem.detection._reconciliation import CurrentValues, join_keywords, read_items, reconcile
from factmem.detection.report import DetectionReport, DetectionRequest
from factmem.ledger.resolution import PlacedFact
from factmem.models.facts import (
    Concept,
    FactSource,
    FactType,
    MultipleFacts,
    SingleFact,
    SourceKind,
)
from factmem.models.places import Place
from factmem.prompt._transcript import Transcript
from tests.world import AGENT, ALICE

SUNDAY = datetime(2024, 5, 12, 18, tzinfo=UTC)

Known = tuple[str, str] | tuple[str, str, str]
"""Keyword and value, and the type unless it is MULTIPLE."""


def chat(said: str | Sequence[str]) -> list[dict[str, Any]]:
    """Return messages of the user with an answer between; a leading ">" marks the assistant."""
    texts = [said] if isinstance(said, str) else said
    return [
        {"role": "assistant", "content": text[1:]}
        if text.startswith(">")
        else {"role": "user", "content": text}
        for text in texts
    ]


def known_fact(
    keyword: str, value: object, fact_type: str = "MULTIPLE", *, is_learnt: bool = True
) -> PlacedFact:
    concept = Concept(keyword, keyword.replace("-", " "), FactType(fact_type))
    source = FactSource(SourceKind.USER, quote=f"{value}") if is_learnt else None
    fact = (
        MultipleFacts(concept, (value,), timestamp=SUNDAY, source=source)
        if concept.fact_type is FactType.MULTIPLE
        else SingleFact(concept, value, timestamp=SUNDAY, source=source)
    )
    return PlacedFact(Place(AGENT, ALICE), fact)


def judge(
    said: str | Sequence[str],
    *items: dict[str, Any],
    known: Sequence[Known] = (),
    declared: Sequence[Concept[Any, Any]] = (),
    is_learnt: bool = True,
    followed: frozenset[str] = frozenset(),
    **options: Any,
) -> DetectionReport:
    """Return the judgement of items about a chat of Sunday 2024-05-12."""
    found = [known_fact(*each, is_learnt=is_learnt) for each in known]
    transcript = Transcript(chat(said), said_at=SUNDAY, **options)
    request = DetectionRequest(
        transcript=transcript, places=[Place(AGENT, ALICE)], declared=declared, followed=followed
    )
    rules = Rules(request, [placed.fact.concept for placed in found])
    read = read_items([{"message": 0, "fact_type": "MULTIPLE", **item} for item in items], rules)
    current = CurrentValues(found)
    read.candidates, joined = join_keywords(read.candidates, rules, (), current)
    report = reconcile(read, current).report
    report.joined.extend(joined)
    return report


def outcome(report: DetectionReport) -> str:
    """Return the worst outcome of an item: the reason, the doubts, or "stored"."""
    if report.rejected:
        return report.rejected[0].reason.value
    if report.doubtful:
        return "flagged: " + ", ".join(report.doubtful[0].doubts)
    if report.saved or report.retracted or report.superseded:
        return "stored"
    return "confirmed"
