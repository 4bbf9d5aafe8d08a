"""Evidence: whether a quote can prove its item, and doubts about items that it proves.

Words are compared in a reduced form, so that inflected forms of one word are equal.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import date
from typing import NamedTuple

from factmem.detection._numbers import (
    WrittenDate,
    counted_days,
    dates_in,
    follows,
    numbers_in,
    written_numbers,
    years_in,
)
from factmem.detection.report import Doubt
from factmem.models._text import normalized
from factmem.prompt._quotes import FoldedText, has_negation
from factmem.prompt._transcript import SaidMessage, Transcript

__all__ = [
    "MOST_UNQUOTED",
    "DoubtFinder",
    "Statement",
    "ends",
    "has_unspaced_script",
    "is_telling",
    "stems",
    "word_count",
]


MOST_UNQUOTED = 3
"""The most values beyond the number of its words that one quote can prove."""

_SHORT = 8
"""A single word of fewer letters is in too many messages to prove anything."""
_SHORT_UNSPACED = 2
"""The same for Chinese, Japanese and Korean."""

_CLAUSE_END = re.compile(r"[.!?;,:\n()。！？，；、]|\s-\s")  # noqa: RUF001 - full width, on purpose
"""Where a clause ends: a negation beyond it belongs to something else."""
_SENTENCE_END = re.compile(r"[.!?\n。！？]+(?=\s|$|[^\x00-\x7f])|[;\n]")  # noqa: RUF001
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
_IF = re.compile(
    r"\b(?:if|unless|suppos(?:e|ing)|imagine|assuming|provided that|wenn|falls|angenommen)\b"
    r"|만약|만일|\w(?:다면|으면)(?=[\s,.])|이라면|如果|要是|もし",
    re.IGNORECASE,
)
"""Words that begin a condition."""
_UNSURE = re.compile(
    r"\b(?:if|may|might|could|maybe|perhaps|possibl\w*|would|unless|when|depend\w*|consider\w*"
    r"|wenn|falls|vielleicht|eventuell|könnte)\b|면|수도|아마|만약|如果|可能",
    re.IGNORECASE,
)
"""Words by which a value itself says that it is uncertain."""
_ASKED = re.compile(
    r"\s*(?:and |so |but |or )?(?:am|was|should|could|can|do|did|will|would|may|might|shall|have|has"
    r"|is|are|bin|soll|kann|habe)\s+(?:i|my|we|our|ich|mein\w*|wir)\b",
    re.IGNORECASE,
)
"""The beginning of a question about the writer ("Am I ...")."""
_JOKE = re.compile(
    r"\b(?:just |only )?(?:kidding|joking)\b|\bj/?k\b|(?<!\w)/s\b|\b(?:nur|kleiner) (?:ein )?scherz"
    r"|\bspaß beiseite|\bwar nur spaß|농담|개그였|장난이|ㅋㅋ+\s*농|开玩笑|冗談",
    re.IGNORECASE,
)
"""Words that take a message back as a joke."""
_QUOTED = re.compile(
    r"\"[^\"\n]{1,2000}\"|«[^»\n]{1,2000}»|「[^」\n]{1,2000}」|『[^』\n]{1,2000}』"
    r"|```.{1,5000}?```|(?m:^[ \t]{0,8}>[^\n]*)",
    re.DOTALL,
)
"""Quoted passages: quotation marks, code blocks and quoted lines of a reply."""
_FEW_WORDS = 3
"""Quotation marks around so few words enclose a name or a title."""
_OPENING = 40
"""The characters of the next message of the writer in which a joke may be taken back."""
_FEW_LETTERS = 12
"""The same in characters, for scripts without spaces."""


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
        sentence = _Sentence(plain, statement.start, statement.end)
        if sentence.has_condition() and not _UNSURE.search(statement.text):
            found.add(Doubt.CONDITION)
        if sentence.is_question():
            found.add(Doubt.QUESTION)
        if self._is_quoted(statement, plain):
            found.add(Doubt.QUOTATION)
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

    def _is_quoted(self, statement: Statement, plain: str) -> bool:
        if statement.number not in self._quoted:
            spans = [found.span() for found in _QUOTED.finditer(plain)]
            self._quoted[statement.number] = [
                (start, end) for start, end in spans if _is_long(plain[start:end])
            ]
        return any(
            start <= statement.start and statement.end <= end
            for start, end in self._quoted[statement.number]
        )


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


class _Sentence:
    """The sentence around a quote."""

    def __init__(self, plain: str, start: int, end: int) -> None:
        ends = [found.end() for found in _SENTENCE_END.finditer(plain, max(start - 400, 0), start)]
        self.before = plain[ends[-1] if ends else max(start - 400, 0) : start]
        self.quote = plain[start:end]
        closing = _SENTENCE_END.search(plain, max(end - 1, start), end + 400)
        self.after = plain[end : closing.end()] if closing else plain[end : end + 400]
        self.closing = closing.group() if closing else ""

    def has_condition(self) -> bool:
        after = self.after.partition(",")[0]
        return any(_IF.search(part) for part in (self.before, self.quote, after))

    def is_question(self) -> bool:
        if "?" not in self.closing and "?" not in self.quote[-1:]:
            return False
        said = f"{self.before}{self.quote}"
        last = re.split(r"[,.!;\n]", said)[-1] if "," not in self.quote else said
        return _ASKED.match(said) is not None or _ASKED.match(last) is not None


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


def _is_long(quoted: str) -> bool:
    """Whether quotation marks enclose a statement, not a name or title."""
    inside = quoted.strip('"«»「」『』`> \n')
    return len(inside.split()) > _FEW_WORDS or (not inside.isascii() and len(inside) > _FEW_LETTERS)


_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_HANGUL = re.compile("[\uac00-\ud7a3]")
_STOP = frozenset(
    word
    for words in (
        "a about after all also am an and are as at be been before but by can could did do does",
        "for from had has have he her him his i if in into is it its just likes me my no not now",
        "of on or our she should so some than that the their them then there they this to too up",
        "us user very was we were what when where which who will with would you your says said",
        "der die das ein eine einen und oder ist sind war im auf zu mit von für ich mein meine",
        "sie er es wir nicht",
    )
    for word in words.split()
)
"""Words that do not distinguish values."""
_STEM = 4
"""The number of letters that remain of a word."""


def stems(text: str) -> set[str]:
    """Return the words of a string in a reduced form: first letters, and pairs of characters.

    Words of letters with inflection are cut to their first four letters, Korean ones to two
    syllables; Chinese and Japanese give pairs of characters. Stop words and digits are left out.
    """
    found: set[str] = set()
    for word in _WORD.findall(normalized("NFKC", text[:100_000]).casefold()):
        if word in _STOP or word.isdigit():
            continue
        if _UNSPACED.search(word):
            found |= {word[i : i + 2] for i in range(max(len(word) - 1, 1))}
        elif _HANGUL.search(word):
            found |= {word[:2]} | ({word[i : i + 2] for i in range(len(word) - 1)})
        else:
            found.add(word[:_STEM])
    return found


def word_count(text: str) -> int:
    """Return the number of words; two characters of Chinese or Japanese count as one."""
    return sum(
        max(len(_UNSPACED.findall(word)) // 2, 1)
        for word in _WORD.findall(normalized("NFKC", text))
    )


def has_unspaced_script(text: str) -> bool:
    """Whether a string has Chinese, Japanese or Korean characters, whose words are short."""
    return bool(_UNSPACED.search(text) or _HANGUL.search(text))
