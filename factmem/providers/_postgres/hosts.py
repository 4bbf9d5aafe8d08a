"""Connecting to one of the hosts of a connection string, with a share of the deadline for each.

psycopg gives each host the same time, in whole seconds and at least two. One host that accepts
connections and never answers would use up the deadline of a call.
"""

import random
import selectors
import socket
import time
from collections.abc import Iterator, Mapping
from typing import Any

from factmem.providers._postgres.driver import driver, ready_events

_LISTS = ("host", "hostaddr", "port")
"""Parameters that may hold several values, separated by commas."""


def connect(dsn: str, seconds: float) -> Any:
    """Return a new connection to the host of a DSN that accepts writes.

    Args:
        dsn: A libpq connection string.
        seconds: How long that may take with all of its hosts.
    """
    psycopg = driver()
    given = psycopg.conninfo.conninfo_to_dict(dsn)
    options = {
        "application_name": "factmem",
        "target_session_attrs": "read-write",
        "tcp_user_timeout": max(1, int(seconds * 1000)),
    }
    addresses = list(_addresses({**options, **given}))
    deadline = time.monotonic() + seconds
    failed: list[str] = []
    for number, address in enumerate(addresses):
        now = time.monotonic()
        share = (deadline - now) / (len(addresses) - number)
        try:
            pgconn = _opened(address, now + min(share, _most_seconds(given)))
        except psycopg.OperationalError as exc:
            failed.append(str(exc))
            continue
        connection = psycopg.Connection(pgconn)
        connection.autocommit = True
        # Prepared from the third use on. `Session` turns it off behind a transaction pooler, where
        # the next statement may run on another server connection.
        connection.prepare_threshold = 2
        # It is pooled, so that a program may end without closing it: psycopg warns of others.
        connection._pool = None
        return connection
    raise psycopg.OperationalError("\n".join(failed))


def _most_seconds(given: Mapping[str, Any]) -> float:
    """Return the `connect_timeout` of a connection string; libpq takes 1 for 2, and 0 for none."""
    found = float(given.get("connect_timeout") or 0)
    return max(2.0, found) if found > 0 else float("inf")


def _addresses(given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Give the parameters of each address to try, in their order."""
    hosts = [address for host in _hosts(given) for address in _resolved(host)]
    if given.get("load_balance_hosts") == "random":
        random.shuffle(hosts)
    if given["target_session_attrs"] == "prefer-standby":
        yield from ({**host, "target_session_attrs": "standby"} for host in hosts)
        hosts = [{**host, "target_session_attrs": "any"} for host in hosts]
    yield from hosts


def _hosts(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the parameters of each host, also of those that the environment names."""
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


def _opened(given: Mapping[str, Any], deadline: float) -> Any:
    """Return a connection of libpq that is ready for statements."""
    psycopg = driver()
    status = psycopg.pq.PollingStatus
    pgconn = psycopg.pq.PGconn.connect_start(psycopg.conninfo.make_conninfo(**given).encode())
    try:
        while (state := _polled(pgconn)) != status.OK:
            wanted = selectors.EVENT_READ if state == status.READING else selectors.EVENT_WRITE
            if not ready_events(pgconn.socket, wanted, deadline):
                raise psycopg.errors.ConnectionTimeout("The host did not answer in time")
    except BaseException:
        pgconn.finish()
        raise
    pgconn.nonblocking = 1
    return pgconn


def _polled(pgconn: Any) -> Any:
    """Go on connecting, and return what to wait for."""
    psycopg = driver()
    if pgconn.status != psycopg.pq.ConnStatus.BAD:
        state = pgconn.connect_poll()
        if state != psycopg.pq.PollingStatus.FAILED:
            return state
    raise psycopg.OperationalError(pgconn.error_message.decode(errors="replace"))
