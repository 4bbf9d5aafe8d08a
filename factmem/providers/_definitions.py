"""The definitions of concepts in a store: SINGLE facts of a place that no application can name."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypeAlias

import orjson

from factmem._arguments import expect_all
from factmem.errors import CorruptJournalError
from factmem.ledger.entries import Entry, StoredFact
from factmem.ledger.ledger import Ledger
from factmem.models._definition_changes import taken_over
from factmem.models.facts import Concept, ConceptDefinition, new_id
from factmem.models.places import DEFINITIONS
from factmem.models.when import moment
from factmem.providers._backend import Backend, Change


def definitions_in(ledger: Ledger, now: str) -> dict[str, ConceptDefinition]:
    facts: Any = ledger.load_all((), now)
    try:
        keywords = [(fact.concept.keyword, fact.value) for fact in facts]
        return {keyword: ConceptDefinition.load(keyword, plain) for keyword, plain in keywords}
    except (LookupError, TypeError, ValueError, AttributeError):
        raise CorruptJournalError(
            "The definitions of concepts cannot be read: another program changed them. Restore the "
            "store from a backup"
        ) from None


def _entries(new: Iterable[ConceptDefinition], now: str) -> list[Entry]:
    facts = [_stored(each, now) for each in new]
    return [{"at": now, "facts": facts}] if facts else []


def _stored(definition: ConceptDefinition, now: str) -> StoredFact:
    return {
        "id": new_id(),
        "keyword": definition.keyword,
        "description": "The definition of a concept",
        "type": "SINGLE",
        "timestamp": now,
        "value": definition.dump(),
    }


Definition: TypeAlias = Concept[Any, Any] | ConceptDefinition
"""A concept of a program, or the definition of one in another store."""


def checked_definitions(concepts: Iterable[Definition]) -> tuple[Definition, ...]:
    """Return concepts as a tuple; raise `TypeError` for anything else, such as a single one."""
    kinds: Any = (Concept, ConceptDefinition)
    return expect_all(concepts, kinds, "concepts", "concepts=[concept]")


async def define(backend: Backend, concepts: Iterable[Definition]) -> None:
    """Store the definitions of concepts; see `FactStore.define`."""
    definitions = checked_definitions(concepts)
    named = [each for each in definitions if isinstance(each, Concept)]
    given = [each for each in definitions if isinstance(each, ConceptDefinition)]

    def present(ledger: Ledger, now: str) -> list[Entry]:
        known = definitions_in(ledger, now)
        newer = [each for each in given if _rank(each) > _rank(known.get(each.keyword))]
        return _entries(newer, now) + _entries(taken_over(known, named).values(), now)

    # Mostly all are known, and a read takes no lock.
    if await backend.present(DEFINITIONS, present):
        await backend.extend(
            DEFINITIONS, lambda known, now: Change(entries=present(Ledger(known), now))
        )


def _rank(definition: ConceptDefinition | None) -> tuple[int, bytes]:
    """Sort key of the definitions of a concept: the version, then anything that all stores have."""
    if definition is None:
        return 0, b""
    return definition.version, orjson.dumps(definition.dump(), option=orjson.OPT_SORT_KEYS)


async def begun(backend: Backend, operation: str) -> datetime:
    """Return when an operation over the whole store was begun; see `FactStore.begin`."""
    times: list[str] = []

    def extend(known: list[Entry], now: str) -> Change:
        marked = [each["at"] for each in known if operation in each.get("operations", ())]
        times[:] = marked or [now]
        return Change(entries=[] if marked else [{"at": now, "operations": [operation]}])

    await backend.extend(DEFINITIONS, extend)
    return moment(times[0])
