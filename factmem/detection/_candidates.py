"""Candidates: the validated items of a model's answer, each with its evidence.

An item is read by the field names that models use. An invalid one is rejected with a reason and
does not affect the others. No reason quotes the model.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from html import unescape
from json import dumps

from pydantic import JsonValue

from factmem._text.own_prose import Prose
from factmem._text.secret_values import asks_for_secrets, is_secret, masked
from factmem._text.spelling import (
    Keywords,
    added_words,
    given_values,
    has_common_word,
    text_of,
    tidy_keyword,
    word_count,
)
from factmem._text.spoken_time import stated_period
from factmem.detection._evidence import (
    Quotation,
    Sentence,
    ends,
    has_its_numbers,
    is_telling,
    near_span,
    states,
)
from factmem.detection.report import DetectionRequest, Doubt, Refusal, RejectedItem, RejectionReason
from factmem.llm.extraction import unwrapped
from factmem.models._values import Canonical, normalized, sendable
from factmem.models.facts import MAX_BEFORE, AnyConcept, Concept, FactSource, FactType, SourceKind
from factmem.models.places import MemoryScopeType, Place
from factmem.models.when import When
from factmem.prompt._transcript import FoldedText, SaidMessage, find_quote

STATED = "stated"
"""The model's word for an item that its message states as true."""
NEGATIVE = "negative"
"""The same, with a "not" that the item keeps: "dislikes: olives" for "I don't like olives"."""
CONFIRMED = "confirmed"
"""The model's word for an item in which the writer agrees to the assistant's words before."""
CREDENTIAL = "credential"
"""The model's word for a value that is a password or another proof of identity."""
SAID = (STATED, CONFIRMED, NEGATIVE)
WORKED_ON = "to work on"
UNSTATED = ("asked", "denied", "supposed", "quoted", WORKED_ON, "of another")
"""The model's words for items that are not stated; for the last the prompt has `who`."""

_NAMES: Mapping[str, Sequence[str]] = {
    "keyword": ("keyword", "key", "concept", "topic", "attribute", "predicate", "category", "name"),
    "value": ("value", "values", "fact", "memory", "content", "object", "text"),
    "quote": ("quote", "evidence", "citation", "source", "source_quote"),
    "message": ("message", "message_id", "message_number", "index"),
    "action": ("action", "event", "operation"),
    "said_as": ("said_as",),
    "who": ("who", "subject"),
}
"""The fields of an item, and the names that models give them, as mem0's prompts are well known."""
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
        """The person of whom it is true, in the model's words; empty if it names none."""
        who = self.fields.get("who")
        return who[:200].casefold().strip() if isinstance(who, str) else ""

    @property
    def said_as(self) -> str:
        """How its message says it, in the model's words; see `STATED` and `UNSTATED`."""
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
    for own, names in _NAMES.items():
        given = next((raw[name] for name in names if raw.get(name) is not None), None)
        if given is not None:
            found[own] = given
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


MAX_DESCRIPTION = 300
"""The longest description of a made-up concept, in characters."""
MAX_QUOTE = 500
"""The longest quote that a fact stores, in characters."""
_BESIDE = 300
"""The characters beside a quote, on either side, in which words of its value are searched."""
ORDINARY = 0.5
"""The default importance, for an item without a valid one; the prompt names the same number."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """The statement of an item: a value is, or is no longer, current in a place."""

    position: int
    is_retraction: bool
    place: Place
    concept: AnyConcept
    value: object
    key: Canonical
    importance: float
    source: FactSource
    said_at: datetime
    item: JsonValue = field(repr=False)
    is_declared: bool = True
    """Whether the application declared the concept, so that its type is fixed."""
    replaces: bool = False
    """Whether the item says that it replaces an earlier one."""
    doubts: tuple[Doubt, ...] = ()
    """Why it is marked or only proposed, in the order of `Doubt`."""
    digest: str = ""
    """The digest of the cited message."""
    is_instruction: bool = False
    """Whether the application lets models follow values of its concept."""
    as_instruction: tuple[Doubt, ...] = ()
    """The doubts that count if its keyword is joined to the concept of an instruction."""
    since: When | None = None
    """From when on the value holds, if the message says so."""
    until: When | None = None

    @property
    def order(self) -> tuple[int, int]:
        """The order of statements: by message, then by position in the answer."""
        return self.source.message or 0, self.position

    @property
    def is_proposal(self) -> bool:
        """Whether a person has to decide about it."""
        return bool({*self.doubts} - {Doubt.NEAR})

    @property
    def is_over(self) -> bool:
        """Whether the value no longer held when it was said."""
        return self.until is not None and self.until.end <= self.said_at

    @property
    def is_present(self) -> bool:
        """Whether the value held when it was said: neither ended nor planned."""
        is_begun = self.since is None or self.since.begin <= self.said_at
        return is_begun and not self.is_over


@dataclass(frozen=True, slots=True)
class _Citation:
    """A message, and the position of the quote in its plain text."""

    message: SaidMessage
    span: tuple[int, int]
    quote: str
    sentence: Sentence
    near_to: str = ""
    """The model's quote, if it differs from the words of the message."""
    is_literal: bool = True
    """Whether the letters of the quote are in the message, in a row."""


class Rules:
    """Validation rules for the items of one detection; `known` are the concepts that have facts."""

    def __init__(
        self, request: DetectionRequest, known: Iterable[AnyConcept] = (), model: str | None = None
    ) -> None:
        self.request = request
        self._transcript = transcript = request.transcript
        self._places: dict[str, dict[MemoryScopeType, Place]] = {}
        for place in request.places:
            scopes = self._places.setdefault(place.subject.name, {})
            scopes[place.scope.type] = place
        self._declared = {concept.keyword: concept for concept in request.declared}
        self._concepts = {concept.keyword: concept for concept in known} | self._declared
        self._keywords = Keywords((*self._declared.values(), *self._concepts.values()))
        self._given = dict.fromkeys(self._concepts)
        self._asked_for = asks_for_secrets(self._declared.values())
        self.digests: Mapping[int, str] = _message_digests(
            transcript.messages, request.conversation
        )
        """The digest of each message by its number."""
        self._names = " ".join(transcript.own_names)
        self._prose: dict[int, Prose] = {}
        self._quoted: dict[int, Sequence[Quotation]] = {}
        self._model = model

    def read(self, position: int, raw: JsonValue) -> list[Candidate] | RejectedItem:
        """Validate an item. Returns a candidate for each of its values, or the rejected item."""
        try:
            item = as_item(raw)
            place = self._place(item)
            concept, value = self._concept(item)
            values = _values(value, concept)
            citation = self._citation(item, values)
            self._require_evidence(concept, values, citation, item)
        except Refusal as refusal:
            return RejectedItem(position, refusal.reason, refusal.detail, raw)
        self._concepts.setdefault(concept.keyword, concept)  # for later items of the answer
        self._keywords.add(concept.keyword)
        message, sentence = citation.message, citation.sentence
        is_event = concept.fact_type is FactType.MULTIPLE
        dated = {} if item.is_retraction else item.fields
        since, until = stated_period(dated, sentence[:3], message.said_at, is_event=is_event)
        at_all = self._doubts(item, concept, citation)
        if since or until:
            at_all.discard(Doubt.CUT)  # the missing words are a time, which the item has
        if self._is_of_another(item):
            at_all.add(Doubt.MODEL)
        candidates: list[Candidate] = []
        for key, each in values.items():
            followed = self._doubts_to_follow(text_of(key), citation)
            is_instruction = concept.keyword in self.request.followed
            found = at_all | (followed if is_instruction else set[Doubt]())
            if not is_instruction and self._is_quoted(citation, text_of(key)):
                found.add(Doubt.QUOTATION)
            if not item.is_retraction:
                found |= self._doubts_about(concept, key, item, citation)
            candidates.append(
                Candidate(
                    position,
                    item.is_retraction,
                    place,
                    concept,
                    each,
                    key,
                    _importance(item.fields.get("importance")),
                    self._source(citation),
                    message.said_at,
                    raw,
                    is_declared=self.is_declared(concept),
                    replaces=item.is_replacement,
                    doubts=tuple(doubt for doubt in Doubt if doubt in found),
                    digest=self.digests[message.number],
                    is_instruction=is_instruction,
                    as_instruction=tuple(doubt for doubt in Doubt if doubt in at_all | followed),
                    since=since,
                    until=until,
                )
            )
        return candidates

    def _doubts(self, item: Item, concept: AnyConcept, citation: _Citation) -> set[Doubt]:
        """Return the doubts about an item that hold for each of its values."""
        found = {Doubt.NEAR} if citation.near_to else set[Doubt]()
        if item.said_as in UNSTATED:
            found.add(Doubt.MODEL)
        if concept.keyword in self.request.followed:
            return found  # `_is_own` decides whether it is the user's own request
        number, value = citation.message.number, item.fields["value"]
        is_user = citation.message.kind is SourceKind.USER and self.request.is_about_user
        known = f"{_topic(concept)} {concept.description} {value} {self._names}"
        if (
            is_user
            and not citation.is_literal
            and citation.sentence.leaves_out(known, citation.near_to)
        ):
            found.add(Doubt.CUT)
        if citation.sentence.is_question():
            found.add(Doubt.QUESTION)
        label = self._transcript.speaker_at(number, citation.span[0])
        if label is not None and not has_common_word(label.key, known):
            found.add(Doubt.SPEAKER)
        return found

    def _doubts_about(
        self, concept: AnyConcept, key: Canonical, item: Item, citation: _Citation
    ) -> set[Doubt]:
        """Return the doubts about one value."""
        found, sentence, value = set[Doubt](), citation.sentence, text_of(key)
        number, is_declared = citation.message.number, self.is_declared(concept)
        if concept.keyword not in self.request.followed:
            before, said = self._transcript.before(number), citation.message.said_at.date()
            plain, (start, end) = self._transcript.text(number).plain, citation.span
            beside = plain[max(start - _BESIDE, 0) : end + _BESIDE]
            about = f"{_topic(concept)} {concept.description if is_declared else ''}"
            # A value of a declared type may be in other words: a choice, a date, a form.
            is_worded = concept.codec.is_plain_text or not is_declared
            near = beside, before, item.who if item.said_as == CONFIRMED else None
            if is_worded and not states(value, sentence, said, near, about):
                found.add(Doubt.VALUE)
            if not has_its_numbers(key, sentence, f"{plain}\n{before}", said):
                found.add(Doubt.NUMBER)
        is_kept = item.said_as == NEGATIVE and not citation.near_to
        if sentence.denies(value, concept.description, is_kept=is_kept):
            found.add(Doubt.NEGATION)
        return found

    def _is_quoted(self, citation: _Citation, value: str) -> bool:
        number = citation.message.number
        plain = self._transcript.text(number).plain
        if number not in self._quoted:
            # Models write headers and tables themselves: "Task: ...", "Result: ...".
            is_models = citation.message.kind is SourceKind.ASSISTANT
            found = Quotation.passages(plain)
            self._quoted[number] = [e for e in found if not is_models or e.title is not None]
        return any(each.has(value, plain, citation.span) for each in self._quoted[number])

    def _doubts_to_follow(self, value: str, citation: _Citation) -> set[Doubt]:
        """Return the doubts about a value that a model would follow."""
        found: set[Doubt] = set()
        if not self.request.followed:
            return found
        if FoldedText(value).bare not in FoldedText(citation.quote).bare:
            found.add(Doubt.VALUE)
        if not self._is_own(citation, value):
            found.add(Doubt.PASTED)
        return found

    def _is_own(self, citation: _Citation, value: str) -> bool:
        if citation.message.kind is not SourceKind.USER:
            return True  # instructions from such a source are never followed
        number, wanted = citation.message.number, FoldedText(value).bare
        text = self._transcript.text(number)
        if not wanted:
            return False
        if number not in self._prose:
            self._prose[number] = Prose(text.plain)
        # Words of the quote around the value may introduce it: "he texted me: always ...".
        start, end = citation.span
        inside = find_quote(FoldedText(text.plain[start:end]), [wanted])
        first, last = inside or (0, end - start)
        return self._prose[number].holds(start + first, start + last, value)

    def near(self, keyword: str) -> AnyConcept | None:
        """Return the known concept whose keyword has the words of a new one, or None."""
        if keyword in self._given or self.request.is_closed:
            return None
        known = self._keywords.near(keyword)
        return None if known is None or known == keyword else self._concepts[known]

    def new_concepts(self, keywords: Iterable[str]) -> list[AnyConcept]:
        """Return the concepts of new keywords whose words differ from those of all known ones."""
        if self.request.is_closed:
            return []
        new = [each for each in dict.fromkeys(keywords) if each not in self._given]
        return [self._concepts[each] for each in new if self.near(each) is None]

    @property
    def given_concepts(self) -> list[AnyConcept]:
        """The concepts that were known before the answer, the declared ones first."""
        given = [self._concepts[each] for each in self._given if each not in self._declared]
        return [*self._declared.values(), *given]

    def concept(self, keyword: str) -> AnyConcept:
        """Return a known concept, or one that an item made up."""
        return self._concepts[keyword]

    def is_declared(self, concept: AnyConcept) -> bool:
        """Whether the application declared a concept."""
        return concept.keyword in self._declared

    def _place(self, item: Item) -> Place:
        scopes = self._places[self._subject(item.fields.get("subject"))]
        name = item.fields.get("scope")
        if len(scopes) == 1 or name is None or name == "":
            return next(scopes[each] for each in MemoryScopeType if each in scopes)
        named = {scope_type.value: place for scope_type, place in scopes.items()}
        wanted = name.strip().casefold() if isinstance(name, str) else ""
        if wanted in named:
            return named[wanted]
        offered = ", ".join(repr(each.value) for each in scopes)
        raise Refusal(RejectionReason.UNKNOWN_SCOPE, f"its scope is not one of {offered}")

    def _subject(self, name: JsonValue) -> str:
        if len(self._places) == 1:
            return next(iter(self._places))
        if isinstance(name, str) and len(name) <= 1_000:
            exact = normalized("NFC", name.strip())
            if exact in self._places:
                return exact
            alike = [each for each in self._places if each.casefold() == exact.casefold()]
            if len(alike) == 1:
                return alike[0]
        offered = ", ".join(map(repr, self._places))
        raise Refusal(RejectionReason.UNKNOWN_SUBJECT, f"its subject is not one of {offered}")

    def _is_of_another(self, item: Item) -> bool:
        """Whether an item is true of another person than the user, and does not name that person.

        "plays chess" of "my son" is no fact about the user; "family: son plays chess" is one.
        """
        if not item.who or not self.request.is_about_user:
            return False
        names = [message.name or "" for message in self._transcript.messages if message.kind]
        for each in self.request.places:
            names += [each.subject.name, each.subject.entity or ""]
        own = {"writer", "user", "i", "me", "self", "speaker", "we"}
        own |= set(re.findall(r"[^\W_]+", " ".join(names).casefold()))
        words = set(re.findall(r"[^\W_]+", item.who))
        is_own = not own.isdisjoint(words) and words.isdisjoint({"s", "of"})
        named = f"{item.fields.get('keyword')} {item.fields.get('value')}".replace("-", " ")
        # One Korean letter is a pronoun more often than a noun, unless at the end: "우리 형".
        nouns = ["family", *re.findall(r"[^\W_]{2,}|[\u4e00-\u9fff]|[\u0900-\u0dff]+", item.who)]
        nouns += re.findall(r"(?:(?<!\w)[\uac00-\ud7a3]|[\u4e00-\u9fff])(?=\W*$)", item.who)
        return not is_own and not has_common_word(" ".join(nouns), named)

    def _concept(self, given: Item) -> tuple[AnyConcept, JsonValue]:
        item = given.fields
        text, value = item.get("keyword"), item.get("value")
        if not isinstance(text, str) or not text.strip():
            raise Refusal(RejectionReason.MALFORMED, "it has no keyword")
        if value is None:
            raise Refusal(RejectionReason.INVALID_VALUE, "it has no value")
        keyword = self._keywords.known(text)
        if keyword in self._declared:
            concept = self._declared[keyword]
            if not concept.detect:
                detail = f"{keyword!r} has detect=False: only the application sets it"
                raise Refusal(RejectionReason.NOT_DETECTED, detail)
            return concept, value
        if self.request.is_closed:
            wanted = ", ".join(map(repr, self._declared))
            raise Refusal(RejectionReason.UNKNOWN_CONCEPT, f"the request asks about {wanted} only")
        known = self._concepts.get(keyword) if keyword is not None else None
        if known is None:
            return _new_concept(text, item), value
        holds_text = known.codec.is_plain_text and not isinstance(value, dict | list)
        value_type: object = str if holds_text else JsonValue
        asked = _asked_type(item)
        fact_type = FactType.MULTIPLE if asked is FactType.MULTIPLE else known.fact_type
        return Concept(known.keyword, known.description, fact_type, value_type=value_type), value

    def _citation(self, item: Item, values: Mapping[Canonical, object]) -> _Citation:
        """Return the message that an item cites, or the only message that contains its quote."""
        number, given = item.message, item.quote
        message = None if number is None else self._transcript.cited(number)
        span = None
        if message is not None:
            span = self._transcript.span(message.number, given)
        if span is None and word_count(given) > 1:
            holder = self._transcript.only_holder(given)
            if holder is not None:
                message = self._transcript.cited(holder)
                span = self._transcript.span(holder, given)
        if message is None:
            raise self._unknown(number)
        near_to = "" if span is not None and not item.is_quote_repaired else given
        text = self._transcript.text(message.number)
        if span is None:
            span = self._transcript.part_span(message.number, given) or near_span(text, given)
        if near_to and any(added_words(text_of(key), near_to, text.plain) for key in values):
            span = None  # the value is in the words that the quote adds
        words = FoldedText(given).bare
        if span is None and words and words in text.bare:
            raise Refusal(RejectionReason.WEAK_QUOTE, "its quote is too short")
        if span is None:
            has_none = f"message {message.number} does not have its quote"
            detail = has_none if given.strip() else "it has no quote"
            raise Refusal(RejectionReason.QUOTE_NOT_FOUND, detail)
        given = text.plain[slice(*span)] if near_to else given
        is_short = not any(is_telling(given, text, text_of(key)) for key in values)
        if is_short and item.said_as != CONFIRMED:
            detail = "its quote is one short word that does not hold the value"
            raise Refusal(RejectionReason.WEAK_QUOTE, detail)
        label = self._transcript.speaker_at(message.number, span[0])
        if label is not None and label.is_sure:
            detail = "its message must not be cited: these words are another person's"
            raise Refusal(RejectionReason.UNTRUSTED_MESSAGE, detail)
        is_whole = not item.is_quote_repaired and "..." not in item.quote
        copied, plain = _letters(item.quote), _letters(text.plain)
        is_literal = is_whole and (copied in plain or copied[:1].swapcase() + copied[1:] in plain)
        sentence = Sentence.around(text.plain, span)
        return _Citation(message, span, given.strip(), sentence, near_to, is_literal)

    def _unknown(self, number: int | None) -> Refusal:
        why_not = None if number is None else self._transcript.why_not(number)
        if why_not is None:
            return Refusal(RejectionReason.UNKNOWN_MESSAGE, "there is no message of that number")
        detail = f"its message must not be cited: {why_not}"
        return Refusal(RejectionReason.UNTRUSTED_MESSAGE, detail)

    def _require_evidence(
        self, concept: AnyConcept, values: Iterable[Canonical], citation: _Citation, item: Item
    ) -> None:
        words, sentence = [text_of(key) for key in values], citation.sentence.text
        plain = self._transcript.text(citation.message.number).plain
        start, end = max(citation.span[0] - 40, 0), citation.span[1]
        if item.is_retraction:
            if not ends(plain[start : end + 40], (concept.keyword, concept.description, *words)):
                detail = "its quote has no negation and no word of the concept or the value"
                raise Refusal(RejectionReason.WEAK_QUOTE, detail)
            return
        if concept.keyword in self._asked_for:
            return
        stated = citation.quote, sentence, plain[start:end]  # "My PIN? 4417"
        about = None if self.is_declared(concept) else f"{sentence}\n{concept.description}"
        if item.said_as == CREDENTIAL or any(
            is_secret(concept.keyword, each, stated, about=about) for each in words
        ):
            detail = "its value looks like a secret, and no declared concept asks for one"
            raise Refusal(RejectionReason.SECRET, detail)

    def _source(self, citation: _Citation) -> FactSource:
        message = citation.message
        quote = masked(citation.quote[:MAX_QUOTE])
        kind = message.kind
        assert kind is not None  # noqa: S101 - a cited message has one
        before = self._transcript.before(message.number)
        if masked(before) != before:  # masking it is not enough: of a private key only the first
            before = ""  # line has a pattern
        before = before[-MAX_BEFORE:].strip()
        conversation = self.request.conversation
        return FactSource(kind, conversation, message.number, quote, self._model, before or None)


def _message_digests(messages: Sequence[SaidMessage], conversation: str | None) -> dict[int, str]:
    """Return the digest of each message by its number; equal messages are counted."""
    seen = Counter[str]()
    digests: dict[int, str] = {}
    for each in messages:
        said = dumps([conversation, each.role, each.name, FoldedText(each.text).bare])
        seen[said] += 1
        digests[each.number] = sha256(f"{said}{seen[said]}".encode()).hexdigest()[:10]
    return digests


def _letters(text: str) -> str:
    """Return letters and digits in their case, without accents."""
    return "".join(filter(str.isalnum, normalized("NFKD", text)))


def _topic(concept: AnyConcept) -> str:
    return concept.keyword.replace("-", " ")


def _importance(raw: JsonValue) -> float:
    """Return an importance. An invalid one becomes the default: it only ranks."""
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


def _asked_type(item: Mapping[str, JsonValue]) -> FactType | None:
    """Return the type that an item gives its keyword; a list of values means MULTIPLE."""
    if isinstance(item.get("value"), list):
        return FactType.MULTIPLE
    given = item.get("fact_type")
    name = given.strip().upper() if isinstance(given, str) else ""
    return FactType(name) if name in FactType.__members__ else None


def _new_concept(text: str, item: Mapping[str, JsonValue]) -> AnyConcept:
    try:
        keyword = tidy_keyword(text)
    except ValueError as exc:
        raise Refusal(RejectionReason.INVALID_KEYWORD, f"its keyword {exc}") from None
    value, description = item.get("value"), item.get("description")
    words = " ".join(description[:2_000].split()) if isinstance(description, str) else ""
    words = sendable(words)[:MAX_DESCRIPTION]
    fact_type = _asked_type(item) or FactType.SINGLE
    listed = value if isinstance(value, list) and value else [value]
    value_type: object = str if all(isinstance(each, str) for each in listed) else JsonValue
    return Concept(keyword, words or keyword.replace("-", " "), fact_type, value_type=value_type)
