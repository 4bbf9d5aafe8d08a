"""Event loops, a PostgreSQL server, and assertion details from the shipped contracts."""

import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.selection import is_later, loop_of, mark_postgres, mark_storm, repeated

if TYPE_CHECKING:
    from tests.postgres.cluster import Cluster

SHORT = 10
"""The number of examples of each property in the default run; `make storm` uses 100."""

MEMORY = "/dev/shm"
"""A folder in memory, where Linux has one."""

YOUNG = 20_000
"""The new objects that are collected at once: the 700 of Python took twice the time."""

ROOM = 4 * 2**30
"""The bytes that two workers leave free in the folder of temporary files at any time."""

# Local runs search anew; CI uses the same examples each time.
# A busy machine draws and runs examples slowly, which is not a fault of a test.
settings.register_profile(
    "long",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("short", settings.get_profile("long"), max_examples=SHORT)

pytest.register_assert_rewrite("factmem.testing", "tests.contracts")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of `make storm`."""
    parser.addoption("--both-loops", action="store_true", help="run every test on both event loops")
    parser.addoption(
        "--thorough", action="store_true", help="wait for the disk and try more random examples"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Keep files in memory unless `--thorough` is given: waiting for a disk took half of the time.

    `TMPDIR` says otherwise, as does a machine with little memory.

    No test dials out, so that clients need no certificates: reading those of the system took longer
    than what a test does with its client.
    """
    os.environ.pop("SSL_CERT_FILE", None)
    os.environ["SSL_CERT_DIR"] = os.devnull
    is_thorough = config.getoption("--thorough")
    settings.load_profile("long" if is_thorough else "short")
    if not is_thorough and "TMPDIR" not in os.environ and _has_room(MEMORY):
        os.environ["TMPDIR"] = tempfile.tempdir = MEMORY


def _has_room(folder: str) -> bool:
    """Return True for a folder that holds the files of all tests."""
    return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > ROOM


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep the garbage collector away from what collection makes, which stays to the end.

    Thousands of tests are a million objects: traversing them took a third of the collection, and
    each full collection during the tests would do it again.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(YOUNG, 10, 10)
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file of which the default run has no test."""
    is_default = "not postgres" in config.getoption("markexpr")
    return True if is_default and is_later(collection_path) else None


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make no test on a loop where it would be left out: each worker would collect it."""
    test = metafunc.definition
    if metafunc.config.getoption("--both-loops") or "anyio_backend" not in metafunc.fixturenames:
        return
    own = {str(mark.args[0]) for mark in test.iter_markers("parametrize")}
    loop = loop_of(test.path, getattr(metafunc.cls, "__name__", None))
    if loop is not None and "anyio_backend" not in own:
        test.add_marker(pytest.mark.parametrize("anyio_backend", [loop]))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave repetitions to `--both-loops`, and slow tests to `make postgres` and `make storm`."""
    mark_postgres(items)
    mark_storm(items)
    if config.getoption("--both-loops"):
        return
    spared = repeated(items)
    if spared:
        config.hook.pytest_deselected(items=list(spared.values()))
        items[:] = [item for item in items if item.nodeid not in spared]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run every async test and fixture once on each event loop if the loop can matter."""
    backend: str = request.param
    return backend


@pytest.fixture(scope="session", autouse=True)
def cheap_passphrases() -> Iterator[None]:
    """Derive keys in a millisecond. Published vectors test the derivation at its real cost."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("factmem.encryption.key._COST", (1, 64, 1))
        yield


@pytest.fixture(scope="session")
def thorough(request: pytest.FixtureRequest) -> bool:
    """Whether a sweep has its long form."""
    return bool(request.config.getoption("--thorough"))


@pytest.fixture(scope="session", autouse=True)
def few_looks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Look three times at a damaged file, and not sixteen times with a pause after each."""
    with pytest.MonkeyPatch.context() as patch:
        if not request.config.getoption("--thorough"):
            patch.setattr("factmem.providers._sqlite.database._LOOKS", 3)
        yield


@pytest.fixture(
    params=[pytest.param(13, id="some"), pytest.param(1, id="all", marks=pytest.mark.storm)]
)
def stride(request: pytest.FixtureRequest, thorough: bool) -> int:
    """Return the step through a sweep's cases: each thirteenth by default, each in a long storm."""
    step: int = request.param
    return step if thorough else max(step, 5)


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """Return a folder for servers, which run as another user than root and need access."""
    with tempfile.TemporaryDirectory(prefix="factmem-") as made:
        yield Path(made)


@pytest.fixture(scope="session")
def cluster(folder: Path) -> "Iterator[Cluster]":
    """Start one server. It writes without fsync, which matters only in a power cut."""
    from tests.postgres.cluster import Cluster

    server = Cluster(folder / "data", fsync="off")
    try:
        server.init().start()
    except Exception as exc:
        if os.environ.get("FACTMEM_POSTGRES") == "required":  # `make postgres` sets it
            raise
        pytest.skip(f"NOT TESTED: PostgreSQL does not start on this machine: {exc!r}")
    yield server
    server.stop()
