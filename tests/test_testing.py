"""Tests of the shipped contract: every wrong store fails the tests written for its fault."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.wrong_durable_stores import WRONG_DURABLE_STORES, WRONG_ENCRYPTED_STORES
from tests.wrong_indexes import WRONG_INDEXES
from tests.wrong_providers import WRONG_PROVIDERS

WRONG: dict[type, set[str]] = {
    **WRONG_PROVIDERS,
    **WRONG_INDEXES,
    **WRONG_DURABLE_STORES,
    **WRONG_ENCRYPTED_STORES,
}
RIGHT = {
    "TestTheRightOne": set().union(*WRONG_PROVIDERS.values(), *WRONG_INDEXES.values()),
    "TestTheRightDurableStore": set().union(*WRONG_DURABLE_STORES.values()),
    "TestTheRightEncryptedStore": set().union(*WRONG_ENCRYPTED_STORES.values()),
}
"""The suites over stores without a fault, and all tests that were written for one."""

CONFTEST = """
import pytest

pytest.register_assert_rewrite("factmem.testing")


@pytest.fixture
def anyio_backend():
    return "asyncio"
"""

SUITE = """
import pytest

from factmem import Aes256GCMEncryptor, EncryptedStorage, SimpleStorage
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing import (
    DurableStoreContract,
    FactStoreContract,
)
from factmem.testing._contracts import sharing
from tests.wrong_durable_stores import (
    WRONG_DURABLE_STORES,
    WRONG_ENCRYPTED_STORES,
    Local,
    damages,
)
from tests.wrong_indexes import WRONG_INDEXES
from tests.wrong_providers import WRONG_PROVIDERS

sharing.HANG = 15.0


@pytest.mark.anyio
class TestTheRightOne(FactStoreContract):
    lacks = ["learning", "conversations"]

    def make_provider(self, clock):
        return InMemoryProvider(clock=clock)


class Durable:
    local = Local

    def open_store(self, folder, keys, clock):
        storage = EncryptedStorage(Aes256GCMEncryptor(*keys)) if keys else SimpleStorage()
        return self.local(folder, storage=storage, clock=clock)

    def tampered(self, home, older):
        return damages(home)


@pytest.mark.anyio
class TestTheRightDurableStore(Durable, DurableStoreContract):
    pass


@pytest.mark.anyio
class TestTheRightEncryptedStore(Durable, DurableStoreContract):
    is_encrypted = True


def suite(right, wrong):
    class Wrong(right):
        local = wrong

        def make_provider(self, clock):
            return wrong(clock=clock)

    Wrong.__name__ = Wrong.__qualname__ = f"Test{wrong.__name__}"
    return Wrong


for wrong in [*WRONG_PROVIDERS, *WRONG_INDEXES]:
    globals()[f"Test{wrong.__name__}"] = suite(TestTheRightOne, wrong)
for wrong in WRONG_DURABLE_STORES:
    globals()[f"Test{wrong.__name__}"] = suite(TestTheRightDurableStore, wrong)
for wrong in WRONG_ENCRYPTED_STORES:
    globals()[f"Test{wrong.__name__}"] = suite(TestTheRightEncryptedStore, wrong)
"""


class _Results:
    """A pytest plugin that records which tests of which class failed, and how."""

    def __init__(self) -> None:
        self.failed: dict[str, set[str]] = {}
        self.passed: dict[str, set[str]] = {}
        self.errors: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        _, suite, test = report.nodeid.split("::")
        if report.when == "call":
            found = self.failed if report.failed else self.passed
            found.setdefault(suite, set()).add(test.partition("[")[0])
        elif report.failed:
            self.errors.append(report.nodeid)


@pytest.mark.storm
def test_each_wrong_store_fails_the_tests_written_for_its_fault(tmp_path: Path) -> None:
    """The same tests pass on the right store, so every failure of another is due to its fault."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_suites.py").write_text(SUITE)
    chosen = {f"Test{wrong.__name__}": tests for wrong, tests in WRONG.items()}
    named = [
        f"{tmp_path / 'test_suites.py'}::{suite}::{test}"
        for suite, tests in (chosen | RIGHT).items()
        for test in sorted(tests)
    ]
    found = _Results()
    options = ["-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", f"--rootdir={tmp_path}"]

    pytest.main([*options, *named], plugins=[found])

    assert found.failed == {suite: tests for suite, tests in chosen.items() if tests}
    assert {suite: found.passed.get(suite) for suite in RIGHT} == RIGHT
    assert found.errors == []


@pytest.mark.storm
def test_importing_the_contract_is_quick() -> None:
    """The scripted chat model and the clock do not load pytest, and nothing loads openai."""
    probe = (
        "import sys, factmem.testing as testing\n"
        "testing.ScriptedChatModel, testing.SettableClock\n"
        "assert not {'pytest', 'openai', 'cryptography'} & set(sys.modules)\n"
        "assert all(hasattr(testing, name) for name in testing.__all__)\n"
        "assert 'pytest' in sys.modules and 'openai' not in sys.modules\n"
        "assert not hasattr(testing, 'NoSuchContract')\n"
    )

    command = [sys.executable, "-c", probe]
    done = subprocess.run(command, check=False, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


@pytest.mark.storm
def test_a_suite_without_a_provider_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the missing method."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nanyio_mode = auto\n")
    (tmp_path / "test_mine.py").write_text(
        "from factmem.testing import *\n"
        "class TestMine(FactStoreContract): ...\n"
        "class TestOther(ProviderContract): ...\n"
    )

    pytest.main(
        [
            "-q",
            "-p",
            "no:cacheprovider",
            f"--rootdir={tmp_path}",
            "-k",
            "test_it_is_a",
            str(tmp_path),
        ]
    )

    output = capsys.readouterr().out
    assert "Override `make_provider` to return a new store on this clock" in output
    assert "Override the fixture `provider` to return a new provider" in output
    assert " errors in " in output
