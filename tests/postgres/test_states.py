"""The tests of `tests/providers/test_states.py`, on a server."""

from typing import Any

import pytest

from factmem.encryption import Aes256GCMEncryptor
from tests.postgres.conftest import NewStore
from tests.providers.test_states import (  # noqa: F401 - collected here too
    test_a_changed_history_has_no_entries_since,
    test_an_import_of_older_entries_is_read_once,
    test_only_a_changed_place_is_named,
    test_the_entries_since_a_state_are_the_new_ones,
)

KEY = Aes256GCMEncryptor.generate_key()


@pytest.fixture(params=["plain", "sealed"], name="store")
def opened(request: pytest.FixtureRequest, new_store: NewStore) -> Any:
    """Return a new, empty store."""
    encryption = Aes256GCMEncryptor(KEY) if request.param == "sealed" else None
    return new_store(store=f"states {request.node.name}", encryption=encryption)
