"""Passages of a message that may have the words of others: quotations, code, tables and mails.

Detection proposes a value that only stands in one of them. Text that is introduced as one is such
a passage, too: "Translate into German: ...".
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from factmem._text.own_prose import speaks_of_text
from factmem._text.spelling import has_common_word
from factmem.prompt._transcript import FoldedText

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
"""Two lines or more whose commas have no blank behind them."""
_LETTER = re.compile(
    r"^[^\n,.!?]{2,40},[ \t]*\n.{10,2000}?^[^\n.!?:]{2,30}\n[^\n.,!?:]{1,30}$",
    re.DOTALL | re.MULTILINE,
)
"""A letter: a greeting with a comma, text, and two short lines at its end. If a message is nothing
else it is its writer's own."""
_INTRODUCED = re.compile(
    r"(?:^|(?<=[\n.!?。:：]))(?P<head>[^\n.!?。:：]{2,200})[:：]"  # noqa: RUF001
    rf"(?:[ \t]*\n(?!\s*[>\"«「])(?P<rest>.+)|(?!\s*(?:{_MARKED.pattern}))(?P<line>[^\n]+))",
    re.DOTALL,
)
"""The text behind a colon: the line, or all that follows if the line ends there and no marks show
where the text ends."""
_TITLE_WORDS = 3
"""Quotation marks around so few words can enclose a name or a title."""
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
        """Whether the value of a quote comes from this passage, and is not its name or title.

        A passage whose words are all in the value is one; a long one only if the quote has more.
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
