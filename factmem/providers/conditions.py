"""ForgetConditions: which current values a `forget` removes."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from types import EllipsisType
from typing import Any, Generic, TypeAlias

from typing_extensions import TypedDict, TypeVar

from factmem._arguments import expect, expect_all, expect_within
from factmem.ledger._condition import Condition
from factmem.models._checked import checked_concept, checked_concepts
from factmem.models._metadata import checked_metadata
from factmem.models._names import checked_name
from factmem.models._values import Canonical, JsonValue, canonical
from factmem.models.clock import before, stamp, utc
from factmem.models.facts import Concept, FactType
from factmem.models.sources import FactSource

__all__ = ["ForgetConditions"]

T = TypeVar("T", default=Any)

ConditionAt: TypeAlias = Callable[[str], Condition]
"""Returns the condition of a `forget` for the time of the call, as a stamp. Spans count back from
that time."""

_OLDER = "older_than=timedelta(days=90)"


class ForgetConditions(TypedDict, Generic[T], total=False):
    """The arguments of `forget` that select values. A value must meet all that are passed."""

    concept: Concept[T, Any] | None
    """Values with this concept's keyword."""
    value: T | EllipsisType
    """This value of `concept`."""
    source: FactSource | None
    """Values whose sources all match it: each of its fields that is not None must be equal."""
    older_than: datetime | timedelta | None
    """Values last confirmed before this moment, or longer ago than this."""
    concepts: Iterable[Concept[Any, Any]] | None
    """Values with one of these concepts' keywords."""
    fact_ids: Iterable[str] | None
    """Values saved as one of these facts."""
    metadata: Mapping[str, JsonValue] | None
    """Values whose metadata has all of these keys, with equal values."""


def condition_of(
    *,
    concept: Concept[Any, Any] | None = None,
    value: object = ...,
    source: FactSource | None = None,
    older_than: datetime | timedelta | None = None,
    concepts: Iterable[Concept[Any, Any]] | None = None,
    fact_ids: Iterable[str] | None = None,
    metadata: Mapping[str, JsonValue] | None = None,
) -> ConditionAt:
    """Return the condition for the arguments of `forget`. A `value` of `...` means no value.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: No condition is given, `value` is given without `concept` or does not fit it, or
            `older_than` is naive, negative or reaches back beyond the year 1.
    """
    has_value = value is not ...
    if concept is None and has_value:
        raise ValueError("value needs its concept: forget(..., concept=CONCEPT, value=value)")
    several = (concepts, fact_ids, metadata or None)
    if all(each is None for each in (concept, source, older_than, *several)):
        raise ValueError(
            "forget needs a condition: concept, value, concepts, fact_ids, metadata, source or "
            "older_than. To remove the whole place with its history, call erase"
        )
    if source is not None:
        expect(source, FactSource, "source", "source=FactSource(SourceKind.USER)")
    keyword = key = reading = None
    if concept is not None:
        keyword = checked_concept(concept).keyword
        if has_value:
            reading = None if concept.read is None else partial(_read_key, concept)
            key = canonical(concept.codec.dump(concept.codec.check(value, keyword), keyword))
    limit = None if older_than is None else _limit(older_than)
    named = None if concepts is None else _keywords(checked_concepts(concepts))
    is_renamed = concept is not None and bool(concept.was)
    if concept is not None and is_renamed:
        keyword, ours = None, frozenset(concept.keywords)
        named = ours if named is None else ours & named
    is_single = is_renamed and concept is not None and concept.fact_type is FactType.SINGLE
    ids = None if fact_ids is None else _ids(fact_ids)
    wanted = checked_metadata(metadata) if metadata else None

    def condition(now: str) -> Condition:
        old = None if limit is None else limit(now)
        return Condition(keyword, key, source, old, named, ids, wanted, reading, is_single)

    return condition


def _read_key(concept: Concept[Any, Any], plain: JsonValue) -> Canonical | None:
    try:
        return canonical(concept.codec.dump(concept.codec.load(plain), concept.keyword))
    except ValueError:
        return None


def _keywords(concepts: Iterable[Concept[Any, Any]]) -> frozenset[str]:
    return frozenset(keyword for each in concepts for keyword in each.keywords)


def _ids(fact_ids: Iterable[str]) -> frozenset[str]:
    given: tuple[str, ...] = expect_all(fact_ids, str, "fact_ids", "fact_ids=[fact.id]")
    return frozenset(checked_name(each, "fact id") for each in given)


def _limit(older_than: datetime | timedelta) -> Callable[[str], str]:
    """Return a function that computes the stamp before which a value is old, from the time now."""
    expect(older_than, (datetime, timedelta), "older_than", _OLDER)
    if isinstance(older_than, datetime):
        limit = stamp(utc(older_than, "moment older_than"))
        return lambda _: limit
    expect_within(older_than, timedelta, "older_than", _OLDER, least=timedelta(0))
    try:
        _ = datetime.now(UTC) - older_than
    except OverflowError:
        raise ValueError(
            f"older_than reaches back beyond the year 1: pass a shorter span, {_OLDER}"
        ) from None
    return lambda now: before(now, older_than)
