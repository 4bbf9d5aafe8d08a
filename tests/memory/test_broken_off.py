"""Background work that is cancelled from outside counts as failed.

On asyncio anything may raise a cancellation, such as a client that shares a request among its
callers, the first of whom gave up. On trio only a scope can.
"""

import anyio
import pytest

from factmem._concurrency.background import BackgroundWork

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])


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
