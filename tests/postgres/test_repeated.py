"""Tests of `tests/providers` that matter on a server: listings, states and positions."""

from typing import Any

import pytest

from factmem.encryption import Aes256GCMEncryptor
from tests.postgres.conftest import NewStore
from tests.providers.test_listing import (  # noqa: F401 - collected here too
    test_a_listing_can_be_filtered,
    test_a_listing_continues_after_an_erased_place,
    test_a_view_lists_its_places,
    test_every_place_is_in_one_page,
    test_the_users_of_a_tenant_are_listed,
    test_wrong_arguments_raise,
)
from tests.providers.test_states import (  # noqa: F401
    test_a_changed_history_has_no_entries_since,
    test_an_import_of_older_entries_is_read_once,
    test_only_a_changed_place_is_named,
    test_the_entries_since_a_state_are_the_new_ones,
)
from tests.providers.test_watching import (  # noqa: F401
    test_a_place_that_was_erased_is_another_one,
    test_a_position_continues_after_imports_and_removals,
    test_it_continues_after_its_last_change,
)

KEY = Aes256GCMEncryptor.generate_key()


@pytest.fixture(params=["plain", "sealed"], name="store")
def opened(
    request: pytest.FixtureRequest, new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """Return a new, empty store."""
    monkeypatch.setattr("factmem.providers._sql.places.MOST_LISTED", 2)
    encryption = Aes256GCMEncryptor(KEY) if request.param == "sealed" else None
    return new_store(store=request.node.name, encryption=encryption)
