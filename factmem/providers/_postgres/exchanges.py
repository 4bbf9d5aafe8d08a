"""Statements with binary parameters, and non-blocking exchanges with the server."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from types import ModuleType
from typing import Any

_BINARY = 1


@dataclass(frozen=True)
class Statement:
    """A statement that each connection prepares once.

    Args:
        name: The name on the server.
        sql: The text, with `%s` for each parameter and a cast if PostgreSQL cannot infer its type.
        is_write: Whether it commits, so that a missing answer leaves the outcome unknown.
    """

    name: str
    sql: str
    is_write: bool = True

    @cached_property
    def id(self) -> bytes:
        """The name as libpq takes it."""
        return f"factmem {self.name}".encode()

    @cached_property
    def text(self) -> bytes:
        """The text as libpq takes it, with numbered parameters."""
        numbers = count(1)
        return re.sub("%s", lambda _: f"${next(numbers)}", self.sql).encode()


class Exchange:
    """One statement and its answer.

    Args:
        psycopg: The driver.
        connection: Its connection, used for nothing else meanwhile.
        transformer: Converts values of the connection.
    """

    def __init__(self, psycopg: ModuleType, connection: Any, transformer: Any) -> None:
        self._psycopg = psycopg
        self._connection = connection
        self._pgconn = connection.pgconn
        self._transformer = transformer
        self._results: list[Any] = []
        self._error: Exception | None = None
        self._is_complete = False
        self.name = ""
        """The name of the statement."""
        self.is_sent = False
        """Whether the whole statement was passed to the operating system."""

    @property
    def socket(self) -> int:
        """The file descriptor that becomes readable when data arrives."""
        number: int = self._pgconn.socket
        return number

    def prepare(self, statement: Statement) -> None:
        """Send the statement to be prepared under its name."""
        self._pgconn.send_prepare(statement.id, statement.text)

    def send(
        self, statement: Statement, parameters: Sequence[bytes | None], *, is_prepared: bool
    ) -> None:
        """Send a statement, as far as possible without waiting."""
        self.name = statement.name
        formats = [_BINARY] * len(parameters)
        try:
            if is_prepared:
                self._pgconn.send_query_prepared(statement.id, parameters, formats, _BINARY)
            else:
                self._pgconn.send_query_params(statement.text, parameters, None, formats, _BINARY)
            self.is_sent = self._pgconn.flush() == 0
        except self._psycopg.Error as exc:
            self._error = exc

    def is_answered(self) -> bool:
        """Read what has arrived, without waiting; return whether the answer or an error is complete."""
        pgconn = self._pgconn
        try:
            pgconn.consume_input()
            while not pgconn.is_busy():
                result = pgconn.get_result()
                if result is None:
                    self._is_complete = True
                    return True
                self._results.append(result)
        except self._psycopg.Error as exc:
            self._error = exc
        return self._error is not None

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows of the answer; waits for the rest of it.

        A second call returns or raises the same.
        """
        if self._error is not None:
            raise self._error
        if not self._is_complete:
            self._results += self._connection.wait(self._psycopg.generators.execute(self._pgconn))
            self._is_complete = True
        statuses = self._psycopg.pq.ExecStatus
        for result in self._results:
            if result.status not in (statuses.TUPLES_OK, statuses.COMMAND_OK):
                error: Exception = self._psycopg.errors.error_from_result(
                    result, encoding=self._connection.info.encoding
                )
                self._error = error
                raise error
        (result,) = self._results
        if not result.ntuples:
            return []
        self._transformer.set_pgresult(result, format=_BINARY)
        found: list[tuple[Any, ...]] = self._transformer.load_rows(0, result.ntuples, tuple)
        return found
