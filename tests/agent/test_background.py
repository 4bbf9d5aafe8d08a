"""Extraction after the answer: `drain`, failures, order, and atomic saves."""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint

from factmem._concurrency.background import MAX_FAILURES, BackgroundWork
from factmem.agent.agent import Agent
from factmem.agent.context import FeatureError
from factmem.detection.report import DetectionReport
from factmem.errors import ChatModelError
from factmem.llm.base import (
    ChatResponse,
    Message,
    ToolDefinition,
)
from factmem.memory.agent_memory import AgentMemory
from factmem.models.places import MemorySubject
from factmem.models.scopes import MemoryScopesProfile
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from tests.doubles import FunctionModel
from tests.world import ALICE, BOB, PRODUCT, THEME, found_facts, is_detection, theme_item

SAID = "I prefer the dark theme"
FOUND = found_facts(theme_item("dark", SAID))


def remembering(model: Any, store: InMemoryProvider, **options: Any) -> Agent:
    agent = Agent(model, **options)
    agent.install(
        AgentMemory,
        provider=store,
        scopes=MemoryScopesProfile(product="my-app"),
        subjects=[ALICE],
        auto_detect=True,
        background=True,
    )
    return agent


@asynccontextmanager
async def opened(
    model: object, store: InMemoryProvider, **options: Any
) -> AsyncGenerator[Agent, None]:
    """Open an agent, in a test that fails rather than waits forever."""
    with anyio.fail_after(60):
        async with remembering(model, store, **options) as agent:
            yield agent


class Gate:
    """A model that answers at once, and extracts facts when an event is set."""

    def __init__(self, *found: object) -> None:
        self.open = anyio.Event()
        self.is_asked = anyio.Event()
        self._found = iter(found or (FOUND,))

    def model(self) -> FunctionModel:
        return FunctionModel(self._respond)

    async def _respond(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition]
    ) -> ChatResponse:
        if not is_detection(messages):
            return ChatResponse("Noted.")
        self.is_asked.set()
        await self.open.wait()
        return await ScriptedChatModel(next(self._found)).respond(messages)


async def test_the_answer_does_not_wait_for_extraction() -> None:
    """The end of `async with` waits for it; the report is added to the result."""
    gate, store = Gate(), InMemoryProvider()
    async with opened(gate.model(), store) as agent:
        result = await agent.run(SAID)
        assert result.text == "Noted."
        assert result.usage.calls == 1
        assert result.reports_of(DetectionReport) == []
        await gate.is_asked.wait()
        assert await store.places() == []
        gate.open.set()

    [report] = result.reports_of(DetectionReport)
    assert [placed.fact.values for placed in report.saved] == [("dark",)]
    assert report.usage.calls == 1
    [known] = await store.load(THEME, ALICE, PRODUCT)
    assert known.value == "dark"


async def test_drain_waits_for_pending_extractions() -> None:
    """The agent can be used afterwards."""
    model = ScriptedChatModel(
        "Noted.", FOUND, "Noted.", found_facts(theme_item("light", "Now light"))
    )
    store = InMemoryProvider()
    async with opened(model, store) as agent:
        await agent.run(SAID)
        await agent.drain()
        [first] = await store.load(THEME, ALICE, PRODUCT)
        await agent.run("Now light")
        await agent.drain()
        [second] = await store.load(THEME, ALICE, PRODUCT)
        assert len(model.calls) == 4

    assert (first.value, second.value) == ("dark", "light")


async def test_a_run_outside_of_async_with_raises() -> None:
    """The error comes before any model call, and shows a correct line."""
    model = ScriptedChatModel()
    agent = remembering(model, InMemoryProvider())

    with pytest.raises(RuntimeError, match="`async with agent`"):
        await agent.run(SAID)
    async with agent:
        pass
    with pytest.raises(RuntimeError, match="async with agent"):
        await agent.run(SAID)

    assert model.calls == []


async def test_an_open_agent_cannot_be_opened_again() -> None:
    """A closed one can."""
    agent = Agent(ScriptedChatModel())
    async with agent:
        with pytest.raises(RuntimeError, match="already open"):
            await agent.__aenter__()
    async with agent:
        pass


async def test_another_event_loop_raises(anyio_backend_name: str) -> None:
    """Work cannot be passed to a loop that runs in another thread."""
    model = ScriptedChatModel()
    async with opened(model, InMemoryProvider()) as agent:

        def elsewhere() -> None:
            anyio.run(agent.run, SAID, backend=anyio_backend_name)

        with pytest.raises(RuntimeError, match="opened in another event loop"):
            await anyio.to_thread.run_sync(elsewhere)

    assert model.calls == []


async def test_drain_raises_a_failure() -> None:
    """It raises once, in a group, with the run that failed."""
    model = ScriptedChatModel("Noted.", ChatModelError("down"), "Noted.", FOUND)
    store = InMemoryProvider()
    async with opened(model, store) as agent:
        await agent.run(SAID, conversation="c-1")
        with pytest.raises(ExceptionGroup, match="1 failed in the background") as caught:
            await agent.drain()
        [failure] = caught.value.exceptions
        assert isinstance(failure, FeatureError)
        assert isinstance(failure.__cause__, ChatModelError)
        assert "the detection of facts failed" in str(failure)
        assert failure.result.text == "Noted."
        assert failure.result.subjects == (ALICE,)
        assert failure.result.conversation == "c-1"
        assert await store.places() == []
        await agent.drain()

        await agent.run(SAID)

    [known] = await store.load(THEME, ALICE, PRODUCT)
    assert known.value == "dark"


async def test_the_end_of_the_block_raises_a_failure() -> None:
    """The block drains before it ends."""
    model = ScriptedChatModel(*["Noted."] * 2, *[ChatModelError("down")] * 2)

    async def two_runs() -> None:
        async with opened(model, InMemoryProvider()) as agent, anyio.create_task_group() as tasks:
            tasks.start_soon(run_for, agent, ALICE)
            tasks.start_soon(run_for, agent, BOB)

    with pytest.raises(ExceptionGroup, match="2 failed in the background") as caught:
        await two_runs()

    assert {failure.result.subjects for failure in _feature_errors(caught.value)} == {
        *((ALICE,), (BOB,))
    }


async def run_for(agent: Agent, subject: MemorySubject) -> None:
    await agent.run(SAID, subjects=[subject])


def _feature_errors(group: BaseExceptionGroup[Any]) -> Iterable[FeatureError]:
    return [each for each in group.exceptions if isinstance(each, FeatureError)]


async def test_failures_can_be_heard_of_as_they_happen() -> None:
    """A server that never ends gets each failure; then nothing is raised later."""
    heard: list[Exception] = []
    model = ScriptedChatModel("Noted.", ChatModelError("down"))
    async with opened(model, InMemoryProvider(), on_background_failure=heard.append) as agent:
        result = await agent.run(SAID)
        await agent.drain()
        [failure] = heard
        assert isinstance(failure, FeatureError)
        assert failure.result.messages is result.messages


async def test_a_failing_listener_loses_no_failure() -> None:
    """Its own exception and the collected failure are raised."""

    def listen(_: Exception) -> None:
        raise KeyError("listener")

    model = ScriptedChatModel("Noted.", ChatModelError("down"))
    with pytest.raises(ExceptionGroup, match="2 failed in the background") as caught:
        async with opened(model, InMemoryProvider(), on_background_failure=listen) as agent:
            await agent.run(SAID)

    assert [type(failure) for failure in caught.value.exceptions] == [KeyError, FeatureError]


async def test_an_error_of_the_application_does_not_stop_extraction() -> None:
    """The user has the answer, so the facts are saved. The error is raised unchanged."""
    gate, store = Gate(FOUND, ChatModelError("down")), InMemoryProvider()
    agent = remembering(gate.model(), store)

    async def application() -> None:
        async with agent:
            await agent.run(SAID)
            await agent.run(SAID)
            gate.open.set()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        await application()

    [known] = await store.load(THEME, ALICE, PRODUCT)
    assert known.value == "dark"
    assert caught.value.__notes__ == ["1 failed in the background as well: FeatureError"]
    with pytest.raises(ExceptionGroup, match="1 failed"):
        await agent.drain()


async def test_cancelling_the_agent_cancels_extraction() -> None:
    """Nothing is saved, and no task remains."""
    gate, store = Gate(), InMemoryProvider()
    with anyio.CancelScope() as scope:
        async with opened(gate.model(), store) as agent:
            result = await agent.run(SAID)
            await gate.is_asked.wait()
            scope.cancel()
            await checkpoint()

    assert scope.cancelled_caught
    assert result.text == "Noted."
    assert await store.places() == []


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
async def test_an_exit_cancels_extraction_and_stays_unchanged(
    end: type[BaseException],
) -> None:
    """In a group of exceptions an exit code would be lost."""
    gate, store = Gate(), InMemoryProvider()
    raised = end(3)

    async def leave() -> None:
        async with opened(gate.model(), store) as agent:
            await agent.run(SAID)
            await gate.is_asked.wait()
            raise raised

    with pytest.raises(end) as caught:
        await leave()

    assert caught.value is raised
    assert await store.places() == []


async def test_cancelling_a_run_does_not_cancel_another_extraction() -> None:
    """A run that is cancelled before its answer saves nothing."""
    gate, store = Gate(), InMemoryProvider()
    async with opened(gate.model(), store) as agent:
        await agent.run(SAID)
        await gate.is_asked.wait()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await agent.run("Never answered", subjects=[BOB])
        gate.open.set()

    assert [place.subject.entity for place in await store.places()] == ["alice"]


class Halting(InMemoryProvider):
    """A store whose writes wait until they are released or cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.is_writing = anyio.Event()

    async def learn(self, *_: Any, **__: Any) -> Any:
        self.is_writing.set()
        await anyio.sleep_forever()


@pytest.mark.parametrize("background", [False, True])
async def test_a_run_cancelled_during_a_save_leaves_no_part_of_a_batch(background: bool) -> None:
    """Three facts were detected, and none is stored."""
    items = [theme_item(f"v{n}", SAID, keyword=f"k-{n}") for n in range(3)]
    store = Halting()
    agent = Agent(ScriptedChatModel("Noted.", found_facts(*items)))
    agent.install(
        AgentMemory,
        provider=store,
        scopes=MemoryScopesProfile(product="my-app"),
        subjects=[ALICE],
        auto_detect=True,
        background=background,
    )

    with anyio.CancelScope() as scope:
        async with agent, anyio.create_task_group() as tasks:
            tasks.start_soon(agent.run, SAID)
            await store.is_writing.wait()
            scope.cancel()

    assert await store.load_all(ALICE, PRODUCT) == []


async def test_facts_of_one_user_are_saved_in_order() -> None:
    """The second extraction waits for the slow first one, so the newest statement wins."""
    slow, order = anyio.Event(), []

    async def respond(messages: Any, tools: Any) -> ChatResponse:
        if not is_detection(messages):
            return ChatResponse("Noted.")
        value = "first" if "first word" in str(messages[1]["content"]) else "second"
        order.append(value)
        if value == "first":
            await slow.wait()
        found = found_facts(theme_item(value, f"{value} word"))
        return await ScriptedChatModel(found).respond(messages)

    store = InMemoryProvider()
    async with opened(FunctionModel(respond), store) as agent:
        await agent.run("first word")
        await agent.run("second word")
        while not order:
            await checkpoint()
        await anyio.wait_all_tasks_blocked()
        assert order == ["first"]
        slow.set()

    [known] = await store.load(THEME, ALICE, PRODUCT)
    assert known.value == "second"
    assert order == ["first", "second"]


async def test_users_do_not_wait_for_each_other() -> None:
    """Bob's facts are saved while Alice's extraction is running."""
    slow = anyio.Event()

    async def respond(messages: Any, tools: Any) -> ChatResponse:
        if not is_detection(messages):
            return ChatResponse("Noted.")
        if "alice" in str(messages[1]["content"]):
            await slow.wait()
        return await ScriptedChatModel(found_facts(theme_item("dark", "dark"))).respond(messages)

    store = InMemoryProvider()
    async with opened(FunctionModel(respond), store) as agent:
        await agent.run("alice likes dark", subjects=[ALICE])
        await agent.run("bob likes dark", subjects=[BOB])
        while not (places := await store.places()):
            await checkpoint()
        assert [place.subject.entity for place in places] == ["bob"]
        slow.set()

    assert len(await store.places()) == 2


async def test_the_history_may_change_during_extraction() -> None:
    """Extraction reads the conversation as it was when the answer came."""
    gate, store = Gate(), InMemoryProvider()
    async with opened(gate.model(), store) as agent:
        result = await agent.run(SAID)
        result.messages.clear()
        gate.open.set()

    [report] = result.reports_of(DetectionReport)
    assert len(report.saved) == 1


async def test_uncollected_failures_are_limited() -> None:
    """The first hundred are kept, the others counted."""

    def failing(number: int) -> Callable[[], Any]:
        async def work() -> None:
            raise ValueError(number)

        return work

    async def many() -> None:
        background = BackgroundWork("agent")
        async with background:
            for number in range(MAX_FAILURES + 5):
                background.start(failing(number), line="one")

    total = f"{MAX_FAILURES + 5} failed in the background, of which the first {MAX_FAILURES}"
    with pytest.raises(ExceptionGroup, match=total) as caught:
        await many()

    assert [failure.args for failure in caught.value.exceptions] == [
        (number,) for number in range(MAX_FAILURES)
    ]
