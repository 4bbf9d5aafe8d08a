"""Reconciliation of a model's answer with the stored values: pure, item by item.

`read_items` validates the items of an answer. `reconcile` compares them with each other and with
the current values, and decides what to save, retract, confirm and reject. Nothing is written here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from pydantic import JsonValue

from factmem._text.spelling import text_of
from factmem.detection._candidates import Candidate, Rules
from factmem.detection._current_values import CurrentValues, Topic, same_value, topic_of
from factmem.detection._earlier import EarlierStatements, Said, fact_id, is_same_message
from factmem.detection._items import WORKED_ON, as_item
from factmem.detection.report import (
    DetectionReport,
    Doubt,
    DoubtfulItem,
    RejectedItem,
    RejectionReason,
    Retraction,
)
from factmem.ledger.resolution import PlacedFact
from factmem.models._values import Canonical, canonical
from factmem.models.facts import AnyFact, Concept, FactState, FactType, MultipleFacts, SingleFact

MAX_ITEMS = 500
"""The most items of one answer; the rest is rejected."""


@dataclass(slots=True)
class ReadItems:
    """The items of an answer: candidates and rejected items."""

    candidates: list[Candidate] = field(default_factory=list[Candidate])
    rejected: list[RejectedItem] = field(default_factory=list[RejectedItem])


@dataclass(slots=True)
class Verdict:
    """The decisions about the items of an answer."""

    report: DetectionReport = field(default_factory=DetectionReport)
    repeated: list[PlacedFact] = field(default_factory=list[PlacedFact])
    """Facts that are current from the same message: nothing is written."""
    pasted: list[PlacedFact] = field(default_factory=list[PlacedFact])
    """Instructions that may be pasted: proposed to the caller only, nothing is written."""
    ended: set[tuple[Topic, Canonical]] = field(default_factory=set[tuple[Topic, Canonical]])
    """The values of `report.retracted`, for a fast look-up."""


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
    """Doubt all of a message of which a part is to work on without marks: a role, or a story."""
    roles = {
        each.source.message
        for each in read.candidates
        if as_item(each.item).said_as == WORKED_ON and Doubt.QUOTATION not in each.doubts
    }
    for place, each in enumerate(read.candidates):
        if each.source.message in roles and Doubt.MODEL not in each.doubts:
            read.candidates[place] = replace(each, doubts=(*each.doubts, Doubt.MODEL))


def new_items(
    read: ReadItems, current: CurrentValues, earlier: EarlierStatements | None
) -> list[int]:
    """Return the positions of the candidates that would change something."""
    known = Verdict()
    return [
        place
        for place, each in enumerate(read.candidates)
        if (each.is_retraction or current.confirmed(each) is None)
        and (earlier is None or not _is_learnt(each, earlier, current, known))
    ]


def reconcile(
    read: ReadItems,
    current: CurrentValues,
    *,
    earlier: EarlierStatements | None = None,
    can_forget: bool = True,
) -> Verdict:
    """Decide what to do about the items of an answer, whose keywords are joined.

    A statement that was learnt before changes nothing. Of contradicting items the one about the
    later message wins. A new value of a declared SINGLE concept replaces the old one, and the
    earlier of two goes into the history. A made-up keyword never loses a value like this: see
    `_settled_type`.
    """
    verdict = Verdict(DetectionReport(rejected=list(read.rejected)))
    topics: dict[Topic, list[Candidate]] = {}
    for candidate in read.candidates:
        if earlier is not None and _is_learnt(candidate, earlier, current, verdict):
            continue
        if candidate.is_proposal:
            _propose(candidate, current, verdict)
            continue
        worded = _as_worded_before(candidate, current)
        topics.setdefault(topic_of(worded), []).append(worded)
    for topic in topics.values():
        settled = _settled(topic, current)
        for candidate in _last_words(settled, current, verdict):
            _judge(candidate, current, verdict, can_forget=can_forget)
    verdict.report.rejected.sort(key=lambda each: each.position)
    verdict.report.doubtful.sort(key=lambda each: each.position)
    return verdict


def _is_learnt(
    candidate: Candidate, earlier: EarlierStatements, current: CurrentValues, verdict: Verdict
) -> bool:
    """Whether a statement was learnt before, and then record that in the verdict."""
    identity, concept, source = candidate.place.identity, candidate.concept, candidate.source
    if candidate.is_retraction:
        if not earlier.has_retraction(identity, concept.keywords, candidate.key, source):
            return False
        verdict.report.rejected.append(refused(candidate, RejectionReason.LEARNT))
        return True
    value = text_of(candidate.key)
    fact = earlier.fact(identity, candidate.digest, concept.keywords, value, source.quote)
    if fact is None:
        return False
    old, held = current.learnt(identity, fact["id"]), current.confirmed(candidate)
    if old is not None and held is None and concept.fact_type is FactType.MULTIPLE:
        said = Said(concept.keyword, value, source.quote or "")
        words = (text_of(canonical(each)) for each in old.fact.values)
        if not any(said.is_reworded(said._replace(value=each)) for each in words):
            return False  # another value of the same words, which the first reading missed
    held = old or held
    if held is None or candidate.is_proposal:
        verdict.report.rejected.append(refused(candidate, RejectionReason.LEARNT))
    elif held not in verdict.repeated:
        verdict.repeated.append(held)
    return True


def _as_worded_before(candidate: Candidate, current: CurrentValues) -> Candidate:
    """Return a candidate as a confirmation of the current value that its message stated before."""
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


def _propose(candidate: Candidate, current: CurrentValues, verdict: Verdict) -> None:
    """Record a candidate that its quote does not prove as a proposal, or as a retraction of one."""
    if candidate.is_retraction:
        found = current.match(candidate)
        if found is None:
            verdict.report.rejected.append(refused(candidate, RejectionReason.NOT_STORED))
        elif Doubt.PASTED in candidate.doubts:
            verdict.report.rejected.append(refused(candidate, RejectionReason.PASTED))
        else:
            placed, value = found
            said_at, source = candidate.said_at, candidate.source
            ended = Retraction(placed.place, placed.fact.concept, value, said_at, source, True)
            verdict.report.retracted.append(ended)
            _flag(candidate, verdict)
    elif Doubt.PASTED in candidate.doubts:
        verdict.report.rejected.append(refused(candidate, RejectionReason.PASTED))
        fact = replace(fact_of(candidate, candidate.importance), state=FactState.STATED)
        verdict.pasted.append(PlacedFact(candidate.place, fact))
    elif (known := current.confirmed(candidate)) is not None:
        verdict.repeated.append(known)
    else:
        fact = fact_of(candidate, candidate.importance)
        verdict.report.proposed.append(PlacedFact(candidate.place, fact))
        _flag(candidate, verdict)


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
            continue  # what was, or will be, contradicts nothing that is
        if each.is_retraction:
            held = {key for key in held if not same_value(key, each.key)}
        elif held and not each.replaces and not any(same_value(key, each.key) for key in held):
            return FactType.MULTIPLE
        else:
            held = {each.key}
    return FactType.SINGLE


def _last_words(
    topic: list[Candidate], current: CurrentValues, verdict: Verdict
) -> list[Candidate]:
    """Return the candidates about one concept in one place that no other one overrules."""
    latest: dict[Canonical, Candidate] = {}
    for candidate in sorted(topic, key=lambda each: each.order):
        before = latest.get(candidate.key)
        if before is not None and before.is_retraction == candidate.is_retraction:
            verdict.report.rejected.append(refused(candidate, RejectionReason.DUPLICATE))
            continue
        if before is not None:
            verdict.report.rejected.append(refused(before, RejectionReason.SUPERSEDED))
        latest[candidate.key] = candidate
    if topic[0].concept.fact_type is FactType.MULTIPLE:
        return list(latest.values())
    return _of_one_value(topic, list(latest.values()), current, verdict)


def _of_one_value(
    topic: list[Candidate], candidates: list[Candidate], current: CurrentValues, verdict: Verdict
) -> list[Candidate]:
    """Return the candidates that no other one overrules if only one value can be true."""
    stated = [each for each in topic if not each.is_retraction]
    newest = max(stated, key=lambda each: (each.is_present, each.order), default=None)
    if newest is None:
        return candidates
    is_taken_back = any(each.is_retraction and each.key == newest.key for each in candidates)
    held: list[Candidate] = []
    for each in candidates:
        is_new = each.is_retraction or current.confirmed(each) is None
        is_planned = not (each.is_retraction or each.is_present or (each.is_over and is_new))
        if is_planned or (each.is_retraction if is_taken_back else each.key == newest.key):
            held.append(each)
        elif is_taken_back or each.is_retraction or current.confirmed(each) is not None:
            verdict.report.rejected.append(refused(each, RejectionReason.SUPERSEDED))
        else:
            fact = fact_of(each, each.importance, is_superseded=True)
            verdict.report.superseded.append(PlacedFact(each.place, fact))
    return held


def _judge(
    candidate: Candidate, current: CurrentValues, verdict: Verdict, *, can_forget: bool
) -> None:
    known = current.confirmed(candidate)
    if candidate.is_retraction:
        _judge_retraction(candidate, current, verdict, can_forget=can_forget)
    elif known is None:
        fact = fact_of(candidate, candidate.importance)
        verdict.report.saved.append(PlacedFact(candidate.place, fact))
        _flag(candidate, verdict)
    else:
        # A repetition by a model does not change what the application set.
        old = known.fact
        fact = fact_of(candidate, old.importance, old.expires_at)
        is_repeat = (
            candidate.source.conversation is not None
            and is_same_message(old.id, candidate.digest)
            and old.source is not None
            and old.source.quote is not None
        )
        listed = verdict.repeated if is_repeat else verdict.report.confirmed
        listed.append(PlacedFact(candidate.place, fact))


def _judge_retraction(
    candidate: Candidate, current: CurrentValues, verdict: Verdict, *, can_forget: bool
) -> None:
    found = current.match(candidate)
    if found is None:
        verdict.report.rejected.append(refused(candidate, RejectionReason.NOT_STORED))
        return
    placed, value = found
    concept, said_at = placed.fact.concept, candidate.said_at
    retraction = Retraction(placed.place, concept, value, said_at, candidate.source)
    ended = (topic_of(candidate), canonical(concept.codec.dump(value, concept.keyword)))
    if not can_forget:
        verdict.report.rejected.append(refused(candidate, RejectionReason.UNSUPPORTED))
    elif ended in verdict.ended:
        verdict.report.rejected.append(refused(candidate, RejectionReason.DUPLICATE))
    else:
        verdict.ended.add(ended)
        verdict.report.retracted.append(retraction)
        _flag(candidate, verdict)


def _flag(candidate: Candidate, verdict: Verdict) -> None:
    if candidate.doubts:
        what = candidate.place, candidate.concept, candidate.value, candidate.is_retraction
        is_kept = not candidate.is_proposal
        doubtful = DoubtfulItem(candidate.position, candidate.doubts, *what, is_kept=is_kept)
        verdict.report.doubtful.append(doubtful)


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
    RejectionReason.NOT_CONFIRMED: "the verifying call found that it does not follow from its message",
}


def refused(candidate: Candidate, reason: RejectionReason) -> RejectedItem:
    """Return the item of a rejected candidate."""
    return RejectedItem(candidate.position, reason, _DETAILS[reason], candidate.item)
