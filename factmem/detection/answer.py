"""Answers with facts: their type, their JSON schema, and the complete items of a truncated one."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from json import JSONDecoder
from typing import TypeAlias

from pydantic import BaseModel, JsonValue, field_validator
from pydantic.annotated_handlers import GetJsonSchemaHandler
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic_core import CoreSchema, from_json, to_json

from factmem.detection.current_values import OfferedConcept
from factmem.models.facts import FactType
from factmem.models.places import MemoryScope, MemorySubject

__all__ = [
    "Answer",
    "answer_schema",
    "answer_type",
    "compression_schema",
    "value_schema",
    "whole_items",
]

Schema: TypeAlias = dict[str, JsonValue]

_MOST_TYPED = 40
_MOST_NAMED = 40
"""The most known keywords that the schema lists. Each costs tokens in every call."""

_ABOUT_CONCEPT: Schema = {
    "description": {"type": "string", "description": "What the keyword means, in a sentence"},
    "fact_type": {"type": "string", "enum": [each.value for each in FactType]},
}


class Answer(BaseModel):
    """A model's answer before its items are validated.

    Items are any JSON: an invalid one must not invalidate the others.
    """

    facts: list[JsonValue] = []

    @field_validator("facts", mode="before")
    @classmethod
    def _none_is_empty(cls, facts: object) -> object:
        return [] if facts is None else facts


def answer_type(schema: Mapping[str, JsonValue]) -> type[Answer]:
    """Return the type to request from a model: `Answer`, with a schema that describes its items."""
    return _answer_type(to_json(schema))


@lru_cache(maxsize=64)
def _answer_type(text: bytes) -> type[Answer]:
    """Return the type for a schema's JSON. Cached, because pydantic is slow to build a type."""
    schema: dict[str, JsonValue] = from_json(text)

    class DetectedFacts(Answer):
        @classmethod
        def __get_pydantic_json_schema__(
            cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
        ) -> dict[str, JsonValue]:
            return schema

    return DetectedFacts


def whole_items(text: str) -> list[JsonValue]:
    """Return the complete items of an answer that was truncated at the output limit."""
    opening = text.find("[", max(text.find('"facts"'), 0))
    decoder = JSONDecoder()
    items: list[JsonValue] = []
    position = text.find("{", opening) if opening >= 0 else -1
    while position >= 0:
        try:
            item, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            break
        items.append(item)
        position = text.find("{", end)
    return items


def answer_schema(
    subjects: Iterable[MemorySubject],
    scopes: Iterable[MemoryScope],
    concepts: Iterable[OfferedConcept],
    *,
    is_closed: bool = False,
) -> Schema:
    """Return the JSON schema of the answer: an object with the list `facts`.

    Each declared concept with a value type has an item schema of its own, up to forty of them. For
    the others the prompt gives the type.
    """
    names: list[JsonValue] = [subject.name for subject in subjects]
    types: list[JsonValue] = [scope.type.value for scope in scopes]
    before: Schema = {"action": {"type": "string", "enum": ["assert", "replace", "retract"]}}
    if len(names) > 1:
        before["subject"] = {"type": "string", "enum": names}
    if len(types) > 1:
        before["scope"] = {"type": "string", "enum": types}
    after: Schema = {"importance": {"type": "number"}}
    return _list_schema(concepts, before, after, is_closed=is_closed)


def compression_schema(concepts: Iterable[OfferedConcept]) -> Schema:
    """Return the JSON schema of the answer to `compression_messages`."""
    return _list_schema(concepts, {}, {}, is_closed=True)


def _list_schema(
    concepts: Iterable[OfferedConcept], before: Schema, after: Schema, *, is_closed: bool
) -> Schema:
    """Return the schema of a list of items, with further properties around keyword and value.

    The evidence comes first in an item: models write in the order of the schema. Only an item with
    a new keyword has a description and a type.
    """
    definitions: Schema = {}
    items: list[JsonValue] = []
    loose: list[JsonValue] = []

    def add(keyword: Schema, value: JsonValue, about: Schema) -> None:
        evidence: Schema = {"message": {"type": "integer"}, "quote": {"type": "string"}}
        named: Schema = {"keyword": {"type": "string", **keyword}}
        items.append(_closed(evidence | before | named | about | {"value": value} | after))

    for number, offered in enumerate(concepts):
        if offered.is_brief:
            continue
        own = value_schema(offered) if len(items) < _MOST_TYPED else None
        if own is None:
            loose.append(offered.concept.keyword)
        else:
            value = _hoisted(own, f"value{number}_", definitions)
            add({"const": offered.concept.keyword}, value, {})
    scalars: list[JsonValue] = [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]
    if loose and (is_closed or len(loose) <= _MOST_NAMED):
        add({"enum": loose}, {"anyOf": scalars}, {})
    if not is_closed:
        add({}, {"anyOf": scalars}, _ABOUT_CONCEPT)
    facts: Schema = {"type": "array", "items": items[0] if len(items) == 1 else {"anyOf": items}}
    schema = _closed({"facts": facts})
    if definitions:
        schema["$defs"] = definitions
    return schema


def _closed(properties: Schema) -> Schema:
    """Return the schema of an object with these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def value_schema(offered: OfferedConcept) -> Schema | None:
    """Return the schema of a declared concept's values; None for plain text."""
    if not offered.has_type or offered.concept.codec.is_plain_text:
        return None
    try:
        return offered.concept.codec.json_schema()
    except PydanticInvalidForJsonSchema:
        return None


def _hoisted(schema: JsonValue, prefix: str, definitions: Schema) -> JsonValue:
    """Return a schema for use inside another one; its definitions move into `definitions`."""
    if isinstance(schema, list):
        return [_hoisted(each, prefix, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    hoisted: Schema = {}
    for key, inner in schema.items():
        if key == "$defs" and isinstance(inner, dict):
            for name, definition in inner.items():
                definitions[prefix + name] = _hoisted(definition, prefix, definitions)
        elif key == "$ref" and isinstance(inner, str):
            hoisted[key] = inner.replace("#/$defs/", f"#/$defs/{prefix}")
        else:
            hoisted[key] = _hoisted(inner, prefix, definitions)
    return hoisted
