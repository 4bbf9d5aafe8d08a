"""Wrong and right items of ten kinds in ten languages: how many are stored, and by which check."""

from collections import Counter
from functools import cache, partial

import anyio
import pytest

from benchmarks.detection.kinds import cases, counts

KINDS = 10
pytestmark = pytest.mark.storm


@cache
def counted(part: str) -> dict[str, Counter[str]]:
    return anyio.run(partial(counts, part, verify=not part))


@pytest.fixture(name="stored")
def stored_of_all() -> dict[str, Counter[str]]:
    return counted("")


def test_there_are_as_many_cases_as_the_page_says(stored: dict[str, Counter[str]]) -> None:
    assert (stored["all"]["wrong"], stored["all"]["right"]) == (150, 120)
    assert len({case.kind for case in cases()}) == KINDS


def test_rules_by_letters_see_what_no_message_says(stored: dict[str, Counter[str]]) -> None:
    """Placeholders, questions, suggestions and keywords, also if the model calls all stated."""
    for way in ("all stated", "no checklist"):
        found = stored[way]
        kinds = ("placeholder", "question", "suggestion", "value", "joined")
        assert [found[f"wrong {kind}"] for kind in kinds] == [0] * len(kinds)
        assert found["right"] >= 0.96 * 120
        assert found["wrong"] <= 0.23 * 150


@pytest.mark.parametrize(("part", "count"), [("", 150), ("-2", 60), ("-3", 20)])
def test_the_checklist_sees_the_rest(part: str, count: int) -> None:
    """A model that words an item wrongly, and says truly what its message does.

    The last two were written before the rules for them.
    """
    found = counted(part)

    assert found["all"]["wrong"] == count
    assert found["checklist"]["wrong"] <= 0.02 * count
    assert found["who alone"]["wrong"] <= 0.4 * count
    assert min(each["right"] for each in found.values()) >= 0.96 * found["all"]["right"]


def test_agreement_is_evidence_but_for_what_is_named_apart() -> None:
    """Lists to which a user agrees, in many languages; written before the rule for them."""
    found = counted("-4")

    assert (found["all"]["wrong"], found["all"]["right"]) == (40, 40)
    assert (found["checklist"]["wrong"], found["checklist"]["right"]) == (0, 38)
    assert found["all stated"]["wrong"] <= 4  # 16, before what is named apart was left out


def test_a_verifying_call_refuses_wrong_items_only(stored: dict[str, Counter[str]]) -> None:
    """By the answers of a reader, to calls in random order."""
    assert stored["verify"]["wrong"] <= 0.02 * 150
    assert stored["verify"]["right"] >= 0.96 * 120
