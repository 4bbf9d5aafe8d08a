"""The searchable parts of a fact: its words by field, and the text that is embedded.

Both have the entity's name, the keyword, the description and the values. The words have the date and
the source's quote besides: on the corpus in `benchmarks/recall` both help the lexical side; in the
text that is embedded, the quote loses and the date gains nothing.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import date
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from factmem.models.facts import AnyFact

__all__ = [
    "FIELD_WEIGHTS",
    "LONGEST_TEXT",
    "RECURRING_FIELDS",
    "date_words",
    "fact_fields",
    "meaning_of",
    "plain_values",
    "said",
    "text_digest",
    "value_words",
    "words_of",
]


LONGEST_TEXT = 4_000
"""The characters of a fact that are embedded. Every model accepts as many."""


_LONGEST_SAID = 1_000
"""The characters of a message that its neighbours are found by."""


def words_of(fact: AnyFact, entity: str | None) -> dict[str, str]:
    """Lay out a fact as the fields of a document for `LexicalIndex.add`.

    Args:
        fact: A fact that was loaded.
        entity: The entity of its subject.
    """
    return fact_fields(
        keyword=fact.concept.keyword,
        description=fact.concept.description,
        values=plain_values(fact),
        moment=fact.timestamp,
        entity=entity,
        quote=None if fact.source is None else fact.source.quote,
    )


def meaning_of(fact: AnyFact, entity: str | None) -> str:
    """Return the text that stands for a fact when meanings are compared.

    "alice: home city (Where the user lives): Busan", at most 4,000 characters.
    """
    concept = fact.concept
    topic = concept.keyword.replace("-", " ").replace("_", " ")
    about = f" ({concept.description})" if concept.description else ""
    whom = f"{entity}: " if entity else ""
    values = ", ".join(map(value_words, plain_values(fact)))
    return f"{whom}{topic}{about}: {values}"[:LONGEST_TEXT]


def said(fact: AnyFact) -> str:
    """Return the words that a fact's message had, as far as the fact knows them."""
    quote = None if fact.source is None else fact.source.quote
    return (quote or " ".join(map(value_words, plain_values(fact))))[:_LONGEST_SAID]


def text_digest(text: str) -> bytes:
    """Return 16 bytes that name a text: the vectors of what was embedded are kept under them."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def plain_values(fact: AnyFact) -> list[Any]:
    """Return the values of a fact as JSON has them."""
    concept = fact.concept
    if concept.codec.is_plain_text:
        return list(fact.values)
    plain: list[Any] = []
    for value in fact.values:
        try:
            plain.append(concept.codec.dump(value, concept.keyword))
        except ValueError:  # it was loaded as a type that it could not be saved as
            plain.append(str(value))
    return plain


FIELD_WEIGHTS = {"quote": 0.5}
"""The weights that `LexicalIndex` is given for facts; 1 for the fields that are not named."""

RECURRING_FIELDS = (("keyword", "description", "entity"), ("date",))
"""The fields that many facts share, those together that go together; none of them holds a value."""

_iso_day = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.]+(?:Z|[+-][0-9:]+)?)?\Z")


def fact_fields(
    *,
    keyword: str,
    description: str,
    values: Iterable[object],
    moment: date,
    entity: str | None = None,
    quote: str | None = None,
) -> dict[str, str]:
    """Lay the parts of a fact out as the fields of a document for `LexicalIndex.add`.

    Args:
        keyword: The concept's keyword.
        description: The concept's description.
        values: The fact's values as JSON has them.
        moment: When the fact was said.
        entity: The entity of the subject; questions often name it.
        quote: The words that the fact was taken from.
    """
    fields = {
        "keyword": keyword,
        "description": description,
        "value": "\n".join(map(value_words, values)),
        "date": date_words(moment),
    }
    if entity:
        fields["entity"] = entity
    if quote:
        fields["quote"] = quote
    return fields


def value_words(value: object) -> str:
    """Write a value as words: keys and members of objects and lists, one after the other.

    A day, as a `date` or as a string in ISO 8601, is written by `date_words` too, so that "February"
    finds it. Nothing stands for null. Nesting of any depth is walked without recursion.
    """
    if type(value) is str:  # as most values are
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
    """Write a day in English, ISO 8601 and Korean: "17 May 2023 2023-05-17 2023년 5월 17일".

    Analysed by `factmem.recall.lexical.analysis.words`, the Korean form also meets questions in Japanese
    and Chinese ("2023年5月"). Month names do not depend on the process's locale.

    Args:
        moment: A date or a datetime, which is taken in the time zone that it carries.
    """
    return _day_words(moment.year, moment.month, moment.day)


@lru_cache(maxsize=4096)
def _day_words(year: int, month: int, day: int) -> str:
    iso = f"{year:04}-{month:02}-{day:02}"
    return f"{day} {_MONTHS[month - 1]} {year} {iso} {year}년 {month}월 {day}일"
