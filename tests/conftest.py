"""What every test shares: both event loops, and assertion details from the shipped contracts."""

import pytest

pytest.register_assert_rewrite("factmem.testing")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run every async test and fixture once on each event loop."""
    backend: str = request.param
    return backend
