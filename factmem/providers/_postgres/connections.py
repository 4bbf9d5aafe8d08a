"""A small pool of connections, opened on demand and never shared with a forked child.

All work goes through `run`. After a lost connection, a deadlock or a serialization failure it
repeats the work on another connection, with growing pauses, until the deadline. If a connection was
lost during a commit, the outcome is unknown: the work gets the number of such attempts, and looks
for their marks before it writes again. A call that pauses holds no connection.

Each host of a connection string gets a share of the deadline. psycopg gives each the same time, at
least two seconds, and a host that accepts connections and never answers would use up the deadline.
"""

import random
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from math import inf
from typing import Any, NamedTuple, TypeVar

from factmem.errors import StorageError, StoreBusyError, UnknownOutcomeError, UnreachableError
from factmem.providers._postgres.driver import (
    DeadlineExceeded,
    Failure,
    NotReplicated,
    Pool,
    described,
    driver,
    failure_of,
    ready_events,
    remedy_of,
    without_rows,
)
from factmem.providers._postgres.session import PostgresSession

R = TypeVar("R")

_LISTS = ("host", "hostaddr", "port")
"""Parameters that may hold several values, separated by commas."""

_UTF8 = {"client_encoding": "UTF8"}
"""Overrides the environment and the server: with SQL_ASCII, text would be returned as bytes."""


def connect(dsn: str, seconds: float) -> Any:
    """Return a connection to a host of a DSN that accepts writes; raise after `seconds`."""
    psycopg = driver()
    given = psycopg.conninfo.conninfo_to_dict(dsn)
    options = {
        "application_name": "factmem",
        "target_session_attrs": "read-write",
        "tcp_user_timeout": max(1, int(seconds * 1000)),
    }
    addresses = list(_addresses({**options, **given, **_UTF8}))
    deadline = time.monotonic() + seconds
    failed: list[str] = []
    for number, address in enumerate(addresses):
        now = time.monotonic()
        share = (deadline - now) / (len(addresses) - number)
        try:
            pgconn = _open(address, now + min(share, _most_seconds(given)))
        except psycopg.OperationalError as exc:
            failed.append(str(exc))
            continue
        connection = psycopg.Connection(pgconn)
        connection.autocommit = True
        # Prepare statements at their third use. `Session` turns this off behind a transaction
        # pooler, where the next statement may run on another server connection.
        connection.prepare_threshold = 2
        # As in a pool: psycopg warns of other connections that are open when a program ends.
        connection._pool = None
        return connection
    raise psycopg.OperationalError("\n".join(failed))


def _most_seconds(given: Mapping[str, Any]) -> float:
    """Return the `connect_timeout` of a connection string; as in libpq 1 means 2, and 0 none."""
    found = float(given.get("connect_timeout") or 0)
    return max(2.0, found) if found > 0 else float("inf")


def _addresses(given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    hosts = [address for host in _hosts(given) for address in _resolved(host)]
    if given.get("load_balance_hosts") == "random":
        random.shuffle(hosts)
    if given["target_session_attrs"] == "prefer-standby":
        yield from ({**host, "target_session_attrs": "standby"} for host in hosts)
        hosts = [{**host, "target_session_attrs": "any"} for host in hosts]
    yield from hosts


def _hosts(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the parameters of each host, including those from the environment."""
    psycopg = driver()
    defaults = {each.keyword.decode(): each.val for each in psycopg.pq.Conninfo.get_defaults()}
    lists: dict[str, list[str]] = {}
    for name in _LISTS:
        default = defaults.get(name)
        found = str(given[name]) if name in given else default.decode() if default else ""
        lists[name] = found.split(",") if found else []
    count = max(len(lists["host"]), len(lists["hostaddr"]))
    if count < 2:
        return [dict(given)]
    if len(lists["port"]) == 1:
        lists["port"] *= count
    if any(values and len(values) != count for values in lists.values()):
        return [dict(given)]  # libpq says what is wrong
    return [
        {**given, **{name: values[number] for name, values in lists.items() if values}}
        for number in range(count)
    ]


def _resolved(given: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parameters of each address of a host; a silent one leaves time for the next."""
    host = given.get("host")
    if not host or host.startswith(("/", "@")) or given.get("hostaddr"):
        return [given]
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return [given]  # libpq says what is wrong
    return [{**given, "hostaddr": each} for each in dict.fromkeys(one[4][0] for one in found)]


def _open(given: Mapping[str, Any], deadline: float) -> Any:
    """Return a connection of libpq that is ready for statements."""
    psycopg = driver()
    status = psycopg.pq.PollingStatus
    pgconn = psycopg.pq.PGconn.connect_start(psycopg.conninfo.make_conninfo(**given).encode())
    try:
        while (state := _poll(pgconn)) != status.OK:
            wanted = selectors.EVENT_READ if state == status.READING else selectors.EVENT_WRITE
            if not ready_events(pgconn.socket, wanted, deadline):
                raise psycopg.errors.ConnectionTimeout("The host did not answer in time")
    except BaseException:
        pgconn.finish()
        raise
    pgconn.nonblocking = 1
    return pgconn


def _poll(pgconn: Any) -> Any:
    """Continue connecting, and return the event to wait for."""
    psycopg = driver()
    if pgconn.status != psycopg.pq.ConnStatus.BAD:
        state = pgconn.connect_poll()
        if state != psycopg.pq.PollingStatus.FAILED:
            return state
    raise psycopg.OperationalError(pgconn.error_message.decode(errors="replace"))


_LONGEST_PAUSE = 1.0
"""The longest pause between two attempts, in seconds; a failover takes some."""


class Connections:
    """A pool without threads of its own; those of `psycopg_pool` would not survive a fork.

    Every method blocks; all are thread-safe. A call ends after `seconds`, with repetitions and the
    wait for one of at most `most` connections. `prepare` is called with each new connection.
    """

    def __init__(
        self,
        source: str | Pool,
        *,
        most: int,
        seconds: float,
        prepare: Callable[[PostgresSession], None],
    ) -> None:
        self._source = source
        self._most = most
        self._seconds = seconds
        self._prepare = prepare
        self.start_afresh()

    def start_afresh(self) -> None:
        # A forked child needs a new one, as it lacks the threads that hold the old one.
        self._free = threading.Semaphore(self._most)
        self._idle: list[PostgresSession] = []
        self._is_closed = False

    def close(self) -> None:
        """Close the idle connections, and the others when they are returned."""
        self._is_closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def run(self, work: Callable[[PostgresSession, int], R], *, is_read: bool = False) -> R:
        """Do work on a connection, and repeat it on another one after temporary failures.

        `work` gets the number of earlier attempts that may have committed, and must check whether
        they did. With `is_read` it writes nothing, so that its outcome is never unknown.
        """
        deadline = time.monotonic() + self._seconds
        attempt = unknown = 0
        before: _Failed | None = None
        while True:
            done = self._attempt(work, unknown, deadline)
            if not isinstance(done, _Failed):
                return done
            unknown += done.is_unknown and not is_read
            pause = min(_LONGEST_PAUSE, 0.02 * 2**attempt) * random.uniform(0.5, 1.5)  # noqa: S311
            if not done.is_repeatable or time.monotonic() + pause > deadline:
                if done.failure is Failure.LOST and time.monotonic() >= deadline:
                    done = before or done  # the deadline cut it off, so it says less
                raise _error(done, is_unknown=unknown > 0) from without_rows(done.error)
            time.sleep(pause)
            attempt, before = attempt + 1, done

    def _attempt(
        self, work: Callable[[PostgresSession, int], R], unknown: int, deadline: float
    ) -> "R | _Failed":
        if not self._free.acquire(timeout=max(0.0, deadline - time.monotonic())):
            return _Failed(Failure.BUSY, TimeoutError("All connections were in use"))
        session: PostgresSession | None = None
        try:
            session = self._take(deadline)
            return work(session, unknown)
        except Exception as exc:
            if (failed := _failed(exc, session)) is None:
                raise
            return failed
        finally:
            if session is not None:
                self._put_back(session)
            self._free.release()

    def _take(self, deadline: float) -> PostgresSession:
        session: PostgresSession | None = None
        if isinstance(self._source, str):
            with suppress(IndexError):
                session = self._idle.pop()
            if session is not None:
                session.deadline, session.is_committing = deadline, False
                return session
            session = PostgresSession(connect(self._source, deadline - time.monotonic()))
        else:
            seconds = max(0.0, deadline - time.monotonic())
            session = PostgresSession(self._source.getconn(timeout=seconds))
        session.deadline = deadline
        try:
            self._prepare_new(session)
        except BaseException:
            if isinstance(self._source, str):
                session.close()  # the next call would use it without its role and its store
            else:
                self._put_back(session)
            raise
        return session

    def _prepare_new(self, session: PostgresSession) -> None:
        # A pooler gives its clients process ids of its own. In transaction mode each transaction
        # may run on another connection of the server.
        (row,) = session.rows("SELECT pg_backend_pid()")
        if not isinstance(self._source, str) or row[0] != session.client_pid:
            session.share()
        self._prepare(session)

    def _put_back(self, session: PostgresSession) -> None:
        if not isinstance(self._source, str):
            self._source.putconn(session.detach())
        elif not session.is_usable:
            session.close()
            self._close_idle()  # the others lead to the same server, which may be down
        elif self._is_closed:
            session.close()
        else:
            session.deadline = inf
            self._idle.append(session)


class _Failed(NamedTuple):
    failure: Failure
    error: Exception
    is_unknown: bool = False
    """Whether it may have committed."""

    @property
    def is_repeatable(self) -> bool:
        return self.failure in (Failure.LOST, Failure.REPEAT)


def _failed(error: Exception, session: PostgresSession | None) -> _Failed | None:
    is_open = session is not None and session.is_committing
    if isinstance(error, DeadlineExceeded | NotReplicated):
        return _Failed(
            Failure.REFUSED, error, is_unknown=is_open or isinstance(error, NotReplicated)
        )
    failure = failure_of(error)
    if failure is None:
        return None
    return _Failed(failure, error, is_unknown=is_open and failure is Failure.LOST)


def _error(failed: _Failed, *, is_unknown: bool) -> StorageError:
    if isinstance(failed.error, NotReplicated):
        return UnknownOutcomeError(
            "The primary committed, and the wait for its standby was canceled: a failover may "
            "lose what was written"
        )
    if is_unknown:
        return UnknownOutcomeError(
            f"The database did not answer a commit in time ({described(failed.error)}): read the "
            f"place to see whether it was written"
        )
    if failed.failure is Failure.BUSY:
        return StoreBusyError(
            f"The database was busy ({described(failed.error)}): nothing was written. Call again, "
            "and look for a transaction that hangs"
        )
    remedy = remedy_of(failed.error)
    is_away = failed.is_repeatable or isinstance(failed.error, DeadlineExceeded)
    if is_away:
        return UnreachableError(
            f"The database was not reached in time ({described(failed.error)}): nothing was "
            f"written. Remedy: {remedy or 'check that the server runs at this host and port'}"
        )
    return StorageError(
        f"The database refused ({described(failed.error)}): nothing was written"
        + (f". Remedy: {remedy}" if remedy else "")
    )
