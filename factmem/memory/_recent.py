"""The newest messages of a chat that fit into a budget, for the model that continues it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from factmem.llm.messages import OWN_MESSAGES, answered_id, called_ids, is_instruction, is_result
from factmem.prompt.tokens import estimate_tokens


def fitting(
    messages: Sequence[Mapping[str, Any]], max_tokens: int
) -> tuple[list[dict[str, Any]], bool]:
    """Return the newest messages that fit, oldest first, and whether an older one did not.

    They begin with a message of the user, as some endpoints demand. A tool call is with all of its
    results or left out, because endpoints reject the one without the others. Instructions belong to
    the run that had them.
    """
    found: list[dict[str, Any]] = []
    for group in reversed([*_groups(messages)]):
        max_tokens -= sum(estimate_tokens(orjson.dumps(each).decode()) for each in group)
        if max_tokens < 0:
            return _begun(found), True
        found[:0] = map(dict, group)
    return _begun(found), False


def _begun(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    start = next((i for i, each in enumerate(messages) if each.get("role") == "user"), None)
    return [] if start is None else messages[start:]


def _groups(messages: Sequence[Mapping[str, Any]]) -> Iterable[list[Mapping[str, Any]]]:
    """Yield each message alone, and each tool call with its results."""
    index = 0
    while index < len(messages):
        message, index = messages[index], index + 1
        if is_instruction(message) or message.get("name") in OWN_MESSAGES or is_result(message):
            continue
        wanted, group = set(called_ids(message)), [message]
        answered: set[str] = set()
        while wanted and index < len(messages) and is_result(messages[index]):
            answered.add(answered_id(messages[index]))
            group.append(messages[index])
            index += 1
        if wanted == answered:
            yield group
