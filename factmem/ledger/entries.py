"""The entries of a ledger: plain JSON, made from facts and parsed back.

An entry is one save call (`facts`: one or more of them), one forgetting (`forget`: the items it
removes, by keyword, fact id and position, never by value), or the result of one detection: facts
that are statements, and retractions (`retract`). Each carries the time at which it was recorded.
Times are strings in UTC, always with six digits and a Z, so that they sort as strings.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any, Literal, NotRequired, TypeAlias

import orjson
import pydantic_core
from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    JsonValue,
    Strict,
    TypeAdapter,
    ValidationError,
)
from typing_extensions import TypedDict

from factmem.errors import FactmemError
from factmem.models.facts import AnyFact, SingleFact
from factmem.models.metadata import NO_METADATA, checked_metadata
from factmem.models.names import checked_name, checked_text
from factmem.models.sources import MAX_BEFORE, FactSource, SourceKind

__all__ = [
    "Amendment",
    "Edit",
    "Entry",
    "ForgottenItem",
    "RetractedValue",
    "SourceEntry",
    "StoredFact",
    "check_entry",
    "decoded",
    "encoded",
    "encoded_entry",
    "moment",
    "source_of",
    "stamp",
    "stamped",
    "stored",
]


class SourceEntry(TypedDict):
    """A `FactSource` without its None fields."""

    kind: str
    conversation: NotRequired[str]
    message: NotRequired[int]
    quote: NotRequired[str]
    model: NotRequired[str]
    before: NotRequired[str]


class StoredFact(TypedDict):
    """One saved fact. A SINGLE fact has `value`, a MULTIPLE one `values`.

    In a journal's line the description may be left out: see `descriptions`.

    If some values of a fact were purged, `positions` gives the original positions of the others; a
    fact without values keeps only the keyword's description and type.
    """

    id: str
    keyword: str
    description: str
    type: Literal["SINGLE", "MULTIPLE"]
    timestamp: str
    value: NotRequired[JsonValue]
    values: NotRequired[list[JsonValue]]
    positions: NotRequired[list[int]]
    importance: NotRequired[float]
    expires_at: NotRequired[str]
    source: NotRequired[SourceEntry]
    metadata: NotRequired[dict[str, JsonValue]]
    """Missing if a save does not change it; empty if a save removes it."""
    stated: NotRequired[Literal[True]]
    """Whether it is a statement: its `timestamp` decides against those of others."""
    superseded: NotRequired[list[int]]
    """The positions of values that were superseded at once, where what superseded them may have
    been removed from the ledger."""


class RetractedValue(TypedDict):
    """A statement that a value is no longer true. The value is named by a digest.

    A retraction whose value was purged has no digest; it is kept for its floor alone.
    """

    keyword: str
    timestamp: str
    digest: NotRequired[str]
    floor: NotRequired[str]
    """When the value that it ended was said, where that value was removed from the ledger."""


ForgottenItem: TypeAlias = tuple[str, str, int]
"""An item by its keyword, the id of the fact it was saved in, and its position among its values."""


class Entry(TypedDict):
    """One line of a ledger: a save, a forgetting, or a kind of a later version that is ignored."""

    at: str
    facts: NotRequired[list[StoredFact]]
    forget: NotRequired[Sequence[ForgottenItem]]
    retract: NotRequired[list[RetractedValue]]


def stamp(when: datetime) -> str:
    """Return an aware datetime as a stamp, the string that entries use."""
    if when.tzinfo is not UTC:  # facts hold UTC already, and converting takes half of this
        when = when.astimezone(UTC)
    return when.isoformat(timespec="microseconds")[:-6] + "Z"


def moment(text: str) -> datetime:
    """Return the datetime of a stamp."""
    return datetime.fromisoformat(text)


def stored(fact: AnyFact) -> StoredFact:
    """Return a fact as an entry holds it.

    Raises:
        ValueError: A value would not come back equal from its JSON.
    """
    concept = fact.concept
    entry: StoredFact = {
        "id": fact.id,
        "keyword": concept.keyword,
        "description": concept.description,
        "type": "SINGLE" if isinstance(fact, SingleFact) else "MULTIPLE",
        "timestamp": stamp(fact.timestamp),
    }
    if isinstance(fact, SingleFact):
        entry["value"] = concept.codec.dump(fact.value, concept.keyword)
    else:
        entry["values"] = [concept.codec.dump(value, concept.keyword) for value in fact.values]
    if fact.importance != 0.5:
        entry["importance"] = fact.importance
    if fact.expires_at is not None:
        entry["expires_at"] = stamp(fact.expires_at)
    if fact.source is not None:
        entry["source"] = _source_entry(fact.source)
    if fact.metadata is not NO_METADATA and fact.metadata:
        entry["metadata"] = dict(fact.metadata)
    return entry


def _source_entry(source: FactSource) -> SourceEntry:
    entry: SourceEntry = {"kind": source.kind.value}
    if source.conversation is not None:
        entry["conversation"] = source.conversation
    if source.message is not None:
        entry["message"] = source.message
    if source.quote is not None:
        entry["quote"] = source.quote
    if source.model is not None:
        entry["model"] = source.model
    if source.before is not None:
        entry["before"] = source.before
    return entry


def source_of(entry: SourceEntry | None) -> FactSource | None:
    """Return the source that an entry holds."""
    if entry is None:
        return None
    return FactSource(
        SourceKind(entry["kind"]),
        entry.get("conversation"),
        entry.get("message"),
        entry.get("quote"),
        entry.get("model"),
        entry.get("before"),
    )


_WIDE = b'{"wide":true,'


def encoded(
    facts: Iterable[StoredFact] = (),
    forget: Iterable[ForgottenItem] = (),
    retract: Iterable[RetractedValue] = (),
) -> bytes:
    """Return an entry without its time as one line of JSON; `stamped` puts the time in.

    Integers beyond 64 bits are legal JSON that fast readers round: such an entry begins with
    `"wide":true`, which makes `decoded` use the exact reader.
    """
    entry: dict[str, Any] = {}
    if facts := list(facts):
        entry["facts"] = facts
    if forget := list(forget):
        entry["forget"] = forget
    if retract := list(retract):
        entry["retract"] = retract
    return _dumped(entry)


def encoded_entry(entry: Entry) -> bytes:
    """Return a whole entry without its time as `encoded` does, with fields of later versions."""
    return _dumped({name: part for name, part in entry.items() if name != "at"})


def _dumped(entry: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(entry)
    except TypeError:
        return pydantic_core.to_json({"wide": True, **entry})


def stamped(body: bytes, at: str) -> bytes:
    """Return an encoded entry with the time at which it is recorded."""
    if body.startswith(_WIDE):
        return b'%b"at":"%b",%b' % (_WIDE, at.encode(), body[len(_WIDE) :])
    comma = b"" if body == b"{}" else b","
    return b'{"at":"%b"%b%b' % (at.encode(), comma, body[1:])


def decoded(line: bytes) -> Entry:
    """Return the entry of one line.

    Raises:
        FactmemError: The line is no entry, although its record was whole.
    """
    try:
        if line.startswith(_WIDE):
            wide: dict[str, Any] = json.loads(line)
            del wide["wide"]
            entry: Any = wide
        else:
            entry = orjson.loads(line)
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict) or "at" not in entry:
        raise FactmemError("A record is whole but holds no entry: no version wrote it")
    found: Entry = entry  # type: ignore[assignment]
    return found


_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)


def check_entry(entry: object) -> None:
    """Validate an entry, given as plain JSON.

    Unknown fields of later versions are allowed; known fields must be valid.

    Raises:
        ValueError: It is invalid. The message names the field and the mismatch, never a value.
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
    before: NotRequired[Annotated[_Text, Field(max_length=MAX_BEFORE)]]


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
    metadata: NotRequired[Annotated[dict[str, Any], AfterValidator(checked_metadata)]]
    stated: NotRequired[Literal[True]]
    superseded: NotRequired[list[_Count]]


class _Retracted(TypedDict):
    __pydantic_config__ = _CONFIG  # type: ignore[misc]

    keyword: _Name
    timestamp: _Stamp
    digest: NotRequired[Annotated[str, Field(pattern="^[0-9a-f]{32}$")]]
    floor: NotRequired[_Stamp]


class _Entry(TypedDict):
    __pydantic_config__ = _CONFIG  # type: ignore[misc]

    at: _Stamp
    facts: NotRequired[list[Annotated[_Fact, AfterValidator(_whole)]]]
    forget: NotRequired[list[Annotated[tuple[_Name, _Name, _Count], Strict(False)]]]
    retract: NotRequired[list[_Retracted]]


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[_Entry]:
    """Built at the first use: importing factmem builds no schema."""
    return TypeAdapter(_Entry)


Amendment: TypeAlias = Callable[[Sequence[Entry], str], Iterable[Entry]]
"""Makes new entries of a ledger's entries and the time at which they will be recorded."""

Edit: TypeAlias = Callable[[Sequence[Entry]], Sequence[Entry | None]]
"""A pure function that returns each entry of a place as it was, changed, or None to remove it."""
