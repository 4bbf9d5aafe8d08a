"""The definitions of concepts in a store: SINGLE facts of a place that no application can name."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from factmem.ledger.entries import Entry, StoredFact
from factmem.ledger.ledger import Ledger
from factmem.models._definition_changes import taken_over
from factmem.models.facts import Concept, ConceptDefinition, new_id
from factmem.models.places import DEFINITIONS
from factmem.models.when import moment
from factmem.providers._backend import Backend, Change


def definitions_in(ledger: Ledger, now: str) -> dict[str, ConceptDefinition]:
    """Return the definitions in a ledger, by keyword."""
    facts: Any = ledger.load_all((), now)
    keywords = [(fact.concept.keyword, fact.value) for fact in facts]
    return {keyword: ConceptDefinition.load(keyword, plain) for keyword, plain in keywords}


def new_definitions(ledger: Ledger, concepts: Iterable[Concept[Any, Any]], now: str) -> list[Entry]:
    """Return the entry that changes the definitions in a ledger, if there is anything to change."""
    new = taken_over(definitions_in(ledger, now), concepts)
    return [{"at": now, "facts": [_stored(each, now) for each in new.values()]}] if new else []


def _stored(definition: ConceptDefinition, now: str) -> StoredFact:
    return {
        "id": new_id(),
        "keyword": definition.keyword,
        "description": "The definition of a concept",
        "type": "SINGLE",
        "timestamp": now,
        "value": definition.dump(),
    }


async def define(backend: Backend, concepts: Sequence[Concept[Any, Any]]) -> None:
    """Tell a store the concepts of a program; see `FactStore.define`."""

    def present(ledger: Ledger, now: str) -> list[Entry]:
        return new_definitions(ledger, concepts, now)

    # Mostly all are known, and a read takes no lock.
    if await backend.present(DEFINITIONS, present):
        await backend.extend(
            DEFINITIONS, lambda known, now: Change(entries=present(Ledger(known), now))
        )


async def begun(backend: Backend, operation: str) -> datetime:
    """Return when an operation over the whole store was begun; see `FactStore.begin`."""
    times: list[str] = []

    def extend(known: list[Entry], now: str) -> Change:
        marked = [each["at"] for each in known if operation in each.get("operations", ())]
        times[:] = marked or [now]
        return Change(entries=[] if marked else [{"at": now, "operations": [operation]}])

    await backend.extend(DEFINITIONS, extend)
    return moment(times[0])
