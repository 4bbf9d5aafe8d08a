"""Calls with a wrong argument; each room has a table, `WRONG` in its `test_wrong_arguments`.

The error names the argument and the type that was passed, and shows a correct call. It does not
show the value, which may be a key.
"""

from collections.abc import Callable, Iterable
from inspect import isawaitable
from typing import Any, TypeAlias

import pytest

from tests.tables import Test, table

SECRET = "sk-secret"
"""A value that no error may show."""

CHAT = [{"role": "user", "content": "I like it dark."}]

MESSAGES = "messages must be a list"

Call: TypeAlias = Callable[[Any], object]

Wrong: TypeAlias = tuple[Call, object, type[Exception], str]
"""A call, its argument, the error, and a pattern in its message."""


def each_is_refused(wrong: Iterable[Wrong]) -> Test:
    """Return a test of calls, awaited if they can be: each raises an error without the value."""

    @table(("call", "given", "error", "message"), wrong)
    async def test(call: Call, given: object, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message) as caught:
            await _finish(call(given))

        assert SECRET not in str(caught.value)

    return test


async def _finish(result: object) -> None:
    if isawaitable(result):
        await result
