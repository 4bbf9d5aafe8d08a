"""Wrong arguments raise at the call; the errors show a correct call and no value."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from unittest.mock import AsyncMock, MagicMock, create_autospec

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factmem.agent.agent import Agent
from factmem.embedding.base import CallableEmbedder, Embedder
from factmem.events import MemoryEvent
from factmem.llm.openai import OpenAIChatModel
from factmem.memory.agent_memory import AgentMemory
from factmem.models.places import MemoryScopesProfile, MemoryScopeType, Place
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.storages import SimpleStorage
from factmem.providers.store import FactStore
from factmem.testing.chat import ScriptedChatModel
from tests.doubles import BareProvider
from tests.properties import examples
from tests.tables import table
from tests.world import (
    AGENT,
    ALICE,
    PROFILE,
    THEME,
    USER,
    found_facts,
    item,
    languages,
    memory_of,
    theme,
)
from tests.wrong_calls import MESSAGES, SECRET


class Client:
    """An object that is neither model nor embedder, and has other methods."""

    api_key = SECRET

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        raise NotImplementedError


def embed(texts: Sequence[str]) -> list[list[float]]:
    return [[1.0] for _ in texts]


WRONG: list[tuple[str, object, str]] = [
    ("provider", SECRET, r"str has no save, .*LocalFileMemoryProvider\(path\)"),
    ("provider", SimpleStorage(), "SimpleStorage has no save"),
    ("chat_model", SECRET, r"str has no .*extract: chat_model=OpenAIChatModel\(name\)"),
    ("chat_model", Client(), r"Client has no .*OpenAIChatModel\(name, client=client\)"),
    ("chat_model", OpenAIChatModel, "the class OpenAIChatModel has no"),
    ("embedder", embed, r"function has no embed: .* CallableEmbedder\(function, model="),
    ("embedder", Client(), "Client has no model and dimensions"),
    ("detection", {}, r"not dict: detection=Detection\("),
    ("scopes", AGENT, r"not MemoryScope: scopes=MemoryScopesProfile\(agent="),
    ("scopes", MemoryScopesProfile, "not the class MemoryScopesProfile"),
    ("subjects", ALICE, r"subjects=\[USER\.of\('alice'\)\]"),
    ("concepts", "theme", r"not str: concepts=\[AGE\]"),
    ("concepts", ["theme"], "concepts must be a list of Concept, not of str"),
    ("clock", datetime.now(UTC), r"not datetime: clock=lambda: datetime\.now\(UTC\)"),
    ("recall_settings", {}, r"not dict: recall_settings=RecallSettings\("),
    ("message_form", {}, r"not dict: message_form=MessageForm\("),
    ("listeners", print, r"not builtin_function_or_method: listeners=\[print\]"),
    ("listeners", [1], r"not int: listeners=\[print\]"),
    ("listeners", [MemoryEvent], r"not the class MemoryEvent"),
]


MAKES: list[Callable[..., object]] = [
    lambda options: AgentMemory(options.pop("provider"), **options),
    lambda options: Agent(ScriptedChatModel()).install(AgentMemory, **options),
]
"""An installed memory is checked in the same way."""


@pytest.mark.parametrize("make", MAKES, ids=["constructor", "install"])
@table(("name", "given", "message"), WRONG, ids=range(len(WRONG)))
def test_wrong_constructor_arguments_of_a_memory_raise(
    make: Callable[..., object], name: str, given: Any, message: str
) -> None:
    """The alternative is an AttributeError at the first question, hours later."""
    scopes = MemoryScopesProfile(agent="desk")

    with pytest.raises(TypeError, match=message) as caught:
        make({"provider": InMemoryProvider(), "scopes": scopes, name: given})

    assert SECRET not in str(caught.value)


def test_a_key_in_the_place_of_an_embedder_is_not_shown() -> None:
    """A name that is none may be a secret, passed to the wrong argument."""
    with pytest.raises(ValueError, match="must have a provider and a model") as caught:
        AgentMemory(InMemoryProvider(), embedder=SECRET)

    assert SECRET not in str(caught.value)


PLACE = Place(AGENT, ALICE)


@table(
    ("options", "message"),
    [
        ({"subjects": ALICE}, r"subjects=\[USER\.of\('alice'\)\]"),
        ({"subjects": "alice"}, "subjects must be a list"),
        ({"subjects": ["alice"]}, "subjects must be a list"),
        ({"subjects": [AGENT]}, "subjects must be a list"),
        ({"scopes": "agent/bot"}, "scopes must be a list"),
        ({"scopes": MemoryScopeType.AGENT}, "scopes must be a list"),
        ({"scopes": ["agent/bot"]}, r"MemoryScope.parse\("),
        ({"scopes": AGENT}, r"scopes=\[MemoryScope\.Product\('my-app'\)\]"),
        ({"places": PLACE}, r"places=\[Place\("),
        ({"places": [(AGENT, ALICE)]}, r"places=\[Place\("),
    ],
)
def test_a_view_needs_lists(options: dict[str, Any], message: str) -> None:
    """A view that shows something else than was meant would be worse than none."""
    with pytest.raises(TypeError, match=message):
        memory_of().view(**options)


Attempt = Callable[[Any], Any]


CALLS: list[tuple[Attempt, str]] = [
    (lambda m: m.remember("I like tea", source=7), "not int: source='ticket-7'"),
    (lambda m: m.remember([["I like tea"]]), "text must be a list of str, not of list"),
    (lambda m: m.remember(7), r"text must be a list of str, not int: memory\.remember\("),
    (lambda m: m.auto_detect_facts([], detection={}), r"not dict: detection=Detection\("),
    (lambda m: m.contents.forget(concept=THEME, subjects=ALICE), r"subjects=\[USER\.of"),
    (lambda m: m.contents.forget(concept=THEME, scopes=AGENT), r"scopes=\[MemoryScope"),
    (lambda m: m.contents.records("5"), "limit must be an int of at least 0, not str"),
    (lambda m: m.recall("theme", limit="5"), "limit must be an int of at least 1, not str"),
    (lambda m: m.recall("theme", subjects=ALICE), r"subjects=\[USER\.of"),
    (lambda m: m.boundary.narrowed(places=[ALICE]), "not of MemorySubject"),
    (lambda m: m.load_facts_to_agent(SECRET), r"memory\.remember\("),
    (lambda m: m.load_facts_to_agent(None, THEME), "not NoneType: .*role"),
    (lambda m: m.load_facts_to_agent([], "t"), r"not str: Concept\(keyw"),
    (lambda m: m.recall_facts_to_agent(()), f"{MESSAGES}, because they are changed"),
    (lambda m: m.recall_facts_to_agent([], 5), "question must be a str"),
    (lambda m: m.recall(None), "question must be a str, not NoneType"),
    (lambda m: m.auto_detect_facts([SECRET]), "messages must contain dicts"),
]


@table(("attempt", "message"), CALLS, ids=range(len(CALLS)))
async def test_calls_check_their_arguments(attempt: Attempt, message: str) -> None:
    """The error comes before a model call and before any read or write."""
    model, store = ScriptedChatModel(), InMemoryProvider()

    with pytest.raises((TypeError, ValueError), match=message) as caught:
        await attempt(memory_of(store, model))

    assert SECRET not in str(caught.value)
    assert model.calls == []
    assert await store.places() == []


class Delegating:
    """A common kind of wrapper, which has no methods of its own."""

    def __init__(self, wrapped: object) -> None:
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> object:
        return getattr(self._wrapped, name)


class Costly:
    """An embedder that loads its model when an attribute is read."""

    @property
    def model(self) -> str:
        raise AssertionError("accessed too early")

    @property
    def dimensions(self) -> int | None:
        raise AssertionError("accessed too early")

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return embed(texts)


async def test_a_users_own_parts_are_accepted() -> None:
    """Four methods make a provider; a wrapper is accepted as the object that it wraps."""
    for provider in (BareProvider(), Delegating(InMemoryProvider())):
        model: Any = Delegating(ScriptedChatModel({"facts": [item()]}))
        embedder: Any = Delegating(CallableEmbedder(embed, model="one"))
        given: Any = provider
        memory = memory_of(given, model, embedder=embedder)

        await memory.remember("I prefer the dark theme.")

        result = await memory.recall("Which theme?")
        assert [match.fact.values for match in result] == [("dark",)]
        assert result.is_semantic


def test_the_constructor_accesses_no_property_of_its_arguments() -> None:
    """A property may load a model of a gigabyte."""
    assert memory_of(embedder=Costly()).boundary.is_read_only is False


@pytest.mark.parametrize("double", [MagicMock, AsyncMock])
async def test_mocks_are_accepted(double: Callable[[], Any]) -> None:
    """Tests of applications pass objects of `unittest.mock`."""
    provider = double()
    provider.load_all = AsyncMock(return_value=[theme("dark")])
    provider.load = AsyncMock(return_value=[theme("dark")])

    memory = AgentMemory(
        provider,
        chat_model=double(),
        embedder=double(),
        scopes=PROFILE,
        subjects=[ALICE],
        listeners=[double()],
    )

    assert [fact.value for fact in await memory.current(THEME)] == ["dark"]


async def test_mocks_with_a_specification_are_accepted() -> None:
    """They have the specification of a protocol or a class, and are instances of neither."""
    for provider in (
        create_autospec(InMemoryProvider, instance=True),
        MagicMock(spec=FactStore),
        AsyncMock(spec_set=InMemoryProvider),
    ):
        provider.load = AsyncMock(return_value=[])
        memory = memory_of(provider, embedder=MagicMock(spec=Embedder))

        assert await memory.view(subjects=[USER.of("bob")]).current(THEME) == []


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
