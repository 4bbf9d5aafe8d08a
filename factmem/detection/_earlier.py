"""Statements that were learnt before: learning a chat again changes nothing.

A statement is identified by where it was said: its conversation, its message (the digest of text
and speaker, as positions change and few chats have times) and its quote. The id of a learnt fact
has the digest of the message:

    00000007 1 9f2c41d07a 5b0e94c1d2f37
    number     message    quote, keyword, value

So any process recognises a statement in the history of its place, also after its value was
forgotten or replaced, and by its id alone after it was purged.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from json import dumps
from typing import NamedTuple

from factmem._text.spelling import letters_of, stems, text_of
from factmem.ledger._items import digest_of
from factmem.ledger.entries import Entry, RetractedValue, StoredFact
from factmem.models._values import Canonical, JsonValue, canonical, normalized
from factmem.models.facts import FactSource, new_id
from factmem.models.places import Identity
from factmem.prompt._transcript import FoldedText, SaidMessage

_NUMBER, _MESSAGE = slice(0, 8), slice(9, 19)
_SAME_TOPIC, _OTHER_TOPIC = 0.5, 0.66
"""The least share of common words by which two values of one message are one statement in other
words: of one quote or of like keywords, and of others. Of 91 statements of a second reading one is
saved again, and none of 130 others of the same messages is taken for one (tests/detection)."""
_SHORTEST = 3
"""Shorter words are articles and prepositions in most languages."""
_PART = re.compile(r"\d+|[^\W\d_]+")


def message_digests(messages: Sequence[SaidMessage], conversation: str | None) -> dict[int, str]:
    """Return the digest of each message by its number; equal messages are counted."""
    seen = Counter[str]()
    digests: dict[int, str] = {}
    for each in messages:
        said = dumps([conversation, each.role, each.name, FoldedText(each.text).bare])
        seen[said] += 1
        digests[each.number] = sha256(f"{said}{seen[said]}".encode()).hexdigest()[:10]
    return digests


def fact_id(digest: str, source: FactSource, keyword: str, value: str, *, is_past: bool) -> str:
    """Return the id of a learnt fact: equal whenever its statement is learnt again.

    Ids are in the order of the statements, as that decides between facts of one time. Without the
    name of a conversation they are random: an equal message elsewhere is another one.
    """
    rank = f"{source.message or 0:08x}"[-8:] + ("0" if is_past else "1")
    rest = _digest(source.quote, keyword, value) if source.conversation else new_id()[::-1]
    return f"{rank}{digest}{rest}"[:32]


def _digest(quote: str | None, keyword: str, value: str) -> str:
    return sha256(dumps([FoldedText(quote or "").bare, keyword, value]).encode()).hexdigest()[:13]


def is_same_message(fact: str, digest: str) -> bool:
    """Whether a fact, by its id, was learnt from a message with this digest."""
    return fact[_MESSAGE] == digest


class Said(NamedTuple):
    """What an item or a stored fact states."""

    keyword: str
    value: str
    quote: str

    def is_reworded(self, other: "Said") -> bool:
        """Whether two statements of one message are one in other words.

        Their quotes overlap by half, and the shorter value has its words in the other one, or in
        the other one's keyword: "Lina, seven" of "daughter", and "has a daughter Lina".
        """
        mine, theirs = _words(self.value), _words(other.value)
        if not mine or not theirs:
            shares = [float(FoldedText(self.value).bare == FoldedText(other.value).bare)]
        else:
            topics = _words(self.keyword), _words(other.keyword)
            ways = (mine, theirs | topics[1]), (theirs, mine | topics[0])
            few = min(len(mine), len(theirs))
            shares = [len(one & all_) / few for one, all_ in ways if len(one) == few]
        if max(shares) < _SAME_TOPIC:
            return False  # before the quotes, which are long
        numbers = [{each for each in words if each.isdecimal()} for words in (mine, theirs)]
        if all(numbers) and not set.intersection(*numbers):
            return False  # 5 km on Mondays, 10 km on Sundays
        short, long = sorted((FoldedText(self.quote).bare, FoldedText(other.quote).bare), key=len)
        half = (len(short) + 1) // 2
        starts = range(0, len(short) - half + 1, half // 8 + 1)
        is_like = short == long or not _words(self.keyword).isdisjoint(_words(other.keyword))
        is_one = max(shares) >= (_SAME_TOPIC if is_like else _OTHER_TOPIC)
        return is_one and bool(short) and any(short[at : at + half] in long for at in starts)


def _words(text: str) -> set[str]:
    """Return the words of a value without endings, its numbers, and characters without spaces."""
    found: set[str] = set()
    for word in _PART.findall(normalized("NFKC", text.casefold())):
        parts = [part for part, _, _ in letters_of(word)]
        if word.isdecimal():
            found.add(word.lstrip("0"))
        elif len(parts) > 1:
            found.update(parts)
        elif len(word) >= _SHORTEST or not word.isascii():
            found |= stems(word)
    return found


class EarlierStatements:
    """The statements of some messages, those from `first` on, in the histories of places."""

    def __init__(
        self, entries: Mapping[Identity, Iterable[Entry]], digests: Iterable[str], first: int
    ) -> None:
        wanted = set(digests)
        self._facts: dict[tuple[Identity, str], list[StoredFact]] = {}
        self._retracted: dict[Identity, list[RetractedValue]] = {}
        for identity, place_entries in entries.items():
            for entry in place_entries:
                for fact in entry.get("facts", ()):
                    digest = fact["id"][_MESSAGE]
                    if digest in wanted and fact["id"][_NUMBER] >= f"{first:08x}":
                        self._facts.setdefault((identity, digest), []).append(fact)
                self._retracted.setdefault(identity, []).extend(entry.get("retract", ()))

    def fact(
        self,
        identity: Identity,
        digest: str,
        keywords: Sequence[str],
        value: str,
        quote: str | None,
    ) -> StoredFact | None:
        """Return the learnt fact of a statement, whatever has become of it; None if it is new."""
        found = list(reversed(self._facts.get((identity, digest), ())))
        own = [each for each in found if each["keyword"] in keywords]
        for fact in own:
            values = [text_of(canonical(each)) for each in _values(fact)]
            is_same_quote = FoldedText(_quote(fact)).bare == FoldedText(quote or "").bare
            if not values or is_same_quote or value in values:
                return fact  # without values it was purged: what it said is not known any more
        for fact in found:
            if fact["id"][19:] == _digest(quote, fact["keyword"], value):
                return fact  # also one that was purged, whatever its keyword is now
            for each in _values(fact):
                other = Said(fact["keyword"], text_of(canonical(each)), _quote(fact))
                if Said(keywords[0], value, quote or "").is_reworded(other):
                    return fact
        return None

    def has_retraction(
        self, identity: Identity, keywords: Sequence[str], key: Canonical, source: FactSource
    ) -> bool:
        """Whether a message was learnt before as the end of a value."""
        digest = digest_of(key)
        return any(
            each["keyword"] in keywords
            and each.get("digest", digest) == digest
            and (said := each.get("source")) is not None
            and (said.get("conversation"), said.get("message"))
            == (source.conversation, source.message)
            for each in self._retracted.get(identity, ())
        )


def _quote(fact: StoredFact) -> str:
    source = fact.get("source")
    return "" if source is None else source.get("quote", "")


def _values(fact: StoredFact) -> list[JsonValue]:
    return list(fact["values"]) if "values" in fact else [fact["value"]] if "value" in fact else []
