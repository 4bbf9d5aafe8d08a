"""A lenient JSON parser for strings that models write.

It accepts a byte order mark, thoughts before the answer, prose and code fences around the JSON,
trailing commas, `//` comments, line breaks inside strings, single quotes and Python's `True`,
`False` and `None`. It rejects JSON that is cut off or damaged, because facts would be lost
silently. Libraries that repair JSON would complete it instead.

Every function takes time linear in the length of its string.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue
from pydantic_core import from_json
from typing_extensions import TypeIs

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
    | (?P<mark>[\[\]{},:])
    """,
    re.VERBOSE | re.DOTALL,
)
_CLOSING = {"[": "]", "{": "}"}
_WORDS = {"True": "true", "False": "false", "None": "null"}
_STRINGS = frozenset({"string", "quoted"})
_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile(r"[\x00-\x1f]")
_ESCAPE = re.compile(r"\\(.)|\"", re.DOTALL)
_THOUGHT = re.compile(r"[\s\ufeff]*+<(think|thinking|thought|reasoning)>", re.IGNORECASE)
_THOUGHT_END = re.compile(r"</(?:think|thinking|thought|reasoning)>", re.IGNORECASE)


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

    Raises:
        UnreadableTextError: There is no value, or one is damaged, cut off, or nested deeper than
            200 levels.
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
    values = [span.value for span in _spans_after_thoughts(stripped)]
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


def _spans_after_thoughts(text: str) -> list[_Span]:
    start = 0
    while opening := _THOUGHT.match(text, start):
        closing = _THOUGHT_END.search(text, opening.end())
        if closing is None:
            raise UnreadableTextError("it ends before the model's thoughts do", has_json=False)
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
    return list(_spans(text, closing.end()))


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
    has_string = False
    position = start
    while (token := _TOKEN.match(text, _gap_end(text, position))) is not None:
        position, kind, piece = token.end(), token.lastgroup, token.group()
        has_string = has_string or kind in _STRINGS
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
            if not closings:
                return _finished("".join(parts), start, position, has_string=has_string)
    position = _gap_end(text, position)
    if position == len(text) and not has_string:
        return None, position
    if position == len(text) or text[position] in "\"'":
        raise UnreadableTextError("its JSON ends before it is complete", has_json=True)
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
    """Return the members of an object; an empty dict if `value` is not an object."""
    return value if _is_object(value) else {}


def items_in(value: object) -> Sequence[object]:
    """Return the items of an array; an empty tuple if `value` is not an array."""
    return value if _is_array(value) else ()


def text_in(value: object) -> str:
    """Return a string; an empty one if `value` is not a string."""
    return value if isinstance(value, str) else ""


def _is_object(value: object) -> TypeIs[dict[str, object]]:
    return isinstance(value, dict)


def _is_array(value: object) -> TypeIs[list[object] | tuple[object, ...]]:
    return isinstance(value, list | tuple)
