"""The tool loop: model calls and tool calls, and a valid conversation after every failure."""

from threading import Event as ThreadEvent
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from factmem.agent.agent import Agent
from factmem.agent.context import AgentContext
from factmem.agent.tools import StepLimitError, run_tool_loop, tools_by_name
from factmem.errors import ChatModelError
from factmem.llm.base import ChatResponse, Message, ToolDefinition
from factmem.testing.chat import ScriptedChatModel
from factmem.usage import Usage
from tests.world import assert_paired, calls, tool_results


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def capital(country: str) -> str:
    """Name a capital."""
    await anyio.lowlevel.checkpoint()
    return {"Korea": "Seoul"}.get(country, "unknown")


async def test_tools_are_run_until_the_model_answers() -> None:
    """Two rounds with a sync and an async tool make three model calls."""
    model = ScriptedChatModel(
        calls(("add", {"a": 1, "b": 2})), calls(("capital", {"country": "Korea"})), "3, Seoul."
    )
    agent = Agent(model, tools=[add, capital])

    result = await agent.run("What is 1 + 2, and the capital of Korea?")

    assert result.text == "3, Seoul."
    assert result.usage.calls == len(model.calls) == 3
    assert [message["role"] for message in result.messages] == [
        *("user", "assistant", "tool", "assistant", "tool", "assistant")
    ]
    assert tool_results(result.messages) == ["3", "Seoul"]
    offered: Any = model.tools[0]
    assert [tool["function"]["name"] for tool in offered] == ["add", "capital"]
    assert_paired(result.messages)


async def test_without_tools_none_are_sent() -> None:
    """Some endpoints refuse an empty list of tools."""
    model = ScriptedChatModel("Hello.")

    result = await Agent(model).run("Hello")

    assert model.tools == [[]]
    assert result.messages == [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hello."},
    ]


async def test_calls_of_one_answer_run_at_once_and_answer_in_order() -> None:
    """Neither waits for the other, and the slower one's result still comes first."""
    second_has_run = anyio.Event()

    async def first() -> str:
        await second_has_run.wait()
        return "first"

    async def second() -> str:
        second_has_run.set()
        await anyio.lowlevel.checkpoint()
        return "second"

    model = ScriptedChatModel(calls(("first", {}), ("second", {})), "Done.")
    with anyio.fail_after(60):
        result = await Agent(model, tools=[first, second]).run("Both, please")

    assert tool_results(result.messages) == ["first", "second"]
    assert [m.get("tool_call_id") for m in result.messages[2:4]] == ["call-0", "call-1"]


async def test_bad_and_unknown_calls_return_an_error_and_the_others_run() -> None:
    """The model reads an error for each bad call."""
    model = ScriptedChatModel(
        calls(
            ("add", {"a": "one", "b": 2}),
            ("remove_everything", {}),
            ("add", {"a": 1, "b": 2}),
            ("add", "not json"),
        ),
        "Sorry. 3.",
    )

    result = await Agent(model, tools=[add]).run("1 + 2?")

    wrong, unknown, right, no_json = tool_results(result.messages)
    assert "- a: Input should be a valid integer" in wrong
    assert unknown == "Error: there is no tool of that name. Tools: add."
    assert right == "3"
    assert no_json == "Error: the tool was not called. Its arguments must be one JSON object."
    assert result.text == "Sorry. 3."
    assert_paired(result.messages)


class BrokenError(Exception):
    """A bug in a tool."""


async def test_a_broken_tool_ends_the_run_and_leaves_the_conversation_whole() -> None:
    """The tool's own exception is raised; unfinished calls are marked, finished ones keep their
    result.
    """
    added = anyio.Event()

    async def quick() -> str:
        added.set()
        return "quick"

    async def broken() -> str:
        await added.wait()
        await anyio.lowlevel.checkpoint()
        raise BrokenError

    async def slow() -> str:
        await anyio.sleep_forever()
        raise AssertionError

    model = ScriptedChatModel(calls(("slow", {}), ("quick", {}), ("broken", {})))
    context = AgentContext("Go", chat_model=model, tools=tools_by_name([quick, broken, slow]))

    with anyio.fail_after(60), pytest.raises(BrokenError):
        await run_tool_loop(context, "Go")

    assert_paired(context.messages)
    assert tool_results(context.messages) == [
        "Error: this call did not finish.",
        "quick",
        "Error: this call did not finish.",
    ]


async def test_a_second_failing_tool_becomes_a_note() -> None:
    """The first exception is raised without a group."""
    both = anyio.Event()

    async def first() -> None:
        both.set()
        raise BrokenError

    async def second() -> None:
        try:
            await both.wait()
        finally:
            raise KeyError

    model = ScriptedChatModel(calls(("second", {}), ("first", {})))
    agent = Agent(model, tools=[first, second])

    with pytest.raises((BrokenError, KeyError)) as caught:
        await agent.run("Go")

    assert len(caught.value.__notes__) == 1
    assert caught.value.__notes__[0].startswith("Another tool failed as well: ")


async def test_a_cancelled_call_keeps_the_conversation_valid() -> None:
    """Finished calls have results, unfinished ones are marked."""
    is_waiting = anyio.Event()

    async def quick() -> str:
        return "quick"

    async def slow() -> None:
        is_waiting.set()
        await anyio.sleep_forever()

    model = ScriptedChatModel(calls(("quick", {}), ("slow", {})))
    context = AgentContext("Go", chat_model=model, tools=tools_by_name([quick, slow]))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_tool_loop, context, "Go")
        await is_waiting.wait()
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()

    assert_paired(context.messages)
    assert tool_results(context.messages) == ["quick", "Error: this call did not finish."]


async def test_a_cancelled_run_waits_for_a_sync_tool_and_keeps_its_result() -> None:
    """A thread cannot be stopped, so its result belongs into the conversation."""
    begun, may_end = ThreadEvent(), ThreadEvent()

    def book() -> str:
        begun.set()
        may_end.wait(60)
        return "booked"

    model = ScriptedChatModel(calls(("book", {})))
    context = AgentContext("Go", chat_model=model, tools=tools_by_name([book]))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_tool_loop, context, "Go")
        await anyio.to_thread.run_sync(begun.wait, 5)
        tasks.cancel_scope.cancel()
        may_end.set()

    assert_paired(context.messages)
    assert tool_results(context.messages) == ["booked"]


async def test_a_run_without_end_is_stopped() -> None:
    """After `max_steps` calls to the model, with the conversation, to be continued."""
    model = ScriptedChatModel(*[calls(("add", {"a": 1, "b": 1}))] * 3, "Two.")
    agent = Agent(model, tools=[add], max_steps=3)

    with pytest.raises(
        StepLimitError,
        match=r"called tools 3 times and did not answer: allow more with .*max_steps=6",
    ) as caught:
        await agent.run("1 + 1?")

    assert len(model.calls) == 3
    assert_paired(caught.value.messages)
    assert tool_results(caught.value.messages) == ["2", "2", "2"]
    result = await agent.run("Go on", messages=caught.value.messages)
    assert result.text == "Two."


async def test_a_tool_that_is_not_a_function() -> None:
    """A tool with a schema of its own needs three members and no base class."""

    class Remote:
        def __init__(self) -> None:
            self.name = "remote"
            self.definition: ToolDefinition = {"type": "function", "function": {"name": "remote"}}

        async def call(self, arguments: str, context: AgentContext) -> str:
            return f"{context.text} {arguments}"

    model = ScriptedChatModel(calls(("remote", '{"x": 1}')), "Done.")
    result = await Agent(model, tools=[Remote()]).run("Go")

    assert tool_results(result.messages) == ['Go {"x": 1}']


async def test_a_refusal_is_returned_as_the_answer() -> None:
    """The user reads the reason; the conversation keeps the endpoint's message."""
    refusing = ChatResponse(refusal="I will not.", finish_reason="stop")

    result = await Agent(ScriptedChatModel(refusing)).run("Do it")

    assert result.text == "I will not."


async def test_an_answer_that_was_cut_off_says_so() -> None:
    """It is an answer; the reason is in the result."""
    response = ChatResponse("Once upon a", finish_reason="length", usage=Usage(10, 3, 1))

    result = await Agent(ScriptedChatModel(response)).run("Tell me a story")

    assert (result.text, result.finish_reason) == ("Once upon a", "length")
    assert result.usage == Usage(10, 3, 1)


async def test_extra_fields_of_a_message_stay() -> None:
    """Reasoning and signatures are sent back with the tool's result, in the same dict."""
    message = dict(calls(("add", {"a": 1, "b": 2})).message) | {"reasoning_content": "hm"}
    thinking = ChatResponse(tool_calls=calls(("add", {"a": 1, "b": 2})).tool_calls, message=message)
    model = ScriptedChatModel(thinking, "3.")

    result = await Agent(model, tools=[add]).run("1 + 2?")

    assert model.calls[1][1]["reasoning_content"] == "hm"
    assert result.messages[1] == message
    assert result.messages[1] is not message


async def test_a_response_can_be_returned_twice() -> None:
    """A caller's changes to the messages of one run do not affect another."""
    same = ChatResponse("Hello.")
    agent = Agent(ScriptedChatModel(same, same))

    first = await agent.run("Hi")
    first.messages[-1]["content"] = "changed"
    second = await agent.run("Hi")

    assert second.messages[-1] == {"role": "assistant", "content": "Hello."}


async def test_an_endpoint_that_fails_between_tools_fails_the_run() -> None:
    """The caller's history does not change."""
    model = ScriptedChatModel(calls(("add", {"a": 1, "b": 2})), ChatModelError("down"))
    history: list[Message] = [{"role": "user", "content": "Hi"}]

    with pytest.raises(ChatModelError, match="down"):
        await Agent(model, tools=[add]).run("1 + 2?", messages=history)

    assert history == [{"role": "user", "content": "Hi"}]


async def test_calls_of_one_response_run_in_limited_numbers() -> None:
    """A model may request two thousand; some run, a few at a time, and it reads which did not."""
    running, most = 0, 0

    async def fetch(page: int) -> str:
        """Fetch a page."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.lowlevel.checkpoint()
        running -= 1
        return str(page)

    asked = calls(*(("fetch", {"page": number}) for number in range(2_000)))
    result = await Agent(ScriptedChatModel(asked, "Done."), tools=[fetch]).run("Fetch all.")

    results = tool_results(result.messages)
    assert results[:64] == [str(number) for number in range(64)]
    assert set(results[64:]) == {
        "Error: nothing was done. At most 64 calls of one response are run."
    }
    assert len(results) == 2_000
    assert 1 < most <= 16
