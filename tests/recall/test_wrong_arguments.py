"""Wrong arguments of a recall raise at the call, and the error shows a correct call."""

from datetime import datetime, timedelta
from math import inf, nan
from typing import Any

import pytest

from factmem.models.facts import Concept
from factmem.models.recall_filter import RecallFilter
from factmem.providers.in_memory import InMemoryProvider
from factmem.recall.match import RecallSettings, RecallWeights
from tests.tables import table
from tests.world import AGENT, ALICE, NOW, bare_note, recall_memory
from tests.wrong_calls import Wrong, each_is_refused

WRONG: list[Wrong] = [
    (lambda it: RecallSettings(weights=it), {}, TypeError, r"not dict: weights=RecallWeights\("),
    (lambda it: RecallSettings(half_life=it), 30, TypeError, r"not int: half_life=timedelta\("),
    (lambda it: RecallSettings(half_life=it), "30 days", TypeError, "half_life=timedelta"),
    (lambda it: RecallSettings(half_life=it), timedelta(0), ValueError, "half_life"),
    (lambda it: RecallSettings(half_life=it), -timedelta(1), ValueError, "half_life"),
    (lambda it: RecallWeights(lexical=it), -1.0, ValueError, "lexical must be a number of at le"),
    (lambda it: RecallWeights(recency=it), nan, ValueError, "recency must be a number of at le"),
    (lambda it: RecallWeights(recency=it), "0.2", TypeError, "at least 0, not str: recency="),
    (lambda it: RecallWeights(importance=it), inf, ValueError, "weights must be finite"),
    (lambda it: RecallWeights(lexical=it, semantic=it), 0, ValueError, "`lexical` or `semantic` a"),
]


test_wrong_arguments = each_is_refused(WRONG)


@pytest.mark.parametrize("concepts", ["city", Concept("city", "Where she lives")])
async def test_one_concept_in_place_of_a_list_is_refused(concepts: Any) -> None:
    """A keyword is an iterable of letters: nothing would be found, without an error."""
    store = InMemoryProvider()
    await store.save(bare_note("city", "Seoul"), ALICE, AGENT)
    memory = recall_memory(store)

    with pytest.raises(TypeError, match=r"concepts=\['city'\]"):
        RecallFilter(concepts=concepts)

    wanted = RecallFilter(concepts=[concepts])
    assert len(await memory.recall("Seoul", where=wanted)) == 1


@table(
    ("options", "message"),
    [
        ({"since": datetime(2026, 1, 1)}, "naive"),  # noqa: DTZ001 - that is what is refused
        ({"since": NOW, "until": NOW}, "time range is empty"),
    ],
)
def test_an_invalid_filter_raises(options: dict[str, Any], message: str) -> None:
    """It raises before any recall."""
    with pytest.raises(ValueError, match=message):
        RecallFilter(**options)
