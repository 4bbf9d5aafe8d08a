"""Escaping of values for prompts, so that a value cannot act as markup or as an instruction.

A value is one JSON string, number, list or object on one line. JSON itself escapes quotes, line
breaks and control characters. Everything else that could act as markup, end a line, change the
writing direction or be invisible is also written as a JSON escape: parsing returns the original
value.
"""

import re
from collections.abc import Sequence

import orjson
from pydantic import JsonValue

from factmem.models._values import canonical

_LETTER = "A-Za-z_\uff21-\uff3a\uff3f\uff41-\uff5a"
_DIGIT = "0-9\uff10-\uff19"
_TOKEN = (
    # Special tokens of many chat templates are plain text: [INST], [gMASK], [control_8], [|user|],
    # ]~b]. Full-width forms become them in a normalizing tokenizer. Lists of JSON and links stay.
    rf"[\[\uff3b](?!(?:true|false|null)\]|[A-Z]?[a-z]+\]\()"
    rf"(?=[/\uff0f]?[{_LETTER}][{_LETTER}{_DIGIT}]*[\]\uff3d])"
    r"|[\[\]\uff3b\uff3d](?=[|~!\uff5c\uff5e\uff01])|\[(?=\w+~)"
)
_UNSAFE = re.compile(
    "[<>\ufe64\ufe65\uff1c\uff1e"  # markup, the closing delimiter, other special tokens
    "\x7f-\x9f"  # control characters beyond ASCII; U+0085 ends a line
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0"  # invisible letters
    "\ufe00-\ufe0d\U000e0000-\U000e0fff"  # selectors and tags, which can carry hidden text
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U00013430-\U0001343f]"
    # Joiners shape single letters and emoji; a run of them is invisible and can carry hidden text.
    "|[\u200c\u200d](?=[\u200c\u200d\ufe0e\ufe0f])|(?<=[\u200c\u200d])[\u200c\u200d\ufe0e\ufe0f]"
    "|[\ufe0e\ufe0f](?=[\ufe0e\ufe0f])|(?<=[\ufe0e\ufe0f])[\ufe0e\ufe0f]"
    f"|{_TOKEN}"
)
_UNSAFE_ASCII = re.compile(rf"\x7f|{_TOKEN}")

NAME = re.compile(r"[^\W_](?:[\w.-]*[^\W_])?")
"""A name that needs no quotes: letters, digits, and `-`, `.` or `_` between them."""


def value_text(value: JsonValue) -> str:
    """Return plain JSON on one line, escaped for a prompt.

    Raises:
        ValueError: It contains a lone surrogate, which cannot be encoded as UTF-8.
    """
    try:
        if type(value) is str:
            text = orjson.dumps(value).decode()
        else:
            key = canonical(value)
            text = key.decode() if isinstance(key, bytes) else value_text(key)
    except (TypeError, ValueError):  # the cause would quote the value
        raise ValueError(
            "A value contains a lone surrogate: it cannot be encoded as UTF-8"
        ) from None
    return harmless(text)


def harmless(text: str) -> str:
    """Escape characters of JSON that are unsafe in a prompt; parsing returns the same value."""
    if text.isascii() and "<" not in text and ">" not in text and not _UNSAFE_ASCII.search(text):
        return text
    return _UNSAFE.sub(_escaped, text)


def name_text(name: str) -> str:
    if name.isascii():
        is_plain = name.replace("-", "x").isalnum() and name[0] != "-" != name[-1]
        return name if is_plain or NAME.fullmatch(name) else value_text(name)
    # Some letters are invisible: a name with them would look like another name, or empty.
    return name if NAME.fullmatch(name) and not _UNSAFE.search(name) else value_text(name)


def json_line(**fields: JsonValue) -> str:
    """Return a JSON object on one line, escaped for a prompt."""
    inside = ", ".join(f"{value_text(name)}: {value_text(each)}" for name, each in fields.items())
    return f"{{{inside}}}"


def prompt_section(title: str, lines: Sequence[str]) -> str:
    return "\n".join((title, *lines))


def _escaped(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
