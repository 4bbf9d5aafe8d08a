"""Validation of entries that come from outside: bundles and other stores.

A separate module, because the parts of pydantic for its schema take longer to import than the rest
of the ledger, and no save or load needs them.
"""

import re
from functools import lru_cache
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, ConfigDict, Field, Strict, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json
from typing_extensions import TypedDict

from factmem.errors import InputValueError
from factmem.models._values import checked_name, checked_text, codec_of, json_type
from factmem.models.facts import MAX_BEFORE, SourceKind, checked_metadata
from factmem.models.when import When, moment

_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)


def check_entry(entry: object) -> None:
    """Validate an entry, given as plain JSON; `ValueError` names a field and never a value.

    Unknown fields of later versions are allowed; known fields must be valid. What passes can be
    written and loaded: no number is infinite, and no value is nested too deeply.
    """
    try:
        _adapter().validate_python(entry)
        to_json(entry)  # unknown fields are written too
    except PydanticSerializationError:
        raise InputValueError("the entry is nested too deeply") from None
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "the entry"
        raise InputValueError(f"{field} is not as a store holds it ({first['type']})") from None


def _normal(name: str) -> str:
    if checked_name(name, "name") != name:
        raise InputValueError("not in NFC")
    return name


def _text(text: str) -> str:
    return checked_text(text, "text")


def _value(value: Any) -> Any:
    if type(value) is str:
        return checked_text(value, "value")
    return codec_of(json_type()).dump(value, "value")


def _time(text: str) -> str:
    if not _STAMP.fullmatch(text):
        raise InputValueError("not a stamp")
    moment(text)
    return text


def _whole(fact: "_Fact") -> "_Fact":
    single, many = "value" in fact, "values" in fact
    if (single and fact["type"] != "SINGLE") or (many and fact["type"] != "MULTIPLE"):
        raise InputValueError("values of the other type")
    return fact


_Name = Annotated[str, AfterValidator(_normal)]
_Text = Annotated[str, AfterValidator(_text)]
_When = Annotated[str, AfterValidator(lambda text: When(text).text)]
_Stamp = Annotated[str, AfterValidator(_time)]
_Count = Annotated[int, Field(ge=0)]
_Value = Annotated[Any, AfterValidator(_value)]
_AnyDigest = Annotated[str, Field(pattern="^([0-9a-f]{32})?$")]

_CONFIG = ConfigDict(strict=True, extra="allow")


class _Source(TypedDict):
    __pydantic_config__ = _CONFIG  # type: ignore[misc]

    kind: Annotated[SourceKind, Strict(False)]
    conversation: NotRequired[_Text]
    message: NotRequired[_Count]
    quote: NotRequired[_Text]
    model: NotRequired[_Text]
    before: NotRequired[Annotated[_Text, Field(max_length=MAX_BEFORE)]]
    doubts: NotRequired[list[_Text]]


class _Fact(TypedDict):
    __pydantic_config__ = _CONFIG  # type: ignore[misc]

    id: _Name
    keyword: _Name
    description: _Text
    type: Literal["SINGLE", "MULTIPLE"]
    timestamp: _Stamp
    value: NotRequired[_Value]
    values: NotRequired[list[_Value]]
    importance: NotRequired[Annotated[float, Field(ge=0, le=1)]]
    expires_at: NotRequired[_Stamp]
    since: NotRequired[_When]
    until: NotRequired[_When]
    source: NotRequired[_Source]
    metadata: NotRequired[Annotated[dict[str, Any], AfterValidator(checked_metadata)]]
    stated: NotRequired[Literal[True]]
    purged: NotRequired[_Stamp]
    superseded: NotRequired[list[_Count]]
    confirmed: NotRequired[Literal[True]]
    edited: NotRequired[Literal[True]]
    proposed: NotRequired[list[_Count]]
    actor: NotRequired[_Text]
    reason: NotRequired[_Text]


class _Retracted(TypedDict):
    __pydantic_config__ = _CONFIG  # type: ignore[misc]

    keyword: _Name
    timestamp: _Stamp
    digest: NotRequired[Annotated[str, Field(pattern="^[0-9a-f]{32}$")]]
    id: NotRequired[_Name]
    floor: NotRequired[Annotated[tuple[_Stamp, _Name], Strict(False)]]
    confirmed: NotRequired[Literal[True]]
    proposed: NotRequired[Literal[True]]
    source: NotRequired[_Source]


class _Entry(TypedDict):
    __pydantic_config__ = _CONFIG  # type: ignore[misc]

    at: _Stamp
    tie: NotRequired[_Count]
    facts: NotRequired[list[Annotated[_Fact, AfterValidator(_whole)]]]
    forget: NotRequired[list[Annotated[tuple[_Name, _Name, _AnyDigest], Strict(False)]]]
    whole: NotRequired[Literal[True]]
    retract: NotRequired[list[_Retracted]]
    actor: NotRequired[_Text]
    reason: NotRequired[_Text]
    undoes: NotRequired[_Text]


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[_Entry]:
    """Built at the first use, so that importing factmem builds no schema."""
    return TypeAdapter(_Entry)
