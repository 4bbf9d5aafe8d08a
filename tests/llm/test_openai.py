"""Calls of an endpoint: answers, tools, typed values, and the modes of requesting them."""

import json
import threading
from typing import Any

import anyio
import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel

from factmem.errors import ChatModelError, ExtractionError
from factmem.llm.base import ChatModel, ToolCall
from factmem.llm.openai import OpenAIChatModel
from factmem.usage import Usage
from tests.chat_server import ChatServer, calls_tools, fails, says, sends
from tests.llm.conftest import KEY

HELLO: list[dict[str, Any]] = [
    {"role": "system", "content": "You are brief."},
    {"role": "user", "content": "Hello"},
]
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}},
}


class Theme(BaseModel):
    name: str
    is_dark: bool


DARK = Theme(name="Darcula", is_dark=True)
ANSWER = {"name": "Darcula", "is_dark": True}


def formats(server: ChatServer) -> list[str]:
    """The response format of each request."""
    return [request.response_format for request in server.requests]


async def test_an_answer_has_its_usage(model: OpenAIChatModel, chat_server: ChatServer) -> None:
    """It has text, message, finish reason and usage; the history does not change."""
    chat_server.answer(says("Hi.", usage=(12, 3)))
    messages = [*HELLO]

    response = await model.respond(messages)

    assert response.text == "Hi."
    assert response.message == {"role": "assistant", "content": "Hi."}
    assert response.finish_reason == "stop"
    assert response.refusal is None
    assert response.tool_calls == ()
    assert response.usage == Usage(input_tokens=12, output_tokens=3, calls=1)
    assert messages == HELLO
    (request,) = chat_server.requests
    assert request.messages == HELLO
    assert request.body["model"] == "test"
    assert request.body.keys() == {"model", "messages"}
    assert request.headers["authorization"] == f"Bearer {KEY}"


async def test_a_conversation_with_tools(model: OpenAIChatModel, chat_server: ChatServer) -> None:
    """The message with the calls is sent back unchanged, before the results of the tools."""
    chat_server.answer(calls_tools(("call_1", "weather", '{"city": "Köln"}')), says("Rain."))
    messages = [*HELLO]

    calling = await model.respond(messages, tools=[WEATHER])
    messages.append(calling.message)
    messages.append({"role": "tool", "tool_call_id": "call_1", "content": "rain"})
    answer = await model.respond(messages, tools=[WEATHER])

    assert calling.tool_calls == (ToolCall("call_1", "weather", '{"city": "Köln"}'),)
    assert calling.text == ""
    assert calling.finish_reason == "tool_calls"
    assert answer.text == "Rain."
    first, second = chat_server.requests
    assert first.body["tools"] == second.body["tools"] == [WEATHER]
    assert second.messages[2] == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "weather", "arguments": '{"city": "Köln"}'},
            }
        ],
    }


async def test_tool_calls_of_sloppy_endpoints(
    model: OpenAIChatModel, chat_server: ChatServer
) -> None:
    """Arguments may be an object or missing, and ids missing; the call still runs."""
    calls = [
        {"index": 0, "function": {"name": "weather", "arguments": {"city": "Köln"}}},
        {"id": "", "type": "function", "function": {"name": "time", "arguments": None}},
    ]
    chat_server.answer(says(None, tool_calls=calls, finish_reason="stop"))

    response = await model.respond(HELLO, tools=[WEATHER])

    weather, time = response.tool_calls
    assert json.loads(weather.arguments) == {"city": "Köln"}
    assert time.arguments == "{}"
    assert len({weather.id, time.id, ""}) == 3
    sent_back: Any = response.message["tool_calls"]
    assert [call["id"] for call in sent_back] == [weather.id, time.id]
    assert sent_back[0]["function"] == {"name": "weather", "arguments": weather.arguments}
    assert "index" not in sent_back[0]


async def test_reasoning_is_sent_back_only_with_tool_calls(
    model: OpenAIChatModel, chat_server: ChatServer
) -> None:
    """Some endpoints require it there, and some reject it elsewhere."""
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    signed = {**call, "extra_content": {"signature": "abc"}}
    chat_server.answer(
        says(None, tool_calls=[signed], reasoning_content="Hm.", audio=None, annotations=[]),
        says("Done.", reasoning_content="Hm.", tool_calls=None),
    )

    calling = await model.respond(HELLO, tools=[WEATHER])
    done = await model.respond(HELLO, tools=[WEATHER])

    assert calling.message == {
        "role": "assistant",
        "content": None,
        "reasoning_content": "Hm.",
        "tool_calls": [signed],
    }
    assert done.message == {"role": "assistant", "content": "Done."}


async def test_text_in_parts_is_joined(model: OpenAIChatModel, chat_server: ChatServer) -> None:
    """A few endpoints send content as a list; parts that are not text are left out."""
    parts = [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Hi"}]
    choice = {"message": {"role": "assistant", "content": [*parts, {"type": "text", "text": "."}]}}
    chat_server.answer(sends(json.dumps({"choices": [choice]}).encode()))

    response = await model.respond(HELLO)

    assert response.text == "Hi."
    assert response.finish_reason is None
    assert response.usage == Usage(calls=1)


async def test_a_truncated_answer_has_its_finish_reason(
    model: OpenAIChatModel, chat_server: ChatServer
) -> None:
    """The caller decides whether half an answer is of use; so with a refusal."""
    chat_server.answer(says("Once upon", finish_reason="length"), says(None, refusal="I won't."))

    assert (await model.respond(HELLO)).finish_reason == "length"
    refused = await model.respond(HELLO)

    assert refused.refusal == "I won't."
    assert refused.message == {"role": "assistant", "content": "", "refusal": "I won't."}


async def test_a_typed_value_takes_one_call(
    model: OpenAIChatModel, chat_server: ChatServer
) -> None:
    """The schema is sent; the messages do not change."""
    chat_server.answer(says(ANSWER, usage=(20, 7)))

    extraction = await model.extract(HELLO, Theme)

    assert extraction.value == DARK
    assert extraction.raw == json.dumps(ANSWER)
    assert extraction.usage == Usage(20, 7, calls=1)
    assert extraction.usage.calls == 1
    (request,) = chat_server.requests
    assert request.messages == HELLO
    schema = request.body["response_format"]["json_schema"]
    assert schema["name"] == "Theme"
    assert schema["strict"] is True
    assert schema["schema"]["required"] == ["name", "is_dark"]


async def test_json_mode_is_remembered_too(model: OpenAIChatModel, chat_server: ChatServer) -> None:
    """The fallback stops at the mode that worked; the prompt then describes the schema."""
    chat_server.refused_formats = {"json_schema"}
    chat_server.answer(says(ANSWER), says([1, 2]))

    await model.extract(HELLO, Theme)
    numbers = await model.extract(HELLO, list[int])

    assert numbers.value == [1, 2]
    assert formats(chat_server) == ["json_schema", "json_object", "json_object"]
    last = chat_server.requests[-1].messages[-1]
    assert last["role"] == "user"
    assert last["content"].startswith("Hello\n\nAnswer with one JSON object")
    assert '"integer"' in last["content"]
    assert HELLO[-1]["content"] == "Hello"


async def test_a_remembered_mode_is_refused_later(
    model: OpenAIChatModel, chat_server: ChatServer
) -> None:
    """The fallback continues from there, and never returns to an earlier mode."""
    chat_server.refused_formats = {"json_schema"}
    chat_server.answer(says(ANSWER), says(ANSWER), says(ANSWER))

    await model.extract(HELLO, Theme)
    chat_server.refused_formats = {"json_object"}
    await model.extract(HELLO, Theme)
    await model.extract(HELLO, Theme)

    assert formats(chat_server) == ["json_schema", "json_object", "json_object", "text", "text"]


async def test_concurrent_tasks_find_the_same_mode(
    model: OpenAIChatModel, chat_server: ChatServer
) -> None:
    """Tasks that fall back at the same time end at the same format."""
    chat_server.refused_formats = {"json_schema", "json_object"}
    chat_server.answer(*[says(ANSWER)] * 9)

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(model.extract, HELLO, Theme)
    await model.extract(HELLO, Theme)

    assert len(chat_server.requests) <= 8 * 3 + 1
    assert formats(chat_server)[-1] == "text"


async def test_the_refusal_of_one_schema_is_not_remembered(
    model: OpenAIChatModel, chat_server: ChatServer
) -> None:
    """It is requested without strict mode; the next type is requested with it."""
    invalid = {"error": {"message": "Invalid schema for response_format 'Theme': too many."}}
    chat_server.answer(fails(400, invalid), says(ANSWER), says(ANSWER))

    extraction = await model.extract(HELLO, Theme)
    await model.extract(HELLO, Theme)

    assert extraction.usage.calls == 2
    assert formats(chat_server) == ["json_schema"] * 3
    strict = [request.body["response_format"]["json_schema"] for request in chat_server.requests]
    assert [schema["strict"] for schema in strict] == [True, False, True]


async def test_a_schema_that_no_mode_accepts_is_described_in_the_prompt(
    model: OpenAIChatModel, chat_server: ChatServer
) -> None:
    """Some grammar engines cannot compile it."""
    invalid = {"object": "error", "message": "Failed to compile the grammar of the schema."}
    chat_server.answer(*[fails(400, invalid)] * 3, says(ANSWER), says({"a": 1}))

    extraction = await model.extract(HELLO, Theme)
    await model.extract(HELLO, dict[str, int])

    assert extraction.usage.calls == 4
    assert formats(chat_server) == [
        "json_schema", "json_schema", "json_object", "text", "json_schema",
    ]  # fmt: skip
    last = chat_server.requests[-1]
    assert last.body["response_format"]["json_schema"]["strict"] is False
    assert "JSON schema" in last.messages[-1]["content"]


@pytest.mark.parametrize(
    ("status", "body", "match"),
    [
        (400, {"error": {"message": "This model's maximum context length is 8192 tokens",
                         "code": "context_length_exceeded"}}, "context window"),
        (400, {"error": {"message": "Unsupported parameter: 'temperature'"}}, "refused"),
        (404, {"error": {"message": "no such model", "code": "model_not_found"}}, "not found"),
        (429, {"error": {"message": "response_format"}}, "rate"),
        (500, {"error": {"message": "response_format"}}, "failed"),
    ],
)  # fmt: skip
async def test_other_failures_do_not_cause_a_fallback(
    model: OpenAIChatModel, chat_server: ChatServer, status: int, body: Any, match: str
) -> None:
    """A prompt that is too long fails in every mode: one call, and the error comes at once."""
    chat_server.answer(fails(status, body), says(ANSWER))

    with pytest.raises(ChatModelError, match=match) as caught:
        await model.extract(HELLO, Theme)
    await model.extract(HELLO, Theme)

    assert caught.value.status == status
    assert formats(chat_server) == ["json_schema", "json_schema"]


async def test_an_invalid_answer_is_repaired_once(
    model: OpenAIChatModel, chat_server: ChatServer
) -> None:
    """The repair has the answer, its problem, and the schema in the prompt."""
    bad = {"name": "Darcula", "is_dark": "perhaps"}
    chat_server.answer(says(bad, usage=(20, 7)), says(ANSWER, usage=(60, 8)))

    extraction = await model.extract(HELLO, Theme)

    assert extraction.value == DARK
    assert extraction.raw == json.dumps(ANSWER)
    assert extraction.usage == Usage(80, 15, calls=2)
    *before, answer, correction = chat_server.requests[1].messages
    assert before == HELLO
    assert answer == {"role": "assistant", "content": json.dumps(bad)}
    assert correction["role"] == "user"
    assert "- is_dark: Input should be a valid boolean" in correction["content"]
    assert '"is_dark"' in correction["content"]
    assert formats(chat_server) == ["json_schema", "json_schema"]


async def test_two_invalid_answers_raise(model: OpenAIChatModel, chat_server: ChatServer) -> None:
    """The error carries the last answer; its message quotes neither that nor the conversation."""
    chat_server.answer(says({"name": "PIN 1234"}), says({"name": "PIN 5678"}))

    with pytest.raises(ExtractionError, match=r"does not fit 'Theme': missing") as caught:
        await model.extract(HELLO, Theme)

    assert caught.value.raw == '{"name": "PIN 5678"}'
    assert "PIN" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


@pytest.mark.parametrize(
    ("reply", "match", "raw"),
    [
        (says('{"name": "Dar', finish_reason="length"), "cut off", '{"name": "Dar'),
        (says(ANSWER, finish_reason="length"), "cut off", json.dumps(ANSWER)),
        (says(None, refusal="I won't."), "refused", "I won't."),
        (says("", finish_reason="content_filter"), "filter", ""),
    ],
    ids=["cut off", "cut off after all", "refusal", "filter"],
)
async def test_answers_that_no_repair_can_fix_raise_at_once(
    model: OpenAIChatModel, chat_server: ChatServer, reply: Any, match: str, raw: str
) -> None:
    """The answer is truncated, refused or filtered."""
    chat_server.answer(reply)

    with pytest.raises(ExtractionError, match=match) as caught:
        await model.extract(HELLO, Theme)

    assert caught.value.raw == raw
    assert len(chat_server.requests) == 1


async def test_an_endpoint_that_ignores_the_schema_gets_it_in_the_prompt(
    model: OpenAIChatModel, chat_server: ChatServer
) -> None:
    """Once may be chance; after the second time JSON mode is no longer requested."""
    chat_server.answer(
        says("He likes it dark."), says(ANSWER), says(""), says(ANSWER), says(ANSWER)
    )

    first = await model.extract(HELLO, Theme)
    second = await model.extract(HELLO, Theme)
    third = await model.extract(HELLO, Theme)

    assert [first.usage.calls, second.usage.calls, third.usage.calls] == [2, 2, 1]
    assert formats(chat_server) == ["json_schema", "text", "json_schema", "text", "text"]
    assert len(chat_server.requests[3].messages) == len(HELLO), "an empty answer is not sent back"


async def test_one_empty_answer_does_not_change_the_mode(
    model: OpenAIChatModel, chat_server: ChatServer
) -> None:
    """Other answers follow the schema, so it says nothing about the endpoint."""
    for _ in range(3):
        chat_server.answer(says(""), says(ANSWER), says(ANSWER))
        await model.extract(HELLO, Theme)
        await model.extract(HELLO, Theme)

    assert formats(chat_server) == ["json_schema", "text", "json_schema"] * 3


async def test_instructions_join_a_message_in_parts(chat_server: ChatServer) -> None:
    """A question with a picture stays one message; after an answer there is a new one."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    chat_server.refused_formats = {"json_schema", "json_object"}
    chat_server.answer(says(ANSWER), says(ANSWER))

    async with OpenAIChatModel("test", base_url=chat_server.url, api_key=KEY) as model:
        await model.extract([{"role": "user", "content": [picture]}], Theme)
        await model.extract([*HELLO, {"role": "assistant", "content": "Hi."}], Theme)

    *_, first, second = chat_server.requests
    (message,) = first.messages
    assert message["content"][0] == picture
    assert message["content"][1]["type"] == "text"
    assert [message["role"] for message in second.messages[1:]] == ["user", "assistant", "user"]


async def test_a_lone_surrogate_in_an_answer_is_not_sent_back(
    model: OpenAIChatModel, chat_server: ChatServer
) -> None:
    """It would make the second request impossible."""
    chat_server.answer(says('{"name": "\ud83c"}'), says(ANSWER))

    assert (await model.extract(HELLO, Theme)).value == DARK
    assert chat_server.requests[1].messages[-2]["content"] == '{"name": "\ufffd"}'


async def test_parameters_are_sent_with_each_call(chat_server: ChatServer) -> None:
    chat_server.answer(says("Hi."), says(ANSWER))

    async with OpenAIChatModel(
        "test",
        base_url=chat_server.url,
        api_key=KEY,
        extra_body={"temperature": 0, "max_completion_tokens": 4000},
    ) as model:
        await model.respond(HELLO)
        await model.extract(HELLO, Theme)

    for request in chat_server.requests:
        assert request.body["temperature"] == 0
        assert request.body["max_completion_tokens"] == 4000


async def test_a_client_of_the_caller_stays_open(chat_server: ChatServer) -> None:
    """The caller owns it, with its options."""
    chat_server.answer(says("Hi."), says("Hi."))

    async with AsyncOpenAI(base_url=chat_server.url, api_key=KEY) as client:
        async with OpenAIChatModel("test", client=client) as model:
            await model.respond(HELLO)
        assert not client.is_closed()
        await model.respond(HELLO)

    assert len(chat_server.requests) == 2


async def test_a_closed_model_opens_another_client(chat_server: ChatServer) -> None:
    """Closing twice or before the first call has no effect, and the model can be used again."""
    chat_server.answer(says("Hi."), says("Hi."))
    model = OpenAIChatModel("test", base_url=chat_server.url, api_key=KEY)

    await model.aclose()
    await model.respond(HELLO)
    await model.aclose()
    await model.aclose()
    await model.respond(HELLO)
    await model.aclose()

    assert len(chat_server.requests) == 2


@pytest.mark.parametrize("backends", [["asyncio", "trio"], ["trio", "asyncio"]], ids=str)
def test_one_model_serves_several_event_loops(chat_server: ChatServer, backends: list[str]) -> None:
    """Each thread has a loop, and each loop a client; connections are not shared."""
    chat_server.answer(*[says("Hi.")] * 12)
    model = OpenAIChatModel("test", base_url=chat_server.url, api_key=KEY)
    texts: list[str] = []

    async def talk() -> None:
        async with model:
            async with anyio.create_task_group() as tasks:
                for _ in range(2):
                    tasks.start_soon(model.respond, HELLO)
            texts.append((await model.respond(HELLO)).text)

    threads = [
        threading.Thread(target=anyio.run, args=(talk,), kwargs={"backend": backend})
        for backend in [*backends, *backends]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert texts == ["Hi."] * 4


def test_the_representation_shows_no_key() -> None:
    """It names the model."""
    model: ChatModel = OpenAIChatModel("gpt-test", api_key=KEY)

    assert repr(model) == "OpenAIChatModel('gpt-test')"


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"model": " "}, "model must not be empty"),
        ({"timeout": 0}, "timeout must be a number above 0"),
        ({"timeout": float("nan")}, "timeout must be a number above 0"),
    ],
    ids=["model", "timeout", "timeout that is none"],
)
def test_bad_options_raise(options: dict[str, Any], match: str) -> None:
    """The constructor raises, not the first call."""
    with pytest.raises(ValueError, match=match):
        OpenAIChatModel(**{"model": "test", **options})


@pytest.mark.parametrize("option", ["base_url", "api_key", "max_retries"])
async def test_client_options_with_a_client_raise(option: str) -> None:
    """They would have no effect."""
    options: dict[str, Any] = {option: 1 if option == "max_retries" else "http://127.0.0.1"}
    async with AsyncOpenAI(api_key=KEY) as client:
        with pytest.raises(ValueError, match="must be set on the client"):
            OpenAIChatModel("test", client=client, **options)


async def test_messages_that_cannot_be_sent_raise(model: OpenAIChatModel) -> None:
    """An empty list, a lone surrogate, an object that is not JSON: nothing is sent."""
    with pytest.raises(ValueError, match="at least one message"):
        await model.respond([])
    with pytest.raises(ValueError, match="cannot be sent") as caught:
        await model.respond([{"role": "user", "content": "PIN \ud83c"}])
    with pytest.raises(TypeError, match="not JSON serializable"):
        await model.respond([{"role": "user", "content": object()}])

    assert caught.value.__context__ is None


async def test_missing_credentials_raise(chat_server: ChatServer) -> None:
    """The error says what to do, for local servers too."""
    async with OpenAIChatModel("test", base_url=chat_server.url) as model:
        with pytest.raises(ChatModelError, match="pass api_key or set OPENAI_API_KEY"):
            await model.respond(HELLO)


async def test_environment_variables_set_endpoint_and_key(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are the `openai` package's, read on the first call."""
    monkeypatch.setenv("OPENAI_BASE_URL", chat_server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-surroundings")
    chat_server.answer(says("Hi."))

    async with OpenAIChatModel("test") as model:
        await model.respond(HELLO)

    assert chat_server.requests[0].headers["authorization"] == "Bearer sk-of-the-surroundings"
