"""Joins of made-up keywords with known ones of the same words or the same meaning."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from factmem.detection.candidates import Candidate, Rules
from factmem.detection.current_values import CurrentValues, Topic, same_value, topic_of
from factmem.detection.given_values import given_values
from factmem.detection.report import JoinedKeyword
from factmem.detection.synonyms import Synonym
from factmem.models.facts import Concept, FactType
from factmem.models.values import Canonical

__all__ = ["join_keywords"]


def join_keywords(
    candidates: Sequence[Candidate],
    rules: Rules,
    synonyms: Sequence[Synonym],
    current: CurrentValues,
) -> tuple[list[Candidate], list[JoinedKeyword]]:
    """Replace made-up keywords by known ones with the same meaning; return the replacements, too.

    Both keywords stay if the known concept holds one value and has another one.

    Args:
        candidates: What the items state.
        rules: Knows the keywords, and those of the same words.
        synonyms: Made-up keywords that mean another concept.
        current: The stored values.
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
        moved = None if known is None else _moved(each, known, rules)
        if moved is None or not _may_join(moved, current, asserted):
            taken.append(each)
            continue
        taken.append(moved)
        entry = JoinedKeyword(written, moved.concept.keyword, similarity)
        if entry not in joined:
            joined.append(entry)
    return taken, joined


def _moved(candidate: Candidate, known: Concept[Any, Any], rules: Rules) -> Candidate | None:
    """Return a candidate about another concept, or None where its value does not fit that."""
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
    return replace(candidate, concept=concept, key=key, value=value, is_declared=is_declared)


def _may_join(
    moved: Candidate, current: CurrentValues, asserted: Mapping[Topic, set[Canonical]]
) -> bool:
    if moved.is_retraction:
        return current.match(moved) is not None
    if moved.concept.fact_type is FactType.MULTIPLE:
        return True
    topic = topic_of(moved)
    others = set(current.of(topic)) | asserted.get(topic, set())
    return all(same_value(moved.key, other) for other in others)
