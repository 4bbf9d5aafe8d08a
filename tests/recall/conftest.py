"""Recall over each kind of store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from factmem.encryption.key import Key
from factmem.testing.clock import SettableClock
from tests.world import KINDS, NOW, LocalStore, store_of

KEY = Key.generate()


@pytest.fixture
def clock() -> SettableClock:
    """Return the clock of the stores."""
    return SettableClock(NOW)


@pytest.fixture(params=KINDS)
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: SettableClock
) -> AsyncIterator[LocalStore]:
    """Return an empty store of each kind."""
    async with store_of(request.param, tmp_path, clock) as made:
        yield made
