"""The answer of a model that was asked for facts: its type, and the whole items of a cut-off one."""

from collections.abc import Mapping
from functools import lru_cache
from json import JSONDecoder

from pydantic import BaseModel, JsonValue, field_validator
from pydantic.annotated_handlers import GetJsonSchemaHandler
from pydantic_core import CoreSchema, from_json, to_json

__all__ = ["Answer", "answer_type", "whole_items"]


class Answer(BaseModel):
    """A model's answer, before any of its items was read.

    Items are any JSON: one that is wrong must not cost the others.
    """

    facts: list[JsonValue] = []

    @field_validator("facts", mode="before")
    @classmethod
    def _none_is_empty(cls, facts: object) -> object:
        return [] if facts is None else facts


def answer_type(schema: Mapping[str, JsonValue]) -> type[Answer]:
    """Return the type to ask a model for: `Answer`, with a schema that describes its items."""
    return _answer_type(to_json(schema))


@lru_cache(maxsize=64)
def _answer_type(text: bytes) -> type[Answer]:
    """Return the type for a schema's JSON: one for each, as pydantic takes long to build one."""
    schema: dict[str, JsonValue] = from_json(text)

    class DetectedFacts(Answer):
        @classmethod
        def __get_pydantic_json_schema__(
            cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
        ) -> dict[str, JsonValue]:
            return schema

    return DetectedFacts


def whole_items(text: str) -> list[JsonValue]:
    """Return the items that are whole in an answer that was cut off at the output limit."""
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
