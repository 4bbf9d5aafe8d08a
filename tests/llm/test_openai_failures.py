"""Failures between a model and its endpoint, which leave nothing behind."""

import gc
import logging
import traceback
import warnings
from typing import Any

import anyio
import anyio.to_thread
import openai
import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel

from factmem.errors import ChatModelError, MissingExtraError
from factmem.llm.openai import OpenAIChatModel, complaint, concern_of, repeats, texts_of
from tests.chat_server import (
    ChatServer,
    Reply,
    breaks_off,
    breaks_off_stream,
    fails,
    hangs,
    refused_url,
    says,
    sends,
)
from tests.llm.conftest import KEY
from tests.tables import table

SECRET = "my PIN is 1234, tell nobody"


HELLO: list[dict[str, Any]] = [{"role": "user", "content": SECRET}]


class Theme(BaseModel):
    name: str


ANSWER = {"name": "Darcula"}


FAILURES: list[tuple[str, Reply, int | None, str]] = [
    ("bad request", fails(400), 400, r"refused the request \(HTTP 400\)"),
    ("credentials", fails(401), 401, r"refused the credentials \(HTTP 401\): check api_key"),
    ("forbidden", fails(403), 403, r"does not allow this \(HTTP 403\)"),
    ("not found", fails(404), 404, r"not found \(HTTP 404\): check the model's name and base_url"),
    ("too large", fails(413), 413, r"fit its context window \(HTTP 413\)"),
    ("rate", fails(429), 429, r"limits the rate, or its quota is used up \(HTTP 429\)"),
    ("server error", fails(500), 500, r"failed \(HTTP 500\): try again later"),
    ("bad gateway", fails(502, "<html>"), 502, r"failed \(HTTP 502\)"),
    ("overloaded", fails(529), 529, r"failed \(HTTP 529\)"),
    ("body cut off", breaks_off(), None, "could not be reached at .*, or closed the connection"),
    (
        "stream cut off",
        breaks_off_stream(),
        None,
        "could not be reached at .*, or closed the connection",
    ),
    ("no JSON", sends(b'{"choices": ['), None, "no chat completion: it is not JSON$"),
    ("no text", sends(b"\xff\xfe"), None, "no chat completion: it is not JSON$"),
    ("nothing", sends(b""), None, "no chat completion: it is not JSON$"),
    ("nested without end", sends(b"[" * 100_000), None, "no chat completion: it is not JSON$"),
    (
        "a page",
        sends(b"<html>Login</html>", content_type="text/html"),
        None,
        "is not a JSON object",
    ),
    ("null", sends(b"null"), None, "it is not a JSON object"),
    ("list", sends(b"[]"), None, "it is not a JSON object"),
    ("empty object", sends(b"{}"), None, "it has no choices"),
    ("no choices", sends(b'{"choices": []}'), None, "it has no choices"),
    ("choices of a strange type", sends(b'{"choices": "x"}'), None, "it has no choices"),
    ("choice of null", sends(b'{"choices": [null]}'), None, "has a choice without a message"),
    ("choice without message", sends(b'{"choices": [{}]}'), None, "choice without a message"),
    ("error with status 200", sends(b'{"error": {"code": 502}}'), None, "it reports an error"),
    ("tool without a name", says(None, tool_calls=[{"id": "1"}]), None, "has a tool call without"),
]


@pytest.mark.parametrize(
    ("reply", "status", "match"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES]
)
async def test_a_failure_is_a_clear_error(
    model: OpenAIChatModel, chat_server: ChatServer, reply: Reply, status: int | None, match: str
) -> None:
    """Both kinds of call raise it; the history does not change, and the next call works."""
    chat_server.answer(reply, reply, says("Hi."))
    messages = [*HELLO]

    with pytest.raises(ChatModelError, match=match) as responding:
        await model.respond(messages)
    with pytest.raises(ChatModelError, match=match) as extracting:
        await model.extract(messages, Theme)
    recovered = await model.respond(messages)

    assert recovered.text == "Hi."
    assert messages == HELLO
    for caught in (responding, extracting):
        assert caught.value.status == status
        shown = "".join(traceback.format_exception(caught.value))
        assert "1234" not in shown
        assert KEY not in shown
    assert len(chat_server.requests) == 3, "nothing is retried beyond the client's retries"


@pytest.mark.parametrize("url", [refused_url(), "localhost:11434/v1"], ids=["refused", "no scheme"])
async def test_an_address_that_does_not_answer_is_a_clear_error(url: str) -> None:
    """No server listens, or `http://` is missing; the cause says so."""
    async with OpenAIChatModel("test", base_url=url, api_key=KEY, max_retries=0) as model:
        with pytest.raises(ChatModelError, match=r"not be reached.*: check base_url") as caught:
            await model.respond(HELLO)

    assert caught.value.status is None
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_the_client_retries(chat_server: ChatServer, status: int) -> None:
    """It waits as long as the endpoint asks for, and counts as one call."""
    chat_server.answer(fails(status, retry_after_ms="1"), says(ANSWER))

    async with OpenAIChatModel("test", base_url=chat_server.url, api_key=KEY) as model:
        extraction = await model.extract(HELLO, Theme)

    assert extraction.value == Theme(name="Darcula")
    assert extraction.usage.calls == 1
    assert len(chat_server.requests) == 2


async def test_retries_are_limited(chat_server: ChatServer) -> None:
    """There are as many as requested, and none besides."""
    chat_server.answer(*[fails(429, retry_after_ms="1")] * 3)

    async with OpenAIChatModel(
        "test", base_url=chat_server.url, api_key=KEY, max_retries=2
    ) as model:
        with pytest.raises(ChatModelError, match="limits the rate") as caught:
            await model.extract(HELLO, Theme)

    assert caught.value.status == 429
    assert len(chat_server.requests) == 3


@pytest.mark.storm
async def test_a_timeout_ends_a_call_that_hangs(chat_server: ChatServer) -> None:
    """The connection is closed, and the next call is served."""
    chat_server.answer(hangs(), says("Hi."))

    async with OpenAIChatModel("test", base_url=chat_server.url, api_key=KEY, timeout=1.5) as model:
        with pytest.raises(ChatModelError, match=r"did not answer within 1.5 seconds") as caught:
            await model.extract(HELLO, Theme)
        await anyio.to_thread.run_sync(chat_server.wait_for_hanging_up)
    async with OpenAIChatModel("test", base_url=chat_server.url, api_key=KEY, timeout=30) as model:
        assert (await model.respond(HELLO)).text == "Hi."

    assert caught.value.status is None
    assert len(chat_server.requests) == 2


async def test_a_timeout_includes_the_clients_retries(chat_server: ChatServer) -> None:
    """An endpoint that asks for a minute's wait does not make the call take a minute."""
    chat_server.answer(fails(429, retry_after="60"))

    async with OpenAIChatModel("test", base_url=chat_server.url, api_key=KEY, timeout=0.1) as model:
        with pytest.raises(ChatModelError, match="did not answer within"):
            await model.respond(HELLO)


async def test_the_timeout_of_a_clients_own_is_reported(chat_server: ChatServer) -> None:
    """The caller passed the client."""
    chat_server.answer(hangs())

    async with AsyncOpenAI(
        base_url=chat_server.url, api_key=KEY, timeout=0.1, max_retries=0
    ) as client:
        model = OpenAIChatModel("test", client=client)
        with pytest.raises(ChatModelError, match="within the client's timeout"):
            await model.respond(HELLO)


async def test_cancelling_during_a_repair_or_a_fallback(
    model: OpenAIChatModel, chat_server: ChatServer
) -> None:
    """A partial extraction does not count; what was learned about modes may stay."""
    chat_server.refused_formats = {"json_schema"}
    chat_server.answer(says({}), hangs(), says(ANSWER))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(model.extract, HELLO, Theme)
        await anyio.to_thread.run_sync(chat_server.wait_for_requests, 3)
        tasks.cancel_scope.cancel()
    extraction = await model.extract(HELLO, Theme)

    assert extraction.usage.calls == 1
    assert len(chat_server.requests) == 4


async def test_cancelling_before_the_first_call(chat_server: ChatServer) -> None:
    """A cancelled task sends nothing."""
    async with OpenAIChatModel("test", base_url=chat_server.url, api_key=KEY) as model:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await model.respond(HELLO)

    assert scope.cancelled_caught
    assert chat_server.requests == []


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_closing_leaves_no_connection(chat_server: ChatServer, backend: str) -> None:
    """Calls that were answered, cancelled, timed out or failed leave nothing to collect."""
    chat_server.answer(says("Hi."), hangs(), breaks_off(), fails(500))

    async def talk() -> None:
        options: dict[str, Any] = {"base_url": chat_server.url, "api_key": KEY, "max_retries": 0}
        async with OpenAIChatModel("test", **options) as model:
            await model.respond(HELLO)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(model.respond, HELLO)
                await anyio.to_thread.run_sync(chat_server.wait_for_requests, 2)
                tasks.cancel_scope.cancel()
            for _ in range(2):
                with pytest.raises(ChatModelError):
                    await model.respond(HELLO)

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        anyio.run(talk, backend=backend)
        gc.collect()

    assert [str(warning.message) for warning in told] == []


async def test_an_error_that_repeats_the_prompt_has_no_cause(
    model: OpenAIChatModel, chat_server: ChatServer
) -> None:
    """Some servers repeat the request; a log of the error must not contain it."""
    chat_server.answer(*[fails(400, {"error": {"message": f"Invalid text: '{SECRET}'."}})] * 2)
    in_parts = ({"role": "user", "content": ({"type": "text", "text": SECRET},)},)

    for messages in (HELLO, in_parts):
        with pytest.raises(ChatModelError, match=r"HTTP 400.*left out") as caught:
            await model.respond(messages)

        assert caught.value.__cause__ is caught.value.__context__ is None
        assert "1234" not in "".join(traceback.format_exception(caught.value))


REPEATED = {"loc": ["body", "x"], "msg": "Extra inputs", "input": {"messages": HELLO}}


@table(
    ("status", "body", "message"),
    [
        (422, {"detail": [REPEATED]}, "HTTP 422"),
        (401, {"error": {"message": f"unknown key {KEY}"}}, "HTTP 401.*left out"),
    ],
)
async def test_a_repeated_request_or_key_is_not_shown(
    model: OpenAIChatModel, chat_server: ChatServer, status: int, body: Any, message: str
) -> None:
    """Servers built with FastAPI repeat the request; neither must be in a log."""
    chat_server.answer(fails(status, body))

    with pytest.raises(ChatModelError, match=message) as caught:
        await model.respond(HELLO)

    shown = "".join(traceback.format_exception(caught.value))
    assert "1234" not in shown
    assert KEY not in shown


async def test_an_error_with_its_own_message_keeps_it(
    model: OpenAIChatModel, chat_server: ChatServer
) -> None:
    """Such messages often say what to do."""
    told = {"error": {"message": "Model test was retired in May.", "code": "model_retired"}}
    chat_server.answer(fails(400, told))

    with pytest.raises(ChatModelError, match=r"\(HTTP 400, model_retired\)") as caught:
        await model.respond(HELLO)

    assert "retired in May" in str(caught.value.__cause__)


async def test_nothing_is_logged(
    model: OpenAIChatModel, chat_server: ChatServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Even the lowest level logs no prompt, answer or key."""
    chat_server.refused_formats = {"json_schema"}
    chat_server.answer(says({"PIN": 1234}), says({"name": "PIN 1234"}), fails(500))
    caplog.set_level(logging.DEBUG)

    await model.extract(HELLO, Theme)
    with pytest.raises(ChatModelError):
        await model.respond(HELLO)

    # At that level the openai package itself logged each request before version 3.
    names = ("factmem", "openai", "http") if openai.VERSION >= "3" else ("factmem",)
    logged = [record.getMessage() for record in caplog.records if record.name.startswith(names)]
    assert not [line for line in logged if "1234" in line or KEY in line]


async def test_a_missing_package_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a dependency, but `--no-deps` exists."""
    monkeypatch.setitem(__import__("sys").modules, "openai", None)

    with pytest.raises(MissingExtraError, match="pip install openai"):
        await OpenAIChatModel("test", api_key=KEY).respond(HELLO)


SAID: list[tuple[str, int, Any, str]] = [
    ("OpenAI, model without schemas", 400,
     {"message": "Invalid parameter: 'response_format' of type 'json_schema' is not supported with "
                 "this model. Learn more about supported models at the Structured Outputs guide.",
      "type": "invalid_request_error", "param": None, "code": None}, "format"),
    ("OpenAI, bad value", 400,
     {"message": "Invalid value: 'object'. Supported values are: 'json_object', 'json_schema', and "
                 "'text'.",
      "type": "invalid_request_error", "param": "response_format.type", "code": "invalid_value"},
     "format"),
    ("OpenAI, bad schema", 400,
     {"message": "Invalid schema for response_format 'X': In context=('properties', 'a'), "
                 "'default' is not permitted.",
      "type": "invalid_request_error", "param": "response_format", "code": None}, "schema"),
    ("DeepSeek", 400, {"message": "This response_format type is unavailable now",
                       "type": "invalid_request_error", "param": None,
                       "code": "invalid_request_error"}, "format"),
    ("LM Studio", 400, "'response_format.type' must be 'json_schema' or 'text'", "format"),
    ("vLLM", 400,
     {"object": "error", "type": "BadRequestError", "param": None, "code": 400,
      "message": "The provided JSON schema contains features not supported by xgrammar."},
     "schema"),
    ("FastAPI", 422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "response_format"],
                                  "msg": "Extra inputs are not permitted",
                                  "input": {"type": "json_schema"}}]}, "format"),
    ("OpenRouter", 404, {"message": "No endpoints found that can handle the requested parameters.",
                         "code": 404}, "format"),
    ("OpenAI, too long", 400,
     {"message": "This model's maximum context length is 8192 tokens. However, your messages "
                 "resulted in 10000 tokens.",
      "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"},
     "length"),
    ("llama.cpp, too long", 400, {"message": "the request exceeds the available context size",
                                  "type": "exceed_context_size_error"}, "length"),
    ("too large", 413, None, "length"),
    ("unknown model", 404, {"message": "The model `x` does not exist", "code": "model_not_found"},
     "other"),
    ("another parameter", 400, {"message": "Unsupported value: 'temperature' does not support 0.5",
                                "param": "temperature", "code": "unsupported_value"}, "other"),
    ("FastAPI, another field, request repeated", 422,
     {"detail": [{"loc": ["body", "messages"], "msg": "Field required",
                  "input": {"response_format": "json_schema", "messages": "context length"}}]},
     "other"),
    ("no body", 400, None, "other"),
    ("a page", 404, "<html><h1>Not Found</h1></html>", "other"),
    ("credentials", 401, {"message": "response_format"}, "other"),
    ("server", 500, {"message": "response_format"}, "other"),
    ("nested without end", 400, {"detail": [[[[[[[[[[[[["response_format"]]]]]]]]]]]]]}, "other"),
]  # fmt: skip


@table(("status", "body", "concern"), [row[1:] for row in SAID], ids=[row[0] for row in SAID])
def test_the_subject_of_a_refusal(status: int, body: Any, concern: str) -> None:
    """Only the endpoint's own words count, not a request that it repeats."""
    assert concern_of(status, body) == concern


@table("status", [400, 401, 403, 404, 408, 409, 413, 418, 429, 500, 503, 529])
def test_a_complaint_names_the_status_and_what_to_do(status: int) -> None:
    """The message is factmem's, with the endpoint's code if that is a plain word."""
    body = {"code": "model_not_found", "message": "PIN 1234"}

    message = complaint(status, body, concern_of(status, body))

    assert f"(HTTP {status}, model_not_found): " in message
    assert "PIN" not in message


@table("code", [None, 400, "", "PIN 1234", "x" * 65, ["a"], "한국어"])
def test_a_code_that_is_not_a_plain_word_is_left_out(code: Any) -> None:
    """Such a code could repeat anything."""
    assert "(HTTP 400): " in complaint(400, {"code": code}, "other")


@table(
    ("text", "secrets", "is_repeated"),
    [
        ("your input 'my PIN is 1234, keep it' is bad", ["so: my PIN is 1234, keep it safe"], True),
        ("bad input: PIN 1234", ["something else altogether", "PIN 1234"], True),
        ("입력: 저는 코틀린을 좋아해요", ["네, 저는 코틀린을 좋아해요. 기억해 줘요."], True),
        ("key sk-abcdefghijklmnopqrstuv is unknown", ["sk-abcdefghijklmnopqrstuv"], True),
        ("x" * 4_001, ["unrelated"], True),
        ("The model `gpt-x` does not exist", ["Hi", "no", "", "What does the fox say?"], False),
        ("", ["Hello"], False),
        ("Connection error.", [], False),
    ],
)
def test_a_message_that_repeats_a_secret_is_recognized(
    text: str, secrets: list[str], is_repeated: bool
) -> None:
    """All or a part. A short prompt must not withhold each error that contains its letters."""
    assert repeats(text, secrets) is is_repeated


def test_strings_are_found_in_all_of_a_message() -> None:
    """Parts and arguments of tools count; roles and pictures do not."""
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "image_url",
         "image_url": {"url": "data:image/png;base64,AAAA"}}]},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "two"}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "three"},
    ]  # fmt: skip

    assert list(texts_of(messages)) == ["one", "f", "two", "three"]
