"""`evaluate` runs cases against a memory; `assert_cases` does so in a test."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from time import perf_counter
from typing import NamedTuple

import orjson

from factmem._arguments import expect_within
from factmem.detection.report import DetectionReport
from factmem.errors import FactmemError, StorageError
from factmem.evaluation._cases import EvalCase, digest, read_cases
from factmem.evaluation._report import CaseResult, EvalReport, Outcome
from factmem.evaluation._words import folded, has
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import AnyFact
from factmem.models.places import Place
from factmem.prompt.tokens import estimate_tokens
from factmem.recall._documents import plain_values
from factmem.recall.match import Match, TurnMatch


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
    return EvalReport(results, limit, digest(run), version("factmem"))


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
    found = [*map(_of_fact, matches), *map(_of_turn, matches.turns)]
    ranks = [_rank(found, value) for value in case.expect]
    known = [rank for rank in ranks if rank is not None]
    rank = max(known, default=None) if len(known) == len(ranks) else None
    return CaseResult(
        case.id,
        case.question,
        _outcome(case, found, rank),
        rank=rank,
        tokens=estimate_tokens("\n".join(each.line for each in found)),
        milliseconds=spent,
        expected=list(case.expect),
        got=[each.line for each in found],
        is_semantic=matches.is_semantic,
    )


class _Found(NamedTuple):
    """A fact or a message that a recall found: facts come first, as in a prompt."""

    words: str
    line: str
    message: int | None
    conversation: str | None


def _of_fact(match: Match) -> _Found:
    source, words = match.fact.source, folded(_words(match.fact))
    if source is None:
        return _Found(words, match.text, None, None)
    return _Found(words, match.text, source.message, source.conversation)


def _of_turn(match: TurnMatch) -> _Found:
    return _Found(folded(match.turn.text), match.text, match.turn.number, match.conversation)


def _outcome(case: EvalCase, found: Sequence[_Found], rank: int | None) -> Outcome:
    if any(_has_any(each, case.erased) for each in found):
        return Outcome.LEAKED
    if not case.expect:
        return Outcome.ANSWERED if found else Outcome.UNANSWERED
    if not found:
        return Outcome.SILENT
    others = [(at, each) for at, each in enumerate(found, 1) if not _has_any(each, case.expect)]
    earlier = [at for at, each in others if _has_any(each, case.stale)]
    if earlier and (rank is None or min(earlier) < rank):
        return Outcome.STALE
    if rank is None:
        return Outcome.MISSED
    is_proven = any(_has_any(each, case.expect) and _is_named(each, case) for each in found)
    return Outcome.FOUND if is_proven else Outcome.UNPROVEN


def _is_named(found: _Found, case: EvalCase) -> bool:
    """Whether a fact has the source of a case, or a message is it, as far as the case names one."""
    is_message = case.message in (None, found.message)
    return is_message and case.conversation in (None, found.conversation)


async def _remaining(
    memory: AgentMemory, erased: Sequence[str], texts: dict[Place, str]
) -> list[str]:
    """Return the erased values that the memory's places have, in their history or a message."""
    for place in memory.places if erased else ():
        if place not in texts:
            entries = await memory.store.entries(place.subject, place.scope)
            said = [orjson.dumps(entries, default=str).decode()]
            try:
                keeper = memory.store.conversations
            except StorageError:  # this store keeps none
                keeper = None
            for chat in [] if keeper is None else await keeper.conversations(place):
                assert keeper is not None  # noqa: S101 - it has returned the conversations
                said += [turn.text for turn in await keeper.turns(chat.id, place)]
            texts[place] = folded("\n".join(said))
    return [value for value in erased if any(has(texts[p], value) for p in memory.places)]


async def _detected(memory: AgentMemory, case: EvalCase) -> CaseResult:
    report: DetectionReport = await memory.auto_detect_facts(list(case.messages), dry_run=True)
    facts = [placed.fact for placed in (*report.saved, *report.confirmed)]
    right = [
        [
            fact
            for fact in facts
            if wanted.get("keyword") in (None, fact.concept.keyword)
            and has(folded(_words(fact)), wanted["value"])
        ]
        for wanted in case.facts
    ]
    named = {fact.id for found in right for fact in found}
    lacking = [w["value"] for w, found in zip(case.facts, right, strict=True) if not found]
    leaked = [
        value for value in case.erased if any(has(folded(_words(fact)), value) for fact in facts)
    ]
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


def _rank(found: Sequence[_Found], value: str) -> int | None:
    """Return the rank of the first fact or message with a value, from 1."""
    return next((at for at, each in enumerate(found, 1) if has(each.words, value)), None)


def _has_any(found: _Found, values: Iterable[str]) -> bool:
    return any(has(found.words, value) for value in values)


def _words(fact: AnyFact) -> str:
    values = plain_values(fact)
    return ", ".join(v if isinstance(v, str) else orjson.dumps(v).decode() for v in values)
