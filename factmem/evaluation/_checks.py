"""`evaluate` runs cases against a memory; `assert_cases` does so in a test."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from time import perf_counter

import orjson

from factmem._arguments import expect_within
from factmem.detection.report import DetectionReport
from factmem.errors import FactmemError
from factmem.evaluation._cases import EvalCase, digest, read_cases
from factmem.evaluation._report import CaseResult, EvalReport, Outcome
from factmem.evaluation._words import folded, has
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import AnyFact
from factmem.models.places import Place
from factmem.models.sources import FactSource
from factmem.prompt.tokens import estimate_tokens
from factmem.recall._documents import plain_values
from factmem.recall.match import Match

__all__ = ["assert_cases", "evaluate"]


async def assert_cases(
    memory: AgentMemory,
    cases: str | os.PathLike[str] | Iterable[EvalCase],
    *,
    limit: int = 5,
) -> EvalReport:
    """Run cases against a memory, for a test.

        async def test_memory() -> None:
            await assert_cases(memory, "cases.jsonl")

    Args:
        memory: The memory. Questions need no model; cases of detection need its chat model, and save
            nothing.
        cases: A JSON Lines file, or cases. Only accepted ones are run.
        limit: The maximum of facts that a recall returns.

    Returns:
        The report.

    Raises:
        AssertionError: A case failed; the message names each one.
        ValueError: The file has no accepted case, or a line is no case.
        OSError: The file could not be read.
    """
    given = read_cases(cases) if isinstance(cases, str | os.PathLike) else cases
    report = await evaluate(memory, given, limit=limit)
    if not report.results:
        raise ValueError("No case is accepted: set accepted to true, or use `factmem eval accept`")
    if report.failed:
        raise AssertionError(report.to_text())
    return report


async def evaluate(memory: AgentMemory, cases: Iterable[EvalCase], *, limit: int = 5) -> EvalReport:
    """Run the accepted cases against a memory, one after another; see `assert_cases`."""
    expect_within(limit, int, "limit", "limit=5", least=1)
    run = [case for case in cases if case.accepted]
    texts: dict[Place, str] = {}
    results = [await _result(memory, case, limit, texts) for case in run]
    return EvalReport(results, limit, digest(run), _version())


async def _result(
    memory: AgentMemory, case: EvalCase, limit: int, texts: dict[Place, str]
) -> CaseResult:
    failed = partial(CaseResult, case.id, case.question, Outcome.FAILED)
    try:
        if case.place is not None:
            memory = memory.view(places=[Place.of_identity(case.place)])
        if case.messages:
            return await _detected(memory, case)
        result = await _recalled(memory, case, limit)
        leaked = await _remaining(memory, case.erased, texts)
    except (FactmemError, ValueError, TypeError) as exc:
        return failed(problem=f"{type(exc).__name__}: {exc}")
    return result if not leaked else replace(result, outcome=Outcome.LEAKED)


async def _recalled(memory: AgentMemory, case: EvalCase, limit: int) -> CaseResult:
    started = perf_counter()
    matches = await memory.recall(case.question, limit=limit)
    spent = (perf_counter() - started) * 1000
    ranks = [_rank(matches, value) for value in case.expect]
    known = [rank for rank in ranks if rank is not None]
    rank = max(known, default=None) if len(known) == len(ranks) else None
    return CaseResult(
        case.id,
        case.question,
        _outcome(case, matches, rank),
        rank=rank,
        tokens=estimate_tokens("\n".join(match.text for match in matches)),
        milliseconds=spent,
        expected=list(case.expect),
        got=[match.text for match in matches],
        is_semantic=matches.is_semantic,
    )


def _outcome(case: EvalCase, matches: Sequence[Match], rank: int | None) -> Outcome:
    if any(_rank(matches, value) for value in case.erased):
        return Outcome.LEAKED
    if not case.expect:
        return Outcome.ANSWERED if matches else Outcome.UNANSWERED
    if not matches:
        return Outcome.SILENT
    others = [each for each in matches if not _has_any(each.fact, case.expect)]
    earlier = [matches.index(each) + 1 for each in others if _has_any(each.fact, case.stale)]
    if earlier and (rank is None or min(earlier) < rank):
        return Outcome.STALE
    if rank is None:
        return Outcome.MISSED
    answers = [each.fact.source for each in matches if _has_any(each.fact, case.expect)]
    is_proven = any(_names(source, case) for source in answers)
    return Outcome.FOUND if is_proven else Outcome.UNPROVEN


def _names(source: FactSource | None, case: EvalCase) -> bool:
    """Whether a source is the message of a case, as far as the case names one."""
    message, conversation = (
        (None, None) if source is None else (source.message, source.conversation)
    )
    return case.message in (None, message) and case.conversation in (None, conversation)


async def _remaining(
    memory: AgentMemory, erased: Sequence[str], texts: dict[Place, str]
) -> list[str]:
    """Return the erased values that an entry of the memory's places has, history included."""
    for place in memory.places if erased else ():
        if place not in texts:
            entries = await memory.store.entries(place.subject, place.scope)
            texts[place] = folded(orjson.dumps(entries, default=str).decode())
    return [value for value in erased if any(has(texts[p], value) for p in memory.places)]


async def _detected(memory: AgentMemory, case: EvalCase) -> CaseResult:
    report: DetectionReport = await memory.auto_detect_facts(list(case.messages), dry_run=True)
    facts = [placed.fact for placed in (*report.saved, *report.confirmed)]
    right = [
        [
            fact
            for fact in facts
            if wanted.get("keyword") in (None, fact.concept.keyword)
            and _has_any(fact, [wanted["value"]])
        ]
        for wanted in case.facts
    ]
    named = {fact.id for found in right for fact in found}
    lacking = [w["value"] for w, found in zip(case.facts, right, strict=True) if not found]
    leaked = [value for value in case.erased if any(_has_any(fact, [value]) for fact in facts)]
    outcome = Outcome.LEAKED if leaked else Outcome.MISSED if lacking else Outcome.FOUND
    return CaseResult(
        case.id,
        "",
        outcome,
        expected=[each["value"] for each in case.facts],
        got=[f"{fact.concept.keyword}: {_words(fact)}" for fact in facts],
        extra=len({fact.id for fact in facts} - named),
        problem=f"not detected: {', '.join(lacking)}" if lacking else "",
    )


def _rank(matches: Sequence[Match], value: str) -> int | None:
    """Return the rank of the first match with a value, from 1."""
    ranks = (at for at, match in enumerate(matches, 1) if _has_any(match.fact, [value]))
    return next(ranks, None)


def _has_any(fact: AnyFact, values: Iterable[str]) -> bool:
    text = folded(_words(fact))
    return any(has(text, value) for value in values)


def _words(fact: AnyFact) -> str:
    values = plain_values(fact)
    return ", ".join(v if isinstance(v, str) else orjson.dumps(v).decode() for v in values)


def _version() -> str:
    try:
        return version("factmem")
    except PackageNotFoundError:
        return ""
