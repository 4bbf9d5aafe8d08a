"""An agent and its features: the input, result and side effects of a run."""

import copy
from typing import Any

import pytest

from factmem.agent.agent import Agent
from factmem.agent.context import AgentContext, FeatureError
from factmem.memory.agent_memory import AgentMemory
from factmem.models.places import MemoryScopesProfile
from factmem.prompt.memory_message import MessageForm
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from tests.tables import table


class Diary:
    """A feature that records its calls."""

    def __init__(self, name: str, pages: list[str], *, fails_in: str = "") -> None:
        self.name = name
        self.pages = pages
        self.fails_in = fails_in

    async def before_model(self, context: AgentContext) -> None:
        self._write("before", context.text)

    async def after_answer(self, context: AgentContext) -> None:
        self._write("after", context.answer)
        context.reports.append(f"{self.name}'s page")

    def _write(self, when: str, what: str) -> None:
        self.pages.append(f"{self.name} {when} {what}".strip())
        if when == self.fails_in:
            raise ConnectionError("the ink is dry")


async def test_the_callers_history_does_not_change() -> None:
    """Neither the list nor its messages change."""
    history: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]
    before = copy.deepcopy(history)

    result = await Agent(ScriptedChatModel("Hello."), system_prompt="Be kind.").run(
        "How are you?", messages=history
    )
    result.messages[1]["content"] = "changed"

    assert history == before


@pytest.mark.parametrize("role", ["system", "developer"])
async def test_a_history_with_instructions_gets_no_second_ones(role: str) -> None:
    """A conversation that begins with its own instructions keeps only these."""
    history = [{"role": role, "content": "Be strict."}]
    model = ScriptedChatModel("Yes.")

    await Agent(model, system_prompt="Be kind.").run("Hello", messages=history)

    assert model.calls[0] == [*history, {"role": "user", "content": "Hello"}]


async def test_a_memory_message_does_not_count_as_instructions() -> None:
    """The history of an agent without a prompt begins with facts; the prompt is put before them."""
    history = [{"role": "system", "name": "factmem_memory", "content": "facts"}]
    model = ScriptedChatModel("Yes.")

    await Agent(model, system_prompt="Be kind.").run("Hello", messages=history)

    assert [message["content"] for message in model.calls[0]] == ["Be kind.", "facts", "Hello"]


async def test_features_run_in_the_order_of_installation() -> None:
    """Before the model and after the answer."""
    pages: list[str] = []

    def answer(_: object) -> str:
        pages.append("model")
        return "Hello."

    agent = Agent(ScriptedChatModel(answer))
    agent.install(Diary, "anna", pages)
    agent.install(Diary, "berta", pages)
    result = await agent.run("Hi")

    assert pages == [
        *("anna before Hi", "berta before Hi", "model"),
        *("anna after Hello.", "berta after Hello."),
    ]
    assert result.reports == result.reports_of(str) == ["anna's page", "berta's page"]
    assert result.reports_of(int) == []


async def test_a_feature_that_fails_to_prepare_ends_the_run() -> None:
    """Its error is raised before the model is called."""
    model = ScriptedChatModel()
    agent = Agent(model)
    agent.install(Diary, "anna", [], fails_in="before")

    with pytest.raises(ConnectionError, match="the ink is dry"):
        await agent.run("Hi")

    assert model.calls == []


async def test_an_answer_survives_a_feature_that_fails_later() -> None:
    """The answer is paid for, so the error holds it and the whole conversation."""
    agent = Agent(ScriptedChatModel("Hello."))
    agent.install(Diary, "anna", [], fails_in="after")

    with pytest.raises(
        FeatureError, match="Diary failed after the model had answered: `result` has the answer"
    ) as caught:
        await agent.run("Hi", conversation="c-1")

    assert isinstance(caught.value.__cause__, ConnectionError)
    assert caught.value.result.text == "Hello."
    assert caught.value.result.messages[-1] == {"role": "assistant", "content": "Hello."}
    assert caught.value.result.conversation == "c-1"
    assert "Hello." not in str(caught.value)


async def test_the_repr_of_a_result_shows_no_messages() -> None:
    """A result may be logged."""
    result = await Agent(ScriptedChatModel("My PIN is 1234.")).run("Say it: 1234")

    assert "1234" not in repr(result)


class Shallow:
    async def before_model(self, context: AgentContext) -> None: ...


def test_an_object_that_is_not_a_feature_raises() -> None:
    """The error names what it lacks."""
    shallow: Any = Shallow

    with pytest.raises(TypeError, match="Shallow has no after_answer"):
        Agent(ScriptedChatModel()).install(shallow)


def test_a_second_memory_is_refused() -> None:
    """The two would overwrite each other's message."""
    agent = Agent(ScriptedChatModel())
    agent.install(AgentMemory, provider=InMemoryProvider(), scopes=MemoryScopesProfile(agent="a"))

    with pytest.raises(ValueError, match="The agent already has a memory"):
        agent.install(
            AgentMemory, provider=InMemoryProvider(), scopes=MemoryScopesProfile(agent="b")
        )


@table(
    ("options", "error", "complaint"),
    [
        (
            {"provider": InMemoryProvider()},
            ValueError,
            "Facts need a scope: scopes=MemoryScopesProfile",
        ),
        (
            {"scopes": MemoryScopesProfile(agent="a"), "subjects": []},
            ValueError,
            "subjects is empty",
        ),
        (
            {"scopes": MemoryScopesProfile(agent="a"), "message_form": MessageForm(max_tokens=3)},
            ValueError,
            "max_tokens=3 is too small",
        ),
        *(
            ({"scopes": MemoryScopesProfile(agent="a"), "recall": each}, error, "at least 1")
            for each, error in [(0, ValueError), (True, TypeError), (2.5, TypeError)]
        ),
        ({"agentName": "a"}, TypeError, "AgentMemory has no option 'agentName'; it has .*provider"),
    ],
)
def test_contradictory_options_raise(
    options: dict[str, Any], error: type[Exception], complaint: str
) -> None:
    """The error comes on installation, not on first use."""
    with pytest.raises(error, match=complaint):
        Agent(ScriptedChatModel()).install(AgentMemory, **options)


async def test_a_memory_without_a_provider_stores_nothing() -> None:
    """The feature can be installed before the store is chosen."""
    agent = Agent(ScriptedChatModel("Hello."))
    memory = agent.install(AgentMemory)

    result = await agent.run("Hi")

    assert result.text == "Hello."
    assert await memory.current() == []
