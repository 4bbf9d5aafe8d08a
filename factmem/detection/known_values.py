"""Known concepts and values as a prompt shows them, within a budget of tokens."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo

from pydantic import JsonValue

from factmem.detection.words import stems
from factmem.ledger.resolution import PlacedFact
from factmem.models.facts import AnyConcept
from factmem.prompt.escaping import value_text
from factmem.prompt.tokens import estimate_tokens

__all__ = ["KNOWN_TOKENS", "KnownValue", "OfferedConcept", "offered_concepts"]


KNOWN_TOKENS = 700
"""The most tokens of known values and undeclared concepts in one prompt."""

_MOST_READ = 5_000
"""The most values that are ranked: those that were recorded last."""
_MOST_VALUES = 20
"""The most values of one concept: one long list must not hide all others."""
_LONGEST_VALUE = 300
_FRAME = 14
"""The tokens around one value: its braces, keys and day."""
_CONCEPT_FRAME = 26


@dataclass(frozen=True, slots=True)
class KnownValue:
    """A current value as plain JSON, with its place and the day it was said."""

    subject: str
    scope: str
    value: JsonValue
    day: str = ""

    def shown(self, *, with_place: bool) -> JsonValue:
        """Return the value as a prompt shows it; the place where facts can be in several."""
        place: dict[str, JsonValue] = {"subject": self.subject, "scope": self.scope}
        said: dict[str, JsonValue] = {"said": self.day} if self.day else {}
        return (place if with_place else {}) | {"value": self.value} | said


@dataclass(frozen=True, slots=True)
class OfferedConcept:
    """A concept whose keyword the model may use."""

    concept: AnyConcept
    has_type: bool
    """Whether the application declared it, so that its value type binds the model."""
    known: Sequence[KnownValue] = ()


def offered_concepts(
    declared: Sequence[AnyConcept],
    found: Iterable[PlacedFact],
    about: str,
    zone: tzinfo,
    *,
    max_tokens: int = KNOWN_TOKENS,
) -> list[OfferedConcept]:
    """Return the concepts to show to a model, each with current values.

    All declared concepts are shown. Known concepts and values come within the budget: first those
    that share words with the messages, then those that were recorded last.

    Args:
        declared: The concepts that the application declared.
        found: What is current.
        about: The text of the messages.
        zone: The time zone of the conversation's days.
        max_tokens: The budget of known values and of concepts that are not declared.
    """
    wanted = stems(about)
    newest = sorted(found, key=_heard_at, reverse=True)
    ranked = [each for placed in newest[:_MOST_READ] for each in _values(placed, zone)]
    ranked.sort(key=lambda each: -_shared(each, wanted))  # stable: the newest of equals first
    typed = {concept.keyword: concept for concept in declared}
    offered = {
        keyword: OfferedConcept(concept, has_type=True) for keyword, concept in typed.items()
    }
    left = max_tokens
    for concept, known in ranked:
        cost = estimate_tokens(value_text(known.value)) + _FRAME
        shown = offered.get(concept.keyword)
        if shown is None:
            shown = OfferedConcept(concept, has_type=False)
            words = f"{concept.keyword} {concept.description}"
            cost += estimate_tokens(words) + _CONCEPT_FRAME
        if len(shown.known) >= _MOST_VALUES:
            continue
        if cost > left:
            if left < _FRAME + _CONCEPT_FRAME:
                break
            continue
        left -= cost
        offered[concept.keyword] = replace(shown, known=(*shown.known, known))
    return [offered[keyword] for keyword in sorted(offered)]


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


def _heard_at(placed: PlacedFact) -> datetime:
    return placed.heard_at
