"""The searchable parts of a fact: its words by field, and the text that is embedded.

Both have the entity's name, the keyword, the description and the values. Only the words also have
the date and the source's quote. On the corpus in `benchmarks/recall` both improve lexical recall;
in the embedded text the quote makes recall worse, and the date does not help.

Also here: the entity and the times that a question names, and the times of facts; the conversations
of facts, with the text around a fact; and the passages of messages, as facts to index.
"""

import re
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, tzinfo
from functools import lru_cache
from hashlib import blake2b
from itertools import chain, count, islice
from typing import NamedTuple

from factmem._text.analysis import FUNCTION_WORDS, Word, words
from factmem._text.spoken_time import SpokenTime, spoken_times
from factmem.llm.base import content_text
from factmem.models._values import normalized
from factmem.models.facts import AnyFact, Concept, FactSource, FactType, SingleFact, SourceKind
from factmem.models.when import when_of
from factmem.providers.conversations import Turn
from factmem.recall.match import plain_values

LONGEST_TEXT = 4_000
"""The maximum number of embedded characters of a fact. Every model accepts that many."""

_LONGEST_SAID = 1_000
"""The maximum number of characters of a message that are indexed for its neighbours."""


def words_of(fact: AnyFact, entity: str | None) -> dict[str, str]:
    """Return the fields of a fact's document in the lexical index."""
    source = fact.source
    fields = {
        "keyword": fact.concept.keyword,
        "description": fact.concept.description,
        "value": "\n".join(map(value_words, plain_values(fact))),
        "date": date_words(fact.timestamp),
        "entity": entity or "",
        "quote": "" if source is None or source.quote is None else source.quote,
    }
    return {name: text for name, text in fields.items() if text or name not in ("entity", "quote")}


def meaning_of(fact: AnyFact, entity: str | None) -> str:
    """Return the text of a fact that is embedded, at most 4,000 characters.

    Example: "alice: home city (Where the user lives): Busan".
    """
    concept = fact.concept
    topic = concept.keyword.replace("-", " ").replace("_", " ")
    about = f" ({concept.description})" if concept.description else ""
    whom = f"{entity}: " if entity else ""
    values = ", ".join(map(value_words, plain_values(fact)))
    return f"{whom}{topic}{about}: {values}"[:LONGEST_TEXT]


def said(fact: AnyFact) -> str:
    """Return the words of a fact's message: its quote, or else its values."""
    quote = None if fact.source is None else fact.source.quote
    return (quote or " ".join(map(value_words, plain_values(fact))))[:_LONGEST_SAID]


def text_digest(text: str) -> bytes:
    """Return a digest of 16 bytes, the key of a text's vector."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


FIELD_WEIGHTS = {"quote": 0.5}
"""The weights of a fact's fields in the lexical index; 1 for all others."""

RECURRING_FIELDS = (("keyword", "description", "entity"), ("date",))
"""Groups of fields with equal content in many facts. None of them contains a value."""

_RECURRING = frozenset(chain.from_iterable(RECURRING_FIELDS))

_WEIGHT_STEP = 16
"""Weights are multiples of 1/16, so that their sums are exact in any order."""


class Document(NamedTuple):
    """The weighted counts of a document's terms."""

    own: Mapping[str, float]
    """Of its own terms, with the counts that its neighbours add to these."""
    beside: Mapping[str, float]
    """Of the terms that only its neighbours have."""

    @property
    def length(self) -> float:
        """The sum of all counts."""
        return sum(self.own.values()) + sum(self.beside.values())


def document_of(
    fields: Mapping[str, str],
    around: Iterable[tuple[str, float]] = (),
    weights: Mapping[str, float] = FIELD_WEIGHTS,
) -> Document:
    """Return the terms of a document, given its strings by field and those around it with weights.

    A field that has no weight has 1; 0 omits it. The fields of `RECURRING_FIELDS` are analysed
    together, and this process caches some thousand such analyses.
    """
    own, beside = dict[str, float](), dict[str, float]()
    for names in RECURRING_FIELDS:
        texts = tuple([fields.get(name, "") for name in names])
        _add(own, _recurring(texts, tuple([weights.get(name, 1.0) for name in names])))
    for name, text in fields.items():
        if name not in _RECURRING and (weight := _rounded(weights.get(name, 1.0))):
            for term in chain.from_iterable(words(text)):
                own[term] = own.get(term, 0.0) + weight
    for text, weight in around:
        _add(beside, _recurring((text,), (weight,)))
    for term in own.keys() & beside.keys():
        own[term] += beside.pop(term)
    return Document(own, beside)


def _add(counts: dict[str, float], more: Mapping[str, float]) -> None:
    for term, counted in more.items():
        counts[term] = counts.get(term, 0.0) + counted


def _rounded(weight: float) -> float:
    return round(weight * _WEIGHT_STEP) / _WEIGHT_STEP


@lru_cache(maxsize=2**13)
def _recurring(texts: tuple[str, ...], weights: tuple[float, ...]) -> Mapping[str, float]:
    """Return the weighted count of each term of some texts."""
    counts: dict[str, float] = {}
    for text, weight in zip(texts, map(_rounded, weights), strict=True):
        if weight:
            for term in chain.from_iterable(words(text)):
                counts[term] = counts.get(term, 0.0) + weight
    return counts


_iso_day = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.]+(?:Z|[+-][0-9:]+)?)?\Z")


def value_words(value: object) -> str:
    """Convert a value to words: the keys and members of objects and lists, in order.

    A day, as a `date` or an ISO 8601 string, also gets its `date_words`, so that "February" finds
    it. null has no words. Nested values of any depth are walked without recursion.
    """
    if type(value) is str:  # the common case
        return " ".join(_scalar_words(value))
    words: list[str] = []
    pending = [value]
    while pending:
        match pending.pop():
            case dict() as members:
                for key, member in reversed(members.items()):
                    pending += (member, key)
            case list() | tuple() as members:
                pending += reversed(members)
            case None:
                pass
            case other:
                words += _scalar_words(other)
    return " ".join(words)


def _scalar_words(value: object) -> list[str]:
    text = str(value)
    if text[:1].isdecimal() and _iso_day.match(text):
        with suppress(ValueError):
            return [text, date_words(date.fromisoformat(text[:10]))]
    return [text.lower() if isinstance(value, bool) else text]


_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def date_words(moment: date) -> str:
    """Return a day in English, ISO 8601 and Korean: "17 May 2023 2023-05-17 2023년 5월 17일".

    After the analysis by `lexical.analysis.words`, the Korean form also matches questions in
    Japanese and Chinese ("2023年5月"). Month names do not depend on the process's locale.
    """
    return _day_words(moment.year, moment.month, moment.day)


@lru_cache(maxsize=4096)
def _day_words(year: int, month: int, day: int) -> str:
    iso = f"{year:04}-{month:02}-{day:02}"
    return f"{day} {_MONTHS[month - 1]} {year} {iso} {year}년 {month}월 {day}일"


@lru_cache(maxsize=1024)
def name_terms(entity: str) -> frozenset[str]:
    """Return the terms by which a question names an entity; empty if they are too common."""
    terms = frozenset(term for word in words(entity) for term in word)
    is_telling = any(not term.isdecimal() and term not in FUNCTION_WORDS for term in terms)
    return terms if is_telling else frozenset()


def named_entity(asked: Iterable[Word], entities: Collection[str]) -> str | None:
    """Return the only entity that a question names; None if it names none or several."""
    if not entities:
        return None
    terms = {term for word in asked for term in word}
    named = [entity for entity in entities if (name := name_terms(entity)) and name <= terms]
    return named[0] if len(named) == 1 else None


_YEARS_BACK = 20
_WHEN = re.compile(
    r"\b(?:when|while)\s(?P<clause>"
    r"(?!(?:is|are|was|were|will|would|did|do|does|has|have|had|can|could|should)\b)\w+\s[^,?.!;]+)"
    r"|(?P<korean>(?<![^\s,?.!])[^\s,?.!]+(?:\s[^\s,?.!]+){0,2})\s(?:때|시절|동안)",
    re.IGNORECASE,
)
_ISO = re.compile(r"(?<![\d-])(?:19|20)\d\d(?:-\d\d(?:-\d\d)?)?(?![\d-])", re.ASCII)
_FOREVER = float("inf")
_RECENT = re.compile(
    r"\b(?:most recent|latest|newest|recently|lately|zuletzt|neueste|kürzlich|neulich)"
    r"|최근|요즘|最近|最新",
    re.IGNORECASE,
)
_RECENT_SECONDS = 30 * 86_400.0


class Span(NamedTuple):
    """A time that a question names, in seconds since 1970; it ends before `end`."""

    begin: float
    end: float
    is_sure: bool = True
    """Whether it is the year that is probably meant, and not another one with the same month."""


def asked_spans(question: str, now: datetime) -> list[Span]:
    """Return the times that a question names: "last summer", "in June", "before 2019", "6월에".

    "Most recent" means the last 30 days.

    Days are those of the time zone of `now`.
    """
    spans: list[Span] = []
    if _RECENT.search(question):
        spans.append(Span(now.timestamp() - _RECENT_SECONDS, now.timestamp() + 86_400))
    zone = now.tzinfo or UTC
    times = spoken_times(question[:4000], now.date())
    for at, each in enumerate(times):
        begin, end = _midnight(each.first, zone), _midnight(each.last, zone) + 86_400
        if each.role == "until" and at and times[at - 1].role == "since":
            spans.append(Span(_midnight(times[at - 1].first, zone), end))  # and what is between
        elif each.is_open:
            end = _FOREVER
        elif each.role == "before":
            begin, end = -_FOREVER, begin
        elif each.role == "after":
            begin, end = end, _FOREVER
        spans.append(Span(begin, end))
        if each.is_yearly:
            earlier = range(each.first.year - _YEARS_BACK, each.first.year)
            spans += [Span(*_in_year(each, year, zone), is_sure=False) for year in earlier]
    return spans


def untimed(question: str, now: datetime) -> str:
    """Return a question without the times that it names."""
    plain = normalized("NFKC", question[:4000])
    for each in reversed(spoken_times(plain, now.date())):
        plain = f"{plain[: each.start]} {plain[each.end :]}"
    return plain


def clause_of_time(question: str) -> str:
    """Return what a question says about a time.

    "when she lived in Busan" gives "she lived in Busan".
    """
    found = _WHEN.search(question[:4000])
    return "" if found is None else found["clause"] or found["korean"]


def period_of(fact: AnyFact) -> tuple[float, float]:
    """Return from when and until when a fact holds.

    By `since` and `until`, else by the dates in its values, else when it was said.
    """
    if fact.since is not None or fact.until is not None:
        return (
            -_FOREVER if fact.since is None else fact.since.begin.timestamp(),
            _FOREVER if fact.until is None else fact.until.end.timestamp(),
        )
    dates = [
        each for value in fact.values if isinstance(value, str) for each in _ISO.findall(value)
    ]
    try:
        spans = [(when_of(each).begin, when_of(each).end) for each in dates]
    except ValueError:  # such as 2019-13
        spans = []
    said = fact.timestamp.timestamp()
    if not spans:
        return said, said
    return min(spans)[0].timestamp(), max(end for _, end in spans).timestamp()


def _in_year(time: SpokenTime, year: int, zone: tzinfo) -> tuple[float, float]:
    length = (time.last - time.first).days + 1
    try:
        begin = _midnight(time.first.replace(year=year), zone)
    except ValueError:  # 29 February, or no year
        begin = _midnight(time.first, zone)
    return begin, begin + length * 86_400


def _midnight(day: date, zone: tzinfo) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()


AROUND = ((-1, 2.0), (-2, 1.0), (1, 1.0))
"""The offsets of the neighbouring messages whose words also find a fact, with their weights. A word
of the fact itself also counts among similar words and by letters, so it still weighs more."""

BEFORE = 0.25
"""The weight of `FactSource.before`, the message before the fact's own."""


def said_around(
    source: FactSource | None, at: Callable[[str, int], Iterable[AnyFact]]
) -> list[tuple[str, float]]:
    """Return the strings said around a fact, without duplicates, each with its greatest weight.

    Args:
        source: The fact's source.
        at: Returns the facts of a message of a conversation.
    """
    around: dict[str, float] = {}
    if source is None:
        return []
    if source.conversation is not None and source.message is not None:
        for offset, weight in AROUND:
            for each in at(source.conversation, source.message + offset):
                text = said(each)
                around[text] = max(around.get(text, 0.0), weight)
    if source.before is not None:
        around.setdefault(source.before, BEFORE)
    return [each for each in around.items() if each[1]]


class _Conversation(NamedTuple):
    code: int
    messages: dict[int | None, set[int]]
    """The slots of the facts of each message; those of facts without a message number under
    None."""


class Conversations:
    """The conversations of the facts in the slots of an index."""

    def __init__(self) -> None:
        self._known: dict[str, _Conversation] = {}
        self._codes = count()
        self._loose: array[int] = array("i")
        self._unnumbered = 0

    @property
    def loose(self) -> "array[int] | None":
        """A number for the conversation of each fact without a message number, -1 for others.

        None if all are -1. It may be shorter than the facts; the remaining ones count as -1.
        """
        return self._loose if self._unnumbered else None

    def put(self, slot: int, source: FactSource) -> set[int]:
        """Add a fact's source; return the slots that have its message as a neighbour."""
        if source.conversation is None:
            return set()
        known = self._known.get(source.conversation)
        if known is None:
            known = self._known[source.conversation] = _Conversation(next(self._codes), {})
        known.messages.setdefault(source.message, set()).add(slot)
        if source.message is None:
            if slot >= len(self._loose):
                self._loose.extend([-1] * (slot + 256 - len(self._loose)))
            self._loose[slot] = known.code
            self._unnumbered += 1
        return _around(known, source.message)

    def drop(self, slot: int, source: FactSource) -> set[int]:
        """Remove a fact's source; return the slots that had its message as a neighbour."""
        if source.conversation is None:
            return set()
        known = self._known[source.conversation]
        slots = known.messages[source.message]
        slots.remove(slot)
        if not slots:
            del known.messages[source.message]
        if not known.messages:
            del self._known[source.conversation]
        if source.message is None:
            self._loose[slot] = -1
            self._unnumbered -= 1
        return _around(known, source.message)

    def at(self, conversation: str, message: int) -> set[int]:
        """Return the slots of a message's facts."""
        known = self._known.get(conversation)
        return set() if known is None else known.messages.get(message, set())


def _around(conversation: _Conversation, message: int | None) -> set[int]:
    if message is None:
        return set()
    return {
        slot for offset, _ in AROUND for slot in conversation.messages.get(message - offset, ())
    }


SAID = Concept("said", "What was said in earlier conversations", FactType.SINGLE, value_type=str)
"""The concept of indexed messages. No store has facts of it."""

_LONGEST = 400
"""The most characters of a passage, if its sentences are shorter."""

_MOST_PASSAGES = 100
"""The most passages of a message; a longer one is a pasted document."""

_KINDS = {"user": SourceKind.USER, "assistant": SourceKind.ASSISTANT}

_END = re.compile(r"(?<=[.!?…。\uff01\uff1f])(?=\s|[^\x00-\x7f])|\n+")


def passage_facts(conversation: str, turn: Turn) -> Iterator[tuple[str, AnyFact]]:
    """Yield the passages of a message, each with the fact that represents it in an index.

    Only messages of users and assistants have any.
    """
    kind = _KINDS.get(turn.role)
    if kind is None:
        return
    source = FactSource(kind, conversation, turn.number)
    for part, text in enumerate(passages(content_text(turn.message))):
        said = f"{turn.name}: {text}" if turn.name else text
        name = f"{turn.number}.{part}.{conversation}"
        yield text, SingleFact(SAID, said, id=name, timestamp=turn.said_at, source=source)


def passages(text: str) -> Iterator[str]:
    """Yield the passages of a message: whole sentences, as many as fit into 400 characters."""
    return islice(_packed(text), _MOST_PASSAGES)


def _packed(text: str) -> Iterator[str]:
    passage = ""
    for sentence in filter(None, map(str.strip, _END.split(text))):
        if passage and len(passage) + len(sentence) >= _LONGEST:
            yield passage
            passage = ""
        passage = f"{passage} {sentence}".strip()
        while len(passage) > 2 * _LONGEST:
            yield passage[:_LONGEST]
            passage = passage[_LONGEST:]
    if passage:
        yield passage
