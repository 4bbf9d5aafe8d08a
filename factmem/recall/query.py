"""A question to a memory, checked, with all that narrows it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias, get_args

from factmem._given import kind_of, listed
from factmem.models import Concept, utc
from factmem.recall.settings import (
    RecallSettings,
    RecallWeights,
    check_half_life,
    check_min_score,
    check_weights,
)
from factmem.resolution import PlacedFact

__all__ = ["Depth", "RecallQuery", "check_depth", "checked_question"]

_CONCEPTS = "concepts=['city']"

Depth: TypeAlias = Literal["shallow", "deep", "auto"]
"""Whether a chat model is asked to take a question apart: never, always, or for long ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallQuery:
    """What to look for, among which facts, and how matches are weighed."""

    text: str
    limit: int
    min_score: float
    weights: RecallWeights
    half_life: timedelta
    keywords: frozenset[str] | None = None
    """The concepts to look at; None means all."""
    subjects: frozenset[str] | None = None
    """The names of the subjects to look at; None means all."""
    since: datetime | None = None
    until: datetime | None = None

    @classmethod
    def checked(
        cls,
        text: str,
        settings: RecallSettings,
        *,
        limit: int,
        min_score: float | None,
        concepts: "Iterable[Concept[Any, Any] | str] | None",
        since: datetime | None,
        until: datetime | None,
        weights: RecallWeights | None = None,
        half_life: timedelta | None = None,
    ) -> "RecallQuery":
        """Return a query, with what a call does not say from the settings.

        Raises:
            ValueError: The text is empty, `limit` is no whole number from 1 on, a number is out
                of its range, or the time range is naive or empty.
            TypeError: The text is none, `concepts` is one of them and no list, a time is no time,
                or a number or the weights are none.
        """
        if not checked_question(text).strip():
            raise ValueError("Ask with at least one word; current_all gives everything")
        if type(limit) is not int or limit < 1:
            raise ValueError("limit is how many matches to return: a whole number from 1 on")
        since = None if since is None else utc(since, "time range's begin")
        until = None if until is None else utc(until, "time range's end")
        if since is not None and until is not None and since >= until:
            raise ValueError("The time range is empty: `since` must come before `until`")
        min_score = settings.min_score if min_score is None else min_score
        half_life = settings.half_life if half_life is None else half_life
        weights = settings.weights if weights is None else weights
        check_min_score(min_score)
        check_half_life(half_life)
        check_weights(weights)
        return cls(
            text=text,
            limit=limit,
            min_score=min_score,
            weights=weights,
            half_life=half_life,
            keywords=None if concepts is None else _keywords(concepts),
            since=since,
            until=until,
        )

    @property
    def is_narrowed(self) -> bool:
        """Whether it looks at some of the facts only."""
        narrowing = (self.keywords, self.subjects, self.since, self.until)
        return any(each is not None for each in narrowing)

    def concerns(self, placed: PlacedFact[Any]) -> bool:
        """Whether a fact is among those to look at; it was said from `since` on, before `until`."""
        said = placed.fact.timestamp
        return (
            (self.keywords is None or placed.fact.concept.keyword in self.keywords)
            and (self.subjects is None or placed.place.subject.name in self.subjects)
            and (self.since is None or said >= self.since)
            and (self.until is None or said < self.until)
        )

    def narrowed(
        self,
        text: str,
        *,
        subjects: frozenset[str] | None,
        since: datetime | None,
        until: datetime | None,
    ) -> "RecallQuery":
        """Return another question about no more facts than this one is about."""
        return replace(
            self,
            text=text,
            subjects=_fewer(self.subjects, subjects),
            since=max((each for each in (self.since, since) if each), default=None),
            until=min((each for each in (self.until, until) if each), default=None),
        )


def checked_question(text: str) -> str:
    """Return what is asked; raise `TypeError` unless it is a text."""
    if not isinstance(text, str):
        raise TypeError(f"A question is a text, not {kind_of(text)}: memory.recall('which theme')")
    return text


def check_depth(depth: str) -> None:
    """Raise `ValueError` unless there is such a depth."""
    if depth not in get_args(Depth):
        raise ValueError(f"Unknown depth {depth!r}: use one of {', '.join(get_args(Depth))}")


def _keywords(concepts: "Iterable[Concept[Any, Any] | str]") -> frozenset[str]:
    # Of one text, its letters would be looked for.
    named = listed(concepts, "concepts are a list of Concept or of their keywords", _CONCEPTS)
    for each in named:
        if not isinstance(each, str | Concept):
            raise TypeError(
                f"A concept is a Concept or its keyword, not {kind_of(each)}: {_CONCEPTS}"
            )
    return frozenset(each if isinstance(each, str) else each.keyword for each in named)


def _fewer(ours: frozenset[str] | None, theirs: frozenset[str] | None) -> frozenset[str] | None:
    if ours is None or theirs is None:
        return ours if theirs is None else theirs
    return ours & theirs
