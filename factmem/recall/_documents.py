"""The searchable parts of a fact: its words by field, and the text that is embedded.

Both have the entity's name, the keyword, the description and the values. Only the words also have
the date and the source's quote. On the corpus in `benchmarks/recall` both improve lexical recall;
in the embedded text the quote makes recall worse, and the date does not help.
"""

import re
from contextlib import suppress
from datetime import date
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from factmem.models.facts import AnyFact

LONGEST_TEXT = 4_000
"""The maximum number of embedded characters of a fact. Every model accepts that many."""


_LONGEST_SAID = 1_000
"""The maximum number of characters of a message that are indexed for its neighbours."""


def words_of(fact: AnyFact, entity: str | None) -> dict[str, str]:
    """Return the fields of a fact's document in the lexical index.

    Args:
        fact: A loaded fact.
        entity: The entity of its subject.
    """
    source = fact.source
    fields = {
        "keyword": fact.concept.keyword,
        "description": fact.concept.description,
        "value": "\n".join(map(value_words, plain_values(fact))),
        "date": date_words(fact.timestamp),
        "entity": entity or "",
        "quote": "" if source is None or source.quote is None else source.quote,
    }
    return {name: text for name, text in fields.items() if text or name not in ("entity", "quote")}


def meaning_of(fact: AnyFact, entity: str | None) -> str:
    """Return the text of a fact that is embedded, at most 4,000 characters.

    Example: "alice: home city (Where the user lives): Busan".
    """
    concept = fact.concept
    topic = concept.keyword.replace("-", " ").replace("_", " ")
    about = f" ({concept.description})" if concept.description else ""
    whom = f"{entity}: " if entity else ""
    values = ", ".join(map(value_words, plain_values(fact)))
    return f"{whom}{topic}{about}: {values}"[:LONGEST_TEXT]


def said(fact: AnyFact) -> str:
    """Return the words of a fact's message: its quote, or else its values."""
    quote = None if fact.source is None else fact.source.quote
    return (quote or " ".join(map(value_words, plain_values(fact))))[:_LONGEST_SAID]


def text_digest(text: str) -> bytes:
    """Return a digest of 16 bytes, the key of a text's vector."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def plain_values(fact: AnyFact) -> list[Any]:
    """Return the values of a fact as plain JSON."""
    concept = fact.concept
    if concept.codec.is_plain_text:
        return list(fact.values)
    plain: list[Any] = []
    for value in fact.values:
        try:
            plain.append(concept.codec.dump(value, concept.keyword))
        except ValueError:  # the loaded value is not valid for saving
            plain.append(str(value))
    return plain


FIELD_WEIGHTS = {"quote": 0.5}
"""The weights of a fact's fields in the lexical index; 1 for all others."""

RECURRING_FIELDS = (("keyword", "description", "entity"), ("date",))
"""Groups of fields with equal content in many facts. None of them contains a value."""

_iso_day = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.]+(?:Z|[+-][0-9:]+)?)?\Z")


def value_words(value: object) -> str:
    """Convert a value to words: the keys and members of objects and lists, in order.

    A day, as a `date` or an ISO 8601 string, also gets its `date_words`, so that "February" finds
    it. null has no words. Nested values of any depth are walked without recursion.
    """
    if type(value) is str:  # the common case
        return " ".join(_scalar_words(value))
    words: list[str] = []
    pending = [value]
    while pending:
        match pending.pop():
            case dict() as members:
                for key, member in reversed(members.items()):
                    pending += (member, key)
            case list() | tuple() as members:
                pending += reversed(members)
            case None:
                pass
            case other:
                words += _scalar_words(other)
    return " ".join(words)


def _scalar_words(value: object) -> list[str]:
    text = str(value)
    if text[:1].isdecimal() and _iso_day.match(text):
        with suppress(ValueError):
            return [text, date_words(date.fromisoformat(text[:10]))]
    return [text.lower() if isinstance(value, bool) else text]


_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def date_words(moment: date) -> str:
    """Return a day in English, ISO 8601 and Korean: "17 May 2023 2023-05-17 2023년 5월 17일".

    After the analysis by `lexical.analysis.words`, the Korean form also matches questions in
    Japanese and Chinese ("2023年5月"). Month names do not depend on the process's locale.

    Args:
        moment: A date, or a datetime in its own time zone.
    """
    return _day_words(moment.year, moment.month, moment.day)


@lru_cache(maxsize=4096)
def _day_words(year: int, month: int, day: int) -> str:
    iso = f"{year:04}-{month:02}-{day:02}"
    return f"{day} {_MONTHS[month - 1]} {year} {iso} {year}년 {month}월 {day}일"
