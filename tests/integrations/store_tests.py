"""The store tests of LangGraph and deepagents, with `FactmemStore` instead of their own stores.

    python tests/integrations/store_tests.py FOLDER [ARGUMENT OF PYTEST ...]

FOLDER holds copies of `libs/checkpoint/tests/test_store.py` and its helpers from LangGraph's
repository, of `test_store.py`, `test_async_store.py` and `test_ttl.py` in
`libs/checkpoint-sqlite/tests`, or of `libs/deepagents/tests/unit_tests/backends/
test_store_backend*.py` from that of deepagents. It needs their package and pytest-asyncio.
"""

import importlib
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from typing import Any

import langgraph.store.memory
import pytest
from anyio.lowlevel import checkpoint

from factmem import AgentMemory, InMemoryProvider, LocalFileMemoryProvider
from factmem.integrations.langgraph import FactmemStore


class Replacement(FactmemStore):
    """A store with the signature of `InMemoryStore`."""

    def __init__(self, *, index: Any = None, provider: Any = None, ttl: Any = None) -> None:
        if index:  # the name in SqliteStore's configuration differs
            index = {"fields": index.get("text_fields"), **index}
        super().__init__(AgentMemory(provider or InMemoryProvider()), index=index, ttl=ttl)


class SqliteReplacement(Replacement):
    """A store in a folder, opened like `SqliteStore`. Expired items need no sweep."""

    MIGRATIONS: tuple[str, ...] = ()

    @classmethod
    @contextmanager
    def from_conn_string(cls, _: str, **options: Any) -> Iterator[Any]:
        with tempfile.TemporaryDirectory() as folder:
            yield cls(provider=LocalFileMemoryProvider(folder), **options)

    def setup(self) -> None: ...

    def sweep_ttl(self) -> int:
        return 0

    def start_ttl_sweeper(self) -> None: ...

    def stop_ttl_sweeper(self) -> None: ...


class AsyncReplacement(Replacement):
    """A store in a folder, opened like `AsyncSqliteStore`."""

    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, _: str, **options: Any) -> AsyncIterator[Any]:
        with tempfile.TemporaryDirectory() as folder:
            async with LocalFileMemoryProvider(folder) as provider:
                yield cls(provider=provider, **options)

    async def setup(self) -> None: ...

    async def sweep_ttl(self) -> int:
        await checkpoint()
        return 0

    async def start_ttl_sweeper(self) -> None: ...

    async def stop_ttl_sweeper(self) -> None: ...


def main(folder: str, *options: str) -> int:
    """Run the tests of a folder and return pytest's exit code."""
    replaced: Any = langgraph.store.memory
    replaced.InMemoryStore = Replacement
    if find_spec("langgraph.store.sqlite"):
        for name in ("langgraph.store.sqlite", "langgraph.store.sqlite.aio"):
            module: Any = importlib.import_module(name)
            module.SqliteStore, module.AsyncSqliteStore = SqliteReplacement, AsyncReplacement
    usual = ["-q", "-W", "default", "-p", "no:cacheprovider", "-c", "/dev/null"]
    return pytest.main([*usual, "-o", "asyncio_mode=auto", "--rootdir", folder, folder, *options])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
