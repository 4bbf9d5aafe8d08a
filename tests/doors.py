"""A door between local stores and SQLite, by which tests see statements and make them fail."""

import functools
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import pytest

Look: TypeAlias = Callable[[str], None]
"""Called with each statement before it runs; what it raises is what the statement raises."""


class _Watched(sqlite3.Connection):
    look: Look

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        self.look(sql)
        return super().execute(sql, *parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        self.look(sql)
        return super().executemany(sql, parameters)


@contextmanager
def watched(look: Look) -> Iterator[None]:
    """Look at the statements of all connections that are opened in the block."""
    factory = type("Watched", (_Watched,), {"look": staticmethod(look)})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sqlite3, "connect", functools.partial(sqlite3.connect, factory=factory))
        yield


class FailingDoor:
    """Makes statements fail as on a failing or full disk: `times` in all, after `skip` others.

    `ROLLBACK` never fails: it writes nothing.
    """

    def __init__(self, code: int = sqlite3.SQLITE_IOERR) -> None:
        self._code = code
        self.skip = self.times = self.failed = 0
        self.part = ""
        """Only statements with this text count."""

    def __call__(self, sql: str) -> None:
        if self.failed >= self.times or self.part not in sql or sql == "ROLLBACK":
            return
        if self.skip:
            self.skip -= 1
            return
        self.failed += 1
        error = sqlite3.OperationalError("injected")
        error.sqlite_errorcode = self._code
        error.sqlite_errorname = "SQLITE_IOERR"
        raise error

    def fail(self, times: int, *, skip: int = 0, part: str = "") -> None:
        """Fail from now on."""
        self.times, self.skip, self.failed, self.part = times, skip, 0, part

    def heal(self) -> None:
        """Fail no more."""
        self.times = 0
