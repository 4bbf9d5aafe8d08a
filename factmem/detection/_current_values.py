"""Current values of the places of a detection.

Matching a model's words, and known values in prompts.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import TypeAlias

from pydantic import JsonValue

from factmem._text.spelling import stems, text_of
from factmem.detection._candidates import Candidate
from factmem.ledger.resolution import PlacedFact
from factmem.models._values import Canonical, canonical
from factmem.models.facts import AnyConcept, FactState, FactType
from factmem.models.places import Identity
from factmem.prompt._escaping import json_line, value_text
from factmem.prompt._transcript import FoldedText, folded
from factmem.prompt.tokens import estimate_tokens

Topic: TypeAlias = tuple[Identity, str]
"""A place and a keyword."""

_MOST_SHARING = 20
"""A word in more values does not distinguish them, and would make the search quadratic."""

KNOWN_TOKENS = 450
"""The most tokens of known values and undeclared concepts in one prompt, the schema included."""
KEYWORD_TOKENS = 80
"""The most tokens of known keywords that are listed without description and values."""

_MOST_READ = 5_000
"""The most values that are ranked: those that were recorded last."""
_MOST_VALUES = 20
"""The most values of one concept: one long list must not hide all others."""
_LONGEST_VALUE = 300
"""In place of a longer value the prompt says that it is too long to show."""
_FRAME = 2
"""The tokens around one value: comma and space."""
_PLACE_FRAME = 22
"""The tokens of a value's subject and scope, where facts can be in several places."""
_DAY_FRAME = 14
"""The tokens of a day and its brackets."""
_CONCEPT_FRAME = 9
"""The tokens around `known`, and of the keyword's quotes in the schema."""
_LEAST_COST = 4
"""With fewer tokens left, no other value fits."""


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
        """Return whether a topic has one value that no model learnt."""
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
            self._words[key] = _words(text)
            for form in (folded(text), FoldedText(text).bare):
                self._by_form.setdefault(form, set()).add(key)
            for word in self._words[key]:
                self._by_word.setdefault(word, set()).add(key)
        text = text_of(wanted)
        words = _words(text)
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
    """Whether two values differ in case, white space and punctuation at most."""
    return one == other or FoldedText(text_of(one)).bare == FoldedText(text_of(other)).bare


def _words(text: str) -> frozenset[str]:
    plain = FoldedText(text).plain.casefold()
    return frozenset("".join(c if c.isalnum() or c in "+#" else " " for c in plain).split())


@dataclass(frozen=True, slots=True)
class KnownValue:
    """A current value as plain JSON, with its place and the day it was said."""

    subject: str
    scope: str
    value: JsonValue
    day: str = ""


@dataclass(frozen=True, slots=True)
class OfferedConcept:
    """A concept whose keyword the model may use."""

    concept: AnyConcept
    has_type: bool
    """Whether the application declared it, so that its value type binds the model."""
    known: Sequence[KnownValue] = ()
    is_brief: bool = False
    """Whether the prompt shows the keyword only, as the budget has no room for more."""

    def known_json(self, *, with_place: bool) -> JsonValue:
        """Return the known values in lists: one for each day, and for each place if asked."""
        days: dict[str, list[JsonValue]] = {}
        groups: dict[tuple[str, str, str], list[JsonValue]] = {}
        for each in self.known:
            days.setdefault(each.day, []).append(each.value)
            groups.setdefault((each.day, each.subject, each.scope), []).append(each.value)
        if not with_place:
            return dict(sorted(days.items()))
        return [
            {"said": day, "subject": subject, "scope": scope, "values": values}
            for (day, subject, scope), values in sorted(groups.items())
        ]


def offered_concepts(
    declared: Sequence[AnyConcept],
    found: Iterable[PlacedFact],
    about: str,
    zone: tzinfo,
    *,
    with_place: bool = False,
) -> list[OfferedConcept]:
    """Return the concepts to show to a model, each with current values.

    All declared concepts are shown. Known concepts and values are shown within the budget: first
    those that share words with the messages, then the most recent ones. The keywords of further
    known concepts are listed, within a budget of their own.
    """
    wanted = stems(about)
    newest = sorted(found, key=lambda each: each.heard_at, reverse=True)
    ranked = [each for placed in newest[:_MOST_READ] for each in _values(placed, zone)]
    ranked.sort(key=lambda each: -_shared(each, wanted))  # stable: the newest of equals first
    offered = {
        concept.keyword: OfferedConcept(concept, has_type=True)
        for concept in {each.keyword: each for each in declared}.values()
    }
    left = KNOWN_TOKENS
    for concept, known in ranked:
        shown = offered.get(concept.keyword) or OfferedConcept(concept, has_type=False)
        cost = _cost(known, shown, is_new=concept.keyword not in offered, with_place=with_place)
        if len(shown.known) < _MOST_VALUES and cost <= left:
            left -= cost
            offered[concept.keyword] = replace(shown, known=(*shown.known, known))
        if left < _LEAST_COST:
            break
    rest = {concept.keyword: concept for concept, _ in ranked if concept.keyword not in offered}
    return [offered[keyword] for keyword in sorted(offered)] + _brief(rest.values())


def _cost(known: KnownValue, shown: OfferedConcept, *, is_new: bool, with_place: bool) -> int:
    cost = estimate_tokens(value_text(known.value)) + _FRAME
    if not any(replace(each, value=known.value) == known for each in shown.known):
        cost += _DAY_FRAME + _PLACE_FRAME * with_place
    if is_new:
        concept = shown.concept
        line = json_line(
            keyword=concept.keyword,
            description=concept.description,
            fact_type=concept.fact_type.value,
        )
        cost += estimate_tokens(line + concept.keyword) + _CONCEPT_FRAME
    return cost


def _brief(concepts: Iterable[AnyConcept]) -> list[OfferedConcept]:
    brief: list[OfferedConcept] = []
    left = KEYWORD_TOKENS
    for concept in concepts:
        left -= estimate_tokens(f"{concept.keyword}, ")
        if left < 0:
            break
        brief.append(OfferedConcept(concept, has_type=False, is_brief=True))
    return brief


def _shared(each: tuple[AnyConcept, KnownValue], wanted: set[str]) -> int:
    concept, known = each
    value = known.value if isinstance(known.value, str) else value_text(known.value)
    words = f"{concept.keyword.replace('-', ' ')} {concept.description} {value}"
    return len(stems(words) & wanted)


def _values(placed: PlacedFact, zone: tzinfo) -> list[tuple[AnyConcept, KnownValue]]:
    concept, place = placed.fact.concept, placed.place
    day = placed.fact.timestamp.astimezone(zone).date().isoformat()
    shown: list[tuple[AnyConcept, KnownValue]] = []
    for value in placed.fact.values:
        try:
            plain = concept.codec.dump(value, concept.keyword)
        except ValueError:  # a user's own provider returned a value that is not JSON
            continue
        if len(value_text(plain)) > _LONGEST_VALUE:
            plain = "(too long to show)"
        known = KnownValue(place.subject.name, place.scope.type.value, plain, day)
        shown.append((concept, known))
    return shown
