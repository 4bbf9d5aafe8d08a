"""A Python with an old SQLite, as on RHEL 9 and Debian 11."""

import sqlite3
from pathlib import Path

import pytest

from factmem.errors import StorageError
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.testing._facts import AGENT, PERSON, theme


async def test_an_old_sqlite_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own error would be a syntax error, or a malformed schema."""
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    async with LocalFileMemoryProvider(tmp_path) as store:
        with pytest.raises(StorageError, match=r"SQLite 3\.37 or newer"):
            await store.save(theme("dark"), PERSON.of("alice"), AGENT)
