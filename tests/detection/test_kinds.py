"""Wrong and right items of ten kinds in ten languages: how many are stored, and by which check."""

from collections import Counter

import anyio
import pytest

from benchmarks.detection.kinds import cases, counts

KINDS = 10
pytestmark = pytest.mark.storm


@pytest.fixture(scope="module", name="stored")
def counted() -> dict[str, Counter[str]]:
    return anyio.run(counts)


def test_there_are_as_many_cases_as_the_page_says(stored: dict[str, Counter[str]]) -> None:
    assert (stored["all"]["wrong"], stored["all"]["right"]) == (150, 120)
    assert len({case.kind for case in cases()}) == KINDS


def test_rules_by_letters_see_what_no_message_says(stored: dict[str, Counter[str]]) -> None:
    """Placeholders, questions, suggestions and keywords, also if the model calls all stated."""
    for way in ("lying", "no checklist"):
        found = stored[way]
        kinds = ("placeholder", "question", "suggestion", "value", "joined")
        assert [found[f"wrong {kind}"] for kind in kinds] == [0] * len(kinds)
        assert found["right"] >= 0.96 * 120
    assert stored["lying"]["wrong"] <= 0.33 * 150
    assert stored["no checklist"]["wrong"] <= 0.23 * 150


def test_the_rules_do_not_fit_their_own_cases_only() -> None:
    """Cases of twelve kinds that were written before the rules and not seen while they were."""
    found = anyio.run(counts, "-2")
    assert (found["all"]["wrong"], found["all"]["right"]) == (60, 60)
    for way in ("lying", "no checklist"):
        assert found[way]["right"] >= 0.97 * 60
        assert found[way]["wrong"] <= 0.65 * 60


def test_the_checklist_sees_the_rest(stored: dict[str, Counter[str]]) -> None:
    """A model that words an item wrongly, and says truly what its message does."""
    assert stored["checklist"]["wrong"] <= 0.02 * 150
    assert stored["checklist"]["right"] >= 0.97 * 120


def test_a_verifying_call_refuses_wrong_items_only(stored: dict[str, Counter[str]]) -> None:
    """By the answers of a reader, to calls in random order."""
    assert stored["verify"]["wrong"] <= 0.02 * 150
    assert stored["verify"]["right"] >= 0.96 * 120
