"""ValueCodec: conversion of the values of one type to JSON and back.

A value can be anything that pydantic can validate and serialise. `ValueCodec.dump` parses its own
output and compares: it rejects a value that would not be equal after loading. `canonical` gives the
form in which the ledger compares stored values.
"""

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args, get_origin
from unicodedata import category, normalize

import orjson
import pydantic_core
from pydantic_core import PydanticSerializationError, ValidationError
from typing_extensions import TypeIs

from factmem._arguments import expect
from factmem.errors import InputValueError

Form: TypeAlias = Literal["NFC", "NFD", "NFKC", "NFKD"]

# Matches every character with a combining class and few others, none of them common in prose: no
# language has 30 of them in a row. The halfwidth katakana marks (U+FF9E, U+FF9F) are letters, but
# become combining marks in NFKC.
_MARK = r"(?:[^\w\s\x00-\u02ff\u1fbd-\u1fff\u2000-\u20cf\u2100-\u2bff\u3000-\u3029]|[\uff9e\uff9f])"
_LONGEST_RUN = 30  # the limit of Unicode's Stream-Safe Text Format (UAX 15, section 13)
_run = re.compile(f"{_MARK}{{{_LONGEST_RUN}}}")


def normalized(form: Form, text: str) -> str:
    """Return a string in a normal form of Unicode.

    `unicodedata.normalize` needs minutes for a string of a million marks: it sorts them in
    quadratic time. Runs of more than 30 are normalised in parts, and may differ from its result.
    """
    if text.isascii():
        return text
    cuts = [match.end() for match in _run.finditer(text)]
    if not cuts:
        return normalize(form, text)
    borders = [0, *cuts, len(text)]
    return "".join(normalize(form, text[start:end]) for start, end in pairwise(borders))


def case_folded(text: str) -> str:
    """Fold differences of case, width and compatibility forms.

    Case folding can break the normal form, so the string is normalised again.
    """
    if text.isascii():
        return text.casefold()
    return normalized("NFKC", normalized("NFKC", text).casefold())


MAX_NAME = 200
"""The longest name, in characters after normalisation."""


def is_text(text: str) -> bool:
    """Return whether `text` can be encoded as UTF-8; a lone surrogate cannot."""
    if text.isascii():  # most are, and CPython stores the answer in the string
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def sendable(text: str) -> str:
    """Replace half surrogate pairs, which no endpoint accepts, by U+FFFD.

    A question mark in their place would make a question of the sentence.
    """
    if is_text(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def with_article(what: str) -> str:
    """Return a noun with its article, as the beginning of a sentence: "An entity"."""
    return f"{'An' if what[0] in 'aeio' else 'A'} {what}"


def checked_name(name: str, what: str) -> str:
    """Return `name` in Unicode normal form NFC; raise unless it is a string that can be a name.

    It is empty or too long, or has control characters or lone surrogates: `ValueError`.
    """
    if type(name) is not str:  # the call takes as long as all other checks
        expect(name, str, what, '"alice"')
    if name.isascii() and name.isprintable() and 0 < len(name) <= MAX_NAME and not name.isspace():
        return str.__str__(name)  # an Enum's own __str__ names its class
    if not is_text(name):
        raise InputValueError(
            f"{with_article(what)} contains a lone surrogate: it cannot be encoded as UTF-8"
        )
    name = normalized("NFC", name)
    if not name.strip():
        raise InputValueError(f"{with_article(what)} is empty: give it a name")
    if len(name) > MAX_NAME:
        raise InputValueError(
            f"{with_article(what)} has {len(name)} characters: at most {MAX_NAME} are allowed"
        )
    if any(category(char) == "Cc" for char in name):
        raise InputValueError(f"{with_article(what)} contains control characters: remove them")
    return str.__str__(name)


def checked_text(text: str, what: str) -> str:
    """Return a string that can be encoded as UTF-8; raises the same errors as `checked_name`."""
    expect(text, str, what, '"words"')
    if not is_text(text):
        raise InputValueError(
            f"{with_article(what)} contains a lone surrogate: it cannot be encoded as UTF-8"
        )
    return text


def json_type() -> object:
    """Return pydantic's `JsonValue`, the value type of a concept whose values may be any JSON."""
    from pydantic import JsonValue as PydanticJsonValue  # see JsonValue

    return PydanticJsonValue


if TYPE_CHECKING:
    from pydantic import BaseModel, TypeAdapter
    from pydantic import JsonValue as JsonValue  # noqa: PLC0414 - a re-export
else:
    JsonValue = Any  # pydantic's own loads all of pydantic.types, half the time of `import factmem`

Canonical: TypeAlias = str | bytes
"""A value's canonical JSON as a dictionary key: equal for equal values.

A string represents itself and every other value is bytes: the two can never be equal.
"""


def canonical(value: JsonValue) -> Canonical:
    """Return the canonical form of a plain JSON value, for comparisons.

    Strings are in NFC: the same word typed on two systems is one value.
    """
    if type(value) is str:
        return value if value.isascii() else normalized("NFC", value)
    try:
        found = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # an integer beyond 64 bits
        found = pydantic_core.to_json(_sorted(value))
    return found if found.isascii() else normalized("NFC", found.decode()).encode()


def _sorted(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value


class ValueCodec:
    """Validates, dumps and loads the values of one type; no error contains a value.

    Strings have a fast path, because nearly all values are strings.
    """

    __slots__ = ("_built", "_form", "_name", "_read", "is_plain_text")

    def __init__(self, value_type: object, read: Callable[[Any], object] | None = None) -> None:
        self._read = read
        self.is_plain_text: bool = value_type is str
        self._name = _type_name(value_type)
        form: Any = value_type
        self._form = form
        # A string needs no adapter unless it is invalid, and the first adapter of a process takes
        # 10 ms, because pydantic searches for its plugins. For any other type the adapter is built
        # here, to fail early if pydantic does not support the type.
        self._built: TypeAdapter[Any] | None = None if self.is_plain_text else _adapter(form)

    @property
    def _adapter(self) -> "TypeAdapter[Any]":
        if self._built is None:
            self._built = _adapter(self._form)
        return self._built

    def check(self, value: object, keyword: str) -> Any:
        """Return `value` after strict validation, or raise `ValueError` with the mismatch."""
        if self.is_plain_text and type(value) is str:
            if not (value.isascii() or is_text(value)):  # a call costs as much as the rest
                raise InputValueError(f"The value for {keyword!r} contains a lone surrogate")
            return value
        try:
            return self._adapter.validate_python(value, strict=True)
        except ValidationError as exc:
            raise InputValueError(self._mismatch(keyword, exc)) from None

    def dump(self, value: object, keyword: str) -> JsonValue:
        """Return `value` as plain JSON that loads as an equal value.

        `ValueError` without such JSON: NaN, infinity, secrets, lone surrogates, excluded fields,
        nesting beyond 200.
        """
        if self.is_plain_text and type(value) is str:  # it was checked, and cannot change
            return value
        try:
            text = self._adapter.dump_json(value, by_alias=False, round_trip=True, warnings="error")
            plain: JsonValue = pydantic_core.from_json(text, allow_inf_nan=False)
            plain = _in_order(value, plain)
            back = self._load_json(text)
        except (PydanticSerializationError, ValueError, RecursionError, TypeError):
            back, plain = _NOTHING, None
        if not _is_same(value, back):
            raise InputValueError(
                f"The value for {keyword!r} cannot be stored: its JSON does not load as an equal "
                f"{self._name}. Use a value_type whose values can be stored as JSON"
            )
        return plain

    def load(self, plain: JsonValue) -> Any:
        """Return the value of plain JSON that `dump` returned, or raise `ValueError`."""
        if self.is_plain_text and type(plain) is str:
            return plain
        text = pydantic_core.to_json(plain)
        try:
            return self._load_json(text)
        except ValidationError as exc:
            reason = f"is not a valid {self._name} ({_kinds(exc)})"
        except RecursionError:
            raise InputValueError("is nested too deeply") from None
        if self._read is not None:
            try:
                return self.check(self._read(pydantic_core.from_json(text)), "")
            except Exception as exc:  # noqa: BLE001 - the application's; its text may be a value
                reason += f", and its concept's read raised {type(exc).__name__}"
        raise InputValueError(reason)

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON schema of the type, as models see it."""
        return self._adapter.json_schema(by_alias=False)

    def _load_json(self, text: bytes) -> Any:
        return self._adapter.validate_json(text, by_alias=False, by_name=True)

    def _mismatch(self, keyword: str, exc: ValidationError) -> str:
        hint = ": Concept(..., value_type=int) declares another type" if self.is_plain_text else ""
        return f"The value for {keyword!r} is not a valid {self._name} ({_kinds(exc)}){hint}"


_NOTHING = object()


def _adapter(form: Any) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter  # a quarter of the time of the first save of a string

    return TypeAdapter(form)


def _is_model(value: object) -> "TypeIs[BaseModel]":
    from pydantic import BaseModel

    return isinstance(value, BaseModel)


def _kinds(exc: ValidationError) -> str:
    """Return the kinds of mismatch; pydantic's messages and locations can contain the value."""
    errors = exc.errors(include_url=False, include_context=False, include_input=False)
    return ", ".join(sorted({error["type"] for error in errors}))


def _type_name(value_type: object) -> str:
    if get_origin(value_type) is Annotated:
        return _type_name(get_args(value_type)[0])
    if isinstance(value_type, type) and not get_args(value_type):
        return value_type.__name__
    return str(value_type).replace("typing.", "")


def _in_order(value: object, plain: JsonValue) -> JsonValue:
    """Sort the items of all sets in a value's plain JSON, so that all processes agree on the order.

    Python orders a set by hashes that differ between processes.
    """
    if _is_model(value) and value.__pydantic_root_model__:
        return _in_order(vars(value)["root"], plain)
    if isinstance(plain, list):
        is_set = isinstance(value, set | frozenset)
        parts = [*value] if isinstance(value, set | frozenset) else _parts(value)
        if len(parts) == len(plain):
            # Items come first: the order of a set depends on the order inside its items.
            plain = [_in_order(mine, theirs) for mine, theirs in zip(parts, plain, strict=True)]
        return sorted(plain, key=_rank) if is_set else plain
    if isinstance(plain, dict):
        if isinstance(value, dict) and len(value) == len(plain):  # its keys may not be strings
            both = zip(plain.items(), value.values(), strict=True)
            return {key: _in_order(mine, part) for (key, part), mine in both}
        named = _named_parts(value)
        return {
            key: _in_order(named[key], part) if key in named else part
            for key, part in plain.items()
        }
    return plain


def _rank(plain: JsonValue) -> bytes:
    key = canonical(plain)
    return key.encode() if isinstance(key, str) else key


def _is_same(ours: object, back: object) -> bool:
    """Return whether two values are equal and of the same types all the way down."""
    if type(ours) is not type(back):
        return False
    if isinstance(ours, datetime) and isinstance(back, datetime):
        return _instant(ours) == _instant(back)
    parts, others = _parts(ours), _parts(back)
    if parts or others:
        return len(parts) == len(others) and all(map(_is_same, parts, others))
    return bool(ours == back)


def _instant(moment: datetime) -> datetime:
    """Return a moment in UTC: equal moments compare as different when clocks are set back."""
    try:
        return moment if moment.utcoffset() is None else moment.astimezone(UTC)
    except OverflowError:  # before the year 1 in UTC, or after 9999
        return moment


def _named_parts(value: Any) -> dict[str, object]:
    """Return the parts of a value by the names that they have in its JSON."""
    if _is_model(value):
        return {**vars(value), **(value.__pydantic_extra__ or {})}
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, dict):
        return {str(key): part for key, part in value.items()}
    return {}


def _parts(value: Any) -> list[object]:
    """Return the parts of a value, in the same order for equal values."""
    if _is_model(value):
        private = value.__pydantic_private__ or {}
        return list({**_named_parts(value), **private}.items())
    if is_dataclass(value):
        return [*_named_parts(value).values()]
    if isinstance(value, dict):
        return [part for key in value for part in (key, value[key])]
    if isinstance(value, list | tuple):
        return list(value)
    return []


def codec_of(value_type: object, read: Callable[[Any], object] | None = None) -> ValueCodec:
    """Return the codec of a type; cached if the type can be hashed.

    `read` returns the value for a stored one of an older type.
    """
    if read is not None:
        return ValueCodec(value_type, read)
    try:
        return _cached_codec(value_type)
    except TypeError:  # some annotations contain unhashable objects
        return ValueCodec(value_type)


@lru_cache(maxsize=256, typed=True)
def _cached_codec(value_type: object) -> ValueCodec:
    return ValueCodec(value_type)
