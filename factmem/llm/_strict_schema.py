"""Conversion of JSON schemas to the subset of OpenAI's strict mode.

Strict mode requires closed objects and all properties, rejects `oneOf` and `default`, and supports
only some formats. Constraints outside the subset are dropped here and checked by pydantic when the
answer is parsed. A type whose *shape* is outside the subset has no strict schema.

The `openai` package has such a conversion in a private module. It keeps `oneOf` and `default`,
which the endpoint rejects, and factmem needs schemas without that package too.
"""

from collections.abc import Mapping

from pydantic import JsonValue

_KEPT = frozenset(
    {
        "description", "enum", "const", "minimum", "maximum", "exclusiveMinimum",
        "exclusiveMaximum", "multipleOf", "minItems", "maxItems",
    }
)  # fmt: skip
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_BEYOND = frozenset(
    {
        "not", "if", "then", "else", "prefixItems", "patternProperties", "propertyNames",
        "contains", "dependentRequired", "dependentSchemas", "unevaluatedProperties",
        "unevaluatedItems",
    }
)  # fmt: skip


class _BeyondStrictError(ValueError):
    """A schema is outside the strict subset."""


def strict_schema(schema: dict[str, JsonValue]) -> dict[str, JsonValue] | None:
    """Convert `schema`, whose root is an object, to the strict subset; None if it cannot be."""
    definitions = _mapping(schema.get("$defs", {}))
    try:
        root = _strict(schema, definitions, ())
        if definitions:
            root["$defs"] = {
                name: _strict(definition, definitions, (f"#/$defs/{name}",))
                for name, definition in definitions.items()
            }
    except _BeyondStrictError:
        return None
    return root


def _strict(
    schema: JsonValue, definitions: Mapping[str, JsonValue], open_references: tuple[str, ...]
) -> dict[str, JsonValue]:
    schema = _mapping(schema)
    if _BEYOND & schema.keys():
        raise _BeyondStrictError
    if (reference := schema.get("$ref")) is not None:
        return _strict_reference(str(reference), schema, definitions, open_references)

    def inner(value: JsonValue) -> dict[str, JsonValue]:
        return _strict(value, definitions, open_references)

    strict = {key: value for key, value in schema.items() if key in _KEPT}
    if (choices := schema.get("anyOf", schema.get("oneOf"))) is not None:
        strict["anyOf"] = [inner(choice) for choice in _sequence(choices)]
        return strict
    if "allOf" in schema or "type" not in schema:
        raise _BeyondStrictError
    strict["type"] = schema["type"]
    if schema.get("format") in _FORMATS:
        strict["format"] = schema["format"]
    if "(?" not in str(schema.get("pattern", "(?")):
        strict["pattern"] = schema["pattern"]
    if schema["type"] == "array":
        strict["items"] = inner(schema.get("items", {}))
    if schema["type"] == "object":
        if "properties" not in schema or schema.get("additionalProperties", False) is not False:
            raise _BeyondStrictError
        properties = _mapping(schema["properties"])
        strict["properties"] = {name: inner(value) for name, value in properties.items()}
        strict["required"] = list(properties)
        strict["additionalProperties"] = False
    return strict


def _strict_reference(
    reference: str,
    schema: Mapping[str, JsonValue],
    definitions: Mapping[str, JsonValue],
    open_references: tuple[str, ...],
) -> dict[str, JsonValue]:
    """Keep a bare reference; inline its definition if the reference has a description."""
    beside = {key: value for key, value in schema.items() if key in _KEPT}
    if not beside:
        return {"$ref": reference}
    name = reference.removeprefix("#/$defs/")
    if reference in open_references or name not in definitions:
        raise _BeyondStrictError
    return _strict(definitions[name], definitions, (*open_references, reference)) | beside


def _mapping(value: JsonValue) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise _BeyondStrictError
    return value


def _sequence(value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        raise _BeyondStrictError
    return value
