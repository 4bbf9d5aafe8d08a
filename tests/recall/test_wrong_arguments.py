"""Wrong arguments of a recall raise at the call, and the error shows a correct call."""

from datetime import timedelta
from typing import Any

import pytest

from factmem.models.facts import Concept
from factmem.providers.in_memory import InMemoryProvider
from factmem.recall.query import RecallSettings
from tests.tables import table
from tests.world import AGENT, ALICE, bare_note, recall_memory
from tests.wrong_calls import Call, Wrong, check_wrong_call

WRONG: list[Wrong] = [
    (lambda it: RecallSettings(auto_tokens=it), True, TypeError, "at least 0, not bool"),
    (lambda it: RecallSettings(auto_tokens=it), -5, ValueError, "a number of at least 0"),
    (lambda it: RecallSettings(auto_tokens=it), float("nan"), ValueError, "a number of at least 0"),
    (lambda it: RecallSettings(weights=it), {}, TypeError, r"not dict: weights=RecallWeights\("),
    (lambda it: RecallSettings(min_score=it), "0.2", TypeError, "not str: min_score="),
    (
        lambda it: RecallSettings(prompt_min_score=it),
        None,
        TypeError,
        "not NoneType: prompt_min_score=",
    ),
    (lambda it: RecallSettings(half_life=it), 30, TypeError, r"not int: half_life=timedelta\("),
    (lambda it: RecallSettings(auto_tokens=it), "60", TypeError, "not str: auto_tokens=60"),
    (
        lambda it: RecallSettings(planning_seconds=it),
        timedelta(seconds=5),
        TypeError,
        "not timedelta: planning_seconds=10.0",
    ),
    (
        lambda it: RecallSettings(embedding_seconds=it),
        "5",
        TypeError,
        "not str: embedding_seconds=10.0",
    ),
]


@table(("call", "given", "error", "message"), WRONG)
async def test_wrong_arguments(
    call: Call, given: object, error: type[Exception], message: str
) -> None:
    """Each error names the type and shows a correct call."""
    await check_wrong_call(call, given, error, message)


@pytest.mark.parametrize("concepts", ["city", Concept("city", "Where she lives")])
async def test_one_concept_in_place_of_a_list_is_refused(concepts: Any) -> None:
    """A keyword is an iterable of letters: nothing would be found, without an error."""
    store = InMemoryProvider()
    await store.save(bare_note("city", "Seoul"), ALICE, AGENT)
    memory = recall_memory(store)

    with pytest.raises(TypeError, match=r"concepts=\['city'\]"):
        await memory.recall("Seoul", concepts=concepts)

    assert len(await memory.recall("Seoul", concepts=[concepts])) == 1


@pytest.mark.parametrize("half_life", [30, "30 days"])
async def test_a_half_life_must_be_a_timedelta(half_life: Any) -> None:
    """A bare number has no unit."""
    with pytest.raises(TypeError, match=r"half_life=timedelta\(days=30\)"):
        RecallSettings(half_life=half_life)
    with pytest.raises(TypeError, match=r"half_life=timedelta\(days=30\)"):
        await recall_memory(InMemoryProvider()).recall("Seoul", half_life=half_life)

    assert RecallSettings(half_life=timedelta(days=30)).half_life.days == 30
