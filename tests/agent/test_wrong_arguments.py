"""Wrong arguments of an agent raise in the constructor, not in the first run."""

from typing import Any

import pytest

from factmem.agent.agent import Agent
from factmem.memory.agent_memory import AgentMemory
from factmem.models.scopes import MemoryScopesProfile
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from tests.tables import table

SECRET = "sk-secret"


class Silent:
    """A feature that does nothing."""

    async def before_model(self, context: object) -> None: ...

    async def after_answer(self, context: object) -> None: ...

    async def aclose(self) -> None: ...


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"chat_model": SECRET}, TypeError, r"str has no respond: Agent\(OpenAIChatModel\(name\)\)"),
    ({"chat_model": None}, TypeError, "NoneType has no respond"),
    ({"chat_model": ScriptedChatModel}, TypeError, "the class ScriptedChatModel has no respond"),
    ({"chat_model": InMemoryProvider()}, TypeError, "InMemoryProvider has no respond"),
    ({"max_steps": "3"}, TypeError, "not str: max_steps=20"),
    ({"max_steps": True}, TypeError, "not bool: max_steps=20"),
    ({"max_steps": 0}, ValueError, "at least 1"),
    ({"tools": print}, TypeError, r"not builtin_function_or_method: tools=\[look_up\]"),
    ({"tools": None}, TypeError, r"not NoneType: tools=\[look_up\]"),
    ({"tools": [5]}, TypeError, r"not int: tools=\[look_up\]"),
    ({"system_prompt": None}, TypeError, "system_prompt must be a str, not NoneType"),
    ({"on_background_failure": SECRET}, TypeError, "not str: on_background_failure="),
]


@table(("options", "error", "told"), WRONG, ids=range(len(WRONG)))
def test_an_agent_of_what_it_cannot_be_made_of(
    options: dict[str, Any], error: type[Exception], told: str
) -> None:
    """With what to write instead, and without the value, which may be a key."""
    with pytest.raises(error, match=told) as caught:
        Agent(**{"chat_model": ScriptedChatModel(), **options})

    assert SECRET not in str(caught.value)


def _memory() -> AgentMemory:
    return AgentMemory(InMemoryProvider(), scopes=MemoryScopesProfile(agent="desk"))


@pytest.mark.parametrize(
    ("feature", "told"),
    [
        (_memory(), r"not an instance of AgentMemory: agent\.install\(AgentMemory, provider="),
        (Silent(), "not an instance of Silent"),
        (SECRET, r"instance of str: agent\.install\(AgentMemory, provider=store"),
        (None, "instance of NoneType"),
        (InMemoryProvider, "InMemoryProvider has no before_model and after_answer"),
    ],
    ids=["memory", "feature", "text", "nothing", "store"],
)
def test_what_is_installed_is_a_class_of_features(feature: Any, told: str) -> None:
    """An instance in place of a class is refused: the agent creates it."""
    with pytest.raises(TypeError, match=told) as caught:
        Agent(ScriptedChatModel()).install(feature)

    assert SECRET not in str(caught.value)


def test_features_are_known_by_what_they_can_do() -> None:
    """And inherit from nothing."""
    assert isinstance(Agent(ScriptedChatModel()).install(Silent), Silent)
