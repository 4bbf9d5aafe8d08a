"""What one item of a model's answer says, if it may say so.

Each item is judged alone: a bad one is rejected with a reason, and does no harm to the others.
No reason quotes what the model wrote.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

from pydantic import JsonValue
from pydantic_core import to_json

from factmem.detection.keywords import Keywords, tidy_keyword
from factmem.llm.lenient_json import unwrapped
from factmem.models.facts import Concept, FactType
from factmem.models.places import MemoryScopeType, Place
from factmem.models.sources import FactSource
from factmem.models.text import normalized
from factmem.models.values import Canonical, canonical
from factmem.prompt.transcript import Transcript

__all__ = ["Candidate", "RejectedItem", "RejectionReason", "Rules", "given_values"]


MAX_DESCRIPTION = 300
MAX_QUOTE = 500
ORDINARY = 0.5

AnyConcept: TypeAlias = Concept[Any, Any]


class RejectionReason(StrEnum):
    """Why an item of a model's answer was not taken."""

    MALFORMED = "malformed"
    """It is no object, or lacks what every item has."""
    UNKNOWN_ACTION = "unknown action"
    UNKNOWN_SUBJECT = "unknown subject"
    UNKNOWN_SCOPE = "unknown scope"
    UNKNOWN_CONCEPT = "unknown concept"
    """Facts were asked for about other concepts only."""
    INVALID_KEYWORD = "invalid keyword"
    INVALID_VALUE = "invalid value"
    """The value does not fit the concept's type, is empty, or too long."""
    UNKNOWN_MESSAGE = "unknown message"
    """There is no message of that number."""
    UNTRUSTED_MESSAGE = "untrusted message"
    """The message is one that may not be cited."""
    QUOTE_NOT_FOUND = "quote not found"
    """The message does not have the words that are quoted."""
    NOT_STORED = "not stored"
    """What is to be retracted is not current."""
    UNSUPPORTED = "unsupported"
    """The provider cannot do it."""
    DUPLICATE = "duplicate"
    """Another item says the same."""
    SUPERSEDED = "superseded"
    """Another item, about a later message, says something else."""
    TOO_MANY = "too many"
    """The answer has more items than are looked at."""


@dataclass(frozen=True, slots=True)
class RejectedItem:
    """An item that was not taken."""

    position: int
    """Its position in the answer, from 0."""
    reason: RejectionReason
    detail: str
    """What is wrong, without a word of what the model wrote."""
    item: JsonValue = field(repr=False)
    """The item as the model gave it: handle it as what it is, a stranger's text."""


class Refusal(Exception):  # noqa: N818 - no error: it ends the reading of one item
    """An item is not taken."""

    def __init__(self, reason: RejectionReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Candidate:
    """What an item says: this value is, or is no longer, current in this place."""

    position: int
    is_retraction: bool
    place: Place
    concept: AnyConcept
    value: object
    key: Canonical
    importance: float
    source: FactSource
    item: JsonValue = field(repr=False)

    @property
    def order(self) -> tuple[int, int]:
        """When it was said: by message, then by its position in the answer."""
        return self.source.message or 0, self.position


class Rules:
    """What an item may say in one detection.

    Args:
        transcript: What may be cited.
        places: Where facts may be saved. A model chooses among them by the subject's name and
            the scope's type, so no two of them may agree in both.
        declared: The concepts whose types bind the model.
        known: The concepts that have facts already.
        is_closed: Whether no other concepts may come up.
        conversation: The conversation to note as the source.
        model: The model to note as the source.
    """

    def __init__(
        self,
        transcript: Transcript,
        places: Iterable[Place],
        *,
        declared: Iterable[AnyConcept],
        known: Iterable[AnyConcept] = (),
        is_closed: bool = False,
        conversation: str | None = None,
        model: str | None = None,
    ) -> None:
        self._transcript = transcript
        self._places: dict[str, dict[MemoryScopeType, Place]] = {}
        for place in places:
            scopes = self._places.setdefault(place.subject.name, {})
            scopes[place.scope.type] = place
        self._declared = {concept.keyword: concept for concept in declared}
        self._concepts = {concept.keyword: concept for concept in known} | self._declared
        self._keywords = Keywords((*self._declared.values(), *self._concepts.values()))
        self._is_closed = is_closed
        self._conversation = conversation
        self._model = model

    def read(self, position: int, raw: JsonValue) -> list[Candidate] | RejectedItem:
        """Return what an item says: one candidate, or several where it lists values."""
        try:
            item = _object(raw)
            is_retraction = _is_retraction(item)
            place = self._place(item)
            concept, value = self._concept(item)
            values = _values(value, concept)
            source = self._source(item)
        except Refusal as refusal:
            return RejectedItem(position, refusal.reason, refusal.detail, raw)
        self._remember(concept)
        importance = _importance(item.get("importance"))
        return [
            Candidate(position, is_retraction, place, concept, value, key, importance, source, raw)
            for key, value in values.items()
        ]

    def _remember(self, concept: AnyConcept) -> None:
        """Let later items of the answer use a keyword that this one made up."""
        self._concepts.setdefault(concept.keyword, concept)
        self._keywords.add(concept.keyword)

    def _place(self, item: Mapping[str, JsonValue]) -> Place:
        scopes = self._places[self._subject(item.get("subject"))]
        name = item.get("scope")
        if name is None or name == "":
            return next(scopes[each] for each in MemoryScopeType if each in scopes)
        wanted = name.strip().casefold() if isinstance(name, str) else None
        for scope_type, place in scopes.items():
            if scope_type.value == wanted:
                return place
        offered = ", ".join(repr(each.value) for each in scopes)
        raise Refusal(RejectionReason.UNKNOWN_SCOPE, f"its scope is none of {offered}")

    def _subject(self, name: JsonValue) -> str:
        if name is None and len(self._places) == 1:
            return next(iter(self._places))
        if isinstance(name, str):
            exact = normalized("NFC", name.strip())
            if exact in self._places:
                return exact
            alike = [each for each in self._places if each.casefold() == exact.casefold()]
            if len(alike) == 1:
                return alike[0]
        offered = ", ".join(map(repr, self._places))
        raise Refusal(RejectionReason.UNKNOWN_SUBJECT, f"its subject is none of {offered}")

    def _concept(self, item: Mapping[str, JsonValue]) -> tuple[AnyConcept, JsonValue]:
        text, value = item.get("keyword"), item.get("value")
        if not isinstance(text, str) or not text.strip():
            raise Refusal(RejectionReason.MALFORMED, "it has no keyword")
        if value is None:
            raise Refusal(RejectionReason.INVALID_VALUE, "it has no value")
        keyword = self._keywords.known(text)
        if keyword in self._declared:
            return self._declared[keyword], value
        if self._is_closed:
            wanted = ", ".join(map(repr, self._declared))
            raise Refusal(RejectionReason.UNKNOWN_CONCEPT, f"only {wanted} is asked for")
        known = self._concepts.get(keyword) if keyword is not None else None
        if known is not None:
            holds_text = known.codec.is_plain_text and not isinstance(value, dict | list)
            value_type: object = str if holds_text else JsonValue
            fact_type = known.fact_type
            return (
                Concept(known.keyword, known.description, fact_type, value_type=value_type),
                value,
            )
        return _new_concept(text, item), value

    def _source(self, item: Mapping[str, JsonValue]) -> FactSource:
        index = _index(item.get("message"))
        kind = None if index is None else self._transcript.kind(index)
        if index is None or kind is None:
            why_not = None if index is None else self._transcript.why_not(index)
            if why_not is not None:
                raise Refusal(
                    RejectionReason.UNTRUSTED_MESSAGE, f"its message may not be cited: {why_not}"
                )
            raise Refusal(RejectionReason.UNKNOWN_MESSAGE, "there is no message of that number")
        quote = item.get("quote")
        if not isinstance(quote, str) or not quote.strip():
            raise Refusal(RejectionReason.QUOTE_NOT_FOUND, "it has no quote")
        if not self._transcript.holds(index, quote):
            raise Refusal(
                RejectionReason.QUOTE_NOT_FOUND, f"message {index} does not have its quote"
            )
        words = quote.strip()[:MAX_QUOTE]
        return FactSource(kind, self._conversation, index, words, self._model)


def _object(raw: JsonValue) -> dict[str, JsonValue]:
    raw = unwrapped(raw)
    if not isinstance(raw, dict):
        raise Refusal(RejectionReason.MALFORMED, "it is no object")
    return raw


def _is_retraction(item: Mapping[str, JsonValue]) -> bool:
    action = item.get("action") or "assert"
    match action.strip().casefold() if isinstance(action, str) else None:
        case "assert":
            return False
        case "retract":
            return True
        case _:
            detail = "its action is neither 'assert' nor 'retract'"
            raise Refusal(RejectionReason.UNKNOWN_ACTION, detail)


def _index(raw: JsonValue) -> int | None:
    if isinstance(raw, str) and raw.strip().isdecimal() and len(raw) < 10:
        return int(raw)
    if isinstance(raw, float) and raw.is_integer():
        return int(raw)
    return raw if type(raw) is int else None


def _importance(raw: JsonValue) -> float:
    """Return an importance; it only ranks, so one that makes no sense is an ordinary one."""
    try:
        number = float(raw) if isinstance(raw, int | float | str) else ORDINARY
    except (ValueError, OverflowError):
        return ORDINARY
    is_number = not isinstance(raw, bool) and number == number  # noqa: PLR0124 - not a NaN
    return min(max(number, 0.0), 1.0) if is_number else ORDINARY


def _values(raw: JsonValue, concept: AnyConcept) -> dict[Canonical, object]:
    try:
        return given_values(raw, concept)
    except ValueError as exc:
        raise Refusal(RejectionReason.INVALID_VALUE, f"its value {exc}") from None


def _new_concept(text: str, item: Mapping[str, JsonValue]) -> AnyConcept:
    try:
        keyword = tidy_keyword(text)
    except ValueError as exc:
        raise Refusal(RejectionReason.INVALID_KEYWORD, f"its keyword {exc}") from None
    value, description, given = item.get("value"), item.get("description"), item.get("fact_type")
    words = " ".join(description.split()) if isinstance(description, str) else ""
    words = words.encode("utf-8", "replace").decode()[:MAX_DESCRIPTION]
    fact_type = FactType.MULTIPLE if isinstance(value, list) else FactType.SINGLE
    if isinstance(given, str) and given.strip().upper() in FactType.__members__:
        fact_type = FactType(given.strip().upper())
    value_type: object = str if isinstance(value, str) else JsonValue
    return Concept(keyword, words or keyword.replace("-", " "), fact_type, value_type=value_type)


MAX_VALUE = 2_000
"""The longest value, in bytes of JSON, that is taken from a model."""

MAX_LIST = 50
"""The most values that one item may hold."""

MAX_DEPTH = 4
"""How deep a value may be nested where the application gave no type."""

_ANY_JSON: object = JsonValue

_NOTHING = frozenset(
    {"unknown", "n/a", "null", "undefined", "unspecified"}
    | {f"not {said}" for said in ("known", "mentioned", "provided", "specified", "stated")}
)
"""What models write where they have no value."""


def given_values(raw: JsonValue, concept: AnyConcept) -> dict[Canonical, object]:
    """Return the values that an item means, by their canonical form.

    One value mostly; several where a concept that holds many is given a list.

    Raises:
        ValueError: One is none of the concept. The message does not quote it, and goes on from
            "its value".
    """
    is_any = concept.value_type is _ANY_JSON
    is_many = concept.fact_type is FactType.MULTIPLE and isinstance(raw, list)
    try:
        if not (is_many and is_any):
            key, value = _one_value(raw, concept)
            return {key: value}
    except ValueError as exc:
        if not isinstance(raw, list) or not (is_many or len(raw) == 1):
            raise ValueError(str(exc)) from None
    several = raw if isinstance(raw, list) else [raw]
    if not several or len(several) > MAX_LIST:
        raise ValueError(f"is a list of {len(several)}: from 1 to {MAX_LIST} are taken")
    return dict(_one_value(each, concept) for each in several)


def _one_value(raw: JsonValue, concept: AnyConcept) -> tuple[Canonical, object]:
    """Return a value with its canonical form."""
    raw = raw.strip() if isinstance(raw, str) else raw
    is_text = concept.codec.is_plain_text
    is_free = is_text or concept.value_type is _ANY_JSON
    if is_free and (raw in ("", [], {}) or _says_nothing(raw)):
        raise ValueError("is empty")
    if is_free and _is_deeper(raw, MAX_DEPTH):
        raise ValueError(f"is nested deeper than {MAX_DEPTH} levels, and no type asks for it")
    if is_text and isinstance(raw, bool | int | float):
        raw = to_json(raw).decode()
    try:
        if len(to_json(raw)) > MAX_VALUE:
            message = f"is longer than {MAX_VALUE} bytes of JSON"
        else:
            value = _loaded(raw, concept)
            return canonical(concept.codec.dump(value, concept.keyword)), value
    except ValueError:
        message = "does not fit the concept's type"
    raise ValueError(message)


def _says_nothing(raw: JsonValue) -> bool:
    return isinstance(raw, str) and raw.casefold().rstrip(".") in _NOTHING


def _is_deeper(raw: JsonValue, levels: int) -> bool:
    parts = raw.values() if isinstance(raw, dict) else raw if isinstance(raw, list) else ()
    return levels < 0 or any(_is_deeper(part, levels - 1) for part in parts)


def _loaded(raw: JsonValue, concept: AnyConcept) -> object:
    """Return the value of a type that JSON stands for, also where it stands in a string."""
    try:
        return concept.codec.load(raw)
    except ValueError:
        if not isinstance(raw, str):
            raise
        return concept.codec.load(unwrapped(raw))
