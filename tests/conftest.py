"""What every test shares: both event loops, and assertion details from the shipped contracts."""

import os

import pytest
from hypothesis import settings

# Everybody's runs search anew; the one that decides whether a change lands is the same each time.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

pytest.register_assert_rewrite("factmem.testing")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run every async test and fixture once on each event loop."""
    backend: str = request.param
    return backend
