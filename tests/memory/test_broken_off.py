"""A text whose model call is cancelled from outside counts as one failed text.

On asyncio anything may raise a cancellation, such as a client that shares a request among its
callers, the first of whom gave up. On trio only a scope can.
"""

from collections.abc import Sequence

import anyio
import pytest
from typing_extensions import TypeForm, TypeVar

from factmem._concurrency.background import BackgroundWork
from factmem.llm.base import Extraction, Message
from factmem.testing.chat import ScriptedChatModel

T = TypeVar("T")

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])


class BreakingOff(ScriptedChatModel):
    """Cancels the caller on the first call."""

    is_broken = False

    async def extract(self, messages: Sequence[Message], output_type: TypeForm[T]) -> Extraction[T]:
        if not self.is_broken:
            self.is_broken = True
            await anyio.lowlevel.checkpoint()
            raise anyio.get_cancelled_exc_class()
        return await super().extract(messages, output_type)


async def test_other_work_continues() -> None:
    done, failures = list[str](), list[Exception]()
    work = BackgroundWork("work", failures.append)

    async def broken_off() -> None:
        raise anyio.get_cancelled_exc_class()

    async def other() -> None:
        done.append("other")

    with anyio.fail_after(60):
        async with work:
            work.start(broken_off, line=1)
            work.start(other, line=1)
            await work.drain()
            done.append("body")

    assert done == ["other", "body"]
    assert [type(failure) for failure in failures] == [RuntimeError]
