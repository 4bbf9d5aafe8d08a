"""The shipped suites over every kind of store, on asyncio and trio: `make postgres` runs them."""

from typing import Any, ClassVar

import pytest

from factmem.storage.encryption import Aes256GCMEncryptor
from tests.postgres.cluster import Cluster
from tests.postgres.conftest import Login
from tests.postgres.pooler import Pooler
from tests.postgres.test_conformance import Suites

KEY = Aes256GCMEncryptor.generate_key()


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run each test on both event loops."""
    backend: str = request.param
    return backend


class TestPlain(Suites):
    """A store in the clear, as the role that owns the tables."""


class TestEncrypted(Suites):
    """Names and lines are sealed."""

    options: ClassVar[dict[str, Any]] = {"encryption": Aes256GCMEncryptor(KEY)}


class TestBehindRowSecurity(Suites):
    """As a role that is not the owner: every statement passes row level security."""

    @pytest.fixture
    def dsn(self, login: Login) -> str:
        return login.dsn


class TestBehindPgBouncer(Suites):
    """In transaction mode, encrypted, so that saves have several statements."""

    options: ClassVar[dict[str, Any]] = {"encryption": Aes256GCMEncryptor(KEY)}

    @pytest.fixture
    def dsn(self, pooler: Pooler) -> str:
        return pooler.dsn()


class TestRowSecurityBehindPgBouncer(Suites):
    """A role that each transaction takes for itself."""

    @pytest.fixture(autouse=True)
    def _role(self, login: Login) -> None:
        self.options = {"role": login.role}  # type: ignore[misc]

    @pytest.fixture
    def dsn(self, pooler: Pooler, cluster: Cluster) -> str:
        return pooler.dsn()
