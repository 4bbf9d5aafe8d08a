"""Whatever a model writes as arguments, each tool answers with text."""

import json
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from tests.properties import examples
from tests.world import AGENT, ALICE, found_facts, languages, memory_of, theme

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**63, -(2**70), 10**400])
    | st.floats()
    | st.text(st.characters(codec=None), max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=8,
)
RIGHT: dict[str, dict[str, Any]] = {
    "recall": {"query": "theme", "limit": 3, "concepts": ["theme"], "since": "2026-05-17"},
    "list_concepts": {},
    "remember": {"text": "I like tea."},
    "save": {"concept": "drink", "value": "tea", "about": "What she drinks", "add": True},
    "forget": {"concept": "languages", "values": ["ko", "en"]},
}
surrogates = st.sampled_from(["\ud83d", ["ko", "\ud83d"], [["\ud83d"]], {"\ud83d": 1}])


def _nested(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


deep = st.builds(_nested, st.just("x"), st.sampled_from([150, 210, 300, 900]))


@st.composite
def arguments(draw: st.DrawFn, action: str) -> Any:
    """Return the right arguments of a tool but for some, as an object or as JSON."""
    given = dict(RIGHT[action])
    for name in draw(st.lists(st.sampled_from([*given, "other"]), min_size=1, max_size=2)):
        given[name] = draw(surrogates | deep | anything)
    return draw(st.sampled_from([given, json.dumps(given, default=str)]) | anything | st.text())


async def _answer(action: str, given: Any) -> str:
    """Call a tool of a new memory."""
    store = InMemoryProvider()
    await store.save(theme("dark"), ALICE, AGENT)
    await store.save(languages("en", "ko"), ALICE, AGENT)
    memory = memory_of(store, ScriptedChatModel(found_facts()))
    [tool] = [each for each in memory.tools(save=True) if each.action == action]
    return await tool.call(given)


@pytest.mark.storm
@pytest.mark.parametrize("action", RIGHT)
@settings(max_examples=examples(300))
@given(data=st.data())
def test_each_tool_answers_with_text(action: str, data: st.DataObject) -> None:
    """Lone surrogates, NaN, wide integers, nesting, other types: never an exception."""
    answer = anyio.run(_answer, action, data.draw(arguments(action)))

    answer.encode()
    if not answer.startswith("Error: "):
        json.loads(answer)
