"""The tests of `tests/providers/test_listing.py`, with pages of two rows."""

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

KEY = Aes256GCMEncryptor.generate_key()


@pytest.fixture(params=["plain", "sealed"], name="store")
def listed(
    request: pytest.FixtureRequest, new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """Return a new, empty store."""
    monkeypatch.setattr("factmem.providers._sql.places.MOST_LISTED", 2)
    name = f"listing {request.node.name}"
    encryption = Aes256GCMEncryptor(KEY) if request.param == "sealed" else None
    return new_store(store=name, encryption=encryption)
