"""Wrong arguments of chat models."""

from typing import Any

import openai
import pytest

from factmem.llm.openai import OpenAIChatModel
from tests.wrong_calls import CHAT, MESSAGES, SECRET, Wrong, each_is_refused


def look_up(word: str) -> str:
    """Look a word up."""
    return word


WRONG: list[Wrong] = [
    (OpenAIChatModel, None, TypeError, r"not NoneType: OpenAIChatModel\('gpt-4o-mini'\)"),
    (lambda it: OpenAIChatModel("m", timeout=it), "5", TypeError, "not str: timeout=60"),
    (lambda it: OpenAIChatModel("m", extra_body=it), SECRET, TypeError, "not str: extra_body={"),
    (lambda it: OpenAIChatModel("m", client=it), SECRET, TypeError, r"not str: .*AsyncOpenAI\("),
    (lambda it: OpenAIChatModel("m", api_key=it), 5, TypeError, "a string, not int"),
    (lambda it: OpenAIChatModel("m").respond(it), SECRET, TypeError, r"not str: \[{"),
    (
        lambda it: OpenAIChatModel("m").respond([it]),
        SECRET,
        TypeError,
        "messages must contain dicts",
    ),
    (lambda it: OpenAIChatModel("m").extract(it, str), None, TypeError, f"{MESSAGES} of dicts"),
    (
        lambda it: OpenAIChatModel("m").respond(CHAT, tools=it),
        look_up,
        TypeError,
        "tool.definition",
    ),
    (
        lambda it: OpenAIChatModel("m").respond(CHAT, tools=it),
        [look_up],
        TypeError,
        "not of function",
    ),
]


test_wrong_arguments = each_is_refused(WRONG)


def test_a_blocking_client_is_refused() -> None:
    """It cannot be awaited, which would show only after a paid request."""
    client: Any = openai.OpenAI(api_key=SECRET)
    with client, pytest.raises(TypeError, match="not OpenAI: "):
        OpenAIChatModel("m", client=client)
