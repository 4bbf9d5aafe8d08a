"""An agent and its features: what a run begins with, what it gives, and what it leaves alone."""

import copy
from typing import Any

import pytest

from factmem.agent.agent import Agent
from factmem.agent.context import AgentContext, FeatureError
from factmem.errors import ChatModelError, UnboundSubjectError
from factmem.memory.agent_memory import AgentMemory
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from tests.tables import table
from tests.world import ALICE, USER


class Diary:
    """A feature that writes down what happens."""

    def __init__(self, name: str, pages: list[str], *, fails_in: str = "") -> None:
        self.name = name
        self.pages = pages
        self.fails_in = fails_in

    async def before_model(self, context: AgentContext) -> None:
        self._write("before", context.text)

    async def after_answer(self, context: AgentContext) -> None:
        self._write("after", context.answer)
        context.reports.append(f"{self.name}'s page")

    async def aclose(self) -> None:
        self._write("close", "")

    def _write(self, when: str, what: str) -> None:
        self.pages.append(f"{self.name} {when} {what}".strip())
        if when == self.fails_in:
            raise ConnectionError("the ink is dry")


async def test_a_conversation_goes_on_from_its_result() -> None:
    """The messages of one result are the history of the next run; the agent keeps none."""
    model = ScriptedChatModel("Hello, Alice.", "You are Alice.")
    agent = Agent(model, system_prompt="Be kind.")

    first = await agent.run("I am Alice.")
    second = await agent.run("Who am I?", messages=first.messages)

    assert [message["content"] for message in second.messages] == [
        *("Be kind.", "I am Alice.", "Hello, Alice.", "Who am I?", "You are Alice.")
    ]
    assert len(first.messages) == 3
    assert model.calls[1] == second.messages[:-1]


async def test_the_history_that_is_given_is_not_changed() -> None:
    """Neither the list nor a message in it."""
    history: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]
    before = copy.deepcopy(history)

    result = await Agent(ScriptedChatModel("Hello."), system_prompt="Be kind.").run(
        "How are you?", messages=history
    )
    result.messages[1]["content"] = "changed"

    assert history == before


@pytest.mark.parametrize("role", ["system", "developer"])
async def test_instructions_of_the_history_stay_alone(role: str) -> None:
    """A conversation that begins with its own gets no second ones."""
    history = [{"role": role, "content": "Be strict."}]
    model = ScriptedChatModel("Yes.")

    await Agent(model, system_prompt="Be kind.").run("Hello", messages=history)

    assert model.calls[0] == [*history, {"role": "user", "content": "Hello"}]


async def test_what_memory_put_first_is_no_instruction_of_the_application() -> None:
    """A history of an agent without a prompt begins with facts; the prompt goes before them."""
    history = [{"role": "system", "name": "factmem_memory", "content": "facts"}]
    model = ScriptedChatModel("Yes.")

    await Agent(model, system_prompt="Be kind.").run("Hello", messages=history)

    assert [message["content"] for message in model.calls[0]] == ["Be kind.", "facts", "Hello"]


@table(
    ("arguments", "error", "complaint"),
    [
        ({"text": 3}, TypeError, "text must be a str, not int"),
        ({"text": None}, TypeError, "text must be a str, not NoneType"),
        ({"text": "Hi", "messages": ["Hello"]}, TypeError, "messages must contain dicts, not str"),
        (
            {"text": "Hi", "messages": "Hello"},
            TypeError,
            "messages must be a list of dicts, not str",
        ),
        ({"text": "Hi", "subjects": []}, ValueError, "subjects is empty"),
        ({"text": "Hi", "subjects": [ALICE, USER]}, UnboundSubjectError, "'user' is per entity"),
    ],
)
async def test_bad_input_raises_before_a_model_is_called(
    arguments: dict[str, Any], error: type[Exception], complaint: str
) -> None:
    """Each with what to do about it."""
    model = ScriptedChatModel()

    with pytest.raises(error, match=complaint):
        await Agent(model).run(**arguments)

    assert model.calls == []


async def test_an_endpoint_that_fails_fails_the_run() -> None:
    """The error is the endpoint's own, not one in a wrapper."""
    with pytest.raises(ChatModelError, match="down"):
        await Agent(ScriptedChatModel(ChatModelError("down"))).run("Hello")


async def test_features_surround_the_model_in_the_order_of_installation() -> None:
    """And are closed in the opposite order, at the end of `async with`."""
    pages: list[str] = []

    def answer(_: object) -> str:
        pages.append("model")
        return "Hello."

    agent = Agent(ScriptedChatModel(answer))
    async with agent:
        agent.install(Diary, "anna", pages)
        agent.install(Diary, "berta", pages)
        result = await agent.run("Hi")

    assert pages == [
        *("anna before Hi", "berta before Hi", "model"),
        *("anna after Hello.", "berta after Hello.", "berta close", "anna close"),
    ]
    assert result.reports == result.reports_of(str) == ["anna's page", "berta's page"]
    assert result.reports_of(int) == []


async def test_a_feature_that_cannot_prepare_ends_the_run() -> None:
    """Before the model is asked, with its own error."""
    model = ScriptedChatModel()
    agent = Agent(model)
    agent.install(Diary, "anna", [], fails_in="before")

    with pytest.raises(ConnectionError, match="the ink is dry"):
        await agent.run("Hi")

    assert model.calls == []


async def test_an_answer_survives_a_feature_that_fails_after_it() -> None:
    """It is paid for: the error holds it, and the whole conversation."""
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


async def test_every_feature_is_closed_even_if_one_cannot_be() -> None:
    """The first exception is raised after all are closed."""
    pages: list[str] = []
    agent = Agent(ScriptedChatModel())
    agent.install(Diary, "anna", pages)
    agent.install(Diary, "berta", pages, fails_in="close")

    with pytest.raises(ConnectionError):
        async with agent:
            pass

    assert pages == ["berta close", "anna close"]


async def test_a_result_shows_no_words_in_its_repr() -> None:
    """It may be logged."""
    result = await Agent(ScriptedChatModel("My PIN is 1234.")).run("Say it: 1234")

    assert "1234" not in repr(result)


class Shallow:
    async def before_model(self, context: AgentContext) -> None: ...


def test_what_is_no_feature_is_refused() -> None:
    """With the name of what it lacks."""
    shallow: Any = Shallow

    with pytest.raises(TypeError, match="Shallow has no after_answer"):
        Agent(ScriptedChatModel()).install(shallow)


def test_one_memory_is_enough() -> None:
    """Two would write over each other's message."""
    agent = Agent(ScriptedChatModel())
    agent.install(AgentMemory, provider=InMemoryProvider(), agent_name="a")

    with pytest.raises(ValueError, match="The agent already has a memory"):
        agent.install(AgentMemory, provider=InMemoryProvider(), agent_name="b")


@table(
    ("options", "error", "complaint"),
    [
        ({"provider": InMemoryProvider()}, ValueError, "Facts need a scope: .*agent_name"),
        ({"agent_name": "a", "background": True}, ValueError, "needs auto_detect=True"),
        ({"agent_name": "a", "subjects": []}, ValueError, "subjects is empty"),
        ({"agent_name": ""}, ValueError, "scope name"),
        ({"agent_name": "a", "max_tokens": 3}, ValueError, "max_tokens=3 is too small"),
        ({"agentName": "a"}, TypeError, "AgentMemory has no option 'agentName'; it has provider"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    options: dict[str, Any], error: type[Exception], complaint: str
) -> None:
    """When the memory is installed, not when it is first used."""
    with pytest.raises(error, match=complaint):
        Agent(ScriptedChatModel()).install(AgentMemory, **options)


async def test_a_memory_without_a_provider_keeps_nothing() -> None:
    """The feature can be installed before it is decided where facts go."""
    agent = Agent(ScriptedChatModel("Hello."))
    memory = agent.install(AgentMemory)

    result = await agent.run("Hi")

    assert result.text == "Hello."
    assert await memory.current_all() == []


def test_a_context_without_a_memory_says_how_to_get_one() -> None:
    """A strategy that needs one fails with the line to write."""
    context = AgentContext("Hi", chat_model=ScriptedChatModel())

    with pytest.raises(RuntimeError, match=r"agent\.install\(AgentMemory, provider="):
        _ = context.memory
