"""The store tests of LangGraph and deepagents, with `FactmemStore` instead of `InMemoryStore`.

    python -m tests.integrations.store_tests FOLDER [ARGUMENT OF PYTEST ...]

FOLDER holds copies of `libs/checkpoint/tests/test_store.py` and its helpers from LangGraph's
repository, or of `libs/deepagents/tests/unit_tests/backends/test_store_backend*.py` from that of
deepagents. It needs their package and pytest-asyncio.
"""

import sys
from typing import Any

import langgraph.store.memory
import pytest
from langgraph.store.base import ensure_embeddings

from factmem import AgentMemory, CallableEmbedder, InMemoryProvider
from factmem.integrations.langgraph import FactmemStore


class Replacement(FactmemStore):
    """A store with the signature of `InMemoryStore`."""

    def __init__(self, *, index: Any = None) -> None:
        embedder = None
        if index:
            embeddings = ensure_embeddings(index["embed"])
            embedder = CallableEmbedder(
                lambda texts: embeddings.embed_documents(list(texts)), model="test"
            )
        super().__init__(AgentMemory(InMemoryProvider(), embedder=embedder))


def main(folder: str, *options: str) -> int:
    """Run the tests of a folder and return pytest's exit code."""
    replaced: Any = langgraph.store.memory
    replaced.InMemoryStore = Replacement
    usual = ["-q", "-W", "default", "-p", "no:cacheprovider", "-c", "/dev/null"]
    return pytest.main([*usual, "-o", "asyncio_mode=auto", "--rootdir", folder, folder, *options])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
