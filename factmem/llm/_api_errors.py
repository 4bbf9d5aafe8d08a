"""Errors of endpoints: their reason, a description, and a check whether they quote the request.

There is no common format: OpenAI returns a code and a parameter, FastAPI servers a location, most
others only a sentence. Only fields that the endpoint writes itself are read, because several
servers return the whole request with the error.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from factmem.llm._answer import items_in, members_in

Concern: TypeAlias = Literal["format", "schema", "length", "other"]
"""Why a request was rejected: the response format, this schema, too many tokens, or another."""

_PLAIN_CODE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_LENGTH = re.compile(
    r"context.?length|context.?window|context.?size|maximum.?context|prompt.?is.?too.?long"
    r"|too.?many.?tokens|input.?length|max_model_len|string_above_max_length"
)
_SCHEMA = re.compile(
    r"invalid.?json.?schema|invalid.?schema|schema.?is.?(?:invalid|not)|json.?schema.?contains"
    r"|json.?schema.?(?:is.?too|conversion|error)|grammar|xgrammar|outlines|guidance"
)
_FORMAT = re.compile(
    r"response.?format|json.?schema|json.?object|json.?mode|structured.?output|guided.?json"
    r"|handle.the.requested.parameters"  # OpenRouter's message, with status 404
)
_BY_CONCERN: dict[Concern, tuple[str, str]] = {
    "length": ("got more tokens than fit its context window", "send fewer or shorter messages"),
    "format": ("does not support this response format", "use another model"),
    "schema": ("does not support this JSON schema", "use another type"),
}
_BY_STATUS = {
    401: ("refused the credentials", "check api_key or OPENAI_API_KEY"),
    403: ("does not allow this", "check the permissions of the API key"),
    404: ("was not found", "check the model's name and base_url"),
    408: ("timed out", "try again later"),
    429: ("limits the rate, or its quota is used up", "wait, or send fewer requests"),
}
_OWN_WORDS = ("error", "message", "code", "param", "type", "msg", "loc", "detail", "title")
_NO_TEXTS = frozenset({"role", "type", "id", "tool_call_id"})
_DEEPEST = 8
_RUN = 12
_STRIDE = 4
_LONGEST_ERROR = 4_000


def concern_of(status: int, body: object) -> Concern:
    if status == 413:
        return "length"
    if status not in {400, 404, 422}:
        return "other"
    words = " ".join(_own_words(body)).lower()
    if _LENGTH.search(words):
        return "length"
    if _SCHEMA.search(words):
        return "schema"
    return "format" if _FORMAT.search(words) else "other"


def complaint(
    status: int, body: object, concern: Concern = "other", *, check: str = "messages and extra_body"
) -> str:
    """Describe how an endpoint rejected a request, and what to do.

    Of its answer, `body`, the description contains only the code. `check` names the arguments to
    check if the reason is not known.
    """
    code = members_in(body).get("code")
    is_plain = isinstance(code, str) and _PLAIN_CODE.fullmatch(code) is not None
    where = f"HTTP {status}, {code}" if is_plain else f"HTTP {status}"
    if concern != "other":
        what, advice = _BY_CONCERN[concern]
    elif status >= 500:
        what, advice = "failed", "try again later"
    else:
        what, advice = _BY_STATUS.get(status, ("refused the request", f"check {check}"))
    return f"{what} ({where}): {advice}"


def repeats(text: str, secrets: Iterable[str]) -> bool:
    """Return whether `text` may quote a part of one of `secrets`.

    It detects any 16 consecutive bytes of a long secret, and a secret shorter than 12 bytes as a
    whole word. A string longer than 4,000 characters is not a plain error message: True.
    """
    if len(text) > _LONGEST_ERROR:
        return True
    haystack = text.encode("utf-8", "replace")
    runs = {haystack[start : start + _RUN] for start in range(len(haystack) - _RUN + 1)}
    for secret in secrets:
        needle = secret.strip().encode("utf-8", "replace")
        if len(needle) < _RUN:
            if needle and re.search(rb"(?<!\w)%b(?!\w)" % re.escape(needle), haystack):
                return True
        elif any(needle[at : at + _RUN] in runs for at in range(0, len(needle), _STRIDE)):
            return True
    return False


def texts_of(value: object, key: str = "") -> Iterator[str]:
    """Yield the strings in a message or another part of a request, without images."""
    if isinstance(value, str):
        if key not in _NO_TEXTS and not value.startswith("data:"):
            yield value
        return
    for item in items_in(value):
        yield from texts_of(item)
    for name, item in members_in(value).items():
        yield from texts_of(item, name)


def _own_words(value: object, depth: int = 0) -> Iterator[str]:
    """Yield the fields that the endpoint writes itself; `input` and `ctx` contain the request."""
    if isinstance(value, str | int):
        yield str(value)
    if depth == _DEEPEST:
        return
    for item in items_in(value):
        yield from _own_words(item, depth + 1)
    mapping = members_in(value)
    for key in _OWN_WORDS:
        if key in mapping:
            yield from _own_words(mapping[key], depth + 1)
