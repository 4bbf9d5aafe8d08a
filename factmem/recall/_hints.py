"""Hints in a question: the entity and the times it names, and the times of facts."""

import re
from collections.abc import Collection, Iterable
from datetime import UTC, date, datetime, tzinfo
from functools import lru_cache
from typing import NamedTuple

from factmem.models._spoken_time import SpokenTime, spoken_times
from factmem.models.facts import AnyFact
from factmem.models.when import when_of
from factmem.recall._lexical.analysis import Word, words
from factmem.recall._lexical.function_words import FUNCTION_WORDS


@lru_cache(maxsize=1024)
def name_terms(entity: str) -> frozenset[str]:
    """Return the terms by which a question names an entity; empty if they are too common."""
    terms = frozenset(term for word in words(entity) for term in word)
    is_telling = any(not term.isdecimal() and term not in FUNCTION_WORDS for term in terms)
    return terms if is_telling else frozenset()


def named_entity(asked: Iterable[Word], entities: Collection[str]) -> str | None:
    """Return the only entity that a question names; None if it names none or several.

    Args:
        asked: The words of the question.
        entities: The entities of all searched places.
    """
    if not entities:
        return None
    terms = {term for word in asked for term in word}
    named = [entity for entity in entities if (name := name_terms(entity)) and name <= terms]
    return named[0] if len(named) == 1 else None


_YEARS_BACK = 20
_WHEN = re.compile(
    r"\b(?:when|while)\s(?P<clause>(?!(?:is|are|was|were|will|would|did|do|does|has|have|had|can|could|should)\b)"
    r"\w+\s[^,?.!;]+)|(?P<korean>[^\s,?.!]+(?:\s[^\s,?.!]+){0,2})\s(?:때|시절|동안)",
    re.IGNORECASE,
)
_ISO = re.compile(r"(?<![\d-])(?:19|20)\d\d(?:-\d\d(?:-\d\d)?)?(?![\d-])", re.ASCII)
_FOREVER = float("inf")


class Span(NamedTuple):
    """A time that a question names, in seconds since 1970; it ends before `end`."""

    begin: float
    end: float
    is_sure: bool = True
    """Whether it is the year that is probably meant, and not another one with the same month."""


def asked_spans(question: str, now: datetime) -> list[Span]:
    """Return the times that a question names: "last summer", "in June", "before 2019", "6월에".

    Days are those of the time zone of `now`.
    """
    spans: list[Span] = []
    zone = now.tzinfo or UTC
    for each in spoken_times(question[:4000], now.date()):
        begin, end = _midnight(each.first, zone), _midnight(each.last, zone) + 86_400
        if each.role == "before":
            begin, end = -_FOREVER, begin
        elif each.role == "after":
            begin, end = end, _FOREVER
        spans.append(Span(begin, end))
        if each.is_yearly:
            earlier = range(each.first.year - _YEARS_BACK, each.first.year)
            spans += [Span(*_in_year(each, year, zone), is_sure=False) for year in earlier]
    return spans


def clause_of_time(question: str) -> str:
    """Return what a question says about a time: "when she lived in Busan" gives "she lived in Busan"."""
    found = _WHEN.search(question[:4000])
    return "" if found is None else found["clause"] or found["korean"]


def period_of(fact: AnyFact) -> tuple[float, float]:
    """Return from when and until when a fact holds.

    By `since` and `until`, else by the dates in its values, else when it was said.
    """
    if fact.since is not None or fact.until is not None:
        return (
            -_FOREVER if fact.since is None else fact.since.begin.timestamp(),
            _FOREVER if fact.until is None else fact.until.end.timestamp(),
        )
    dates = [
        each for value in fact.values if isinstance(value, str) for each in _ISO.findall(value)
    ]
    try:
        spans = [(when_of(each).begin, when_of(each).end) for each in dates]
    except ValueError:  # such as 2019-13
        spans = []
    said = fact.timestamp.timestamp()
    if not spans:
        return said, said
    return min(spans)[0].timestamp(), max(end for _, end in spans).timestamp()


def _in_year(time: SpokenTime, year: int, zone: tzinfo) -> tuple[float, float]:
    length = (time.last - time.first).days + 1
    try:
        begin = _midnight(time.first.replace(year=year), zone)
    except ValueError:  # 29 February, or no year
        begin = _midnight(time.first, zone)
    return begin, begin + length * 86_400


def _midnight(day: date, zone: tzinfo) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()
