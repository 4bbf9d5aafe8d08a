"""What of a fact is searched by words, and how much each part of it counts."""

import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import date

from factmem.recall.dates import date_words

__all__ = ["FIELD_WEIGHTS", "RECURRING_FIELDS", "fact_fields", "value_words"]

FIELD_WEIGHTS = {"quote": 0.5}
"""The weights that `LexicalIndex` is given for facts; 1 for the fields that are not named."""

RECURRING_FIELDS = frozenset({"keyword", "description", "date", "entity"})
"""The fields that many facts share; none of them holds a value."""

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
        entity: Whom the subject is bound to; the question often names them.
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
    if _iso_day.match(text):
        with suppress(ValueError):
            return [text, date_words(date.fromisoformat(text[:10]))]
    return [text.lower() if isinstance(value, bool) else text]
