"""What an entry from outside must look like before a store may take it in.

A store checks what it is given to save. An entry of a bundle was saved elsewhere, or was written by
a stranger; a ledger reads it without looking twice, so it is looked at here.
"""

import re
from functools import lru_cache
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, ConfigDict, Field, Strict, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from factmem.entries import moment
from factmem.models import SourceKind
from factmem.names import checked_name, checked_text

__all__ = ["check_entry"]

_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)


def check_entry(entry: object) -> None:
    """Make sure that an entry, as plain JSON, is one that a store may hold.

    Fields of later versions may be there; what is known must be right.

    Raises:
        ValueError: It is not. The message names the field and the kind of mismatch, never a value.
    """
    try:
        _adapter().validate_python(entry)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "the entry"
        raise ValueError(f"{field} is not as a store holds it ({first['type']})") from None


def _normal(name: str) -> str:
    if checked_name(name, "name") != name:
        raise ValueError("not in NFC")
    return name


def _text(text: str) -> str:
    return checked_text(text, "text")


def _time(text: str) -> str:
    if not _STAMP.fullmatch(text):
        raise ValueError("not a stamp")
    moment(text)
    return text


def _whole(fact: "_Fact") -> "_Fact":
    single, many = "value" in fact, "values" in fact
    if (single and fact["type"] != "SINGLE") or (many and fact["type"] != "MULTIPLE"):
        raise ValueError("values of the other type")
    if "positions" in fact:
        positions = fact["positions"]
        if positions != sorted(set(positions)) or len(positions) != len(fact.get("values", ())):
            raise ValueError("positions that fit no values")
    return fact


_Name = Annotated[str, AfterValidator(_normal)]
_Text = Annotated[str, AfterValidator(_text)]
_Stamp = Annotated[str, AfterValidator(_time)]
_Count = Annotated[int, Field(ge=0)]

_CONFIG = ConfigDict(strict=True, extra="allow")


class _Source(TypedDict):
    __pydantic_config__ = _CONFIG  # type: ignore[misc]

    kind: Annotated[SourceKind, Strict(False)]
    conversation: NotRequired[_Text]
    message: NotRequired[_Count]
    quote: NotRequired[_Text]
    model: NotRequired[_Text]


class _Fact(TypedDict):
    __pydantic_config__ = _CONFIG  # type: ignore[misc]

    id: _Name
    keyword: _Name
    description: _Text
    type: Literal["SINGLE", "MULTIPLE"]
    timestamp: _Stamp
    value: NotRequired[Any]
    values: NotRequired[list[Any]]
    positions: NotRequired[list[_Count]]
    importance: NotRequired[Annotated[float, Field(ge=0, le=1)]]
    expires_at: NotRequired[_Stamp]
    source: NotRequired[_Source]


class _Entry(TypedDict):
    __pydantic_config__ = _CONFIG  # type: ignore[misc]

    at: _Stamp
    facts: NotRequired[list[Annotated[_Fact, AfterValidator(_whole)]]]
    forget: NotRequired[list[Annotated[tuple[_Name, _Name, _Count], Strict(False)]]]


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[_Entry]:
    """Built at the first use: importing factmem builds no schema."""
    return TypeAdapter(_Entry)
