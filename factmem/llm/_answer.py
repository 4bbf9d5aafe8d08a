"""AnswerType: the type of a model's answer, with its schema, its instruction and its parser.

Parsing is lenient about the shape around the data and strict about the data: pydantic validates all
of it in every shape. An ambiguous answer is rejected.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Generic, get_args, get_origin

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import ErrorDetails, from_json, to_json
from typing_extensions import TypeForm, TypeVar

from factmem.llm._lenient_json import UnreadableTextError, json_values, unwrapped

T = TypeVar("T")

_ENVELOPE = "answer"
_MOST_ERRORS = 20
_MOST_REPAIRS = 3


@dataclass(frozen=True, slots=True)
class Problem:
    """The reason why an answer cannot be used."""

    summary: str
    """The reason for errors and logs; it contains no part of the answer."""
    details: str
    """The reason for the model: where its answer does not fit, and why."""
    has_json: bool = True
    """Whether the answer was JSON at all."""


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """A successfully parsed answer."""

    value: T


class AnswerType(Generic[T]):
    """The type of answer to request from a model.

    Raises:
        TypeError: pydantic cannot validate the type, or has no JSON schema for it.
    """

    def __init__(self, output_type: TypeForm[T]) -> None:
        is_annotated = get_origin(output_type) is Annotated
        named = get_args(output_type)[0] if is_annotated else output_type
        name = getattr(named, "__name__", None)
        self._label = repr(name) if name else "the requested type"
        try:
            self._adapter: TypeAdapter[T] = TypeAdapter(output_type)
            schema: dict[str, JsonValue] = self._adapter.json_schema()
        except PydanticUserError as exc:
            message = f"pydantic has no JSON schema for {self._label}: use a type that has one"
            raise TypeError(message) from exc
        self._shape = _AnswerShape(schema)
        self.schema: dict[str, JsonValue] = self._shape.schema
        """The schema of the requested object."""
        self.name: str = re.sub(r"[^A-Za-z0-9_-]", "_", name or _ENVELOPE)[:64]
        """The name of the schema in a request."""

    def instruction(self) -> str:
        """Return the instruction to answer with JSON, for endpoints that do not enforce schemas."""
        return (
            "Answer with one JSON object and nothing else: no prose around it, no code fence. "
            f"It must be valid against this JSON schema:\n{to_json(self.schema).decode()}"
        )

    def read(self, text: str) -> Reading[T] | Problem:
        """Parse a value from a model's answer, in time linear in its length."""
        try:
            values = json_values(text)
        except UnreadableTextError as exc:
            details = f"- The answer cannot be read: {exc}."
            return Problem(f"the answer cannot be read: {exc}", details, exc.has_json)
        return self._in_some_shape(values[0]) if len(values) == 1 else self._among(values)

    def _in_some_shape(self, value: JsonValue) -> Reading[T] | Problem:
        problem: Problem | None = None
        inside = [] if (read := _structure_inside(value)) is None else [read]
        for data in chain.from_iterable(map(self._shape.shapes, [value, *inside])):
            reading = self._validate_repaired(data)
            if isinstance(reading, Reading):
                return reading
            problem = problem or reading
        if problem is not None:
            return problem
        details = "- The answer has none of the keys that the schema names."
        return Problem(f"the answer does not fit {self._label}: no key of it", details)

    def _among(self, values: list[JsonValue]) -> Reading[T] | Problem:
        """Return the one of several JSON values that fits the type; a `Problem` if several fit.

        Values that do not fit, such as examples and footnotes, are skipped. If a list is requested
        and no value fits, the objects are its items.
        """
        fitting = {to_json(value): data for value in values for data in self._fitting(value)}
        if len(fitting) == 1:
            return next(iter(fitting.values()))
        facts = [value for value in values if _holds_object(value)] or values
        if not fitting:
            if len(facts) == 1:
                return self._in_some_shape(facts[0])
            if self._shape.is_list:
                return self._validate_repaired(self._shape.of_items(facts))
        summary = "the answer has several JSON values that fit"
        return Problem(summary, "- The answer has several JSON values. Give exactly one.")

    def _fitting(self, value: JsonValue) -> list[Reading[T]]:
        checked = map(self._validated, self._shape.unchanged(value))
        return [reading for reading in checked if isinstance(reading, Reading)][:1]

    def _validate_repaired(self, data: JsonValue) -> Reading[T] | Problem:
        """Validate `data`; if that fails, parse JSON in strings and wrap single items in lists."""
        checked = self._validated(data)
        for _ in range(_MOST_REPAIRS):
            if isinstance(checked, Reading):
                return checked
            better = repair(data, checked)
            if better is None:
                break
            data, checked = better, self._validated(better)
        return checked if isinstance(checked, Reading) else self._problem_of(checked)

    def _validated(self, data: JsonValue) -> Reading[T] | list[ErrorDetails]:
        try:
            return Reading(self._adapter.validate_json(to_json(data, inf_nan_mode="null")))
        except ValidationError as exc:
            return exc.errors(include_url=False, include_context=False)

    def _problem_of(self, errors: list[ErrorDetails]) -> Problem:
        kinds = ", ".join(sorted({error["type"] for error in errors})[:5])
        prefix = (_ENVELOPE,) if self._shape.has_envelope else ()
        summary = f"the answer does not fit {self._label}: {kinds} ({len(errors)} in all)"
        return Problem(summary, problem_lines(errors, prefix))


def problem_lines(errors: Sequence[ErrorDetails], prefix: tuple[str, ...] = ()) -> str:
    """Return the errors of a validation for a model, one in a line, the first 20."""
    lines = [
        f"- {'.'.join(map(str, (*prefix, *error['loc']))) or 'the whole answer'}: {error['msg']}"
        for error in errors[:_MOST_ERRORS]
    ]
    if len(errors) > _MOST_ERRORS:
        lines.append(f"- and {len(errors) - _MOST_ERRORS} more")
    return "\n".join(lines)


def _holds_object(value: JsonValue) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(item, dict) for item in value)
    )


_LIST_WANTED = frozenset({"list_type", "tuple_type", "set_type", "frozen_set_type"})
_STRUCTURE_WANTED = _LIST_WANTED | {
    "dataclass_type",
    "dict_type",
    "mapping_type",
    "model_attributes_type",
    "model_type",
}


def repair(data: JsonValue, errors: Sequence[ErrorDetails]) -> JsonValue | None:
    """Repair the parts of `data` that `errors` name; None if nothing can be repaired."""
    better: JsonValue = from_json(to_json(data, inf_nan_mode="null"))
    is_better = False
    for error in errors:
        if error["type"] in _STRUCTURE_WANTED:
            better, is_changed = _repair_at(better, error["loc"], error["type"])
            is_better = is_better or is_changed
    return better if is_better else None


def _structure_inside(value: JsonValue) -> dict[str, JsonValue] | list[JsonValue] | None:
    """Return the object or array whose JSON is in a string; None if there is none."""
    read = unwrapped(value) if isinstance(value, str) else None
    return read if isinstance(read, dict | list) else None


def _repair_at(
    value: JsonValue, location: tuple[int | str, ...], wanted: str
) -> tuple[JsonValue, bool]:
    """Repair the part of `value` at `location`, in place.

    A location also names branches of unions, which are not keys of the data.
    """
    for depth, step in enumerate(location, start=1):
        if isinstance(value, dict) and isinstance(step, str) and step in value:
            value[step], is_changed = _repair_at(value[step], location[depth:], wanted)
            return value, is_changed
        if isinstance(value, list) and isinstance(step, int) and step < len(value):
            value[step], is_changed = _repair_at(value[step], location[depth:], wanted)
            return value, is_changed
    if (inside := _structure_inside(value)) is not None:
        return inside, True
    if wanted in _LIST_WANTED and value is not None and not isinstance(value, list):
        return [value], True
    return value, False


class _AnswerShape:
    """The outermost layers of a type's JSON schema, and the ways to rearrange a value to fit them.

    Models return a bare list instead of `{"items": [...]}`, one item instead of a list, an object
    inside another object. A shape only rearranges data; validation decides whether it fits.
    """

    __slots__ = ("_item_keys", "_keys", "_list_field", "has_envelope", "is_list", "schema")

    def __init__(self, schema: dict[str, JsonValue]) -> None:
        definitions = _mapping(schema.get("$defs"))
        root = _resolved(schema, definitions)
        self.has_envelope = root.get("type") != "object"
        """Whether the model is asked for `{"answer": data}`, because the root of a schema must be
        an object."""
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

        An object with none of the schema's keys does not: if every key has a default, it would be
        valid as an empty object and its content would be lost.
        """
        if self.has_envelope:
            if isinstance(value, dict) and value.keys() == {_ENVELOPE}:
                yield value[_ENVELOPE]
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
        """Return data with these items."""
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
        "properties": {_ENVELOPE: inner},
        "required": [_ENVELOPE],
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
