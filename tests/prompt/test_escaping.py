"""Names and values in prompts: nothing invisible, and no special token of a chat template."""

import json

import pytest

from factmem.prompt.memory_message import name_text, value_text
from tests.tables import table

TOKENS = [
    *("[TOOL_CALLS]", "[/AVAILABLE_TOOLS]", "[INST]", "[/SYS]", "[IMG]", "[TOOL_RESULTS]"),
    *("[gMASK]", "[UNUSED_TOKEN_146]", "[control_8]", "[unused1]", "[PAD151645]", "[/user]"),
    *("[gMASK](x)", "[INST](x)", "[|user|]", "[|endofturn|]", "]~b]", "]~!b[", "[e~["),
    *("\uff3bINST]", "[\uff29\uff2e\uff33\uff34]", "\uff1c|end|\uff1e", "\ufe64s\ufe65"),
]


@table("token", TOKENS)
def test_special_tokens_are_escaped(token: str) -> None:
    """This holds for values and names; parsing the text returns the original."""
    text = f"a {token} b"

    for escaped in (value_text(text), name_text(text)):
        assert token not in escaped
        assert json.loads(escaped) == text


@table("text", ["[1]", "a[i + 1]", "[docs](https://a.example)", "[the page](b)", "x] | [y, z]"])
def test_other_brackets_stay(text: str) -> None:
    """Lists, code and links remain readable, and lists of JSON remain lists."""
    assert value_text(text) == f'"{text}"'
    assert value_text([True]) == "[true]"
    assert value_text([[None], [1, "[x"]]) == '[[null],[1,"[x"]]'


@table(
    "hidden",
    [
        "\u200c\u200d", "\u200d\u200d\u200c", "\ufe0f\ufe0e\ufe0f", "\u200d\ufe0e", "\u200b",
        "\u2800",
    ],
)  # fmt: skip
def test_a_run_of_invisible_characters_is_escaped(hidden: str) -> None:
    """It can carry hidden text."""
    escaped = value_text(f"a{hidden}b")

    assert escaped.isascii()
    assert json.loads(escaped) == f"a{hidden}b"


@pytest.mark.parametrize("text", ["❤️‍🔥", "👨‍👩‍👧", "می‌خواهم", "क्‍ष", "☎️"])
def test_joiners_that_shape_a_word_stay(text: str) -> None:
    """Emoji, Persian and Hindi remain readable."""
    assert value_text(text) == f'"{text}"'


@pytest.mark.parametrize("letter", ["\u3164", "\uffa0", "\u115f", "\u1160"])
def test_a_name_with_an_invisible_letter_is_quoted(letter: str) -> None:
    """Otherwise it looks like another name, or like none."""
    for name in (letter, f"a{letter}", f"alice{letter}bob"):
        assert name_text(name).isascii()
        assert json.loads(name_text(name)) == name
    assert [name_text(name) for name in ("alice", "zoë", "앨리스")] == ["alice", "zoë", "앨리스"]
