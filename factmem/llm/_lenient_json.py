"""The JSON in a model's text, whatever the model put around it.

Tolerated: a byte order mark, thoughts before the answer, prose and code fences around it, trailing
commas, `//` comments, line breaks inside strings, single quotes and Python's `True`, `False` and
`None`. Never tolerated: an answer that ends before its JSON does, and damage inside it. What is
left of such an answer might be read as a smaller one, and facts would be lost without a word.

Every function takes time linear in the length of its text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue
from pydantic_core import from_json
from typing_extensions import TypeIs

_MOST_VALUES = 10_000
_DEEPEST = 200  # what pydantic's own parser allows
_LONGEST = 1_000_000  # more than any model writes at once, and a few seconds of work at worst
_BLANKS = "\ufeff \t\r\n"
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
    """A text holds no JSON that can be used; the message says why and quotes nothing."""

    def __init__(self, message: str, *, has_json: bool) -> None:
        super().__init__(message)
        self.has_json = has_json
        """Whether there was JSON at all, though damaged or cut off."""


@dataclass(frozen=True, slots=True)
class _Span:
    value: JsonValue
    start: int
    end: int


def json_values(text: str) -> list[JsonValue]:
    """Return the JSON values in `text`, in order: mostly one.

    Raises:
        UnreadableTextError: There is none, or one that is damaged, cut off, or nested deeper than
            200 levels.
    """
    stripped = text.strip(_BLANKS)
    if not stripped:
        raise UnreadableTextError("it is empty", has_json=False)
    if _SURROGATE.search(stripped):
        message = "its text holds half a surrogate pair, which is no character"
        raise UnreadableTextError(message, has_json=False)
    for candidate in (stripped, _inside_fence(stripped)):
        try:
            return [from_json(candidate, allow_inf_nan=False)]
        except ValueError:
            continue
    if len(stripped) > _LONGEST:
        message = f"it is no plain JSON, and longer than {_LONGEST:,} characters"
        raise UnreadableTextError(message, has_json=False)
    values = [span.value for span in _spans_after_thoughts(stripped)]
    if not values:
        raise UnreadableTextError("it holds no JSON", has_json=False)
    return values


def _inside_fence(text: str) -> str:
    if text.startswith("```") and text.endswith("```"):
        return text[3:-3].partition("\n")[2]
    return text


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
    # in the answer. Inside a JSON string it is somebody's words, and ends nothing.
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
                message = f"it holds more than {_MOST_VALUES:,} JSON values"
                raise UnreadableTextError(message, has_json=True)
            yield span


def _span_at(text: str, start: int) -> tuple[_Span | None, int]:
    """Read the value that starts at a bracket; return it, and the position to go on from.

    A bracket that was prose gives None. What tells JSON that is damaged from prose in brackets
    ("[2] says that ...") is a string in quotes: prose is passed over, damage is an error.
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
    """Return a tolerated token as JSON writes it."""
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
    """Return the members of an object; none where `value` is no object."""
    return value if _is_object(value) else {}


def items_in(value: object) -> Sequence[object]:
    """Return the items of an array; none where `value` is no array."""
    return value if _is_array(value) else ()


def text_in(value: object) -> str:
    """Return a string; the empty one where `value` is no string."""
    return value if isinstance(value, str) else ""


def count_in(value: object) -> int:
    """Return a whole number that is not negative; 0 where `value` is none."""
    return max(value, 0) if isinstance(value, int) else 0


def _is_object(value: object) -> TypeIs[dict[str, object]]:
    return isinstance(value, dict)


def _is_array(value: object) -> TypeIs[list[object] | tuple[object, ...]]:
    return isinstance(value, list | tuple)
