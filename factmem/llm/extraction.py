"""Structured output: the type of a model's answer, its schema, instruction and parser.

Parsing is lenient about the shape around the data and strict about the data: pydantic validates all
of it in every shape. An ambiguous answer is rejected.

The JSON parser accepts a byte order mark, thoughts before the answer, prose and code fences around
the JSON, trailing commas, `//` comments, line breaks inside strings, single quotes, keys without
quotes and Python's `True`, `False` and `None`. It rejects JSON that is cut off or damaged, because
facts would be lost silently. Libraries that repair JSON would complete it instead. Every function
takes time linear in the length of its string.

`strict_schema` converts a schema to the subset of OpenAI's strict mode, which requires closed
objects and all properties, rejects `oneOf` and `default`, and supports only some formats.
Constraints outside the subset are dropped and checked by pydantic when the answer is parsed. A type
whose *shape* is outside of it has no strict schema. The `openai` package has such a conversion in a
private module. It keeps `oneOf` and `default`, which the endpoint rejects, and factmem needs
schemas without that package too.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, Generic, TypeAlias, get_args, get_origin

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import ErrorDetails, from_json, to_json
from typing_extensions import TypeForm, TypeIs, TypeVar

from factmem.errors import ChatModelError, ExtractionError
from factmem.llm.base import ChatResponse, Extraction, Message
from factmem.models._values import sendable
from factmem.usage import Usage

__all__ = ["extract_by_asking"]

T = TypeVar("T")

_MOST_VALUES = 10_000
_DEEPEST = 200  # the limit of pydantic's own parser
_LONGEST = 1_000_000  # more than any model writes at once; takes a few seconds at worst
_BLANKS = "\ufeff \t\r\n"
_FENCE = "```"
_LANGUAGE = re.compile(r"\w*+")
_GAP = re.compile(r"(?:[\s\ufeff]++|//[^\n]*+)*+")
_OPENING = re.compile(r"[\[{]")
_TOKEN = re.compile(
    r"""
      (?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+")
    | (?P<quoted>'[^'\\]*+(?:\\.[^'\\]*+)*+')
    | (?P<number>-?[0-9]++(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+)
    | (?P<word>(?:true|false|null|True|False|None)\b)
    | (?P<name>[A-Za-z_][\w-]*+(?=\s*+:))
    | (?P<mark>[\[\]{},:])
    """,
    re.VERBOSE | re.DOTALL,
)
_CLOSING = {"[": "]", "{": "}"}
_CUT_OFF = "its JSON ends before it is complete"
_WORDS = {"True": "true", "False": "false", "None": "null"}
_STRINGS = frozenset({"string", "quoted"})
_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile(r"[\x00-\x1f]")
_ESCAPE = re.compile(r"\\(.)|\"", re.DOTALL)
_THOUGHT = re.compile(r"[\s\ufeff]*+[<\[◁]([A-Za-z][\w:|-]{2,40})[>\]▷]")
"""The opening of a passage before the answer, whatever a model calls it: `<think>`, `[THINK]`."""
_THOUGHT_END = re.compile(r"[<\[◁]/([A-Za-z][\w:|-]{2,40})[>\]▷]")
_CHANNEL = re.compile(r"<\|[a-z_]+\|>|<unused\d+>")
"""A special token of chat templates between the parts of an answer:
`<|channel|>final<|message|>`."""


class UnreadableTextError(ValueError):
    """A string contains no usable JSON; the message gives the reason and quotes nothing."""

    def __init__(self, message: str, *, has_json: bool) -> None:
        super().__init__(message)
        self.has_json = has_json
        """Whether there was JSON, even if damaged or cut off."""


@dataclass(frozen=True, slots=True)
class _Span:
    value: JsonValue
    start: int
    end: int


def json_values(text: str) -> list[JsonValue]:
    """Return the JSON values in `text`, in order; most answers have one.

    Raises `UnreadableTextError` without a value, or if one is damaged, cut off, or too deep.
    """
    stripped = text.strip(_BLANKS)
    if not stripped:
        raise UnreadableTextError("it is empty", has_json=False)
    if _SURROGATE.search(stripped):
        message = "it contains half a surrogate pair"
        raise UnreadableTextError(message, has_json=False)
    for candidate in dict.fromkeys((stripped, _unfenced(stripped))):
        try:
            return [from_json(candidate, allow_inf_nan=False)]
        except ValueError:
            continue
    if len(stripped) > _LONGEST:
        message = f"it is not plain JSON, and longer than {_LONGEST:,} characters"
        raise UnreadableTextError(message, has_json=False)
    values = [span.value for span in _spans_after_thoughts(_last_channel(stripped))]
    if not values:
        raise UnreadableTextError("it contains no JSON", has_json=False)
    return values


def unwrapped(value: JsonValue) -> JsonValue:
    """Parse a string that is JSON; return any other string as it is.

    A code fence around the string is removed in both cases. The string must contain nothing but the
    value: text after it could restrict the value. A value of another type is returned unchanged.
    """
    if not isinstance(value, str):
        return value
    text = _unfenced(value.strip(_BLANKS))
    try:
        read: JsonValue = from_json(text, allow_inf_nan=False)
    except ValueError:
        return _lenient_value(text)
    return read


def begins_as_json(text: str) -> bool:
    """Return whether a string begins with the bracket of an object or array."""
    return text.lstrip(_BLANKS).startswith(("{", "["))


def _lenient_value(text: str) -> JsonValue:
    if not text.startswith(("{", "[")) or len(text) > _LONGEST or _SURROGATE.search(text):
        return text
    try:
        span, _ = _span_at(text, 0)
    except UnreadableTextError:
        return text
    return text if span is None or span.end < len(text) else span.value


def _unfenced(text: str) -> str:
    """Remove a code fence, with its language; the closing one may be missing."""
    if not text.startswith(_FENCE):
        return text
    body = text.removeprefix(_FENCE).removesuffix(_FENCE)
    language = _LANGUAGE.match(body)
    return body[language.end() if language else 0 :].strip(_BLANKS)


def _last_channel(text: str) -> str:
    """Return the last part of an answer whose template leaves its tokens between the parts."""
    *_, last = [part for part in _CHANNEL.split(text) if part.strip(_BLANKS)] or [text]
    return last if _OPENING.search(last) else text


def _spans_after_thoughts(text: str) -> list[_Span]:
    start = 0
    while opening := _THOUGHT.match(text, start):
        closing = _end_of(opening.group(1), text, opening.end())
        if closing is None:
            if opening.group().endswith("]"):
                break  # a heading such as [facts]
            raise UnreadableTextError("it ends before the model's thoughts do", has_json=False)
        if not text[closing.end() :].strip(_BLANKS):
            return list(_spans(text[: closing.start()], opening.end()))  # <answer>{...}</answer>
        start = closing.end()
    closing = _THOUGHT_END.search(text, start) if start == 0 else None
    if closing is None:
        return list(_spans(text, start))
    # Some chat templates write the opening tag into the prompt, so that only the closing one is
    # in the answer. Inside a JSON string the tag is data and does not end the thoughts.
    try:
        spans = list(_spans(text, 0))
    except UnreadableTextError:
        spans = []
    if any(span.start < closing.start() < span.end for span in spans):
        return spans
    return list(_spans(text, closing.end())) or spans


def _end_of(name: str, text: str, start: int) -> re.Match[str] | None:
    ends = _THOUGHT_END.finditer(text, start)
    return next((end for end in ends if end.group(1).casefold() == name.casefold()), None)


def _spans(text: str, position: int) -> Iterator[_Span]:
    count = 0
    while opening := _OPENING.search(text, position):
        span, position = _span_at(text, opening.start())
        if span is not None:
            count += 1
            if count > _MOST_VALUES:
                message = f"it contains more than {_MOST_VALUES:,} JSON values"
                raise UnreadableTextError(message, has_json=True)
            yield span


def _span_at(text: str, start: int) -> tuple[_Span | None, int]:
    """Parse the value that starts at a bracket; return it and the position to continue from.

    The value is None if the bracket is prose, such as "[2] says that ...". Brackets with a quoted
    string inside are not prose but damaged JSON: an error.
    """
    parts: list[str] = []
    closings: list[str] = []
    has_string = has_name = False
    position = start
    while (token := _TOKEN.match(text, _gap_end(text, position))) is not None:
        position, kind, piece = token.end(), token.lastgroup, token.group()
        has_string, has_name = has_string or kind in _STRINGS, has_name or kind == "name"
        parts.append(_strict(kind, piece))
        if piece in _CLOSING:
            closings.append(_CLOSING[piece])
            if len(closings) > _DEEPEST:
                raise UnreadableTextError("its JSON is nested too deeply", has_json=True)
        elif kind == "mark" and piece in "]}":
            if closings.pop() != piece:
                return _not_json(position, has_string=has_string)
            if parts[-2] == ",":
                del parts[-2]
            if not closings and has_name and not has_string:
                return None, position  # {margin: 0}
            if not closings:
                return _finished("".join(parts), start, position, has_string=has_string)
    position = _gap_end(text, position)
    if position == len(text) and not has_string:
        return None, position
    if position == len(text) or text[position] in "\"'":
        raise UnreadableTextError(_CUT_OFF, has_json=True)
    return _not_json(position, has_string=has_string)


def _finished(strict: str, start: int, end: int, *, has_string: bool) -> tuple[_Span | None, int]:
    try:
        value: JsonValue = from_json(strict, allow_inf_nan=False)
    except ValueError:
        return _not_json(end, has_string=has_string)
    return _Span(value, start, end), end


def _not_json(position: int, *, has_string: bool) -> tuple[None, int]:
    if has_string:
        raise UnreadableTextError("its JSON is malformed", has_json=True) from None
    return None, position


def _gap_end(text: str, position: int) -> int:
    gap = _GAP.match(text, position)
    return gap.end() if gap else position


def _strict(kind: str | None, piece: str) -> str:
    """Return an accepted token as strict JSON."""
    if kind == "name":
        return f'"{piece}"'
    if kind == "word":
        return _WORDS.get(piece, piece)
    if kind == "quoted" or (kind == "string" and "\\'" in piece):
        piece = f'"{_ESCAPE.sub(_requoted, piece[1:-1])}"'
    if kind in _STRINGS:
        return _CONTROL.sub(lambda control: f"\\u{ord(control.group()):04x}", piece)
    return piece


def _requoted(match: re.Match[str]) -> str:
    if match.group() == '"':
        return '\\"'
    return "'" if match.group(1) == "'" else match.group()


def members_in(value: object) -> dict[str, object]:
    return value if _is_object(value) else {}


def items_in(value: object) -> Sequence[object]:
    """Return the items of an array; an empty tuple if `value` is not an array."""
    return value if _is_array(value) else ()


def text_in(value: object) -> str:
    return value if isinstance(value, str) else ""


def _is_object(value: object) -> TypeIs[dict[str, object]]:
    return isinstance(value, dict)


def _is_array(value: object) -> TypeIs[list[object] | tuple[object, ...]]:
    return isinstance(value, list | tuple)


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
    is_cut_off: bool = False
    """Whether its JSON ends before it is complete."""


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """A successfully parsed answer."""

    value: T


class AnswerType(Generic[T]):
    """The type of answer to request from a model."""

    def __init__(self, output_type: TypeForm[T]) -> None:
        is_annotated = get_origin(output_type) is Annotated
        named = get_args(output_type)[0] if is_annotated else output_type
        name = getattr(named, "__name__", None)
        self._label = repr(name.lstrip("_")) if name else "the requested type"
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
            is_cut_off = str(exc) == _CUT_OFF
            return Problem(f"the answer cannot be read: {exc}", details, exc.has_json, is_cut_off)
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
        return Problem("the answer has none of the expected keys", details)

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
    """Repair the part of `value` at `location`, which also names branches of unions, in place."""
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


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Convert a schema, whose root is an object, to the strict subset; None if it cannot be."""
    definitions: Mapping[str, Any] = schema.get("$defs", {})
    try:
        root = _in_subset(schema, definitions, ())
        if definitions:
            root["$defs"] = {
                name: _in_subset(definition, definitions, (f"#/$defs/{name}",))
                for name, definition in definitions.items()
            }
    except _BeyondStrictError:
        return None
    return root


def _in_subset(
    schema: Any, definitions: Mapping[str, Any], open_references: tuple[str, ...]
) -> dict[str, Any]:
    if not isinstance(schema, dict) or _BEYOND & schema.keys():
        raise _BeyondStrictError
    strict: dict[str, Any] = {key: value for key, value in schema.items() if key in _KEPT}
    if (reference := schema.get("$ref")) is not None:
        # A bare reference is kept. One with a description is replaced by its definition.
        name = str(reference).removeprefix("#/$defs/")
        if not strict:
            return {"$ref": reference}
        if reference in open_references or name not in definitions:
            raise _BeyondStrictError
        return _in_subset(definitions[name], definitions, (*open_references, reference)) | strict

    def inner(value: Any) -> dict[str, Any]:
        return _in_subset(value, definitions, open_references)

    if (choices := schema.get("anyOf", schema.get("oneOf"))) is not None:
        strict["anyOf"] = [inner(choice) for choice in choices]
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
        properties = {name: inner(value) for name, value in schema["properties"].items()}
        strict |= {"properties": properties, "required": [*properties]}
        strict["additionalProperties"] = False
    return strict


async def extract_by_asking(
    respond: Callable[[Sequence[Message]], Awaitable[ChatResponse]],
    messages: Sequence[Message],
    output_type: TypeForm[T],
) -> Extraction[T]:
    """Get a value of `output_type` from a model without structured output. One call, or two.

    The schema is appended to the messages and the answer is parsed leniently. If it does not fit,
    the model is asked once more, with the reasons. Use it to implement `ChatModel.extract`:

        async def extract(self, messages, output_type):
            return await extract_by_asking(self.respond, messages, output_type)

    Args:
        respond: A function like `ChatModel.respond`. Its exceptions propagate.
        messages: The conversation, oldest first; it is not changed.
        output_type: Any type that pydantic can validate and has a JSON schema for.

    Raises:
        ExtractionError: The model refused, or its answer was cut off or did not fit the type in two
            attempts; `raw` is its text.
        TypeError: There is no JSON schema for `output_type`.
    """
    wanted = AnswerType(output_type)

    async def ask(asked: Sequence[Message], _: Problem | None) -> ChatResponse:
        return await respond(with_words(asked, wanted.instruction()))

    return await converse(ask, messages, wanted)


Ask: TypeAlias = Callable[[Sequence[Message], Problem | None], Awaitable[ChatResponse]]
"""Sends messages; the problem is the reason why the last answer was rejected."""


async def converse(ask: Ask, messages: Sequence[Message], wanted: AnswerType[T]) -> Extraction[T]:
    """Ask and parse the answer; if it does not fit, ask once more with the reasons."""
    response = await ask(messages, None)
    usage = response.usage
    reading = _read(response, wanted, usage)
    if isinstance(reading, Problem):
        try:
            response = await ask(_asked_again(messages, response, reading), reading)
        except ChatModelError as exc:
            exc.usage += usage
            raise
        usage += response.usage
        reading = _read(response, wanted, usage)
    if isinstance(reading, Problem):
        message = f"Asked twice, and {reading.summary}. Nothing was saved; `raw` is the answer."
        is_cut_off = reading.is_cut_off
        raise ExtractionError(message, raw=response.text, usage=usage, is_cut_off=is_cut_off)
    return Extraction(reading.value, response.text, usage)


def with_words(messages: Sequence[Message], words: str) -> list[Message]:
    """Return `messages` with `words` appended.

    They are appended to the last message if it is the user's: some chat templates reject a later
    system message and two user messages in a row.
    """
    if not messages or messages[-1].get("role") != "user":
        return [*messages, {"role": "user", "content": words}]
    *before, last = messages
    content = last.get("content")
    if isinstance(content, str):
        return [*before, {**last, "content": f"{content}\n\n{words}"}]
    parts: list[object] = list(content) if isinstance(content, list | tuple) else []
    return [*before, {**last, "content": [*parts, {"type": "text", "text": words}]}]


def _read(response: ChatResponse, wanted: AnswerType[T], usage: Usage) -> Reading[T] | Problem:
    """Parse an answer; raise if it is a refusal or cut off, because asking again would not help."""
    if response.refusal:
        message = "The model refused to answer; `raw` is its answer. Nothing was saved."
        raise ExtractionError(message, raw=response.text or response.refusal, usage=usage)
    if response.finish_reason == "length":
        message = (
            "The answer was cut off at the model's output limit. Nothing was saved. Ask about "
            "fewer messages, or allow more output tokens."
        )
        raise ExtractionError(message, raw=response.text, usage=usage, is_cut_off=True)
    if response.finish_reason == "content_filter":
        message = "The endpoint's content filter blocked the answer. Nothing was saved."
        raise ExtractionError(message, raw=response.text, usage=usage)
    return wanted.read(response.text)


def _asked_again(
    messages: Sequence[Message], response: ChatResponse, problem: Problem
) -> list[Message]:
    # Half a surrogate pair cannot be sent back.
    answer = sendable(response.text)
    correction = (
        "That answer cannot be used:\n"
        f"{problem.details}\n"
        "Give the whole answer again with that put right, as JSON only."
    )
    if not answer.strip():
        return with_words(messages, correction)
    return [
        *messages,
        {"role": "assistant", "content": answer},
        {"role": "user", "content": correction},
    ]
