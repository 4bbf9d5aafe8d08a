"""Evidence: whether a quote proves its item, by letters, numbers and positions.

No word list decides here except that of `has_negation`: the rules hold in any language. What they
cannot determine (who is meant, what is a joke) a model says, in its answer or in a verifying call.

A value is only proposed if it is in a passage that may have the words of others: a quotation, code,
a table, a mail, or a text after an introduction: "Translate into German: ...".

Models copy quotes inexactly: they write "I am" for "I'm", "she" for "I", drop a word or an accent,
and put "User said:" before. A near quote is found by letters alone: most letters of its words
follow in the same order in one place of the message. Short words weigh little, in any language, and
numbers must be equal. What is returned, and stored, are the message's own words.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from html import unescape
from itertools import chain, takewhile
from typing import NamedTuple, TypeAlias

from pydantic_core import from_json

from factmem._text.own_prose import speaks_of_text
from factmem._text.spelling import (
    NUMBER,
    follows,
    has_common_word,
    has_unspaced_script,
    in_units,
    is_english_or_german,
    letters_of,
    numbers_in,
    plain_letters,
    readings,
    stems,
    text_of,
    word_count,
)
from factmem._text.spoken_time import dates_in, spoken_times
from factmem.models._values import Canonical, normalized
from factmem.prompt._transcript import FoldedText, has_negation

_SENTENCE_END = re.compile(r"[.!?\u061f\u0964\n。]+(?=\s|$|[^\x00-\x7f])|[;\n]")
_QUESTION_MARKS = frozenset("?\u061f\u055e\u1367")
_CLAUSE_END = re.compile(r"[.!?\u061f;,\u060c:\n()。、]|\s[-\u2013\u2014]\s|^아니요?\s")
"""The end of a clause; a negation in another clause belongs to something else."""
_PAUSE = re.compile(r"[\u0e00-\u0eff]\s[\u0e00-\u0eff]")
"""The same in Thai and Lao, which separate clauses by spaces."""
_HEAD_END = re.compile(r"[.!?\u061f;,\u060c\n()。、]|\s[-\u2013\u2014]\s")
"""The same for the beginning of a clause: "Translate into German: I live in Rome" is one."""
_HEAD_LETTERS = 3
"""Shorter words are pronouns and articles in most languages: "I", "ich", "yo", "저는"."""
_TAIL_LETTERS = 4
"""In Korean and in scripts without spaces, this many letters after a quote are more than a polite
ending: "京都に引っ越す" and "かもしれません"."""
_IN_THE = re.compile(r"\bno(?= [^\W_a-z])")
"""Portuguese "in the", which is no negation: "Moro no Porto"."""
_CONTENT = 4
"""Values with only shorter words say whether something is the case: "no", "yes"."""
_SHORT_ANSWER = 3
"""An answer of at most this many words may confirm what a question asks."""
_SHORT = 8
"""A single word with fewer letters is in too many messages to prove anything."""
_SHORT_UNSPACED = 2
"""The same for Chinese, Japanese and Korean."""
_FULL_HOUR = re.compile(r"(\d{1,2})[:h]00(?!\d)")


Near: TypeAlias = tuple[str, str, str | None]
"""The text beside a quote, the message before, and of whom it is true if it only agrees."""


class Sentence(NamedTuple):
    """The sentence around a quote."""

    before: str
    quote: str
    after: str
    closing: str
    """The marks that end it."""

    @classmethod
    def around(cls, plain: str, span: tuple[int, int]) -> "Sentence":
        """Return the sentence of a quote; at most 400 characters on either side."""
        start, end = span
        ends = [found.end() for found in _SENTENCE_END.finditer(plain, max(start - 400, 0), start)]
        closing = _SENTENCE_END.search(plain, max(end - 1, start), end + 400)
        return cls(
            plain[ends[-1] if ends else max(start - 400, 0) : start],
            plain[start:end],
            plain[end : closing.end()] if closing else plain[end : end + 400],
            closing.group() if closing else "",
        )

    @property
    def text(self) -> str:
        """The whole sentence."""
        return f"{self.before}{self.quote}{self.after}"

    def is_question(self) -> bool:
        """Whether the quote belongs to the last clause of a question."""
        if not _QUESTION_MARKS & set(self.closing) and not _QUESTION_MARKS & set(self.quote[-1:]):
            return False
        rest = self.after.removesuffix(self.closing)
        return _CLAUSE_END.search(rest) is None

    def denies(self, value: str, about: str, *, is_kept: bool) -> bool:
        """Whether a value's clause is negated, in the quote or beside it, and the value is not.

        No "not" is missing in an item `about` "what the user does not eat", or in one that keeps it
        by the model's word (`is_kept`): "dislikes: olives".
        """
        if has_negation(value):
            return False
        is_no = is_english_or_german(self.text)
        told = self if is_no else Sentence(*(_IN_THE.sub(" ", each) for each in self))
        if has_negation(told.quote):
            clauses = _CLAUSE_END.split(told.quote)
            nearest = max(
                clauses, key=lambda each: (len(stems(each) & stems(value)), has_negation(each))
            )
            is_meant = not is_kept and not has_negation(about)
            return is_meant and has_negation(nearest) and has_common_word(value, nearest)
        before = _CLAUSE_END.split(told.before)[-1].split()[-3:]
        after = _CLAUSE_END.split(told.after)[0].split()[:1]
        is_behind = _PAUSE.match(told.before[-2:] + told.quote[:1]) is None
        is_ahead = _PAUSE.match(told.quote[-1:] + told.after[:2]) is None
        is_denied = is_behind and has_negation(" ".join(before))
        return is_denied or (is_ahead and has_negation(" ".join(after)))

    def leaves_out(self, about: str, given: str) -> bool:
        """Whether a quote leaves out words of its clause that may say who, whether or when.

        These are longer words before it that are not in keyword and value (`about`), and any words
        after it in languages whose verb comes last. The `given` quote may begin in another way: "I
        am allergic" for "My dog is allergic".
        """
        before = _HEAD_END.split(self.before)[-1]
        after = _CLAUSE_END.split(self.after)[0]
        if has_unspaced_script(self.quote) and len(re.sub(r"\W", "", after)) >= _TAIL_LETTERS:
            return True
        known = {*re.findall(r"[^\W_]+", given.casefold())}
        replaced = takewhile(
            lambda word: word.casefold() not in known and not stems(word) & stems(given),
            re.findall(r"[^\W_]+", self.quote),
        )
        words = [*re.findall(r"[^\W_]+", before), *(replaced if given else ())]
        long = [word for word in words if len(word) >= _HEAD_LETTERS and stems(word)]
        return not all(has_common_word(word, about) for word in long)


def states(value: str, sentence: Sentence, said: date, near: Near, about: str) -> bool:
    """Return whether a value shares a word or a number with its evidence.

    The evidence is the sentence of the quote, the text beside it, and keyword and description
    (`about`); also the message before, if the sentence only answers it or the model says so.
    """
    if not any(map(str.isalpha, value)):
        return True  # the numbers are compared by `has_its_numbers`
    if (is_agreed := _is_agreed(value, sentence, near)) is not None:
        return is_agreed
    known, spoken = numbers_in(sentence.text), spoken_times(sentence.text, said)
    dates = [each.span(said.year) for each in dates_in(value)[0] if each.day is not None]
    is_dated = any(each == time[:2] for each in dates for time in spoken)
    is_counted = any(follows(each, known, said) for each in numbers_in(value))
    if is_dated or is_counted or has_common_word(value, f"{near[0]}\n{about}"):
        return True
    is_small = all(len(word) < _CONTENT for word in value.split()) or has_negation(value)
    is_alike = has_negation(value) == has_negation(sentence.text)  # "no", "has one", "not allowed"
    return is_small and has_common_word(about, sentence.text) and is_alike


def _is_agreed(value: str, sentence: Sentence, near: Near) -> bool | None:
    """Whether a sentence that does not contain a value agrees to it; None if it does not answer.

    "The rest is right" agrees to all that the message before states, except for what the text
    beside it names: "Not Leeds any more. The rest is right".
    """
    beside, before, who = near
    if has_common_word(value, sentence.text):
        return None
    answer = _CLAUSE_END.split(sentence.text.strip())[0]
    is_asked = bool(_QUESTION_MARKS & set(normalized("NFKC", before)))
    is_answer = is_asked and not sentence.is_question() and word_count(answer) <= _SHORT_ANSWER
    is_said = is_answer or who is not None
    words = [each for each in re.findall(r"[^\W_]+", plain_letters(value)) if not each.isdecimal()]
    known = [each for each in words if has_common_word(f"{each} {each[:-1]}", before)]
    others = re.findall(r"[^\W_]{2,}", plain_letters(who or "")) or ["(?!)"]
    told = [re.sub("|".join(others), "", word) for word in known if has_unspaced_script(word)]
    told += [e for e in known if len(e) >= _CONTENT and not has_common_word(e, " ".join(others))]
    is_apart = (is_said or not is_asked) and any(has_common_word(each, beside) for each in told)
    if is_apart or (is_answer and _names_another(answer, value, before)):
        return False
    is_denied = who is None and has_negation(answer) and not has_negation(value)
    is_known = any(len(each) >= _HEAD_LETTERS or has_unspaced_script(each) for each in known)
    return not is_denied if is_known and is_said else None


def _names_another(answer: str, value: str, before: str) -> bool:
    """Whether a short answer names something else: "Tim" to "Is it Tom?", one of two choices."""
    words = re.findall(r"[^\W_]+", answer)
    is_choice = len(words) == 1 and len(words[0]) >= _CONTENT and words[0] in before
    names = words if is_choice else [word for word in words[1:] if word[:1].isupper()]
    return bool(names) and not any(has_common_word(value, word) for word in names)


def has_its_numbers(key: Canonical, sentence: Sentence, shown: str, said: date) -> bool:
    """Return whether the numbers of a value follow from a sentence that has numbers, too.

    Numbers in words are not parsed, so a sentence without digits proves any number. Dates are not
    compared, as they are computed from the day of the message.
    """
    next_words = *sentence.before.split()[-1:], *sentence.after.split()[:1]
    written = numbers_in(sentence.quote) or numbers_in(" ".join(next_words))
    known = written | numbers_in(sentence.text) | numbers_in(shown)
    number = None if isinstance(key, str) else from_json(key)
    if isinstance(number, int | float) and not isinstance(number, bool):
        spoken = {float(each.first.year) for each in spoken_times(sentence.text, said)}
        return not written or follows(float(number), known | spoken, said)
    dates, rest = dates_in(_FULL_HOUR.sub(r"\1", normalized("NFKC", text_of(key))))
    years = {float(each.year) for each in dates if each.year is not None}
    quoted_years = {each for each in numbers_in(sentence.quote) if 1900 <= each <= 2100}
    if years and quoted_years:
        return bool(years & quoted_years)
    wanted = [in_units(rest.strip()) or readings(each) for each in NUMBER.findall(rest)]
    if dates or not wanted or not written:
        return True
    return any(follows(each, known, said) for each in chain.from_iterable(wanted))


def is_telling(quote: str, text: FoldedText, value: str) -> bool:
    """Whether a quote can prove a value: as several words, a whole message, or the value itself."""
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
    """Whether a sentence can prove a retraction: by a negation, or by naming what it retracts."""
    said = stems(sentence)
    return has_negation(sentence) or any(said & stems(each.replace("-", " ")) for each in about)


_MARKED = re.compile(
    r"\"[^\"\n]{1,2000}\"|[«»][^«»\n]{1,2000}[«»]|「[^」\n]{1,2000}」|『[^』\n]{1,2000}』"
    r"|[\u2039\u203a][^\u2039\u203a\n]{1,2000}[\u2039\u203a]"
    r"|(?<![\w'])'(?:[^'\n]|(?<=\w)'(?=\w)){1,500}'(?![\w'])"
)
"""Passages in quotation marks, or code in a line, whose marks are apostrophes in plain text."""
_HEADER = r"^[^\W\d_][^\n:]{0,15}:[^\S\n]*+\S[^\n]*+\n"
_PASTED = re.compile(
    r"^[ \t]*(?:>|\|)[^\n]*$|^[^\n|]+\|[^\n|]+\|[^\n]*$|^\S[^\t\n]*\t[^\n]*$"
    r"|(?P<code>'{3}|~{3}).{1,5000}?(?:(?P=code)|\Z)"
    r"|<(?P<tag>\w{1,20})(?: [^<>\n]*)?>.{1,5000}?</(?P=tag)>"
    r"|^[ \t]*-{3,}[^-\n]+-{3,}[ \t]*\n.*"
    rf"|(?:{_HEADER}){{2}}(?:(?:{_HEADER})*[ \t]*\n|{_HEADER})(?P<mail>.*)",
    re.DOTALL | re.MULTILINE,
)
"""Lines of a reply, rows of a table, blocks of code, tags, a forwarded mail, and the text behind
two header lines and an empty one, or three header lines."""
_CSV = re.compile(r"^(?:(?:[^,;\n]+[,;](?=\S)(?<!\d.(?=\d)))+[^,;\n]+(?:\n|\Z)){2,}", re.MULTILINE)
"""At least two lines with commas that no space follows."""
_LETTER = re.compile(
    r"^[^\n,.!?]{2,40},[ \t]*\n.{10,2000}?^[^\n.!?:]{2,30}\n[^\n.,!?:]{1,30}$",
    re.DOTALL | re.MULTILINE,
)
"""A letter: a greeting with a comma, text, and two short lines at the end. A message that is
nothing else is the writer's own."""
_INTRODUCED = re.compile(
    r"(?:^|(?<=[\n.!?。:：]))(?P<head>[^\n.!?。:：]{2,200})[:：]"  # noqa: RUF001
    rf"(?:[ \t]*\n(?!\s*[>\"«「])(?P<rest>.+)|(?!\s*(?:{_MARKED.pattern}))(?P<line>[^\n]+))",
    re.DOTALL,
)
"""The text after a colon: the rest of the line, or all that follows if the line ends there and no
marks end the text."""
_TITLE_WORDS = 3
"""Quotation marks around at most this many words can enclose a name or a title."""
_TITLE_LETTERS = 12
"""The same in characters, for scripts without spaces."""


class Quotation(NamedTuple):
    """A passage of a message that may have the words of others."""

    start: int
    end: int
    title: str | None
    """Its folded words; None if it is pasted."""
    is_long: bool = False
    """Whether it has more words than most names and titles."""

    @classmethod
    def passages(cls, plain: str) -> "Sequence[Quotation]":
        found = [
            cls(*each.span("mail" if each["mail"] else 0), None) for each in _PASTED.finditer(plain)
        ]
        found += [cls(*each.span(), None) for each in _CSV.finditer(plain)]
        found += [
            cls(*each.span(), None)
            for each in _LETTER.finditer(plain)
            if each.group().strip() != plain.strip()
        ]
        found += [
            cls(*each.span("rest" if each["rest"] else "line"), None)
            for each in _INTRODUCED.finditer(plain)
            if speaks_of_text(each["head"])
        ]
        for each in _MARKED.finditer(plain):
            words = each.group()[1:-1].strip()
            is_long = len(words.split()) > _TITLE_WORDS or (
                not words.isascii() and len(words) > _TITLE_LETTERS
            )
            found.append(cls(*each.span(), FoldedText(words).bare, is_long))
        return found

    def has(self, value: str, plain: str, span: tuple[int, int]) -> bool:
        """Whether the value of a quote is from this passage, and not its name or title.

        A passage whose words are all in the value is a title; a long one only if the quote has
        more words.
        """
        first, last = max(self.start, span[0]), min(self.end, span[1])
        if first >= last:
            return False
        is_title = self.title is not None and self.title in FoldedText(value).bare
        if (first, last) == span:
            return self.is_long or not is_title
        rest = f"{plain[span[0] : first]} {plain[last : span[1]]}"
        is_inside = has_common_word(value, plain[first:last]) and not has_common_word(value, rest)
        return is_inside and not is_title


_LEAST = 0.6
"""The least share of a quote's letters that are in the message."""
_MOST_BETWEEN = 0.5
"""The most letters between the matching words, as a share of those that match."""
_FEWEST = 6
"""With fewer matching letters a quote proves nothing; half as many suffice in scripts that write a
word with one or two letters."""
_STEM = 4
"""Words with this many equal first letters are forms of one word."""
_MOST_SKIPPED = 4
"""The most words of the message that are skipped between two matching ones."""
_MOST_WORDS = 5_000
_MOST_QUOTED = 80
_PIECE = re.compile(r"[^\W_]+")
_SPOKEN = re.compile(r"^[^:\n\"]{1,40}[:,]\s*(?=\S)")
"""A prefix that models add to a quote: "User said:"."""

_INSIDE = re.compile(r"[\"“„«「『]([^\"”“»」』]+)[\"”“»」』]")


class _Word(NamedTuple):
    letters: str
    start: int
    end: int

    @property
    def weight(self) -> int:
        return len(self.letters) * (1 if self.letters.isascii() else 2)


def near_span(text: FoldedText, quote: str) -> tuple[int, int] | None:
    """Return the span of an inexact quote, with equal numbers and negation; None if not found."""
    said = _words(text.plain)[:_MOST_WORDS]
    for form in _forms(quote):
        asked = _words(FoldedText(form).plain)
        if asked and len(asked) <= _MOST_QUOTED and (span := _found(text, said, asked, form)):
            return span
    return None


def _forms(quote: str) -> Iterator[str]:
    plain = unescape(quote).strip()
    if (head := _SPOKEN.match(plain)) is not None:
        yield plain[head.end() :]
    if (inside := _INSIDE.search(plain)) is not None:
        yield inside.group(1)
    yield plain


def _found(
    text: FoldedText, said: Sequence[_Word], asked: Sequence[_Word], quote: str
) -> tuple[int, int] | None:
    total = sum(each.weight for each in asked)
    best, best_positions = 0.0, list[int]()
    for start, word in enumerate(said):
        if not any(_is_same(word, each) for each in asked[:3]):
            continue
        positions = _aligned(said, asked, start)
        hit = sum(said[at].weight for at in positions)
        between = sum(
            said[at].weight for at in range(positions[0], positions[-1] + 1) if at not in positions
        )
        if between <= _MOST_BETWEEN * hit and hit - between / 2 > best:
            best, best_positions = hit - between / 2, positions
    if not best_positions:
        return None
    hit = min(sum(said[at].weight for at in best_positions), total)
    if hit < _LEAST * total or hit < _FEWEST:
        return None
    first, last = best_positions[0], best_positions[-1]
    first = _extended(text.plain, said, first, _missing_before(said[first], asked))
    span = said[first].start, said[last].end
    words = text.plain[span[0] : span[1]]
    is_equal = _numbers(words) == _numbers(quote) and has_negation(words) == has_negation(quote)
    return span if is_equal else None


def _aligned(said: Sequence[_Word], asked: Sequence[_Word], start: int) -> list[int]:
    """Return the positions of a quote's words that follow each other from a position on."""
    positions = list[int]()
    at = start
    for each in asked:
        limit = start + 1 if not positions else at + 1 + _MOST_SKIPPED
        for position in range(at, min(limit, len(said))):
            if _is_same(said[position], each):
                positions.append(position)
                at = position + 1
                break
    return positions


def _missing_before(first: _Word, asked: Sequence[_Word]) -> int:
    """Return how many words of a quote precede the first one that the message has."""
    return next(number for number, each in enumerate(asked) if _is_same(first, each))


def _extended(plain: str, said: Sequence[_Word], first: int, count: int) -> int:
    """Return the begin of a span that also has as many words before its first one."""
    for _ in range(count + bool(count)):  # one more: "I'm" is two words
        if not first or plain[said[first - 1].end : said[first].start].strip(" '"):
            break
        first -= 1
    return first


def _is_same(one: _Word, other: _Word) -> bool:
    first, second = one.letters, other.letters
    if first == second:
        return True
    if min(len(first), len(second)) < _STEM or first.isdigit() or second.isdigit():
        return False
    return first[:_STEM] == second[:_STEM]


def _numbers(text: str) -> list[str]:
    return sorted(re.findall(r"\d+", normalized("NFKC", text)))


def _words(text: str) -> list[_Word]:
    """Return the words of a text without accents; in scripts without spaces, its characters."""
    found = list[_Word]()
    for piece in _PIECE.finditer(text):
        for letters, start, end in letters_of(piece.group()):
            found.append(_Word(letters, piece.start() + start, piece.start() + end))
    return found
