"""Wrong arguments of a recall raise at the call, and the error shows a correct call."""

from datetime import timedelta
from typing import Any

import pytest

from factmem.models.facts import Concept
from factmem.providers.in_memory import InMemoryProvider
from factmem.recall.query import RecallSettings
from tests.world import AGENT, ALICE, bare_note, recall_memory


@pytest.mark.parametrize("concepts", ["city", Concept("city", "Where she lives")])
async def test_one_concept_is_no_list_of_them(concepts: Any) -> None:
    """A keyword is an iterable of letters: nothing would be found, without an error."""
    store = InMemoryProvider()
    await store.save(bare_note("city", "Seoul"), ALICE, AGENT)
    memory = recall_memory(store)

    with pytest.raises(TypeError, match=r"concepts=\['city'\]"):
        await memory.recall("Seoul", concepts=concepts)

    assert len(await memory.recall("Seoul", concepts=[concepts])) == 1


@pytest.mark.parametrize("half_life", [30, "30 days"])
async def test_a_half_life_is_a_span_of_time(half_life: Any) -> None:
    """A bare number has no unit."""
    with pytest.raises(TypeError, match=r"half_life=timedelta\(days=30\)"):
        RecallSettings(half_life=half_life)
    with pytest.raises(TypeError, match=r"half_life=timedelta\(days=30\)"):
        await recall_memory(InMemoryProvider()).recall("Seoul", half_life=half_life)

    assert RecallSettings(half_life=timedelta(days=30)).half_life.days == 30
