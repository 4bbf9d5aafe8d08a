"""Rearrangements of a JSON value into the shape of the requested type.

Models return a bare list instead of `{"items": [...]}`, one item instead of a list, an object inside
another object. A shape only rearranges data; validation decides whether it fits.
"""

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

ENVELOPE = "answer"


class AnswerShape:
    """The outermost layers of a type's JSON schema."""

    __slots__ = ("_item_keys", "_keys", "_list_field", "has_envelope", "is_list", "schema")

    def __init__(self, schema: dict[str, JsonValue]) -> None:
        definitions = _mapping(schema.get("$defs"))
        root = _resolved(schema, definitions)
        self.has_envelope = root.get("type") != "object"
        """Whether the request is for `{"answer": data}`: schemas want an object outermost."""
        self.schema = _enveloped(schema) if self.has_envelope else _with_root(root, definitions)
        """The schema of the requested object."""
        self._keys = _known_keys(root, definitions)
        self._list_field = _list_field(root)
        self.is_list = self._list_field is not None or root.get("type") == "array"
        """Whether the data is a list of items, or an object around one."""
        holder = _mapping(_mapping(root.get("properties")).get(self._list_field or "")) or root
        self._item_keys = _known_keys(_mapping(holder.get("items")), definitions)

    def unchanged(self, value: JsonValue) -> Iterator[JsonValue]:
        """Yield the data of `value` if it already has the requested shape.

        An object with none of the schema's keys does not. If every key has a default, it would
        validate as an empty object and lose its content.
        """
        if self.has_envelope:
            if isinstance(value, dict) and value.keys() == {ENVELOPE}:
                yield value[ENVELOPE]
            yield value
        elif isinstance(value, dict) and _is_known(value, self._keys):
            yield value

    def shapes(self, value: JsonValue) -> Iterator[JsonValue]:
        """Yield the data of `value` in each possible shape, the likeliest first."""
        found = list(self.unchanged(value))
        yield from found
        if self._list_field is not None and isinstance(value, list):
            yield self.of_items(value)
        if isinstance(value, dict) and (not found or self.has_envelope):
            if self.is_list and value and _is_known(value, self._item_keys):
                yield self.of_items([value])
            if len(value) == 1:
                yield from self._inside(next(iter(value.values())))
        if isinstance(value, list) and len(value) == 1 and not self.is_list:
            yield from self._inside(value[0])

    def of_items(self, items: list[JsonValue]) -> JsonValue:
        """Return the data that holds these items."""
        return {self._list_field: items} if self._list_field is not None else items

    def _inside(self, value: JsonValue) -> Iterator[JsonValue]:
        if isinstance(value, list | dict):
            yield from self.shapes(value)


def _mapping(value: JsonValue) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _resolved(
    schema: Mapping[str, JsonValue], definitions: Mapping[str, JsonValue]
) -> Mapping[str, JsonValue]:
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    return _mapping(definitions.get(reference.removeprefix("#/$defs/")))


def _with_root(
    root: Mapping[str, JsonValue], definitions: dict[str, JsonValue]
) -> dict[str, JsonValue]:
    return {**root, "$defs": definitions} if definitions else dict(root)


def _enveloped(schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    envelope: dict[str, JsonValue] = {
        "type": "object",
        "properties": {ENVELOPE: inner},
        "required": [ENVELOPE],
        "additionalProperties": False,
    }
    return _with_root(envelope, _mapping(schema.get("$defs")))


def _known_keys(
    schema: Mapping[str, JsonValue], definitions: Mapping[str, JsonValue]
) -> frozenset[str] | None:
    """Return the keys that an object of this schema can have; None if any is allowed."""
    schema = _resolved(schema, definitions)
    choices = schema.get("anyOf", schema.get("oneOf"))
    if isinstance(choices, list):
        known = [_known_keys(_mapping(choice), definitions) for choice in choices]
        closed = [keys for keys in known if keys is not None]
        return frozenset[str]().union(*closed) if len(closed) == len(known) else None
    if "properties" not in schema or schema.get("additionalProperties"):
        return None
    return frozenset(_mapping(schema["properties"]))


def _is_known(value: Mapping[str, JsonValue], keys: frozenset[str] | None) -> bool:
    return keys is None or not value or not keys.isdisjoint(value)


def _list_field(root: Mapping[str, JsonValue]) -> str | None:
    """Return the only list property, if no other property is required."""
    properties = _mapping(root.get("properties"))
    lists = [name for name, field in properties.items() if _mapping(field).get("type") == "array"]
    required = root.get("required")
    rest = set(required if isinstance(required, list) else ()) - set(lists)
    return lists[0] if len(lists) == 1 and not rest else None
