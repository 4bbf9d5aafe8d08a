"""The places of facts and of stored messages in the prompt of a run."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, get_args

from factmem.memory.runs import Placement

T = TypeVar("T")


def checked_placement(placement: Placement) -> Placement:
    if placement not in get_args(Placement):
        raise ValueError("placement must be 'instructions' or 'message': placement='message'")
    return placement


def put_before_question(messages: Iterable[T], facts: T, is_users: Callable[[T], bool]) -> list[T]:
    """Return messages with one more before the user's last; at the end if there is none."""
    items = list(messages)
    asked = [at for at, each in enumerate(items) if is_users(each)]
    items.insert(asked[-1] if asked else len(items), facts)
    return items


def said_earlier(stored: Iterable[Mapping[str, Any]]) -> list[tuple[bool, str]]:
    """Return the texts of stored messages, and whether the user said each. Tools are left out."""
    return [
        (each["role"] == "user", each["content"])
        for each in stored
        if each["role"] in {"user", "assistant"} and isinstance(each.get("content"), str)
    ]
