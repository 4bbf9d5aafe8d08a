"""A store of its own for each test, on the server of `tests/conftest.py`.

These tests run on asyncio alone: `make postgres` runs the suites on both event loops.
"""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from factmem.providers.postgres import PostgresMemoryProvider
from tests.postgres.cluster import Cluster
from tests.postgres.pooler import BINARY, Pooler

NewStore = Callable[..., PostgresMemoryProvider]


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run each test once."""
    backend: str = request.param
    return backend


@dataclass(frozen=True)
class Login:
    """A role that may log in and does not own the tables."""

    role: str
    dsn: str


@pytest.fixture(scope="session")
def login(cluster: Cluster) -> Login:
    """Return a role with what an application needs, as `migrate` grants it."""
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        connection.execute("CREATE ROLE app LOGIN")
    owner = PostgresMemoryProvider(cluster.dsn(), role="app")
    owner._server.migrate()
    owner._server.connections.close()
    return Login("app", cluster.dsn().replace("user=postgres", "user=app"))


@pytest.fixture(scope="session")
def pooler(cluster: Cluster, folder: Path) -> Iterator[Pooler]:
    """Start PgBouncer in transaction mode in front of the server."""
    if BINARY is None:
        pytest.skip("NOT TESTED: pgbouncer is not installed (apt-get install pgbouncer)")
    with Pooler(folder / "pgbouncer", cluster) as running:
        yield running


@pytest.fixture
def dsn(cluster: Cluster) -> str:
    """Return the server's connection string."""
    return cluster.dsn()


@pytest.fixture
def store() -> str:
    """Return the name of a store that no other test uses, in the same tables."""
    return uuid.uuid4().hex


@pytest.fixture
def new_store(dsn: str, store: str) -> Iterator[NewStore]:
    """Return a function that makes instances on the test's store, closed when the test ends."""
    made: list[PostgresMemoryProvider] = []

    def make(**options: Any) -> PostgresMemoryProvider:
        provider = PostgresMemoryProvider(options.pop("dsn", dsn), **{"store": store, **options})
        made.append(provider)
        return provider

    yield make
    for each in made:
        each._server.connections.close()
