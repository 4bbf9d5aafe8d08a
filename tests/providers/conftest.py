"""Fixtures for local stores: a folder, plain and encrypted."""

from pathlib import Path

import pytest

from factmem.providers.storages import SimpleStorage, Storage
from tests.providers.home import StoreFolder
from tests.providers.local_stores import KEY, sealed


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder that does not exist yet."""
    return tmp_path / "memory" / "store"


@pytest.fixture(params=["plain", "encrypted"])
def storage(request: pytest.FixtureRequest) -> Storage:
    """Run a test once on a plain and once on an encrypted store."""
    return SimpleStorage() if request.param == "plain" else sealed()


@pytest.fixture(params=["plain", "encrypted"])
def home(request: pytest.FixtureRequest, root: Path) -> StoreFolder:
    """Return a folder that does not exist yet, and a way to open a store in it."""
    return StoreFolder(root, () if request.param == "plain" else (KEY.to_base64(),))
