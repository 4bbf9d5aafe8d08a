"""Reconciliation of a model's answer with the stored values: pure, item by item.

`read_items` validates the items of an answer. `reconcile` compares them with each other, with the
current values and with what was learnt before, and decides what to save, retract, confirm and
reject. Nothing is written here.

Learning a chat again changes nothing. A statement is identified by where it was said: its
conversation, its message (the digest of text and speaker, as positions change and few chats have
times) and its quote. The id of a learnt fact has the digest of the message:

    00000007 1 9f2c41d07a 5b0e94c1d2f37
    number     message    quote, keyword, value

So any process recognises a statement in the history of its place, also after its value was
forgotten or replaced, and by its id alone after it was purged.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from json import dumps
from typing import Any, NamedTuple, TypeAlias

from pydantic import JsonValue

from factmem._text.spelling import given_values, letters_of, stems, text_of
from factmem.detection._candidates import WORKED_ON, Candidate, Rules, as_item
from factmem.detection.report import (
    DetectionReport,
    Doubt,
    DoubtfulItem,
    JoinedKeyword,
    RejectedItem,
    RejectionReason,
    Retraction,
)
from factmem.ledger._items import digest_of
from factmem.ledger.entries import Entry, RetractedValue, StoredFact
from factmem.ledger.resolution import PlacedFact
from factmem.models._values import Canonical, canonical, normalized
from factmem.models.facts import (
    AnyConcept,
    AnyFact,
    Concept,
    FactSource,
    FactState,
    FactType,
    MultipleFacts,
    SingleFact,
    new_id,
)
from factmem.models.places import Identity
from factmem.prompt._transcript import FoldedText, folded

Topic: TypeAlias = tuple[Identity, str]
"""A place and a keyword."""

_MOST_SHARING = 20
"""A word in more values does not identify one, and would make the search quadratic."""


class CurrentValues:
    """The current values of each place, by keyword and canonical form."""

    def __init__(self, found: Iterable[PlacedFact]) -> None:
        self._topics: dict[Topic, _TopicValues] = {}
        self._by_id: dict[tuple[Identity, str], PlacedFact] = {}
        for placed in found:
            self._by_id[placed.place.identity, placed.fact.id] = placed
            concept = placed.fact.concept
            topic = (placed.place.identity, concept.keyword)
            values = self._topics.setdefault(topic, _TopicValues(concept.fact_type))
            for value in placed.fact.values:
                with suppress(ValueError):  # a user's own provider returned a value without JSON
                    key = canonical(concept.codec.dump(value, concept.keyword))
                    values.add(key, placed, value)

    def of(self, topic: Topic) -> dict[Canonical, tuple[PlacedFact, object]]:
        """Return the current values of a topic by their canonical form."""
        values = self._topics.get(topic)
        return {} if values is None else values.by_key

    def fact_type(self, topic: Topic) -> FactType | None:
        """Return the type with which a topic was last saved; None if it has no values."""
        values = self._topics.get(topic)
        return None if values is None else values.fact_type

    def is_decided(self, topic: Topic) -> bool:
        """Return whether a topic has one value, and no model learnt it."""
        if self.fact_type(topic) is not FactType.SINGLE:
            return False
        facts = [placed.fact for placed, _ in self.of(topic).values()]
        return any(
            fact.state is FactState.CONFIRMED or fact.source is None or fact.source.quote is None
            for fact in facts
        )

    def confirmed(self, candidate: Candidate) -> PlacedFact | None:
        """Return the current fact with the value of a candidate, or None."""
        known = self.of(topic_of(candidate)).get(candidate.key)
        return known[0] if known else None

    def learnt(self, identity: Identity, fact_id: str) -> PlacedFact | None:
        """Return the current fact with an id in a place, or None."""
        return self._by_id.get((identity, fact_id))

    def in_place(
        self, identity: Identity
    ) -> Iterator[tuple[AnyConcept, Canonical, PlacedFact, object]]:
        """Yield the current values of a place, each with its concept, canonical form and fact."""
        for (holder, _), values in self._topics.items():
            if holder == identity:
                for key, (placed, value) in values.by_key.items():
                    yield placed.fact.concept, key, placed, value

    def match(self, candidate: Candidate) -> tuple[PlacedFact, object] | None:
        """Return the current value that a candidate refers to, or None.

        The same value; else the only one that differs in case, white space and punctuation; else
        the only one whose words include all of the candidate's words, or the reverse.
        """
        values = self._topics.get(topic_of(candidate))
        return None if values is None else values.match(candidate.key)


class _TopicValues:
    """The values of one keyword in one place. Their words are read when they are first needed."""

    def __init__(self, fact_type: FactType) -> None:
        self.fact_type = fact_type
        self.by_key: dict[Canonical, tuple[PlacedFact, object]] = {}
        self._by_form: dict[str, set[Canonical]] = {}
        self._by_word: dict[str, set[Canonical]] = {}
        self._words: dict[Canonical, frozenset[str]] = {}

    def add(self, key: Canonical, placed: PlacedFact, value: object) -> None:
        self.by_key[key] = (placed, value)

    def match(self, wanted: Canonical) -> tuple[PlacedFact, object] | None:
        if wanted in self.by_key:
            return self.by_key[wanted]
        for key in self.by_key.keys() - self._words.keys():
            text = text_of(key)
            self._words[key] = _plain_words(text)
            for form in (folded(text), FoldedText(text).bare):
                self._by_form.setdefault(form, set()).add(key)
            for word in self._words[key]:
                self._by_word.setdefault(word, set()).add(key)
        text = text_of(wanted)
        words = _plain_words(text)
        sharing = [self._by_word.get(word, set()) for word in words]
        near = {
            key
            for keys in sharing
            if len(keys) <= _MOST_SHARING
            for key in keys
            if self._words[key] <= words or words <= self._words[key]
        }
        forms = (folded(text), FoldedText(text).bare)
        for found in (*(self._by_form.get(form, set()) for form in forms), near):
            if len(found) == 1:
                return self.by_key[next(iter(found))]
        return None


def topic_of(candidate: Candidate) -> Topic:
    """Return the place and the keyword of a candidate."""
    return candidate.place.identity, candidate.concept.keyword


def same_value(one: Canonical, other: Canonical) -> bool:
    """Whether two values differ at most in case, white space and punctuation."""
    return one == other or FoldedText(text_of(one)).bare == FoldedText(text_of(other)).bare


def _plain_words(text: str) -> frozenset[str]:
    plain = FoldedText(text).plain.casefold()
    return frozenset("".join(c if c.isalnum() or c in "+#" else " " for c in plain).split())


_NUMBER, _MESSAGE = slice(0, 8), slice(9, 19)
_SAME_TOPIC, _OTHER_TOPIC = 0.5, 0.66
"""The least share of common words by which two values of one message are one statement in other
words: of one quote or of like keywords, and of others. Of 91 statements of a second reading one is
saved again, and none of 130 others of the same messages is taken for one (tests/detection)."""
_SHORTEST = 3
"""Shorter words are articles and prepositions in most languages."""
_PART = re.compile(r"\d+|[^\W\d_]+")


def fact_id(digest: str, source: FactSource, keyword: str, value: str, *, is_past: bool) -> str:
    """Return the id of a learnt fact, which is the same whenever its statement is learnt again.

    Ids sort like their statements, because they decide between facts of the same time. Without the
    name of a conversation they are random, as an equal message may be in another chat.
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
    """The content of an item or a stored fact."""

    keyword: str
    value: str
    quote: str

    def is_reworded(self, other: "Said") -> bool:
        """Whether two statements of one message are the same in other words.

        Half of their quotes overlap, and the words of the shorter value are in the other value or
        in its keyword: "Lina, seven" of "daughter", and "has a daughter Lina".
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
    """Return the words of a value without endings, its numbers, and characters of some scripts."""
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
        """Return the learnt fact of a statement, even if forgotten since; None if it is new."""
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
        """Whether a message was learnt before, and ended a value."""
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


MAX_ITEMS = 500
"""The most items of one answer; the rest is rejected."""


@dataclass(slots=True)
class ReadItems:
    """The items of an answer: candidates and rejected items."""

    candidates: list[Candidate] = field(default_factory=list[Candidate])
    rejected: list[RejectedItem] = field(default_factory=list[RejectedItem])


def read_items(items: Sequence[JsonValue], rules: Rules, *, first: int = 0) -> ReadItems:
    """Read the items of one answer from the position `first` on; beyond 500 they are rejected."""
    read = ReadItems()
    for position, item in enumerate(items[:MAX_ITEMS], start=first):
        given = rules.read(position, item)
        if isinstance(given, RejectedItem):
            read.rejected.append(given)
        else:
            read.candidates += given
    _doubt_roles(read)
    detail = f"only the first {MAX_ITEMS} items of an answer are read"
    for position, item in enumerate(items[MAX_ITEMS:], start=first + MAX_ITEMS):
        read.rejected.append(RejectedItem(position, RejectionReason.TOO_MANY, detail, item))
    return read


def _doubt_roles(read: ReadItems) -> None:
    """Doubt all items of a message with a role play or a story, which has no marks around it."""
    roles = {
        each.source.message
        for each in read.candidates
        if as_item(each.item).said_as == WORKED_ON and Doubt.QUOTATION not in each.doubts
    }
    for place, each in enumerate(read.candidates):
        if each.source.message in roles and Doubt.MODEL not in each.doubts:
            read.candidates[place] = replace(each, doubts=(*each.doubts, Doubt.MODEL))


@dataclass(frozen=True, slots=True)
class Synonym:
    """A made-up keyword, and the keyword of the concept that it means."""

    written: str
    keyword: str
    similarity: float


def join_keywords(
    candidates: Sequence[Candidate],
    rules: Rules,
    synonyms: Sequence[Synonym],
    current: CurrentValues,
) -> tuple[list[Candidate], list[JoinedKeyword]]:
    """Replace made-up keywords by known ones with the same meaning; return the replacements too.

    Both keywords stay if the known concept holds one value and has another one.
    """
    asserted: dict[Topic, set[Canonical]] = {}
    for each in candidates:
        if not each.is_retraction:
            asserted.setdefault(topic_of(each), set()).add(each.key)
    by_written = {each.written: each for each in synonyms}
    taken: list[Candidate] = []
    joined: list[JoinedKeyword] = []
    for each in candidates:
        written = each.concept.keyword
        known, similarity = rules.near(written), None
        if known is None and (synonym := by_written.get(written)) is not None:
            known, similarity = rules.concept(synonym.keyword), synonym.similarity
        moved = None if known is None else _move(each, known, rules)
        if moved is None or not _can_join(moved, current, asserted):
            taken.append(each)
            continue
        taken.append(moved)
        entry = JoinedKeyword(written, moved.concept.keyword, similarity)
        if entry not in joined:
            joined.append(entry)
    return taken, joined


def _move(candidate: Candidate, known: Concept[Any, Any], rules: Rules) -> Candidate | None:
    """Move a candidate to another concept; None if its value does not fit there."""
    if not known.detect:
        return None  # only the application writes it
    plain = candidate.concept.codec.dump(candidate.value, candidate.concept.keyword)
    fact_type = known.fact_type
    is_declared = rules.is_declared(known)
    if not is_declared and candidate.concept.fact_type is FactType.MULTIPLE:
        fact_type = FactType.MULTIPLE
    target = Concept(known.keyword, known.description, fact_type, value_type=known.value_type)
    try:
        values = given_values(plain, known if is_declared else target)
    except ValueError:
        return None
    if len(values) != 1:
        return None
    [(key, value)] = values.items()
    concept = known if is_declared else target
    moved = replace(candidate, concept=concept, key=key, value=value, is_declared=is_declared)
    if concept.keyword not in rules.request.followed:
        return moved
    return replace(moved, is_instruction=True, doubts=candidate.as_instruction)


def _can_join(
    moved: Candidate, current: CurrentValues, asserted: Mapping[Topic, set[Canonical]]
) -> bool:
    if moved.is_retraction:
        return current.match(moved) is not None
    if moved.concept.fact_type is FactType.MULTIPLE:
        return True
    topic = topic_of(moved)
    others = set(current.of(topic)) | asserted.get(topic, set())
    return all(same_value(moved.key, other) for other in others)


def new_items(
    read: ReadItems, current: CurrentValues, earlier: EarlierStatements | None
) -> list[int]:
    """Return the positions of the candidates that would change something."""
    known = Verdict(current, earlier)
    return [
        place
        for place, each in enumerate(read.candidates)
        if (each.is_retraction or current.confirmed(each) is None) and not known.is_learnt(each)
    ]


def reconcile(
    read: ReadItems,
    current: CurrentValues,
    *,
    earlier: EarlierStatements | None = None,
    can_forget: bool = True,
) -> "Verdict":
    """Decide what to do about the items of an answer, whose keywords are joined.

    A statement that was learnt before changes nothing. Of contradicting items the one about the
    later message wins. A new value of a declared SINGLE concept replaces the old one, and the
    earlier of two goes into the history. A made-up keyword never loses a value like this: see
    `_settled_type`.
    """
    verdict = Verdict(current, earlier, can_forget=can_forget)
    verdict.report.rejected.extend(read.rejected)
    topics: dict[Topic, list[Candidate]] = {}
    for candidate in read.candidates:
        if verdict.is_learnt(candidate):
            continue
        if candidate.is_proposal:
            verdict.propose(candidate)
            continue
        worded = _as_worded_before(candidate, current)
        topics.setdefault(topic_of(worded), []).append(worded)
    for topic in topics.values():
        verdict.judge(_settled(topic, current))
    verdict.report.rejected.sort(key=lambda each: each.position)
    verdict.report.doubtful.sort(key=lambda each: each.position)
    return verdict


class Verdict:
    """The decisions about the items of an answer."""

    def __init__(
        self,
        current: CurrentValues,
        earlier: EarlierStatements | None = None,
        *,
        can_forget: bool = True,
    ) -> None:
        self._current, self._earlier, self._can_forget = current, earlier, can_forget
        self.report = DetectionReport()
        self.repeated: list[PlacedFact] = []
        """Facts that are current from the same message, for which nothing is written."""
        self.pasted: list[PlacedFact] = []
        """Instructions that may be pasted: only proposed to the caller, not written."""
        self._ended: set[tuple[Topic, Canonical]] = set()

    def is_learnt(self, candidate: Candidate) -> bool:
        """Return whether a statement was learnt before; then record it as repeated."""
        identity, concept, source = candidate.place.identity, candidate.concept, candidate.source
        earlier = self._earlier
        if earlier is None:
            return False
        if candidate.is_retraction:
            if not earlier.has_retraction(identity, concept.keywords, candidate.key, source):
                return False
            self._refuse(candidate, RejectionReason.LEARNT)
            return True
        value = text_of(candidate.key)
        fact = earlier.fact(identity, candidate.digest, concept.keywords, value, source.quote)
        if fact is None:
            return False
        old, held = self._current.learnt(identity, fact["id"]), self._current.confirmed(candidate)
        if old is not None and held is None and concept.fact_type is FactType.MULTIPLE:
            said = Said(concept.keyword, value, source.quote or "")
            words = (text_of(canonical(each)) for each in old.fact.values)
            if not any(said.is_reworded(said._replace(value=each)) for each in words):
                return False  # another value of the same words, which the first reading missed
        held = old or held
        if held is None or candidate.is_proposal:
            self._refuse(candidate, RejectionReason.LEARNT)
        elif held not in self.repeated:
            self.repeated.append(held)
        return True

    def propose(self, candidate: Candidate) -> None:
        """Record a candidate that its quote does not prove as a proposal, or as a retraction."""
        if candidate.is_retraction:
            self._end(candidate, is_proposed=True)
        elif Doubt.PASTED in candidate.doubts:
            self._refuse(candidate, RejectionReason.PASTED)
            fact = replace(fact_of(candidate, candidate.importance), state=FactState.STATED)
            self.pasted.append(PlacedFact(candidate.place, fact))
        elif (known := self._current.confirmed(candidate)) is not None:
            self.repeated.append(known)
        else:
            self._record(candidate, self.report.proposed)

    def judge(self, topic: Sequence[Candidate]) -> None:
        """Decide about the candidates of one concept in one place."""
        for candidate in self._last_words(topic):
            known = self._current.confirmed(candidate)
            if candidate.is_retraction:
                self._end(candidate)
            elif known is None:
                self._record(candidate, self.report.saved)
            else:
                # A model's repetition does not change what the application has set.
                old = known.fact
                fact = fact_of(candidate, old.importance, old.expires_at)
                is_repeat = (
                    candidate.source.conversation is not None
                    and is_same_message(old.id, candidate.digest)
                    and old.source is not None
                    and old.source.quote is not None
                )
                listed = self.repeated if is_repeat else self.report.confirmed
                listed.append(PlacedFact(candidate.place, fact))

    def _last_words(self, topic: Sequence[Candidate]) -> list[Candidate]:
        """Return the candidates about one concept in one place that no later one overrules."""
        latest: dict[Canonical, Candidate] = {}
        for candidate in sorted(topic, key=lambda each: each.order):
            before = latest.get(candidate.key)
            if before is not None and before.is_retraction == candidate.is_retraction:
                self._refuse(candidate, RejectionReason.DUPLICATE)
                continue
            if before is not None:
                self._refuse(before, RejectionReason.SUPERSEDED)
            latest[candidate.key] = candidate
        if topic[0].concept.fact_type is FactType.MULTIPLE:
            return list(latest.values())
        return self._of_one_value(topic, list(latest.values()))

    def _of_one_value(
        self, topic: Sequence[Candidate], candidates: list[Candidate]
    ) -> list[Candidate]:
        """Return the candidates that no other one overrules, if only one value can be true."""
        stated = [each for each in topic if not each.is_retraction]
        newest = max(stated, key=lambda each: (each.is_present, each.order), default=None)
        if newest is None:
            return candidates
        is_taken_back = any(each.is_retraction and each.key == newest.key for each in candidates)
        held: list[Candidate] = []
        for each in candidates:
            is_new = each.is_retraction or self._current.confirmed(each) is None
            is_planned = not (each.is_retraction or each.is_present or (each.is_over and is_new))
            if is_planned or (each.is_retraction if is_taken_back else each.key == newest.key):
                held.append(each)
            elif is_taken_back or each.is_retraction or not is_new:
                self._refuse(each, RejectionReason.SUPERSEDED)
            else:
                fact = fact_of(each, each.importance, is_superseded=True)
                self.report.superseded.append(PlacedFact(each.place, fact))
        return held

    def _end(self, candidate: Candidate, *, is_proposed: bool = False) -> None:
        """Record the end of a value, as a proposal if its quote does not prove it."""
        found = self._current.match(candidate)
        if found is None:
            self._refuse(candidate, RejectionReason.NOT_STORED)
            return
        placed, value = found
        concept = placed.fact.concept
        ended = (topic_of(candidate), canonical(concept.codec.dump(value, concept.keyword)))
        if Doubt.PASTED in candidate.doubts:
            self._refuse(candidate, RejectionReason.PASTED)
        elif not self._can_forget and not is_proposed:
            self._refuse(candidate, RejectionReason.UNSUPPORTED)
        elif ended in self._ended and not is_proposed:
            self._refuse(candidate, RejectionReason.DUPLICATE)
        else:
            if not is_proposed:
                self._ended.add(ended)
            said_at, source = candidate.said_at, candidate.source
            self.report.retracted.append(
                Retraction(placed.place, concept, value, said_at, source, is_proposed)
            )
            self._flag(candidate)

    def _record(self, candidate: Candidate, listed: list[PlacedFact]) -> None:
        listed.append(PlacedFact(candidate.place, fact_of(candidate, candidate.importance)))
        self._flag(candidate)

    def _refuse(self, candidate: Candidate, reason: RejectionReason) -> None:
        self.report.rejected.append(refused(candidate, reason))

    def _flag(self, candidate: Candidate) -> None:
        if candidate.doubts:
            what = candidate.place, candidate.concept, candidate.value, candidate.is_retraction
            is_kept = not candidate.is_proposal
            doubtful = DoubtfulItem(candidate.position, candidate.doubts, *what, is_kept=is_kept)
            self.report.doubtful.append(doubtful)


def _as_worded_before(candidate: Candidate, current: CurrentValues) -> Candidate:
    """Replace a candidate by a confirmation of the value that its message stated before."""
    source = candidate.source
    if candidate.is_retraction or candidate.replaces or candidate.is_instruction:
        return candidate
    if current.confirmed(candidate) is not None:
        return candidate
    for concept, key, placed, value in current.in_place(candidate.place.identity):
        old = placed.fact.source
        if old is None or not is_same_message(placed.fact.id, candidate.digest):
            continue
        said = Said(candidate.concept.keyword, text_of(candidate.key), source.quote or "")
        if said.is_reworded(Said(concept.keyword, text_of(key), old.quote or "")):
            return replace(candidate, concept=concept, key=key, value=value)
    return candidate


def _settled(topic: list[Candidate], current: CurrentValues) -> list[Candidate]:
    """Return the candidates of a topic with the final type of their concept."""
    if topic[0].is_declared:
        return topic
    fact_type = _settled_type(topic, current)
    for place, each in enumerate(topic):
        old = each.concept
        concept = Concept(old.keyword, old.description, fact_type, value_type=old.value_type)
        topic[place] = replace(each, concept=concept) if old.fact_type != fact_type else each
    return topic


def _settled_type(topic: Sequence[Candidate], current: CurrentValues) -> FactType:
    """Return whether a made-up keyword is SINGLE or MULTIPLE.

    MULTIPLE if an item or the store says so, or if a later statement neither corrects nor ends an
    earlier one: a mistaken SINGLE of a model must not lose a value. What the application or a
    person saved as SINGLE stays SINGLE.
    """
    where = topic_of(topic[0])
    if current.is_decided(where):
        return FactType.SINGLE
    is_many = any(each.concept.fact_type is FactType.MULTIPLE for each in topic)
    if is_many or current.fact_type(where) is FactType.MULTIPLE:
        return FactType.MULTIPLE
    held = set(current.of(where))
    for each in sorted(topic, key=lambda each: each.order):
        if not each.is_present:
            continue  # past and planned values do not contradict present ones
        if each.is_retraction:
            held = {key for key in held if not same_value(key, each.key)}
        elif held and not each.replaces and not any(same_value(key, each.key) for key in held):
            return FactType.MULTIPLE
        else:
            held = {each.key}
    return FactType.SINGLE


def fact_of(
    candidate: Candidate,
    importance: float,
    expires_at: datetime | None = None,
    *,
    is_superseded: bool = False,
) -> AnyFact:
    """Return the fact that a candidate states; a proposal if it or its concept needs a decision."""
    concept, source = candidate.concept, candidate.source
    if candidate.doubts:
        source = replace(source, doubts=candidate.doubts)
    waits = concept.review or candidate.is_proposal
    key = candidate.key if isinstance(candidate.key, str) else candidate.key.decode()
    stated: dict[str, Any] = {
        "timestamp": candidate.said_at,
        "importance": importance,
        "source": source,
        "state": FactState.PROPOSED if waits else FactState.STATED,
        "expires_at": expires_at,
        "since": candidate.since,
        "until": candidate.until,
        "id": fact_id(candidate.digest, source, concept.keyword, key, is_past=is_superseded),
    }
    if concept.fact_type is FactType.SINGLE:
        return SingleFact(concept, candidate.value, **stated)
    return MultipleFacts(concept, (candidate.value,), **stated)


_DETAILS = {
    RejectionReason.DUPLICATE: "another item states the same",
    RejectionReason.PASTED: "it is an instruction and may be from pasted text",
    RejectionReason.LEARNT: "it was learnt before",
    RejectionReason.NOT_STORED: "the value that it retracts is not current in that place",
    RejectionReason.SUPERSEDED: "another item about a later message overrules it",
    RejectionReason.UNSUPPORTED: "the provider cannot forget: it has no method 'forget'",
    RejectionReason.NOT_CONFIRMED: "by the verifying call, it does not follow from its message",
}


def refused(candidate: Candidate, reason: RejectionReason) -> RejectedItem:
    """Return the item of a rejected candidate."""
    return RejectedItem(candidate.position, reason, _DETAILS[reason], candidate.item)
