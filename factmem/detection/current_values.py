"""Current values of the places of a detection, and their match with a model's words."""

from collections.abc import Iterable
from contextlib import suppress
from typing import TypeAlias

from factmem.detection.candidates import Candidate
from factmem.detection.given_values import text_of
from factmem.ledger.resolution import PlacedFact
from factmem.models.facts import FactType
from factmem.models.places import Identity
from factmem.models.values import Canonical, canonical
from factmem.prompt.quotes import FoldedText, folded

__all__ = ["CurrentValues", "Topic", "same_value", "topic_of"]


Topic: TypeAlias = tuple[Identity, str]
"""A place and a keyword."""


class CurrentValues:
    """The current values of each place, by keyword and canonical form."""

    def __init__(self, found: Iterable[PlacedFact]) -> None:
        self._topics: dict[Topic, _TopicValues] = {}
        for placed in found:
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

    def confirmed(self, candidate: Candidate) -> PlacedFact | None:
        """Return the current fact with the value of a candidate, or None."""
        known = self.of(topic_of(candidate)).get(candidate.key)
        return known[0] if known else None

    def match(self, candidate: Candidate) -> tuple[PlacedFact, object] | None:
        """Return the current value that a candidate refers to, or None.

        The same value; else the only one that differs in case, white space and punctuation; else
        the only one whose words include all of the candidate's words, or the reverse.
        """
        values = self._topics.get(topic_of(candidate))
        return None if values is None else values.match(candidate.key)


class _TopicValues:
    """The values of one keyword in one place. Indexes are built when they are first needed."""

    def __init__(self, fact_type: FactType) -> None:
        self.fact_type = fact_type
        self.by_key: dict[Canonical, tuple[PlacedFact, object]] = {}
        self._by_words: dict[str, set[Canonical]] | None = None
        self._by_form: dict[str, set[Canonical]] = {}
        self._words: dict[Canonical, frozenset[str]] = {}

    def add(self, key: Canonical, placed: PlacedFact, value: object) -> None:
        self.by_key[key] = (placed, value)

    def match(self, wanted: Canonical) -> tuple[PlacedFact, object] | None:
        if wanted in self.by_key:
            return self.by_key[wanted]
        if self._by_words is None:
            self._by_words = self._index()
        text = text_of(wanted)
        forms = (folded(text), FoldedText(text).bare)
        for form in forms:
            found = self._by_form.get(form, set())
            if len(found) == 1:
                return self.by_key[next(iter(found))]
        return self._of_words(_words(text))

    def _index(self) -> dict[str, set[Canonical]]:
        by_words: dict[str, set[Canonical]] = {}
        for key in self.by_key:
            text = text_of(key)
            for form in {folded(text), FoldedText(text).bare}:
                self._by_form.setdefault(form, set()).add(key)
            self._words[key] = _words(text)
            for word in self._words[key]:
                by_words.setdefault(word, set()).add(key)
        return by_words

    def _of_words(self, words: frozenset[str]) -> tuple[PlacedFact, object] | None:
        """Return the only value whose words include the given ones, or the reverse."""
        sharing = sorted(((self._by_words or {}).get(word, set()) for word in words), key=len)
        if not sharing or len(sharing[-1]) > _MOST_SHARING:
            sharing = [keys for keys in sharing if len(keys) <= _MOST_SHARING]
        found = {
            key
            for keys in sharing
            for key in keys
            if self._words[key] <= words or words <= self._words[key]
        }
        return self.by_key[next(iter(found))] if len(found) == 1 else None


_MOST_SHARING = 20
"""A word in more values does not distinguish them, and would make the search quadratic."""


def topic_of(candidate: Candidate) -> Topic:
    """Return the place and the keyword of a candidate."""
    return candidate.place.identity, candidate.concept.keyword


def same_value(one: Canonical, other: Canonical) -> bool:
    """Whether two values differ in case, white space and punctuation at most."""
    return one == other or FoldedText(text_of(one)).bare == FoldedText(text_of(other)).bare


def _words(text: str) -> frozenset[str]:
    plain = FoldedText(text).plain.casefold()
    return frozenset("".join(c if c.isalnum() or c in "+#" else " " for c in plain).split())
