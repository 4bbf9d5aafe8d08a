"""Comparison of definitions of concepts: which ones a store takes over, and how others differ.

A definition is taken over if the newer one can read all values of the older. A schema that was taken
over before never comes back: of two versions of a program that run at the same time, the older one
changes nothing, and is told that it differs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError

from factmem.models._schema_fit import accepts, bare_schema
from factmem.models.concepts import ConceptDefinition
from factmem.models.facts import Concept, FactType


def definition_of(concept: Concept[Any, Any]) -> ConceptDefinition:
    """Return the definition of a concept. A type without a JSON schema accepts any value."""
    try:
        schema = bare_schema(concept.codec.json_schema())
    except (PydanticInvalidForJsonSchema, PydanticUserError):
        schema = {}
    return ConceptDefinition(concept.keyword, concept.fact_type, schema, was=concept.was)


def taken_over(
    known: Mapping[str, ConceptDefinition], concepts: Iterable[Concept[Any, Any]]
) -> dict[str, ConceptDefinition]:
    """Return the definitions that are new, or change, when a program declares its concepts."""
    changed: dict[str, ConceptDefinition] = {}
    for concept in concepts:
        old = next((known[each] for each in concept.keywords if each in known), None)
        new = definition_of(concept)
        if old is not None:
            new = _merged(old, new, has_reader=concept.read is not None)
        if new != known.get(concept.keyword):
            changed[concept.keyword] = new
    return changed


def _merged(
    old: ConceptDefinition, new: ConceptDefinition, *, has_reader: bool
) -> ConceptDefinition:
    schema, past = old.json_schema, old.past
    is_equal = accepts(schema, new.json_schema)
    can_read = has_reader or accepts(new.json_schema, schema)
    if can_read and not is_equal and new.digest not in past:
        schema, past = new.json_schema, (*past, old.digest)
    is_many = FactType.MULTIPLE in (old.fact_type, new.fact_type)
    merged = replace(
        old,
        keyword=new.keyword,
        fact_type=FactType.MULTIPLE if is_many else FactType.SINGLE,
        json_schema=schema,
        was=tuple(dict.fromkeys([*(w for w in old.was if w != new.keyword), *new.was])),
        past=past,
    )
    return merged if merged == old else replace(merged, version=old.version + 1)


def compared(
    known: Mapping[str, ConceptDefinition], declared: Mapping[str, Concept[Any, Any]]
) -> list[ConceptDefinition]:
    """Return all definitions ordered by keyword, each with how the declared concept differs."""
    renamed = {old: each.keyword for each in known.values() for old in each.was}
    return [
        replace(known[keyword], differs=_difference(known[keyword], declared.get(keyword), renamed))
        for keyword in sorted(known)
    ]


def _difference(
    known: ConceptDefinition, concept: Concept[Any, Any] | None, renamed: Mapping[str, str]
) -> str | None:
    if concept is None:
        return None
    if known.keyword in renamed:
        return f"It is a former keyword of {renamed[known.keyword]!r}"
    if known.fact_type is FactType.MULTIPLE and concept.fact_type is FactType.SINGLE:
        return "It has many values: the program reads the last one, and its saves replace none"
    if not accepts(definition_of(concept).json_schema, known.json_schema):
        return "It has values of another type, which the program may not be able to read"
    return None
