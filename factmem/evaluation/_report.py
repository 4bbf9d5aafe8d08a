"""EvalReport: the results of an evaluation, as text, JSON and HTML, and the comparison of two."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from html import escape
from statistics import fmean, median
from typing import Any

from pydantic import TypeAdapter, ValidationError


class Outcome(StrEnum):
    """The result of a case."""

    FOUND = "found"
    """All that is expected was found, and it is current."""
    STALE = "stale"
    """An earlier value came before the present one, or instead of it."""
    MISSED = "missed"
    """Other facts were found."""
    SILENT = "silent"
    """Nothing was found."""
    UNPROVEN = "unproven"
    """The fact was found, and does not name the message that states it."""
    LEAKED = "leaked"
    """An erased value is still there."""
    UNANSWERED = "unanswered"
    """Nothing was found for a question that has no answer."""
    ANSWERED = "answered"
    """Facts were found for a question that has no answer; a recall ranks, and does not judge."""
    FAILED = "failed"
    """The case could not be run."""


_PASSED = frozenset({Outcome.FOUND, Outcome.UNANSWERED, Outcome.ANSWERED})


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of one case."""

    id: str
    question: str
    outcome: Outcome
    rank: int | None = None
    """The rank of the last expected value, from 1; None if one was not found."""
    tokens: int = 0
    """About how many tokens the found facts have in a prompt."""
    milliseconds: float = 0.0
    expected: Sequence[str] = ()
    got: Sequence[str] = ()
    """The found facts, or the detected ones."""
    extra: int = 0
    """How many facts were detected that the case does not name."""
    is_semantic: bool = False
    """Whether meanings were compared, and not only words."""
    problem: str = ""
    """What went wrong, in words."""

    @property
    def is_passed(self) -> bool:
        """Whether the case passed."""
        return self.outcome in _PASSED


@dataclass(frozen=True, slots=True)
class EvalReport:
    """The results of an evaluation, and what they were measured with."""

    results: Sequence[CaseResult]
    limit: int
    """The maximum of facts and quotes that were recalled."""
    cases: str
    """A hash of the cases."""
    version: str
    """The version of factmem."""

    @property
    def failed(self) -> list[CaseResult]:
        """The results of the cases that did not pass."""
        return [each for each in self.results if not each.is_passed]

    def summary(self) -> dict[str, Any]:
        """Return the counts of outcomes, and means over the questions."""
        recalled = [each for each in self.results if each.milliseconds]
        return {
            "cases": len(self.results),
            "failed": len(self.failed),
            "outcomes": dict(sorted(Counter(each.outcome.value for each in self.results).items())),
            "tokens": round(fmean(each.tokens for each in recalled), 1) if recalled else 0,
            "milliseconds": round(median(e.milliseconds for e in recalled), 2) if recalled else 0,
        }

    def to_text(self) -> str:
        """Return the failed cases and the summary as lines."""
        return "\n".join([*map(_line, self.failed), *_words(self)])

    def to_json(self) -> str:
        """Return the whole report as JSON, for `from_json` and for programs."""
        whole = {"summary": self.summary(), **asdict(self)}
        return json.dumps(whole, ensure_ascii=False, indent=2)

    @classmethod
    def from_json(cls, text: str) -> "EvalReport":
        try:
            return TypeAdapter(cls).validate_json(text)
        except ValidationError:
            raise ValueError(
                "The file is not a report: write one with `eval run --out report.json`"
            ) from None

    def to_html(self) -> str:
        """Return the whole report as a page without scripts or references."""
        rows = "".join(map(_row, sorted(self.results, key=lambda each: each.is_passed)))
        words = "".join(f"<p>{escape(line)}</p>" for line in _words(self))
        head = "".join(f"<th>{name}</th>" for name in _COLUMNS)
        return f"{_PAGE}{words}<table><tr>{head}</tr>{rows}</table></body></html>\n"


def compared(before: EvalReport, after: EvalReport) -> tuple[list[CaseResult], list[str]]:
    """Return the cases that passed before and fail now, and all changes as lines."""
    old = {each.id: each for each in before.results}
    both = [(old[each.id], each) for each in after.results if each.id in old]
    broken = [new for was, new in both if was.is_passed and not new.is_passed]
    lines = [] if before.cases == after.cases else ["The two reports are about different cases"]
    lines += [f"broken: {_line(each)}" for each in broken]
    lines += [f"fixed: {_line(new)}" for was, new in both if new.is_passed and not was.is_passed]
    one, two = before.summary(), after.summary()
    lines += [
        f"{name}: {one[name]} before, {two[name]} after"
        for name in ("cases", "failed", "tokens", "milliseconds")
    ]
    return broken, lines


def _line(result: CaseResult) -> str:
    asked = f": {result.question}" if result.question else ""
    problem = f" ({result.problem})" if result.problem else ""
    return f"{result.id} {result.outcome.value}{asked}{problem}"


def _words(report: EvalReport) -> Iterator[str]:
    summary = report.summary()
    counts = ", ".join(f"{count} {name}" for name, count in summary["outcomes"].items())
    passed = summary["cases"] - summary["failed"]
    yield f"{passed} of {summary['cases']} cases passed: {counts or 'none'}"
    extra = sum(each.extra for each in report.results)
    if extra:
        yield f"{extra} more facts were detected than the cases name"
    by = "words and meanings" if any(each.is_semantic for each in report.results) else "words"
    yield (
        f"By {by}, at most {report.limit} facts and quotes: {summary['tokens']} tokens on average, "
        f"{summary['milliseconds']} ms in the median"
    )


_COLUMNS = ("case", "outcome", "question", "expected", "got", "rank", "tokens", "ms")

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Evaluation of a memory</title><style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em; color: #222; background: #fff }
table { border-collapse: collapse } td, th { padding: .3em .8em; text-align: left; vertical-align: top }
tr { border-bottom: 1px solid #ccc } .failed td { background: #fde8e8 }
</style></head><body><h1>Evaluation of a memory</h1>"""


def _row(result: CaseResult) -> str:
    cells = (
        result.id,
        f"{result.outcome.value} {result.problem}",
        result.question,
        "\n".join(result.expected),
        "\n".join(result.got),
        "" if result.rank is None else str(result.rank),
        str(result.tokens),
        f"{result.milliseconds:.1f}",
    )
    inside = "".join(f"<td>{escape(cell).replace(chr(10), '<br>')}</td>" for cell in cells)
    return f'<tr class="{"passed" if result.is_passed else "failed"}">{inside}</tr>'
