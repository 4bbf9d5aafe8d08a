"""The tests of `tests/providers/test_watching.py` about positions, on a server."""

from typing import Any

import pytest

from factmem.encryption import Aes256GCMEncryptor
from tests.postgres.conftest import NewStore
from tests.providers.test_watching import (  # noqa: F401 - collected here too
    test_a_place_that_was_erased_is_another_one,
    test_a_position_continues_after_imports_and_removals,
    test_it_continues_after_its_last_change,
)

KEY = Aes256GCMEncryptor.generate_key()


@pytest.fixture(params=["plain", "sealed"], name="store")
def opened(request: pytest.FixtureRequest, new_store: NewStore) -> Any:
    """Return a new, empty store."""
    encryption = Aes256GCMEncryptor(KEY) if request.param == "sealed" else None
    return new_store(store=f"watch {request.node.name}", encryption=encryption)
