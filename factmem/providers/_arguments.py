"""Validation and conversion of the arguments of a store's methods."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeAlias

from factmem._arguments import expect, expect_all, expect_within
from factmem.ledger._condition import Condition
from factmem.ledger._statements import digest_of
from factmem.ledger.entries import RetractedValue, StoredFact, source_entry, stored
from factmem.models._checked import checked_concept, checked_concepts
from factmem.models._metadata import checked_metadata
from factmem.models._names import checked_name
from factmem.models._values import Canonical, JsonValue, canonical
from factmem.models.clock import before, stamp, utc
from factmem.models.facts import AnyFact, Concept, FactType, MultipleFacts, SingleFact, new_id
from factmem.models.sources import FactSource
from factmem.providers.results import Purge, RetractedFact

ConditionAt: TypeAlias = Callable[[str], Condition]
"""Returns the condition of a `forget` for the time of the call, as a stamp. Spans count back from
that time."""

_OLDER = "older_than=timedelta(days=90)"


_FACTS = (SingleFact, MultipleFacts)


def stored_fact(fact: object) -> StoredFact:
    """Convert a fact to its form in an entry.

    Raises:
        TypeError: It is not a fact.
        ValueError: A value would change in a round trip through JSON.
    """
    if isinstance(fact, _FACTS):  # a call costs as much as the rest of the usual way
        return stored(fact)
    return stored(expect(fact, _FACTS, "fact", "SingleFact(concept, value)"))


def stored_facts(facts: Iterable[AnyFact]) -> list[StoredFact]:
    """Convert facts to their form in an entry.

    Raises:
        TypeError: It is not a list of facts.
        ValueError: A value would change in a round trip through JSON.
    """
    if isinstance(facts, SingleFact | MultipleFacts):
        raise TypeError("facts must be a list, not one fact: save_many([fact], ...) or save(fact)")
    given = expect_all(facts, object, "facts", "[SingleFact(concept, value)]")
    return [stored_fact(fact) for fact in given]


def statements(facts: Iterable[AnyFact]) -> list[StoredFact]:
    """Convert facts to statements in an entry. Raises as `stored_facts` does."""
    stated = stored_facts(facts)
    for each in stated:
        each["stated"] = True
    return stated


def retracted_values(retracted: RetractedFact) -> list[RetractedValue]:
    """Convert a retraction to its form in an entry: one for each keyword of its concept.

    Raises:
        TypeError: It is not a `RetractedFact`.
        ValueError: Its value does not fit its concept, or its time is naive.
    """
    expect(retracted, RetractedFact, "retracted", "RetractedFact(concept, value, said_at)")
    concept = checked_concept(retracted.concept)
    value = concept.codec.check(retracted.value, concept.keyword)
    said_at = stamp(utc(retracted.said_at, "moment said_at"))
    digest = digest_of(canonical(concept.codec.dump(value, concept.keyword)))
    made: RetractedValue = {"keyword": concept.keyword, "timestamp": said_at, "digest": digest}
    made["id"] = new_id()
    if retracted.is_proposed:
        made["proposed"] = True
    if (source := retracted.source) is not None:
        made["source"] = source_entry(replace(source, quote=None, before=None))
    return [{**made, "keyword": keyword} for keyword in concept.keywords]


def check_purge(purge: Purge) -> None:
    """Raise unless `purge` is True, False or "quotes".

    Raises:
        TypeError: It is neither a bool nor a string.
        ValueError: It is another string.
    """
    if not isinstance(purge, bool) and expect(purge, str, "purge", "purge=True") != "quotes":
        raise ValueError("purge must be True, False or 'quotes': forget(..., purge='quotes')")


def check_span(keep_history: timedelta) -> None:
    """Raise unless `keep_history` is a valid span.

    Raises:
        TypeError: It is not a timedelta.
        ValueError: It is negative.
    """
    example = "keep_history=timedelta(days=90)"
    expect_within(keep_history, timedelta, "keep_history", example, least=timedelta(0))


def stamp_of(as_of: datetime) -> str:
    """Convert the time of a past read to a stamp.

    Raises:
        TypeError: It is not a datetime.
        ValueError: It is naive.
    """
    return stamp(utc(as_of, "moment as_of"))


def condition_of(
    *,
    concept: Concept[Any, Any] | None,
    value: object,
    fact_id: str | None,
    source: FactSource | None,
    older_than: datetime | timedelta | None,
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
    if all(each is None for each in (concept, fact_id, source, older_than, *several)):
        raise ValueError(
            "forget needs a condition: concepts, fact_ids, metadata, a concept, value, fact_id, "
            "source or older_than. To remove the whole place with its history, call erase"
        )
    if source is not None:
        expect(source, FactSource, "source", "source=FactSource(SourceKind.USER)")
    keyword = key = reading = None
    if concept is not None:
        keyword = checked_concept(concept).keyword
        if has_value:
            reading = None if concept.read is None else partial(_read_key, concept)
            key = canonical(concept.codec.dump(concept.codec.check(value, keyword), keyword))
    name = None if fact_id is None else checked_name(fact_id, "fact_id")
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
        return Condition(keyword, key, name, source, old, named, ids, wanted, reading, is_single)

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
