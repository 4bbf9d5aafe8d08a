"""From a model's answer to what is saved: pure, and item by item.

`judged` takes the items of an answer and what is current, and says what to save, what to forget,
what was known, and what is refused. Nothing is written here.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeAlias

from pydantic import BaseModel, JsonValue, field_validator
from pydantic.annotated_handlers import GetJsonSchemaHandler
from pydantic_core import CoreSchema, from_json, to_json

from factmem.detection.candidates import (
    Candidate,
    RejectedItem,
    RejectionReason,
    Rules,
)
from factmem.ledger.resolution import PlacedFact
from factmem.models.facts import (
    AnyFact,
    Concept,
    FactType,
    MultipleFacts,
    SingleFact,
)
from factmem.models.places import Identity, Place
from factmem.models.sources import FactSource
from factmem.models.values import Canonical, canonical
from factmem.prompt.transcript import folded
from factmem.usage import Usage

__all__ = [
    "MAX_ITEMS",
    "Answer",
    "CurrentValues",
    "DetectionReport",
    "Retraction",
    "answer_type",
    "judged",
]


MAX_ITEMS = 500
"""How many items of one answer are looked at; the rest is rejected."""

Topic: TypeAlias = tuple[Identity, str]


@dataclass(frozen=True, slots=True)
class Retraction:
    """A value that is true no longer."""

    place: Place
    concept: Concept[Any, Any]
    value: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class DetectionReport:
    """What came of looking for facts in a chat.

    With `dry_run` it says what would have come of it.
    """

    saved: list[PlacedFact]
    """New facts, each with its source."""
    retracted: list[Retraction]
    """Values that were current, and are not any more."""
    confirmed: list[PlacedFact]
    """Facts that were current already, as they were said again."""
    rejected: list[RejectedItem]
    """Items of the model's answer that were not taken, each with the reason."""
    usage: Usage
    """What the model call cost."""
    is_dry_run: bool = False


class Answer(BaseModel):
    """A model's answer, before any of its items was looked at.

    Items are any JSON: one that is wrong must not cost the others.
    """

    facts: list[JsonValue] = []

    @field_validator("facts", mode="before")
    @classmethod
    def _none_is_empty(cls, facts: object) -> object:
        return [] if facts is None else facts


def answer_type(schema: Mapping[str, JsonValue]) -> type[Answer]:
    """Return the type to ask a model for: `Answer`, with a schema that says what items are."""
    return _answer_type(to_json(schema))


@lru_cache(maxsize=64)
def _answer_type(text: bytes) -> type[Answer]:
    """Return the type for a schema's JSON: one for each, as pydantic takes long to build one."""
    schema: dict[str, JsonValue] = from_json(text)

    class DetectedFacts(Answer):
        @classmethod
        def __get_pydantic_json_schema__(
            cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
        ) -> dict[str, JsonValue]:
            return schema

    return DetectedFacts


class CurrentValues:
    """What is current in each place, by keyword and value."""

    def __init__(self, found: Iterable[PlacedFact]) -> None:
        self._values: dict[Topic, dict[Canonical, tuple[PlacedFact, object]]] = {}
        for placed in found:
            concept = placed.fact.concept
            known = self._values.setdefault((placed.place.identity, concept.keyword), {})
            for value in placed.fact.values:
                with suppress(ValueError):  # a provider of one's own gave what has no JSON
                    key = canonical(concept.codec.dump(value, concept.keyword))
                    known[key] = (placed, value)

    def fact(self, candidate: Candidate) -> AnyFact | None:
        """Return the current fact that a candidate repeats, or None."""
        known = self._of(candidate).get(candidate.key)
        return known[0].fact if known else None

    def retracted(self, candidate: Candidate) -> Retraction | None:
        """Return the current value that a candidate retracts, or None.

        Text counts as the same in other letters: a model seldom copies case and spaces.
        """
        known = self._of(candidate)
        found = known.get(candidate.key)
        if found is None and isinstance(candidate.key, str):
            wanted = folded(candidate.key)
            alike = [
                each
                for key, each in known.items()
                if isinstance(key, str) and folded(key) == wanted
            ]
            found = alike[0] if len(alike) == 1 else None
        if found is None:
            return None
        placed, value = found
        return Retraction(placed.place, placed.fact.concept, value)

    def _of(self, candidate: Candidate) -> dict[Canonical, tuple[PlacedFact, object]]:
        return self._values.get(_topic(candidate), {})


@dataclass(slots=True)
class Verdict:
    """What to do about the items of an answer."""

    saved: list[PlacedFact] = field(default_factory=list[PlacedFact])
    confirmed: list[PlacedFact] = field(default_factory=list[PlacedFact])
    repeated: list[PlacedFact] = field(default_factory=list[PlacedFact])
    """What is current from this very message: nothing is to be written."""
    retracted: list[Retraction] = field(default_factory=list[Retraction])
    rejected: list[RejectedItem] = field(default_factory=list[RejectedItem])


def judged(
    items: Sequence[JsonValue],
    rules: Rules,
    current: CurrentValues,
    *,
    now: datetime,
    can_forget: bool = True,
) -> Verdict:
    """Return what is to be done about the items of an answer.

    Of items that contradict each other the one about the later message holds. A new value of a
    concept that holds one replaces the old one, so that a retraction of it is not needed.

    Args:
        items: The items, in the model's order; beyond the first 500 they are rejected.
        rules: What an item may say.
        current: What is stored.
        now: The time to note for new facts.
        can_forget: Whether the provider can forget.
    """
    verdict = Verdict()
    topics: dict[Topic, list[Candidate]] = {}
    for position, item in enumerate(items[:MAX_ITEMS]):
        read = rules.read(position, item)
        if isinstance(read, RejectedItem):
            verdict.rejected.append(read)
            continue
        for candidate in read:
            topics.setdefault(_topic(candidate), []).append(candidate)
    for topic in topics.values():
        for candidate in _last_words(topic, verdict.rejected):
            _judge(candidate, current, verdict, now=now, can_forget=can_forget)
    detail = f"only the first {MAX_ITEMS} items of an answer are looked at"
    for position, item in enumerate(items[MAX_ITEMS:], start=MAX_ITEMS):
        verdict.rejected.append(RejectedItem(position, RejectionReason.TOO_MANY, detail, item))
    verdict.rejected.sort(key=_position)
    return verdict


def _last_words(topic: list[Candidate], rejected: list[RejectedItem]) -> list[Candidate]:
    """Return the candidates about one concept in one place that hold against the others."""
    latest: dict[Canonical, Candidate] = {}
    for candidate in sorted(topic, key=_order):
        before = latest.get(candidate.key)
        if before is not None and before.is_retraction == candidate.is_retraction:
            rejected.append(_refused(candidate, RejectionReason.DUPLICATE))
            continue
        if before is not None:
            rejected.append(_refused(before, RejectionReason.SUPERSEDED))
        latest[candidate.key] = candidate
    if topic[0].concept.fact_type is FactType.MULTIPLE:
        return list(latest.values())
    return _of_one_value(topic, list(latest.values()), rejected)


def _of_one_value(
    topic: list[Candidate], candidates: list[Candidate], rejected: list[RejectedItem]
) -> list[Candidate]:
    """Return the candidates that hold where only one value can be true."""
    newest = max((each for each in topic if not each.is_retraction), key=_order, default=None)
    if newest is None:
        return candidates
    is_taken_back = any(each.is_retraction and each.key == newest.key for each in candidates)
    held: list[Candidate] = []
    for each in candidates:
        if each.is_retraction if is_taken_back else each.key == newest.key:
            held.append(each)
        else:
            rejected.append(_refused(each, RejectionReason.SUPERSEDED))
    return held


def _judge(
    candidate: Candidate,
    current: CurrentValues,
    verdict: Verdict,
    *,
    now: datetime,
    can_forget: bool,
) -> None:
    known = current.fact(candidate)
    if candidate.is_retraction:
        _judge_retraction(candidate, current, verdict, can_forget=can_forget)
    elif known is None:
        fact = _fact(candidate, now, candidate.importance)
        verdict.saved.append(PlacedFact(candidate.place, fact))
    else:
        # What the application set, a model that says it again does not change.
        fact = _fact(candidate, now, known.importance, known.expires_at)
        is_told = known.source is not None and _message_of(known.source) == _message_of(
            candidate.source
        )
        listed = verdict.repeated if is_told else verdict.confirmed
        listed.append(PlacedFact(candidate.place, fact))


def _judge_retraction(
    candidate: Candidate, current: CurrentValues, verdict: Verdict, *, can_forget: bool
) -> None:
    retraction = current.retracted(candidate)
    if retraction is None:
        verdict.rejected.append(_refused(candidate, RejectionReason.NOT_STORED))
    elif not can_forget:
        verdict.rejected.append(_refused(candidate, RejectionReason.UNSUPPORTED))
    elif retraction in verdict.retracted:
        verdict.rejected.append(_refused(candidate, RejectionReason.DUPLICATE))
    else:
        verdict.retracted.append(retraction)


def _fact(
    candidate: Candidate, now: datetime, importance: float, expires_at: datetime | None = None
) -> AnyFact:
    concept = candidate.concept
    if concept.fact_type is FactType.SINGLE:
        return SingleFact(
            concept,
            candidate.value,
            timestamp=now,
            importance=importance,
            source=candidate.source,
            expires_at=expires_at,
        )
    return MultipleFacts(
        concept,
        (candidate.value,),
        timestamp=now,
        importance=importance,
        source=candidate.source,
        expires_at=expires_at,
    )


def _message_of(source: FactSource) -> tuple[str, str | None, int | None]:
    return source.kind, source.conversation, source.message


_DETAILS = {
    RejectionReason.DUPLICATE: "another item says the same",
    RejectionReason.NOT_STORED: "what it retracts is not current in that place",
    RejectionReason.SUPERSEDED: "another item settles what holds",
    RejectionReason.UNSUPPORTED: "the provider cannot forget: it has no method 'forget'",
}


def _refused(candidate: Candidate, reason: RejectionReason) -> RejectedItem:
    return RejectedItem(candidate.position, reason, _DETAILS[reason], candidate.item)


def _topic(candidate: Candidate) -> Topic:
    return candidate.place.identity, candidate.concept.keyword


def _order(candidate: Candidate) -> tuple[int, int]:
    return candidate.order


def _position(item: RejectedItem) -> int:
    return item.position
