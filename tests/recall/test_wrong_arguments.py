"""Wrong arguments of a recall raise at the call, and the error shows a correct call."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from factmem.models.facts import Concept
from factmem.models.recall_filter import RecallFilter
from factmem.providers.in_memory import InMemoryProvider
from factmem.recall.match import RecallSettings
from tests.tables import table
from tests.world import AGENT, ALICE, NOW, bare_note, recall_memory
from tests.wrong_calls import Call, Wrong, check_wrong_call

WRONG: list[Wrong] = [
    (lambda it: RecallSettings(weights=it), {}, TypeError, r"not dict: weights=RecallWeights\("),
    (lambda it: RecallSettings(half_life=it), 30, TypeError, r"not int: half_life=timedelta\("),
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


@pytest.mark.parametrize("half_life", [30, "30 days"])
def test_a_half_life_must_be_a_timedelta(half_life: Any) -> None:
    """A bare number has no unit."""
    with pytest.raises(TypeError, match=r"half_life=timedelta\(days=30\)"):
        RecallSettings(half_life=half_life)

    assert RecallSettings(half_life=timedelta(days=30)).half_life.days == 30
