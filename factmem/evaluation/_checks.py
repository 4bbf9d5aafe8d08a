"""`evaluate` runs cases against a memory; `assert_cases` does so in a test."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from functools import cache, partial
from hashlib import sha256
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, NotRequired

import orjson
from pydantic import ConfigDict, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass
from typing_extensions import TypedDict

from factmem._arguments import expect_within
from factmem._text.spoken_time import WrittenDate, dates_in
from factmem.detection.report import DetectionReport
from factmem.errors import FactmemError, StorageError
from factmem.evaluation._report import CaseResult, EvalReport, Outcome
from factmem.memory.agent_memory import AgentMemory
from factmem.models._values import normalized
from factmem.models.facts import AnyFact
from factmem.models.places import Place
from factmem.prompt.tokens import estimate_tokens
from factmem.recall._documents import plain_values
from factmem.recall.match import TurnMatch, prompt_line

_STRICT = ConfigDict(extra="forbid", str_strip_whitespace=True)


class ExpectedFact(TypedDict):
    """A fact that a chat states: a part of its value, in any case, and its keyword, or any."""

    value: str
    keyword: NotRequired[str]


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class EvalCase:
    """A question with the facts that answer it, or a chat with the facts that it states.

    A question without `expect` has no answer: whatever a recall returns passes, but for `erased`.

    Raises:
        ValueError: It has neither a question nor messages, or both.
    """

    id: str
    """The name of the case in reports; unique in a file."""
    question: str = ""
    expect: Sequence[str | Sequence[str]] = ()
    """Parts of the values that answer it, in any case. All must be found; of a list, one."""
    stale: Sequence[str] = ()
    """Earlier values. None of them may come before the present one, or instead of it."""
    erased: Sequence[str] = ()
    """Values that must be in no answer, and in no entry or message of the searched places."""
    message: int | None = None
    """The number of the message, from 0, that the fact must name as its source."""
    conversation: str | None = None
    """The chat that the fact must name as its source."""
    place: tuple[str, str, str, str | None] | None = None
    """The place to search: scope type, scope, subject and entity. By default those of the
    memory."""
    messages: Sequence[dict[str, Any]] = ()
    """A chat, for a case of detection, in the form of OpenAI's messages."""
    facts: Sequence[ExpectedFact] = ()
    """The facts that the chat states: `{"keyword": "city", "value": "Busan"}`."""
    accepted: bool = True
    """Whether a person has accepted the case. Others are not run."""
    note: str = field(default="")
    """A remark for people."""

    @model_validator(mode="after")
    def _check(self) -> "EvalCase":
        if bool(self.question) == bool(self.messages):
            raise ValueError("a case needs either a question or messages")
        return self


@cache
def _cases() -> TypeAdapter[EvalCase]:
    return TypeAdapter(EvalCase)


def read_cases(path: str | os.PathLike[str]) -> list[EvalCase]:
    """Read cases from a JSON Lines file; `ValueError` names a line that is none, or a used id."""
    found: dict[str, EvalCase] = {}
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            case = _cases().validate_json(line)
        except ValidationError as exc:
            first = exc.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise ValueError(f"Line {number} is not a case: {where} {first['msg']}") from None
        if case.id in found:
            raise ValueError(f"Line {number} has the id {case.id!r} of an earlier case")
        found[case.id] = case
    return list(found.values())


def write_cases(path: str | os.PathLike[str], cases: Iterable[EvalCase]) -> None:
    """Write cases as JSON Lines, without fields that have their default."""
    lines = [_cases().dump_json(case, exclude_defaults=True).decode() for case in cases]
    Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def digest(cases: Iterable[EvalCase]) -> str:
    """Return a hash of cases, which tells whether two reports are about the same ones."""
    whole = sha256()
    for case in sorted(cases, key=lambda case: case.id):
        whole.update(_cases().dump_json(case) + b"\n")
    return whole.hexdigest()[:16]


_NUMBER = re.compile(r"(?<![\w.,])\d+(?:,\d{3})*(?:\.\d+)?(?![.,]?\d)")


def folded(text: str) -> str:
    """Return a text in one width, case, spacing and form of numbers: "1,200.50" is "1200.5"."""
    return _NUMBER.sub(_plain_number, " ".join(normalized("NFKC", text).casefold().split()))


def _plain_number(match: re.Match[str]) -> str:
    whole, point, part = match[0].replace(",", "").partition(".")
    return f"{whole}.{part.rstrip('0')}".removesuffix(".") if point else whole


def has(text: str, value: str) -> bool:
    """Whether a folded text has a value that begins and ends outside of English words and numbers.

    "art" is not in "party", and a Korean noun is in itself with a particle. A date is in each text
    with all that it says: "May 2026" in "2026-05-01". An empty value is in no text.
    """
    dates, rest = dates_in(value)
    if len(dates) == 1 and not rest.strip() and any(_is_of(dates[0], d) for d in dates_in(text)[0]):
        return True
    wanted, at = folded(value), -1
    while wanted and (at := text.find(wanted, at + 1)) >= 0:
        end = at + len(wanted)
        before, after = text[at - 1 : at] if at else "", text[end : end + 1]
        if not (_joined(before, wanted[0]) or _joined(wanted[-1], after)):
            return True
    return False


def _is_of(said: WrittenDate, stored: WrittenDate) -> bool:
    return all(one in (None, two) for one, two in zip(said, stored, strict=True))


def _joined(before: str, after: str) -> bool:
    both = before + after
    return len(both) == 2 and both.isascii() and both.isalnum()


async def assert_cases(
    memory: AgentMemory, cases: str | os.PathLike[str] | Iterable[EvalCase], *, limit: int = 5
) -> EvalReport:
    """Run cases against a memory, for a test.

        async def test_memory() -> None:
            await assert_cases(memory, "cases.jsonl")

    Args:
        memory: The memory. Questions need no model; cases of detection need its chat model, and
            save nothing.
        cases: A JSON Lines file, or cases. Only accepted ones are run.
        limit: The maximum of facts and quotes that are recalled.

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
    report = await memory.recall_facts_to_agent([], case.question, limit=limit)
    spent = (perf_counter() - started) * 1000
    facts, quotes = map(_of_fact, report.facts), map(_of_turn, report.matches.turns)
    # In the order of the text for an agent.
    found = [each for pair in zip_longest(facts, quotes) for each in pair if each][:limit]
    ranks = [_rank(found, wanted) for wanted in case.expect]
    known = [rank for rank in ranks if rank is not None]
    rank = max(known, default=None) if len(known) == len(ranks) else None
    return CaseResult(
        case.id,
        case.question,
        _outcome(case, found, rank),
        rank=rank,
        tokens=estimate_tokens(report.text),
        milliseconds=spent,
        expected=[" or ".join(alternatives(wanted)) for wanted in case.expect],
        got=[each.line for each in found],
        is_semantic=report.matches.is_semantic,
    )


def alternatives(wanted: str | Sequence[str]) -> Sequence[str]:
    """Return the values of which one is enough."""
    return [wanted] if isinstance(wanted, str) else wanted


class _Found(NamedTuple):
    """A fact or a quote in the text for an agent."""

    words: str
    line: str
    message: int | None
    conversation: str | None


def _of_fact(fact: AnyFact) -> _Found:
    source, words, line = fact.source, folded(_words(fact)), prompt_line(fact)
    if source is None:
        return _Found(words, line, None, None)
    return _Found(words, line, source.message, source.conversation)


def _of_turn(match: TurnMatch) -> _Found:
    return _Found(folded(match.quote), match.text, match.turn.number, match.conversation)


def _outcome(case: EvalCase, found: Sequence[_Found], rank: int | None) -> Outcome:
    if any(_has_any(each, case.erased) for each in found):
        return Outcome.LEAKED
    if not case.expect:
        return Outcome.ANSWERED if found else Outcome.UNANSWERED
    if not found:
        return Outcome.SILENT
    expect = [value for wanted in case.expect for value in alternatives(wanted)]
    others = [(at, each) for at, each in enumerate(found, 1) if not _has_any(each, expect)]
    earlier = [at for at, each in others if _has_any(each, case.stale)]
    if earlier and (rank is None or min(earlier) < rank):
        return Outcome.STALE
    if rank is None:
        return Outcome.MISSED
    is_proven = any(_has_any(each, expect) and _is_named(each, case) for each in found)
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


def _rank(found: Sequence[_Found], wanted: str | Sequence[str]) -> int | None:
    """Return the rank of the first fact or quote with a value, from 1."""
    values = alternatives(wanted)
    return next((at for at, each in enumerate(found, 1) if _has_any(each, values)), None)


def _has_any(found: _Found, values: Iterable[str]) -> bool:
    return any(has(found.words, value) for value in values)


def _words(fact: AnyFact) -> str:
    values = plain_values(fact)
    return ", ".join(v if isinstance(v, str) else orjson.dumps(v).decode() for v in values)
