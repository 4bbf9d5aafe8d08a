"""Validation and conversion of the arguments of a store's methods."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from factmem._arguments import expect, expect_all, expect_within
from factmem.errors import InputTypeError, InputValueError
from factmem.ledger._items import digest_of
from factmem.ledger.entries import RetractedValue, StoredFact, source_entry, stored
from factmem.models._values import canonical
from factmem.models.facts import AnyFact, MultipleFacts, SingleFact, checked_concept, new_id
from factmem.models.when import stamp, utc
from factmem.providers.results import Purge, RetractedFact

_SAVE = "await store.save(SingleFact(CONCEPT, value), subject, scope)"

NAMES = {
    "add put set insert write": f"{_SAVE}, or AgentMemory(store, ...).save(CONCEPT, value)",
    "get read value fetch": "await store.load(CONCEPT, subject, scope), or memory.value(CONCEPT)",
    "get_all all list items": "await store.load_all(subject, scope)",
    "search query recall find": "await AgentMemory(store, ...).recall(question)",
    "delete remove": "await store.forget(subject, scope, concept=CONCEPT), or store.erase",
    "close": "await store.aclose(), or async with",
}
"""The calls of `FactStore` by the names that other libraries have for them."""

ARGUMENTS = {"*": f"{_SAVE}, or AgentMemory(store, ...).of('alice').save(CONCEPT, value)"}

_FACTS = (SingleFact, MultipleFacts)


def stored_fact(fact: object) -> StoredFact:
    if isinstance(fact, _FACTS):  # a call costs as much as the rest of the usual way
        return stored(fact)
    return stored(expect(fact, _FACTS, "fact", "SingleFact(concept, value)"))


def stored_facts(facts: Iterable[AnyFact]) -> list[StoredFact]:
    if isinstance(facts, SingleFact | MultipleFacts):
        raise InputTypeError(
            "facts must be a list, not one fact: save_many([fact], ...) or save(fact)"
        )
    given = expect_all(facts, object, "facts", "[SingleFact(concept, value)]")
    return [stored_fact(fact) for fact in given]


def statements(facts: Iterable[AnyFact]) -> list[StoredFact]:
    stated = stored_facts(facts)
    for each in stated:
        each["stated"] = True
    return stated


def retracted_values(retracted: RetractedFact) -> list[RetractedValue]:
    """Return a retraction as an entry has it: one for each keyword of its concept."""
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
    if not isinstance(purge, bool) and expect(purge, str, "purge", "purge=True") != "quotes":
        raise InputValueError("purge must be True, False or 'quotes': forget(..., purge='quotes')")


def check_span(keep_history: timedelta) -> None:
    example = "keep_history=timedelta(days=90)"
    expect_within(keep_history, timedelta, "keep_history", example, least=timedelta(0))


def stamp_of(as_of: datetime) -> str:
    return stamp(utc(as_of, "moment as_of"))
