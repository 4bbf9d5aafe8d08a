"""The meaning of an endpoint's error, by its wording, and the part of it that may be shown."""

from typing import Any

import pytest

from factmem.llm._api_errors import complaint, concern_of, repeats, texts_of
from tests.tables import table

SAID: list[tuple[str, int, Any, str]] = [
    ("OpenAI, model without schemas", 400, {"message": "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model. Learn more about supported models at the Structured Outputs guide.", "type": "invalid_request_error", "param": None, "code": None}, "format"),
    ("OpenAI, bad value", 400, {"message": "Invalid value: 'object'. Supported values are: 'json_object', 'json_schema', and 'text'.", "type": "invalid_request_error", "param": "response_format.type", "code": "invalid_value"}, "format"),
    ("OpenAI, bad schema", 400, {"message": "Invalid schema for response_format 'X': In context=('properties', 'a'), 'default' is not permitted.", "type": "invalid_request_error", "param": "response_format", "code": None}, "schema"),
    ("DeepSeek", 400, {"message": "This response_format type is unavailable now", "type": "invalid_request_error", "param": None, "code": "invalid_request_error"}, "format"),
    ("LM Studio", 400, "'response_format.type' must be 'json_schema' or 'text'", "format"),
    ("vLLM", 400, {"object": "error", "message": "The provided JSON schema contains features not supported by xgrammar.", "type": "BadRequestError", "param": None, "code": 400}, "schema"),
    ("FastAPI", 422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "response_format"], "msg": "Extra inputs are not permitted", "input": {"type": "json_schema"}}]}, "format"),
    ("OpenRouter", 404, {"message": "No endpoints found that can handle the requested parameters.", "code": 404}, "format"),
    ("OpenAI, too long", 400, {"message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 10000 tokens.", "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}, "length"),
    ("llama.cpp, too long", 400, {"message": "the request exceeds the available context size", "type": "exceed_context_size_error"}, "length"),
    ("too large", 413, None, "length"),
    ("unknown model", 404, {"message": "The model `x` does not exist", "code": "model_not_found"}, "other"),
    ("another parameter", 400, {"message": "Unsupported value: 'temperature' does not support 0.5", "param": "temperature", "code": "unsupported_value"}, "other"),
    ("FastAPI, another field, request repeated", 422, {"detail": [{"loc": ["body", "messages"], "msg": "Field required", "input": {"response_format": "json_schema", "messages": "context length"}}]}, "other"),
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


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("your input 'my PIN is 1234, keep it' is bad", "so: my PIN is 1234, keep it safe"),
        ("bad input: PIN 1234", "PIN 1234"),
        ("입력: 저는 코틀린을 좋아해요", "안녕하세요, 저는 코틀린을 좋아해요. 기억해 주세요."),
        ("key sk-abcdefghijklmnopqrstuv is unknown", "sk-abcdefghijklmnopqrstuv"),
        ("x" * 4_001, "unrelated"),
    ],
)
def test_a_message_that_repeats_a_secret_is_recognized(text: str, secret: str) -> None:
    """It may repeat all or a part of it."""
    assert repeats(text, ["something else altogether", secret])


@pytest.mark.parametrize(
    ("text", "secrets"),
    [
        ("The model `gpt-x` does not exist", ["Hi", "no", "", "What does the fox say?"]),
        ("", ["Hello"]),
        ("Connection error.", []),
    ],
)
def test_a_message_that_repeats_nothing_is_recognized(text: str, secrets: list[str]) -> None:
    """A short prompt must not withhold every error that contains its letters."""
    assert not repeats(text, secrets)


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
