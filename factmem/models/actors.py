"""Who makes changes, and why: actors and reasons."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from factmem.errors import InputValueError
from factmem.models._values import checked_text

__all__ = ["acting"]

MAX_REASON = 1000
"""The largest length of an actor and of a reason, in characters."""


class By(NamedTuple):
    """Who made a change, and why."""

    actor: str | None = None
    reason: str | None = None


NOBODY = By()
_BY: ContextVar[By] = ContextVar("factmem_actor", default=NOBODY)


def present_actor() -> By:
    """Return the actor and the reason of changes that are made now."""
    return _BY.get()


@contextmanager
def acting(actor: str, *, reason: str | None = None) -> Generator[None]:
    """Name the actor and the reason of all changes in a block: a person, an agent, a program.

        with acting("jane", reason="the customer called"):
            await memory.review.correct(fact, "Silver")

    Both are stored with the changes, in plain text like the facts. They are in histories, `why`,
    bundles and events, never in prompts. An inner block hides the outer one.

    Raises:
        TypeError: One of them is not a string.
        ValueError: `actor` is empty, or one of them is longer than 1,000 characters.
    """
    token = _BY.set(By(_checked(actor, "actor"), reason and _checked(reason, "reason")))
    try:
        yield
    finally:
        _BY.reset(token)


@contextmanager
def acting_unless_named(actor: str) -> Generator[None]:
    """Name a program of factmem as the actor of a block, unless the application has named one."""
    named = _BY.get()
    token = _BY.set(named if named.actor is not None else By(actor, named.reason))
    try:
        yield
    finally:
        _BY.reset(token)


def _checked(text: str, name: str) -> str:
    if not checked_text(text, name).strip():
        raise InputValueError(f"{name} must not be empty: acting('jane', reason='he called')")
    if len(text) > MAX_REASON:
        raise InputValueError(f"{name} must have at most {MAX_REASON} characters")
    return text
