"""The pydantic schema of `Concept`, for use as a field of a user's own models.

Validation accepts an instance unchanged. As JSON a concept is its keyword, description and fact
type. The value type is code and is not written: it comes from the annotation (`Concept[int]`), and
without one the values are plain JSON. The other model types are standard dataclasses, which
pydantic supports itself.
"""

from typing import Any, NotRequired, get_args

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema
from typing_extensions import TypedDict, TypeVar

from factmem.models._values import json_type


class _ConceptShape(TypedDict):
    keyword: str
    description: str
    fact_type: NotRequired[str]


def concept_schema(cls: type[Any], source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
    """Return the schema of `Concept`, for `__get_pydantic_core_schema__`."""
    value_type = _value_type(source)

    def build(shape: dict[str, Any]) -> Any:
        return cls(**shape, value_type=value_type)

    built = core_schema.no_info_after_validator_function(
        build, handler.generate_schema(_ConceptShape)
    )
    return core_schema.json_or_python_schema(
        json_schema=built,
        python_schema=core_schema.union_schema([core_schema.is_instance_schema(cls), built]),
        serialization=core_schema.plain_serializer_function_ser_schema(_plain, when_used="json"),
    )


def _plain(concept: Any) -> dict[str, Any]:
    return {
        "keyword": concept.keyword,
        "description": concept.description,
        "fact_type": str(concept.fact_type),
    }


def _value_type(annotation: object) -> object:
    arguments = get_args(annotation)
    if not arguments or isinstance(arguments[0], TypeVar):
        return json_type()
    return arguments[0]
