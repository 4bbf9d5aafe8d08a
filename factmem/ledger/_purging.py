"""Purging: removal of values from a ledger and from all its history. Pure.

`purged` removes the values themselves, as lives of a trace. `QuotedValues` finds their words in
other texts: quotes, messages, reasons. It is a tree of the words of all purged values, so that
each text is searched once, whatever the number of values.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from pydantic_core import from_json

from factmem._concurrency import paused_collection
from factmem.ledger._items import Condition, values_of
from factmem.ledger._removal import Rest
from factmem.ledger._trace import Life, RelatedEntries, Trace
from factmem.ledger.entries import Entry, SourceEntry, StoredFact
from factmem.models._values import Canonical, JsonValue, canonical, case_folded, normalized

REMOVED = "[…]"
"""Replaces a purged value in a quote."""

_NO_SPACES = (
    r"\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff"
    r"\u3400-\u9fff\uac00-\ud7af\uff66-\uff9f\U00020000-\U0003ffff"
)
"""Scripts from Thai to Korean that do not separate words, or add endings to them. They are
compared by character, all others by word."""
_WORD = rf"[{_NO_SPACES}]|(?:(?![{_NO_SPACES}])[^\W_])+"
"""Compiled at the first purge, because that takes 3 ms, a tenth of the first save."""

_SHORTEST_PART = 3
"""The fewest characters of a value to search inside words: shorter ones are in too many words."""

_SHORTEST_CODE = 3
"""The fewest characters of a word with a digit that is also searched alone: a model may write
"PIN 1234" for "my PIN is 1234"."""

_LONGEST = 64
"""The most words compared at once; longer values are searched in parts of this size. Otherwise a
quote that repeats one word would take quadratic time."""


_Node: TypeAlias = dict[str, "_Node"]
"""A node of the tree of all values' words: the nodes of the words that follow."""
_END = ""
"""Follows the last word of a value."""


class QuotedValues:
    """Finds values in quotes, regardless of case and punctuation.

    Whole words are removed. A part of a longer word (an inflected form, a compound) stays, as the
    rest of the word may matter, and is reported: see `are_part_of`.
    compound) stays, as the rest of the word may matter, and is reported: see `are_part_of`.

    Args:
        values: The purged values; the parts of lists and objects count separately.
        quotes: Quotes known to prove one of them. They are removed whole if no value is found.
    """

    def __init__(self, values: Iterable[JsonValue], quotes: Iterable[str] = ()) -> None:
        self._root: _Node = {}
        self._quotes = frozenset(quotes)
        self._parts: set[str] = set()
        for value in values:
            for text in _texts(value):
                self._add(words := [word for word, _, _ in _words(text)])
                if len(folded := _joined(words)) >= _SHORTEST_PART or not folded.isascii():
                    self._parts.add(folded)
        self._parts.discard("")

    def _add(self, words: list[str]) -> None:
        codes = [[word] for word in words if len(word) >= _SHORTEST_CODE and _has_digit(word)]
        parts = [words[at : at + _LONGEST] for at in range(0, len(words), _LONGEST)]
        for phrase in (*parts, *codes):
            node = self._root
            for word in (*phrase, _END):
                node = node.setdefault(word, {})

    def are_in(self, quote: str) -> bool:
        return quote in self._quotes or next(self._found(quote), None) is not None

    def are_part_of(self, text: str) -> bool:
        """Return whether a text contains one of the values, even inside longer words."""
        if not self._parts:
            return False
        folded = _joined(word for word, _, _ in _words(text))
        return any(part in folded for part in self._parts)

    def removed_from(self, quote: str) -> str:
        """Return a quote without the values; empty if it stated one of them in other words."""
        if not self.are_in(quote):
            return quote
        quote = normalized("NFC", quote)
        parts, end = list[str](), 0
        for start, stop in self._found(quote):
            parts += [quote[end:start], REMOVED]
            end = stop
        return "".join([*parts, quote[end:]]) if parts else ""

    def _found(self, quote: str) -> Iterator[tuple[int, int]]:
        """Yield the spans of the values, from left to right, the longest at each word."""
        words = list(_words(quote))
        at = 0
        while at < len(words):
            length = self._longest(words, at)
            if length:
                yield words[at][1], words[at + length - 1][2]
            at += length or 1

    def _longest(self, words: list[tuple[str, int, int]], at: int) -> int:
        node, longest = self._root, 0
        for behind in range(at, len(words)):
            following = node.get(words[behind][0])
            if following is None:
                break
            node = following
            if _END in node:
                longest = behind + 1 - at
        return longest


def quoting_facts(entries: Iterable[Entry | None], values: QuotedValues) -> Iterator[StoredFact]:
    """Yield the facts whose quotes, or the messages before them, contain a value."""
    for entry in entries:
        for fact in () if entry is None else entry.get("facts", ()):
            source = fact.get("source", {})
            texts = source.get("quote", ""), source.get("before", "")
            if _fact_without(fact, values) is not fact or any(map(values.are_part_of, texts)):
                yield fact


def mentioning_facts(entries: Iterable[Entry | None], values: QuotedValues) -> Iterator[str]:
    """Yield the ids of the facts with a value in another text that no purge changes.

    Keywords, descriptions and metadata may be keys of the application, other values facts.
    """
    known: dict[str, bool] = {}  # keywords and descriptions are the same in many facts

    def has_value(text: str) -> bool:
        if text not in known:
            known[text] = values.are_in(text) or values.are_part_of(text)
        return known[text]

    for entry in filter(None, entries):
        facts = entry.get("facts", ())
        if has_value(entry.get("reason", "")) or has_value(entry.get("actor", "")):
            yield from (fact["id"] for fact in facts)
            yield from (name[1] for name in entry.get("forget", ()))
            yield from (each["id"] for each in entry.get("retract", ()) if "id" in each)
        for fact in facts:
            named = fact["keyword"], fact["description"], fact.get("reason", "")
            texts = [*named, fact.get("actor", ""), *_texts(fact.get("metadata"), keys=True)]
            for _, value in values_of(fact):
                texts += _texts(value, keys=True)
            if any(map(has_value, texts)):
                yield fact["id"]


def without_values(entry: Entry, values: QuotedValues) -> Entry:
    """Return an entry without values in quotes and reasons; the same one if none has any."""
    entry = unreasoned(entry, values)
    facts = [_fact_without(fact, values) for fact in entry.get("facts", ())]
    if all(new is old for new, old in zip(facts, entry.get("facts", ()), strict=True)):
        return entry
    return {**entry, "facts": facts}


def unreasoned(entry: Entry, values: QuotedValues) -> Entry:
    """Return an entry without values in reasons; the same one if none has any."""
    reason = entry.get("reason", "")
    if values.are_in(reason):
        entry = {**entry, "reason": values.removed_from(reason)}
    facts = entry.get("facts", ())
    if any(values.are_in(fact.get("reason", "")) for fact in facts):
        rest = [fact.copy() for fact in facts]
        for fact in rest:
            if "reason" in fact:
                fact["reason"] = values.removed_from(fact["reason"])
        entry = {**entry, "facts": rest}
    return entry


def message_with(entry: Entry, values: QuotedValues) -> str | None:
    """Return the id of a message that still contains a value as a part of a word, or None."""
    turn = entry.get("turn", {})
    texts = _texts(turn.get("message"), keys=True)
    return str(turn.get("id")) if any(map(values.are_part_of, texts)) else None


def turn_without(entry: Entry, values: QuotedValues) -> Entry:
    """Return a message of a conversation without the values; the same entry if it has none."""
    turn = entry.get("turn", {})
    message = turn.get("message")
    if not isinstance(message, dict):
        return entry
    rest = {
        name: part if name in _KEPT else _part_without(part, values)
        for name, part in message.items()
    }
    return entry if rest == message else {**entry, "turn": {**turn, "message": rest}}


_KEPT = frozenset({"role", "tool_call_id"})
"""The fields of a message that hosts generate and read."""


def _part_without(part: JsonValue, values: QuotedValues) -> JsonValue:
    if isinstance(part, str):
        return values.removed_from(part) or REMOVED if part else part
    if isinstance(part, list):
        return [_part_without(each, values) for each in part]
    if isinstance(part, dict):
        return {name: _part_without(each, values) for name, each in part.items()}
    return REMOVED if type(part) in {int, float} and values.are_in(str(part)) else part


def _fact_without(fact: StoredFact, values: QuotedValues) -> StoredFact:
    """Return a fact whose quote, and the message before it, do not contain the values."""
    source = fact.get("source")
    if source is None:
        return fact
    quote, before = source.get("quote", ""), source.get("before", "")
    if not values.are_in(quote) and not values.are_in(before):
        return fact
    rest = source.copy()
    rest.pop("quote", None)
    rest.pop("before", None)
    if quote := values.removed_from(quote):
        rest["quote"] = quote
    if before := values.removed_from(before):
        rest["before"] = before
    return {**fact, "source": rest}


def _words(text: str) -> Iterator[tuple[str, int, int]]:
    for match in re.finditer(_WORD, normalized("NFC", text)):
        yield case_folded(match.group()), match.start(), match.end()


def _joined(words: Iterable[str]) -> str:
    """Join words, with spaces only between those of scripts that have spaces."""
    return re.sub(f"(?<=[{_NO_SPACES}]) (?=[{_NO_SPACES}])", "", " ".join(words))


def _texts(value: JsonValue, *, keys: bool = False) -> Iterator[str]:
    rest = [value]
    while rest:
        part = rest.pop()
        if isinstance(part, dict):
            rest += part.values()
            if keys:
                yield from part
        elif isinstance(part, list):
            rest += part
        elif isinstance(part, str):
            yield part
        elif part is not None and not isinstance(part, bool):
            yield str(part)


def _has_digit(word: str) -> bool:
    return any(each.isdigit() for each in word)


class Purged(NamedTuple):
    entries: list[Entry | None]
    """For each entry the same object if nothing of it was removed, a changed entry, or None."""
    quoting: tuple[str, ...]
    """The ids of remaining facts whose quotes contain a purged value."""
    mentioning: tuple[str, ...]
    """The ids of remaining facts with a purged value in another text; see `mentioning_facts`."""
    values: QuotedValues
    """The purged values, to be removed from the messages of conversations too."""


def purged(
    entries: Sequence[Entry], condition: Condition, now: str, *, quotes: bool = False
) -> Purged:
    """Return a ledger without the values that meet a condition and are not current at `now`.

    It removes every such value from the history, and the same value elsewhere in the history of the
    same keyword. It also removes the quotes of their sources, and the `before` of all later sources
    in the same conversations, which may contain the words of a purged fact; with `quotes` also the
    values in all other quotes. Other current values are unchanged: forget them first. Reads with
    `as_of` change only by these values.
    """
    with paused_collection(len(entries)):
        related = RelatedEntries(entries)
        now = max(now, related.recorded_at)
        doomed = _Doomed.of(related, condition, now)
        if doomed.sources and condition.names is not None:
            # Later sources in these conversations may quote the purged words.
            names = condition.names | related.sharing(doomed.sources)
            doomed = _Doomed.of(related, condition, now, names)
        # Remaining saves need the digests of their forgettings, or they would be current again.
        known = {(life.keyword, life.key) for life in doomed.trace.lives}
        keys = doomed.keys | (_retracted_alone(condition) - known)
        rest = doomed.rest(related, keys, now)
        proofs = [quote for source in doomed.sources if (quote := source.get("quote"))]
        values = QuotedValues(map(_value_of, {key for _, key in keys}), proofs)
        clean = without_values if quotes else unreasoned
        rest = [each and clean(each, values) for each in rest]
        quoting = tuple({fact["id"]: None for fact in quoting_facts(rest, values)})
        mentioning = tuple(dict.fromkeys(mentioning_facts(rest, values)))
        return Purged(rest, quoting, mentioning, values)


def purged_again(
    entries: Sequence[Entry], doomed: Mapping[tuple[str, Canonical], str]
) -> tuple[list[Entry], list[JsonValue]]:
    """Remove values that another copy has purged; return the entries and these values.

    `doomed` has the time of each purge, by keyword and value: later saves of a value stay.
    """
    found: list[JsonValue] = []
    doomed_in: set[int] = set()
    for number, entry in enumerate(entries):
        for fact in entry.get("facts", ()):
            for _, value in values_of(fact):
                if entry["at"] <= doomed.get((fact["keyword"], canonical(value)), ""):
                    found.append(value)
                    doomed_in.add(number)
    if not found:
        return list(entries), []
    rest = Rest(Trace(entries), set(), nameless=(), purged_at=max(doomed.values()), doomed=doomed)
    after = rest.of(entries)
    # All other entries stay unchanged: each copy does this alone, and they must stay equal.
    return [after[n] or old if n in doomed_in else old for n, old in enumerate(entries)], found


class _Doomed(NamedTuple):
    """The lives that a purge removes, and the entries that it has to check."""

    numbers: Sequence[int]
    """The numbers of these entries."""
    trace: Trace
    gone: set[Life]
    current: list[Life]
    keys: set[tuple[str, Canonical]]
    """The purged values, each with its keyword."""
    sources: list[SourceEntry]
    """The sources that stated them."""

    @classmethod
    def of(
        cls,
        related: RelatedEntries,
        condition: Condition,
        now: str,
        names: frozenset[str] | None = None,
    ) -> "_Doomed":
        names = condition.names if names is None else names
        numbers = range(len(related.recorded)) if names is None else related.to(names).numbers
        trace = Trace(related.at(numbers))
        trace.advance(now)
        dead = [life for life in trace.lives if life.is_dead(now)]
        keys = {
            (life.keyword, life.key)
            for life in dead
            if condition.is_met_by(life.keyword, life.key, life.item)
        }
        gone = {life for life in dead if (life.keyword, life.key) in keys}
        sources = [
            saved.fact["source"]
            for saves in trace.saved
            for saved in saves
            if "source" in saved.fact and any(value.life in gone for value in saved.values)
        ]
        current = [life for life in trace.lives if not life.is_dead(now)]
        return cls(numbers, trace, gone, current, keys, sources)

    def rest(
        self, related: RelatedEntries, keys: Iterable[tuple[str, Canonical]], now: str
    ) -> list[Entry | None]:
        rest = Rest(
            self.trace,
            self.gone,
            sources=self.sources,
            current=self.current,
            nameless=keys,
            purged_at=now,
        )
        after: list[Entry | None] = list(related.at(range(len(related.recorded))))
        entries = related.at(self.numbers)
        for number, entry in zip(self.numbers, rest.of(entries), strict=True):
            after[number] = entry
        return after


def _value_of(key: Canonical) -> JsonValue:
    value: JsonValue = key if isinstance(key, str) else from_json(key)
    return value


def _retracted_alone(condition: Condition) -> set[tuple[str, Canonical]]:
    """Return the value of a condition, which may have been retracted and never saved."""
    if condition.key is None:
        return set()
    named = condition.keywords if condition.keyword is None else [condition.keyword]
    return {(keyword, condition.key) for keyword in named or ()}
