"""Evidence: whether a quote can prove its item, and doubts about items that it proves.

Words are compared in a reduced form, so that inflected forms of one word are equal.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import NamedTuple

from factmem.detection._numbers import (
    counted_days,
    follows,
    numbers_in,
    written_numbers,
    years_in,
)
from factmem.detection._spelling import has_unspaced_script, stems, word_count
from factmem.detection._voices import Sentence, is_quoted, is_sure, quoted_spans
from factmem.detection.report import Doubt
from factmem.models._spoken_time import SpokenTime, spoken_times
from factmem.models._text import normalized
from factmem.models._written_dates import WrittenDate, dates_in
from factmem.models.when import When
from factmem.prompt._quotes import FoldedText, has_negation
from factmem.prompt._transcript import SaidMessage, Transcript

_SHORT = 8
"""A single word of fewer letters is in too many messages to prove anything."""
_SHORT_UNSPACED = 2
"""The same for Chinese, Japanese and Korean."""

_CLAUSE_END = re.compile(r"[.!?;,:\n()。！？，；、]|\s-\s")  # noqa: RUF001 - full width, on purpose
"""Where a clause ends: a negation beyond it belongs to something else."""
_CLAUSE = re.compile(r"[,;]|\b(?:but|and now|aber|und jetzt)\b")
"""Where a clause ends: a time beyond it belongs to something else."""
_FEW_WORDS = 4
"""A clause of so few words with a time is nothing but a time."""
_NOT_ONLY = re.compile(
    r"not (?:only|just)|no (?:doubt|problem)|nicht nur|뿐(?:만)? 아니라", re.IGNORECASE
)
"""Phrases that contain a negation and deny nothing."""
_NEGATIVE = re.compile(
    r"\b(?:no|not|non|never|none|without|avoid\w*|dislik\w*|hat(?:e|es|ed)|allerg\w*|intoleran\w*"
    r"|restrict\w*|limit\w*|avers\w*|fear\w*|former\w*|ex|free|cannot|can't|unable|lack\w*|lost"
    r"|quit\w*|stop\w*|end\w*|missing|problem\w*|worr\w*|reject\w*|decline\w*|refus\w*|diet\w*"
    r"|abneig\w*|ohne|kein\w*|nicht)\b|싫|못|안 |않|없|아니|제한|기피|알레르|알러지|过敏|不|没",
    re.IGNORECASE,
)
"""Words of a concept or a value that agree with a negation in the quote, as in "dislikes"."""
_JOKE = re.compile(
    r"\b(?:just |only )?(?:kidding|joking)\b|\bj/?k\b|(?<!\w)/s\b|\b(?:nur|kleiner) (?:ein )?scherz"
    r"|\bspaß beiseite|\bwar nur spaß|농담|개그였|장난이|ㅋㅋ+\s*농|开玩笑|冗談",
    re.IGNORECASE,
)
"""Words that take a message back as a joke."""
_OPENING = 40
"""The characters of the next message of the writer in which a joke may be taken back."""


def is_telling(quote: str, text: FoldedText, value: str) -> bool:
    """Whether a quote can prove a value: several words, the whole message, or the value itself."""
    words = FoldedText(quote).bare
    if word_count(quote) > 1 or words == text.bare:
        return True
    least = _SHORT_UNSPACED if has_unspaced_script(words) else _SHORT
    wanted = FoldedText(value).bare
    return (
        len(words) >= least
        or (bool(wanted) and wanted in words)
        or (words.isdecimal() and words in wanted)
        or bool(stems(value) & stems(quote))
    )


def ends(sentence: str, about: Iterable[str]) -> bool:
    """Whether a sentence can prove a retraction: it has a negation, or names what it retracts.

    Args:
        sentence: The quoted words and those around them.
        about: The keyword and description of the concept, and the old value.
    """
    said = stems(sentence)
    return has_negation(sentence) or any(said & stems(each.replace("-", " ")) for each in about)


def stated_period(
    item: Mapping[str, object],
    plain: str,
    span: tuple[int, int],
    said_at: datetime,
    *,
    is_event: bool = False,
) -> tuple[When | None, When | None]:
    """Return from when and until when a value holds, as far as its message says so.

    The words decide, and a model only says which of them it means: the precision is theirs, and a
    time that they do not name is left out.

    Args:
        item: The item, with `since` and `until` as a model wrote them.
        plain: The text of the message.
        span: The start and the end of the quote in it.
        said_at: When the message was written.
        is_event: Whether the value may be an event. Then "yesterday" says when it began, and not
            that it is over.
    """
    dates = [_first_date(item.get(role)) for role in ("since", "until")]
    if dates == [None, None]:
        return None, None
    sentence = Sentence(plain, *span)
    *earlier, before = _CLAUSE.split(sentence.before)
    after, *later = _CLAUSE.split(sentence.after)
    times = spoken_times(f"{before}{sentence.quote}{after}", said_at.date())
    if not times:  # "In March 2021, I started ..."
        short = [each for each in (*earlier, *later) if len(each.split()) <= _FEW_WORDS]
        times = [time for each in short for time in spoken_times(each, said_at.date())]
    since, until = (
        _supporting(written, role, times)
        for written, role in zip(dates, ("since", "until"), strict=True)
    )
    if is_event and since is not None and until is not None and since.start == until.start:
        until = None
    key = getattr(said_at.tzinfo, "key", "UTC")
    zone = "" if key == "UTC" else f"[{key}]"
    begin = None if since is None else When(since.text("since") + zone)
    finish = None if until is None else When(until.text("until") + zone)
    if begin is not None and finish is not None and finish.end <= begin.begin:
        return None, None
    return begin, finish


def _first_date(given: object) -> WrittenDate | None:
    dates = dates_in(given[:40])[0] if isinstance(given, str) else []
    return dates[0] if dates else None


def _supporting(
    written: WrittenDate | None, role: str, times: Sequence[SpokenTime]
) -> SpokenTime | None:
    """Return the time that a model means by a date; one with its role before one without."""
    span = None if written is None or written.year is None else written.span(written.year)
    if span is None:
        return None
    meant = [
        each
        for each in times
        if each.role in (role, "")
        and (
            (each.first <= span[0] and span[1] <= each.last)
            or (span[0] <= each.first and each.last <= span[1])
        )
    ]
    return max(meant, key=lambda each: each.role == role, default=None)


class Statement(NamedTuple):
    """The statement of an item, and its evidence."""

    keyword: str
    description: str
    text: str
    """The words of the value."""
    is_text: bool
    """Whether the value consists of the writer's words, unlike a number or a literal of a type."""
    number: int
    """The number of the cited message."""
    start: int
    """The start of the quote in the message's plain text."""
    end: int


class DoubtFinder:
    """Finds doubts about the items of one answer."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._shown: set[float] | None = None
        self._near: dict[int, _Near] = {}
        self._quoted: dict[int, list[tuple[int, int]]] = {}

    def doubts(self, statement: Statement) -> tuple[Doubt, ...]:
        """Return the doubts about a statement, in the order of `Doubt`."""
        plain = self._transcript.text(statement.number).plain
        near = self._near_of(statement.number)
        quote = plain[statement.start : statement.end]
        found: set[Doubt] = set()
        self._add_number_doubts(statement, near, quote, found)
        if statement.is_text and _is_foreign(statement.text, near):
            found.add(Doubt.WORDS)
        if _is_negated(statement, plain, quote):
            found.add(Doubt.NEGATION)
        found |= self._voice_doubts(statement, plain)
        if _JOKE.search(plain, statement.start) or _JOKE.search(near.next_words):
            found.add(Doubt.JOKE)
        return tuple(each for each in Doubt if each in found)

    def _add_number_doubts(
        self, statement: Statement, near: "_Near", quote: str, found: set[Doubt]
    ) -> None:
        if not any(char.isdigit() for char in statement.text):
            return
        dates, rest = dates_in(statement.text)
        quoted_years = years_in(quote)
        value_years = {each.year for each in dates if each.year is not None}
        if quoted_years and value_years and not quoted_years & value_years:
            found.add(Doubt.YEAR)
        if any(not self._date_follows(each, near) for each in dates):
            found.add(Doubt.NUMBER)
        for readings in written_numbers(rest):
            is_near = any(follows(each, near.numbers, near.said) for each in readings)
            if not is_near and not readings & self._all_numbers():
                found.add(Doubt.NUMBER)

    def _date_follows(self, written: WrittenDate, near: "_Near") -> bool:
        if written in near.dates:
            return True
        span = written.span(near.said.year)
        if span is None:
            return False
        first, last = span
        if first <= near.said <= last or any(
            first <= end and start <= last for start, end in near.counted
        ):
            return True
        if first == last and first.day in near.numbers and abs((first - near.said).days) <= 45:
            return True  # "on the 16th"
        numbers = self._all_numbers()
        parts = [part for part in (written.year, written.month, written.day) if part is not None]
        if written.month is None and written.year is not None:
            return follows(written.year, near.numbers | numbers, near.said)
        return all(part in numbers for part in parts)

    def _all_numbers(self) -> set[float]:
        if self._shown is None:
            self._shown = set()
            for each in self._transcript.messages:
                self._shown |= numbers_in(each.text)
        return self._shown

    def _near_of(self, number: int) -> "_Near":
        if number not in self._near:
            around = self._transcript.around(number)
            cited = next(each for each in around if each.number == number)
            self._near[number] = _Near(around, cited)
        return self._near[number]

    def _voice_doubts(self, statement: Statement, plain: str) -> set[Doubt]:
        """Return the doubts about who says it, about whom, and how surely."""
        sentence = Sentence(plain, statement.start, statement.end)
        about = f"{statement.keyword.replace('-', ' ')} {statement.description} {statement.text}"
        found: set[Doubt] = set()
        if is_sure(f"{statement.keyword} {statement.text}"):
            if sentence.has_condition():
                found.add(Doubt.CONDITION)
            if sentence.is_hedged():
                found.add(Doubt.HEDGE)
        if sentence.is_question():
            found.add(Doubt.QUESTION)
        if sentence.is_about_another(about):
            found.add(Doubt.PERSON)
        if statement.number not in self._quoted:
            self._quoted[statement.number] = quoted_spans(plain)
        spans = self._quoted[statement.number]
        if is_quoted(spans, plain, statement.start, statement.end) or sentence.is_reported(about):
            found.add(Doubt.QUOTATION)
        return found


class _Near:
    """The words, numbers and dates of a cited message and its neighbours."""

    def __init__(self, around: Sequence[SaidMessage], cited: SaidMessage) -> None:
        text = "\n".join(each.text[:20_000] for each in around)
        later = [each for each in around if each.number > cited.number and each.role == cited.role]
        self.next_words = later[0].text[:_OPENING] if later else ""
        """The first words of the writer's next message, which may retract the cited one."""
        self.said: date = cited.said_at.date()
        self.stems = stems(text)
        self.numbers = numbers_in(text)
        self.dates = dates_in(text)[0]
        self.counted = counted_days(text, self.said)


def _is_foreign(text: str, near: _Near) -> bool:
    """Whether no word and no number of a value is in the messages."""
    words = stems(text)
    has_number = any(readings & near.numbers for readings in written_numbers(text))
    return bool(words) and not words & near.stems and not has_number


def _is_negated(statement: Statement, plain: str, quote: str) -> bool:
    if has_negation(statement.text):
        return False
    about = f"{statement.keyword.replace('-', ' ')} {statement.description} {statement.text}"
    if has_negation(_NOT_ONLY.sub(" ", quote)):
        # "I don't like olives" for the value "olives": right for dislikes, wrong for favourites.
        value = normalized("NFKC", statement.text).casefold()
        place = quote.casefold().find(value)
        clause = _CLAUSE_END.split(quote.casefold()[: max(place, 0)])[-1]
        return place > 0 and has_negation(clause) and not _NEGATIVE.search(about)
    before = _CLAUSE_END.split(
        _NOT_ONLY.sub(",", plain[max(statement.start - 60, 0) : statement.start])
    )
    if has_negation(" ".join(before[-1].split()[-3:])) and not _NEGATIVE.search(about):
        return True
    after = _CLAUSE_END.split(plain[statement.end : statement.end + 60])[0]
    return has_negation(" ".join(after.split()[:1])) and not _NEGATIVE.search(about)
