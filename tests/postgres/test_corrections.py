"""What a person corrected stays as it is in PostgreSQL."""

import pytest

from tests.corrections import check_corrections
from tests.postgres.conftest import NewStore


@pytest.mark.postgres
async def test_many_corrections_stay(new_store: NewStore) -> None:
    """A thousand detections against a hundred corrections."""
    async with new_store() as store:
        await check_corrections(store, corrections=100, detections=1000)
