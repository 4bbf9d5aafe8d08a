"""The session tests of the OpenAI Agents SDK, with `ConversationSession` of factmem.

    pip download --no-deps --no-binary :all: openai-agents && tar xzf openai_agents-*.tar.gz
    python tests/integrations/session_tests.py openai_agents-*/ [ARGUMENT OF PYTEST ...]

It needs the package and pytest-asyncio. Tests of what `SQLiteSession` is made of (connections,
threads, tables, locks, corrupt rows) are left out; all others run as they are.
"""

import os
import sys
from pathlib import Path
from typing import Any

import agents
import agents.memory
import pytest

from factmem import (
    AgentMemory,
    FactStore,
    InMemoryProvider,
    LocalFileMemoryProvider,
    MemoryScopesProfile,
    MemorySubject,
)
from factmem.integrations.openai_agents import ConversationSession

_USER = MemorySubject("user", "The person who talks to the agent", 1, per_entity=True)
_MADE_OF_SQLITE = (
    "connection",
    "thread",
    "corrupt",
    "lock",
    "mutation",
    "rolls_back",
    "closed_rejects",
    "post_commit",
    "dictionary",  # settings as a dict, an option of `SQLiteSession`
)
_stores: dict[str, LocalFileMemoryProvider] = {}


class Replacement(ConversationSession):
    """A session with the signature of `SQLiteSession`."""

    def __init__(
        self, session_id: str, db_path: str | Path = ":memory:", session_settings: Any = None
    ) -> None:
        folder = f"{db_path}.factmem"
        store: FactStore
        if db_path == ":memory:":
            store = InMemoryProvider()
        else:
            store = _stores.setdefault(folder, LocalFileMemoryProvider(folder))
        memory = AgentMemory(store, subjects=[_USER], scopes=MemoryScopesProfile(agent="desk"))
        super().__init__(
            memory.of("alice").conversation(session_id), session_settings=session_settings
        )

    def close(self) -> None: ...


def main() -> int:
    """Run the tests of a source distribution."""
    source, *arguments = sys.argv[1:]
    agents.SQLiteSession = agents.memory.SQLiteSession = Replacement  # type: ignore[misc,assignment]
    os.chdir(source)
    sys.path.insert(0, os.getcwd())
    names = ("test_session.py", "test_session_limit.py")
    left_out = " and ".join(f"not {each}" for each in _MADE_OF_SQLITE)
    files = [f"tests/memory/{name}" for name in names]
    return pytest.main([*files, "-q", "-p", "no:cacheprovider", "-k", left_out, *arguments])


if __name__ == "__main__":
    sys.exit(main())
