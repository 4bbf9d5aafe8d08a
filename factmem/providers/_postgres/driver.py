"""The PostgreSQL driver: the only module that imports psycopg, at the first use.

A `Session` is a connection that one thread uses until a deadline. libpq waits forever if
the network accepts packets and the server does not answer, so each wait checks the deadline.
"""

import selectors
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from math import inf
from types import ModuleType
from typing import Any, Protocol

from factmem._arguments import DATABASE_URL
from factmem.errors import InputValueError, MissingExtraError
from factmem.providers._sql.session import Row


class Pool(Protocol):
    """A pool of psycopg connections that the application owns, such as `psycopg_pool`'s."""

    def getconn(self, timeout: float | None = None) -> Any: ...

    def putconn(self, conn: Any) -> None: ...


class Failure(Enum):
    """The meaning of a driver error for the call that it interrupted."""

    BUSY = "busy"
    """A lock was not granted in time. Nothing was written."""
    REPEAT = "repeat"
    """The transaction was rolled back and may be repeated: a deadlock, a serialization failure."""
    LOST = "lost"
    """The connection is gone, or the server is not ready. A commit may have happened."""
    REFUSED = "refused"
    """Nothing was written, and a repetition would fail too."""


class NotReplicated(Exception):  # noqa: N818 - caught inside this folder only
    """A commit whose wait for a synchronous standby was canceled."""


class DeadlineExceeded(Exception):  # noqa: N818 - caught inside this folder only
    """The server did not answer in time. The connection is closed."""


def driver() -> ModuleType:
    try:
        import psycopg
    except ImportError:
        raise MissingExtraError(
            "PostgresMemoryProvider needs the package 'psycopg': pip install 'factmem[postgres]'"
        ) from None
    return psycopg


def is_pool(value: object) -> bool:
    names = ("getconn", "putconn")
    return not isinstance(value, type) and all(callable(getattr(value, n, None)) for n in names)


def checked_dsn(dsn: str) -> str:
    """Return a connection string for libpq; an error does not quote it."""
    psycopg = driver()
    dsn = DATABASE_URL.sub("postgresql://", dsn, count=1)  # also one for SQLAlchemy
    if DATABASE_URL.match(dsn):
        whole, *query = dsn.split("?", 1)
        scheme, _, rest = whole.partition("://")
        before, at, host = rest.rpartition("@")
        if at and "/" in before:
            raise InputValueError("The user or password of the URL has a /: write %2F for it")
        if at:  # libpq would take the end of a password with an @ for the host, and quote it
            before = before.replace("@", "%40")
        dsn = "?".join([f"{scheme}://{before}{at}{host}", *query])
    try:
        psycopg.conninfo.conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        raise InputValueError(
            "dsn must be a libpq connection string: "
            '"host=db1,db2 dbname=app user=app" or "postgresql://app@db1/app"'
        ) from None
    return dsn


class Session:
    """A connection that one thread uses until a deadline."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._found = connection.autocommit, connection.prepare_threshold
        if not connection.autocommit:
            connection.autocommit = True  # a pool's default; statements would never be committed
        self._is_in_transaction = self._is_warned = False
        self.deadline = inf
        """The end of all waiting, on the monotonic clock."""
        self.is_shared = False
        """Whether a pooler lets other clients use the server's connection between transactions."""
        self.store = -1
        """The number of the store that the connection is configured for."""
        self._local_settings: dict[str, str] = {}
        self.is_committing = False
        """Whether a commit was sent and not answered yet."""
        connection.wait = self._wait
        connection.add_notice_handler(self._notice)

    def detach(self) -> Any:
        """Return the connection in its original state."""
        self._connection.remove_notice_handler(self._notice)
        with suppress(AttributeError):
            del self._connection.wait
        if self.is_usable:
            self._connection.autocommit, self._connection.prepare_threshold = self._found
        return self._connection

    @property
    def is_usable(self) -> bool:
        """Whether the connection is open and idle."""
        pgconn = self._connection.pgconn
        status = driver().pq
        is_open: bool = pgconn.status == status.ConnStatus.OK
        return is_open and pgconn.transaction_status == status.TransactionStatus.IDLE

    @property
    def client_pid(self) -> int:
        """The server's process id that the connection received when it was opened."""
        return int(self._connection.info.backend_pid)

    @property
    def server(self) -> str:
        """The database and its server, for log messages and errors."""
        info = self._connection.info
        return f"the database {info.dbname!r} at {f'{info.host}:{info.port}'!r}"

    def rows(
        self, query: str, parameters: Sequence[object] = (), *, prepare: bool = True
    ) -> list[Row]:
        """Run a statement and return its rows; outside a transaction it commits at once.

        With `prepare` the server may keep it prepared, with one plan for all arguments.
        """
        if self._is_in_transaction:
            return self._rows(query, parameters, prepare=prepare)
        if self._local_settings:
            with self.transaction():
                return self._rows(query, parameters, prepare=prepare)
        self._begin_commit()
        found = self._rows(query, parameters, prepare=prepare)
        self._committed()
        return found

    def _rows(self, query: str, parameters: Sequence[object], *, prepare: bool = True) -> list[Row]:
        try:
            cursor = self._connection.execute(
                query, parameters or None, prepare=None if prepare else False, binary=True
            )
        except Exception as exc:
            if is_state(exc, _UNPREPARED):
                self.close()  # psycopg would use the same prepared statement again
            raise
        # Not `cursor.description`, which makes an object of every column.
        return cursor.fetchall() if cursor.pgresult.nfields else []

    @contextmanager
    def transaction(self) -> Generator[None]:
        with self._connection.transaction():
            self._is_in_transaction = True
            try:
                if self._local_settings:
                    self._rows(*_setting(self._local_settings, is_local=True))
                yield
            finally:
                self._is_in_transaction = False
            self._begin_commit()
        self._committed()

    @contextmanager
    def savepoint(self) -> Generator[None]:
        """Roll back the block if it fails, but not the transaction around it."""
        with self._connection.transaction():
            yield

    def configure(self, settings: Mapping[str, str]) -> None:
        """Set parameters of the connection; a shared one sets them in each transaction."""
        if self.is_shared:
            self._local_settings.update(settings)
        else:
            self._connection.execute(*_setting(settings, is_local=False))

    def share(self) -> None:
        """Keep no state on the server, because the next transaction may use another connection."""
        self.is_shared = True
        self._connection.prepare_threshold = None

    def close(self) -> None:
        self._connection.close()

    def _begin_commit(self) -> None:
        self.is_committing, self._is_warned = True, False

    def _committed(self) -> None:
        self.is_committing = False
        if self._is_warned:
            raise NotReplicated

    def _notice(self, notice: Any) -> None:
        # A canceled wait for a synchronous standby is reported as success with a warning. Its text
        # may be translated; a commit has no other warning of this class.
        if self.is_committing and notice.sqlstate == "01000":
            self._is_warned = True

    def _wait(self, gen: Generator[Any, Any, Any], *_: Any, **__: Any) -> Any:
        # Not psycopg's own wait, which in 3.2.1 resumes the generator only when the socket is
        # ready.
        pgconn = self._connection.pgconn
        try:
            wanted = next(gen)
            while ready := self._ready(wanted):
                wanted = gen.send(ready)
        except StopIteration as done:
            return done.value
        pgconn.finish()
        raise DeadlineExceeded

    def _ready(self, wanted: int) -> int:
        pgconn = self._connection.pgconn
        try:
            return ready_events(pgconn.socket, wanted, self.deadline)
        except driver().OperationalError:  # what the server does meanwhile is unknown
            pgconn.finish()
            raise


_Selector = getattr(selectors, "PollSelector", selectors.SelectSelector)
"""Needs no file descriptor, unlike epoll."""


def ready_events(number: int, wanted: int, deadline: float) -> int:
    """Wait for a socket until a deadline; return `selectors` events, 0 if the deadline passed.

    psycopg's `Wait` and `Ready` have the same numbers.
    """
    seconds = None if deadline == inf else max(0.0, deadline - time.monotonic())
    try:
        with _Selector() as selector:
            selector.register(number, wanted)
            return sum(events for _, events in selector.select(seconds))
    except OSError as exc:
        raise driver().OperationalError(f"The socket failed: {exc.strerror}") from exc


def _setting(settings: Mapping[str, str], *, is_local: bool) -> tuple[str, list[str]]:
    """Return the statement that sets parameters; `SET` itself takes no arguments."""
    calls = ", ".join(f"set_config(%s, %s, {str(is_local).lower()})" for _ in settings)
    return f"SELECT {calls}", [part for pair in settings.items() for part in pair]


_UNPREPARED = "26000"
"""No such prepared statement: psycopg drops all of them after a ROLLBACK, and after some DDL."""

_REPEAT = {"40001", "40P01", "25P03", _UNPREPARED}
"""Serialization failure, deadlock, a transaction that was idle for too long."""

_LOST = {"25006", "57P01", "57P02", "57P03", "57P05"}
"""A primary that became a standby, shutdowns, and a server that is starting."""

_NEVER = ("authentication failed", "does not exist", "no pg_hba.conf entry", "is not permitted")
"""Parts of libpq's messages for permanent failures, which have no SQLSTATE. After a translated
message the connection is attempted until the deadline."""


def failure_of(error: Exception) -> Failure | None:
    """Return the meaning of an error; None if it is not the driver's."""
    psycopg = driver()
    if not isinstance(error, psycopg.Error):
        return None
    state: str | None = getattr(error, "sqlstate", None)
    if state in ("55P03", "57014"):
        return Failure.BUSY
    if state in _REPEAT:
        return Failure.REPEAT
    if state in _LOST or (state or "").startswith("08"):
        return Failure.LOST
    if state is None and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        is_hopeless = any(each in str(error) for each in _NEVER)
        return Failure.REFUSED if is_hopeless else Failure.LOST
    return Failure.REFUSED


def is_state(error: Exception, *states: str) -> bool:
    return getattr(error, "sqlstate", None) in states


def described(error: Exception) -> str:
    """Name an error; with the server's message, unless it may quote a row."""
    state, diag = getattr(error, "sqlstate", None) or "", getattr(error, "diag", None)
    said = getattr(diag, "message_primary", None) or ""
    if state[:2] in _QUOTING:
        named = (getattr(diag, name, None) for name in ("table_name", "constraint_name"))
        said = " ".join(filter(None, named))
    elif not state:
        said = " ".join(str(error).split())
    return f"{type(error).__name__} {state}".strip() + (f": {said}" if said else "")


def without_rows(error: Exception) -> Exception:
    """Return an error of the same class that quotes no row, to be a `__cause__`."""
    is_safe = not isinstance(error, driver().Error) or not getattr(error, "sqlstate", None)
    return error if is_safe else type(error)(described(error))


_QUOTING = {"21", "22", "23", "P0"}
"""Classes of errors about data. The messages of others name objects; only their details quote
rows."""

_REMEDIES = {
    "42501": "give the role its rights by migrate() as the owner of the tables, with role=; an "
    "owner that is no superuser also needs GRANT role TO owner",
    "42P01": "create the tables with migrate()",
    "3F000": "create the tables with migrate()",
    "3D000": "create the database, or correct dbname",
    "22023": "create the role, or correct role=",
    "25006": "the server is read-only: connect to the primary",
    "53100": "free room on the server's disk",
    "53300": "the server has too many connections: lower max_connections, or use a pooler",
}


def remedy_of(error: Exception) -> str:
    """Return what to do about an error of the server; empty if there is no special remedy."""
    said, state = str(error), getattr(error, "sqlstate", None)
    if state is None and "read-only" in said:
        state = "25006"
    if state is None and "too many" in said:
        state = "53300"
    if state is None and "does not exist" in said:
        return "correct dbname and user"
    if state is None and ("authentication failed" in said or "pg_hba" in said):
        return "correct user and password, or pg_hba.conf of the server"
    return _REMEDIES.get(state or "", "")
