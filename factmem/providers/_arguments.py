"""What callers hand to a store, checked before anything is read or written."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from factmem._concepts import checked_concept
from factmem._given import listed
from factmem.entries import StoredFact, moment, stamp, stored
from factmem.ledger import Condition
from factmem.models import AnyFact, Concept, FactSource, MultipleFacts, SingleFact, utc
from factmem.names import checked_name
from factmem.values import canonical

__all__ = [
    "check_span",
    "condition_of",
    "stamp_of",
    "stored_facts",
]


def stored_facts(facts: Iterable[AnyFact]) -> list[StoredFact]:
    """Return facts as an entry holds them.

    Raises:
        TypeError: One of them is no fact.
        ValueError: A value would not come back equal from its JSON.
    """
    if isinstance(facts, SingleFact | MultipleFacts):
        raise TypeError("save_many takes several facts: give a list of them, or call save")
    given = listed(facts, "save_many takes a list of facts", "[SingleFact(concept, value)]")
    for fact in given:
        if not isinstance(fact, SingleFact | MultipleFacts):
            raise TypeError(
                f"A store keeps facts, not {type(fact).__name__}: wrap the value, as in "
                f"SingleFact(concept, value)"
            )
    return [stored(fact) for fact in given]


def check_span(keep_history: timedelta) -> None:
    """Make sure that history can be kept for so long.

    Raises:
        TypeError: It is no timedelta.
        ValueError: It is negative.
    """
    if not isinstance(keep_history, timedelta):
        raise TypeError(
            f"keep_history is a timedelta, not {type(keep_history).__name__}: "
            f"keep_history=timedelta(days=90)"
        )
    if keep_history < timedelta(0):
        raise ValueError("keep_history is how long history is kept: give no negative span")


def stamp_of(as_of: datetime | None) -> str | None:
    """Return the moment that a read goes back to; None stays None.

    Raises:
        ValueError: It is naive.
    """
    return None if as_of is None else stamp(utc(as_of, "moment as_of"))


def condition_of(
    now: str,
    *,
    concept: Concept[Any, Any] | None,
    value: object,
    fact_id: str | None,
    source: FactSource | None,
    older_than: datetime | timedelta | None,
) -> Condition:
    """Return what the arguments of `forget` ask for; a `value` of `...` is none.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: No condition is given, `value` comes without `concept` or does not fit it, or
            `older_than` is naive or lies in the future.
    """
    has_value = value is not ...
    if concept is None and has_value:
        raise ValueError("A value to forget needs its concept: forget(..., concept=..., value=...)")
    if concept is None and fact_id is None and source is None and older_than is None:
        raise ValueError(
            "Say what to forget: a concept, value, fact_id, source or older_than. To remove the "
            "whole place with its history, call erase"
        )
    if source is not None and not isinstance(source, FactSource):
        raise TypeError(f"A source to forget is a FactSource, not {type(source).__name__}")
    keyword = key = None
    if concept is not None:
        keyword = checked_concept(concept).keyword
        if has_value:
            key = canonical(concept.codec.dump(concept.codec.check(value, keyword), keyword))
    return Condition(
        keyword,
        key,
        None if fact_id is None else checked_name(fact_id, "fact_id"),
        source,
        None if older_than is None else _limit(older_than, now),
    )


def _limit(older_than: datetime | timedelta, now: str) -> str:
    if not isinstance(older_than, timedelta | datetime):
        raise TypeError(
            f"older_than is a timedelta or a datetime, not {type(older_than).__name__}: "
            f"older_than=timedelta(days=90)"
        )
    if isinstance(older_than, datetime):
        return stamp(utc(older_than, "moment older_than"))
    if older_than < timedelta(0):
        raise ValueError("older_than is how long ago: give a timedelta that is not negative")
    try:
        return stamp(moment(now) - older_than)
    except OverflowError:
        raise ValueError("older_than reaches back beyond the year 1: give a shorter span") from None
