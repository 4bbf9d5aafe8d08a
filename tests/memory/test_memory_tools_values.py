"""Matching of keywords and values that a model writes to the stored ones."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem.memory.agent_memory import AgentMemory
from factmem.memory.tools import match_values
from factmem.models._values import canonical
from factmem.models.facts import Concept, FactType, MultipleFacts, SingleFact
from factmem.providers.in_memory import InMemoryProvider
from tests.memory.test_memory_tools import call, tool
from tests.tables import table
from tests.world import AGE, AGENT, ALICE, PRODUCT, memory_of, note

ANYTHING: Concept[Any, MultipleFacts[Any]] = Concept(
    "anything", "Whatever it is", FactType.MULTIPLE, value_type=Any
)


async def holding(*values: Any) -> InMemoryProvider:
    store = InMemoryProvider()
    await store.save(MultipleFacts(ANYTHING, values), ALICE, AGENT)
    return store


async def left(store: InMemoryProvider) -> list[Any]:
    return [value for fact in await store.load(ANYTHING, ALICE, AGENT) for value in fact.values]


@table(
    ("values", "gone"),
    [
        ("ko", ["ko"]), ("KO", ["ko"]), (" ko ", ["ko"]), ("\uff4b\uff4f", ["ko"]),
        ('"ko"', ["ko"]), (36, [36]), ("36", [36]), ("36.0", [36]), (36.0, [36]), (7, ["7"]),
        ("7", ["7"]), (7.0, ["7"]), (True, [True]), ("True", [True]), ("cafe\u0301", ["café"]),
        (["ko", "36"], ["ko", 36]), ('["ko", 36, "none of them"]', ["ko", 36]), ("[]", []),
        ({"b": 2, "a": 1}, [{"a": 1, "b": 2}]), ('{"b":2, "a":1}', [{"a": 1, "b": 2}]),
        ([["x", "y"]], [["x", "y"]]), ('["x","y"]', [["x", "y"]]), ("*", []), ("all", []),
        ("k", []), (["ko", "ko", "KO"], ["ko"]), ([None], []), (["[", "{", "NaN", "1e999"], []),
    ],
)  # fmt: skip
async def test_values_are_matched_leniently(values: Any, gone: list[Any]) -> None:
    """Numbers and strings, case, and JSON in a string match; similar values do not."""
    everything: list[Any] = ["ko", 36, "7", True, "café", {"a": 1, "b": 2}, ["x", "y"], "other"]
    store = await holding(*everything)

    told = await call(memory_of(store), "forget", concept="anything", values=values)

    assert told == {"forgotten": len(gone)}
    kept = [value for value in everything if canonical(value) not in map(canonical, gone)]
    assert list(map(canonical, await left(store))) == list(map(canonical, kept))


async def test_a_value_that_is_written_exactly_matches_no_other() -> None:
    """Of those that look alike, only the one that was named; without it, all of them."""
    everything: list[Any] = ["Go", "go", 1, "1", '["a"]', "a"]
    store = await holding(*everything)
    memory = memory_of(store)

    assert await call(memory, "forget", concept="anything", values=["go"]) == {"forgotten": 1}
    assert await call(memory, "forget", concept="anything", values=[1]) == {"forgotten": 1}
    assert await call(memory, "forget", concept="anything", values='["a"]') == {"forgotten": 1}
    assert await left(store) == ["Go", "1", "a"]
    await store.save(MultipleFacts(ANYTHING, ["go"]), ALICE, AGENT)
    assert await call(memory, "forget", concept="anything", values="GO") == {"forgotten": 2}


async def test_a_value_of_two_types_is_forgotten_in_both_places() -> None:
    """A number here and a string there: a request to forget it means both."""
    store = InMemoryProvider()
    await store.save(SingleFact(Concept("age", "Age", value_type=int), 36), ALICE, AGENT)
    await store.save(SingleFact(Concept("age", "Age"), "36"), ALICE, PRODUCT)
    await store.save(note("age-of-cat", "36"), ALICE, AGENT)

    assert await call(memory_of(store), "forget", concept="age", values="36 ") == {"forgotten": 2}

    assert await store.load(Concept("age", ""), ALICE, PRODUCT) == []
    assert [fact.concept.keyword for fact in await store.load_all(ALICE, AGENT)] == ["age-of-cat"]


async def test_a_value_of_a_wrong_type_can_be_forgotten() -> None:
    """An unreadable value is still listed."""
    store = InMemoryProvider()
    await store.save(SingleFact(Concept("age", "Age"), "thirty-six"), ALICE, AGENT)
    memory = memory_of(store, concepts=[AGE])

    assert (await call(memory, "list_concepts"))["concepts"][0]["values"] == 1
    assert await call(memory, "forget", concept="age", values="Thirty-Six") == {"forgotten": 1}
    assert await store.load_all(ALICE, AGENT) == []


@pytest.fixture
async def spelled() -> AgentMemory:
    """A memory with concepts that differ only in case, and one in composed form."""
    store = InMemoryProvider()
    for keyword in ("Note", "note", "café-name", "ide-theme", "2024", "c", "c++"):
        await store.save(note(keyword), ALICE, AGENT)
    return memory_of(store)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("note", "note"), ("Note", "Note"), ("cafe\u0301-name", "café-name"),
        ("Café Name", "café-name"), (" ide-theme ", "ide-theme"), ("IDE_Theme", "ide-theme"),
        ("ideTheme", "ide-theme"), ("\uff49\uff44\uff45-theme", "ide-theme"),
        (["ide-theme"], "ide-theme"), (2024, "2024"), ("C++", "c++"), ("C", "c"),
    ],
)  # fmt: skip
async def test_a_keyword_may_have_another_case(
    spelled: AgentMemory, written: Any, meant: str
) -> None:
    """This holds for the forget tool, and for the filter of recall, which takes several."""
    found = await call(spelled, "recall", query="something", concepts=written)
    assert [row["concept"] for row in found["facts"]] == [meant]
    listed = await call(spelled, "recall", query="something", concepts=json.dumps([written, "x"]))
    assert listed["found"] == 1
    before = await spelled.contents.concepts()

    assert await call(spelled, "forget", concept=written) == {"forgotten": 1}

    gone = {each.keyword for each in before} - {
        e.keyword for e in await spelled.contents.concepts()
    }
    assert gone == {meant}


@pytest.mark.parametrize(
    "written",
    ["", "*", "%", "..", "no", "ide-theme\u0000", "ide-theme/..", "x" * 5000, "a\nb", "\ud7ff"],
)
async def test_an_unknown_keyword_forgets_nothing(spelled: AgentMemory, written: str) -> None:
    """It may have any form, because it is only compared with stored keywords."""
    if "theme" in written:
        written = written.replace("theme", "scheme")
    before = await spelled.contents.concepts()

    told = await call(spelled, "forget", concept=written)
    found = await call(spelled, "recall", query="something", concepts=[written])

    assert (told["forgotten"], found["found"]) == (0, 0)
    assert told["note"] == found["note"] == "There is no such concept."
    assert await spelled.contents.concepts() == before


async def test_an_ambiguous_keyword_forgets_nothing(spelled: AgentMemory) -> None:
    """The model gets the reason, and can write the one it means."""
    told = await call(spelled, "forget", concept="NOTE")

    assert (told["forgotten"], "Several concepts" in told["note"]) == (0, True)
    assert (await call(spelled, "recall", query="something", concepts="NOTE"))["found"] == 2


@pytest.mark.parametrize(
    "arguments",
    [
        '{"concept": "ide-theme", "values": ["dar',
        '```json\n{"concept": "ide-theme", "values": ["dar',
        '{"concept": "ide-theme", "values": null}', '{"concept": "ide-theme", "values": []}',
        '{"concept": "ide-theme", "values": ""}', '{"concept": ["ide-theme", "note"]}',
        '{"concept": {"keyword": "ide-theme"}}', '{"concept": null, "values": ["something"]}',
        '{"values": ["something"]}', '["ide-theme"]', "",
    ],
)  # fmt: skip
async def test_truncated_or_malformed_arguments_forget_nothing(
    spelled: AgentMemory, arguments: str
) -> None:
    """A truncated answer must not forget all of a concept."""
    before = await spelled.contents.concepts()

    await tool(spelled, "forget").call(arguments)

    assert await spelled.contents.concepts() == before


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@given(stored=st.lists(_JSON, max_size=5), written=st.lists(_JSON, max_size=3))
def test_only_stored_values_are_matched(stored: list[Any], written: list[Any]) -> None:
    """Exactly written values always match."""
    meant = set(map(canonical, match_values(written, stored)))

    there = set(map(canonical, stored))
    assert meant <= there
    assert there & {canonical(v) for v in written if v == v and v not in (1e999, -1e999)} <= meant
