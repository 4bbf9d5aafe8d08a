"""Where the facts of a run are put: after the instructions, or beside the user's last message."""

from collections.abc import Callable, Iterable
from typing import TypeVar, get_args

from factmem.memory.runs import Placement

T = TypeVar("T")


def checked_placement(placement: Placement) -> Placement:
    """Return a placement.

    Raises:
        ValueError: It is another string.
    """
    if placement not in get_args(Placement):
        raise ValueError("placement must be 'instructions' or 'message': placement='message'")
    return placement


def put_before_question(messages: Iterable[T], facts: T, is_users: Callable[[T], bool]) -> list[T]:
    """Return messages with one more before the user's last; at the end if there is none."""
    items = list(messages)
    asked = [at for at, each in enumerate(items) if is_users(each)]
    items.insert(asked[-1] if asked else len(items), facts)
    return items
