"""A server for all tests of a run, and a store of its own for each test."""

import uuid
from collections.abc import Iterator

import pytest

from tests.postgres.cluster import Cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One server: starting it takes two seconds. It writes without fsync, which only a power cut
    would show."""
    with Cluster(tmp_path_factory.mktemp("postgres") / "data", fsync="off") as server:
        yield server


@pytest.fixture
def dsn(cluster: Cluster) -> str:
    """Return the server's connection string."""
    return cluster.dsn()


@pytest.fixture
def store() -> str:
    """Return the name of a store that no other test uses, in the same tables."""
    return uuid.uuid4().hex
