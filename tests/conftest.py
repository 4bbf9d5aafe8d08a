"""Event loops, a PostgreSQL server, and assertion details from the shipped contracts, for every test."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.postgres.cluster import Cluster

# Local runs search anew; the one that decides whether a change lands is the same each time.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

pytest.register_assert_rewrite("factmem.testing")

TESTS = Path(__file__).parent

ONE_LOOP = {"agent", "detection", "memory", "prompt", "recall", "transfer"}
"""Folders of rooms that only await what is below them: asyncio stands for both loops there."""

ONE_LOOP_SUITES = {"TestDelayedStore", "TestEncrypted", "TestInMemoryProvider", "TestOwnProvider"}
"""Conformance suites whose waiting is that of `TestPlain`, which runs on both loops."""

BOTH_LOOPS = {
    "agent/test_background.py",
    "agent/test_background_kill.py",
    "memory/test_broken_off.py",
    "memory/test_remembering.py",
    "memory/test_trio.py",
    "recall/test_keeping_vectors.py",
    "recall/test_shared_place.py",
    "recall/test_slow_embedder.py",
}
"""Their files with tasks, threads or cancellation of their own, and the smoke test on trio."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that runs every test on both event loops, as `make storm` does."""
    parser.addoption("--both-loops", action="store_true", help="run every test on both event loops")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the trio variants of tests for which the loop cannot matter."""
    if config.getoption("--both-loops"):
        return
    kept: list[pytest.Item] = []
    spared: list[pytest.Item] = []
    for item in items:
        (spared if _is_spared(item) else kept).append(item)
    if spared:
        config.hook.pytest_deselected(items=spared)
        items[:] = kept


def _is_spared(item: pytest.Item) -> bool:
    """Whether asyncio alone runs a test."""
    callspec = getattr(item, "callspec", None)
    if callspec is None or callspec.params.get("anyio_backend") != "trio":
        return False
    suite = getattr(item, "cls", None)
    if suite is not None and suite.__name__ in ONE_LOOP_SUITES:
        return True
    path = item.path.relative_to(TESTS)
    return path.parts[0] in ONE_LOOP and path.as_posix() not in BOTH_LOOPS


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run every async test and fixture once on each event loop, where a loop can matter."""
    backend: str = request.param
    return backend


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """Return a folder for servers. As root they run as another user, who cannot get into pytest's."""
    with tempfile.TemporaryDirectory(prefix="factmem-") as made:
        yield Path(made)


@pytest.fixture(scope="session")
def cluster(folder: Path) -> "Iterator[Cluster]":
    """Start one server. It writes without fsync, which only a power cut would show."""
    from tests.postgres.cluster import Cluster

    server = Cluster(folder / "data", fsync="off")
    try:
        server.init().start()
    except Exception as exc:
        if os.environ.get("FACTMEM_POSTGRES") == "required":  # as `make postgres` says
            raise
        pytest.skip(f"NOT TESTED: PostgreSQL does not start on this machine: {exc!r}")
    yield server
    server.stop()
