"""The shipped suites over every kind of store: `make postgres` runs them.

Neither sealing nor the way to the server sees the event loop, so each kind runs on one of them.
"""

from typing import Any, ClassVar

import pytest

from factmem.encryption import Aes256GCMEncryptor
from tests.postgres.conftest import Login
from tests.postgres.pooler import Pooler
from tests.postgres.test_conformance import Suites

KEY = Aes256GCMEncryptor.generate_key()


class OnTrio:
    """The other event loop."""

    @pytest.fixture(params=["trio"])
    def anyio_backend(self, request: pytest.FixtureRequest) -> str:
        backend: str = request.param
        return backend


class TestEncrypted(Suites):
    """Names and lines are sealed."""

    options: ClassVar[dict[str, Any]] = {"encryption": Aes256GCMEncryptor(KEY)}


class TestBehindRowSecurity(OnTrio, Suites):
    """In the clear, as a role that is not the owner: every statement passes row level security.

    `make test` runs an owner's store on asyncio.
    """

    @pytest.fixture
    def dsn(self, login: Login) -> str:
        return login.dsn


class TestBehindPgBouncer(OnTrio, Suites):
    """In transaction mode, encrypted, with a role that each transaction takes for itself."""

    @pytest.fixture(autouse=True)
    def _role(self, login: Login) -> None:
        self.options = {  # type: ignore[misc]
            "role": login.role,
            "encryption": Aes256GCMEncryptor(KEY),
        }

    @pytest.fixture
    def dsn(self, pooler: Pooler) -> str:
        return pooler.dsn()
