"""The shipped suites over every kind of store, on asyncio and trio: `make postgres` runs them."""

from typing import Any, ClassVar

import pytest

from factmem.storage.encryption import Aes256GCMEncryptor
from tests.postgres.test_conformance import Suites

KEY = Aes256GCMEncryptor.generate_key()

BOTH = pytest.fixture(params=["asyncio", "trio"])


def _backend(request: pytest.FixtureRequest) -> str:
    backend: str = request.param
    return backend


class TestPlainOnTrio(Suites):
    """`make test` ran it on asyncio."""

    anyio_backend = pytest.fixture(params=["trio"])(lambda self, request: request.param)


class TestEncrypted(Suites):
    """Names and lines are sealed."""

    options: ClassVar[dict[str, Any]] = {"encryption": Aes256GCMEncryptor(KEY)}
