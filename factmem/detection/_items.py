"""The items of a model's answer, in the field names that models use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import unescape

from pydantic import JsonValue

from factmem.detection.report import Refusal, RejectionReason
from factmem.llm._answer import unwrapped

STATED = "stated"
"""The word by which a model says that its item is stated as true."""
NEGATIVE = "negative"
"""The same with a "not" that the item keeps: "dislikes: olives" for "I don't like olives"."""
CONFIRMED = "confirmed"
"""The word by which it says that the writer agrees to what the assistant said before."""
CREDENTIAL = "credential"
"""The word by which it says that the value is a password, or another proof."""
SAID = (STATED, CONFIRMED, NEGATIVE)
WORKED_ON = "to work on"
UNSTATED = ("asked", "denied", "supposed", "quoted", WORKED_ON, "of another")
"""The words by which a model says that it is not; for the last the prompt has `who`."""

_NAMES: Mapping[str, Sequence[str]] = {
    "keyword": ("keyword", "key", "concept", "topic", "attribute", "predicate", "category", "name"),
    "value": ("value", "values", "fact", "memory", "content", "object", "text"),
    "quote": ("quote", "evidence", "citation", "source", "source_quote"),
    "message": ("message", "message_id", "message_number", "index"),
    "action": ("action", "event", "operation"),
    "said_as": ("said_as",),
    "who": ("who", "subject"),
}
"""The fields of an item, and the names that models give them; mem0's prompts are well known."""
_ACTIONS = {
    **dict.fromkeys(
        ("", "assert", "add", "insert", "create", "save", "new", "set", "none"), "assert"
    ),
    **dict.fromkeys(("replace", "update", "upsert", "change"), "replace"),
    **dict.fromkeys(("retract", "delete", "remove", "forget"), "retract"),
}
_OTHERS = "description fact_type type importance since until subject scope confidence id reason"
_REST = frozenset(_OTHERS.split())
_LONGEST_LIST = 10


@dataclass(frozen=True, slots=True)
class Item:
    """An item with factmem's own field names."""

    fields: Mapping[str, JsonValue]
    action: str
    quote: str
    message: int | None

    @property
    def is_quote_repaired(self) -> bool:
        """Whether the quote was a list, or had entities of HTML."""
        return self.fields.get("quote") != self.quote

    @property
    def is_retraction(self) -> bool:
        """Whether a value is no longer true."""
        return self.action == "retract"

    @property
    def is_replacement(self) -> bool:
        """Whether the value corrects or ends another one."""
        return self.action == "replace"

    @property
    def who(self) -> str:
        """Whom it is true of, as the model says; empty if it does not."""
        who = self.fields.get("who")
        return who[:200].casefold().strip() if isinstance(who, str) else ""

    @property
    def said_as(self) -> str:
        """What the model says that the message does with it; see `STATED` and `UNSTATED`."""
        said_as = self.fields.get("said_as")
        return said_as.strip().casefold() if isinstance(said_as, str) else ""


def as_item(raw: JsonValue) -> Item:
    """Return an item of an answer."""
    fields = named(raw)
    if fields is None:
        raise Refusal(RejectionReason.MALFORMED, "it is not an object")
    action = fields.get("action") or ""
    name = action.strip().casefold() if isinstance(action, str) else "?"
    if name not in _ACTIONS:
        detail = "its action is not 'assert', 'replace' or 'retract'"
        raise Refusal(RejectionReason.UNKNOWN_ACTION, detail)
    return Item(fields, _ACTIONS[name], _quote(fields.get("quote")), _index(fields.get("message")))


def named(raw: JsonValue) -> dict[str, JsonValue] | None:
    """Return the fields of an item under factmem's names; None if it is not an object."""
    raw = unwrapped(raw)
    if not isinstance(raw, dict):
        return None
    raw = {name.casefold(): each for name, each in raw.items()}
    found = {name: each for name, each in raw.items() if name in _REST}
    for field, names in _NAMES.items():
        given = next((raw[name] for name in names if raw.get(name) is not None), None)
        if given is not None:
            found[field] = given
    known = {*_REST, *(name for names in _NAMES.values() for name in names)}
    others = [name for name in raw if name not in known]
    is_cited = "quote" in found or "message" in found
    if is_cited and len(others) == 1 and "keyword" not in found and "value" not in found:
        found |= {"keyword": others[0], "value": raw[others[0]]}  # {"home-city": "Rome"}
    if isinstance(value := found.get("value"), dict) and value.keys() == {"value"}:
        found |= value
    return found


def is_usable(raw: JsonValue) -> bool:
    """Whether an item is an object with a keyword."""
    fields = named(raw)
    return fields is not None and "keyword" in fields


def listed(facts: JsonValue) -> JsonValue:
    """Return the items of an answer that gives them by keyword as a list."""
    if not isinstance(facts, dict):
        return facts
    if is_usable(facts) and not all(isinstance(each, dict) for each in facts.values()):
        return facts  # one item
    items: list[JsonValue] = []
    for keyword, given in facts.items():
        each = unwrapped(given)
        for one in each if isinstance(each, list) else [each]:
            if not isinstance(one, dict):
                return facts
            items.append({"keyword": keyword, **one})
    return items


def _quote(given: JsonValue) -> str:
    if isinstance(given, list) and 0 < len(given) <= _LONGEST_LIST:
        given = " ... ".join(each for each in given if isinstance(each, str))
    return unescape(given) if isinstance(given, str) else ""


def _index(raw: JsonValue) -> int | None:
    if isinstance(raw, list) and raw:
        raw = raw[0]
    if isinstance(raw, str):
        digits = raw.strip().casefold().removeprefix("message").strip(" #:[]")
        return int(digits) if digits.isdecimal() and len(digits) < 10 else None
    if isinstance(raw, float) and raw.is_integer():
        return int(raw)
    return raw if type(raw) is int else None
