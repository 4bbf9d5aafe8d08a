"""The entries of a ledger: plain JSON, encoded from facts and parsed back.

An entry is one save call (`facts`: one or more of them), one forgetting (`forget`: the items it
removes, by keyword, fact id and digest, never by value), or the result of one detection: facts
that are statements, and retractions (`retract`). Each carries the time at which it was recorded.
Times are strings in UTC, always with six digits and a Z, so that they sort as strings.

`_entry_check` validates entries that come from outside: bundles and other stores.
"""

import json
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, TypeAlias

import orjson
import pydantic_core
from pydantic_core import core_schema
from typing_extensions import TypedDict

from factmem.errors import FactmemError, InputValueError
from factmem.models._values import JsonValue, checked_name, checked_text, codec_of, json_type
from factmem.models.facts import (
    MAX_BEFORE,
    NO_METADATA,
    AnyFact,
    FactSource,
    FactState,
    SingleFact,
    SourceKind,
    checked_metadata,
)
from factmem.models.places import NOBODY, By, present_actor
from factmem.models.when import When, moment, stamp

__all__ = ["Entry", "StoredFact", "decoded", "encoded_entry", "stamped"]


class _Checked:
    """A check of a field, which `_entry_check` applies to entries that come from outside."""

    def __init__(self, check: Callable[[Any], object]) -> None:
        self._check = check

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        return core_schema.no_info_after_validator_function(self._check, handler(source))


class _Listed:
    """Marks a tuple that is a list in JSON."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        return {**handler(source), "strict": False}


def _where(is_valid: Callable[[Any], object]) -> _Checked:
    def checked(given: Any) -> Any:
        if not is_valid(given):
            raise InputValueError("not as a store writes it")
        return given

    return _Checked(checked)


def _checked_value(value: Any) -> Any:
    if type(value) is str:
        return checked_text(value, "value")
    return codec_of(json_type()).dump(value, "value")


_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
_DIGEST = re.compile("[0-9a-f]{32}")

Name: TypeAlias = Annotated[str, _where(lambda name: checked_name(name, "name") == name)]
Text: TypeAlias = Annotated[str, _Checked(lambda text: checked_text(text, "text"))]
Stamp: TypeAlias = Annotated[str, _where(lambda text: _STAMP.fullmatch(text) and moment(text))]
Period: TypeAlias = Annotated[str, _Checked(lambda text: When(text).text)]
Digest: TypeAlias = Annotated[str, _where(_DIGEST.fullmatch)]
Count: TypeAlias = Annotated[int, _where(lambda number: number >= 0)]
Value: TypeAlias = Annotated[JsonValue, _Checked(_checked_value)]


class SourceEntry(TypedDict):
    """A `FactSource` without its None fields."""

    kind: Annotated[str, _Checked(SourceKind)]
    conversation: NotRequired[Text]
    message: NotRequired[Count]
    quote: NotRequired[Text]
    model: NotRequired[Text]
    before: NotRequired[
        Annotated[str, _where(lambda text: len(checked_text(text, "before")) <= MAX_BEFORE)]
    ]
    doubts: NotRequired[list[Text]]


class StoredFact(TypedDict):
    """One saved fact. A SINGLE fact has `value`, a MULTIPLE one `values`.

    If values of a fact were removed from the ledger, it has only the others. A fact without values
    keeps the keyword's description and type, and still replaces what it replaced.
    """

    id: Name
    keyword: Name
    description: Text
    type: Literal["SINGLE", "MULTIPLE"]
    timestamp: Stamp
    value: NotRequired[Value]
    values: NotRequired[list[Value]]
    importance: NotRequired[Annotated[float, _where(lambda number: 0 <= number <= 1)]]
    expires_at: NotRequired[Stamp]
    since: NotRequired[Period]
    until: NotRequired[Period]
    source: NotRequired[SourceEntry]
    metadata: NotRequired[Annotated[dict[str, JsonValue], _Checked(checked_metadata)]]
    """Missing if a save does not change it; empty if a save removes it."""
    stated: NotRequired[Literal[True]]
    """Whether a model learnt it."""
    purged: NotRequired[Stamp]
    """The time at which values were purged from it, a stamp. No import restores them, nor any other
    save of one of them that was recorded before."""
    superseded: NotRequired[list[Count]]
    """The positions of values that were superseded at once, if the superseding values may have been
    removed from the ledger."""
    confirmed: NotRequired[Literal[True]]
    """Whether a person said so."""
    edited: NotRequired[Literal[True]]
    """Whether it only changes metadata, importance or expiry: it confirms and renews no value."""
    proposed: NotRequired[list[Count]]
    """The positions of values that wait for a decision. A ledger also proposes values of statements
    that contradict a confirmed one."""
    actor: NotRequired[Text]
    """Who saved it, if not the actor of the entry; empty if unknown."""
    reason: NotRequired[Text]


def _has_own_values(fact: StoredFact) -> bool:
    return ("values" if fact["type"] == "SINGLE" else "value") not in fact


class RetractedValue(TypedDict):
    """A statement that a value is no longer true. The value is named by a digest.

    A retraction whose value was purged has no digest.
    """

    keyword: Name
    timestamp: Stamp
    digest: NotRequired[Digest]
    id: NotRequired[Name]
    """Its id, which orders statements of the same time."""
    floor: NotRequired[Annotated[tuple[Stamp, Name], _Listed()]]
    """When the ended value was said, and its id, if that value was removed from the ledger."""
    confirmed: NotRequired[Literal[True]]
    """Whether a person said so: a model that states the value again only proposes it."""
    proposed: NotRequired[Literal[True]]
    """Whether it waits for a decision."""
    source: NotRequired[SourceEntry]
    """Where it was said, without the words."""


ForgottenItem: TypeAlias = Annotated[
    tuple[Name, Name, Annotated[str, _where(lambda text: not text or _DIGEST.fullmatch(text))]],
    _Listed(),
]
"""An item, named by its keyword, the id of its fact, and the digest of its value, which is empty if
the value was purged."""


class Entry(TypedDict):
    """One entry of a ledger. Kinds of later versions are ignored."""

    at: Stamp
    tie: NotRequired[Count]
    """Its number among the entries of the same time, if not implied by the entry before it."""
    received: NotRequired[Stamp]
    """When this store imported it, a stamp after all earlier imports. Exports leave it out."""
    facts: NotRequired[list[Annotated[StoredFact, _where(_has_own_values)]]]
    forget: NotRequired[Sequence[ForgottenItem]]
    whole: NotRequired[Literal[True]]
    """Whether replaced and ended values of the forgotten keywords are forgotten, too."""
    retract: NotRequired[list[RetractedValue]]
    operations: NotRequired[list[str]]
    """The operations over a whole store that changed it, which a repetition then skips."""
    actor: NotRequired[Text]
    """Who made the change."""
    reason: NotRequired[Text]
    undoes: NotRequired[Text]
    """The change that this entry undoes; it forgets before it saves."""
    turn: NotRequired[dict[str, JsonValue]]
    """A message, in the lines of a conversation, which no ledger reads."""


def stored(fact: AnyFact) -> StoredFact:
    """Return a fact in the form of entries.

    Raises:
        ValueError: A value would change when stored as JSON.
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
    if fact.since is not None:
        entry["since"] = fact.since.text
    if fact.until is not None:
        entry["until"] = fact.until.text
    if fact.source is not None:
        entry["source"] = source_entry(fact.source)
    if fact.metadata is not NO_METADATA and fact.metadata:
        entry["metadata"] = dict(fact.metadata)
    if fact.state is FactState.CONFIRMED:
        entry["confirmed"] = True
    elif fact.state is FactState.PROPOSED:
        entry["proposed"] = [*range(len(fact.values))]
    return entry


def source_entry(source: FactSource) -> SourceEntry:
    """Return a source in the form of entries."""
    entry: Any = {"kind": source.kind.value}
    for name in _OF_SOURCES:
        if (each := getattr(source, name)) is not None:
            entry[name] = each
    if source.doubts:
        entry["doubts"] = list(source.doubts)
    found: SourceEntry = entry
    return found


def source_of(entry: SourceEntry | None) -> FactSource | None:
    """Return the source of an entry."""
    if entry is None:
        return None
    return FactSource(  # positional, because each load of a learnt fact builds one
        SourceKind(entry["kind"]),
        entry.get("conversation"),
        entry.get("message"),
        entry.get("quote"),
        entry.get("model"),
        entry.get("before"),
        tuple(entry.get("doubts", ())),
    )


_OF_SOURCES = ("conversation", "message", "quote", "model", "before")
"""The fields of a source that may be None."""

_WIDE = b'{"wide":true,'


def untimed(
    facts: Iterable[StoredFact] = (),
    forget: Iterable[ForgottenItem] = (),
    retract: Iterable[RetractedValue] = (),
    *,
    whole: bool = False,
    by: By | None = None,
) -> dict[str, Any]:
    """Return an entry without its time; it names the present actor unless `by` names another."""
    entry: dict[str, Any] = {}
    if facts := list(facts):
        entry["facts"] = facts
    if forget := list(forget):
        entry["forget"] = forget
    if forget and whole:
        entry["whole"] = True
    if retract := list(retract):
        entry["retract"] = retract
    sign(entry, present_actor() if by is None else by)
    return entry


def sign(entry: Any, by: By) -> None:
    """Add the current actor and the reason to an entry, unless it names an actor."""
    if by.actor is not None and "actor" not in entry:
        entry["actor"] = by.actor
        if by.reason is not None:
            entry["reason"] = by.reason


def by_of(entry: "Entry") -> By:
    """Return who made an entry, and why."""
    return By(entry["actor"], entry.get("reason")) if "actor" in entry else NOBODY


def exported(entries: Sequence[Entry]) -> list[Entry]:
    """Return entries without what only this copy of a place has."""
    for entry in entries:
        entry.pop("received", None)
    return list(entries)


def keywords_of(entry: Mapping[str, Any]) -> list[str]:
    """Return the keywords in an entry."""
    named = dict.fromkeys([fact["keyword"] for fact in entry.get("facts", ())])
    for name, *_ in entry.get("forget", ()):
        named[name] = None
    for each in entry.get("retract", ()):
        named[each["keyword"]] = None
    return list(named)


def part_about(
    entry: Entry, keywords: Container[str], ids: Container[str] | None = None
) -> Entry | None:
    """Return the parts of an entry about keywords; with `ids` the facts with these ids instead."""
    field, wanted = ("keyword", keywords) if ids is None else ("id", ids)
    given: Sequence[Any] = entry.get("facts", ())
    facts = [fact for fact in given if fact[field] in wanted]
    forget: list[ForgottenItem] = []
    retract: list[RetractedValue] = []
    if "forget" in entry:
        forget = [name for name in entry["forget"] if name[0] in keywords]
    if "retract" in entry:
        retract = [each for each in entry["retract"] if each["keyword"] in keywords]
    if not (facts or forget or retract):
        return None
    return {**entry, "facts": facts, "forget": forget, "retract": retract}


def encoded_entry(entry: Mapping[str, Any]) -> bytes:
    """Return an entry without its time as one line of JSON; `stamped` puts the time in.

    Fast JSON parsers round integers beyond 64 bits. An entry with such an integer begins with
    `"wide":true`, so that `decoded` uses an exact parser.
    """
    if "at" in entry:
        entry = {name: part for name, part in entry.items() if name != "at"}
    try:
        return orjson.dumps(entry)
    except TypeError:
        return pydantic_core.to_json({"wide": True, **entry})


MOST_BYTES = 16 * 1024 * 1024
"""The most bytes of an entry and of a line of an import. The largest entries of real stores are
saves of many facts, below 1 MiB."""
MOST_PARTS = 500_000
"""The most lists, objects and items of a line: about 60 MB when parsed."""
_ROOM = 64 * 1024
"""The bytes of a bundle's line beside the entry."""


def is_small(text: bytes, room: int = 0) -> bool:
    """Return whether JSON of this size, with `room` bytes around it, is read back."""
    if len(text) < MOST_PARTS:
        return True
    return len(text) + room <= MOST_BYTES and sum(map(text.count, (b"[", b"{", b","))) <= MOST_PARTS


def check_size(body: bytes, entry: Mapping[str, Any]) -> None:
    """Raise `ValueError` if an encoded entry is larger than an export or a sync can carry."""
    if not is_small(body, _ROOM):
        keywords = keywords_of(entry)
        what = f"A save of {', '.join(map(repr, keywords[:3]))}" if keywords else "A message"
        raise InputValueError(
            f"{what} has more than {MOST_BYTES:,} bytes or {MOST_PARTS:,} items: keep large "
            "content in a file, and save its path"
        )


def stamped(body: bytes, at: str) -> bytes:
    """Return an encoded entry with the time at which it is recorded."""
    if body.startswith(_WIDE):
        return b'%b"at":"%b",%b' % (_WIDE, at.encode(), body[len(_WIDE) :])
    comma = b"" if body == b"{}" else b","
    return b'{"at":"%b"%b%b' % (at.encode(), comma, body[1:])


def decoded(line: bytes) -> Entry:
    """Return the entry of one line.

    Raises:
        FactmemError: The line is no entry, although its record verifies.
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
        raise FactmemError(
            "A record passes its checks and is not a factmem entry: another program wrote it"
        )
    found: Entry = entry  # type: ignore[assignment]
    return found


Amendment: TypeAlias = Callable[[Sequence[Entry], str], Iterable[Entry]]
"""Returns new entries, given a ledger's entries and the time at which the new ones are recorded."""

Edit: TypeAlias = Callable[[Sequence[Entry]], Sequence[Entry | None]]
"""A pure function that returns each entry of a place unchanged, changed, or None to remove it."""
