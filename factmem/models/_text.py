"""Unicode normalisation and case folding, in time linear in the length of a string."""

import re
from itertools import pairwise
from typing import Literal, TypeAlias
from unicodedata import normalize

Form: TypeAlias = Literal["NFC", "NFD", "NFKC", "NFKD"]

# Matches every character with a combining class and few others, none of them common in prose: no
# language has 30 of them in a row. The halfwidth katakana marks (U+FF9E, U+FF9F) are letters, but
# become combining marks in NFKC.
_MARK = r"(?:[^\w\s\x00-\u02ff\u1fbd-\u1fff\u2000-\u20cf\u2100-\u2bff\u3000-\u3029]|[\uff9e\uff9f])"
_LONGEST_RUN = 30  # the limit of Unicode's Stream-Safe Text Format (UAX 15, section 13)
_run = re.compile(f"{_MARK}{{{_LONGEST_RUN}}}")


def normalized(form: Form, text: str) -> str:
    """Return a string in a normal form of Unicode.

    The result equals that of `unicodedata.normalize`, except for runs of more than 30 combining
    marks. These are normalised in parts, because sorting takes time quadratic in the length of a
    run: `normalize` needs minutes for a string of a million marks.
    """
    if text.isascii():
        return text
    cuts = [match.end() for match in _run.finditer(text)]
    if not cuts:
        return normalize(form, text)
    borders = [0, *cuts, len(text)]
    return "".join(normalize(form, text[start:end]) for start, end in pairwise(borders))


def case_folded(text: str) -> str:
    """Fold differences of case, width and compatibility forms.

    Case folding can break the normal form, so the string is normalised again.
    """
    if text.isascii():
        return text.casefold()
    return normalized("NFKC", normalized("NFKC", text).casefold())
