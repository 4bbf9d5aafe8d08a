"""Quotes as models write them: how many right items are stored, and wrong ones without a mark.

    python -m benchmarks.detection.forms

The items are those of `kinds-*.json` and of `times/`, each in twelve forms of an inexact quote. A
form that does not change a quote is not counted.
"""

import html
import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.detection.dialogue import HERE
from benchmarks.detection.times import statements

_LONG = {"'m": " am", "'re": " are", "'ve": " have", "'ll": " will", "n't": " not"}
_PERSON = {"I": "she", "my": "her", "My": "Her", "ich": "sie", "yo": "ella", "je": "elle"}


def _expanded(quote: str) -> str:
    return re.sub(r"('m|'re|'ve|'ll|n't)\b", lambda short: _LONG[short.group()], quote)


_SHORT = {"I am": "I'm", "I have": "I've", "I will": "I'll"}


def _contracted(quote: str) -> str:
    return re.sub(r"\bI (am|have|will)\b", lambda long: _SHORT[long.group()], quote)


def _without_a_word(quote: str) -> str:
    words = quote.split()
    return " ".join([*words[:1], *words[2:]]) if len(words) > 3 else quote


def _of_another_person(quote: str) -> str:
    return " ".join(_PERSON.get(word, word) for word in quote.split())


def _without_accents(quote: str) -> str:
    plain = unicodedata.normalize("NFD", quote)
    kept = "".join(c for c in plain if not ("\u0300" <= c <= "\u036f"))
    return unicodedata.normalize("NFC", kept)


FORMS: dict[str, Callable[[str], Any]] = {
    "longer words": _expanded,
    "shorter words": _contracted,
    "a word dropped": _without_a_word,
    "another person": _of_another_person,
    "a prefix": lambda quote: f"User said: {quote}",
    "a prefix and marks": lambda quote: f'The user says "{quote}"',
    "no accents": _without_accents,
    "entities": lambda quote: html.escape(quote).replace("'", "&#39;"),
    "a list": lambda quote: [quote],
    "ellipses": lambda quote: f"...{quote}...",
    "a word added": lambda quote: f"{quote} now",
    "capitals": lambda quote: quote.upper(),
}


def items(label: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the messages and the items of an honest, or of a sloppy model."""
    for number in (1, 2, 3):
        given = json.loads((HERE / f"kinds-{number}.json").read_text("utf-8"))
        for each in given[label]:
            yield each["said"], {name: each[name] for name in ("quote", "keyword", "value")}
    if label == "right":
        for statement in (*statements("first"), *statements("second")):
            yield statement.text, dict(statement.item)


def inexact(label: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield each item in each form that changes its quote: form, message and item."""
    for said, given in items(label):
        for name, form in FORMS.items():
            quote = form(str(given["quote"]))
            if quote != given["quote"]:
                yield name, said, {**given, "quote": quote}


def main() -> None:
    """Print for each form how many right items are stored, and wrong ones without a mark."""
    from tests.detection.judging import judge

    for label in ("right", "wrong"):
        counts: dict[str, list[bool]] = {}
        for name, said, given in inexact(label):
            report = judge(said, given)
            is_unmarked = label == "right" or not report.doubtful
            counts.setdefault(name, []).append(bool(report.saved) and is_unmarked)
        counts["all"] = [each for stored in counts.values() for each in stored]
        for name, stored in counts.items():
            print(f"{label} {name:20} {sum(stored):4} of {len(stored):4}")


if __name__ == "__main__":
    main()
