"""smolagents with a server that speaks the OpenAI API: facts, tools, learning, steps."""

import contextvars
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from PIL import Image
from smolagents import CodeAgent, OpenAIModel, ToolCallingAgent, tool
from smolagents.memory import ActionStep, FinalAnswerStep, SystemPromptStep, TaskStep
from smolagents.monitoring import LogLevel
from smolagents.utils import AgentError

from factmem.errors import UnboundSubjectError
from factmem.integrations.smolagents import (
    count_errors,
    install_memory,
    load_steps,
    save_steps,
    stepwise,
)
from factmem.testing.adapters import AdapterContract, AdapterHost
from tests.chat_server import calls_tools, says
from tests.integrations.killed_workers import KilledWorkers
from tests.integrations.model_server import ModelServer
from tests.world import found_fact, known_values, vim_memory

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of Hugging Face's packages
MODELS: list[Any] = []
WHO: contextvars.ContextVar[str | None] = contextvars.ContextVar("WHO", default=None)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as made:
        yield made
        for model in MODELS:
            model.client.close()
        MODELS.clear()
        assert made.troubles == []


@tool
def health() -> str:
    """Check that the application is healthy."""
    return "health: 500"


def agent_of(server: ModelServer, kind: Any = ToolCallingAgent, **options: Any) -> Any:
    model = OpenAIModel("m", api_base=server.url, api_key="x")
    MODELS.append(model)
    given = {"tools": [health], "verbosity_level": LogLevel.OFF, **options}
    return kind(model=model, **given)


def memory(*answers: Any, **options: Any) -> Any:
    async def made() -> Any:
        return await vim_memory(*answers, **options)

    return anyio.run(made)


def call(name: str, **arguments: Any) -> Any:
    return calls_tools(("1", name, arguments))


DONE = call("final_answer", answer="ok")
SAVES = call("memory_save", concept="shell", value="fish")


def test_what_a_tool_saves_is_there_in_the_second_turn(server: ModelServer) -> None:
    about = memory()
    agent = agent_of(server)
    install_memory(agent, about, user="alice", save=True)
    server.answer(SAVES, DONE)

    assert agent.run("I use fish.") == "ok"
    server.check_second_turn()
    assert anyio.run(known_values, about) == {"editor": "vim", "shell": "fish"}


def test_an_unbound_user_raises_before_any_call(server: ModelServer) -> None:
    agent = agent_of(server)
    install_memory(agent, memory(), user=lambda _: None)

    with pytest.raises(UnboundSubjectError):
        agent.run("Hi")
    assert server.requests == []


def test_a_code_agent_calls_the_tools_from_its_python(server: ModelServer) -> None:
    agent = agent_of(server, CodeAgent, tools=[])
    install_memory(agent, memory(), user="alice")
    server.answer(
        says('<code>\nprint(memory_recall("editor"))\n</code>'),
        says('<code>\nfinal_answer("vim")\n</code>'),
    )

    assert agent.run("Which editor?") == "vim"
    assert '"vim"' in agent.memory.steps[1].observations


def test_a_tool_of_the_same_name_raises_and_nothing_is_installed(server: ModelServer) -> None:
    agent = agent_of(server)
    install_memory(agent, memory(), user="alice")
    before = dict(agent.tools)
    with pytest.raises(ValueError, match="already has a tool 'memory_recall'"):
        install_memory(agent, memory(), user="alice")
    with pytest.raises(ValueError, match="name of a conversation"):
        install_memory(
            agent, memory(), user="a", prefix="f_", conversations=True, conversation="a\nb"
        )
    assert agent.tools == before


@pytest.fixture
def watched(server: ModelServer) -> Any:
    """An agent that planned, called tools and failed once; its callback changed observations."""

    def alert(step: ActionStep, agent: Any) -> None:
        if step.observations:
            step.observations += "\n[ALERT]"

    agent = agent_of(server, step_callbacks=[alert], planning_interval=4)
    install_memory(agent, memory(), user="alice")
    server.answer(says("The plan."), call("health"), call("no_such_tool"), DONE)
    agent.run("Watch it.")
    agent.memory.steps[0].task_images = [Image.new("RGB", (2, 2), "red")]
    return agent


def shown(agent: Any) -> list[tuple[str, str]]:
    messages = agent.write_memory_to_messages()[1:]
    return [
        (str(each.role), str(each.content)) for each in messages if "PIL." not in str(each.content)
    ]


def test_steps_survive_the_process(server: ModelServer, watched: Any, tmp_path: Path) -> None:
    save_steps(watched, tmp_path / "steps.json")
    again = agent_of(server)
    install_memory(again, memory(), user="alice")
    load_steps(again, tmp_path / "steps.json")

    save_steps(again, tmp_path / "again.json")
    saved, once_more = (tmp_path / f"{each}.json" for each in ("steps", "again"))
    assert saved.read_text() == once_more.read_text()
    assert shown(again) == shown(watched)
    assert again.memory.steps[0].task_images[0].size == (2, 2)
    assert set(tmp_path.iterdir()) == {saved, once_more}
    again.replay(detailed=True)
    server.answer(DONE)
    again.run("And now?", reset=False)
    assert "[ALERT]" in str(server.requests[-1].messages)


def test_errors_are_counted_also_in_restored_steps(watched: Any, tmp_path: Path) -> None:
    counts, steps = count_errors(watched.memory.steps), tmp_path / "steps.json"

    assert sum(counts.values()) == 1
    save_steps(watched, steps)
    load_steps(watched, steps)
    assert count_errors(watched.memory.steps) == counts
    watched.memory.steps = [SystemPromptStep("x")]
    with pytest.raises(TypeError, match="not SystemPromptStep"):
        save_steps(watched, steps)


def test_steps_can_be_changed_between_two(server: ModelServer) -> None:
    agent = agent_of(server)
    install_memory(agent, memory(), user="alice")
    server.answer(call("health"), DONE)
    taken = []
    for step in stepwise(agent, "Watch."):
        taken.append(type(step).__name__)
        if isinstance(step, ActionStep) and len(taken) == 1:
            step.observations = "changed between two steps"
            agent.memory.steps.append(TaskStep(task="From an earlier session: keep calm."))

    assert taken == ["ActionStep", "ActionStep", "FinalAnswerStep"]
    assert "changed between two steps" in str(server.requests[-1].messages)
    assert "keep calm" in str(server.requests[-1].messages)


@pytest.mark.parametrize("placement", ["instructions", "message"])
def test_a_named_chat_goes_on_in_another_agent(server: ModelServer, placement: Any) -> None:
    """Before the steps of the agent, and once, also if it goes on with `reset=False`."""
    about = memory()
    agents = [agent_of(server), agent_of(server)]
    for each in agents:
        options: Any = {"user": "alice", "conversation": "c1", "placement": placement}
        install_memory(each, about, conversations=True, **options)
    server.answer(*[call("final_answer", answer="Hello.")] * 4)
    agents[0].run("One")
    agents[1].run("Two")
    agents[1].run("Three", reset=False)
    agents[0].run("Four")

    def shown(body: Any) -> list[str]:
        return [each for each in ("One", "Two", "Three", "Four") if str(body).count(each) == 1]

    assert [shown(request.messages) for request in server.requests] == [
        ["One"],
        ["One", "Two"],
        ["One", "Two", "Three"],
        ["One", "Two", "Three", "Four"],
    ]
    stored = anyio.run(about.of("alice").conversation("c1").messages)
    assert [each["content"] for each in stored if each["role"] == "user"] == [
        "One",
        "Two",
        "Three",
        "Four",
    ]


class Host(AdapterHost):
    """One agent for each user, as smolagents keeps the chat in the agent."""

    def __init__(self, server: ModelServer, memory: Any, options: dict[str, Any]) -> None:
        self.server, self.memory, self.options = server, memory, options
        self.agents: dict[str, Any] = {}

    async def say(self, user: str, text: str) -> str:
        if user not in self.agents:
            agent = self.agents[user] = agent_of(self.server)
            install_memory(agent, self.memory, user=user, **self.options)
        self.server.answer(call("final_answer", answer="Ok."))
        marked = f"{text} {user}"
        run = partial(self.agents[user].run, marked, reset=False)
        await anyio.to_thread.run_sync(run)
        return self.server.sent(marked)

    async def stored(self) -> str:
        return str([each.memory.get_full_steps() for each in self.agents.values()])


class TestContract(KilledWorkers, AdapterContract):
    placement = "instructions"

    @pytest.fixture(autouse=True)
    def _server(self, server: ModelServer) -> None:
        self.server = server

    async def new_host(self, memory: Any, **options: Any) -> Host:
        return Host(self.server, memory, {**options, "placement": self.placement})


class TestMessageContract(TestContract):
    placement = "message"


def test_steps_of_a_stepwise_run_are_saved_with_its_answer(
    server: ModelServer, tmp_path: Path
) -> None:
    """The last step of `stepwise` is the answer."""
    steps: list[Any] = [TaskStep("Hi"), FinalAnswerStep(["a", 1]), FinalAnswerStep({1, 2})]
    agent = agent_of(server)
    agent.memory.steps = [*steps]
    save_steps(agent, tmp_path / "steps.json")
    load_steps(agent, tmp_path / "steps.json")

    assert agent.memory.steps == [*steps[:2], FinalAnswerStep("{1, 2}")]


def test_facts_are_in_calls_and_in_no_step(server: ModelServer) -> None:
    """Plans have them too; what is forgotten is nowhere, as steps are stored and shown."""
    agent = agent_of(server, planning_interval=2, max_steps=2)
    about = memory()
    install_memory(agent, about, user="alice")
    server.answer(says("Plan."), call("health"), call("health"), says("Plan."), says("Done."))
    agent.run("Watch it.")

    assert len(server.requests) >= 4
    assert all('"vim"' in str(each.messages) for each in server.requests)
    steps = [str(agent.memory.get_full_steps()), str(agent.memory.get_succinct_steps())]
    steps += [str(getattr(each, "model_input_messages", "")) for each in agent.memory.steps]
    assert "vim" not in "".join(steps)
    assert "vim" not in str(agent.write_memory_to_messages())


def test_agents_with_one_model_keep_their_users_apart(server: ModelServer) -> None:
    """The model itself is not changed."""
    about, first = memory(), agent_of(server)
    second = ToolCallingAgent(tools=[], model=first.model, verbosity_level=LogLevel.OFF)
    model = first.model
    install_memory(first, about, user="alice")
    install_memory(second, about, user="bob")
    for agent, is_known in ((first, True), (second, False)):
        server.answer(DONE)
        agent.run("Which editor?")
        assert ('"vim"' in str(server.requests[-1].messages)) == is_known
        assert isinstance(agent.model, OpenAIModel)
    assert second.model.model_id == model.model_id


@pytest.mark.parametrize("is_stream", [True, False])
def test_an_interrupted_run_is_learnt(server: ModelServer, is_stream: bool) -> None:
    """The user has said it, though the agent never answered."""

    def stop(step: ActionStep, agent: Any) -> None:
        agent.interrupt()

    about = memory(found_fact("I use fish", "shell", "fish"))
    agent = agent_of(server, step_callbacks=[stop])
    install_memory(agent, about, user="alice", auto_detect=True)
    server.answer(call("health"))
    with pytest.raises(AgentError, match="interrupted"):
        list(agent.run("I use fish", stream=True)) if is_stream else agent.run("I use fish")

    assert anyio.run(partial(known_values, about)) == {"editor": "vim", "shell": "fish"}


def test_an_agent_with_memory_tools_is_saved_and_loaded(
    server: ModelServer, tmp_path: Path
) -> None:
    """Without these tools, which belong to a store; they are still there afterwards."""
    agent = agent_of(server, tools=[])
    install_memory(agent, memory(), user="alice")
    names = [*agent.tools]
    made = agent.to_dict()
    agent.save(tmp_path / "agent")

    assert made["model"]["class"] == "OpenAIModel"
    assert not any("memory" in str(each) for each in made["tools"])
    assert [*agent.tools] == names
    saved = json.loads((tmp_path / "agent" / "agent.json").read_text())
    assert saved["tools"] == ["final_answer"]


@pytest.mark.parametrize("is_full", [True, False])
def test_steps_of_smolagents_own_json_are_loaded(
    server: ModelServer, watched: Any, tmp_path: Path, is_full: bool
) -> None:
    """As its documentation saves them: `json.dump(steps, file, default=str)`."""
    own = watched.memory.get_full_steps() if is_full else watched.memory.get_succinct_steps()
    (tmp_path / "own.json").write_text(json.dumps(own, default=str))
    watched.memory.steps[0].task_images = None
    again = agent_of(server)
    load_steps(again, tmp_path / "own.json")

    assert shown(again) == shown(watched)
    assert count_errors(again.memory.steps) == count_errors(watched.memory.steps)
    for other in (b'[{"a": 1}]', b'{"a": 1}', b"[1]", b'[{"kind": "plan"}]', b"[", b"\xff"):
        (tmp_path / "no.json").write_bytes(other)
        with pytest.raises(ValueError, match="save_steps"):
            load_steps(again, tmp_path / "no.json")
