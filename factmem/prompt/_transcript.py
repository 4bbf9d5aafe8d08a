"""Transcripts: the messages that a model sees, with their times, speakers and quotes.

Speakers: whose words a message has, by its name and by names that are written into its text.

Quotes: strings folded for comparison, the search for a quote in them, and negations.
"""

import itertools
import re
import unicodedata
from array import array
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain, repeat
from typing import NamedTuple

from factmem._arguments import expect, expect_all, expect_member
from factmem.llm.base import (
    INSTRUCTIONS,
    OWN_MESSAGES,
    checked_messages,
    content_text,
    estimate_tokens,
    message_time,
)
from factmem.models._values import case_folded, normalized
from factmem.models.facts import SourceKind
from factmem.models.when import system_clock, utc
from factmem.prompt.memory_message import value_text

_PLAIN_MARKS = str.maketrans(
    "`\u00b4\u2018\u2019\u201a\u201b\u2032\u201c\u201d\u201e\u201f"
    "\u2010\u2011\u2012\u2013\u2014\u2015\u2212",
    "'''''''\"\"\"\"-------",
)
_KEPT_MARKS = frozenset("#%&@")
"""Punctuation that changes what a word means: C# is not C."""


def folded(text: str) -> str:
    """Fold a string for comparing values and questions.

    It folds compatibility forms (NFKC), case and the shapes of quotation marks and dashes, and
    removes white space and invisible characters. Models change these when they copy, and Korean and
    Chinese text has no fixed spaces and line breaks.
    """
    plain = case_folded(text.translate(_PLAIN_MARKS)).translate(_PLAIN_MARKS)
    kept = (c for c in normalized("NFKC", plain) if not c.isspace())
    return "".join(c for c in kept if unicodedata.category(c) != "Cf")


class FoldedText:
    """A string folded for searching quotes: letters, digits and symbols, without case.

    White space, punctuation, emoji and invisible characters are ignored. Every match maps to a
    position in `plain`.
    """

    __slots__ = ("bare", "offsets", "plain")

    def __init__(self, text: str) -> None:
        self.plain: str = normalized("NFKC", text.translate(_PLAIN_MARKS)).translate(_PLAIN_MARKS)
        """The string in NFKC with plain quotation marks and dashes; spaces and case are kept."""
        pieces: list[str] = []
        self.offsets: array[int] = array("L")
        """The position in `plain` of each character of `bare`."""
        for position, char in enumerate(self.plain):
            if piece := _bare(char):
                pieces.append(piece)
                self.offsets.extend(repeat(position, len(piece)))
        self.bare: str = "".join(pieces)
        """The folded string that is searched."""

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in `plain` of the characters `start` to `end` of `bare`."""
        return self.offsets[start], self.offsets[end - 1] + 1


@lru_cache(maxsize=8192)
def _bare(char: str) -> str:
    """Fold one character; empty if it is ignored in comparisons."""
    category = unicodedata.category(char)
    is_word = category[0] in "LN" or category in {"Mc", "Me", "Mn", "Sm", "Sc"}
    is_selector = "\ufe00" <= char <= "\ufe0f"
    if (not is_word and char not in _KEPT_MARKS) or is_selector:
        return ""
    return normalized("NFKC", char.casefold())


_LONGEST_GAP = 300

_WORDS = (
    # English
    "no|not(?! only| just)|never|none|neither|nor|nobody|nothing|nowhere|hardly|without|cannot"
    "|cant|dont|doesnt|didnt|isnt|wasnt|wont|n't"
    # German
    "|nicht(?! nur)|nie|niemals|kein|keine|keinen|keinem|keiner|keines|ohne|weder|kaum"
    # French, Spanish, Italian, Portuguese
    "|ne|pas|jamais|sans|nunca|jam[aá]s|senza|n[aã]o"
    # Dutch, Swedish, Danish, Norwegian
    "|niet|geen|nooit|inte|aldrig|ikke|aldri"
    # Russian, Ukrainian, Polish, Czech, Turkish
    "|не|нет|никогда|без|ні|nie|nigdy|ne|není|nejsem|değil|hay\u0131r"
    # Finnish, Hungarian, Greek, Vietnamese, Indonesian
    "|ei|nem|δεν|όχι|không|tidak|bukan"
    # Arabic, Hebrew, Hindi
    "|لا|لست|ليس|לא|नहीं|(?<![\u0900-\u097f])न(?![\u0900-\u097f])"
    # The word that denies a question
    "|nein|nö|non|nope|nah|nee|nei|nej|아뇨"
)
_NEGATION = re.compile(
    rf"(?<![^\W_])(?:{_WORDS})(?![^\W_])"
    r"|\w(?:n't|n\u2019t)(?!\w)|(?<!\w)n['\u2019](?=\w)"
    # Korean: before the verb, and the endings of "not", "cannot", "without", "is not"
    r"|(?<!\w)(?<!없으면 )(?:안|못)(?=\s)|않|못하|못했|없(?!으면 [안못])|아니(?!면|라)|말고"
    # Japanese and Chinese
    r"|ない|ません|なかった|ずに|不(?!过|仅|但|同)|没|沒|别|非(?!常)|未(?!来|來)|無い|いいえ"
    # Thai
    "|ไม่(?!ใช่แค่)|มิได้",
    re.IGNORECASE,
)


def has_negation(text: str) -> bool:
    """Return whether a string contains a negation in English, German or Korean.

    The most common words of French, Spanish, Italian, Portuguese, Dutch, the Nordic languages,
    Russian, Polish, Turkish, Japanese and Chinese are recognised as well.
    """
    return _NEGATION.search(text) is not None


def find_quote(text: FoldedText, parts: Sequence[str]) -> tuple[int, int] | None:
    """Return the span of a quote's parts in order; None if not found or a gap has a negation."""
    start = text.bare.find(parts[0])
    if start < 0:
        return None
    end = start + len(parts[0])
    for part in parts[1:]:
        after = text.bare.find(part, end, end + _LONGEST_GAP + len(part))
        if after < 0:
            return None
        if after > end and has_negation(
            text.plain[text.offsets[end - 1] + 1 : text.offsets[after]]
        ):
            return None
        end = after + len(part)
    return text.span(start, end)


_CONTEXT = 20
"""The number of messages before `since` that a model sees."""

_KINDS = {
    "user": SourceKind.USER,
    "assistant": SourceKind.ASSISTANT,
    "tool": SourceKind.TOOL,
    "function": SourceKind.TOOL,
}
_TEXT_PARTS = frozenset({None, "text", "input_text", "output_text"})
"""The types of content parts that the writer of the message wrote. Others, such as `tool_result`,
`document` and `file`, contain the words of others."""

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_GAP = re.compile(r"\.{3,}|\u2026")
_MOST_GAPS = 4
_LONGEST_CONTEXT = 600
"""The characters of a context message, if it is one of the last four. Context cannot be cited: the
middle of a pasted page is not worth its tokens."""
_LONGEST_EARLIER = 120
"""The characters of an earlier context message: enough to see its topic."""
_LONGEST_BEFORE = 4_000
"""The characters of a message that are searched for secrets before its end is stored."""
_OVERLAP = 4
"""The messages of a piece that the next piece repeats as context, and the messages of context that
are shortened to `_LONGEST_CONTEXT` and not further."""


@dataclass(frozen=True, slots=True)
class SaidMessage:
    """One message of a transcript."""

    number: int
    """Its position in the history, from 0, without factmem's own messages; or its own number."""
    role: str
    text: str
    name: str | None
    """The name of its writer; None if the message has no name."""
    said_at: datetime
    """When it was written, in the time zone of the message or of the conversation."""
    kind: SourceKind | None
    """Its writer, if it may be cited; None for context."""


class Transcript:
    """The messages of a history that a model sees, and those that it may cite.

    Instructions, messages of factmem and results of untrusted tools are not shown. Messages that
    must not be cited are shown without a number. Messages are numbered from 0. Those of factmem are
    not counted: a message has the same number whether or not facts were loaded into the chat.

    Args:
        messages: The history. It is copied.
        trust: The kinds of writers besides the user whose messages may be cited.
        since: The index in `messages` of the first one that may be cited.
        written_by: The writer of the messages that may be cited, if it differs from their role,
            such as a document.
        said_at: The time of messages without a time of their own, in the time zone of the
            conversation; by default the time of the system clock.
        numbers: The number of each message in its stored conversation; by default its position.
        speaker: The `name` of the user whose messages may be cited, or the entity of each name.
            Messages of other users are context. Messages without a name are the speaker's if no
            user message has a name.

    Raises:
        TypeError: A message is not a dict, or an argument has the wrong type.
        ValueError: `trust` contains a kind that no message has, or `said_at` is naive.
    """

    def __init__(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        trust: Iterable[SourceKind] = (),
        since: int = 0,
        written_by: SourceKind | None = None,
        said_at: datetime | None = None,
        numbers: Sequence[int] | None = None,
        speaker: str | Mapping[str, str] | None = None,
    ) -> None:
        expect(since, int, "since", "since=0")
        checked_messages(messages)
        trusted = {SourceKind.USER} | checked_trust(trust)
        moment = system_clock() if said_at is None else said_at
        utc(moment, "said_at")
        self._numbers: list[int] = []
        self._earlier: set[int] = set()
        self._folded: dict[int, FoldedText] = {}
        shown: list[SaidMessage] = []
        odd: dict[str, None] = {}
        for index, message in enumerate(messages):
            text = _own_words(message)
            if message.get("name") in OWN_MESSAGES:
                continue
            number = len(self._numbers) if numbers is None else numbers[index]
            self._numbers.append(number)
            if index < since:
                self._earlier.add(number)
            kind, role = _kind(message), message.get("role")
            if isinstance(role, str) and role not in _KINDS and role not in INSTRUCTIONS:
                odd[role[:40]] = None
            is_shown = kind in trusted or kind is SourceKind.ASSISTANT
            if kind is None or not is_shown or not text.strip():
                continue
            writer = written_by or _writer(message) or kind
            cited_as = writer if kind in trusted and index >= since else None
            when = message_time(message, moment.tzinfo or UTC)
            name = message.get("name")
            shown.append(
                SaidMessage(
                    number,
                    kind.value,
                    text,
                    name if isinstance(name, str) and name.strip() else None,
                    moment if when is None else when,
                    cited_as,
                )
            )
        first = len(self._earlier) - _CONTEXT
        if first > 0:
            shown = [each for each in shown if each.number >= self._numbers[first]]
        self.unknown_roles: tuple[str, ...] = tuple(odd)
        """The roles that no message should have; such messages are not shown."""
        self._set_messages(shown)
        self._speaker = speaker
        self.own_names: set[str] = set()
        """How the user is called in the text of messages, case-folded."""
        self._labels: Mapping[int, Sequence[Label]] | None = None
        self.others: tuple[str, ...] = ()
        """The names of users whose messages must not be cited."""
        if isinstance(speaker, str):
            self._limit_to(
                {name for name in _user_names(shown) if name and self._is_own(name, set())}
            )

    def _set_messages(self, shown: Sequence[SaidMessage]) -> None:
        self.messages: Sequence[SaidMessage] = shown
        """The messages that a model sees, oldest first."""
        self._citable = {each.number: each for each in shown if each.kind is not None}
        self._positions = {each.number: position for position, each in enumerate(shown)}

    def of_entities(
        self, entities: Iterable[str | None], *, subjects: Iterable[str] = ()
    ) -> "Transcript":
        """Return a transcript in which only the words of these entities may be cited.

        A user is an entity by the `name` of the messages, or by `speaker`. If no name is one of
        these entities, nobody's messages may be cited. A single name may be another form of the
        entity: many hosts name the user of a chat of two (see `_can_be`).

        Args:
            entities: The users whom facts are saved for.
            subjects: Further names of the user in the text of messages, such as "user".
        """
        wanted = {_name_key(each) for each in entities if each is not None}
        names = {name for name in _user_names(self.messages) if name is not None}
        own: set[str | None] = {name for name in names if self._is_own(name, wanted)}
        has_unnamed = None in _user_names(self.messages)
        is_one = self._speaker is None and len(names) == 1 and not has_unnamed
        known = {_name_key(each) for each in (*subjects, "user")}
        if is_one and wanted and known.isdisjoint(map(_name_key, names)):
            is_one = any(_can_be(name, each) for name in names for each in wanted)
        limited = copy(self)
        limited.own_names = wanted | known | {_name_key(each) for each in filter(None, own)}
        limited._labels = None
        if not names or is_one:
            limited.own_names |= {_name_key(name) for name in names}
        elif not isinstance(self._speaker, str):
            limited._limit_to(own)
        return limited

    def _limit_to(self, own: set[str | None]) -> None:
        """Make messages of other users context, and those without a name if others have one."""
        names = {name for name in _user_names(self.messages) if name is not None}
        is_named = bool(own) or len(names) > 1 or isinstance(self._speaker, str)
        if not names:
            return
        self.others = tuple(sorted(names - own))
        self._set_messages(
            [
                replace(each, kind=None)
                if each.role == SourceKind.USER
                and (is_named if each.name is None else each.name not in own)
                else each
                for each in self.messages
            ]
        )

    def _is_own(self, name: str, wanted: set[str]) -> bool:
        if isinstance(self._speaker, str):
            return _name_key(name) == _name_key(self._speaker)
        if self._speaker is not None:
            for given, entity in self._speaker.items():
                if _name_key(given) == _name_key(name):
                    return _name_key(entity) in wanted
        return _name_key(name) in wanted

    def speaker_at(self, number: int, start: int) -> "Label | None":
        """Return the label of another person's words at a position in a message, by its text.

        "[Sam]: I live in Rome" and, in a chat of several such names, "Sam: I live in Rome" are
        Sam's. A label could also be a heading if it is not sure.
        """
        if self._labels is None:
            self._labels = self._found_labels()
        before = [each for each in self._labels.get(number, ()) if each.start <= start]
        is_own = not before or before[-1].key in self.own_names or before[-1].is_sure is False
        return None if is_own else before[-1]

    def _found_labels(self) -> dict[int, list["Label"]]:
        numbers = [each.number for each in self.messages if each.kind is SourceKind.USER]
        texts = {number: self.text(number).plain for number in numbers}
        found = {number: _labels_in(text) for number, text in texts.items()}
        _add_openings(texts, found)
        for number, text in texts.items():
            found[number] = found[number] or _turns_in(text)
        keys = {label.key for labels in found.values() for label in labels if label.is_name}
        holders = sum(any(label.is_name for label in labels) for labels in found.values())
        known = {_name_key(each.name) for each in self.messages if each.name} | self.own_names
        if len(keys) == 1 and not any(each.name for each in self.messages):
            self.own_names |= {key for key in keys if any(key.startswith(f"{o} ") for o in known)}
        for number, likes in _like_own(texts, known).items():
            places = {each.start for each in likes}
            rest = [each for each in found[number] if each.start not in places]
            found[number] = sorted([*rest, *likes], key=lambda each: each.start)
        if (len(keys) > 1 and holders > 1) or keys & known:
            found = {
                number: [label._replace(is_sure=label.is_name or label.is_sure) for label in labels]
                for number, labels in found.items()
            }
        return found

    def __len__(self) -> int:
        """The number of messages that may be cited."""
        return len(self._citable)

    @property
    def first(self) -> int:
        """The number of the first message that is read; 0 if no earlier one was left out."""
        return min(self._numbers) if len(self._earlier) >= _CONTEXT else 0

    @property
    def has_names(self) -> bool:
        """Whether a role has several writers; lines then show their names."""
        return bool(self._named())

    def _named(self) -> set[str]:
        names: dict[str, set[str | None]] = {}
        for each in self.messages:
            names.setdefault(each.role, set()).add(each.name)
        return {role for role, found in names.items() if len(found) > 1}

    def cited(self, number: int) -> SaidMessage | None:
        """Return a message that may be cited; None for any other."""
        return self._citable.get(number)

    def why_not(self, number: int) -> str | None:
        """Return the reason why a message must not be cited; None if it does not exist."""
        if number not in self._numbers:
            return None
        if number in self._earlier:
            return "it is an earlier one"
        position = self._positions.get(number)
        is_other = position is not None and self.messages[position].role == SourceKind.USER
        return "another user wrote it" if is_other else "its writer is not trusted"

    def text(self, number: int) -> FoldedText:
        """Return the folded text of a message that may be cited, for searching quotes."""
        if number not in self._folded:
            self._folded[number] = FoldedText(self._citable[number].text)
        return self._folded[number]

    def before(self, number: int) -> str:
        """Return the end of the message before a shown one, for `FactSource.before`.

        It is empty unless the assistant or the same user wrote that message: words of other users
        and of tools are not stored with a user's facts.
        """
        position = self._positions[number]
        if not position:
            return ""
        earlier, message = self.messages[position - 1], self.messages[position]
        is_same = (earlier.role, earlier.name) == (message.role, message.name)
        is_kept = earlier.role == SourceKind.ASSISTANT or (
            is_same and earlier.role == SourceKind.USER
        )
        return earlier.text[-_LONGEST_BEFORE:].strip() if is_kept else ""

    def with_before(self, number: int) -> list[SaidMessage]:
        """Return a shown message, after the one before it."""
        position = self._positions[number]
        return list(self.messages[max(position - 1, 0) : position + 1])

    def span(self, number: int, quote: str) -> tuple[int, int] | None:
        """Return the span of a quote in the plain text of a message that may be cited, or None.

        Case, white space, punctuation and emoji are ignored. "..." matches omitted words, unless
        they contain a negation. A leading name of the speaker is ignored. A quote of one character
        or two letters matches only the whole message; one without a letter or digit never matches.
        """
        text = self.text(number)
        for words in _without_speaker(quote, self._citable[number]):
            parts = [FoldedText(part).bare for part in _GAP.split(words, maxsplit=_MOST_GAPS)]
            parts = [part for part in parts if part]
            if not parts or not any(map(str.isalnum, "".join(parts))):
                continue
            is_number = len(parts[0]) > 1 and parts[0].isdecimal()
            is_short = len(parts[0]) < 2 or len(parts[0].encode()) < 3
            if len(parts) == 1 and is_short and not is_number:
                if parts[0] == text.bare:
                    return text.span(0, len(text.bare))
                continue
            if (found := find_quote(text, parts)) is not None:
                return found
        return None

    def part_span(self, number: int, quote: str) -> tuple[int, int] | None:
        """Return the span of the longer part of a quote over two messages that may be cited."""
        wanted = FoldedText(quote).bare
        numbers = list(self._citable)
        position = numbers.index(number)
        for first, second in itertools.pairwise(numbers[max(position - 1, 0) : position + 2]):
            one, other = self.text(first), self.text(second)
            start = f"{one.bare}{other.bare}".find(wanted)
            if wanted and 0 <= start < len(one.bare) < start + len(wanted):
                here, there = len(one.bare) - start, start + len(wanted) - len(one.bare)
                if number == first and here >= there:
                    return one.span(start, len(one.bare))
                if number == second and there >= here:
                    return other.span(0, there)
        return None

    def only_holder(self, quote: str) -> int | None:
        """Return the only citable message with a quote; None if there is none or several."""
        found = (number for number in self._citable if self.span(number, quote) is not None)
        first = next(found, None)
        return first if next(found, None) is None else None

    def lines(self, messages: Sequence[SaidMessage] | None = None) -> str:
        """Return messages as a model sees them: one line of JSON each.

        The messages of a day follow a line with that day, so that the model can compute dates.

        Args:
            messages: Some of `messages`; all by default. Those without a kind get no number.
        """
        shown = self.messages if messages is None else messages
        named = self._named()
        recent = [position for position, each in enumerate(shown) if each.kind is None][-_OVERLAP:]
        lines: list[str] = []
        day = ""
        for position, each in enumerate(shown):
            if (its_day := day_of(each.said_at)) != day:
                day = its_day
                lines.append(f'{{"day": "{day}"}}')
            number = f'"message": {each.number}, ' if each.kind is not None else ""
            is_named = each.role in named and each.name is not None
            name = f'"name": {value_text(each.name)}, ' if is_named else ""
            most = _LONGEST_CONTEXT if position in recent else _LONGEST_EARLIER
            text = each.text if each.kind is not None else _shortened(each.text, most)
            lines.append(f'{{{number}"role": "{each.role}", {name}"text": {value_text(text)}}}')
        return "\n".join(lines)

    def pieces(self, max_tokens: int) -> list[list[SaidMessage]]:
        """Split the messages into pieces of about `max_tokens`, oldest first.

        Each message can be cited in exactly one piece. A piece begins with the last messages of the
        previous one as context. A message that is longer than a piece is a piece of its own.
        """
        pieces: list[list[SaidMessage]] = []
        piece: list[SaidMessage] = []
        size = 0
        for each in self.messages:
            cost = estimate_tokens(each.text) + 12
            if piece and size + cost > max_tokens and any(m.kind for m in piece):
                pieces.append(piece)
                piece = [replace(before, kind=None) for before in piece[-_OVERLAP:]]
                size = sum(estimate_tokens(_shortened(m.text)) + 8 for m in piece)
            piece.append(each)
            size += cost
        if any(each.kind for each in piece):
            pieces.append(piece)
        return pieces


def checked_trust(trust: Iterable[SourceKind]) -> set[SourceKind]:
    believed = expect_all(trust, object, "trust", "trust=[SourceKind.ASSISTANT]")
    trusted = {expect_member(each, SourceKind, "trust") for each in believed}
    if beyond := trusted - set(_KINDS.values()):
        kinds = ", ".join(sorted(beyond))
        raise ValueError(f"trust must not contain {kinds}: trust=[SourceKind.ASSISTANT]")
    return trusted


def _own_words(message: Mapping[str, object]) -> str:
    """Return the text that the writer of a message wrote; raise `TypeError` if it is no message."""
    content = content_text(message)  # checks the message and replaces lone surrogates
    parts = message.get("content")
    if not isinstance(parts, list | tuple):
        return content
    own = [part for part in parts if isinstance(part, Mapping) and part.get("type") in _TEXT_PARTS]
    return content_text({"content": own})


def _user_names(messages: Iterable[SaidMessage]) -> set[str | None]:
    return {each.name for each in messages if each.role == SourceKind.USER}


def _can_be(name: str, entity: str) -> bool:
    """Whether the only name of a chat may be an entity's: both have a word ("Alice Lee", "alice").

    An id with digits says nothing about a name without any.
    """
    key = _name_key(name)
    digits, given = set(re.findall(r"\d+", entity)), set(re.findall(r"\d+", key))
    if digits:
        return given <= digits
    words, others = (
        {word for word in re.findall(r"[^\W_]+", each) if len(word.encode()) >= 3}
        for each in (key, entity)
    )
    return any(word in entity for word in words) or any(word in key for word in others)


def _name_key(name: str) -> str:
    return normalized("NFKC", name[:1_000]).casefold().strip()


class Label(NamedTuple):
    """The name of a speaker at the beginning of a line."""

    key: str
    start: int
    is_sure: bool | None
    """None for what may also be a heading: "Sam: ..." and "Work: ..."; False for an entry."""
    is_name: bool = False
    """Whether it is written like a name, before a sentence."""


_TIME_BEFORE = r"(?:[\[(]?\d+[/.:-]\d[\d/.,:\s-]*(?:[AaPp]\.?[Mm]\.?)?[\])]?\s*[-,]?\s*)?"
_LABEL = re.compile(
    rf"^[ \t>*_-]*(?:\d{{1,3}}[.)][ \t]+)?{_TIME_BEFORE}"
    r"(?:\[([^\]\n]{1,40})\]\s*[:>-]?|<([^>\n]{1,40})>\s*:?"
    r"|[*_\"]{0,2}([^\W_][^\n:\[\]<>()\"*]{0,39}?)[*_\"]{0,2}\s*"
    r"(?:[\[(][^\])\n]{1,30}[\])]|@?\s*\d\d?:\d\d)?\s*(?::(?!(?<=\d:)\d)|(?<=[^\W_])>)[*_\"]{0,2})"
    r"[ \t]*([^\n]*)",
    re.MULTILINE,
)
"""A line with the name of its speaker: "Sam: ...", "[Sam] ...", "10:21 - Sam: ...", "**Sam:**
..."."""
_MOST_NAMES = 3
"""The most words of a name."""
_SHORTEST_NAME = 3
"""Shorter words before a colon are "So:" more often than names."""
_LEAST_SAID = 3
"""A line of fewer words is an entry of a form: "Diet: vegan"."""


def _labels_in(plain: str) -> list[Label]:
    """Return the labels of lines; those of a log, in which a speaker has two turns, are sure."""
    found: list[Label] = []
    is_alone = False
    for match in _LABEL.finditer(plain[:50_000]):
        in_brackets, in_angles, bare, said = match.groups()
        name = next(each for each in (in_brackets, in_angles, bare) if each is not None)
        words = name.split()
        is_short = name.isascii() and sum(map(str.isalnum, name)) < _SHORTEST_NAME
        if (is_short and bare) or not 0 < len(words) <= _MOST_NAMES:
            continue
        is_long = _is_long(said)
        is_name = is_long and not any(map(_is_no_name, words))
        is_marked = bare is None or "@" in name
        is_word = len(words) == 1 and any(map(str.isalpha, name))
        is_sure = (True if is_marked else None) if is_name or (is_word and is_long) else False
        found.append(Label(_name_key(name), match.start(), is_sure, is_name))
        is_all = match.start() == 0 and match.end() == len(plain.rstrip())
        is_alone = is_all and not said[:1].islower()
    turns = [key for key, _ in itertools.groupby(found, key=lambda each: each.key)]
    if len(turns) > len({*turns}) > 1:
        return [each._replace(is_sure=True) for each in found]
    if len({*turns}) > 1:
        return found
    return [
        each if each.is_sure or is_alone else each._replace(is_sure=False)
        for each in found
        if each.is_name
    ]


_TURN = re.compile(
    rf"^[ \t>*_-]*{_TIME_BEFORE}[@*_\"]{{0,2}}"
    r"(?P<name>[^\W\d_][^\n:|()\[\]<>\"*.,!?;]{0,29}?)[*_\"]{0,2}(?:[ \t]+"
    r"(?P<mark>[-|\u2013\u2014~\u00bb]|->|=>)[ \t]+(?P<said>\S[^\n]*)|[ \t]*\n(?=[^\n]*\w))",
    re.MULTILINE,
)
"""A line like "Sam - I live in Rome" or "Sam | ...", or a name alone on a line before its words."""


def _turns_in(plain: str) -> list[Label]:
    """Return the speakers of a log without colons, which may also be headings.

    A name comes back, or two are before bars and sentences: own notes have dashes. What follows the
    last line of a log whose turns have one line each is the writer's own.
    """
    forms: dict[str, list[re.Match[str]]] = {}
    for match in _TURN.finditer(plain[:50_000]):
        if len(match["name"].split()) <= _MOST_NAMES and not match["name"][0].islower():
            forms.setdefault(match["mark"] or "", []).append(match)
    for mark, found in forms.items():
        keys = [_name_key(each["name"]) for each in found]
        turns = [key for key, _ in itertools.groupby(keys)]
        between = [plain[a.end() : b.start()].strip() for a, b in itertools.pairwise(found)]
        is_back = len(turns) > len({*turns}) and (mark or all(between))
        is_said = mark == "|" and all(_is_long(each["said"]) for each in found)
        if len({*turns}) > 1 and (is_back or is_said):
            labels = [Label(key, each.start(), None) for key, each in zip(keys, found, strict=True)]
            end = [Label("", found[-1].end(), False)] if mark and not any(between) else []
            return labels + end
    return []


def _is_long(said: str) -> bool:
    return len(said.split()) >= _LEAST_SAID or len(said.encode()) > 2 * len(said) > 8


def _add_openings(texts: Mapping[int, str], found: dict[int, list[Label]]) -> None:
    """Add the labels of a bot that begins each of several messages with a name, in any letters."""
    heads = {number: _LABEL.match(text) for number, text in texts.items()}
    names = {
        number: next(filter(None, head.groups()), "") for number, head in heads.items() if head
    }
    keys = {_name_key(name) for name in names.values() if len(name.split()) <= _MOST_NAMES}
    if len(keys) < 2 or len(names) < len(heads):
        return
    for number, name in names.items():
        if not found[number] or found[number][0].start:
            found[number].insert(0, Label(_name_key(name), 0, None))


_TIME = r"[ \t,]*[\[(]?\d{1,2}[:.]\d\d[\d:., APMapm]*[\])]?"
_OPENING = re.compile(
    rf"^([ \t>*_-]*{_TIME_BEFORE}[@<\[(*_]{{0,3}})([^\W_][^\n:()\[\]<>\"@*]{{0,39}}?)"
    rf"([*_>\])]{{0,3}}(?:{_TIME})?[ \t]*(?::|(?<=[ \t])-+(?=\s)|[\u2013\u2014])"
    rf"|(?:[*_>\])]{{1,3}}(?:{_TIME})?|{_TIME})(?=\s))",
    re.MULTILINE,
)
"""The beginning of a line that may have the name of its speaker, in any form."""


def _like_own(texts: Mapping[int, str], own: set[str]) -> dict[int, list[Label]]:
    """Return the labels in a form that has one of the user's own names, or several and a mark.

    Such are names in small letters, and lines that have only a name and a time: several of these
    could also be a timetable.
    """
    found = {
        number: [
            (_form(before, after), Label(_name_key(name), start, True))
            for start, (before, name, after) in (
                (match.start(), match.groups()) for match in _OPENING.finditer(text[:50_000])
            )
            if len(name.split()) <= _MOST_NAMES
        ]
        for number, text in texts.items()
    }
    names: dict[str, set[str]] = {}
    for form, label in chain.from_iterable(found.values()):
        names.setdefault(form, set()).add(label.key)
    sure = {
        form: bool(keys & own or re.search(r"[<@]|0:0.*:$", form)) or None
        for form, keys in names.items()
        if keys & own or (len(keys) > 1 and re.search(r"[<@]|0:0", form))
    }
    return {
        number: [label._replace(is_sure=sure[form]) for form, label in lines if form in sure]
        for number, lines in found.items()
    }


def _form(before: str, after: str) -> str:
    return re.sub(r"\d+", "0", re.sub(r"[A-Za-z]+", "m", " ".join(f"{before}|{after}".split())))


def _is_no_name(word: str) -> bool:
    """Whether a word is in small letters, or a number, or in capitals as in "NOTE"."""
    letters = [char for char in word if char.isalpha()]
    is_id = "@" in word or "_" in word or any(map(str.isdigit, word))
    is_capital = len(letters) > 1 and all(map(str.isupper, letters))
    return not letters or (not is_id and (letters[0].islower() or is_capital))


def _without_speaker(quote: str, message: SaidMessage) -> list[str]:
    """Return a quote, and a second one without its speaker if it begins with one: "Alice: Tea"."""
    head, colon, rest = quote.lstrip(" \"'*[").partition(":")
    names = {message.role} | ({_name_key(message.name)} if message.name else set())
    is_speaker = bool(colon) and len(head) <= 200 and _name_key(head.strip("*] ")) in names
    return [quote, rest] if is_speaker else [quote]


def day_of(moment: datetime) -> str:
    """Return the day of a time in the form of prompts: "2024-05-12, Sunday"."""
    return f"{moment:%Y-%m-%d}, {_DAYS[moment.weekday()]}"


def _shortened(text: str, most: int = _LONGEST_CONTEXT) -> str:
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} ... {text[-half:]}"


def _writer(message: Mapping[str, object]) -> SourceKind | None:
    """Return who wrote the words of a user message, if a program says that it was not the user."""
    return _KINDS.get(str(message.get("written_by")))


def _kind(message: Mapping[str, object]) -> SourceKind | None:
    """Return the kind of a message's writer; None for the application's instructions."""
    role = message.get("role")
    return _KINDS.get(role) if isinstance(role, str) else None
